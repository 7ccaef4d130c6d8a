"""Lazy import of a package's public names."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazily(package: str, home: Mapping[str, str]) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package, for names that stand in modules of it.

    Args:
        package: Its name.
        home: The module of each public name, relative to the package.
    """

    def get(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{home[name]}"), name)
        setattr(sys.modules[package], name, value)  # the next use finds it there
        return value

    return get
