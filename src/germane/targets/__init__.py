"""The systems under test: one small module a provider, and the targets file that names them."""

from germane.targets.target import Target
from germane.targets.targetsfile import PROVIDERS, find_targets_file, open_target

__all__ = ["PROVIDERS", "Target", "find_targets_file", "open_target"]
