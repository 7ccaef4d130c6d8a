"""What a chat completion says: the text that should be JSON, how it ended, what it used. Nothing in it is trusted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from germane.errors import AnswerError
from germane.judging.answers import object_in
from germane.types import Json

__all__ = ["Answered", "Refused", "Used", "answered", "used"]

_APART = ("cache_read_input_tokens", "cache_creation_input_tokens")
"""Where some servers count cached input beside the rest of it, not within."""

_CUT = {"length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded"}
"""How an answer ends at a limit of tokens: OpenAI, Anthropic and Gemini, Responses, Mistral, Anthropic."""

Used = tuple[int | None, int | None, int]
"""Input, output and cached input tokens; None = not said."""


class Refused(Exception):
    """The model or its provider declined to answer; asking again would not help."""


@dataclass(frozen=True, slots=True)
class Answered:
    """What came back, and what it used (None = not said); `problem` is why it cannot be an answer, if that is known."""

    text: str
    finish: str = ""
    model: str = ""
    problem: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int = 0

    @property
    def cut(self) -> bool:
        """Whether the answer ended at the token limit."""
        return self.finish in _CUT

    def payload(self) -> dict[str, Json]:
        """The JSON object in the answer; AnswerError where there is none."""
        if self.problem:
            raise AnswerError(self.problem)
        if not self.text.strip():
            raise AnswerError("the answer is empty")
        return object_in(self.text)


def answered(body: Mapping[str, Json], name: str) -> Answered:
    """The answer in a response's JSON, where `name` is what was asked for.

    Raises:
        Refused: the model or its provider declined to give one.
    """
    choices = body.get("choices")
    choice = _object(choices[0]) if isinstance(choices, list) and choices else {}
    message = _object(choice.get("message"))
    if refusal := message.get("refusal"):
        raise Refused(f"the model refused to answer: {str(refusal)[:300]}")
    finish = _text(choice.get("finish_reason")).lower()
    if finish == "content_filter":
        raise Refused("the provider's content filter stopped the answer")
    text, problem = (
        _called(message["tool_calls"], name) if message.get("tool_calls") else (_written(message), "")
    )
    return Answered(text, finish, _text(body.get("model")), problem, *used(body))


def _object(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _written(message: Mapping[str, Json]) -> str:
    content = message.get("content")
    if isinstance(content, list):
        return "".join(_text(_object(part).get("text")) for part in content)
    return "" if content is None else str(content)


def _called(calls: Json, name: str) -> tuple[str, str]:
    """The arguments of the call of `name`, or what is wrong: another function, or two calls that differ."""
    functions = [_object(_object(call).get("function")) for call in calls] if isinstance(calls, list) else []
    fitting = [one.get("arguments") for one in functions if one.get("name") in {name, None, ""}]
    if not fitting:
        called = ", ".join(str(one.get("name"))[:40] for one in functions)
        return "", f'the function "{name}" was to be called, not {called or "nothing"}'
    if any(arguments != fitting[0] for arguments in fitting):
        return (
            "",
            f'"{name}" was called {len(fitting)} times with different arguments where one answer was asked for',
        )
    return fitting[0] if isinstance(fitting[0], str) else json.dumps(fitting[0]), ""


def used(body: Mapping[str, Json]) -> Used:
    """Input, output and cached input tokens (None = not said): a server that says 0 input does not count."""
    usage = _object(body.get("usage"))
    sent, back = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    cached = _count(_object(usage.get("prompt_tokens_details")).get("cached_tokens")) or 0
    apart = sum(_count(usage.get(name)) or 0 for name in _APART)
    if sent and max(cached, apart) > sent:
        sent, cached = sent + max(cached, apart), max(cached, apart)
    return sent or None, back, cached


def _count(value: Json) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 53 else None
