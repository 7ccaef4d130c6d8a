"""Warnings about input: what looks like a mistake and is read all the same, each said once."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeAlias

from germane.errors import Place

__all__ = ["Notice", "Notices", "Warn", "nearest"]


@dataclass(frozen=True, slots=True)
class Notice:
    """Something in the input that is probably not meant: what, what to write instead, and where it stands first."""

    problem: str
    fix: str = ""
    place: Place | None = None

    def __str__(self) -> str:
        """`place: problem; fix` on one line, as an error prints."""
        where = f"{self.place}: " if self.place else ""
        return f"{where}{self.problem}{'; ' + self.fix if self.fix else ''}"


Warn: TypeAlias = Callable[[Notice], None]


class Notices:
    """A `warn` that keeps each distinct problem once, at the place where it was seen first."""

    def __init__(self, pass_on: Warn | None = None) -> None:
        self._seen: dict[tuple[str, str], Notice] = {}
        self._pass_on = pass_on

    def __call__(self, notice: Notice) -> None:
        """Take one notice; a problem that was said before is dropped."""
        key = (notice.problem, notice.fix)
        if key not in self._seen:
            self._seen[key] = notice
            if self._pass_on is not None:
                self._pass_on(notice)

    def __iter__(self) -> Iterator[Notice]:
        return iter(self._seen.values())

    def __len__(self) -> int:
        return len(self._seen)


def fold(name: str) -> str:
    """A name without case, underscores, dashes and blanks: `expectedRelevantCount` is `expected_relevant_count`."""
    return name.replace("_", "").replace("-", "").replace(" ", "").casefold()


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that `name` is probably a slip of; None where none is near."""
    folded: dict[str, str] = {}
    for one in known:
        folded.setdefault(fold(one), one)
    near = difflib.get_close_matches(fold(name), folded, n=1, cutoff=0.8)
    return folded[near[0]] if near else None
