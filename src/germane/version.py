"""germane's version number. It has its own module because reports need it and importing the package would be a cycle."""

__all__ = ["__version__"]

__version__ = "0.1.0"
