"""A grader that asks a model to score an answer by a prompt, or to check it against the items of a rubric."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from math import fsum
from pathlib import Path
from typing import Annotated, Any, ClassVar, Generic, Self, TypeVar

from pydantic import BeforeValidator, Field, StrictStr, ValidationInfo, model_validator

from germane.addons.agentv.graders.code_grader import findings
from germane.addons.agentv.graders.transcript import answer_of, criteria_of, message_json, reference_of
from germane.errors import AnswerError, InputError, Invalid
from germane.evalfiles import Case
from germane.evalfiles.model import Flag, Scalar, YamlModel, folder_of
from germane.graders import CaseGrader, GraderResult, Number
from germane.measures import ask
from germane.questions import PayloadModel, Program, Question, Reason, Text, YesNo
from germane.questions.payload import Limits
from germane.questions.prompts import variables_in, worded
from germane.questions.question import Prompt
from germane.samples.files import check_readable
from germane.types import FrozenDict, Json

A = TypeVar("A")
Zero1 = Annotated[float, Field(strict=True, ge=0, le=1, allow_inf_nan=False)]
_SHOWN = 4
"""The most hits, and the most misses, that AgentV stores."""


def capped(result: GraderResult, *, agentv: bool) -> GraderResult:
    """Return the result; with `agentv`, only as many hits and misses are left as AgentV stores."""
    return replace(result, hits=result.hits[:_SHOWN], misses=result.misses[:_SHOWN]) if agentv else result


def unjudged(why: str, *, agentv: bool) -> GraderResult:
    """Return the result if the judge gave no answer: an error or, with `agentv`, a score of 0."""
    if not agentv:
        return GraderResult.failed(why)
    return GraderResult(score=0.0, verdict="fail", details=FrozenDict({"error": why}))


@dataclass(frozen=True, slots=True, kw_only=True)
class Templated(Question[A], Generic[A]):
    """A question whose prompt is a template; `values` maps the template's variables to their values."""

    template: str
    values: FrozenDict

    @property
    def wording(self) -> Prompt:
        """The template, and the names of its variables."""
        return worded(self.template, frozenset(self.values))

    @property
    def about(self) -> str:
        """The values that occur in the prompt, joined by line breaks."""
        return "\n".join(str(value) for value in self.inputs().values())

    def inputs(self) -> dict[str, Json]:
        """Return the values of the variables that occur in the template, by name."""
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
        both = {"hits": [*payload.get("hits", ()), *hits], "misses": [*payload.get("misses", ()), *misses]}
        return {**kept, **both}


@dataclass(frozen=True, slots=True, kw_only=True)
class FreeForm(Templated[GraderResult]):
    """Asks a model to score the answer in the prompt from 0 to 1, with reasons."""

    kind: ClassVar[str] = "llm_judge"
    Payload: ClassVar[type[PayloadModel]] = OpinionPayload

    def answer(self, payload: OpinionPayload) -> GraderResult:
        """Return the result: the score, and the hits and misses that are not blank."""
        texts = ([text.strip() for text in lines if text.strip()] for lines in (payload.hits, payload.misses))
        hits, misses = map(tuple, texts)
        return GraderResult(score=payload.score, hits=hits, misses=misses, reasoning=payload.reasoning)

    def typical(self) -> Json:
        """Return a payload of typical size, for estimates of costs: a score, two points and a sentence."""
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
    """Asks a model to check an answer against the items of a rubric.

    `ids` are the items' ids; the model must check each item once. With `partial`, checks may be missing, as
    in AgentV.
    """

    kind: ClassVar[str] = "rubric"
    Payload: ClassVar[type[PayloadModel]] = ChecksPayload

    ids: tuple[str, ...]
    partial: bool = field(default=False, compare=False)

    def inputs(self) -> dict[str, Json]:
        """Return the values of the variables that occur in the template, and the ids of the items."""
        return {**Templated.inputs(self), "ids": list(self.ids)}

    def limits(self) -> Limits:
        """Return the limits of an answer: at most one check for each id."""
        return Templated.limits(self)._replace(verdicts="checks", subjects=len(self.ids))

    def answer(self, payload: ChecksPayload) -> tuple[tuple[Check, ...], str]:
        """Return the checks in the order of the rubric, and the overall comment.

        Raises AnswerError if an item is not checked exactly once. With `partial`, return the checks of known
        items in the order of the answer.
        """
        if self.partial:
            return tuple(check for check in payload.checks if check.id in self.ids), payload.overall_reasoning
        checks = {check.id: check for check in payload.checks}
        if sorted(self.ids) != sorted(check.id for check in payload.checks):
            expected, found = ", ".join(self.ids), ", ".join(check.id for check in payload.checks)
            raise AnswerError(f"the answer must check each item exactly once ({expected}), not {found}")
        return tuple(checks[id_] for id_ in self.ids), payload.overall_reasoning

    def typical(self) -> Json:
        """Return a payload of typical size, from which costs are estimated: one sentence per item."""
        why = "The answer names it and explains why."
        checks = [{"id": id_, "reasoning": why, "satisfied": True} for id_ in self.ids]
        return {"checks": checks, "overall_reasoning": why}


