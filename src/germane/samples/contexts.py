"""Finds retrieved contexts in answers and tool calls, and maps chunk ids to document ids."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import Any, Literal

from msgspec.structs import replace

from germane.clean import shorten
from germane.errors import InputError
from germane.samples.fields import failure_of, passages_in, read_contexts, without_errors
from germane.samples.files import JsonFault, parse_strict_json
from germane.types import Call, Context, Json, Message, Sample, ToolCall

__all__ = ["document_ids"]

ContextsFrom = Literal["auto", "text"]
FALLBACK = "contexts were read as the blocks of text between blank lines"
_KEYS = ("retrieved_context", "retrieved_contexts", "contexts", "retrievedContext", "retrievedContexts")
PATTERN_SECONDS = 2.0
"""The time limit in seconds of a regular expression from a file on one text."""
_FENCE = re.compile(r"```[^\n`]*\n(.*?)(?:```|\Z)", re.DOTALL)
_BLANK = re.compile(r"\n[^\S\n]*(?:\n[^\S\n]*)+")


def find_contexts(sample: Sample, contexts_from: ContextsFrom = "auto") -> tuple[Sample, str]:
    """Return the sample with its own contexts or calls, else with those in its response and messages; and a note on the latter, or "".

    The order: its own list; a JSON object with `retrieved_context`, `retrieved_contexts` or `contexts`; tool calls with
    `output.results`; a JSON array; fenced JSON. A text under one of these keys, broken JSON with blank lines, or any text
    under `contexts_from="text"`, is split at blank lines, with a note. Expected messages are gold and are not searched. An error
    that the answer or a search reports is the sample's, where it has none.
    """
    if sample.contexts is not None or sample.calls is not None:
        return sample, ""
    spoken = (m.content for m in reversed(sample.messages) if isinstance(m.content, str) and m.content)
    found, note = _found_in(sample.response or next(spoken, ""), sample.messages, contexts_from)
    if sample.error is not None:
        found["error"] = sample.error
    return replace(sample, **found), note


def _found_in(
    text: str, messages: Sequence[Message], contexts_from: ContextsFrom
) -> tuple[dict[str, Any], str]:
    """Return the fields of a sample that an answer's text and the tool calls of its messages hold, and a note."""
    if contexts_from == "text":
        return ({"contexts": _blocks(text)}, FALLBACK) if text.strip() else ({}, "")
    document = _json(text)
    failed = failure_of(document) if isinstance(document, dict) else None
    for key in _KEYS:
        if isinstance(document, dict) and isinstance(listed := document.get(key), str):
            return {"contexts": _blocks(listed) or None}, f"{key} is a text and not a list: {FALLBACK}"
    if (contexts := _under_keys(document)) is not None:
        return {"contexts": contexts, "error": failed}, ""
    searches, failed = without_errors(list(_calls(messages)))
    if searches:
        return {"calls": tuple(Call(**search) for search in searches), "error": failed}, ""
    for value in (document, *(_json(fence[1]) for fence in _FENCE.finditer(text))):
        contexts = _read(passages_in(value)) if isinstance(value, list) else _under_keys(value)
        if contexts is not None:
            return {"contexts": contexts}, ""
    broken = document is _BROKEN and text.lstrip().startswith(("{", "[", "```"))
    lines = (line for line in text.splitlines() if not line.lstrip().startswith("```"))
    blocks = _blocks("\n".join(lines)) if broken else ()
    note = f"the answer looks like JSON and is not: {FALLBACK}"
    # one block would be the broken JSON itself
    return ({"contexts": blocks}, note) if blocks[1:] else ({}, "")


def only_contexts(content: Json) -> bool:
    """Return True if the content of a message is only a list of contexts, or an object around one."""
    document = _json(content) if isinstance(content, str) else content
    if isinstance(document, dict):
        return len(document) == 1 and _under_keys(document) is not None
    return isinstance(document, list | tuple) and bool(document) and _read(document) is not None


_BROKEN = object()


def _json(text: str) -> Json:
    """Return the JSON value of a text, or `_BROKEN`."""
    stripped = text.strip().removeprefix("\ufeff")
    if not stripped.startswith(("{", "[")):
        return _BROKEN
    try:
        return parse_strict_json(stripped)
    except JsonFault:
        return _BROKEN


