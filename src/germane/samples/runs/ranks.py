"""Whether a column without a name holds ranks or scores, and whether scores rise down the ranks."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from operator import gt, lt

from germane.errors import InputError, SourceLocation
from germane.samples.runs.results import Run


class RankedScores:
    """Tells if a file that names both ranks and scores gives the best rank the lowest score, from its rows, one by one."""

    def __init__(self) -> None:
        self._pairs: dict[str, array[float]] | None = {}
        self._last: tuple[str, float, float] | None = None

    def add(self, query: str, rank: float, score: float) -> None:
        """Take a row; nothing is kept once two rows of a query say that scores do not rise."""
        if self._pairs is None:
            return
        if self._last is not None and self._last[0] == query:
            _, before, other = self._last
            if before == rank or (before < rank) is not (other < score):
                self._pairs = None
                return
        self._last = query, rank, score
        self._pairs.setdefault(query, array("d")).extend((rank, score))

    @property
    def undecided(self) -> bool:
        """True while rows can still change what `rises` says."""
        return self._pairs is not None

    @property
    def rises(self) -> bool:
        """True if the scores of every query rise with its ranks, one of them of three documents or more."""
        lists = [sorted(zip(pairs[::2], pairs[1::2], strict=True)) for pairs in (self._pairs or {}).values()]
        return max(map(len, lists), default=0) > 2 and all(
            a[0] < b[0] and a[1] < b[1] for listed in lists for a, b in pairwise(listed)
        )


class NumberedLists:
    """Decides if a column that nobody named holds ranks or scores, from the numbers of all lists, added one by one.

    Numbers that are 1 to n or 0 to n - 1 in every list, and 2 somewhere, are ranks where they rise from row to row and scores
    where they fall; in any other order nobody can tell. Other whole numbers are scores, which a note says where they rise down
    every list.
    """

    def __init__(self) -> None:
        self.longest = 0
        self._firsts = set[int]()
        self._counts = self._rises = self._falls = self._whole = True
        self._most = 0

    def add(self, numbers: Sequence[float]) -> None:
        """Take the numbers of one list, in the order of its rows; nothing is looked at once they can only be scores."""
        if not numbers or (not self._counts and not (self._whole and self._rises)):
            return
        n, ordered = len(numbers), sorted(numbers)
        first = int(ordered[0] != 0)
        self.longest = max(self.longest, n)
        self._firsts.add(first)
        self._most = max(self._most, first + n - 1)
        self._counts &= ordered == list(range(first, first + n))
        self._rises &= all(map(lt, numbers, numbers[1:]))
        self._falls &= all(map(gt, numbers, numbers[1:]))
        self._whole &= all(number % 1 == 0 for number in numbers)

    @property
    def count_from_one(self) -> bool:
        """True if every list up to now holds 1 to n, in any order."""
        return self._counts and 0 not in self._firsts

    def decide(self, name: str) -> tuple[bool, str]:
        """True if the numbers are ranks, and the note that belongs to it; InputError where nobody can tell."""
        if self._counts and self._most >= _RANKS:
            counting = " or ".join(
                f"{first}, {first + 1}, {first + 2}, ..." for first in sorted(self._firsts)
            )
            if self._rises:
                return True, read_as_rank(name, counting)
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
            return (
                False,
                f"{name}: the third column rises down every list and was read as the score; {_IF_RANK}",
            )
        return False, ""


_RANKS = 2
"""A number that a column of ranks holds: 0 and 1 alone are scores. Also, the length of lists that tell little."""
_IF_RANK = "if it is the rank, write a header: query_id, doc_id, rank"


def ranks_not_scores(run: Run) -> Run:
    """A run whose bare third column may be the rank (MS MARCO's format): without scores where it is, with a note."""
    lists = [results for results in run.queries.values() if results.ids]
    numbers = NumberedLists()
    for results in lists:
        numbers.add(results.scores)
    is_rank, note = numbers.decide(run.name)
    for results in lists if is_rank else ():
        del results.scores[:]
    return replace(run, notes=(*run.notes, note)) if note else run


def read_as_rank(name: str, counting: str = "1, 2, 3, ...") -> str:
    """The note that a column was taken for the rank."""
    return f"{name}: the third column counts {counting} and was read as the rank"


def rising_scores(name: str) -> str:
    """The note that a file names ranks and scores, and the best rank has the lowest score."""
    return f"{name}: scores rise down the ranks; the highest score is taken for the best"


def mapped_to_ranks(name: str) -> str:
    """The note that a mapping of documents to numbers may mean ranks."""
    return f"{name}: documents are mapped to 1, 2, 3, ..., which were read as scores: the highest is taken for the best"
