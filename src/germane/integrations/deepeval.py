"""Metrics that are called like DeepEval's: `ContextualPrecisionMetric(threshold=0.7, model=judge).measure(case)`.

`case` is anything with the attributes `input`, `expected_output` and `retrieval_context`; they may be given by keyword
instead. What differs from DeepEval: `score` is None, never a number, where the judge failed (`error` says why); each
passage is judged on its own and its verdict can be kept and shared; the reason is made of the verdicts' own reasons
and costs no further call.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from germane.integrations.measuring import measure_case, said
from germane.judges.judge import Judge

__all__ = ["ContextualPrecisionMetric", "ContextualRecallMetric", "ContextualRelevancyMetric"]


class _Metric:
    """What the three have in common.

    After `measure`: `score` (None = could not be measured), `reason`, `success`, `error`.
    """

    measures: ClassVar[str]
    needs: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        threshold: float = 0.5,
        model: Judge | str | None = None,
        *,
        include_reason: bool = True,
        strict_mode: bool = False,
    ) -> None:
        self.threshold = 1.0 if strict_mode else threshold
        self.model, self.include_reason, self.strict_mode = model, include_reason, strict_mode
        self.score: float | None = None
        self.reason: str | None = None
        self.error: str | None = None

    @property
    def success(self) -> bool:
        """Whether there is a score and it reaches the threshold."""
        return self.score is not None and self.score >= self.threshold

    def is_successful(self) -> bool:
        """The same, as a call."""
        return self.success

    def measure(
        self,
        test_case: Any = None,
        *,
        input: str | None = None,  # noqa: A002 - the tool's own word
        expected_output: str | None = None,
        actual_output: str | None = None,
        retrieval_context: Sequence[Any] | None = None,
    ) -> float | None:
        """Measure one case; returns the score. InputError where a field that the metric needs is absent."""
        given = {
            "input": input,
            "expected_output": expected_output,
            "actual_output": actual_output,
            "retrieval_context": None if retrieval_context is None else list(retrieval_context),
        }
        row = {name: _field(test_case, name) if value is None else value for name, value in given.items()}
        for name in self.needs:
            said(row[name], name, type(self).__name__)
        (measured,) = measure_case(row, [self.measures], judge=self.model)
        score = measured.score
        low = self.strict_mode and score.value is not None and score.value < 1
        self.score = 0.0 if low else score.value
        self.reason = measured.reason if self.include_reason else None
        self.error = None if score.value is not None else f"{score.status}: {score.why}"
        return self.score


def _field(case: Any, name: str) -> Any:
    value = getattr(case, name, None)
    return list(value) if name == "retrieval_context" and value is not None else value


class ContextualPrecisionMetric(_Metric):
    """Whether the relevant passages stand before the others: germane's context_precision.

    Relevance is judged against the input and the expected output. Source: DeepEval, contextual precision.
    """

    measures = "context_precision"
    needs = ("input", "expected_output", "retrieval_context")


class ContextualRecallMetric(_Metric):
    """The share of the expected output's claims that the passages support: germane's context_recall.

    DeepEval asks sentence by sentence; here a sentence may hold several claims. Source: DeepEval, contextual recall.
    """

    measures = "context_recall"
    needs = ("input", "expected_output", "retrieval_context")


class ContextualRelevancyMetric(_Metric):
    """The share of the passages' statements that are relevant to the input: germane's context_relevancy.

    Source: DeepEval, contextual relevancy.
    """

    measures = "context_relevancy"
    needs = ("input", "retrieval_context")
