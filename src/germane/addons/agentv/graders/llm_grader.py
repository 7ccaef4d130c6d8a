"""The model as a grader: free form by a prompt, or item by item by a rubric."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from math import fsum
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Discriminator, Field, Tag, ValidationInfo, model_validator

from germane.addons.agentv.graders.opinions import Check, FreeForm, RubricQuestion, capped, unjudged
from germane.addons.agentv.graders.transcript import (
    answer_of,
    criteria_of,
    message_json,
    names_of,
    question_of,
    reference_of,
    script_document,
    tool_calls,
)
from germane.addons.agentv.script import ScriptText
from germane.clean import fold
from germane.errors import InputError, Invalid
from germane.evalfiles import Case
from germane.graders import CaseGrader, Command, GraderResult, Number
from germane.measures import ask
from germane.questions import Program
from germane.questions.prompts import variables_in
from germane.samples.files import check_readable
from germane.types import FrozenDict, freeze
from germane.yamltext import (
    Flag,
    JsonMapping,
    Keys,
    Node,
    Scalar,
    Share,
    Texts,
    YamlModel,
    folder_of,
    for_model,
    plain,
)

_Tenth = Annotated[int, Field(ge=0, le=10), plain]


class ScoreRange(YamlModel):
    """The meaning of the scores from `score_range[0]` to `score_range[1]`."""

    what = "a score range"

    score_range: tuple[_Tenth, _Tenth]
    outcome: Annotated[str, Field(min_length=1)]

    @property
    def scores(self) -> range:
        """The whole scores in the range, both ends included."""
        return range(self.score_range[0], self.score_range[1] + 1)

    def __str__(self) -> str:
        span = "-".join(map(str, dict.fromkeys(self.score_range)))
        return f"{span}: {self.outcome}"


def _ranges(value: Any) -> Any:
    """Return `{0: bad, 5: fair, 9: good}` as ranges with upper ends."""
    plain = value.json() if isinstance(value, Node) else value
    if not isinstance(plain, Mapping):
        return value
    starts = sorted((int(key), text) for key, text in plain.items() if str(key).isdecimal())
    ends = [start - 1 for start, _ in starts[1:]] + [10]
    pairs = zip(starts, ends, strict=True)
    return [{"score_range": (start, end), "outcome": text} for (start, text), end in pairs]


class RubricItem(YamlModel):
    """One thing that an answer must do.

    Attributes:
        id: Its name; "" is `rubric-N`.
        description: What must be true of the answer.
        weight: Its weight in the score.
        required: Failing it fails the case. Default: true without score ranges.
        min_score: Of an item with score ranges: the least score, from 0 to 1, else the verdict fails.
        required_min_score: The same from 0 to 10, as AgentV has it.
        score_ranges: What scores from 0 to 10 mean; they must cover all of them.
        operator: `contradiction` only asks that the answer does not contradict the description.
    """

    what = "an item of the rubric"
    text_field = "description"
    aliases: ClassVar = {"description": ("outcome", "criteria", "criterion")}

    id: str = ""
    description: str = ""
    weight: Number = 1.0
    required: Flag | None = None
    min_score: Share | None = None
    required_min_score: Annotated[Number, Field(le=10)] | None = None
    score_ranges: Annotated[tuple[ScoreRange, ...], BeforeValidator(_ranges)] = ()
    operator: Literal["correctness", "contradiction"] | None = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if not self.description and not self.score_ranges:
            raise Invalid("is not complete", "write description: what must be true")
        covered = sorted(score for span in self.score_ranges for score in span.scores)
        if self.score_ranges and covered != list(range(11)):
            fix = "cover each whole number from 0 to 10 once"
            raise Invalid("leaves scores out, or has them twice", fix, "score_ranges")
        return self

    @property
    def least(self) -> float | None:
        """The score, from 0 to 1, below which the verdict is fail; None = no such score."""
        if not self.score_ranges:
            return None if self.required is False else 1.0
        if self.min_score is not None or self.required_min_score is None:
            return self.min_score if self.min_score is not None else 1.0 if self.required else None
        return self.required_min_score / 10

    def line(self) -> str:
        """Return the item as the prompt shows it."""
        notes = ["required"] if self.least is not None and not self.score_ranges else []
        notes += [f"weight {self.weight:g}"] if self.weight != 1 else []
        if self.operator == "contradiction":
            notes.append("satisfied unless the answer contradicts it; it need not be mentioned")
        ranges = "; ".join(map(str, self.score_ranges))
        message = " ".join(filter(None, [self.description, ranges and f"Scores: {ranges}"]))
        noted = f" ({', '.join(notes)})" if notes else ""
        return f"[{self.id}]{noted} {message}"


VARIABLES = (
    "candidate_answer", "question", "expected_outcome", "reference_answer", "input_messages", "output_messages",
    "expected_messages", "output", "input", "criteria", "expected_output", "metadata", "metadata_json", "tool_calls",
    "file_changes", "rubric", "rubrics", "rubrics_json",
)  # fmt: skip
"""The variables of a grader's template, in the words of both generations of AgentV."""
_ANSWER = frozenset({"candidate_answer", "output", "output_messages", "tool_calls"})
"""Those that stand for what the system answered or did."""


