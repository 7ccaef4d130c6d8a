"""Metrics with Mastra's interface: `ContextPositionMetric(model, context=[...]).measure(input, output)`.

By default, scores are germane's: they are not rounded, and None if a verdict is missing. With
`parity="mastra"`, they are computed from the verdicts exactly as by Mastra. Sources: @mastra/evals 0.13
(metrics) and 1.10 (scorers).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

from germane.errors import InputError, describe
from germane.integrations.measuring import SharedJudge, required
from germane.judges import Judge
from germane.measures import (
    Measure,
    RankedLabels,
    context_position,
    context_precision,
    context_relevance,
    distinct_contexts,
    values,
)
from germane.types import Json

Parity: TypeAlias = Literal["mastra"]
Level: TypeAlias = Literal["high", "medium", "low", "none"]
_Kind = TypeVar("_Kind", bound="_Metric")

_FORMULAS: dict[str, Measure] = {
    "context_position": context_position,
    "context_precision": context_precision,
    "context_relevancy": context_relevance,
    "context_recall": context_relevance,
}
"""The ranked measure whose formula Mastra applies to the verdicts, by the name of germane's measure."""
_WEIGHTS: dict[Level, float] = {"high": 1.0, "medium": 0.7, "low": 0.3, "none": 0.0}


def rounded(value: float) -> float:
    """Return the value rounded to two decimals; a half is rounded up."""
    return math.floor((value + sys.float_info.epsilon) * 100 + 0.5) / 100


def scored(measure: str, verdicts: Sequence[bool], scale: float = 1) -> float:
    """Return a measure's score from verdicts in rank order, multiplied by `scale` and then rounded.

    Returns 0 if there are no verdicts.
    """
    if not verdicts:
        return 0.0
    labels = RankedLabels.of_lists([list(map(float, verdicts))])
    return rounded(float(values(_FORMULAS[measure], labels)[0]) * scale)


_UNUSED, _MISSING, _MOST_MISSING = 0.1, 0.15, 0.5
"""Penalties for each highly relevant context that was not used, and for each missing item.

The third number is the highest penalty for all missing items together.
"""


def relevance(levels: Sequence[Level], *, unused: int = 0, missing: int = 0) -> float:
    """Return the mean weight of the contexts' relevance levels minus penalties, but at least 0.

    The weights are 1 for high, .7 for medium, .3 for low and 0 for none. `unused` is the number of highly
    relevant contexts that were not used, with a penalty of .1 each. `missing` is the number of items that no
    context contains, with a penalty of .15 each, but at most .5 together.
    """
    base = math.fsum(_WEIGHTS[level] for level in levels) / len(levels) if levels else 0.0
    return max(0.0, base - unused * _UNUSED - min(missing * _MISSING, _MOST_MISSING))


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The result of a metric: the score, or None if it could not be computed, and the reason."""

    score: float | None
    reason: str

    @property
    def info(self) -> dict[str, Json]:
        """The reason as a mapping, as in the results of Mastra's metrics."""
        return {"reason": self.reason}


class _Metric:
    """Base class of the metrics (Mastra 0.13).

    `model` is a judge or a judge's name; with None, GERMANE_JUDGE or the config names it. With
    `parity="mastra"`, missing verdicts are left out, the score is multiplied by `scale` and rounded to two
    decimals (a half is rounded up), and relevance is judged against the output. If all verdicts are missing,
    the score is None, but Mastra raises an error.
    """

    measure_name: ClassVar[str]
    compared_field: ClassVar[str] = "response"
    """The field of a sample that holds the output or, for a scorer, the ground truth."""

    def __init__(
        self,
        model: Judge | str | None = None,
        *,
        context: Sequence[Json],
        scale: float = 1,
        parity: Parity | None = None,
    ) -> None:
        if parity not in {None, "mastra"}:
            raise InputError(f"unknown value parity={parity!r}", fix='write parity="mastra", or leave it out')
        if isinstance(context, str | Mapping) or not isinstance(context, Iterable):
            raise InputError(f"context is {describe(context)}, not a list", fix="write context=[...]")
        self.context, self.scale, self.parity = list(context), scale, parity
        self._judge = SharedJudge(model)

    def measure(self, input: str, output: Any) -> Result:  # noqa: A002 - the tool's own word
        """Return the score of the contexts for one question (`input`) and its answer (`output`)."""
        return self._measured({"query": input, "contexts": self.context, self.compared_field: output})

    def _measured(self, row: dict[str, Json]) -> Result:
        """Return the score of one row, multiplied by `scale`; with parity, it is Mastra's score."""
        against = "response" if self.parity and "response" in row else "query"
        (measured,) = self._judge.measure(row, [self.measure_name], against)
        score = measured.score.value
        if self.parity and measured.score.status != "error":
            score = scored(self.measure_name, measured.verdicts, self.scale)
        elif score is not None:
            score *= self.scale
        return Result(score=score, reason=measured.reason)


