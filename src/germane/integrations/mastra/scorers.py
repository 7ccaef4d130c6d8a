"""The newer scorers: contexts given or taken from a run, `run(input, output, ground_truth)`, a score and a reason."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from germane.errors import InputError
from germane.integrations.mastra.formulas import (
    Level,
    Parity,
    Penalties,
    check_parity,
    recall,
    relevance,
    scored,
    usefulness,
)
from germane.integrations.measuring import measure_case, required
from germane.judges.judge import Judge
from germane.measures.labels import distinct_contexts
from germane.types import Json, Sample

Extractor: TypeAlias = Callable[[Any, Any], Sequence[Json]]


@dataclass(frozen=True, slots=True, kw_only=True)
class ScorerResult:
    """A score (None = could not be measured) and its reason."""

    score: float | None
    reason: str


class _Scorer:
    """What the three have in common.

    `model` None = the judge of GERMANE_JUDGE or the config. One of `context` and `context_extractor(input, output)` is needed; the extractor goes first. Nothing retrieved is 0.
    `parity="mastra"` computes as Mastra does: half up to two decimals after scaling, over the verdicts that were given,
    a scale of 0 as 1, and an empty `context` is an error.
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
            raise InputError(
                f"{type(self).__name__} needs contexts", fix="give context= or context_extractor="
            )
        self.model, self.parity = model, check_parity(parity)
        self.scale = scale or 1 if parity else scale
        self._context, self._extract = context, context_extractor
        if parity and context is not None and not context:
            raise InputError("context is empty", fix="leave it out and give context_extractor=")

    def run(self, input: Any, output: Any = None, ground_truth: str | None = None) -> ScorerResult:  # noqa: A002
        """Score one run: the question, the answer and, for recall, what is known to be right."""
        contexts = list(self._extract(input, output) if self._extract else self._context or ())
        row: dict[str, Json] = {"query": input, "contexts": contexts}
        return self._scored(row, output, ground_truth)

    def _scored(self, row: dict[str, Json], output: Any, ground_truth: str | None) -> ScorerResult:
        raise NotImplementedError

    def _scaled(self, value: float | None) -> float | None:
        return None if value is None else value * self.scale


class ContextPrecisionScorer(_Scorer):
    """Mean precision at the ranks of the relevant contexts. Source: Mastra 1.10."""

    def _scored(self, row: dict[str, Json], output: Any, _truth: str | None) -> ScorerResult:
        if self.parity and not row["contexts"]:
            raise InputError("no context is available for evaluation", fix="let context_extractor find some")
        against = "response" if self.parity else "query"
        (measured,) = measure_case(
            {**row, "response": output}, ["context_precision"], judge=self.model, against=against
        )
        score = self._scaled(measured.score.value)
        if self.parity and measured.score.status != "error":
            score = scored("precision", measured.relevant, self.scale)
        return ScorerResult(score=score, reason=measured.reason)


class ContextRecallScorer(_Scorer):
    """The share of the ground truth's claims that the contexts support. Source: Mastra 1.10.

    Without a ground truth there is no score; Mastra gives 0.
    """

    def _scored(self, row: dict[str, Json], _output: Any, ground_truth: str | None) -> ScorerResult:
        (measured,) = measure_case({**row, "reference": ground_truth}, ["context_recall"], judge=self.model)
        score = self._scaled(measured.score.value)
        if self.parity and measured.score.status != "error":
            verdicts = [bool(places) for places in measured.support]
            score = recall(verdicts, len(verdicts), self.scale)
        return ScorerResult(score=score, reason=measured.reason)


class ContextRelevanceScorer(_Scorer):
    """How relevant the contexts are, whether the answer used them, and what it had to do without.

    A context's level is its grade (3 high, 2 medium, 1 low, 0 none). It was used if it supports a claim of the answer;
    a claim that no context supports is a missing item. Source: Mastra 1.10, which asks for levels, use and missing
    items in one go.
    """

    def __init__(
        self, model: Judge | str | None = None, *, penalties: Penalties | None = None, **options: Any
    ) -> None:
        super().__init__(model, **options)
        self.penalties = penalties

    def _scored(self, row: dict[str, Json], output: Any, _truth: str | None) -> ScorerResult:
        if self.parity and not row["contexts"]:
            return ScorerResult(score=1.0 * self.scale, reason="no context was available")
        required(output, "output", type(self).__name__)
        # the answer stands where the reference does: the question is which of its claims the contexts support
        relevant, used = measure_case(
            {**row, "reference": output},
            ["context_relevance", "context_recall"],
            judge=self.model,
            against="query",
        )
        reason = f"{relevant.reason}; {used.reason}"
        if relevant.score.value is None or used.score.status == "error":
            return ScorerResult(score=None, reason=reason)
        levels = [_level(check) for check in relevant.explanation.relevance_checks]
        places = {place for supporting in used.support for place in supporting}
        numbers = _numbers(relevant.sample)
        unused = sum(level == "high" and numbers[i] not in places for i, level in enumerate(levels))
        missing = used.support.count(())
        if self.parity:
            score = relevance(
                levels, unused=unused, missing=missing, scale=self.scale, penalties=self.penalties
            )
        else:
            score = usefulness(levels, unused=unused, missing=missing, penalties=self.penalties) * self.scale
        return ScorerResult(score=score, reason=reason)


def _level(check: Mapping[str, Json]) -> Level:
    """The level of a grade; a judge that says no more than yes says high."""
    if check["relevant"]:
        return "medium" if check["grade"] == 2 else "high"
    return "low" if check["grade"] == 1 else "none"


def _numbers(sample: Sample) -> list[int]:
    """The number of each context among the distinct ones, from 1: how a question about all of them counts."""
    distinct = [context.text for context in distinct_contexts(sample)]
    return [distinct.index(context.text) + 1 for context in sample.contexts or ()]
