"""Metrics with DeepEval's interface: `ContextualPrecisionMetric(threshold=0.7, model=judge).measure(case)`.

`case` is any object with the attributes `input`, `expected_output` and `retrieval_context`, which may be
passed as keywords instead. `model` is a judge, a judge's name, or the name of an OpenAI model; without it,
GERMANE_JUDGE or the config names the judge.

Differences from DeepEval: If the judge failed, `score` is None, and `error` is the reason. Each passage is
judged alone, and its verdict is stored and used again by other metrics. The reason of a score joins the
reasons of its verdicts, so no further call is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from germane.integrations.measuring import SharedJudge, required


class _Metric:
    """Base class of the metrics.

    `measure` sets `score` (None if it could not be computed), `reason`, `success` and `error`. With
    `strict_mode`, a score below 1 becomes 0. `async_mode` and `verbose_mode` have no effect: independent
    questions are always asked concurrently, and nothing is printed.
    """

    measure_name: ClassVar[str]
    needs: ClassVar[tuple[str, ...]]

    def __init__(
        self,
        threshold: float = 0.5,
        model: Any = None,
        *,
        include_reason: bool = True,
        async_mode: bool = True,
        strict_mode: bool = False,
        verbose_mode: bool = False,
    ) -> None:
        self.threshold = 1.0 if strict_mode else threshold
        self.include_reason, self.strict_mode = include_reason, strict_mode
        self.async_mode, self.verbose_mode = async_mode, verbose_mode
        self._judge = SharedJudge(model)
        self.score: float | None = None
        self.reason: str | None = None
        self.error: str | None = None

    @property
    def success(self) -> bool:
        """True if the score is at least the threshold; False if it is lower or None."""
        return self.score is not None and self.score >= self.threshold

    def is_successful(self) -> bool:
        """Return `success`."""
        return self.success

    def measure(
        self,
        test_case: Any = None,
        *,
        input: str | None = None,  # noqa: A002 - the tool's own word
        expected_output: str | None = None,
        retrieval_context: Sequence[Any] | None = None,
    ) -> float | None:
        """Compute and return the score of one case; None if the judge failed.

        The fields of the case may be passed by keyword instead of `test_case`. Raises InputError if a
        required field is missing.
        """
        given = {"input": input, "expected_output": expected_output, "retrieval_context": retrieval_context}
        row = {
            name: getattr(test_case, name, None) if value is None else value for name, value in given.items()
        }
        for name in self.needs:
            required(row[name], name, type(self).__qualname__)
        (measured,) = self._judge.measure(row, [self.measure_name])
        value = measured.score.value
        self.score = 0.0 if self.strict_mode and value is not None and value < 1 else value
        self.reason = measured.reason if self.include_reason else None
        self.error = measured.problem or None
        return self.score


class ContextualPrecisionMetric(_Metric):
    """germane's context_precision, under DeepEval's name."""

    measure_name = "context_precision"
    needs = "input", "expected_output", "retrieval_context"


class ContextualRecallMetric(_Metric):
    """germane's context_recall, under DeepEval's name."""

    measure_name = "context_recall"
    needs = "input", "expected_output", "retrieval_context"


class ContextualRelevancyMetric(_Metric):
    """germane's context_relevancy, under DeepEval's name."""

    measure_name = "context_relevancy"
    needs = "input", "retrieval_context"