class RubricItem(YamlModel):
    """One item of a rubric: a statement that must be true of the answer.

    Attributes:
        id: The id of the item. Default: `rubric-N`, with the item's number.
        description: What must be true of the answer.
        weight: The weight of the item in the score.
        required: If true, the case fails if this item fails.
    """

    what = "an item of the rubric"
    text_field = "description"
    refused: ClassVar = frozenset({"scoreranges", "minscore", "requiredminscore", "operator"})
    aliases: ClassVar = {"description": ("outcome", "criteria", "criterion")}

    id: str = ""
    description: Annotated[str, Field(min_length=1)]
    weight: Number = 1.0
    required: Flag = True

    def line(self) -> str:
        """Return the item as a line of the prompt: its id, its weight if not 1, and its description."""
        notes = ["required"] if self.required else []
        notes += [f"weight {self.weight:g}"] if self.weight != 1 else []
        noted = f" ({', '.join(notes)})" if notes else ""
        return f"[{self.id}]{noted} {self.description}"


VARIABLES = (
    "candidate_answer", "question", "expected_outcome", "reference_answer", "input_messages", "output_messages",
    "expected_messages", "output", "input", "criteria", "expected_output", "rubrics",
)  # fmt: skip
"""The variables that a grader's template may contain, with the names of AgentV 2 and 4."""
_ANSWER = frozenset({"candidate_answer", "output", "output_messages"})
"""The variables whose values are the system's answer or its messages."""


def template_of(variables: Sequence[str]) -> BeforeValidator:
    """Return a validator that reads a prompt, which may contain these variables.

    A prompt is a string, or the name of a file that contains it. A name begins with `file://` or ends with
    .md, .txt or .prompt. The validator raises Invalid if the file cannot be read or a variable is unknown.
    """

    def read(value: Any, info: ValidationInfo) -> Any:
        if not isinstance(value, str):
            return value
        text, file, folder = str(value), "", folder_of(info)
        name = value.removeprefix("file://").strip()
        named = name.endswith((".md", ".txt", ".prompt")) and not any(c.isspace() for c in name)
        if isinstance(value, Scalar) and (named or value.startswith("file://")):
            check_readable(folder / name)
            try:
                text, file = (folder / name).read_text("utf-8-sig"), name
            except (OSError, UnicodeDecodeError) as fault:
                why = getattr(fault, "strerror", None) or "it is not UTF-8 text"
                raise Invalid(f"{name} in {folder} cannot be read: {why}", "check the path") from None
        names = sorted(filter(str.isidentifier, variables_in(text)))
        if unknown := next((name for name in names if name not in variables), None):
            problem = f"{file} uses the unknown variable {{{{{unknown}}}}}".lstrip()
            raise Invalid(problem, f"the variables are {', '.join(variables)}")
        return text

    return BeforeValidator(read)


