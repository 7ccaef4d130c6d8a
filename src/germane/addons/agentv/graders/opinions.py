"""Questions to a model as a grader: an opinion in free form, or a check of each item of a rubric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Annotated, Any, ClassVar, Generic, TypeVar

from pydantic import Field, StrictStr, model_validator

from germane.addons.agentv.script import findings
from germane.errors import AnswerError
from germane.graders import GraderResult, verdict_of
from germane.questions import PayloadModel, Question, Reason, Text, YesNo
from germane.questions.payload import Limits
from germane.questions.prompts import variables_in
from germane.questions.question import Wording
from germane.questions.voting import Vote, of_lists
from germane.types import FrozenDict, Json

A = TypeVar("A")
Zero1 = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]
_SHOWN = 4
"""Hits and misses that AgentV keeps of a list."""


def capped(result: GraderResult, *, agentv: bool) -> GraderResult:
    """Return the result; for AgentV with at most as many hits and misses as it keeps."""
    return replace(result, hits=result.hits[:_SHOWN], misses=result.misses[:_SHOWN]) if agentv else result


def unjudged(why: str, *, agentv: bool) -> GraderResult:
    """Return the result for a judge's answer that is missing: an error, or AgentV's 0."""
    if not agentv:
        return GraderResult.failed(why)
    return GraderResult(score=0.0, verdict="fail", details=FrozenDict({"error": why}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Templated(Question[A], Generic[A]):
    """A question worded by a template; `values` are what its variables stand for."""

    template: str
    values: FrozenDict

    @property
    def wording(self) -> Wording:
        """The template, and the names of the values that fill it."""
        return Wording(self.template, frozenset(self.values))

    @property
    def about(self) -> str:
        """The values that the template shows."""
        return "\n".join(str(value) for value in self.inputs().values())

    def inputs(self) -> dict[str, Json]:
        """Return the values that the template shows, by name."""
        visible = variables_in(self.template)
        return {name: value for name, value in self.values.items() if name in visible}


class OpinionPayload(PayloadModel):
    """`{reasoning, hits, misses, score}`; a prompt of the user's may ask for `{score, assertions}` instead, as AgentV 4 does."""

    reasoning: Reason = ""
    hits: list[StrictStr] = Field(default_factory=list)
    misses: list[StrictStr] = Field(default_factory=list)
    score: Zero1

    @model_validator(mode="before")
    @classmethod
    def _asserted(cls, payload: Any) -> Any:
        listed = payload.get("assertions") if isinstance(payload, Mapping) else None
        if not isinstance(listed, list | tuple) or not all(isinstance(value, Mapping) for value in listed):
            return payload
        hits, misses = findings(listed)
        kept = {name: value for name, value in payload.items() if name not in {"assertions", "details"}}
        return {
            **kept,
            "hits": [*payload.get("hits", ()), *hits],
            "misses": [*payload.get("misses", ()), *misses],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeForm(Templated[GraderResult]):
    """Grade the answer that this prompt shows, from 0 to 1."""

    kind: ClassVar[str] = "llm_judge"
    Payload: ClassVar[type[PayloadModel]] = OpinionPayload

    def answer(self, payload: OpinionPayload) -> GraderResult:
        """Return the score and its reasons."""
        texts = ([text.strip() for text in some if text.strip()] for some in (payload.hits, payload.misses))
        hits, misses = map(tuple, texts)
        return GraderResult(score=payload.score, hits=hits, misses=misses, reasoning=payload.reasoning)

    def vote(self, payloads: Sequence[Json]) -> Vote:
        """Return the lower median of the scores, with the reasons of the vote nearest to it."""
        payloads = [self.validate(payload) for payload in payloads]
        scores = sorted(payload["score"] for payload in payloads)
        score = scores[(len(scores) - 1) // 2]
        nearest = min(payloads, key=lambda payload: abs(payload["score"] - score))
        agree = sum(verdict_of(value) == verdict_of(score) for value in scores) / len(scores)
        return Vote({**nearest, "score": score}, agree)

    def typical(self) -> Json:
        """Return a score, two points and a sentence."""
        point = "names the main cause and explains it"
        return {"reasoning": f"The answer {point}.", "hits": [point], "misses": [point], "score": 0.8}


class Check(PayloadModel):
    """One item of a rubric: satisfied or not."""

    id: Text
    reasoning: Reason = ""
    satisfied: YesNo


class ChecksPayload(PayloadModel):
    """The answer to a rubric: `{checks: [{id, reasoning, satisfied}], overall_reasoning}`."""

    checks: list[Check]
    overall_reasoning: Reason = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RubricQuestion(Templated[tuple[tuple[Check, ...], str]]):
    """Check the answer that this prompt shows against items with these ids.

    Every id must come exactly once; with `partial` an item may be left out, as AgentV has it.
    """

    kind: ClassVar[str] = "rubric"
    Payload: ClassVar[type[PayloadModel]] = ChecksPayload

    ids: tuple[str, ...]
    partial: bool = field(default=False, compare=False)

    def inputs(self) -> dict[str, Json]:
        """Return the values that the template shows, and the ids that are asked for."""
        return {**Templated.inputs(self), "ids": list(self.ids)}

    def limits(self) -> Limits:
        """Return the longest answer that is accepted: one check for each id."""
        return Templated.limits(self)._replace(verdicts="checks", subjects=len(self.ids))

    def answer(self, payload: ChecksPayload) -> tuple[tuple[Check, ...], str]:
        """Return the checks in the order of the rubric, and the overall comment."""
        if self.partial:
            return tuple(check for check in payload.checks if check.id in self.ids), payload.overall_reasoning
        checked = [check.id for check in payload.checks]
        if sorted(checked) != sorted(self.ids):
            expected, found = ", ".join(self.ids), ", ".join(checked)
            raise AnswerError(f"each item must be checked once: {expected}; the answer checks {found}")
        checks = {check.id: check for check in payload.checks}
        return tuple(checks[id_] for id_ in self.ids), payload.overall_reasoning

    def vote(self, payloads: Sequence[Json]) -> Vote | None:
        """Vote item by item; the overall comment is that of the first vote."""
        if self.partial:
            return None
        payloads = [self.validate(payload) for payload in payloads]
        verdict = of_lists(payloads, self.schema(), ("checks", "id"))
        overall = payloads[0].get("overall_reasoning", "")
        return Vote({**verdict.payload, "overall_reasoning": overall}, verdict.agreement)

    def typical(self) -> Json:
        """Return each item as satisfied, with a sentence."""
        why = "The answer names it and explains why."
        checks = [{"id": id_, "reasoning": why, "satisfied": True} for id_ in self.ids]
        return {"checks": checks, "overall_reasoning": why}
