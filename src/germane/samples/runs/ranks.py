"""The state of reading a run: its faults, and whether a column holds ranks (1, 2, 3, ...) or scores (rising numbers)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from germane.clean import counted
from germane.errors import InputError, SourceLocation
from germane.samples.cells import CellCounts
from germane.samples.runs.formats import Floats, Kind, Numbers


def counting_lists(numbers: Floats, starts: Numbers) -> tuple[set[int], int]:
    """Return the first numbers, 0 or 1, of lists that each hold whole numbers from there on in any order, and the largest number.

    The set is empty if a list holds other numbers. The lists start at these rows.
    """
    lengths = np.diff(starts)
    starts, lengths = starts[:-1][lengths > 0], lengths[lengths > 0]
    if not len(lengths):
        return set(), 0
    first = (np.minimum.reduceat(numbers, starts) != 0).astype(np.int64)
    places = np.arange(len(numbers)) - np.repeat(starts - first, lengths)
    order = np.lexsort((numbers, np.repeat(np.arange(len(lengths)), lengths)))
    if not (numbers[order] == places).all():
        return set(), 0
    return {int(first.min()), int(first.max())}, int((first + lengths).max()) - 1


def are_ranks(numbers: Floats, starts: Numbers, name: str) -> tuple[bool, str]:
    """Return whether a column without a name holds ranks, and a note about that; the lists start at these rows.

    Numbers that are 1 to n or 0 to n - 1 in every list, and 2 somewhere, are ranks where they rise from row to row, and scores
    where they fall; in any other order they are an error. Other whole numbers are scores, with a note where they rise down
    every list.
    """
    firsts, most = counting_lists(numbers, starts)
    rises, longest = _all_less(numbers, starts), int(np.diff(starts).max(initial=0))
    counting = " or ".join(f"{first}, {first + 1}, {first + 2}, ..." for first in sorted(firsts))
    if firsts and most >= _RANKS:
        if rises:
            return True, f"{name}: the third column counts {counting} and was read as the rank"
        if _all_less(-numbers, starts):
            down = " or ".join(map(str, sorted(firsts)))
            note = f"{name}: the third column counts down to {down} and was read as the score"
            return False, note if longest > _RANKS else ""
        raise InputError(
            f"the third column counts {counting} in another order than the rows: it may be the rank or a score",
            fix="write what it is as a header: query_id, doc_id, rank (1 is best), or query_id, doc_id, score (highest is best)",
            place=SourceLocation(name),
        )
    whole = np.isfinite(numbers).all() and (numbers % 1 == 0).all()
    if whole and rises and longest >= _RANKS and not firsts:
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

    `bare`: a third column has no name. `mapped`: every query maps documents to numbers; None = no query yet. `counts`: these
    are 1 to n. `rises`: in every query the scores rise with the ranks that stand beside them. `longest`: the length of the
    longest list that was compared.
    """

    name: str
    kind: Kind
    columns: Mapping[str, str] | None
    skip: bool
    notes: list[str] = field(default_factory=list)
    rejected: list[InputError] = field(default_factory=list)
    bare: bool = False
    mapped: bool | None = None
    cells: CellCounts = field(default_factory=CellCounts)
    counts: bool = True
    rises: bool = True
    longest: int = 0

    def at(self, line: int) -> SourceLocation:
        """Return the place of a line."""
        return SourceLocation(self.name, line)

    def count(self, score: Floats, starts: Numbers) -> None:
        """Look whether the scores of some queries, which start at these rows, are 1 to n."""
        self.counts = self.counts and (not len(score) or counting_lists(score, starts)[0] == {1})
        self.longest = max(self.longest, int(np.diff(starts).max(initial=0)))

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
        self.notes += map(str, self.cells.taken())
        if self.rises and self.longest > _RANKS and not self.mapped:
            self.note("scores rise down the ranks; the highest score is taken for the best")
        if self.mapped and self.counts and self.longest > _RANKS:
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