class _Scorer(_Metric):
    """Base class of the scorers (Mastra 1.10); without contexts the score is 0."""

    def run(self, input: Any, output: Any = None, ground_truth: str | None = None) -> Result:  # noqa: A002
        """Return the score for one question (`input`) and its answer (`output`).

        Recall is computed from `ground_truth`. Without it, the score is None, but Mastra returns 0.
        """
        given = {"response": output, "reference": ground_truth}[self.compared_field]
        return self._measured({"query": input, "contexts": self.context, self.compared_field: given})


def _class(base: type[_Kind], name: str, measure: str, compared_field: str = "response") -> type[_Kind]:
    """Return a new subclass of `base` with this name, whose score is the measure with the name `measure`.

    `compared_field` is the field of a sample that holds the output or the ground truth.
    """
    members = {"measure_name": measure, "compared_field": compared_field, "__module__": __name__}
    return type(name, (base,), {**members, "__doc__": f"germane's {measure}, under Mastra's name."})


ContextPositionMetric = _class(_Metric, "ContextPositionMetric", "context_position")
ContextPrecisionMetric = _class(_Metric, "ContextPrecisionMetric", "context_precision")
ContextRelevancyMetric = _class(_Metric, "ContextRelevancyMetric", "context_relevancy")
ContextualRecallMetric = _class(_Metric, "ContextualRecallMetric", "context_recall", "reference")
ContextPrecisionScorer = _class(_Scorer, "ContextPrecisionScorer", "context_precision")
ContextRecallScorer = _class(_Scorer, "ContextRecallScorer", "context_recall", "reference")


class ContextRelevanceScorer(_Scorer):
    """The relevance of the contexts minus penalties for unused contexts and missing items (Mastra 1.10).

    A context's level is its grade: 3 is high, 2 medium, 1 low, 0 none. A context is used if it supports a
    claim of the answer. A claim that no context supports is a missing item.
    """

    measure_name = "context_relevance"

    def _measured(self, row: dict[str, Json]) -> Result:
        """Return the relevance score minus penalties for unused contexts and missing items."""
        if self.parity and not row["contexts"]:
            return Result(score=1.0 * self.scale, reason="no context was available")
        # as the reference, the answer is split into claims, and the judge says which are supported
        row["reference"] = required(row.pop("response"), "output", type(self).__name__)
        relevant, used = self._judge.measure(row, [self.measure_name, "context_recall"], "query")
        reason = f"{relevant.reason}; {used.reason}"
        if relevant.score.value is None or used.score.status == "error":
            return Result(score=None, reason=reason)
        levels: list[Level] = []
        for check in relevant.explanation.relevance_checks:  # a yes from a binary judge is "high"
            if check["relevant"]:
                levels.append("medium" if check["grade"] == 2 else "high")
            else:
                levels.append("low" if check["grade"] == 1 else "none")
        distinct = [context.text for context in distinct_contexts(used.sample)]
        in_use = {distinct[position - 1] for positions in used.support for position in positions}
        pairs = zip(levels, (context.text for context in used.sample.contexts or ()), strict=False)
        unused = sum(level == "high" and text not in in_use for level, text in pairs)
        score = relevance(levels, unused=unused, missing=used.support.count(())) * self.scale
        return Result(score=rounded(score) if self.parity else score, reason=reason)
