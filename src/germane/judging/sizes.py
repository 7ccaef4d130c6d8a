"""Which sizes of request an endpoint took and which were too long for it, in bytes.

No more than a guess: some texts are three times as many tokens a byte as others. It is for lists alone, since a list
that is split without need loses no verdict, while contexts that are judged together can.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Sizes"]


@dataclass(slots=True)
class Sizes:
    """The size of the `largest` request that was read to its end, and the `least` of a list that was not; 0 = none."""

    largest: int = 0
    least: int = 0

    def read(self, size: int) -> None:
        """A request of that size was read to its end."""
        self.largest = max(size, self.largest)

    def refused(self, size: int) -> None:
        """A list of that size was too long."""
        self.least = min(size, self.least or size)

    def fits(self, size: int) -> bool:
        """Whether a list of that size may fit; a larger request that was read says more than a smaller one that was not."""
        return not self.least or size < self.least or size <= self.largest
