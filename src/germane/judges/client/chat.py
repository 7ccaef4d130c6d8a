"""Chat completions: build the body of a request, and read the model's answer from the response.

A request uses the first output mode that the endpoint accepts: a strict JSON Schema, a call of a tool with
that schema, or the schema in the prompt. The client remembers which modes an endpoint refuses for a model.

The answer must contain exactly one JSON object. A code fence, reasoning or a short lead-in before the object
is skipped, and so is text after it. Any other answer raises an AnswerError, whose text can be sent to the
model.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from germane.clean import blank
from germane.encoding import replace_surrogates
from germane.errors import AnswerError, describe, option
from germane.questions.fusing import Ask
from germane.types import Json

__all__ = ["MODES", "PROMPT", "Completion", "completion_in"]

MODES = ("schema", "tool", "prompt")
PROMPT = MODES.index("prompt")

LIMIT_NAMES = ("max_tokens", "max_completion_tokens")  # OpenAI's older and newer name; servers accept either
BYTES_PER_TOKEN = 4  # the estimate if the endpoint reports no token counts
ROOM = 4096  # token limit after an answer was cut off although the request set no limit
_IGNORED_ANSWERS = 2  # if this many first answers do not match the schema, the server seems to ignore it

_MENTIONS = {
    "schema": re.compile(
        "response[_ ]format|schema|structured|guided|grammar|invalid format|for format|maxlength|maxitems"
    ),
    "tool": re.compile("tool|function|grammar|maxlength|maxitems"),
}
"""Words in error messages that refuse an output mode, or the limits in its schema, by mode."""
_WHOLLY = re.compile(
    r"(?:response.?format|structured.?outputs?|tools?|function.?calling)\W{0,3}(?: json_schema)? (?:is |are )?(?:not |un)support"
)
"""Error messages that refuse an output mode itself, with any schema."""
_SYSTEM = re.compile(
    r"system.*(?:role|message)|(?:role|message).*system|developer (?:instruction|message|role)|roles? must alternate",
    re.DOTALL,
)

_log = logging.getLogger("germane")

Correction: TypeAlias = tuple[str, str]  # an unusable answer and its problem, to show to the model


@dataclass(slots=True, kw_only=True)
class ModelCapabilities:
    """What requests to a model at an endpoint may contain, as learned from the endpoint's responses."""

    model: str
    temperature: float | None = None  # None: requests contain no temperature
    parameters: Mapping[str, Json] = field(default_factory=dict)  # the user's own, sent unchanged
    max_tokens: int | None = None  # the user's token limit; None: no limit, unless an answer was cut off
    limit_names: tuple[str, ...] = LIMIT_NAMES  # names that the endpoint has not refused; the first is sent
    schema_limits: bool = False  # the schema limits the length of lists and strings
    token_limits: bool = False  # without `max_tokens`, requests set a limit computed from the question
    thoughts: int = 0  # tokens added to the computed limit for the model's reasoning
    mode: int = 0  # the current output mode, as an index in MODES
    proven: bool = False  # an answer in that mode was usable
    system: bool = True  # system messages are accepted
    left_out: tuple[str, ...] = ()  # features that were refused and are not sent any more
    _ignored: int = 0

    def body(
        self, ask: Ask, note: Correction | None = None, limit: int | None = None, mode: int = 0
    ) -> bytes:
        """Return the JSON body of a request, with the constant instructions first and the text last.

        `note` is the correction of the previous answer, `limit` the token limit of the answer (0: no limit,
        None: the usual limit), and `mode` the lowest output mode to use, as an index in MODES.
        """
        mode, limit = max(mode, self.mode), self.limit(ask) if limit is None else limit
        system, user = ask.system, ask.user
        if mode == PROMPT and ask.schema:
            system += f"\n\nAnswer with one JSON object of this JSON Schema and nothing else:\n{_schema(ask)}"
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
        request: dict[str, Json] = {"model": self.model, "messages": messages}
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
        """Return the token limit of an answer: the user's, else the computed one; 0 means no limit."""
        return self.max_tokens or (ask.room + self.thoughts if self.token_limits and ask.room else 0)

    def learn(self, error: str, mode: int, *, limited: bool = False) -> bool:
        """Remember which feature of a request the error message refuses, so that it is not sent again.

        Return False if the message names no such feature. `mode` is the output mode of the refused request,
        and `limited` is True if the request set a token limit.
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
        """Stop sending limits in schemas and, with `tokens`, token limits; return False if none were sent."""
        sent = self.schema_limits or (tokens and self.token_limits)
        if self.schema_limits:
            self.left_out += ("limits",)
        self.schema_limits, self.token_limits = False, self.token_limits and not tokens
        return sent

    def lower(self, mode: int, why: str) -> None:
        """Use output mode `mode` (an index in MODES) or a later one from now on, because of `why`."""
        if mode <= self.mode:
            return
        self.mode = mode
        if mode == PROMPT:
            note = "%s is used without structured output (%s): only the prompt contains the schema of answers"
            _log.warning(note, self.model, why[:200])

    def schema_ignored(self) -> None:
        """Count an answer that does not match the schema; after two, before a usable one, drop schemas."""
        if not self.proven:
            self._ignored += 1
            if self._ignored >= _IGNORED_ANSWERS:
                self.lower(PROMPT, "the first answers did not match the schema")


def _schema(ask: Ask) -> str:
    return json.dumps({"title": ask.name, **ask.schema}, ensure_ascii=False, separators=(",", ":"))


_ENDLESS = "the answer is reasoning that does not end"
_CUT = {"length", "max_tokens", "max_output_tokens", "model_length", "model_context_window_exceeded"}
"""Finish reasons of answers that were cut off at a token limit, as different providers name them."""

_REASONING = ("reasoning_content", "reasoning", "thinking")  # fields with a model's reasoning, not its answer


@dataclass(frozen=True, slots=True)
class Completion:
    """One answer of a model, as read from a chat completion."""

    text: str  # the answer, or the arguments of the tool call
    cut: bool = False  # the answer was cut off at the token limit
    model: str = ""  # the model that answered, as the endpoint names it
    problem: str = ""  # why the text cannot be used as an answer; "" if no reason is known
    refusal: str = ""  # why the model or its provider declined to answer; "" if neither declined
    input_tokens: int | None = None  # None if the endpoint does not report it
    output_tokens: int | None = None
    cached_tokens: int = 0  # input tokens that came from the provider's prompt cache

    @property
    def fault(self) -> str:
        """The reason why the answer contains no usable JSON object; "" if it contains one."""
        try:
            self.payload()
        except AnswerError as error:
            return str(error)
        return ""

    @property
    def thought(self) -> bool:
        """True if the model probably spent its tokens on reasoning: the text is empty, endless or short."""
        few = len(self.text.encode("utf-8", "replace")) < (self.output_tokens or 0)
        return few or not self.text.strip() or self.fault == _ENDLESS

    def payload(self) -> dict[str, Json]:
        """Return the JSON object in the answer. Raises AnswerError if there is no usable one."""
        if self.problem:
            raise AnswerError(self.problem)
        if not self.text.strip():
            raise AnswerError("the answer is empty")
        answer = object_in(self.text)
        return replace_surrogates(answer) if "\\u" in self.text else answer


def chat_completion(
    message: Mapping[str, Json], finish: str | None, model: str | None, used: Mapping[str, Json]
) -> dict[str, Json]:
    """Return the body of a chat completion; `used` are token counts, named as in LangChain."""
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
    """Return the model's answer in a response; `name` is that of the requested schema or tool."""
    choices = body.get("choices")
    choice = _object(choices[0]) if isinstance(choices, list) and choices else {}
    message = _object(choice.get("message"))
    finish, refusal = _text(choice.get("finish_reason")).lower(), ""
    if message.get("refusal"):
        refusal = f"the model refused to answer: {str(message['refusal'])[:300]}"
    elif finish == "content_filter":
        refusal = "the provider's content filter stopped the answer"
    if calls := message.get("tool_calls"):
        listed = calls if isinstance(calls, list) else []
        functions = [_object(_object(call).get("function")) for call in listed]
        given = [
            function.get("arguments") for function in functions if function.get("name") in (name, None, "")
        ]
        if not given or any(arguments != given[0] for arguments in given):
            text, problem = "", f'the function "{name}" must be called once, with one answer'
        else:
            text, problem = given[0] if isinstance(given[0], str) else json.dumps(given[0]), ""
    else:
        content = message.get("content")
        if isinstance(content, list):
            content = "".join(_text(_object(block).get("text")) for block in content)
        text, problem = "" if content is None else str(content), ""
        reasoned = next((field for field in _REASONING if _text(message.get(field)).strip()), "")
        if reasoned and not text.strip() and finish not in _CUT:
            problem = f"the answer is empty, since the model put all of its text into {reasoned}"
            less = option(
                "--model-parameter reasoning_effort=none", 'parameters={"reasoning_effort": "none"}'
            )
            problem += f"; ask with {less}"
    return Completion(text, finish in _CUT, _text(body.get("model")), problem, refusal, *tokens_in(body))


