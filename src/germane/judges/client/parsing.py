"""Parse a model's answer from a chat completion: the one JSON object in its text, and the token counts.

A code fence, reasoning and a short lead-in before the object are skipped, and so is text after it without a
second object. Anything else is an AnswerError, whose text can be sent back to the model.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass

from germane.encoding import replace_surrogates
from germane.errors import AnswerError
from germane.types import Json

__all__ = ["Completion", "completion_in"]

_ENDLESS = "the answer is reasoning that does not end"
_CUT = {"length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded"}
"""Finish reasons of an answer that ended at a token limit: OpenAI, Anthropic and Gemini, Responses, Mistral, Anthropic."""

_REASONING = ("reasoning_content", "reasoning", "thinking")  # fields with a model's reasoning, not its answer


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer of a model, as read from a chat completion."""

    text: str  # or the arguments of the tool call
    cut: bool = False  # it ended at the token limit
    model: str = ""  # the model that answered, as the endpoint names it
    problem: str = ""  # why the text cannot be an answer; "" if nothing is known against it
    refusal: str = ""  # why the model or its provider declined to answer; "" if it did not
    input_tokens: int | None = None  # None if the endpoint does not count
    output_tokens: int | None = None
    cached_tokens: int = 0  # input tokens that came from the provider's prompt cache

    @property
    def fault(self) -> str:
        """The reason why the text is not a JSON object; "" if it is one."""
        try:
            self.payload()
        except AnswerError as error:
            return str(error)
        return ""

    @property
    def size(self) -> int:
        """The length of the text in bytes."""
        return len(self.text.encode("utf-8", "replace"))

    @property
    def thought(self) -> bool:
        """True if the tokens went into reasoning: it has no end, or the text has fewer bytes than tokens."""
        few = self.size < (self.output_tokens or 0)
        return few or not self.text.strip() or self.fault == _ENDLESS

    def payload(self) -> dict[str, Json]:
        """Return the JSON object in the answer. Raises AnswerError if there is none."""
        if self.problem:
            raise AnswerError(self.problem)
        if not self.text.strip():
            raise AnswerError("the answer is empty")
        answer = object_in(self.text)
        return replace_surrogates(answer) if "\\u" in self.text else answer


NOTHING = Completion("")  # what stands for an answer before there is one


def chat_completion(
    message: Mapping[str, Json], finish: str | None, model: str | None, used: Mapping[str, Json]
) -> dict[str, Json]:
    """Return the body of a chat completion from a message and LangChain's or pydantic-ai's token counts."""
    result: dict[str, Json] = {
        "choices": [{"message": message, "finish_reason": finish}],
        "model": model or "",
    }
    if used.get("input_tokens") or used.get("output_tokens"):
        result["usage"] = {
            "prompt_tokens": used.get("input_tokens"),
            "completion_tokens": used.get("output_tokens"),
            "prompt_tokens_details": {"cached_tokens": used.get("cache_read_tokens")},
        }
    return result


def completion_in(body: Mapping[str, Json], name: str) -> Completion:
    """Return the model's answer in a response's JSON; `name` is the name of the requested schema or tool."""
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
            content = "".join(_text(_object(block).get("text")) for block in content)
        text, problem = "" if content is None else str(content), ""
        reasoned = next((field for field in _REASONING if _text(message.get(field)).strip()), "")
        if reasoned and not text.strip() and finish not in _CUT:
            problem = f"the answer is empty, since the model put all of its text into {reasoned}"
            problem += "; ask with --model-parameter reasoning_effort=none"
    return Completion(text, finish in _CUT, _text(body.get("model")), problem, refusal, *tokens_in(body))


