"""How one model at one endpoint wants to be asked: the request's body, and what its refusals teach.

The rungs of structured output: a strict JSON Schema, a tool call, a schema in the prompt. A server that
answers 400 and says so is asked one rung lower, for good; what else it does not take (temperature, a system
message, a name for the token limit) is left out, for good.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from germane.errors import AnswerError
from germane.judging.answers import object_in
from germane.judging.reading import Ask
from germane.types import Json

__all__ = ["RUNGS", "Answered", "Correction", "Habits", "Refused", "TooLong", "answered"]

RUNGS = ("schema", "tool", "prompt")
LOWEST = len(RUNGS) - 1
TWICE = 2
ROOM = 4096
"""Tokens to ask for where an answer was cut off without a limit of ours."""

_WORDS = {
    "schema": ("response_format", "response format", "schema", "structured", "guided", "grammar"),
    "tool": ("tool", "function"),
}


@dataclass(frozen=True, slots=True)
class Correction:
    """What was wrong with the answer before, to be told to the model."""

    answer: str
    problem: str


class Refused(Exception):
    """The model or its provider declined to answer; asking again would not help."""


class TooLong(Refused):
    """The texts are more than the model takes at once."""


@dataclass(slots=True, kw_only=True)
class Habits:
    """What an endpoint and model take; changes are learned from its answers and counted by `version`.

    `too_long` is the size of the smallest request that was more than the model takes, 0 = none yet; `reads` is how many
    tokens a server reads that cuts off the rest in silence.
    """

    model: str
    temperature: float | None = None
    limit: int | None = None
    parameters: Mapping[str, Json] = field(default_factory=dict)
    limit_name: str = "max_tokens"
    rung: int = 0
    proven: bool = False
    ignored: int = 0
    system: bool = True
    version: int = 0
    too_long: int = 0
    reads: int = 0

    def body(self, ask: Ask, note: Correction | None = None, room: int | None = None, rung: int = 0) -> bytes:
        """The request as bytes: constant instructions first, the text last."""
        rung = max(rung, self.rung)
        request: dict[str, Json] = {"model": self.model, "messages": self._messages(ask, note, rung)}
        if self.temperature is not None:
            request["temperature"] = self.temperature
        if room or self.limit:
            request[self.limit_name] = room or self.limit
        request.update(_structure(ask, rung))
        request.update(self.parameters)
        return json.dumps(request, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")

    def _messages(self, ask: Ask, note: Correction | None, rung: int) -> list[Json]:
        system, user = ask.system, ask.user
        if RUNGS[rung] == "prompt":
            system = f"{system}\n\nAnswer with one JSON object of this JSON Schema and nothing else:\n{_spell(ask)}"
        if not self.system:
            system, user = "", f"{system}\n\n{user}"
        messages: list[Json] = [{"role": "system", "content": system}] if system else []
        messages.append({"role": "user", "content": user})
        if note is not None:
            wrong = f"That cannot be used: {note.problem}. Answer again, all of it, as one JSON object of this JSON Schema:"
            told = f"{wrong}\n{_spell(ask)}"
            if note.answer:
                messages += [{"role": "assistant", "content": note.answer}, {"role": "user", "content": told}]
            else:
                messages[-1] = {"role": "user", "content": f"{user}\n\n{told}"}
        return messages

    def learn(self, said: str, rung: int) -> bool:
        """Whether an error's text says what to leave out next time; then it is left out."""
        if "temperature" in said and self.temperature is not None:
            self.temperature = None
        elif "max_completion_tokens" in said and self.limit_name == "max_tokens":
            self.limit_name = "max_completion_tokens"
        elif "max_tokens" in said and self.limit_name == "max_completion_tokens":
            self.limit_name = "max_tokens"
        elif self.system and "system" in said and ("role" in said or "message" in said):
            self.system = False
        elif rung < LOWEST and any(word in said for word in _WORDS[RUNGS[rung]]):
            self.rung = max(self.rung, rung + 1)
        else:
            return False
        self.version += 1
        return True

    def refused(self, size: int) -> None:
        """A request of that size was too long."""
        self.too_long = min(size, self.too_long or size)

    def worked(self, rung: int) -> None:
        """A first answer on this rung could be used."""
        if not self.proven:
            self.proven, self.rung = True, max(self.rung, rung)

    def no_json(self) -> None:
        """An answer was no JSON: a server that takes a schema and ignores it is told the schema in words."""
        if not self.proven:
            self.ignored += 1
            if self.ignored >= TWICE and self.rung < LOWEST:
                self.rung = LOWEST
                self.version += 1


def _spell(ask: Ask) -> str:
    return json.dumps({"title": ask.name, **ask.schema}, ensure_ascii=False, separators=(",", ":"))


def _structure(ask: Ask, rung: int) -> dict[str, Json]:
    if RUNGS[rung] == "schema":
        schema = {"name": ask.name, "strict": True, "schema": ask.schema}
        return {"response_format": {"type": "json_schema", "json_schema": schema}}
    if RUNGS[rung] == "tool":
        function = {"name": ask.name, "description": "Give the answer.", "parameters": ask.schema}
        choice = {"type": "function", "function": {"name": ask.name}}
        return {"tools": [{"type": "function", "function": function}], "tool_choice": choice}
    return {}


@dataclass(frozen=True, slots=True)
class Answered:
    """What came back: the text that should be JSON, how it ended, and what it used (None = not said)."""

    text: str
    finish: str
    model: str
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int = 0

    @property
    def cut(self) -> bool:
        """Whether the answer ended at the token limit."""
        return self.finish in {"length", "max_tokens"}

    def payload(self) -> dict[str, Json]:
        """The JSON object in the answer; AnswerError where there is none."""
        if not self.text.strip():
            raise AnswerError("the answer is empty")
        return object_in(self.text)


def answered(body: Mapping[str, Json]) -> Answered:
    """The answer in a response's JSON; Refused where the model or its provider declined to give one."""
    try:
        choice = body["choices"][0]
        message = choice["message"]
        refusal, finish = message.get("refusal"), choice.get("finish_reason") or ""
        text = _text(message)
    except (KeyError, IndexError, TypeError, AttributeError):
        return Answered("", "", "")
    if refusal:
        raise Refused(f"the model refused to answer: {str(refusal)[:300]}")
    if finish == "content_filter":
        raise Refused("the provider's content filter stopped the answer")
    return Answered(text, finish, str(body.get("model") or ""), *_tokens(body.get("usage")))


def _tokens(usage: Json) -> tuple[int | None, int | None, int]:
    if not isinstance(usage, dict):
        return None, None, 0
    sent, back = usage.get("prompt_tokens"), usage.get("completion_tokens")
    cached = (usage.get("prompt_tokens_details") or {}).get("cached_tokens") or 0
    return sent, back, cached


def _text(message: Mapping[str, Json]) -> str:
    if calls := message.get("tool_calls"):
        arguments = calls[0]["function"]["arguments"]
        return arguments if isinstance(arguments, str) else json.dumps(arguments)
    content = message.get("content") or ""
    if isinstance(content, list):
        content = "".join(part.get("text") or "" for part in content if isinstance(part, dict))
    return str(content)
