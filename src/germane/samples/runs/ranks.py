"""Decides whether a run's number column holds ranks or scores, and collects the errors and notes of reading a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from germane.clean import counted
from germane.errors import InputError, SourceLocation
from germane.samples.cells import CellCounts
from germane.samples.runs.formats import Floats, Kind, Numbers


def counting_lists(numbers: Floats, starts: Numbers) -> tuple[set[int], int]:
    """Check whether each list holds consecutive whole numbers from 0 or 1 on, in any order, as ranks do.

    Returns the set of first numbers (a subset of {0, 1}, empty if a list holds other numbers) and the largest
    number. `starts` are the rows at which the lists start.
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
    """Return True if an unnamed number column holds ranks, False if it holds scores, and a note for the user or "".

    Numbers that are 1 to n or 0 to n - 1 in every list, with a 2 somewhere, are ranks if they rise from row to row and
    scores if they fall. All other numbers are scores, with a note if whole numbers rise in every list. `starts` are the
    rows at which the lists start. Raises InputError if numbers from 1 to n are in any other order.
    """
    firsts, most = counting_lists(numbers, starts)
    rises, longest = _all_less(numbers, starts), int(np.diff(starts).max(initial=0))
    if firsts and most >= _RANKS:
        counting = " or ".join(f"{first}, {first + 1}, {first + 2}, ..." for first in sorted(firsts))
        if rises:
            return True, f"{name}: the third column counts {counting} and was read as the rank"
        if _all_less(-numbers, starts):
            down = " or ".join(map(str, sorted(firsts)))
            note = f"{name}: the third column counts down to {down} and was read as the score"
            return False, note if longest > _RANKS else ""
        problem = f"the third column counts {counting} in another order than the rows"
        problem += ", so that it may hold ranks or scores"
        fix = "add a header: query_id, doc_id, rank (1 is best), or query_id, doc_id, score (highest is best)"
        raise InputError(problem, fix=fix, place=SourceLocation(name))
    whole = np.isfinite(numbers).all() and (numbers % 1 == 0).all()
    if whole and rises and longest >= _RANKS and not firsts:
        note = "rises within every query and was read as the score; if it is the rank, add a header: query_id, doc_id, rank"
        return False, f"{name}: the third column {note}"
    return False, ""


_RANKS = 2
"""The number that a column must reach to hold ranks (0 and 1 alone are scores); shorter lists get no note."""


def _all_less(numbers: Floats, starts: Numbers) -> bool:
    """Return True if the numbers rise strictly within every query, from the rows `starts` on."""
    rises = numbers[1:] > numbers[:-1]
    inside = starts[(starts > 0) & (starts < len(numbers))]
    rises[inside - 1] = True
    return bool(rises.all())


@dataclass
class Reading:
    """The state of one pass over a run or gold: its settings, rejected rows, and the facts that its notes depend on.

    `skip` leaves out invalid rows (`rejected`). `bare` is True if the third column has no name, `mapped` if
    all queries so far map documents to numbers (None before the first), `counts` if these are 1 to n, `rises` if
    scores rise with ranks in every query. `longest` is the length of the longest list that was checked.
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
        """Return the SourceLocation of a line of the source."""
        return SourceLocation(self.name, line)

    def count(self, score: Floats, starts: Numbers) -> None:
        """Update `counts`: check whether the scores of each query, from the rows `starts` on, are 1 to n."""
        self.counts = self.counts and (not len(score) or counting_lists(score, starts)[0] == {1})
        self.longest = max(self.longest, int(np.diff(starts).max(initial=0)))

    def compare(self, rank: Floats, score: Floats, starts: Numbers) -> None:
        """Set `rises`: True if scores rise with ranks in each query (rows from `starts` on); nan: no rank."""
        ranked = ~np.isnan(rank)
        starts = np.concatenate([[0], np.cumsum(ranked)])[starts]
        rank, score = rank[ranked], score[ranked]
        order = np.lexsort((score, rank, np.repeat(np.arange(len(starts) - 1), np.diff(starts))))
        self.rises = _all_less(rank[order], starts) and _all_less(score[order], starts)
        self.longest = max(self.longest, int(np.diff(starts).max(initial=0)))

    def reject(self, fault: InputError) -> None:
        """Raise the error of an invalid row, or store it in `rejected` if invalid rows are skipped."""
        if not self.skip:
            raise fault
        self.rejected.append(fault)

    def note(self, text: str) -> None:
        """Add a note that begins with the name of the source."""
        self.notes.append(f"{self.name}: {text}")

    def finish(self) -> None:
        """Add the notes that can be decided only after all rows: ambiguous scores, suspicious cells, skipped rows."""
        self.notes += map(str, self.cells.taken())
        if self.rises and self.longest > _RANKS and not self.mapped:
            found = "the scores rise with the ranks, so that rank 1 has the lowest score"
            self.note(f"{found}; results are sorted by score, highest first")
        if self.mapped and self.counts and self.longest > _RANKS:
            found = "the numbers 1, 2, 3, ... of the documents"
            self.note(f"{found} were read as scores, of which the highest is best")
        if self.rejected:
            rows, were = counted(len(self.rejected), "row"), "was" if len(self.rejected) == 1 else "were"
            self.note(f"{rows} could not be read and {were} left out; the first: {self.rejected[0]}")


def nan_error(query: str, doc: str, where: SourceLocation) -> InputError:
    """Return the InputError for a result whose score is NaN."""
    problem = f"the score of document {doc} in query {query} is NaN, which cannot be ranked"
    return InputError(problem, fix="write a number (inf and -inf are allowed) or remove the row", place=where)
