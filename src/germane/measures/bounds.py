"""The values of ranked measures for rankings and samples, and their bounds if labels are missing."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from math import fsum, inf

import numpy as np

from germane.measures.measure import Measure
from germane.places.table import (
    CERTAINTY,
    Bools,
    Floats,
    Ints,
    RankedLabels,
    pointers_of,
    ratio,
    reached,
    so_far,
)

ENUMERATED = 12
"""The most uncertain labels in one person's ranking up to which all yes/no combinations are tried."""
MOST = 2**14
"""The most combinations of missing labels to try; with more, `bounds` returns the measure's range."""
_MOST_WORK = 2**18
"""The most combinations of missing and uncertain labels together that `bounds` tries."""
_PLACES = 2**20
"""The most places in one call of a formula, which limits memory."""


def values(measure: Measure, table: RankedLabels) -> Floats:
    """Return the values of a ranked measure, one for each ranking (row) of the table."""
    result = measure.definition.compute(table, measure.settings, measure.k)
    found = np.asarray(ratio(*result) if isinstance(result, tuple) else result, dtype=np.float64)
    return found if table.several is None or _graded(measure) else _with_expectations(measure, table, found)


def sample_means(measure: Measure, table: RankedLabels, rows: Sequence[int]) -> Floats:
    """Return a measure's mean over the rankings of each sample, 0 for a sample without rankings.

    The rankings of sample n are the rows `rows[n]` to `rows[n + 1] - 1` of the table.
    """
    of_rankings, counts = values(measure, table), np.diff(rows)
    if counts.max(initial=0) <= 1:
        means = np.zeros(len(counts))
        means[counts == 1] = of_rankings
        return means
    listed = of_rankings.tolist()
    return np.array([fsum(listed[a:b]) / (b - a) if b > a else 0.0 for a, b in pairwise(rows)])


def least_level(measure: Measure) -> float:
    """Return the lowest grade that counts as relevant: the measure's `rel`, or the default for its labels."""
    from germane.questions.relevance import HELPS  # not at the top: `germane rank` has no judge

    return measure.settings.get("rel") or (1 if measure.labels == "gold" else HELPS)


def open_holes(measure: Measure) -> bool:
    """Return True if an unjudged passage makes the score incomplete; False if it counts as not relevant."""
    settings = measure.settings
    about_holes = measure.name == "Judged" or settings.get("part") == "residual"
    return measure.labels == "human" and not about_holes and settings.get("holes", "zero") == "zero"


def _uncertain(measure: Measure, table: RankedLabels) -> tuple[Floats, Bools]:
    """Return the probability that each passage is relevant, and a mask of passages with uncertain labels.

    Passages below the cut-off, and in rankings not labelled by several people, are not in the mask.
    """
    chance = reached(table.level, table.chances, measure.settings["rel"] or table.rel).astype(np.float64)
    open_ = (chance > CERTAINTY) & (chance < 1 - CERTAINTY) & table.judged
    if table.several is not None:
        open_ &= table.several[table.row]
    if measure.k is not None and measure.settings.get("holes") != "condensed":
        open_ &= table.rank <= measure.k
    return chance, open_


