"""Read the parts of a case that graders need; the document and the working directory of grading scripts."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from germane.evalfiles import Case, content_text
from germane.evalfiles.model import Keys, folder_of
from germane.types import Json, Message, ToolCall

_OBJECT = re.compile(r"\{.*\}", re.DOTALL)
_FENCE = re.compile(r"```json\n?|```")


def resolve_cwd(keys: Keys, command: str) -> None:
    """Make the key `cwd` absolute; it is relative to the eval file. A value that is not a string is kept.

    Without the key, it is the folder that contains the script named by the key `command`, so that
    `./evaluators/mine.py` is found: the eval file's folder or one of its next four parents, whichever is
    nearest. If no script is found, it is the eval file's folder.
    """
    values, folder = keys.values, folder_of(keys).resolve()
    if isinstance(cwd := values.get("cwd"), str):
        values["cwd"] = str((folder / cwd).resolve())
    elif cwd is None:
        script = values.get(command)
        words = (
            script.split() if isinstance(script, str) else script if isinstance(script, list | tuple) else ()
        )
        paths = [Path(word.strip("'\"")) for word in words if isinstance(word, str)]
        files = [path for path in paths if path.suffix and not path.is_absolute()]
        near = (folder, *folder.parents[:4])
        values["cwd"] = str(
            next((parent for parent in near if any((parent / file).is_file() for file in files)), folder)
        )


def names_of(case: Case, grader: str) -> tuple[str, ...]:
    """Return what identifies a run of a script: the sample's id, the system, the trial, the grader's name."""
    return case.sample.id, case.sample.system, str(case.sample.trial), grader


def answer_of(case: Case) -> str:
    """Return the system's answer: the response or, without it, the last text in the system's messages."""
    if case.sample.response is not None:
        return case.sample.response
    texts = (content_text(m.content) for m in reversed(case.sample.messages) if m.role == "assistant")
    return next(filter(None, texts), "")


def reference_of(case: Case) -> str:
    """Return the reference answer of the eval file or, without it, of the sample; "" if there is none."""
    return case.reference_answer or case.sample.reference or ""


def criteria_of(case: Case) -> str:
    """Return the criterion for a good answer; "" if there is none."""
    return case.expected_outcome or getattr(case.sample, "criterion", None) or ""


def tool_calls(case: Case) -> list[ToolCall]:
    """Return all tool calls in the system's messages, in order."""
    return [call for message in case.sample.messages for call in message.tool_calls]


def _reported(case: Case, name: str) -> Json:
    """Return the value that the target reported under this name, or None."""
    metadata = case.sample.metadata
    summary = metadata.get("trace_summary")
    value = metadata.get(name)
    return summary.get(name) if value is None and isinstance(summary, Mapping) else value


def _number(value: Json) -> float | None:
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


def cost_of(case: Case) -> float | None:
    """Return the cost of the answer in US dollars; None if it was not reported."""
    return _number(_reported(case, "cost_usd"))


def duration_of(case: Case) -> float | None:
    """Return the duration of the answer in milliseconds: as reported or, without a report, as measured."""
    reported = _number(_reported(case, "duration_ms"))
    return _number(_reported(case, "ms")) if reported is None else reported


def tokens_of(case: Case) -> dict[str, float | None]:
    """Return the number of tokens of the answer for each of the keys `input`, `output` and `cached`.

    Input or output that was not reported is None; tokens are cached only if that was reported.
    """
    usage = _reported(case, "token_usage")
    known = usage if isinstance(usage, Mapping) else {}
    counts = {kind: _number(known.get(kind)) for kind in ("input", "output", "cached")}
    return {**counts, "cached": counts["cached"] or 0}


