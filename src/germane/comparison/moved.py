"""The queries that moved most between two systems."""

from __future__ import annotations

from typing import Literal

import numpy as np
from msgspec import UnsetType

from germane.encoding import Line
from germane.places.lists import distinct_contexts, relevant
from germane.reports.pairing import PairedSystems
from germane.reports.summary import higher_is_better
from germane.types import Sample


class MovedLine(Line):
    """A query whose score changed; `gold` holds the id of each gold document and its old and new rank, null = not retrieved."""

    sample: str
    query: str
    a: float
    b: float
    change: float
    gold: list[tuple[str, int | None, int | None]] | UnsetType | None = None


def moved_queries(
    pair: PairedSystems, measure: str, most: int = 5
) -> dict[Literal["worst", "best"], list[MovedLine]]:
    """Return the queries that lost and gained most by a measure, at most `most` of each, largest change first."""
    ours, theirs = pair.values(measure)
    change = theirs.values - ours.values
    gain = change if higher_is_better(pair.a.types[measure]) else -change
    order = np.argsort(np.where(np.isnan(gain), 0.0, gain), kind="stable")
    worst = [row for row in order[:most].tolist() if gain[row] < 0]
    best = [row for row in order[::-1][:most].tolist() if gain[row] > 0]
    case_of = {row: pair.a.scores.cases[int(ours.case[row])] for row in (*worst, *best)}
    cases = set(case_of.values())
    in_a = {case: of for case in pair.b.scores.cases if (of := pair.case_in_a(case)) in cases}
    before = pair.a.first_of(cases)
    after = {in_a[case]: sample for case, sample in pair.b.first_of(in_a).items()}

    def line(row: int) -> MovedLine:
        case, low, high = case_of[row], float(ours.low[row]), float(theirs.low[row])
        a, b = before.get(case), after.get(case)
        gold = _gold_ranks(a, b) if a and b else None
        return MovedLine(case, a.query if a else "", low, high, high - low, gold)

    return {"worst": list(map(line, worst)), "best": list(map(line, best))}


def _gold_ranks(a: Sample, b: Sample) -> list[tuple[str, int | None, int | None]]:
    """Return the ranks of each gold document in both lists (None = not retrieved), those that moved first."""
    old, new = (
        {context.id: at for at, context in reversed(list(enumerate(distinct_contexts(side), 1)))}
        for side in (a, b)
    )
    groups = (name for group in a.gold or () for name in group)
    ranks = [(name, old.get(name), new.get(name)) for name in dict.fromkeys((*relevant(a, 1), *groups))]
    return sorted(ranks, key=lambda row: row[1] == row[2])
