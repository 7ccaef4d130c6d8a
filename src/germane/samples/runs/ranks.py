"""The state of reading a run: its faults, and whether a column holds ranks (1, 2, 3, ...) or scores (rising numbers)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from germane.clean import counted
from germane.errors import InputError, SourceLocation
from germane.samples.cells import CellCounts
from germane.samples.runs.formats import Floats, Kind, Numbers


class NumberedLists:
    """Decides whether a column without a name holds ranks or scores, from the numbers of all lists.

    Numbers that are 1 to n or 0 to n - 1 in every list, and 2 somewhere, are ranks where they rise from row to row, and scores
    where they fall; in any other order they are an error. Other whole numbers are scores, with a note where they rise down
    every list.
    """

    def __init__(self) -> None:
        self.longest = 0
        self._firsts = set[int]()
        self._counts = self._rises = self._falls = self._whole = True
        self._most = 0

    def add(self, numbers: Floats, starts: Numbers) -> None:
        """Add the numbers of some lists, which start at these rows; nothing is done once they can only be scores."""
        if not len(numbers) or not (self._counts or (self._whole and self._rises)):
            return
        self._rises = self._rises and _all_less(numbers, starts)
        self._falls = self._falls and _all_less(-numbers, starts)
        self._whole = self._whole and bool(np.isfinite(numbers).all() and (numbers % 1 == 0).all())
        of, lengths = _queries(starts), np.diff(starts)
        starts, lengths = starts[:-1][lengths > 0], lengths[lengths > 0]
        first = (np.minimum.reduceat(numbers, starts) != 0).astype(np.int64)
        self.longest = max(self.longest, int(lengths.max()))
        self._firsts |= {int(first.min()), int(first.max())}
        self._most = max(self._most, int((first + lengths).max()) - 1)
        places = np.arange(len(numbers)) - np.repeat(starts - first, lengths)
        if self._counts and not (numbers == places).all():
            self._counts = bool((numbers[np.lexsort((numbers, of))] == places).all())

    @property
    def count_from_one(self) -> bool:
        """True if every list up to now holds 1 to n, in any order."""
        return self._counts and 0 not in self._firsts

    @property
    def may_be_ranks(self) -> bool:
        """True if the numbers up to now are ranks."""
        return self._counts and self._rises and self._most >= _RANKS

    def decide(self, name: str) -> tuple[bool, str]:
        """Return whether the numbers are ranks, and the note about that; InputError where they may be either."""
        counting = " or ".join(f"{first}, {first + 1}, {first + 2}, ..." for first in sorted(self._firsts))
        if self.may_be_ranks:
            return True, f"{name}: the third column counts {counting} and was read as the rank"
        if self._counts and self._most >= _RANKS:
            if self._falls:
                down = " or ".join(map(str, sorted(self._firsts)))
                note = f"{name}: the third column counts down to {down} and was read as the score"
                return False, note if self.longest > _RANKS else ""
            raise InputError(
                f"the third column counts {counting} in another order than the rows: it may be the rank or a score",
                fix="write what it is as a header: query_id, doc_id, rank (1 is best), or query_id, doc_id, score (highest is best)",
                place=SourceLocation(name),
            )
        if self._whole and self._rises and self.longest >= _RANKS and not self._counts:
            note = "rises down every list and was read as the score; if it is the rank, write a header: query_id, doc_id, rank"
            return False, f"{name}: the third column {note}"
        return False, ""


_RANKS = 2
"""A number that a column of ranks holds: 0 and 1 alone are scores. Also, the length of lists that tell little."""


def _queries(starts: Numbers) -> Numbers:
    """Return the number of each row's query."""
    return np.repeat(np.arange(len(starts) - 1), np.diff(starts))


def _all_less(numbers: Floats, starts: Numbers) -> bool:
    """Return True if each number is less than the next one of its query."""
    rises = numbers[1:] > numbers[:-1]
    inside = starts[(starts > 0) & (starts < len(numbers))]
    rises[inside - 1] = True
    return bool(rises.all())


@dataclass
class Reading:
    """One pass over a run or gold: its settings, its notes, and the state that decides them.

    `bare`: a third column has no name. `mapped`: every query maps documents to numbers; None = no query yet. `rises`: in every
    query the scores rise with the ranks that stand beside them, of which the `longest` list has so many.
    """

    name: str
    kind: Kind
    columns: Mapping[str, str] | None
    skip: bool
    notes: list[str] = field(default_factory=list)
    rejected: list[InputError] = field(default_factory=list)
    bare: bool = False
    mapped: bool | None = None
    counts: CellCounts = field(default_factory=CellCounts)
    rises: bool = True
    longest: int = 0
    numbers: NumberedLists = field(default_factory=NumberedLists)

    def at(self, line: int) -> SourceLocation:
        """Return the place of a line."""
        return SourceLocation(self.name, line)

    def compare(self, rank: Floats, score: Floats, starts: Numbers) -> None:
        """Compare the ranks (nan = none) and scores of some queries, which start at these rows."""
        ranked = ~np.isnan(rank)
        starts = np.concatenate([[0], np.cumsum(ranked)])[starts]
        rank, score = rank[ranked], score[ranked]
        order = np.lexsort((score, rank, _queries(starts)))
        self.rises = _all_less(rank[order], starts) and _all_less(score[order], starts)
        self.longest = max(self.longest, int(np.diff(starts).max(initial=0)))

    def reject(self, fault: InputError) -> None:
        """Raise the fault of a row, or count it if such rows are skipped."""
        if not self.skip:
            raise fault
        self.rejected.append(fault)

    def note(self, text: str) -> None:
        """Add a remark on the file."""
        self.notes.append(f"{self.name}: {text}")

    def finish(self) -> None:
        """Add the remarks that depend on all rows."""
        self.notes += map(str, self.counts.taken())
        if self.rises and self.longest > _RANKS:
            self.note("scores rise down the ranks; the highest score is taken for the best")
        if self.mapped and self.numbers.count_from_one and self.numbers.longest > 2:
            self.note(
                "documents are mapped to 1, 2, 3, ..., which were read as scores: the highest is taken for the best"
            )
        if self.rejected:
            rows = counted(len(self.rejected), "row")
            self.note(f"{rows} that cannot be read left out, the first: {self.rejected[0]}")


def nan_error(query: str, doc: str, where: SourceLocation) -> InputError:
    """Return the error for a score of NaN."""
    problem = f"the score of document {doc} in query {query} is NaN, which has no place in an order"
    return InputError(problem, fix="write a number (inf and -inf are allowed) or drop the line", place=where)
