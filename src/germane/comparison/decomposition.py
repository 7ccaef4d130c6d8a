"""The parts of a measure's difference, query by query, from stored answers: other lists, and other labels.

Between A and B stands M, the score of B's lists with A's verdicts and A's gold. M - A is retrieval, B - M is labels.
"""

from __future__ import annotations

import numpy as np

from germane.comparison.parts import MixedScore, how_judged, verdicts_of
from germane.reports.pairing import PairedSystems
from germane.reports.summary import limits_of, range_of
from germane.statistics.comparison import DifferenceParts, split_difference


def split_by_cause(pair: PairedSystems, measure: str, mixed: MixedScore) -> DifferenceParts | str:
    """The difference of a measure, by its reported name, as two parts that sum to it; or why it cannot be split."""
    if verdicts_of((pair.a, pair.b), measure) == "judge" and (why := how_judged(pair.a, pair.b, [measure])):
        return why
    ours, theirs = pair.values(measure)
    common = np.flatnonzero(ours.complete & theirs.complete)
    if not len(common):
        return "no query was measured in both"
    case = ours.case[common]
    a, b, regolded = ours.low[common], theirs.low[common], mixed.regolded[case]
    if (regolded & ~mixed.same_lists[case]).any():
        return "of some queries both the lists and the reference changed"
    between = np.where(regolded, a, mixed.values[case])
    between = np.where(np.isnan(between), b, between)  # A's verdicts say nothing of these lists
    return split_difference(
        between - a,
        b - between,
        clusters=pair.a.scores.clusters_of(case, pair.clusters),
        value_range=limits_of(range_of(pair.a.types[measure]), ours.taken(common), theirs.taken(common)),
    )


def other_corpus(pair: PairedSystems) -> bool | None:
    """True if the two were run on different corpora; None where that is not known of both."""
    if pair.a.report is pair.b.report:
        return None
    entries = (side.report.manifest.get("corpus") for side in (pair.a, pair.b))
    ours, theirs = (entry.get("digest") if isinstance(entry, dict) else None for entry in entries)
    return None if ours is None or theirs is None else ours != theirs
