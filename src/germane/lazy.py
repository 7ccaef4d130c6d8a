"""A helper that imports a package's public names only when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazily(package: str, home: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a package's `__getattr__` that imports names on first use; `home` maps each to its module."""

    def get(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{home[name]}"), name)
        setattr(sys.modules[package], name, value)  # later uses do not call `__getattr__`
        return value

    return get
