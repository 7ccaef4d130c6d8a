"""From the labels of many samples' rankings to one label table."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from germane.measures.labels import Label, Ranking
from germane.measures.measure import Source
from germane.measures.table import Floats, Ints, LabelTable
from germane.questions.asking import Unanswered

__all__ = ["fill_table", "missing_verdicts"]

_UNJUDGED = Label(0.0, 0.0)


def fill_table(
    rankings: Sequence[Ranking], source: Source, qrels: Sequence[Mapping[str, Any]] = ()
) -> LabelTable:
    """The table of these rankings, one row each. Gold needs the row's qrels: they are its ideal.

    A missing verdict stands as an unjudged place: whoever has one asks `missing_verdicts` and takes bounds.
    """
    labels = [
        place.label if isinstance(place.label, Label) else _UNJUDGED
        for ranking in rankings
        for place in ranking.places
    ]
    judged = [isinstance(place.label, Label) for ranking in rankings for place in ranking.places]
    gains = np.array([label.gain for label in labels], dtype=np.float64)
    levels = np.array([label.level for label in labels], dtype=np.float64)
    pointers = pointers_of(len(ranking.places) for ranking in rankings)
    if source == "gold":
        ideal_levels = [sorted(map(float, known.values()), reverse=True) for known in qrels]
        ideal_gains = [[max(grade, 0.0) for grade in row] for row in ideal_levels]
    else:
        rows = list(zip(pointers[:-1].tolist(), pointers[1:].tolist(), strict=True))
        ideal_gains = [sorted(gains[start:end].tolist(), reverse=True) for start, end in rows]
        ideal_levels = [sorted(levels[start:end].tolist(), reverse=True) for start, end in rows]
    return LabelTable(
        pointers=pointers,
        gain=gains,
        level=levels,
        judged=np.array(judged, dtype=np.bool_),
        ideal_pointers=pointers_of(map(len, ideal_gains)),
        ideal=_flat(ideal_gains),
        ideal_level=_flat(ideal_levels),
        rel=1 if source == "gold" else 2,
        complete=source == "gold",
    )


def missing_verdicts(rankings: Sequence[Ranking]) -> Ints:
    """For each place of one sample's rankings: the number of its verdict where that is missing, else -1."""
    numbers = []
    lonely = 1 + max((place.verdict for ranking in rankings for place in ranking.places), default=0)
    for position, place in enumerate(place for ranking in rankings for place in ranking.places):
        known = not isinstance(place.label, Unanswered)
        numbers.append(-1 if known else place.verdict if place.verdict >= 0 else lonely + position)
    return np.array(numbers, dtype=np.int64)


def pointers_of(lengths: Iterable[int]) -> Ints:
    """Where each row starts, from the rows' lengths."""
    return np.concatenate([[0], np.cumsum(np.fromiter(lengths, dtype=np.int64))]).astype(np.int64)


def _flat(rows: Sequence[Sequence[float]]) -> Floats:
    return np.array([value for row in rows for value in row], dtype=np.float64)
