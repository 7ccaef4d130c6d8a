"""Which of several columns holds the document's id: the one that meets the gold, decided once per file."""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeAlias

from msgspec.structs import replace

from germane.errors import InputError, Invalid, SourceLocation
from germane.samples.fields import id_keys, read_id
from germane.samples.files import Notice, Warn
from germane.types import Context, Json, Sample, key_of

Lists: TypeAlias = Mapping[Any, Sequence[str]]
"""The ids of the documents of each query."""


def column_of_documents(
    name: str,
    lists: Mapping[str, Callable[[], Lists]],
    wanted: Mapping[Any, Mapping[str, int]],
    doc_id: Callable[[str], str] | None = None,
    *,
    other: str = "the gold",
    fix: str = "--columns doc=... names one",
) -> tuple[str, str, bool]:
    """Return the one of some columns whose documents are wanted, else the first; the note about that or ""; if any is wanted.

    Args:
        name: The file.
        lists: Return the documents of each query as read with each column.
        wanted: Map each query to the documents of the other side with their grades, of which those above 0 are wanted.
        doc_id: Return the document of a chunk; it has been applied to `wanted`.
        other: What the column has to meet.
        fix: What to write to choose another column.
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
    """Samples with the ids of their documents from the column that meets their gold, where contexts have several.

    The other ids of a context are its metadata. From the first such context on samples are held until the column is decided:
    at the end of the file, or after a thousand samples.

    Args:
        file: The file that is read.
        warn: Take the notice that the column was in doubt.
        doc_id: Return the document of a chunk.
    """

    HELD = 1000

    def __init__(
        self, file: SourceLocation, warn: Warn | None, doc_id: Callable[[str], str] | None = None
    ) -> None:
        self._file, self._warn, self._doc_id = file, warn, doc_id
        self._held: list[Sample] = []
        self._others: dict[str, None] = {}
        self.own = ""
        """The name of the column that was read; "" until a context has a second one."""
        self._beside = False
        self.column: str | None = None
        """The column that is read instead, "" = none; None until it is decided."""
        self.whole: Callable[[], tuple[DocumentIds, Iterator[Sample]]] | None = None
        """Read the whole file, of which only some samples are taken here: all of them decide."""

    def take(self, samples: Iterable[Sample], rows: Callable[[int], Json]) -> Iterator[Sample]:
        """Yield the samples that are ready when these are there; `rows` returns what the one of a number was read from."""
        for number, sample in enumerate(samples):
            others = _other_columns(sample) if self.column is None else {}
            if others and not isinstance(row := rows(number), Sample):
                if not self._beside and (own := _beside(row, others)):
                    self.own, self._beside = own, True
                self.own = self.own or "id"
                self._others |= others
            if self.column is not None or not self.own:
                yield self._read(sample)
            else:
                self._held.append(sample)
                if self.whole is not None or len(self._held) == self.HELD:
                    yield from self.rest()

    def rest(self) -> Iterator[Sample]:
        """Decide, and yield the samples that are held."""
        if self.own and self.column is None and self.whole is not None:
            all_ids, samples = self.whole()
            next((1 for _ in samples if all_ids.column is not None), None)
            self.own, self.column = all_ids.own, all_ids.column
        elif self.own and self.column is None:
            self._decide()
        held, self._held = self._held, []
        yield from map(self._read, held)

    def _decide(self) -> None:
        """Choose the column by the samples that are held."""
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


def _other_columns(sample: Sample) -> dict[str, None]:
    """The keys in the metadata of contexts that hold another id than the context's."""
    return {
        key: None
        for passage in sample.ranked_passages()
        if (context := passage.context).metadata and context.id is not None
        for key in id_keys(tuple(context.metadata))
        if _id_under(context, key) != context.id
    }


def _id_under(context: Context, key: str) -> str | None:
    """The id that a context has under a key of its metadata, else its own."""
    with suppress(Invalid):
        return read_id(context.metadata[key]) if key in context.metadata else context.id
    return context.id


def _beside(row: Json, keys: Container[str]) -> str | None:
    """The name of the id that stands in a passage beside one of these keys, before it; None where there is none."""
    if isinstance(row, Mapping):
        names = id_keys(tuple(key for key in row if isinstance(key, str)))
        if names[1:] and any(name in keys for name in names):
            return next((name for name in names if name not in keys), names[0])
        row = tuple(row.values())
    found = (_beside(inner, keys) for inner in row if isinstance(inner, Mapping | list | tuple))
    return next(filter(None, found), None)


def _lists(samples: Iterable[Sample], column: str) -> Lists:
    return {
        key_of(sample): [
            name
            for passage in sample.ranked_passages()
            if (name := _id_under(passage.context, column)) is not None
        ]
        for sample in samples
    }


def _gold(sample: Sample, doc_id: Callable[[str], str] | None) -> dict[str, int]:
    """The relevant documents of a sample."""
    names = {
        *(name for name, grade in (sample.qrels or {}).items() if grade > 0),
        *(name for group in sample.gold or () for name in group),
        *(evidence.doc for evidence in sample.evidence or () if evidence.doc is not None),
    }
    return dict.fromkeys(names if doc_id is None else map(doc_id, names), 1)
