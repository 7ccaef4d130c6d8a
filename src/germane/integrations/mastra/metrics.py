"""The older metrics: a context list at construction, `measure(input, output)`, a score and a reason."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from germane.errors import InputError
from germane.integrations.mastra.formulas import Formula, Parity, Verdict, check_parity, scored
from germane.integrations.measuring import Measured, measure_case, required
from germane.judges.judge import Judge
from germane.types import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricResult:
    """A score (None = could not be measured) and, in `info`, its `reason`."""

    score: float | None
    info: Mapping[str, Json]


class _Metric:
    """What the four have in common.

    `model` is a judge or the name of one; None = GERMANE_JUDGE or the config. `options` may hold `context` and `scale`,
    as Mastra's second argument does. The normal score is exact, unrounded and None where a verdict is missing.
    `parity="mastra"` computes as Mastra does: over the verdicts that were given, however few, half up to two decimals
    after scaling, and with relevance judged against the output. What a judge that gave no verdict at all leaves is
    None there too: Mastra raises.
    """

    measures: ClassVar[str]
    formula: ClassVar[Formula]
    output_is: ClassVar[str] = "response"

    def __init__(
        self,
        model: Judge | str | None = None,
        options: Mapping[str, Json] | None = None,
        *,
        context: Sequence[Json] | None = None,
        scale: float = 1,
        parity: Parity | None = None,
    ) -> None:
        given = {"context": context, "scale": scale, **(options or {})}
        found = required(given.pop("context"), "context", type(self).__name__)
        self.model, self.context, self.parity = model, list(found), check_parity(parity)
        self.scale = given.pop("scale")
        if given:
            raise InputError(f"there is no option {next(iter(given))!r}", fix="write context or scale")

    def measure(self, input: str, output: str) -> MetricResult:  # noqa: A002 - the tool's own word
        """Measure the contexts for one question and its answer."""
        row = {"query": input, "contexts": self.context, self.output_is: output}
        against = "response" if self.parity and self.output_is == "response" else "query"
        (measured,) = measure_case(row, [self.measures], judge=self.model, against=against)
        return MetricResult(score=self._score(measured), info={"reason": measured.reason})

    def _score(self, measured: Measured) -> float | None:
        value, status = measured.score.value, measured.score.status
        if self.parity and status != "error":
            return scored(self.formula, self._verdicts(measured), self.scale)
        return None if value is None else value * self.scale

    def _verdicts(self, measured: Measured) -> Sequence[Verdict]:
        return measured.relevant


class ContextPositionMetric(_Metric):
    """How much of the weight of the early places is relevant: sum of r/k over sum of 1/k. Source: Mastra 0.13."""

    measures = "context_position"
    formula = "position"


class ContextPrecisionMetric(_Metric):
    """Mean precision at the ranks of the relevant contexts. Source: Mastra 0.13."""

    measures = "context_precision"
    formula = "precision"


class ContextRelevancyMetric(_Metric):
    """The share of the contexts' statements that are relevant. Source: Mastra 0.13."""

    measures = "context_relevancy"
    formula = "relevancy"

    def _verdicts(self, measured: Measured) -> Sequence[Verdict]:
        return measured.statements


class ContextualRecallMetric(_Metric):
    """The share of the output's claims that the contexts support. Source: Mastra 0.13."""

    measures = "context_recall"
    formula = "recall"
    output_is = "reference"

    def _verdicts(self, measured: Measured) -> Sequence[Verdict]:
        return [bool(places) for places in measured.support]