def trace_summary(case: Case) -> dict[str, Json] | None:
    """Return a summary of the answer's tool calls, cost and duration, with the keys of AgentV 2 and 4."""
    own = case.sample.metadata.get("trace_summary")
    calls = Counter(call.tool for call in tool_calls(case))
    if not case.sample.messages and not isinstance(own, Mapping):
        return None
    result: dict[str, Json] = {"event_count": calls.total(), "tool_names": sorted(calls)}
    result |= {"tool_calls_by_name": dict(calls), "error_count": 0}
    if spoken := sum(message.role == "assistant" for message in case.sample.messages):
        result["llm_call_count"] = spoken
    if isinstance(own, Mapping) and not calls:
        result |= own
    measured = {"token_usage": _reported(case, "token_usage"), "cost_usd": cost_of(case)}
    measured["duration_ms"] = duration_of(case)
    result |= {name: value for name, value in measured.items() if value is not None}
    return {**result, "tool_calls": result.get("tool_calls") or result["tool_calls_by_name"]}


def json_in(text: str) -> Json:
    """Return the JSON value in a text, which may also contain code fences or prose."""
    bare = _FENCE.sub("", text).strip()
    match = _OBJECT.search(bare)
    try:
        return json.loads(match[0] if match else bare, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("nested without end") from None


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def script_document(case: Case, config: Mapping[str, Json]) -> dict[str, Json]:
    """Return the JSON document that a grading script reads on stdin, with the keys of AgentV 2 and 4."""
    sample, answer, reference = case.sample, answer_of(case), reference_of(case)
    criteria = criteria_of(case) or reference
    lines = list(map(message_json, sample.messages))
    expected = list(map(message_json, case.expected_messages))
    asked = list(map(message_json, case.input_messages)) or [{"role": "user", "content": sample.query}]
    summary = trace_summary(case)
    return {
        "question": case.question or sample.query,
        "expected_outcome": criteria,
        "expected_messages": expected,
        "reference_answer": reference,
        "candidate_answer": answer,
        "output_messages": lines or None,
        "guideline_files": list(case.guideline_files),
        "input_files": list(case.input_files),
        "input_messages": asked,
        "trace_summary": summary,
        "config": config or None,
        "criteria": criteria,
        "expected_output": expected or reference,
        "output": answer,
        "input": asked,
        "messages": lines,
        "metadata": dict(case.metadata or sample.metadata),
        "trace": None if summary is None else {**summary, "messages": lines},
        "token_usage": _reported(case, "token_usage"),
        "cost_usd": cost_of(case),
        "duration_ms": duration_of(case),
        "start_time": sample.metadata.get("start_time"),
        "end_time": sample.metadata.get("end_time"),
    }


_OF_CALLS = {"id": "id", "tool": "tool", "input": "input", "output": "output", "duration_ms": "ms"}


def message_json(message: Message) -> dict[str, Json]:
    """Return a message in the form of AgentV's documents; keys without a value are left out."""
    made = [{name: getattr(call, field) for name, field in _OF_CALLS.items()} for call in message.tool_calls]
    calls = [{name: value for name, value in call.items() if value is not None} for call in made]
    content = {} if message.content is None else {"content": message.content}
    return {"role": message.role, **content, **({"tool_calls": calls} if calls else {})}


ABSENT = object()
_STEPS = re.compile(r"[.\[\]]")


def value_at(value: Json, path: str) -> Json:
    """Return the value at a path such as `lines[0].amount`, or ABSENT if there is none."""
    for step in filter(None, _STEPS.split(path)):
        if isinstance(value, list | tuple) and step.isdecimal():
            value = value[int(step)] if int(step) < len(value) else ABSENT
        else:
            value = value.get(step, ABSENT) if isinstance(value, Mapping) else ABSENT
    return value


def same(first: Json, other: Json) -> bool:
    """Return True if two JSON values are equal and of one type: 1 equals 1.0, but not "1" or true."""
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
    """Return a number as text; a whole number has no decimal point."""
    if value == int(value) and abs(value) < 1e21:
        return str(int(value))
    return repr(float(value)).replace("e-0", "e-")