def _with_expectations(measure: Measure, table: RankedLabels, found: Floats) -> Floats:
    """Return `found`, the measure's value per row, with expected values for rows with uncertain labels.

    An expected value is the mean over all yes/no combinations of the row's uncertain labels, weighted by
    their probabilities. Values of rows with too many uncertain labels are left unchanged.
    """
    chance, open_ = _uncertain(measure, table)
    uncertain = np.bincount(table.row[open_], minlength=table.rows)
    rows = np.flatnonzero((uncertain > 0) & (uncertain <= ENUMERATED))
    if not len(rows):
        return found
    found, number = found.copy(), so_far(table, open_) - 1  # of each uncertain place in its row, from 0
    level = np.where(table.judged, np.where(chance >= 0.5, inf, 0.0), np.nan)
    sizes = np.cumsum(np.diff(table.pointers)[rows] << uncertain[rows])
    for batch in np.split(rows, np.flatnonzero(np.diff(sizes // _PLACES)) + 1):
        copies = 1 << uncertain[batch]
        row = np.repeat(batch, copies)
        pointers = pointers_of(np.diff(table.pointers)[row])
        copy = np.repeat(np.arange(len(row)), np.diff(pointers))
        at = table.pointers[row][copy] + np.arange(len(copy)) - pointers[copy]
        bits = np.arange(len(row)) - np.repeat(pointers_of(copies)[:-1], copies)
        yes = (bits[copy] >> np.where(open_, number, 0)[at] & 1).astype(np.bool_)
        tried = np.where(open_[at], np.where(yes, inf, 0.0), level[at])
        weight = np.where(open_[at], np.where(yes, chance[at], 1.0 - chance[at]), 1.0)
        tried_table = RankedLabels.of_columns(pointers, tried, table.gain[at], rel=table.rel)
        means = values(measure, tried_table) * np.multiply.reduceat(weight, pointers[:-1])
        found[batch] = np.add.reduceat(means, pointers_of(copies)[:-1])
    return found


def fraction(measure: Measure, table: RankedLabels) -> tuple[Floats, Floats] | None:
    """Return a measure's numerators and denominators per row; None if its formula is not a fraction."""
    result: tuple[Floats, Floats] | Floats = measure.definition.compute(table, measure.settings, measure.k)
    return result if isinstance(result, tuple) else None


def bounds(
    measure: Measure, table: RankedLabels, missing: Ints, *, binary: bool = False, top: int = 3
) -> tuple[float, float]:
    """Return the lowest and highest possible value of a measure for one sample with missing labels.

    `missing` has a value for each passage of the sample's rankings (`table`): -1 if its label is known, else
    a number; passages with the same number (the same text twice) get the same label. All combinations are
    tried: grades from 0 to `top` or, if `binary`, yes and no. With too many, the bounds are the measure's
    range.
    """
    if measure.depth is not None:
        kept = table.rank <= measure.depth
        table, missing = table.kept(kept), missing[kept]
    grades = [(float(grade), float(grade)) for grade in range(top + 1)]
    yes_or_no = binary or not _graded(measure)
    answers = np.array([(0.0, 0.0), (1.0, np.inf)] if yes_or_no else grades)  # (gain, level)
    verdicts = np.unique(missing[missing >= 0])
    combinations = len(answers) ** len(verdicts)
    work = combinations
    if table.several is not None and yes_or_no and combinations <= MOST and not _graded(measure):
        _, open_ = _uncertain(measure, table)
        uncertain = np.bincount(table.row[open_], minlength=table.rows)
        work = combinations * int(2 ** int(uncertain[uncertain <= ENUMERATED].max(initial=0)))
    if combinations > MOST or work > _MOST_WORK:
        return measure.definition.range
    step = max(1, _PLACES // max(1, len(missing)))
    result, powers, unknown = [], len(answers) ** np.arange(len(verdicts)), missing >= 0
    verdict = np.searchsorted(verdicts, missing[unknown])
    for at in range(0, combinations, step):  # a copy of the rankings per combination
        numbers = np.arange(at, min(at + step, combinations))
        tried = answers[numbers[:, None] // powers % len(answers)][:, verdict]
        level = np.tile(np.where(table.judged, table.level, np.nan), (len(numbers), 1))
        gain = np.tile(table.gain, (len(numbers), 1))
        level[:, unknown], gain[:, unknown] = tried[..., 1], tried[..., 0]
        filled = RankedLabels.of_columns(  # the ideal ranking of each copy is made of its own labels
            pointers_of(np.tile(np.diff(table.pointers), len(numbers))),
            level.ravel(),
            gain.ravel(),
            rel=table.rel,
            chances=None if table.chances is None else np.tile(table.chances, (len(numbers), 1)),
            several=None if table.several is None else np.tile(table.several, len(numbers)),
        )
        result.append(values(measure, filled).reshape(-1, table.rows).mean(axis=1))
    means = np.concatenate(result)
    return float(means.min()), float(means.max())


def _graded(measure: Measure) -> bool:
    """Return True if the measure uses grades as gains, False if it only compares them with `rel`."""
    return "rel" not in measure.definition.params
