"""Metrics with DeepEval's call shape: `ContextualPrecisionMetric(threshold=0.7, model=judge).measure(case)`.

`case` is anything with the attributes `input`, `actual_output`, `expected_output` and `retrieval_context`; they may be
given by keyword instead. `model` is a judge, its name, a bare model of OpenAI's or a `DeepEvalBaseLLM`; without one
GERMANE_JUDGE or the config names it. Where DeepEval is installed, the metrics are its `BaseMetric`s and run inside its own
`evaluate()` and `assert_test`. What differs from DeepEval: `score` is None, never a number, where the judge failed (`error` says why); each
passage is judged on its own and its verdict can be kept and shared; the reason is made of the verdicts' own reasons
and costs no further call.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from germane.errors import InputError
from germane.evaluation import run_coroutine
from germane.integrations import SharedJudge, required

if TYPE_CHECKING:
    BaseMetric = object
    Missing = InputError
else:
    try:
        from deepeval.errors import MissingTestCaseParamsError
        from deepeval.metrics import BaseMetric
    except ImportError:  # the metrics are called alike without it
        BaseMetric, Missing = object, InputError
    else:

        class Missing(InputError, MissingTestCaseParamsError):
            """A case lacks what a metric needs; with `skip_on_missing_params` it is skipped, as in DeepEval."""


class _Metric(BaseMetric):
    """Base class of the metrics.

    After `measure`: `score` (None = could not be measured), `reason`, `success`, `error`, `evaluation_model` and
    `evaluation_cost`. `async_mode` changes nothing: what can be asked at the same time is; `verbose_mode` prints the reason to
    stderr; `flaky` is for DeepEval, which reports and does not fail such a metric.
    """

    measures: ClassVar[str]
    needs: ClassVar[tuple[str, ...]]
    title: ClassVar[str]

    def __init__(
        self,
        threshold: float = 0.5,
        model: Any = None,
        *,
        include_reason: bool = True,
        async_mode: bool = True,
        strict_mode: bool = False,
        verbose_mode: bool = False,
        flaky: bool = False,
        _shared: SharedJudge | None = None,  # DeepEval copies a metric by its attributes of these names
    ) -> None:
        self.threshold = 1.0 if strict_mode else threshold
        self.model, self.include_reason, self.strict_mode = model, include_reason, strict_mode
        self._shared = _shared or SharedJudge(model, called="model")
        self.async_mode, self.verbose_mode, self.flaky = async_mode, verbose_mode, flaky
        self.score: float | None = None
        self.reason: str | None = None
        self.error: str | None = None
        self.success: bool | None = False
        self.evaluation_model: str | None = None
        self.evaluation_cost: float | None = None

    @property
    def __name__(self) -> str:
        """The name under which DeepEval's reports show the metric."""
        return self.title

    def is_successful(self) -> bool:
        """Return True if there is a score and it reaches the threshold; `success` is the same."""
        self.success = self.error is None and self.score is not None and self.score >= self.threshold
        return self.success

    def measure(self, test_case: Any = None, **fields: Any) -> float | None:
        """Measure one case, or these fields of one (see `a_measure`); returns the score.

        InputError where a field that the metric needs is absent.
        """
        return run_coroutine(self.a_measure(test_case, **fields))

    async def a_measure(
        self,
        test_case: Any = None,
        *,
        input: str | None = None,  # noqa: A002 - the tool's own word
        expected_output: str | None = None,
        actual_output: str | None = None,
        retrieval_context: Sequence[Any] | None = None,
        _show_indicator: bool = True,
        _in_component: bool = False,
    ) -> float | None:
        """Measure one case in an event loop; arguments that begin with _ are DeepEval's own."""
        row = {
            "input": input,
            "expected_output": expected_output,
            "actual_output": actual_output,
            "retrieval_context": retrieval_context,
        }
        row = {name: getattr(test_case, name, None) if row[name] is None else row[name] for name in row}
        row["retrieval_context"] = row["retrieval_context"] and list(row["retrieval_context"])
        for name in self.needs:
            required(row[name], name, type(self).__qualname__, Missing)
        (measured,) = await self._shared.ameasure(row, [self.measures])
        value = measured.score.value
        self.score = 0.0 if self.strict_mode and value is not None and value < 1 else value
        self.reason = measured.reason if self.include_reason else None
        self.error = None if value is not None else f"{measured.score.status}: {measured.score.why}"
        costs = [judgement.usage.cost_usd for judgement in measured.judgements]
        paid = [cost for cost in costs if cost is not None]
        self.evaluation_model, self.evaluation_cost = measured.source, sum(paid) if paid == costs else None
        self.is_successful()
        if self.verbose_mode:
            print(f"{type(self).__name__}: {self.score} {measured.reason}", file=sys.stderr)  # noqa: T201 - asked for
        return self.score


def _metric(name: str, measure: str, *needs: str) -> type[_Metric]:
    """Return a metric class called `name` that computes this measure from these fields."""
    title = measure.replace("context_", "contextual_").replace("_", " ").title()
    members = {"title": title, "measures": measure, "needs": ("input", *needs), "__module__": __name__}
    return type(name, (_Metric,), {**members, "__doc__": f"germane's {measure}, under DeepEval's name."})


_TRUTH, _PASSAGES = "expected_output", "retrieval_context"
ContextualPrecisionMetric = _metric("ContextualPrecisionMetric", "context_precision", _TRUTH, _PASSAGES)
ContextualRecallMetric = _metric("ContextualRecallMetric", "context_recall", _TRUTH, _PASSAGES)
ContextualRelevancyMetric = _metric("ContextualRelevancyMetric", "context_relevancy", _PASSAGES)
FaithfulnessMetric = _metric("FaithfulnessMetric", "faithfulness", "actual_output", _PASSAGES)
AnswerRelevancyMetric = _metric("AnswerRelevancyMetric", "answer_relevancy", "actual_output")
