"""The systems under test: one small module a provider, and the targets file that names them."""

from germane.targets.target import Asked, Target

__all__ = ["Asked", "Target"]
