"""The Mastra shape: `ContextPositionMetric(model, context=[...]).measure(input, output)`, and the newer scorers' `run`.

The normal scores are germane's own: exact, unrounded, None where a verdict is missing. `parity="mastra"` computes from the
verdicts what Mastra does, to its last digit. Sources: @mastra/evals 0.13 (metrics) and 1.10 (scorers).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

from germane.errors import InputError
from germane.integrations import Measured, SharedJudge, required
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
Verdict: TypeAlias = str | bool
Level: TypeAlias = Literal["high", "medium", "low", "none"]
Extractor: TypeAlias = Callable[[Any, Any], Sequence[Json]]

_FORMULAS: dict[str, tuple[Measure, Callable[[str], str]]] = {
    "context_position": (context_position, lambda word: word.strip().lower()),
    "context_precision": (context_precision, lambda word: word.strip().lower()),
    "context_relevancy": (context_relevance, str.lower),
    "context_recall": (context_relevance, str),
}
"""By measure: the formula over its verdicts, and what Mastra makes of a verdict before it compares it with `yes`."""
_WEIGHTS: dict[Level, float] = {"high": 1.0, "medium": 0.7, "low": 0.3, "none": 0.0}


def rounded(value: float) -> float:
    """Return the value rounded to two decimals, halves upwards."""
    return math.floor((value + sys.float_info.epsilon) * 100 + 0.5) / 100


def scored(measure: str, verdicts: Sequence[Verdict], scale: float = 1) -> float:
    """Return the score of some verdicts, in their order: over as many as there are, whatever was asked about.

    A yes counts, in the spellings that the original takes for one: " YES " for position and precision, "Yes" for
    relevancy, nothing but "yes" for recall. Rounding comes after scaling. No verdicts: 0.
    """
    if not verdicts:
        return 0.0
    formula, _ = _FORMULAS[measure]
    labels = RankedLabels.of_lists([[float(_yes(measure, verdict)) for verdict in verdicts]])
    return rounded(float(values(formula, labels)[0]) * scale)


def _yes(measure: str, verdict: Verdict) -> bool:
    return verdict is True or (isinstance(verdict, str) and _FORMULAS[measure][1](verdict) == "yes")


def recall(verdicts: Sequence[Verdict], claims: int, scale: float = 1) -> float:
    """Return the newer recall: yes-verdicts / claims, at most 1; a claim without verdict is not supported."""
    count = sum(_yes("context_precision", verdict) for verdict in verdicts)
    return rounded(min(1.0, count / claims) * scale) if claims else 0.0


_UNUSED, _MISSING, _MOST_MISSING = 0.1, 0.15, 0.5
"""Penalties for each highly relevant context that was not used, for each missing item, and for all missing items at most."""


def relevance(levels: Sequence[Level], *, unused: int = 0, missing: int = 0) -> float:
    """Return the mean weight of the contexts' levels, less the penalties, at least 0.

    high 1, medium .7, low .3, none 0; less .1 a highly relevant context that was not used and .15, at most .5, an
    item that no context holds.
    """
    base = math.fsum(_WEIGHTS[level] for level in levels) / len(levels) if levels else 0.0
    return max(0.0, base - unused * _UNUSED - min(missing * _MISSING, _MOST_MISSING))


class _Judged:
    """What metrics and scorers share: a judge, a scale, and whether Mastra's own numbers are asked for.

    `model` is a judge or the name of one; None = GERMANE_JUDGE or the config. `parity="mastra"` computes over the verdicts that
    were given, however few, half up to two decimals after scaling. What a judge that gave no verdict at all leaves is None
    there too: Mastra raises.
    """

    def __init__(self, model: Judge | str | None, scale: float, parity: Parity | None) -> None:
        if parity not in {None, "mastra"}:
            raise InputError(f"parity={parity!r} is not known", fix='write parity="mastra", or leave it out')
        self.model, self.parity, self.scale, self._judge = model, parity, scale, SharedJudge(model)

    def _score(self, measured: Measured, by_parity: Callable[[Sequence[bool]], float]) -> float | None:
        """Return the score of one measure, scaled, or Mastra's own from its verdicts."""
        if self.parity and measured.score.status != "error":
            return by_parity(measured.verdicts)
        return None if measured.score.value is None else measured.score.value * self.scale


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricResult:
    """A score (None = could not be measured) and, in `info`, its `reason`."""

    score: float | None
    info: Mapping[str, Json]


class _Metric(_Judged):
    """The base of the older metrics.

    `options` may hold `context` and `scale`, as Mastra's second argument does. With `parity` relevance is judged against the
    output.
    """

    measures: ClassVar[str]
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
        values = {"context": context, "scale": scale, **(options or {})}
        super().__init__(model, values.pop("scale"), parity)
        self.context = list(required(values.pop("context"), "context", type(self).__name__))
        if values:
            raise InputError(f"no option {next(iter(values))!r}", fix="write context or scale")

    def measure(self, input: str, output: str) -> MetricResult:  # noqa: A002 - the tool's own word
        """Measure the contexts for one question and its answer."""
        row = {"query": input, "contexts": self.context, self.output_is: output}
        against = "response" if self.parity and self.output_is == "response" else "query"
        (measured,) = self._judge.measure(row, [self.measures], against)
        score = self._score(measured, lambda verdicts: scored(self.measures, verdicts, self.scale))
        return MetricResult(score=score, info={"reason": measured.reason})