def _object(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def _called(calls: Json, name: str) -> tuple[str, str]:
    """Return the arguments of the call to `name`, and "" or the problem: no call, or several that differ."""
    functions = [_object(_object(call).get("function")) for call in calls] if isinstance(calls, list) else []
    given = [function.get("arguments") for function in functions if function.get("name") in {name, None, ""}]
    if not given or any(arguments != given[0] for arguments in given):
        return "", f'the function "{name}" must be called once, with one answer'
    return given[0] if isinstance(given[0], str) else json.dumps(given[0]), ""


def tokens_in(body: Mapping[str, Json]) -> tuple[int | None, int | None, int]:
    """Return the input, output and cached input tokens; None if not counted (or if 0 input tokens were)."""
    usage = _object(body.get("usage"))
    sent, back = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    cached = _count(_object(usage.get("prompt_tokens_details")).get("cached_tokens")) or 0
    return sent or None, back, min(cached, sent or 0)


def _count(value: Json) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 53 else None


def _once(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    """Return an object's fields as a dict. Raises AnswerError if two have the same name."""
    result = dict(pairs)
    if len(result) < len(pairs):
        raise AnswerError("the answer has the same field twice")
    return result


_DECODER = json.JSONDecoder(object_pairs_hook=_once, strict=False)
_WORD = r"(?:think(?:ing)?|thought|reasoning)"
_MARK = re.compile(rf"(?P<opens><{_WORD}>)|(?P<ends></{_WORD}>)|\{{", re.IGNORECASE)
"""The marks at which a thought begins or ends, or an object begins."""
_END = re.compile(rf"</{_WORD}>", re.IGNORECASE)
_FENCE = re.compile(r"(?:`+|~{3,})\w*\s*\Z|<\w{1,20}>\s*\Z")
_REST = re.compile(r"\s*(?:(?:`+|~{3,})\s*)?(?:(?:<\|?\w{1,20}\|?>|</\w{1,20}>)\s*)*")
"""Text that ends the object: its fence, the tag around it, and control tokens that end a turn."""
_OBJECT_BEGINS = re.compile(r"""\{\s*(?:["'}]|\w+\s*:|\Z)""")
LEAD_IN = 300  # characters before the object ("Here is my verdict:"); a longer text argues, and may quote it


def object_in(text: str) -> dict[str, Json]:
    """Return the one JSON object in a model's answer, which may have reasoning or a short lead-in before it.

    Raises AnswerError if there is none or more than one, a long text before it, or a sentence around it.
    """
    try:
        value = _DECODER.decode(text)
    except (ValueError, RecursionError):
        return _last_object(text)
    if isinstance(value, str):  # JSON inside a JSON string
        return _last_object(value)
    if not isinstance(value, dict):
        raise AnswerError(f"the answer must be one JSON object, not a {type(value).__name__}")
    return value


def _last_object(text: str) -> dict[str, Json]:
    """Return the JSON object after the model's reasoning; tags in the object's strings do not count."""
    begin = 0
    while (mark := _MARK.search(text, begin)) is not None:
        if mark["opens"]:
            if (end := _END.search(text, mark.end())) is None:
                raise AnswerError(_ENDLESS)
            begin = end.end()
        elif mark["ends"]:  # the prompt's template began this thought
            begin = mark.end()
        else:
            before = _FENCE.sub("", text[begin : mark.start()]).strip()
            try:
                value, position = _DECODER.raw_decode(text, mark.start())
            except (ValueError, RecursionError):
                value, position = None, mark.start()
            if not before or (end := _END.search(text, position)) is None:
                return _alone(before, value, text[position:])
            begin = end.end()
    raise AnswerError("the answer contains no JSON object")


def _alone(before: str, value: dict[str, Json] | None, after: str) -> dict[str, Json]:
    """Return `value`. Raises AnswerError if it is None or the text around it suggests a quotation."""
    if value is None:
        raise AnswerError("the answer is not valid JSON: an object begins, but is broken or cut off")
    words = after[_REST.match(after).end() :]  # type: ignore[union-attr]  # it matches everything
    if _OBJECT_BEGINS.search(words):
        raise AnswerError("after the JSON object comes another JSON object; answer with one object")
    marked = set(before) & set("<[|\u25c1")  # a thought that begins with a mark of another kind
    quoted = before.endswith((",", "(", '"', "'")) or words.startswith(("]", ",", ")", '"', "'", ":"))
    in_sentence = before and words.strip(" .!\n") and "\n" not in after[: len(after) - len(words)]
    if marked or quoted or in_sentence or _END.search(words) or len(before) > LEAD_IN:
        raise AnswerError("the JSON object is part of a longer text; answer with the object alone")
    return value
