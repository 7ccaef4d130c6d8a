"""What a ranked score can still become while some verdicts are missing: exact bounds by trying every answer.

Average precision and its kin are not monotone in the labels, so the worst and best case are not simply "all
irrelevant" and "all relevant": every combination of the missing verdicts is a row of one label table.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from germane.measures.measure import Measure
from germane.measures.table import Floats, Ints, LabelTable
from germane.questions import Scale

__all__ = ["MOST", "bounds"]

MOST = 2**14
"""The most combinations that are tried; beyond, the bounds are the measure's whole range."""

_PLACES = 2**20
"""How many places one kernel call gets at most, so that memory stays flat."""

_LABELS: dict[Scale, tuple[tuple[float, float], ...]] = {
    "graded": ((0.0, 0.0), (1.0, 1.0), (2.0, 2.0), (3.0, 3.0)),
    "binary": ((0.0, 0.0), (1.0, np.inf)),
}
"""The (gain, level) of every answer that a judge can give on each scale."""


def bounds(
    measure: Measure, table: LabelTable, missing: Ints, *, scale: Scale = "graded"
) -> tuple[float, float]:
    """The lowest and highest value that a measure's mean over the rows of `table` can take.

    The rows are the rankings of one sample (one, or one for each call). `missing` has one number for each place: -1
    where the label is known, else the number of the verdict that is missing; places with the same number (the same
    passage twice) will get the same verdict. Exact up to MOST combinations, else the measure's range.
    """
    if measure.cutoff is not None and not _graded(measure) and measure.settings.get("holes") != "condensed":
        # what stands below the cut-off cannot matter to a formula that looks at the ranking alone
        table, missing = _top(table, missing, measure.cutoff)
    answers = np.array(_LABELS[scale])
    if not _graded(measure):
        answers = answers[[0, -1]]
    verdicts = np.unique(missing[missing >= 0])
    combinations = len(answers) ** len(verdicts)
    if combinations > MOST:
        return measure.definition.range
    step = max(1, _PLACES // max(1, len(missing)))
    means = np.concatenate(
        [
            _means(measure, table, missing, verdicts, answers, np.arange(at, min(at + step, combinations)))
            for at in range(0, combinations, step)
        ]
    )
    return float(means.min()), float(means.max())


def _means(
    measure: Measure, table: LabelTable, missing: Ints, verdicts: Ints, answers: Floats, combinations: Ints
) -> Floats:
    filled = _assigned(table, missing, verdicts, answers, combinations)
    values: Floats = measure.definition.compute(filled, measure.settings, measure.cutoff)
    return np.asarray(values.reshape(-1, table.rows).mean(axis=1), dtype=np.float64)


def _graded(measure: Measure) -> bool:
    """Whether the grades themselves count (and the ideal list is made of them), not only a threshold on them."""
    return "rel" not in measure.definition.params


def _assigned(
    table: LabelTable, missing: Ints, verdicts: Ints, answers: Floats, combinations: Ints
) -> LabelTable:
    """The table once for each of the combinations, whose digits are the answers to the missing verdicts."""
    digits = combinations[:, None] // len(answers) ** np.arange(len(verdicts))[None, :] % len(answers)
    unknown = missing >= 0
    given = answers[digits[:, np.searchsorted(verdicts, missing[unknown])]]
    gain, level = (np.tile(values, (len(combinations), 1)) for values in (table.gain, table.level))
    gain[:, unknown], level[:, unknown] = given[..., 0], given[..., 1]
    pointers = _tiled(table.pointers, len(combinations))
    judged = np.tile(table.judged | unknown, len(combinations))
    filled = replace(table, pointers=pointers, gain=gain.ravel(), level=level.ravel(), judged=judged)
    return _own_ideal(filled)


def _tiled(pointers: Ints, times: int) -> Ints:
    lengths = np.tile(np.diff(pointers), times)
    return np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)


def _own_ideal(table: LabelTable) -> LabelTable:
    """The table with each row's own labels, best first, as its ideal."""
    row = np.repeat(np.arange(table.rows), np.diff(table.pointers))
    by_gain, by_level = np.lexsort((-table.gain, row)), np.lexsort((-table.level, row))
    return replace(
        table,
        ideal_pointers=table.pointers,
        ideal=table.gain[by_gain],
        ideal_level=table.level[by_level],
        complete=False,
    )


def _top(table: LabelTable, missing: Ints, k: int) -> tuple[LabelTable, Ints]:
    lengths = np.diff(table.pointers)
    rank = np.arange(1, len(table.gain) + 1) - np.repeat(table.pointers[:-1], lengths)
    keep = rank <= k
    pointers = np.concatenate([[0], np.cumsum(np.minimum(lengths, k))]).astype(np.int64)
    cut = replace(
        table, pointers=pointers, gain=table.gain[keep], level=table.level[keep], judged=table.judged[keep]
    )
    return cut, missing[keep]