class LLMGrader(CaseGrader):
    """Grades the answer by a model, which returns a score from 0 to 1 or checks the items of a rubric.

    The score of a rubric is the weight of the satisfied items / the weight of all items. If a required item
    fails, the verdict is `fail`, but the score does not change.

    Attributes:
        prompt: A template with variables (`{{candidate_answer}}`, `{{question}}`, `{{expected_outcome}}`,
            `{{reference_answer}}`, `{{input_messages}}`, `{{output_messages}}`, `{{expected_messages}}`;
            AgentV 4's `{{output}}`, `{{input}}`, `{{criteria}}`, `{{expected_output}}`, `{{rubrics}}`; no
            others), or a text without variables that says what a good answer must do.
        rubrics: The items of a rubric.
    """

    type: ClassVar[str] = "llm_judge"
    aliases: ClassVar = {"rubrics": ("rubric", "criteria"), "min_score": ("threshold",)}

    prompt: Annotated[str, template_of(VARIABLES)] | None = None
    rubrics: tuple[RubricItem, ...] = ()

    @model_validator(mode="after")
    def _named(self) -> Self:
        ids = [item.id or f"rubric-{number}" for number, item in enumerate(self.rubrics, 1)]
        if len(set(ids)) < len(ids):
            raise InputError("the ids of a rubric's items must be unique", fix="give each item its own id")
        pairs = zip(self.rubrics, ids, strict=True)
        items = tuple(item.model_copy(update={"id": name}) for item, name in pairs)
        object.__setattr__(self, "rubrics", items)
        return self

    @property
    def asks(self) -> bool:
        """True, because a model is always asked."""
        return True

    def compute(self, case: Case) -> Program[GraderResult]:
        """Ask the model once and return the result.

        The result is skipped if the prompt contains the system's answer but the case has no answer.
        """
        of_names = {  # see VARIABLES
            "question input": (case.question or case.sample.query).strip(),
            "candidate_answer output": answer_of(case).strip(),
            "reference_answer expected_output": reference_of(case).strip(),
            "expected_outcome criteria": criteria_of(case).strip(),
            "input_messages": _messages(case.input_messages),
            "output_messages": _messages(case.sample.messages),
            "expected_messages": _messages(case.expected_messages),
            "rubrics": "\n".join(item.line() for item in self.rubrics),
        }
        values = {name: text for names, text in of_names.items() for name in names.split()}
        template = prompt_text("rubric" if self.rubrics else "llm_judge")
        if self.prompt and variables_in(self.prompt) & values.keys():
            template = self.prompt
        elif self.prompt:
            values["criteria"] = values["expected_outcome"] = self.prompt.strip()
        if variables_in(template) & _ANSWER and (unknown := self.unanswered(case)):
            return unknown
        shown = FrozenDict(values)
        if not self.rubrics:
            result = yield from ask(FreeForm(template=template, values=shown))
            return capped(result, agentv=self.agentv)
        items = {item.id: item for item in self.rubrics}
        question = RubricQuestion(template=template, values=shown, ids=tuple(items), partial=self.agentv)
        checks, comment = yield from ask(question)
        total = fsum(items[check.id].weight for check in checks)
        if not total and not self.agentv:
            return GraderResult.skipped("the weights of a rubric must not sum to 0")
        earned = fsum(items[check.id].weight for check in checks if check.satisfied)
        failed = any(items[check.id].required and not check.satisfied for check in checks)
        texts: dict[bool, list[str]] = {True: [], False: []}
        for check in checks:
            text = f"[{check.id}] {items[check.id].description}".rstrip()
            texts[check.satisfied].append(f"{text}: {check.reasoning}" if check.reasoning else text)
        return GraderResult(
            score=min(1.0, earned / total) if total else 0.0,
            verdict="fail" if failed else None,
            hits=tuple(texts[True]),
            misses=tuple(texts[False]),
            reasoning=comment,
        )

    def missing(self, why: str) -> GraderResult:
        """Return the result if the model gave no answer; `why` is the reason.

        It is an error or, with AgentV compatibility and without a rubric, a score of 0.
        """
        return unjudged(why, agentv=self.agentv and not self.rubrics)


def _messages(messages: Sequence[Any]) -> str:
    return json.dumps([message_json(message) for message in messages], ensure_ascii=False, indent=2)


@cache
def prompt_text(name: str) -> str:
    """Return the text of the built-in prompt with this name."""
    return (Path(__file__).with_name("prompts") / f"{name}.md").read_text("utf-8").strip()