def unknown_variable(template: str, variables: Sequence[str]) -> Invalid | None:
    """Return the fault of a template with an unknown variable, such as `{{anwser}}`."""
    names = (name for name in sorted(variables_in(template)) if name[:1].isalpha() or name[:1] == "_")
    for name in names:
        if name not in variables:
            listed = ", ".join(f"{{{{{known}}}}}" for known in variables)
            return Invalid(
                f"names a variable that does not exist: {{{{{name}}}}}", f"the variables are {listed}"
            )
    return None


def template_of(variables: Sequence[str]) -> BeforeValidator:
    """Return a parser of prompts with these variables; a prompt is a text, or the name of a file with it.

    It names a file by `file://`, or by a name that ends with .md, .txt or .prompt.
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
        if wrong := unknown_variable(text, variables):
            wrong.problem = f"{file} {wrong.problem}".lstrip()
            raise wrong
        return text

    return BeforeValidator(read)


PromptText = Annotated[str, template_of(VARIABLES)]


class PromptCommand(YamlModel):
    """A program of the user's that writes the prompt: the case is on its stdin as scripts get it, the prompt on its stdout.

    Attributes:
        command: A list is the program and its arguments, a text runs through `sh -lc`.
        cwd: Where it starts.
        env: Further environment variables that it gets.
        config: `config` of the document on stdin.
    """

    what = "a prompt"
    aliases: ClassVar = {"command": ("script",)}

    command: Command
    cwd: str = "."
    env: Texts = ()
    config: JsonMapping = FrozenDict()

    @classmethod
    def complete(cls, keys: Keys) -> None:
        """Complete the command, which is started in the eval file's folder; a list where its last word is a file, as AgentV has it."""
        super().complete(keys)
        values, folder = keys.values, folder_of(keys).resolve()
        values["cwd"] = str(folder)
        if isinstance(command := values.get("command"), list) and command and isinstance(command[-1], str):
            file = folder / command[-1]
            if not file.is_file():
                problem = f"has no file {str(command[-1])!r} in {folder}"
                raise Invalid(problem, "end the command with its script", "command")
            values |= {"command": [*command[:-1], str(file)], "cwd": str(file.parent)}


_Prompt = Annotated[
    Annotated[PromptText, Tag("text")] | Annotated[PromptCommand, Tag("command")],
    Discriminator(lambda value: "text" if isinstance(value, str) else "command"),
]


