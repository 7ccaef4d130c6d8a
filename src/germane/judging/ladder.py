"""How one model at one endpoint wants to be asked: the request's body, and what its refusals teach.

The rungs of structured output: a strict JSON Schema, a tool call, a schema in the prompt. A server that
answers 400 and says so is asked one rung lower, for good; what else it does not take (temperature, a system
message, a name for the token limit) is left out, for good.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from germane.judging.limitname import LIMITS, LimitName
from germane.judging.scouting import Scouting
from germane.judging.sizes import Sizes
from germane.judging.truncation import Truncation
from germane.questions.reading import Ask
from germane.questions.text import blank
from germane.types import Json

__all__ = ["LOWEST", "ROOM", "RUNGS", "Correction", "Habits"]

RUNGS = ("schema", "tool", "prompt")
LOWEST = len(RUNGS) - 1
TWICE = 2
ROOM = 4096
"""Tokens to ask for where an answer was cut off without a limit of ours."""

_WORDS = {
    "schema": ("response_format", "response format", "schema", "structured", "guided", "grammar"),
    "tool": ("tool", "function"),
}
_SYSTEM = re.compile(
    r"system.*(?:role|message)|(?:role|message).*system|developer (?:instruction|message|role)|roles? must alternate",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Correction:
    """What was wrong with the answer before, to be told to the model."""

    answer: str
    problem: str


@dataclass(slots=True, kw_only=True)
class Habits:
    """What an endpoint and model take; changes are learned from its answers and counted by `version`.

    `limit` is the user's own of an answer's tokens, `most` what the model allows (0 = not known), `heard` whether there
    ever was an answer, `hopeless` why nobody is to ask any more.
    """

    model: str
    temperature: float | None = None
    limit: int | None = None
    parameters: Mapping[str, Json] = field(default_factory=dict)
    limit_name: LimitName = field(default_factory=lambda: LimitName(LIMITS[0]))
    most: int = 0
    rung: int = 0
    proven: bool = False
    heard: bool = False
    ignored: int = 0
    rejected: int = 0
    hopeless: str = ""
    system: bool = True
    version: int = 0
    sizes: Sizes = field(default_factory=Sizes)
    truncation: Truncation = field(default_factory=Truncation)
    scouting: Scouting = field(default_factory=Scouting)

    def __post_init__(self) -> None:
        """A token limit among the user's own parameters is the limit, under the name that they gave it."""
        own = dict(self.parameters)
        for name in LIMITS:
            if type(own.get(name)) is int:
                self.limit, self.limit_name = own.pop(name), LimitName(name)
        self.parameters = own

    def body(self, ask: Ask, note: Correction | None = None, room: int | None = None, rung: int = 0) -> bytes:
        """The request as bytes: constant instructions first, the text last; `room` is how long the answer may be."""
        rung = max(rung, self.rung)
        request: dict[str, Json] = {"model": self.model, "messages": self._messages(ask, note, rung)}
        if self.temperature is not None:
            request["temperature"] = self.temperature
        request.update(_structure(ask, rung))
        request.update(self.parameters)
        if (limit := room or self.limit) and self.limit_name.name:
            request = {name: value for name, value in request.items() if name not in LIMITS}
            request[self.limit_name.name] = limit
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
            if not blank(note.answer):
                messages += [{"role": "assistant", "content": note.answer}, {"role": "user", "content": told}]
            else:
                messages[-1] = {"role": "user", "content": f"{user}\n\n{told}"}
        return messages

    def learn(self, said: str, rung: int, *, limited: bool = False) -> bool:
        """Whether an error's text says what to leave out or rename next time; then it is done."""
        if "temperature" in said and self.temperature is not None:
            self.temperature = None
        elif limited and self.limit_name.refused(said):
            pass  # it has another name by now
        elif self.system and _SYSTEM.search(said):
            self.system = False
        elif rung < LOWEST and any(word in said for word in _WORDS[RUNGS[rung]]):
            self.rung = max(self.rung, rung + 1)
        else:
            return False
        self.version += 1
        return True

    def unheeded(self, name: str) -> bool:
        """Whether to ask again under another name of the token limit, since the answer was cut well below it."""
        again = self.limit_name.unheeded(name)
        self.version += again
        return again

    def limited(self) -> None:
        """The endpoint's own limit is short: from now on every request names one, not each after a cut answer."""
        if self.limit is None:
            self.limit = ROOM
            self.version += 1

    def worked(self, rung: int) -> None:
        """A first answer on this rung could be used."""
        if not self.proven:
            self.scouting.done()
            self.version += rung > self.rung
            self.proven, self.rung = True, max(self.rung, rung)

    def shapeless(self) -> None:
        """An answer was not of the schema: a server that takes a schema and ignores it is told it in words."""
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
