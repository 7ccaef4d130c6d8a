"""The judge that asks a decisions model: typed questions about a text, answered by a probability for each level.

How relevant a passage is, is put as a score whose levels are the grades of the prompt. What comes back is a distribution:
it is kept in the judgement, and the grade is its mode.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from math import nan
from typing import Any

from germane.errors import AnswerError, InputError
from germane.judges.client.call import GroupCall
from germane.judges.client.foreign import ForeignTransport, as_completion
from germane.judges.client.output import PROMPT, Correction, ModelCapabilities
from germane.judges.llm import LLMJudge
from germane.questions.prompts import fingerprint
from germane.questions.question import AnyQuestion
from germane.questions.reading import Ask
from germane.questions.relevance import most_probable
from germane.types import Json

DECIDED = ("relevance",)
"""Kinds of question that have a decision form."""

_LEVEL = re.compile(r"(\d|true|false): *(.+)")
_LEVELS = {"grade": ("0", "1", "2", "3"), "relevant": ("false", "true")}
_OURS = {"state", "instructions", "field", "levels"}
_ROUNDING = 0.0051
"""How far a probability may be from what was meant: some providers round theirs to two digits."""
_TOKENS_BACK = 4
"""Tokens of an answer, where nobody has told: a few numbers, which some providers count as none."""


class DecisionCall(GroupCall):
    """One call of a decisions model: its answers keep their probabilities."""

    @property
    def _mode(self) -> str:
        return "score"

    def _checked(self, question: AnyQuestion, payload: Json) -> Json:
        return question.normal(payload)


class DecisionJudge(LLMJudge):
    """A decisions model as the judge of relevance: its answer is a probability for each grade.

    Args:
        spec: `typesafe:MODEL`, `openai-decisions:MODEL`, `google-decisions:MODEL`, or `system-one:MODEL@URL` for a
            server of your own.
        batch, temperature, reasoning, max_output_tokens: Not possible: there is no text to draw, and one question a request.
        options: What LLMJudge takes beside these.

    Raises:
        InputError: There is no such provider, a setting is none, or a prompt of your own does not name the levels.
    """

    decides = True
    _call = DecisionCall

    def __init__(self, spec: str, **options: Any) -> None:
        given = {**options, **(options.get("parameters") or {})}
        for name in ("temperature", "reasoning", "max_output_tokens", "max_tokens", "batch"):
            options.pop(name, None)
            if given.get(name) not in {None, 1} or (name == "temperature" and given.get(name) is not None):
                problem = f"a decisions model is asked without {name}: it writes no text"
                raise InputError(problem, fix="leave it out")
        super().__init__(spec, **{**options, "temperature": None, "reading": "single"})
        self.capabilities = _DecisionCapabilities(
            model=self.service.model, parameters=self.capabilities.parameters, mode=PROMPT, limit_names=()
        )
        for name in options.get("prompts") or ():
            if name.startswith(DECIDED):
                _check_levels(name, self.prompts[name].text, template=bool(self.prompts[name].pieces))

    def prompt_hash(self, question: AnyQuestion) -> str:
        """The hash of the question's wording as a score."""
        return fingerprint(self.prompts.of(question).hash, "score")

    def _foreign(self) -> DecisionTransport:
        return DecisionTransport(self.service, self.service.secret(self._key), self._headers)

    def _tokens_back(self, questions: tuple[AnyQuestion, ...]) -> int:
        return _TOKENS_BACK * len(questions)


class _DecisionCapabilities(ModelCapabilities):
    """What a decisions model is asked: a text, what to decide about it, and the levels of the answer."""

    __slots__ = ()

    def body(
        self,
        ask: Ask,
        note: Correction | None = None,  # noqa: ARG002 - the same question again: there is no text to correct
        limit: int | None = None,  # noqa: ARG002 - nor to limit
        mode: int = 0,  # noqa: ARG002
    ) -> bytes:
        """The request: the shown texts, the instructions without their levels, and these."""
        lines = ask.system.split("\n")
        levels = {found[1]: found[2] for line in lines if (found := _LEVEL.fullmatch(line))}
        (name,) = _LEVELS.keys() & ask.schema["properties"].keys()
        request = {
            "state": ask.user,
            "instructions": "\n".join(line for line in lines if not _LEVEL.fullmatch(line)),
            "field": name,
            "levels": [levels[level] for level in _LEVELS[name]],
            **self.parameters,
        }
        return json.dumps(request, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def _check_levels(name: str, text: str, *, template: bool) -> None:
    """InputError where a prompt does not say what each level means."""
    wanted = _LEVELS["relevant" if name.endswith("_binary") else "grade"]
    levels = [found[1] for line in text.split("\n") if (found := _LEVEL.fullmatch(line))]
    if template or sorted(levels) != sorted(wanted):
        lines = ", ".join(f'"{level}: ..."' for level in wanted)
        problem = (
            f"the prompt {name} is not one for a decisions model, which is given the levels of its answer"
        )
        raise InputError(problem, fix=f"write a line for each level, {lines}, and no variables")


class DecisionTransport(ForeignTransport):
    """One decisions model; what it answers is given as the completion of a chat, with the payload as its text."""

    async def _complete(self, request: Mapping[str, Json]) -> dict[str, Json]:
        from pydantic_ai.exceptions import ContentFilterError, UnexpectedModelBehavior
        from pydantic_ai.models.decision import DecisionModel, DecisionRequest, ScoreAnswer, ScoreQuestion
        from pydantic_ai.usage import RequestUsage

        model: DecisionModel[Any] = self.model  # type: ignore[assignment]
        question = ScoreQuestion(instructions=request["instructions"], criteria=request["levels"])
        asked = DecisionRequest(state=request["state"], questions={"relevance": question})
        settings: dict[str, Any] = {"max_retries": 0}
        if self._extra_headers:
            settings["extra_headers"] = self._extra_headers
        if more := {name: value for name, value in request.items() if name not in _OURS}:
            settings["extra_body"] = more
        try:
            response = await model.decide(asked, settings)  # type: ignore[arg-type]
        except ContentFilterError as error:
            return as_completion({"content": "", "refusal": str(error)}, "stop", None, RequestUsage())
        except UnexpectedModelBehavior as error:
            raise AnswerError(error.message) from None
        answer = response.answers["relevance"]
        shares = answer.probabilities if isinstance(answer, ScoreAnswer) else {}
        given = [shares.get(level, nan) for level in range(len(question.criteria))]
        if not abs(sum(given) - 1) <= _ROUNDING * len(given):
            raise AnswerError(f"the probabilities {given} are no distribution over {len(given)} levels")
        probabilities = [one / sum(given) for one in given]
        mode = most_probable(probabilities)
        verdict = {request["field"]: bool(mode) if request["field"] == "relevant" else mode}
        text = json.dumps({**verdict, "probabilities": probabilities})
        return as_completion({"content": text}, "stop", response.model_name, response.usage)
