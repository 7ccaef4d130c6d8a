"""Decisions models: they are asked a typed question about a text, and answer by a probability for each level.

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
from germane.judges.client.foreign import PydanticAITransport
from germane.judges.client.output import ModelCapabilities
from germane.judges.client.parsing import chat_completion
from germane.questions.fusing import Ask
from germane.questions.relevance import most_probable
from germane.types import Json

_LEVEL = re.compile(r"(\d|true|false): *(.+)")
_LEVELS = {"grade": ("0", "1", "2", "3"), "relevant": ("false", "true")}
_OURS = {"state", "instructions", "field", "levels"}
_ROUNDING, _EXACT = 0.0051, 1e-6
"""The distance of a probability from what was meant, at most, since some providers round theirs to two digits; and the sum of some that
are not rounded from 1."""


class DecisionCapabilities(ModelCapabilities):
    """The requests of a decisions model: a text, what to decide about it, and the levels of the answer."""

    __slots__ = ()

    def body(self, ask: Ask, *_: Any, **__: Any) -> bytes:  # there is no text to correct or to limit
        """Return the request: the shown texts, the instructions without their levels, and these."""
        lines = ask.system.split("\n")
        levels = {match[1]: match[2] for line in lines if (match := _LEVEL.fullmatch(line))}
        (name,) = _LEVELS.keys() & ask.schema["properties"].keys()
        request = {
            "state": ask.user,
            "instructions": "\n".join(line for line in lines if not _LEVEL.fullmatch(line)),
            "field": name,
            "levels": [levels[level] for level in _LEVELS[name]],
            **self.parameters,
        }
        return json.dumps(request, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def check_levels(name: str, text: str, *, template: bool) -> None:
    """Raise InputError where a prompt does not say what each level means."""
    names = _LEVELS["relevant" if name.endswith("_binary") else "grade"]
    levels = [match[1] for line in text.split("\n") if (match := _LEVEL.fullmatch(line))]
    if template or sorted(levels) != sorted(names):
        lines = ", ".join(f'"{level}: ..."' for level in names)
        problem = (
            f"the prompt {name} is not one for a decisions model, which is given the levels of its answer"
        )
        raise InputError(problem, fix=f"write a line for each level, {lines}, and no variables")


class DecisionTransport(PydanticAITransport):
    """One decisions model; what it answers is given as the completion of a chat, with the payload as its text."""

    async def _complete(self, request: Mapping[str, Json]) -> dict[str, Json]:
        from pydantic_ai.exceptions import ContentFilterError, UnexpectedModelBehavior
        from pydantic_ai.models.decision import DecisionModel, DecisionRequest, ScoreAnswer, ScoreQuestion

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
            return chat_completion({"content": "", "refusal": str(error)}, "stop", None, {})
        except UnexpectedModelBehavior as error:
            raise AnswerError(error.message) from None
        answer = response.answers["relevance"]
        shares = answer.probabilities if isinstance(answer, ScoreAnswer) else {}
        values = [shares.get(level, nan) for level in range(len(question.criteria))]
        if not abs(sum(values) - 1) <= _ROUNDING * len(values):
            raise AnswerError(f"the probabilities {values} are not a distribution over {len(values)} levels")
        probabilities = values if abs(sum(values) - 1) < _EXACT else [value / sum(values) for value in values]
        mode = most_probable(probabilities)
        verdict = {request["field"]: bool(mode) if request["field"] == "relevant" else mode}
        text = json.dumps({**verdict, "probabilities": probabilities})
        return chat_completion({"content": text}, "stop", response.model_name, vars(response.usage))