def _metric(name: str, measure: str, output_is: str = "response") -> type[_Metric]:
    """Return the class `name` of a metric that computes this measure (Mastra 0.13)."""
    members = {"measures": measure, "output_is": output_is, "__module__": __name__}
    return type(name, (_Metric,), {**members, "__doc__": f"germane's {measure}, under Mastra's name."})


ContextPositionMetric = _metric("ContextPositionMetric", "context_position")
ContextPrecisionMetric = _metric("ContextPrecisionMetric", "context_precision")
ContextRelevancyMetric = _metric("ContextRelevancyMetric", "context_relevancy")
ContextualRecallMetric = _metric("ContextualRecallMetric", "context_recall", output_is="reference")


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerResult:
    """A score (None = could not be measured) and its reason."""

    score: float | None
    reason: str


class _Scorer(_Judged):
    """The base of the newer scorers.

    One of `context` and `context_extractor(input, output)` is needed; the extractor goes first. Nothing retrieved is 0. With
    `parity` a scale of 0 is 1, and an empty `context` is an error.
    """

    def __init__(
        self,
        model: Judge | str | None = None,
        *,
        context: Sequence[Json] | None = None,
        context_extractor: Extractor | None = None,
        scale: float = 1,
        parity: Parity | None = None,
    ) -> None:
        if context is None and context_extractor is None:
            fix = "give context= or context_extractor="
            raise InputError(f"{type(self).__name__} needs contexts", fix=fix)
        super().__init__(model, scale or 1 if parity else scale, parity)
        self._context, self._extract = context, context_extractor
        if parity and context is not None and not context:
            raise InputError("context is empty", fix="leave it out and give context_extractor=")

    def run(self, input: Any, output: Any = None, ground_truth: str | None = None) -> ScorerResult:  # noqa: A002
        """Score one run: the question, the answer and, for recall, what is known to be right."""
        contexts = list(self._extract(input, output) if self._extract else self._context or ())
        return self._scored({"query": input, "contexts": contexts}, output, ground_truth)

    def _scored(self, row: dict[str, Json], output: Any, ground_truth: str | None) -> ScorerResult:
        raise NotImplementedError


class ContextPrecisionScorer(_Scorer):
    """Mean precision at the ranks of the relevant contexts. Source: Mastra 1.10."""

    def _scored(self, row: dict[str, Json], output: Any, _truth: str | None) -> ScorerResult:
        if self.parity and not row["contexts"]:
            raise InputError("no context is available for evaluation", fix="let context_extractor find some")
        name, against = "context_precision", "response" if self.parity else "query"
        (measured,) = self._judge.measure({**row, "response": output}, [name], against)
        score = self._score(measured, lambda verdicts: scored(name, verdicts, self.scale))
        return ScorerResult(score=score, reason=measured.reason)


class ContextRecallScorer(_Scorer):
    """The share of the ground truth's claims that the contexts support. Source: Mastra 1.10.

    Without a ground truth there is no score; Mastra gives 0.
    """

    def _scored(self, row: dict[str, Json], _output: Any, ground_truth: str | None) -> ScorerResult:
        (measured,) = self._judge.measure({**row, "reference": ground_truth}, ["context_recall"])
        score = self._score(measured, lambda verdicts: recall(verdicts, len(verdicts), self.scale))
        return ScorerResult(score=score, reason=measured.reason)


class ContextRelevanceScorer(_Scorer):
    """The relevance of the contexts, less penalties for unused ones and for missing items.

    A context's level is its grade (3 high, 2 medium, 1 low, 0 none). It was used if it supports a claim of the answer;
    a claim that no context supports is a missing item. Source: Mastra 1.10, which asks for levels, use and missing
    items in one go.
    """

    def _scored(self, row: dict[str, Json], output: Any, _truth: str | None) -> ScorerResult:
        if self.parity and not row["contexts"]:
            return ScorerResult(score=1.0 * self.scale, reason="no context was available")
        required(output, "output", type(self).__name__)
        # the answer stands where the reference does: the question is which of its claims the contexts support
        row, names = {**row, "reference": output}, ["context_relevance", "context_recall"]
        relevant, used = self._judge.measure(row, names, "query")
        reason = f"{relevant.reason}; {used.reason}"
        if relevant.score.value is None or used.score.status == "error":
            return ScorerResult(score=None, reason=reason)
        levels = [_level(check) for check in relevant.explanation.relevance_checks]
        distinct = [context.text for context in distinct_contexts(used.sample)]
        in_use = {distinct[position - 1] for positions in used.support for position in positions}
        texts = [context.text for context in used.sample.contexts or ()]
        unused = sum(
            level == "high" and text not in in_use for level, text in zip(levels, texts, strict=False)
        )
        score = relevance(levels, unused=unused, missing=used.support.count(())) * self.scale
        return ScorerResult(score=rounded(score) if self.parity else score, reason=reason)


def _level(check: Mapping[str, Json]) -> Level:
    """Return the level of a grade; a judge that only says yes says high."""
    if check["relevant"]:
        return "medium" if check["grade"] == 2 else "high"
    return "low" if check["grade"] == 1 else "none"
