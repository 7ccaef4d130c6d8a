"""One sample's score in words, for the tests of measures."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from germane import evaluate
from germane.judges import FakeJudge
from germane.samples.reading import samples_from


def explained(measure: str, sample: Mapping[str, Any], judge: Any = None) -> dict[str, Any]:
    """Return the score with its hits, misses, reasoning and details, as the report explains it."""
    (read,) = samples_from([dict(sample)])
    why = evaluate([read], measure, judge=judge or FakeJudge()).explain(read.id, measure)
    return {"score": why.outcome.value, **why.as_json()}
