"""The systems under test: one small module a provider, and the targets file that names them."""

from germane.targets.target import Asked, Target
from germane.targets.targetsfile import PROVIDERS, find_targets_file, open_target

__all__ = ["PROVIDERS", "Asked", "Target", "find_targets_file", "open_target"]
