"""Finds retrieved contexts in a system's answers and tool calls, and maps chunk ids to document ids."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain
from typing import Any, Literal

from msgspec.structs import replace

from germane.clean import shorten
from germane.errors import InputError
from germane.samples.fields import IDS, PASSAGE_SPELLINGS, SPELLINGS, converted, failure, passages
from germane.samples.strictjson import JsonFault, parse_strict_json
from germane.types import Call, Context, Json, Message, Sample

__all__ = ["document_ids"]

ContextsFrom = Literal["auto", "text"]
FALLBACK = "contexts were read as the blocks of text between blank lines"
_KEYS = ("retrieved_context", "retrieved_contexts", "contexts", "retrievedContext", "retrievedContexts")
PASSAGE_LISTS = ("documents", "results", "source_documents", "nodes", "matches", "hits", "docs", "points")
"""The keys under which retrieval systems return their passages, besides the names of `contexts`."""
PATTERN_SECONDS = 2.0
"""The time limit, in seconds, for matching a user's regular expression against one text."""
_FENCE = re.compile(r"```[^\n`]*\n(.*?)(?:```|\Z)", re.DOTALL)
_BLANK = re.compile(r"\n[^\S\n]*(?:\n[^\S\n]*)+")
_MAY_BE_CONTEXTS = re.compile(
    r"context|doc|passage|chunk|node|retriev|search|result|hit|source", re.IGNORECASE
)
_GOLD_WORDS = "reference|gold|expected|truth|relevant"
_MAY_BE_GOLD = re.compile(
    f".*({_GOLD_WORDS}).*(id|doc|document|chunk|context|passage|page|source|title)s?", re.IGNORECASE
)
_IS_GOLD = re.compile(rf"context|.*({_GOLD_WORDS}|ideal).*", re.IGNORECASE)


def hint_at_contexts(sample: Sample) -> str:
    """Return a hint at the list in the metadata that may hold a sample's contexts, or ""."""
    for path, value in _lists_in(sample.metadata):
        key, item = path[-1], value[0] if isinstance(value[0], dict) else {}
        meant = {*map(PASSAGE_SPELLINGS.get, item)} if "role" not in item else set()
        named = _MAY_BE_CONTEXTS.search(key) and (item or not path[1:])
        if (named or {"text"} <= meant or {"id", "score"} <= meant) and not _IS_GOLD.fullmatch(key):
            name = IDS if key.lower().endswith(("id", "ids")) else "contexts"
            how = (
                f"write that list as {name}" if path[1:] else f"rename it to {name} (--columns {name}={key})"
            )
            return f"; if {'.'.join(path)!r} holds them, {how}"
    return ""


def _lists_in(value: Mapping[str, Json], *path: str) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield (path of keys, list) for each list that is not empty, also as text, in nested mappings."""
    for key, inner in value.items():
        if isinstance(inner, Mapping):
            yield from _lists_in(inner, *path, str(key))
        elif inner and (inner.startswith("[") if isinstance(inner, str) else isinstance(inner, list | tuple)):
            yield (*path, str(key)), inner


def hint_at_qrels(sample: Sample) -> str:
    """Return a hint at the metadata field that may hold a sample's gold by its name, or ""."""
    key = next((key for key, value in sample.metadata.items() if value and _MAY_BE_GOLD.fullmatch(key)), None)
    hint = f"; if {key!r} holds gold ids, rename it to qrels (--columns qrels={key}); if texts, to evidence"
    return hint if key else ""


def hint_at_gold(sample: Sample) -> str:
    """Return a hint at what holds gold ids in a sample's contexts, though it is not their id, or ""."""
    gold = {*(sample.qrels or ()), *chain.from_iterable(sample.gold or ()), *sample.forbidden}
    for context in sample.retrieved():
        if context.id is None and context.text.strip() in gold:
            return '; texts are gold ids: give contexts as {"id": ...}, or their ids as retrieved_context_ids'
        if key := next((key for key, value in context.metadata.items() if str(value) in gold), None):
            return f"; {key!r} holds gold ids: rename it to id"
    return ""


def find_contexts(sample: Sample, contexts_from: ContextsFrom = "auto") -> tuple[Sample, str]:
    """Return the sample with the contexts or calls found in its response and messages, and a note or "".

    A sample that has contexts or calls is returned unchanged. The search order is: a JSON object with the key
    `retrieved_context`, `retrieved_contexts` or `contexts`; tool calls with `output.results`; a JSON array;
    fenced JSON. A string is split at blank lines if it is the value of one of these keys, if it is broken
    JSON, or if `contexts_from` is "text"; the note then says so. An error of the answer or of a search
    becomes the sample's, unless it already has one.
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
    """Return the contexts, calls and error found in the answer `text` and in tool calls, and a note or ""."""
    if contexts_from == "text":
        return ({"contexts": _blocks(text)}, FALLBACK) if text.strip() else ({}, "")
    document = _json(text)
    failed = failure_of(document) if isinstance(document, dict) else None
    for key in _KEYS if isinstance(document, dict) else ():
        if isinstance(listed := document.get(key), str):
            return {"contexts": _blocks(listed) or None}, f"{key} is a string, not a list: {FALLBACK}"
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
    note = f"the answer looks like JSON, but is not valid: {FALLBACK}"
    # if there is only one block, it is the broken JSON itself
    return ({"contexts": blocks}, note) if blocks[1:] else ({}, "")


def passages_in(value: Json) -> list[Json] | None:
    """Return the passages in a retriever's result: the list itself, or one under a usual key; or None."""
    if isinstance(value, Mapping):
        names = [name for name, field in SPELLINGS.items() if field == "contexts"]
        values = map(value.get, (*names, *PASSAGE_LISTS))
        value = next((listed for listed in values if isinstance(listed, list | tuple)), None)
    return list(value) if isinstance(value, list | tuple) else None


