"""A helper that imports a package's public names only when they are first used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any


def lazily(package: str, home: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a `__getattr__` for a package that imports a public name from its module on first use.

    Args:
        package: The package's name.
        home: Maps each public name to its module, relative to the package.
    """

    def get(name: str) -> Any:
        if name not in home:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = getattr(import_module(f"{package}.{home[name]}"), name)
        setattr(sys.modules[package], name, value)  # the next use finds it there
        return value

    return get