class LLMGrader(CaseGrader):
    """A model grades the answer: free form with a score from 0 to 1, or against a rubric.

    The score of a rubric is the satisfied weight / the whole weight; of items with score ranges the weighted mean of
    score / 10. A failed required item makes the verdict `fail` and leaves the score.

    Attributes:
        prompt: A template with variables (`{{candidate_answer}}`, `{{question}}`, `{{expected_outcome}}`,
            `{{reference_answer}}`, `{{input_messages}}`, `{{output_messages}}`, `{{expected_messages}}`; AgentV 4's
            `{{output}}`, `{{input}}`, `{{criteria}}`, `{{expected_output}}`, `{{metadata}}`, `{{tool_calls}}`,
            `{{rubrics}}`; no other), or, without any, what a good answer does; or a program that writes the template.
        rubrics: The items of a rubric.
    """

    type: ClassVar[str] = "llm_judge"
    aliases: ClassVar = {"prompt": ("value",), "rubrics": ("rubric",), "min_score": ("threshold",)}

    prompt: _Prompt | None = None
    rubrics: tuple[RubricItem, ...] = ()

    @classmethod
    def complete(cls, keys: Keys) -> None:
        """Read `criteria`, and a `rubric` that is a text, as the prompt; a list of them is the rubric."""
        values, others, spelt = keys.values, keys.others, keys.node.spelt
        items = [(key, for_model(others.pop(key))) for key in [*others] if fold(key) == "criteria"]
        if isinstance(values.get("rubrics"), str):
            items.append((spelt["rubrics"], values.pop("rubrics")))
        for key, value in items:
            name = "prompt" if isinstance(value, str) else "rubrics"
            if values.setdefault(name, value) is value:
                spelt[name] = key
        super().complete(keys)

    @model_validator(mode="after")
    def _named(self) -> Self:
        ids = [item.id or f"rubric-{number}" for number, item in enumerate(self.rubrics, 1)]
        if len(set(ids)) < len(ids):
            raise InputError("two items of the rubric have the same id", fix="give one of them another")
        pairs = zip(self.rubrics, ids, strict=True)
        items = tuple(item.model_copy(update={"id": name}) for item, name in pairs)
        object.__setattr__(self, "rubrics", items)
        return self

    @property
    def asks(self) -> bool:
        """True: a model always has to be asked."""
        return True

    @property
    def scored(self) -> bool:
        """True if the items are scored from 0 to 10."""
        return any(item.score_ranges for item in self.rubrics)

    def compute(self, case: Case) -> Program[GraderResult]:
        """Ask once and return the result; skipped if the prompt shows an answer and none is known."""
        values = self._values(case)
        own = None
        if isinstance(self.prompt, PromptCommand):
            document = freeze(script_document(case, self.prompt.config))
            command, cwd, env = self.prompt.command, self.prompt.cwd, self.prompt.env
            named = names_of(case, self.label)
            own = yield from ask(ScriptText(command=command, document=document, cwd=cwd, env=env, of=named))
            if wrong := unknown_variable(own, VARIABLES):
                problem = f"the prompt that the program printed {wrong.problem}"
                return GraderResult.failed(f"{problem}; {wrong.fix}")
        elif self.prompt and variables_in(self.prompt) & values.keys():
            own = self.prompt
        elif self.prompt:
            values["criteria"] = values["expected_outcome"] = self.prompt.strip()
        usual = "llm_judge" if not self.rubrics else "rubric_scores" if self.scored else "rubric"
        template, shown = own or prompt_text(usual), FrozenDict(values)
        if variables_in(template) & _ANSWER and (unknown := self.unanswered(case)):
            return unknown
        if not self.rubrics:
            result = yield from ask(FreeForm(template=template, values=shown))
            return capped(result, agentv=self.agentv)
        ids = tuple(item.id for item in self.rubrics)
        question = RubricQuestion(
            template=template, values=shown, ids=ids, scored=self.scored, partial=self.agentv
        )
        checks, message = yield from ask(question)
        return self._rubric(checks, message)

    def missing(self, why: str) -> GraderResult:
        """Return an error, or AgentV's score of 0 for a free-form grader."""
        return unjudged(why, agentv=self.agentv and not self.rubrics)

    def _rubric(self, checks: Sequence[Check], message: str) -> GraderResult:
        """Return the result for the checked items."""
        items = {item.id: item for item in self.rubrics}
        texts: dict[bool, list[str]] = {True: [], False: []}
        failed = False
        for check in checks:
            least = items[check.id].least
            below = least is not None and check.value < least
            failed |= below
            hit = not below and check.value >= (0.7 if self.scored else 1.0)
            texts[hit].append(_finding(items[check.id], check))
        total = fsum(items[check.id].weight for check in checks)
        earned = fsum(items[check.id].weight * check.value for check in checks)
        if not total and not self.agentv:
            return GraderResult.skipped("the weights of the rubric sum to 0")
        details = {"raw_scores": {check.id: check.score for check in checks}} if self.scored else {}
        return GraderResult(
            score=min(1.0, earned / total) if total else 0.0,
            verdict="fail" if failed else None,
            hits=tuple(texts[True]),
            misses=tuple(texts[False]),
            reasoning=message,
            details=FrozenDict(details),
        )

    def _values(self, case: Case) -> dict[str, str]:
        """Return the values of a template's variables, under the names of both generations."""
        metadata = dict(case.metadata or case.sample.metadata)
        rubrics, criteria = "\n".join(item.line() for item in self.rubrics), criteria_of(case).strip()
        values = {
            "question input": question_of(case).strip(),
            "candidate_answer output": answer_of(case).strip(),
            "reference_answer expected_output": reference_of(case).strip(),
            "expected_outcome criteria": criteria,
            "input_messages": _messages(case.input_messages),
            "output_messages": _messages(case.sample.messages),
            "expected_messages": _messages(case.expected_messages),
            "metadata": json.dumps(metadata, ensure_ascii=False, indent=2),
            "metadata_json": json.dumps(metadata, ensure_ascii=False),
            "tool_calls": "\n".join(f"- {call.tool}: {json.dumps(call.input)}" for call in tool_calls(case)),
            "file_changes": "",
            "rubric": rubrics or criteria,
            "rubrics": rubrics,
            "rubrics_json": json.dumps([item.model_dump(exclude_defaults=True) for item in self.rubrics]),
        }
        return {name: text for names, text in values.items() for name in names.split()}


def _finding(item: RubricItem, check: Check) -> str:
    text = f"[{item.id}] {item.description}".rstrip()
    if check.score is not None:
        means = next((span.outcome for span in item.score_ranges if check.score in span.scores), "")
        text = f"{text} - Score: {check.score}/10{f' ({means})' if means else ''}"
    return f"{text}: {check.reasoning}" if check.reasoning else text


def _messages(messages: Sequence[Any]) -> str:
    return json.dumps([message_json(message) for message in messages], ensure_ascii=False, indent=2)


@cache
def prompt_text(name: str) -> str:
    """Return the text of one of the built-in prompts."""
    return (Path(__file__).with_name("prompts") / f"{name}.md").read_text("utf-8").strip()