def failure_of(answer: Mapping[str, Json]) -> str | None:
    """Return why an answer failed, by its `error`, `errors` or `status` (500), or None if it did not fail."""
    error = failure(answer.get("error")) or failure(answer.get("errors"))
    status = answer.get("status")
    word = str(status).strip().lower() if isinstance(status, str | int) else ""
    failed = word in {"error", "failed", "failure"} or (word.isdecimal() and 400 <= int(word) < 600)
    return error or (f"the answer has the status {status}" if failed else None)


def without_errors(calls: Json) -> tuple[Json, str | None]:
    """Return the calls without their `error` keys, and the first error in them (None if no call failed).

    A failed call is dropped together with its error if a later call with the same query succeeded.
    """
    if not isinstance(calls, list | tuple):
        return calls, None
    kept: list[Json] = []
    error, answered = None, []
    for call in reversed(calls):
        record = call if isinstance(call, dict) else {}
        query, failure = record.get("query"), record.get("error")
        if failure is None:
            answered.append(query)
        if failure is None or query not in answered:
            error = failure or error
            kept.append({key: record[key] for key in record if key != "error"} if record else call)
    return kept[::-1], error


def only_contexts(content: Json) -> bool:
    """Return True if a message's content is a list of contexts, or an object that holds only such a list."""
    document = _json(content) if isinstance(content, str) else content
    if isinstance(document, dict):
        return len(document) == 1 and _under_keys(document) is not None
    return isinstance(document, list | tuple) and bool(document) and _read(document) is not None


_BROKEN = object()


def _json(text: str) -> Json:
    """Parse a string that contains a JSON object or list. Return `_BROKEN` for any other string."""
    stripped = text.strip().removeprefix("\ufeff")
    with suppress(JsonFault):
        if stripped.startswith(("{", "[")):
            return parse_strict_json(stripped)
    return _BROKEN


def _under_keys(document: Json) -> tuple[Context, ...] | None:
    """Return the contexts under a known key of a JSON object (contexts, documents, ...), or None."""
    values = passages_in(document) if isinstance(document, dict) else None
    return None if values is None else _read(values)


def _read(values: Json) -> tuple[Context, ...] | None:
    """Convert a list of passages in any accepted form to Contexts; return None for any other value."""
    with suppress(ValueError):
        return converted(passages(values), tuple[Context, ...])
    return None


def _calls(messages: Sequence[Message]) -> Iterator[dict[str, Json]]:
    """Yield, for each tool call that returned results, a mapping of the fields of a Call and of `error`."""
    for message in messages:
        for used in message.tool_calls:
            contexts, error = _results(used.output)
            if contexts is None:
                continue
            asked = used.input if isinstance(used.input, dict) else {"query": used.input or None}
            words = (asked[key] for key in ("query", "question", "q") if isinstance(asked.get(key), str))
            output = used.output if isinstance(used.output, dict) else {}
            ms: Any = output.get("ms", output.get("duration_ms"))
            timed = isinstance(ms, int | float) and not isinstance(ms, bool) and ms >= 0
            search = {"query": next(words, None), "contexts": contexts, "source": used.tool, "error": error}
            yield {**search, "ms": float(ms) if timed else None}


def _results(output: Json) -> tuple[tuple[Context, ...] | None, str | None]:
    """Return the contexts and the error in a tool's output or its nested tool calls; each may be None."""
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


def _blocks(text: str) -> tuple[Context, ...]:
    blocks = (block.strip() for block in _BLANK.split(text.replace("\r\n", "\n")))
    return tuple(Context(text=block) for block in blocks if block)


def document_ids(pattern: str) -> Callable[[str], str]:
    """Return a function that finds the document id in a chunk id with the regular expression `pattern`.

    It is the match of the first group, or of the whole pattern, or the chunk id if nothing matches. Raises
    InputError for an invalid pattern; the function raises it if a match takes longer than PATTERN_SECONDS.
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
            took = f"takes longer than {PATTERN_SECONDS:g} s on the id {shorten(chunk, 60)}"
            fix = "write a pattern without nested repetitions, such as '^[^#]+'"
            raise InputError(f"doc-id: {pattern!r} {took}", fix=fix) from None
        return (match and match[1 if rule.groups else 0]) or chunk

    return document_id


def compile_rule(pattern: str | None) -> Callable[[Sample], Sample]:
    """Return a function that replaces chunk ids by document ids in contexts, calls and stages.

    `pattern` is that of `document_ids`; None changes nothing. Ids in the gold are document ids already.
    """
    if pattern is None:
        return lambda sample: sample
    document = document_ids(pattern)

    def mapped(context: Context) -> Context:
        return context if context.id is None else replace(context, id=document(context.id))

    def changed(sample: Sample) -> Sample:
        stages = tuple(replace(stage, ids=tuple(map(document, stage.ids))) for stage in sample.stages)
        return sample.with_contexts(mapped, stages=stages)

    return changed
