"""The parts of a case that graders read: texts, tool calls, the cost of the answer, and a grading script's document."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple, NoReturn

from germane.evalfiles import Case, content_text
from germane.types import Json, Message, ToolCall

_OBJECT = re.compile(r"\{.*\}", re.DOTALL)
_FENCE = re.compile(r"```json\n?|```")


def names_of(case: Case, grader: str) -> tuple[str, ...]:
    """The sample, its system and trial, and the grader that a script is run for."""
    return case.sample.id, case.sample.system, str(case.sample.trial), grader


def question_of(case: Case) -> str:
    """The question that graders are shown: the eval file's, else the sample's query."""
    return case.question or case.sample.query


def answer_of(case: Case) -> str:
    """The candidate answer: the response, else the last thing that the system said."""
    if case.sample.response is not None:
        return case.sample.response
    texts = (content_text(m.content) for m in reversed(case.sample.messages) if m.role == "assistant")
    return next(filter(None, texts), "")


def reference_of(case: Case) -> str:
    """The reference answer of the eval file, else of the sample; "" = none."""
    return case.reference_answer or case.sample.reference or ""


def criteria_of(case: Case) -> str:
    """The criterion of a good answer."""
    return case.expected_outcome or getattr(case.sample, "criterion", None) or ""


def tool_calls(case: Case) -> list[ToolCall]:
    """Every tool call of the system's messages, in order."""
    return [call for message in case.sample.messages for call in message.tool_calls]


class TokenCount(NamedTuple):
    """The tokens that an answer took, by kind; a kind that was not reported is 0."""

    input: float = 0
    output: float = 0
    cached: float = 0


def _metadata(case: Case, *names: str) -> Json:
    """The value that the target reported under one of these names, on the answer or in its trace summary."""
    metadata = case.sample.metadata
    summary = metadata.get("trace_summary")
    for source in (metadata, summary if isinstance(summary, Mapping) else {}):
        for name in names:
            if source.get(name) is not None:
                return source[name]
    return None


def _number(value: Json) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def cost_of(case: Case) -> float | None:
    """US dollars that the answer cost, as reported; None = not reported."""
    return _number(_metadata(case, "cost_usd", "costUsd"))


def duration_of(case: Case) -> float | None:
    """Milliseconds that the answer took, as reported, else as measured; None = neither."""
    return _number(_metadata(case, "duration_ms", "durationMs", "ms"))


def tokens_of(case: Case) -> TokenCount | None:
    """Tokens that the answer took, as reported; None = not reported."""
    usage = _metadata(case, "token_usage", "tokenUsage")
    if not isinstance(usage, Mapping):
        return None
    spellings = (("input", "input_tokens", "prompt_tokens"), ("output", "output_tokens", "completion_tokens"),
                 ("cached", "cached_tokens"))  # fmt: skip
    values = [[_number(usage.get(name)) for name in names] for names in spellings]
    counts = [next((count for count in value if count is not None), None) for value in values]
    return None if counts[:2] == [None, None] else TokenCount(*(count or 0 for count in counts))


def trace_summary(case: Case) -> dict[str, Json] | None:
    """The tool calls counted, and what the answer cost: AgentV's summary, in the words of both its generations.

    A target may report one itself; else it is made from the messages. None where there are neither.
    """
    reported_summary = case.sample.metadata.get("trace_summary")
    calls = Counter(call.tool for call in tool_calls(case))
    if not case.sample.messages and not isinstance(reported_summary, Mapping):
        return None
    result: dict[str, Json] = {
        "event_count": calls.total(),
        "tool_names": sorted(calls),
        "tool_calls_by_name": dict(calls),
        "error_count": 0,
    }
    if spoken := sum(message.role == "assistant" for message in case.sample.messages):
        result["llm_call_count"] = spoken
    if isinstance(reported_summary, Mapping) and not calls:
        result |= reported_summary
    usage = _metadata(case, "token_usage", "tokenUsage")
    reported = {"token_usage": usage, "cost_usd": cost_of(case), "duration_ms": duration_of(case)}
    result |= {name: value for name, value in reported.items() if value is not None}
    result["tool_calls"] = result.get("tool_calls") or result["tool_calls_by_name"]
    return result


