"""Build request bodies for one model at one endpoint, without what the endpoint has refused.

An answer is asked for in the first output mode that the endpoint accepts: a strict JSON Schema, a call of a
tool with that schema, or the schema in the prompt. Refusals are remembered per endpoint and model.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from germane.questions.fusing import Ask
from germane.questions.text import blank
from germane.types import Json

__all__ = ["MODES", "PROMPT"]

MODES = ("schema", "tool", "prompt")
PROMPT = MODES.index("prompt")

LIMIT_NAMES = ("max_tokens", "max_completion_tokens")  # OpenAI renamed it, and not all servers have followed
BYTES_PER_TOKEN = 4  # the estimate where the endpoint does not count tokens; most texts have fewer bytes each
ROOM = 4096  # tokens to ask for after an answer was cut off though the request named no limit
_IGNORED_ANSWERS = 2  # first answers not of the schema after which the server is assumed to ignore it

_MENTIONS = {
    "schema": re.compile(
        "response[_ ]format|schema|structured|guided|grammar|invalid format|for format|maxlength|maxitems"
    ),
    "tool": re.compile("tool|function|grammar|maxlength|maxitems"),
}
"""How refusals name each mode with a schema, or the limits in the schema."""
_WHOLLY = re.compile(
    r"(?:response.?format|structured.?outputs?|tools?|function.?calling)\W{0,3}(?: json_schema)? (?:is |are )?(?:not |un)support"
)
"""Refusals of the mode itself, whatever the schema holds."""
_SYSTEM = re.compile(
    r"system.*(?:role|message)|(?:role|message).*system|developer (?:instruction|message|role)|roles? must alternate",
    re.DOTALL,
)

_log = logging.getLogger("germane")

Correction: TypeAlias = tuple[str, str]  # an unusable answer and what was wrong with it, to show to the model


@dataclass(slots=True, kw_only=True)
class ModelCapabilities:
    """The forms of request that a model at an endpoint accepts, as learned from its responses."""

    model: str
    temperature: float | None = None  # None sends none
    parameters: Mapping[str, Json] = field(default_factory=dict)  # the user's own, sent unchanged
    max_tokens: int | None = None  # the user's limit of an answer; None sends none, unless one was cut off
    limit_names: tuple[str, ...] = LIMIT_NAMES  # those that may still be accepted; the first is sent
    schema_limits: bool = False  # the schema limits the length of lists and texts
    token_limits: bool = False  # requests set a limit computed from the question, where the user set none
    thoughts: int = 0  # tokens added to that limit for the model's reasoning
    mode: int = 0  # the current output mode, as an index in MODES
    proven: bool = False  # an answer in that mode was usable
    system: bool = True  # system messages are accepted
    left_out: tuple[str, ...] = ()  # features that were refused and are not sent any more
    _ignored: int = 0

    def __post_init__(self) -> None:
        """Move a token limit in `parameters` to `max_tokens`, and try the user's name for it first."""
        own = dict(self.parameters)
        for name in LIMIT_NAMES:
            if type(own.get(name)) is int:
                self.max_tokens = own.pop(name)
                self.limit_names = (name, *(other for other in LIMIT_NAMES if other != name))
        self.parameters = own

    def body(
        self, ask: Ask, note: Correction | None = None, limit: int | None = None, mode: int = 0
    ) -> bytes:
        """Return the JSON body of a request, with the constant instructions first and the text last.

        `limit` is the token limit of the answer: 0 sends none, None is the usual one.
        """
        mode, limit = max(mode, self.mode), self.limit(ask) if limit is None else limit
        request: dict[str, Json] = {"model": self.model, "messages": self._messages(ask, note, mode)}
        if self.temperature is not None:
            request["temperature"] = self.temperature
        schema = ask.limited if self.schema_limits else ask.schema
        if schema and MODES[mode] == "schema":
            definition = {"name": ask.name, "strict": True, "schema": schema}
            request["response_format"] = {"type": "json_schema", "json_schema": definition}
        elif schema and MODES[mode] == "tool":
            function = {"name": ask.name, "description": "Give the answer.", "parameters": schema}
            request["tools"] = [{"type": "function", "function": function}]
            request["tool_choice"] = {"type": "function", "function": {"name": ask.name}}
        request.update(self.parameters)
        if limit and self.limit_names:
            request = {name: value for name, value in request.items() if name not in LIMIT_NAMES}
            request[self.limit_names[0]] = limit
        return json.dumps(request, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")

    def limit(self, ask: Ask) -> int:
        """Return the token limit of an answer: the user's, else one computed from the question; 0 = none."""
        return self.max_tokens or (ask.room + self.thoughts if self.token_limits and ask.room else 0)

    def _messages(self, ask: Ask, note: Correction | None, mode: int) -> list[Json]:
        system, user = ask.system, ask.user
        if mode == PROMPT and ask.schema:
            system = f"{system}\n\nAnswer with one JSON object of this JSON Schema and nothing else:\n{_schema(ask)}"
        if not self.system:
            system, user = "", f"{system}\n\n{user}"
        messages: list[Json] = [{"role": "system", "content": system}] if system else []
        messages.append({"role": "user", "content": user})
        if note is not None:
            answer, problem = note
            wrong = f"That cannot be used: {problem}. Answer again, all of it, as one JSON object of this JSON Schema:"
            again = f"{wrong}\n{_schema(ask)}"
            if blank(answer):  # some servers refuse a message of white space
                messages[-1] = {"role": "user", "content": f"{user}\n\n{again}"}
            else:
                messages += [{"role": "assistant", "content": answer}, {"role": "user", "content": again}]
        return messages

    def learn(self, error: str, mode: int, *, limited: bool = False) -> bool:
        """Leave out what an error message refuses from later requests; return False if it names nothing.

        `mode` is the output mode of the refused request; `limited` is True if it had a token limit.
        """
        text = error.lower()
        if "temperature" in text and self.temperature is not None:
            self.temperature = None
            self.left_out += ("temperature",)
        elif limited and re.search("max_completion_tokens|max_tokens", text):
            self.limit_names = self.limit_names[1:]
            self.left_out += () if self.limit_names else ("max_tokens",)
        elif self.system and _SYSTEM.search(text):
            self.system = False
            self.left_out += ("system",)
        elif mode < PROMPT and _MENTIONS[MODES[mode]].search(text):
            if _WHOLLY.search(text) or not self.drop_limits(tokens=False):
                self.lower(mode + 1, error)
        else:
            return False
        return True

    def drop_limits(self, *, tokens: bool = True) -> bool:
        """Stop sending length limits in schemas and, with `tokens`, token limits; False if none were sent."""
        sent = self.schema_limits or (tokens and self.token_limits)
        if self.schema_limits:
            self.left_out += ("limits",)
        self.schema_limits, self.token_limits = False, self.token_limits and not tokens
        return sent

    def lower(self, mode: int, why: str) -> None:
        """Use output mode `mode` from now on; if that has the schema only in the prompt, log `why`."""
        if mode <= self.mode:
            return
        self.mode = mode
        if mode == PROMPT:
            told = "%s is asked without structured output (%s): only the prompt names the schema of answers"
            _log.warning(told, self.model, why[:200])

    def usable(self, mode: int) -> None:
        """Record that an answer in this output mode was usable."""
        if not self.proven:
            self.proven = True
            self.lower(mode, "the endpoint accepted no other form of request")

    def schema_ignored(self) -> None:
        """Count an answer that does not match the schema; after two, send schemas in the prompt."""
        if not self.proven:
            self._ignored += 1
            if self._ignored >= _IGNORED_ANSWERS:
                self.lower(PROMPT, "the first answers did not match the schema")


def _schema(ask: Ask) -> str:
    return json.dumps({"title": ask.name, **ask.schema}, ensure_ascii=False, separators=(",", ":"))