def _object(value: Json) -> Mapping[str, Json]:
    return value if isinstance(value, dict) else {}


def _text(value: Json) -> str:
    return value if isinstance(value, str) else ""


def tokens_in(body: Mapping[str, Json]) -> tuple[int | None, int | None, int]:
    """Return the input, output and cached input tokens that a response reports.

    Input and output are None if they are not reported, and 0 input tokens count as not reported.
    """
    usage = _object(body.get("usage"))
    sent, back = _count(usage.get("prompt_tokens")), _count(usage.get("completion_tokens"))
    cached = _count(_object(usage.get("prompt_tokens_details")).get("cached_tokens")) or 0
    return sent or None, back, min(cached, sent or 0)


def _count(value: Json) -> int | None:
    return value if type(value) is int and 0 <= value < 1 << 53 else None


def _once(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    """Return the object's `pairs` as a dict. Raises AnswerError if a name recurs."""
    result = dict(pairs)
    if len(result) < len(pairs):
        raise AnswerError("the answer has the same field twice")
    return result


_DECODER = json.JSONDecoder(object_pairs_hook=_once, strict=False)
_WORD = r"(?:think(?:ing)?|thought|reasoning)"
_MARK = re.compile(rf"(?P<opens><{_WORD}>)|(?P<ends></{_WORD}>)|\{{", re.IGNORECASE)
"""The beginning or end of a model's reasoning, or the beginning of an object."""
_END = re.compile(rf"</{_WORD}>", re.IGNORECASE)
_FENCE = re.compile(r"(?:`+|~{3,})\w*\s*\Z|<\w{1,20}>\s*\Z")
_REST = re.compile(r"\s*(?:(?:`+|~{3,})\s*)?(?:(?:<\|?\w{1,20}\|?>|</\w{1,20}>)\s*)*")
"""Text that may follow the object: the end of its code fence or tag, and control tokens that end a turn."""
_OBJECT_BEGINS = re.compile(r"""\{\s*(?:["'}]|\w+\s*:|\Z)""")
LEAD_IN = 300  # maximum characters before the object; in a longer text, the object may be only a quotation


def object_in(text: str) -> dict[str, Json]:
    """Return the JSON object in a model's answer. Reasoning or a short lead-in before the object is skipped.

    Raises AnswerError if the answer contains no object or several objects, if a long text precedes the
    object, or if the object is part of a sentence.
    """
    try:
        value = _DECODER.decode(text)
    except (ValueError, RecursionError):
        return _last_object(text)
    if isinstance(value, str):  # JSON inside a JSON string
        return _last_object(value)
    if not isinstance(value, dict):
        raise AnswerError(f"the answer must be one JSON object, not {describe(value)}")
    return value


def _last_object(text: str) -> dict[str, Json]:
    """Return the JSON object after the model's reasoning. Tags inside the object's strings are ignored."""
    begin = 0
    while (mark := _MARK.search(text, begin)) is not None:
        if mark["opens"]:
            if (end := _END.search(text, mark.end())) is None:
                raise AnswerError(_ENDLESS)
            begin = end.end()
        elif mark["ends"]:  # the reasoning began in the chat template, before the answer
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
    """Return the object `value`. Raises AnswerError if the text around it suggests that it is a quotation."""
    if value is None:
        raise AnswerError("the answer is not valid JSON: an object begins, but is broken or cut off")
    words = after[_REST.match(after).end() :]  # type: ignore[union-attr]  # it matches everything
    if _OBJECT_BEGINS.search(words):
        raise AnswerError("after the JSON object comes another JSON object; answer with one object")
    marked = set(before) & set("<[|\u25c1")  # reasoning that begins with an unknown mark
    quoted = before.endswith((",", "(", '"', "'")) or words.startswith(("]", ",", ")", '"', "'", ":"))
    in_sentence = before and words.strip(" .!\n") and "\n" not in after[: len(after) - len(words)]
    if marked or quoted or in_sentence or _END.search(words) or len(before) > LEAD_IN:
        raise AnswerError("the JSON object is part of a longer text; answer with the object alone")
    return value
