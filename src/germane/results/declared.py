"""The type of a measure of another program, which states its range and whether more is better."""

from __future__ import annotations

import re
from typing import NamedTuple

Range = tuple[float, float]
_DECLARED = re.compile(r"(?s:.*) \[(?P<low>\S+) to (?P<high>\S+), (?P<better>higher|lower) is better\]")


class Declared(NamedTuple):
    """The range of a measure of another program, and whether more of it is better."""

    range: Range
    higher: bool

    @property
    def better(self) -> str:
        """The direction in which it is better: higher or lower."""
        return "higher" if self.higher else "lower"

    def type_of(self, name: str) -> str:
        """The type of a measure of this name, from which `declared` reads the same."""
        return f"{name} [{self.range[0]!r} to {self.range[1]!r}, {self.better} is better]"


def declared(canonical: str) -> Declared | None:
    """The range and direction that the type of a measure of another program states; None for other types."""
    if canonical.endswith("]") and (found := _DECLARED.fullmatch(canonical)):
        return Declared((float(found["low"]), float(found["high"])), found["better"] == "higher")
    return None