def _under_keys(document: Json) -> tuple[Context, ...] | None:
    """Return the contexts that a JSON object has under a known key, or None."""
    values = passages_in(document) if isinstance(document, dict) else None
    return None if values is None else _read(values)


def _read(values: Json) -> tuple[Context, ...] | None:
    """Return the contexts of a list, or None where it holds something else."""
    try:
        return read_contexts(values)
    except ValueError:
        return None


def _calls(messages: Sequence[Message]) -> Iterator[dict[str, Json]]:
    """Iterate over the searches: each tool call that returned results or failed."""
    for message in messages:
        for used in message.tool_calls:
            contexts, error = _results(used.output)
            if contexts is not None:
                search = {"query": _query(used), "contexts": contexts, "ms": _ms(used), "source": used.tool}
                yield search if error is None else {**search, "error": error}


def _results(output: Json) -> tuple[tuple[Context, ...] | None, str | None]:
    """Return the results of a tool, else those of the calls nested in it, and its error."""
    if isinstance(output, str):
        output = _json(output)
    if not isinstance(output, dict):
        return None, None
    error = failure_of(output)
    if isinstance(output.get("results"), list | tuple):
        return _read(output["results"]), error
    nested = [_results(use.get("output")) for use in output.get("tool_calls") or () if isinstance(use, dict)]
    results = [contexts for contexts, _ in nested if contexts is not None]
    error = error or next((fault for _, fault in nested if fault), None)
    return (tuple(dict.fromkeys(chain.from_iterable(results))) if results else None), error


def _query(used: ToolCall) -> str | None:
    asked = used.input if isinstance(used.input, dict) else {"query": used.input or None}
    return next((asked[key] for key in ("query", "question", "q") if isinstance(asked.get(key), str)), None)


def _ms(used: ToolCall) -> float | None:
    ms = used.output.get("ms", used.output.get("duration_ms")) if isinstance(used.output, dict) else None
    return float(ms) if isinstance(ms, int | float) and not isinstance(ms, bool) and ms >= 0 else None


def _blocks(text: str) -> tuple[Context, ...]:
    blocks = (block.strip() for block in _BLANK.split(text.replace("\r\n", "\n")))
    return tuple(Context(text=block) for block in blocks if block)


def document_ids(pattern: str) -> Callable[[str], str]:
    """Return the function that maps a chunk id to the match of a pattern (or of its first group), else to itself.

    Raises InputError for an invalid pattern; the function does where it takes longer than PATTERN_SECONDS.
    """
    import regex  # not at the top: few evaluations have such a rule

    try:
        rule = regex.compile(pattern)
    except (regex.error, RecursionError, OverflowError) as error:
        fix = "write a regular expression like '^[^#]+' or '<(urn:uuid:[^>]+)>'"
        raise InputError(f"doc-id: {pattern!r} is not a regular expression: {error}", fix=fix) from None

    def document_id(chunk: str) -> str:
        try:
            match = rule.search(chunk, timeout=PATTERN_SECONDS)
        except TimeoutError:
            problem = (
                f"doc-id: {pattern!r} takes longer than {PATTERN_SECONDS:g} s on the id {shorten(chunk, 60)}"
            )
            fix = "write a pattern without a repetition in a repetition: '^[^#]+'"
            raise InputError(problem, fix=fix) from None
        return (match and match[1 if rule.groups else 0]) or chunk

    return document_id


def compile_rule(pattern: str | None) -> Callable[[Sample], Sample]:
    """Return the function that maps the ids of a sample's contexts, calls and stages by `document_ids`.

    Gold ids are document ids already. A pattern of None changes nothing.
    """
    if pattern is None:
        return lambda sample: sample
    document = document_ids(pattern)

    def mapped(context: Context) -> Context:
        name = None if context.id is None else document(context.id)
        return context if name == context.id else replace(context, id=name)

    def changed(sample: Sample) -> Sample:
        stages = tuple(replace(stage, ids=tuple(map(document, stage.ids))) for stage in sample.stages)
        return sample.with_contexts(mapped, stages=stages)

    return changed