def json_in(text: str) -> Json:
    """The JSON that a text is or holds: fences are taken off, and of prose the part from the first `{` to the last `}`.

    Raises:
        ValueError: It is none.
    """
    bare = _FENCE.sub("", text).strip()
    match = _OBJECT.search(bare)
    try:
        return json.loads(match[0] if match else bare, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("nested without end") from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def script_document(case: Case, config: Mapping[str, Json]) -> dict[str, Json]:
    """The document on a grading script's stdin, the keys of both generations of AgentV side by side."""
    sample = case.sample
    reference, criteria = reference_of(case), criteria_of(case)
    lines = list(map(message_json, sample.messages))
    expected = list(map(message_json, case.expected_messages))
    asked = list(map(message_json, case.input_messages)) or [{"role": "user", "content": sample.query}]
    summary = trace_summary(case)
    return {
        "question": question_of(case),
        "expected_outcome": criteria or reference,
        "expected_messages": expected,
        "reference_answer": reference,
        "candidate_answer": answer_of(case),
        "output_messages": lines or None,
        "guideline_files": list(case.guideline_files),
        "input_files": list(case.input_files),
        "input_messages": asked,
        "trace_summary": summary,
        "config": config or None,
        "criteria": criteria or reference,
        "expected_output": expected or reference,
        "output": answer_of(case),
        "input": asked,
        "messages": lines,
        "file_changes": None,
        "workspace_path": None,
        "metadata": dict(case.metadata or sample.metadata),
        "trace": None if summary is None else {**summary, "messages": lines},
        "token_usage": _metadata(case, "token_usage", "tokenUsage"),
        "cost_usd": cost_of(case),
        "duration_ms": duration_of(case),
        "start_time": sample.metadata.get("start_time"),
        "end_time": sample.metadata.get("end_time"),
    }


def message_json(message: Message) -> dict[str, Json]:
    """A message as AgentV's documents show it; what is not there is left out."""
    result: dict[str, Json] = {"role": message.role}
    result |= {} if message.content is None else {"content": message.content}
    fields = {"id": "id", "tool": "tool", "input": "input", "output": "output", "duration_ms": "ms"}
    made = [{name: getattr(call, field) for name, field in fields.items()} for call in message.tool_calls]
    calls = [{name: value for name, value in call.items() if value is not None} for call in made]
    return {**result, "tool_calls": calls} if calls else result


ABSENT = object()
_STEPS = re.compile(r"[.\[\]]")


def value_at(value: Json, path: str) -> Json:
    """The value at a path with dots and `[indexes]`; ABSENT where there is none."""
    for step in filter(None, _STEPS.split(path)):
        if isinstance(value, list | tuple) and step.isdecimal():
            value = value[int(step)] if int(step) < len(value) else ABSENT
        else:
            value = value.get(step, ABSENT) if isinstance(value, Mapping) else ABSENT
    return value


def same(first: Json, other: Json) -> bool:
    """True if two JSON values are equal, with types: 1 is 1.0, and neither is "1" nor true."""
    if isinstance(first, bool) or isinstance(other, bool):
        return first is other
    if isinstance(first, int | float) and isinstance(other, int | float):
        return first == other
    if isinstance(first, Mapping) and isinstance(other, Mapping):
        return first.keys() == other.keys() and all(same(value, other[key]) for key, value in first.items())
    if isinstance(first, list | tuple) and isinstance(other, list | tuple):
        return len(first) == len(other) and all(map(same, first, other))
    return type(first) is type(other) and bool(first == other)


def plain_number(value: float) -> str:
    """A number without a needless `.0`."""
    if value == int(value) and abs(value) < 1e21:
        return str(int(value))
    return repr(float(value)).replace("e-0", "e-")
