"""The answer of a model in a chat completion: the one JSON object in what it wrote, and what it used.

Nothing in a response is trusted, and nothing is guessed: fences, thoughts and prose around an object are passed over;
an object that is cut off or names a field twice, two different objects, a thought without an end, or no object at
all is an AnswerError, whose text can be sent back to the model.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from germane.errors import AnswerError
from germane.types import Json

_CACHED_APART = ("cache_read_input_tokens", "cache_creation_input_tokens")
"""Where some servers count cached input beside the rest of it, not within."""

_CUT = {"length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded"}
"""Finish reasons of an answer that ended at a token limit: OpenAI, Anthropic and Gemini, Responses, Mistral, Anthropic."""

_REASONING = ("reasoning_content", "reasoning", "thinking")
"""Where servers put what a model thought, apart from what it answered."""


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer of a model.

    Attributes:
        text: What it wrote, or the arguments of its tool call.
        cut: Whether it ended at the token limit.
        model, fingerprint: The model that answered and the fingerprint of its system, as the endpoint names them.
        problem: Why it cannot be an answer, if that is known.
        refusal: Why the model or its provider declined to answer; "" = they did not.
        input_tokens, output_tokens: None = the endpoint does not count.
        cached_tokens: Input tokens from the provider's prompt cache, among the input tokens.
    """

    text: str
    cut: bool = False
    model: str = ""
    fingerprint: str = ""
    problem: str = ""
    refusal: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int = 0

    @property
    def whole(self) -> bool:
        """Whether it is a JSON object."""
        try:
            self.payload()
        except AnswerError:
            return False
        return True

    def payload(self) -> dict[str, Json]:
        """The JSON object in the answer; AnswerError where there is none."""
        if self.problem:
            raise AnswerError(self.problem)
        if not self.text.strip():
            raise AnswerError("the answer is empty")
        return object_in(self.text)


def completion_in(body: Mapping[str, Json], name: str) -> Completion:
    """The completion in a response's JSON, where `name` is the schema or tool that was asked for."""
    choices = body.get("choices")
    choice = _object(choices[0]) if isinstance(choices, list) and choices else {}
    message = _object(choice.get("message"))
    finish, refusal = _text(choice.get("finish_reason")).lower(), ""
    if message.get("refusal"):
        refusal = f"the model refused to answer: {str(message['refusal'])[:300]}"
    elif finish == "content_filter":
        refusal = "the provider's content filter stopped the answer"
    if message.get("tool_calls"):
        text, problem = _called(message["tool_calls"], name)
    else:
        content = message.get("content")
        if isinstance(content, list):
            content = "".join(_text(_object(part).get("text")) for part in content)
        text = "" if content is None else str(content)
        problem = _misplaced(message) if not text.strip() and finish not in _CUT else ""
    model, fingerprint = _text(body.get("model")), _text(body.get("system_fingerprint"))
    return Completion(text, finish in _CUT, model, fingerprint, problem, refusal, *tokens_in(body))


