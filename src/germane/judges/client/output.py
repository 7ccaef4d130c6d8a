"""Request bodies for one model at one endpoint, and what is learned from the endpoint's refusals.

An answer is asked for in the first mode that the endpoint takes: a strict JSON Schema, a call of a tool with that
schema, or the schema in the words of the prompt. What is refused is remembered per endpoint and model.
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

LIMIT_NAMES = ("max_tokens", "max_completion_tokens")
"""The names of the limit of an answer's tokens: OpenAI renamed it, and not all servers have followed."""

BYTES_PER_TOKEN = 4
"""The estimate of tokens where the endpoint does not count them; most texts have fewer bytes per token."""

ROOM = 4096
"""Tokens to ask for after an answer was cut off though the request named no limit."""

_IGNORED_ANSWERS = 2
"""First answers that do not match the schema after which the server is assumed to ignore it."""

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


Correction: TypeAlias = tuple[str, str]
"""An unusable answer and what was wrong with it, to be shown to the model."""


@dataclass(slots=True, kw_only=True)
class ModelCapabilities:
    """The forms of request that a model at an endpoint accepts, as far as known from its responses.

    Attributes:
        model: Its name.
        temperature: Sent unless None.
        parameters: The user's own, sent as they are.
        max_tokens: The user's limit of an answer's tokens; None = not sent, unless an answer was cut off.
        limit_names: Names of that limit that may be taken, the first is sent.
        schema_limits: True if the schema limits the length of lists and texts.
        token_limits: True if a limit of tokens is sent that depends on the question, where the user named none.
        thoughts: Tokens beyond that limit, for what the model thinks before it answers.
        mode: The index in MODES.
        proven: True if an answer in that mode could be used.
        system: True if a system message is taken.
        left_out: Parts that were refused and are not sent any more.
    """

    model: str
    temperature: float | None = None
    parameters: Mapping[str, Json] = field(default_factory=dict)
    max_tokens: int | None = None
    limit_names: tuple[str, ...] = LIMIT_NAMES
    schema_limits: bool = False
    token_limits: bool = False
    thoughts: int = 0
    mode: int = 0
    proven: bool = False
    system: bool = True
    left_out: tuple[str, ...] = ()
    _ignored: int = 0

    def __post_init__(self) -> None:
        """Use a token limit among the user's own parameters as the limit, under the name given."""
        own = dict(self.parameters)
        for name in LIMIT_NAMES:
            if type(own.get(name)) is int:
                self.max_tokens = own.pop(name)
                self.limit_names = (name, *(other for other in LIMIT_NAMES if other != name))
        self.parameters = own

    def body(
        self, ask: Ask, note: Correction | None = None, limit: int | None = None, mode: int = 0
    ) -> bytes:
        """Return the JSON of a request: constant instructions first, the text last.

        `limit` is the number of tokens that the answer may have; 0 = none is named, None = the usual one.
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
        """Return the token limit of an answer: the user's, else the question's own; 0 = none."""
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
        """Learn from a refusal what to omit, rename or ask for differently; return False if it does not say.

        Args:
            error: The text.
            mode: The mode of the request that was refused.
            limited: True if that request named a limit of tokens.
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
        """Send no limits of the schema any more, nor, with `tokens`, ours of the answer; False where none was sent."""
        sent = self.schema_limits or (tokens and self.token_limits)
        if self.schema_limits:
            self.left_out += ("limits",)
        self.schema_limits, self.token_limits = False, self.token_limits and not tokens
        return sent

    def lower(self, mode: int, why: str) -> None:
        """Use a later output mode from now on; the last, in which nothing constrains the answer, is logged."""
        if mode <= self.mode:
            return
        self.mode = mode
        if mode == PROMPT:
            _log.warning(
                "%s is asked without structured output (%s): its answers follow the schema only as far as it heeds"
                " the prompt",
                self.model,
                why[:200],
            )

    def usable(self, mode: int) -> None:
        """Record that an answer to a request in that mode could be used."""
        if not self.proven:
            self.proven = True
            self.lower(mode, "it took no other request")

    def schema_ignored(self) -> None:
        """Record an answer that does not match the schema; a server that ignores schemas is asked by the prompt."""
        if not self.proven:
            self._ignored += 1
            if self._ignored >= _IGNORED_ANSWERS:
                self.lower(PROMPT, "its first answers were not of the schema")


def _schema(ask: Ask) -> str:
    return json.dumps({"title": ask.name, **ask.schema}, ensure_ascii=False, separators=(",", ":"))
