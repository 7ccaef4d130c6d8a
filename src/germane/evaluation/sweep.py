"""Where to cut the retriever's scores: what a floor saves on unanswerable questions, and what it costs in recall."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

import numpy as np

from germane.errors import InputError
from germane.measures.labels import distinct_contexts
from germane.types import Json, Sample


@dataclass(frozen=True, slots=True)
class Floor:
    """One floor: contexts scored below it are dropped.

    `false_hits` is the share of unanswerable questions for which something still comes back (0 to 1, lower is
    better), `recall_kept` the mean recall of gold documents as a share of that without a floor (0 to 1).
    """

    floor: float
    false_hits: float
    recall_kept: float


@dataclass(frozen=True, slots=True)
class Sweep:
    """All floors worth trying, and the one with the most recall kept less false hits (Youden's J)."""

    floors: tuple[Floor, ...]
    best: Floor
    answerable: int
    unanswerable: int
    left_out: int

    def as_json(self) -> dict[str, Json]:
        """For `--json`."""
        shown = asdict(self)
        return {"schema_version": 1, "floors": shown.pop("floors"), "best": shown.pop("best"), **shown}


def sweep(samples: Iterable[Sample]) -> Sweep:
    """Try every score that the retriever gave as a floor.

    A sample counts as unanswerable where it says `answerable: false`, as answerable where its qrels hold
    something relevant; others are left out and counted. Raises InputError where one of the two kinds is missing,
    or a context has no score.
    """
    tops: list[float] = []
    found: list[tuple[float, float]] = []  # (score, share of its question's recall)
    answerable = left_out = 0
    for sample in samples:
        scored = _scored(sample)
        relevant = {doc for doc, grade in (sample.qrels or {}).items() if grade >= 1}
        if sample.answerable is False:
            tops.append(max((score for score, _ in scored), default=-np.inf))
        elif relevant and (sample.contexts is not None or sample.calls is not None):
            answerable += 1
            best: dict[str, float] = {}
            for score, doc in scored:
                if doc in relevant:
                    best[doc] = max(score, best.get(doc, -np.inf))
            found += [(score, 1 / len(relevant)) for score in best.values()]
        else:
            left_out += 1
    if not tops:
        raise InputError(
            "no sample says answerable: false", fix="add questions that the corpus cannot answer"
        )
    if not found:
        raise InputError("no gold document came back", fix="add qrels, and contexts with ids, to the samples")
    floors = _floors(np.array(tops), np.array(found))
    best_floor = max(floors, key=lambda floor: (floor.recall_kept - floor.false_hits, floor.recall_kept))
    return Sweep(floors, best_floor, answerable, len(tops), left_out)


def _scored(sample: Sample) -> list[tuple[float, str | None]]:
    scored = []
    for context in distinct_contexts(sample):
        if context.score is None:
            raise InputError(
                f"sample {sample.id}: a context has no score", fix='give each context its "score"'
            )
        scored.append((context.score, context.id))
    return scored


def _floors(tops: np.ndarray, found: np.ndarray) -> tuple[Floor, ...]:
    everything = np.unique(np.concatenate([tops[np.isfinite(tops)], found[:, 0]]))
    whole = found[:, 1].sum()
    above = np.nextafter(everything[-1], np.inf)
    return tuple(
        Floor(
            float(floor), float((tops >= floor).mean()), float(found[found[:, 0] >= floor, 1].sum() / whole)
        )
        for floor in (*everything, above)
    )
