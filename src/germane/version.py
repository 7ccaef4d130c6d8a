"""germane's version number, in a module of its own that reports can import without an import cycle."""

__all__ = ["__version__"]

__version__ = "0.1.0"
