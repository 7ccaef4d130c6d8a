"""Finds retrieved contexts in answers and tool calls, and maps chunk ids to document ids."""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from itertools import chain
from operator import attrgetter
from typing import Any, Literal, TypeAlias

from msgspec.structs import replace

from germane.clean import shorten
from germane.errors import InputError, Invalid, SourceLocation
from germane.samples.fields import failure_of, id_keys, passages_in, read_contexts, read_id, without_failed
from germane.samples.files import JsonFault, Notice, Warn, parse_strict_json
from germane.types import Call, Context, Json, Message, Sample, ToolCall, key_of

__all__ = ["DocumentIds", "document_ids"]

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
    searches, failed = without_failed(list(_calls(messages)))
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
    nested = output.get("tool_calls", output.get("toolCalls"))
    inner = [_results(use.get("output")) for use in nested or () if isinstance(use, dict)]
    results = [contexts for contexts, _ in inner if contexts is not None]
    error = error or next((error for _, error in inner if error), None)
    contexts = tuple(dict.fromkeys(chain.from_iterable(results)))
    return (contexts if results else None), error


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


Lists: TypeAlias = Mapping[Any, Sequence[str]]
"""The document ids of each query."""


def column_of_documents(
    name: str,
    lists: Mapping[str, Callable[[], Lists]],
    wanted: Mapping[Any, Mapping[str, int]],
    doc_id: Callable[[str], str] | None = None,
    *,
    other: str = "the gold",
    fix: str = "--columns doc=... names one",
) -> tuple[str, str, bool]:
    """Choose the column whose documents are wanted, else the first one.

    Args:
        name: The file.
        lists: For each column, a function that reads the documents of each query by it.
        wanted: For each query the grades of the other side's documents; those above 0 are wanted.
        doc_id: Maps the id of a chunk to that of its document; applied to `wanted` already.
        other: What the column has to match, in the note.
        fix: What to write to choose another column, in the note.

    Returns:
        The column, a note where it is in doubt (else ""), and whether any column matches.
    """
    read, meeting = dict[str, Lists](), list[str]()
    for column, listed in lists.items():
        with suppress(InputError):  # the column holds no ids
            read[column] = listed()
            for query, docs in read[column].items():
                grades = wanted.get(query, {})
                if any(grades.get(doc, 0) > 0 for doc in (docs if doc_id is None else map(doc_id, docs))):
                    meeting.append(column)
                    break
    first = next(iter(lists))
    same = len(read) == len(lists) and all(some == read[first] for some in read.values())
    chosen = meeting[0] if len(meeting) == 1 else first
    if same or meeting == [first]:
        return chosen, "", bool(meeting)
    which = (
        f"meets {other}"
        if len(meeting) == 1
        else f"comes first; several meet {other}"
        if meeting
        else f"comes first; none meets {other}"
    )
    columns = " and ".join(map(repr, lists))
    note = f"{name}: {columns} could be the document's id; {chosen!r} {which} ({fix})"
    return chosen, note, bool(meeting)


