"""The best of three or more systems by each measure, and what is left of its gain once choosing it is paid for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import reduce

import numpy as np

from germane.comparison.schema import BestLine
from germane.reports.pairing import PairedSystems
from germane.reports.summary import higher_is_better, is_diagnostic, limits_of, range_of
from germane.statistics.choosing import best_system


def best_systems(pairs: Sequence[PairedSystems], measures: Iterable[str], seed: int) -> Iterator[BestLine]:
    """Yield a line per measure that says how good a system is, over the queries that all systems were measured on.

    None where fewer than three systems are compared, or they are not all compared with the same one.
    """
    first = pairs[0].a
    if len(pairs) < 2 or any(pair.a is not first for pair in pairs):
        return
    clusters = {case: name for pair in reversed(pairs) for case, name in pair.clusters.items()}
    for name in measures:
        canonical = first.types[name]
        if is_diagnostic(canonical):
            continue
        both = [pair.values(name) for pair in pairs]
        known = [np.asarray(ours.case[ours.complete & theirs.complete]) for ours, theirs in both]
        cases = reduce(np.intersect1d, known)
        if not len(cases):
            continue
        sides = [[side.taken(np.flatnonzero(np.isin(side.case, cases))) for side in pair] for pair in both]
        sign = 1.0 if higher_is_better(canonical) else -1.0
        gains = [sign * (theirs.values - ours.values) for ours, theirs in sides]
        span = limits_of(range_of(canonical), *(side for pair in sides for side in pair))
        found = best_system(
            np.stack([np.zeros(len(cases)), *gains], axis=1),
            clusters=first.scores.clusters_of(sides[0][0].case, clusters),
            value_range=None if span is None else (span[0] - span[1], span[1] - span[0]),
            seed=seed,
        )
        names = [first.name, *(pair.b.name for pair in pairs)]
        yield BestLine(names[found.number], name, found.gain, found.held_out, found.ends)
