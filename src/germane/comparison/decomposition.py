"""The causes of a measure's difference - corpus, retrieval, judge, labels - query by query, from stored answers.

Between A and B stands M, the score of B's lists with A's verdicts and A's gold. M - A is retrieval, B - M is the judge, or the
labels. Where stored answers cannot tell two causes apart, their part is shown joined and belongs to neither:

- retrieval+judge: another judge judged B, and A holds no verdict on a passage that B's list has new;
- retrieval+labels, judge+labels: the reference changed that passages were judged against, or claims were taken from, and so
  did the list, or the judge;
- corpus+...: the two were run on different corpora, so what other lists make is also what other documents make.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from germane.comparison.parts import MixedScore, how_judged, verdicts_of
from germane.reports.pairing import Floats, PairedSystems
from germane.reports.summary import limits_of, range_of
from germane.statistics.comparison import DifferenceParts, split_difference

_ORDER = ("corpus", "retrieval", "judge", "labels")


def split_by_cause(pair: PairedSystems, measure: str, mixed: MixedScore) -> DifferenceParts | None:
    """The difference of a measure, by its reported name, as parts that sum to it; None where no case has both scores.

    `corpus` is among the causes where both reports know their corpus (`--corpus`): alone and 0 where it is the same.
    """
    ours, theirs = pair.values(measure)
    common = np.flatnonzero(ours.complete & theirs.complete)
    if not len(common):
        return None
    case = ours.case[common]
    a, b, between, own = ours.low[common], theirs.low[common], mixed.values[case], mixed.own[case]
    verdicts = verdicts_of((pair.a, pair.b), measure)
    moved_to = other_corpus(pair)
    lists = {"corpus", "retrieval"} if moved_to else {"retrieval"}
    alone = {None: ("retrieval", "judge", "labels"), False: _ORDER, True: ("judge", "labels")}[moved_to]
    causes = {name: np.zeros(len(common)) for name in alone}

    def add(names: set[str], amount: Floats, rows: NDArray[np.bool_]) -> None:
        cause = "+".join(name for name in _ORDER if name in names)
        if rows.any():
            causes[cause] = causes.get(cause, np.zeros(len(common))) + np.where(rows, amount, 0.0)

    other_judge = verdicts == "judge" and bool(how_judged(pair.a, pair.b, [measure]))
    regolded, same_lists = mixed.regolded[case], mixed.same_lists[case]
    unknown = np.isnan(between) & ~regolded
    plain = ~regolded & ~unknown
    of_verdicts = {"judge"} if verdicts == "judge" else {"labels"}
    add(lists, between - a, plain & ~(own & other_judge))
    add(lists | {"judge"}, between - a, plain & own & other_judge)
    add(of_verdicts, b - between, plain)
    add(lists | of_verdicts, b - a, unknown)
    of_gold = {"labels", "judge"} if other_judge else {"labels"}
    add(of_gold, b - a, regolded & same_lists)
    add(lists | of_gold, b - a, regolded & ~same_lists)
    canonical = pair.a.types[measure]
    return split_difference(
        {cause: causes[cause] for cause in sorted(causes, key=_sort_key)},
        clusters=pair.a.scores.clusters_of(case, pair.clusters),
        value_range=limits_of(range_of(canonical), ours.taken(common), theirs.taken(common)),
    )


def _sort_key(cause: str) -> tuple[int, int]:
    names = cause.split("+")
    return len(names), _ORDER.index(names[0])


def other_corpus(pair: PairedSystems) -> bool | None:
    """True if the two were run on different corpora; None where that is not known of both."""
    if pair.a.report is pair.b.report:
        return None
    entries = (side.report.manifest.get("corpus") for side in (pair.a, pair.b))
    ours, theirs = (entry.get("digest") if isinstance(entry, dict) else None for entry in entries)
    return None if ours is None or theirs is None else ours != theirs
