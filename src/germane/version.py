"""The version, in a module of its own: reports state it, and importing the package for it would be a cycle."""

__all__ = ["__version__"]

__version__ = "0.1.0"