def _object(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _misplaced(message: Mapping[str, Json]) -> str:
    """Why there is no content but only reasoning, and which setting mends it; "" where there is no reasoning either."""
    name = next((name for name in _REASONING if _text(message.get(name)).strip()), None)
    if name is None:
        return ""
    wrong = f"the answer is empty: all of it is in {name}"
    if "{" in message[name]:
        return f"{wrong}: start the server (vLLM, SGLang) without --reasoning-parser, or ask with --reasoning off"
    return f"{wrong}: the model has only reasoned; ask with --reasoning off, or --reasoning low"


def _called(calls: Json, name: str) -> tuple[str, str]:
    """The arguments of the call of `name`, or what is wrong: another function, or calls that differ."""
    functions = [_object(_object(call).get("function")) for call in calls] if isinstance(calls, list) else []
    fitting = [one.get("arguments") for one in functions if one.get("name") in {name, None, ""}]
    if not fitting:
        called = ", ".join(str(one.get("name"))[:40] for one in functions)
        return "", f'the function "{name}" was to be called, not {called or "nothing"}'
    if any(arguments != fitting[0] for arguments in fitting):
        differ = f'"{name}" was called {len(fitting)} times with different arguments'
        return "", f"{differ} where one answer was asked for"
    return fitting[0] if isinstance(fitting[0], str) else json.dumps(fitting[0]), ""


def tokens_in(body: Mapping[str, Json]) -> tuple[int | None, int | None, int]:
    """Input, output and cached input tokens; None = not counted, which is also what 0 input means."""
    usage = _object(body.get("usage"))
    sent, back = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    cached = _count(_object(usage.get("prompt_tokens_details")).get("cached_tokens")) or 0
    apart = sum(_count(usage.get(name)) or 0 for name in _CACHED_APART)
    if sent and max(cached, apart) > sent:
        sent, cached = sent + max(cached, apart), max(cached, apart)
    return sent or None, back, cached


def _count(value: Json) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 53 else None


def _refuse(constant: str) -> NoReturn:
    raise AnswerError(f"{constant[:20]} is no number that JSON has")


def _finite(digits: str) -> float:
    number = float(digits)
    return number if math.isfinite(number) else _refuse(digits)


def _once(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise AnswerError(f'the answer says "{twice[:40]}" twice')
    return found


_DECODER = json.JSONDecoder(
    parse_constant=_refuse, parse_float=_finite, object_pairs_hook=_once, strict=False
)
_WORD = r"(?:\w+:)?(?:think(?:ing)?|thoughts?|reasoning|reflection|analysis|scratchpad)"
_OPENS = rf"<{_WORD}>|\[think(?:ing)?\]|◁{_WORD}▷|<\|(?:start|begin)(?:_of)?_{_WORD}\|>"
_ENDS = rf"</{_WORD}>|\[/think(?:ing)?\]|◁/{_WORD}▷|<\|end(?:_of)?_{_WORD}\|>"
_CHANNEL = r"<\|?channel\|?>\s*(?:analysis|commentary|thought)\b"
_MARK = re.compile(
    rf'(?P<opens>{_OPENS})|(?P<ends>{_ENDS})|(?P<channel>{_CHANNEL})|\{{\s*(?:"|\Z)', re.IGNORECASE
)
"""Where a thought or an object begins: Qwen, Claude, Seed, Mistral, Kimi, Cohere and others; gpt-oss has channels."""
_END = re.compile(_ENDS, re.IGNORECASE)
_TURN = re.compile(r"<\|?(?:end|start|channel|return|call)\|?>", re.IGNORECASE)


def object_in(text: str) -> dict[str, Json]:
    """The JSON object that a model's answer consists of or contains; AnswerError where there is not one."""
    try:
        value = _DECODER.decode(text)
    except (ValueError, RecursionError):
        return _search(text)
    if isinstance(value, str):  # JSON inside a JSON string
        return _search(value)
    if isinstance(value, list) and value:  # of one object: no other thing than in a fence
        return _search(text)
    if not isinstance(value, dict):
        raise AnswerError(f"the answer must be one JSON object, not a {type(value).__name__}")
    return value


def _search(text: str) -> dict[str, Json]:
    """The one object outside of thoughts. What looks like the mark of a thought inside an object's strings is none."""
    found: list[dict[str, Json]] = []
    position, cut = 0, False
    while (mark := _MARK.search(text, position)) is not None:
        position = mark.end()
        if mark["ends"]:  # the prompt's template began this thought
            found, cut = [], False
        elif mark["opens"]:
            position = _after(_END, text, position).end()
        elif mark["channel"]:
            position = _after(_TURN, text, position).start()
        else:
            try:
                value, position = _DECODER.raw_decode(text, mark.start())
            except (ValueError, RecursionError):
                cut, end = True, _END.search(text, position)
                position = end.start() if end else len(text)
                continue
            if value not in found:
                found.append(value)
    if cut:
        raise AnswerError("the answer is no valid JSON: an object begins, but is broken or cut off")
    if not found:
        raise AnswerError("the answer holds no JSON object")
    if len(found) > 1:
        raise AnswerError(f"the answer holds {len(found)} different JSON objects where one was asked for")
    return found[0]


def _after(end: re.Pattern[str], text: str, position: int) -> re.Match[str]:
    if (found := end.search(text, position)) is None:
        raise AnswerError("the answer is a thought without an end")
    return found
