"""The label table: the labels of many rankings, side by side in flat arrays. What every ranked formula reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

__all__ = ["Bools", "Floats", "Ints", "LabelTable"]

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]
Bools: TypeAlias = NDArray[np.bool_]


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelTable:
    """The labels of `rows` rankings; ranking r holds the places `pointers[r]:pointers[r + 1]`, best rank first.

    ======== ======= =============================================================================
    pointers rows+1  where each ranking starts in the place arrays
    gain     places  what a place is worth to nDCG: the grade, 0 where unjudged or negative
    level    places  what is held against the threshold `rel`: the grade (a negative one as it is: bpref tells
                     it from 0), 0 where unjudged; +inf / 0 for yes / no labels
    judged   places  whether anybody judged this place
    ideal_pointers rows+1, ideal: the gains of all that is judged for the row's query, best first
    ideal_level      the same for `level`: those at or above `rel` are all the relevant there are
    rel      scalar  the threshold of the labels' own scale: gold 1, judge and human 0-3 grades 2
    complete scalar  whether the ideal holds all relevant documents (gold) or only what was retrieved
    ======== ======= =============================================================================
    """

    pointers: Ints
    gain: Floats
    level: Floats
    judged: Bools
    ideal_pointers: Ints
    ideal: Floats
    ideal_level: Floats
    rel: int = 1
    complete: bool = True

    @property
    def rows(self) -> int:
        """How many rankings there are."""
        return len(self.pointers) - 1

    @classmethod
    def of_lists(
        cls,
        labels: Sequence[Sequence[float | None]],
        judged: Sequence[Sequence[float]] | None = None,
        *,
        rel: int = 1,
    ) -> LabelTable:
        """A table from plain lists: `labels[r]` the grade at each rank, None = unjudged.

        `judged[r]` are all grades known for the query (gold); without it a row's own grades are its ideal.
        """
        flat = [grade for row in labels for grade in row]
        level = np.array([grade or 0.0 for grade in flat], dtype=np.float64)
        known = [[g for g in row if g is not None] for row in labels] if judged is None else judged
        ideal_level = np.array([g for row in known for g in sorted(row, reverse=True)], dtype=np.float64)
        return cls(
            pointers=_pointers([len(row) for row in labels]),
            gain=np.maximum(level, 0.0),
            level=level,
            judged=np.array([grade is not None for grade in flat], dtype=np.bool_),
            ideal_pointers=_pointers([len(row) for row in known]),
            ideal=np.maximum(ideal_level, 0.0),
            ideal_level=ideal_level,
            rel=rel,
            complete=judged is not None,
        )


def _pointers(lengths: Sequence[int]) -> Ints:
    return np.concatenate([[0], np.cumsum(np.asarray(lengths, dtype=np.int64))]).astype(np.int64)