class DocumentIds:
    """Gives samples the document ids of the column that matches their gold, where contexts have several ids.

    The other ids become metadata. From the first such context on samples are held until the column is chosen, at the end
    of the file or after HELD samples.

    Args:
        file: The file that is read.
        warn: Called with the notice that the column is in doubt.
        doc_id: Maps the id of a chunk to that of its document.
    """

    HELD = 1000

    def __init__(
        self, file: SourceLocation, warn: Warn | None, doc_id: Callable[[str], str] | None = None
    ) -> None:
        self._file, self._warn, self._doc_id = file, warn, doc_id
        self._held: list[Sample] = []
        self._others: dict[str, None] = {}
        self.own = ""
        """The column that was read; "" until a context has a second id."""
        self._beside = False
        self.column: str | None = None
        """The column that is read instead, "" = none; None until it is chosen."""
        self.whole: Callable[[], tuple[DocumentIds, Iterator[Sample]]] | None = None
        """Reads the whole file, where only some of its samples are taken: all of them decide."""

    def add(self, sample: Sample, row: Callable[..., Json], *of: Any) -> Iterable[Sample]:
        """Return the samples that are ready once this one is there; `row(*of)` is what it was read from."""
        if self.column is None:
            others = _other_columns(sample)
            if others and not isinstance(made := row(*of), Sample):
                if not self._beside and (own := _beside(made, others)):
                    self.own, self._beside = own, True
                self.own = self.own or "id"
                self._others |= others
            if self.own:
                self._held.append(sample)
                return self.rest() if self.whole is not None or len(self._held) == self.HELD else ()
        return (self._read(sample),)

    def rest(self) -> Iterator[Sample]:
        """Choose the column, and yield the samples held back."""
        if self.own and self.column is None and self.whole is not None:
            all_ids, samples = self.whole()
            next((1 for _ in samples if all_ids.column is not None), None)
            self.own, self.column = all_ids.own, all_ids.column
        elif self.own and self.column is None:
            self._decide()
        held, self._held = self._held, []
        yield from map(self._read, held)

    def _decide(self) -> None:
        """Choose the column from the samples held back."""
        gold = {key_of(sample): _gold(sample, self._doc_id) for sample in self._held}
        lists = {
            name: partial(_lists, self._held, "" if name == self.own else name)
            for name in (self.own, *id_keys(tuple(self._others)))
        }
        fix = 'write the right one as "id", without the others'
        chosen, note, _ = column_of_documents("", lists, gold, self._doc_id, fix=fix)
        self.column = "" if chosen == self.own else chosen
        if self._warn is not None and note and any(gold.values()) and (self.column or self._beside):
            self._warn(Notice(note.removeprefix(": "), "", self._file))

    def _read(self, sample: Sample) -> Sample:
        return sample.with_contexts(self._renamed) if self.column else sample

    def _renamed(self, context: Context) -> Context:
        if (name := _id_under(context, self.column or "")) == context.id:
            return context
        left = {key: value for key, value in context.metadata.items() if key != self.column}
        return replace(context, id=name, metadata={self.own: context.id, **left})


_metadata_of = attrgetter("metadata")


def _other_columns(sample: Sample) -> dict[str, None]:
    """Return the metadata keys of contexts that hold another id than the context's."""
    known = list(filter(_metadata_of, sample.contexts or ()))
    for call in sample.calls or ():
        known += filter(_metadata_of, call.contexts)
    return {
        key: None
        for context in known
        for key in id_keys(tuple(context.metadata))
        if context.id is not None and _id_under(context, key) != context.id
    }


def _id_under(context: Context, key: str) -> str | None:
    """Return the id of a context under a key of its metadata, else its own."""
    with suppress(Invalid):
        return read_id(context.metadata[key]) if key in context.metadata else context.id
    return context.id


def _beside(row: Json, keys: Container[str]) -> str | None:
    """Return the name of the preferred id in a passage that also has one of these keys, or None."""
    if isinstance(row, Mapping):
        names = id_keys(tuple(row))
        if names[1:] and any(name in keys for name in names):
            return next((name for name in names if name not in keys), names[0])
        row = tuple(row.values())
    found = (_beside(inner, keys) for inner in row if isinstance(inner, Mapping | list | tuple))
    return next(filter(None, found), None)


def _lists(samples: Iterable[Sample], column: str) -> Lists:
    return {
        key_of(sample): [
            name for context in sample.retrieved() if (name := _id_under(context, column)) is not None
        ]
        for sample in samples
    }


def _gold(sample: Sample, doc_id: Callable[[str], str] | None) -> dict[str, int]:
    """Return the relevant documents of a sample."""
    names = {
        *(name for name, grade in (sample.qrels or {}).items() if grade > 0),
        *(name for group in sample.gold or () for name in group),
        *(evidence.doc for evidence in sample.evidence or () if evidence.doc is not None),
    }
    return dict.fromkeys(names if doc_id is None else map(doc_id, names), 1)
