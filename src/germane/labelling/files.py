"""Labels from and to files: our own JSON lines (the page's too), CSV, and TREC qrels."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from msgspec import structs

from germane.clean import counted
from germane.encoding import encode, now
from germane.errors import InputError, SourceLocation
from germane.folder.layout import LABELS
from germane.folder.lines import note_torn, torn_bytes
from germane.places.lists import labelled_passages, turns
from germane.reports.data import ReportData
from germane.samples.cells import MISSING, Cells, TableRow, table_rows
from germane.samples.contexts import Lists, column_of_documents
from germane.samples.fields import SPELLINGS, id_in, id_keys
from germane.samples.files import JsonFault, json_in, parse_strict_json, read_lines, read_text, write_whole
from germane.samples.reading import READERS, suffix_of
from germane.samples.runs.trec import read_qrels
from germane.show.table import csv_lines
from germane.tables.labels import (
    UNNAMED,
    Label,
    LabelBook,
    dump_label,
    load_label,
    newest_labels,
    relevance_item,
    scale_ends,
    time_of,
)
from germane.types import Context, Json, Sample

_COLUMNS = [
    "sample",
    "system",
    "id",
    "answer",
    "scale",
    "who",
    "at",
    "queue",
    "guideline",
    "reason",
    "item",
    "kind",
]
_GRADE = re.compile(r"([0-9]{1,9})(?:[.,]0*)?")
_ANSWERS = ("answer", "grade", "relevant")
_WRITE_GRADE = "write grade (0-3), or relevant (yes or no)"
_YES_NO = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}


@dataclass(frozen=True, slots=True)
class ImportedLabels:
    """Labels of a file that are about things in the report, and how many rows were about anything else.

    `unfilled` rows have no answer yet. `unchanged` labels change nothing: the report holds the same answer of the same person,
    or a newer one. `note` says which of several columns was read as the document's id.
    """

    labels: tuple[Label, ...]
    others: int
    unfilled: int = 0
    unchanged: int = 0
    note: str = ""


def import_labels(
    path: Path, report: ReportData, who: str | None, guideline: str | None = None, user: str | None = None
) -> ImportedLabels:
    """The labels in a file, by its extension: .jsonl, .json, .csv, .tsv, anything else is TREC qrels.

    A row of JSON names its `item`, or like a row of CSV its sample and its document (`id`), with `grade`, `relevant`
    or `answer`. Rows keep their queue only where they hold the design that they were drawn by; else it is `import`.

    Rows that name nobody are labels of `who`; without it of `user` or, where two of them contradict each other, of UNNAMED.

    Raises:
        InputError: The file cannot be read, or no row is about anything in the report.
    """
    kinds, documents = _labelable(report)
    results, others, unfilled = list[Label](), 0, 0
    rows = list(_rows(path))
    column, note, _ = _column(path, _documents_by_column(rows), documents)
    for number, row in rows:
        location = SourceLocation(str(path), number)
        if _is_unfilled(row):
            unfilled += 1
            continue
        answer, scale = _answer(row, location)
        fields = {
            "answer": answer,
            "scale": scale,
            "who": row.get("who") or None,
            "at": row.get("at") or now("milliseconds"),
            "guideline": row.get("guideline") or guideline,
            "reason": row.get("reason") or None,
        }
        if not (item := row.get("item")):
            seen = documents.get(_named(row, location, column), {}).values()
            labels = [load_label({**dump_label(label), **fields}, location) for label in seen]
        elif isinstance(item, str) and item in kinds:
            design = row.get("design")
            drawn = isinstance(design, Mapping) and design.get("probability") and row.get("queue") == "random"
            kept = {} if drawn else {"queue": "import", "design": None}
            labels = [load_label({**row, **fields, **kept, "kind": kinds[item]}, location)]
        else:
            labels = []
        results += labels
        others += not labels
    if not results and unfilled and not others:
        raise InputError(f"{path}: none of its {counted(unfilled, 'row')} has an answer", fix=_WRITE_GRADE)
    if not results:
        raise InputError(
            f"{path}: none of its {others} rows is about anything in this report",
            fix="rows name an item of the report, or a sample's id and a document's id",
        )
    answers = {(label.sample, label.item): label.answer for label in results if not label.who}
    same = all(label.who or answers[label.sample, label.item] == label.answer for label in results)
    person = who or (user if same else None) or UNNAMED
    named = tuple(label if label.who else structs.replace(label, who=person) for label in results)
    before = {(label.item, label.who): label for label in newest_labels(report.labels())}
    unchanged = 0
    for label in named:
        stored = before.get((label.item, label.who))
        if stored is not None and label.who != UNNAMED:
            same = (label.answer, label.scale) == (stored.answer, stored.scale)
            unchanged += same or time_of(label) < time_of(stored)
    return ImportedLabels(named, others, unfilled, unchanged, note)


class LabelFile:
    """People's labels of passages in a file, for samples that are read: they become the labels on the contexts themselves.

    A folder is a report, whose labels.jsonl is read. Rows name the item, or the sample's id and the document's. A label
    stands in place of one that the context had. Where a label of a sample names a person, a passage has several, or somebody
    could not tell, all labels of that sample stand in `book`, each with its person. It knows those of the samples that it
    was asked `on`. Of several columns that could be the document's id, the one that meets the contexts of the first such
    sample is read; `warn` takes the note about that. InputError where the file holds no label of a passage.
    """

    def __init__(self, path: Path, warn: Callable[[str], None] = lambda _: None) -> None:
        self._path, self._warn = path / "labels.jsonl" if path.is_dir() else path, warn
        self._rows = [
            (number, row)
            for number, row in _rows(self._path)
            if row.get("kind", "relevance") == "relevance" and not _is_unfilled(row)
        ]
        self._lists = _documents_by_column(self._rows)
        """The documents of each sample as read with each column; empty where there is no choice, or no more."""
        self.book = LabelBook()
        self._read(None)

    def _read(self, column: str | None) -> None:
        """Take the labels of the rows, whose documents are those of a column."""
        labels = []
        for number, row in self._rows:
            answer, scale = _answer(row, location := SourceLocation(str(self._path), number))
            item = row.get("item") or _document(*_named(row, location, column))
            row_of = {"item": item, "kind": "relevance", "answer": answer, "scale": scale}
            labels.append(load_label({**row_of, "who": row.get("who"), "at": row.get("at")}, location))
        self._alone, self._labels = LabelBook(labels), dict[str, list[Label]]()
        if not len(self._alone):
            fix = "name a file of labels, or a report"
            raise InputError(f"{self._path} holds no label of a passage", fix=fix)
        if not self._lists:
            self._rows = []
        for label in labels:
            if label.item in self._alone or self._alone.unsure(label.item):
                self._labels.setdefault(label.item, []).append(label)
        for some in self._labels.values():
            if len({(label.who, label.answer, label.scale) for label in some}) == 1:
                del some[:-1]  # the same label again
        others = (label.scale for label in self._alone if label.scale not in {"graded", "binary"})
        self._scale = scale_ends(other) if (other := next(others, None)) else None

    def _choose(self, sample: Sample) -> None:
        """Read the column that meets the contexts of this sample, if one does."""
        lists: dict[str, Lists] = {
            name: {sample.id: listed.get(sample.id, [])} for name, listed in self._lists.items()
        }
        contexts = (passage.context for _, passage in labelled_passages(sample))
        column, note, meets = _column(self._path, lists, ((sample.id, c.id) for c in contexts if c.id))
        if meets:
            self._lists = {}
            self._read(column)
            if note:
                self._warn(note)

    def on(self, sample: Sample) -> tuple[Sample, tuple[Label, ...]]:
        """The sample with these labels on its contexts, and those that keep their persons, which are added to the book."""
        if self._lists:
            self._choose(sample)
        labels = {
            item: some
            for item, passage in labelled_passages(sample)
            if (some := self._of(sample, passage.context, item))
        }
        people = any(len(some) > 1 or some[0].who or some[0].answer is None for some in labels.values())
        history = turns(sample)

        def labelled(context: Context) -> Context:
            some = labels.get(relevance_item(sample.query, context.passage, history))
            if some is None:
                return context
            if people:
                return structs.replace(context, grade=None, relevant=None)
            (label,) = some
            if label.scale == "binary":
                return structs.replace(context, grade=None, relevant=bool(label.answer))
            return structs.replace(context, grade=int(label.answer), relevant=None)

        changed = sample.with_contexts(labelled, grade_scale=self._scale or sample.grade_scale)
        rows = (
            [_placed(label, item, sample) for item, some in labels.items() for label in some]
            if people
            else []
        )
        rows = [structs.replace(label, who=label.who or UNNAMED) for label in rows]
        self.book.add(rows)
        return changed, tuple(rows)

    def _of(self, sample: Sample, context: Context, item: str) -> list[Label]:
        """The labels of a context of a sample, by the first name that the file has any under."""
        names = (item,) if context.id is None else (item, _document(sample.id, context.id))
        return next((self._labels[name] for name in names if name in self._labels), [])

    def about(self, sample: Sample) -> Iterator[Label]:
        """The labels of a sample's passages, each with its item and who gave it."""
        if self._lists:
            self._choose(sample)
        for item, passage in labelled_passages(sample):
            for label in self._of(sample, passage.context, item):
                yield _placed(label, item, sample)


def _placed(label: Label, item: str, sample: Sample) -> Label:
    return structs.replace(label, item=item, sample=sample.id, system=sample.system)


def _document(sample: str, document: str) -> str:
    return f"{sample}\n{document}"


def _labelable(report: ReportData) -> tuple[dict[str, str], dict[tuple[str, str], dict[str, Label]]]:
    """The kind of each item that can be labelled in a report, and for each sample's document labels without an answer."""
    kinds = {row.item: row.kind for row in report.places()}
    documents: dict[tuple[str, str], dict[str, Label]] = {}
    for sample in report.samples():
        for item, (call, rank, _, context) in labelled_passages(sample):
            kinds.setdefault(item, "relevance")
            if context.id is not None:
                name, system = sample.id, sample.system
                seen = Label(item, "relevance", None, "", sample=name, system=system, call=call, rank=rank)
                documents.setdefault((name, context.id), {}).setdefault(item, seen)
    return kinds, documents


def _documents_by_column(rows: Iterable[tuple[int, Mapping[str, Json]]]) -> dict[str, Lists]:
    """The documents of each sample as the columns name them that could be the document's id; empty of fewer than two."""
    about = [row for _, row in rows if not row.get("item")]
    columns = id_keys(tuple(dict.fromkeys(name for row in about for name in row)))
    return {name: _documents(about, name) for name in columns if columns[1:]}


def _documents(rows: Iterable[Mapping[str, Json]], column: str) -> Lists:
    lists: dict[str, list[str]] = {}
    for row in rows:
        if (document := id_in({column: row.get(column)})) is not None:
            lists.setdefault(str(_sample_of(row)), []).append(document)
    return lists


def _column(
    path: Path, lists: Mapping[str, Lists], retrieved: Iterable[tuple[str, str]]
) -> tuple[str | None, str, bool]:
    """The column that meets these documents of samples, with what `column_of_documents` says; None where there is no choice."""
    if not lists:
        return None, "", False
    wanted: dict[str, dict[str, int]] = {}
    for sample, document in retrieved:
        wanted.setdefault(sample, {})[document] = 1
    by_name = {name: partial(lists.__getitem__, name) for name in lists}
    fix = "write the right one as id, without the others"
    return column_of_documents(path.name, by_name, wanted, other="what was retrieved", fix=fix)


def _sample_of(row: Mapping[str, Json]) -> Json:
    if (sample := row.get("sample")) is not None:
        return sample
    others = row.keys() - set(id_keys(tuple(row)))
    return next((row[name] for name in row if name in others and SPELLINGS.get(name) == "id"), None)


def _named(row: Mapping[str, Json], location: SourceLocation, column: str | None) -> tuple[str, str]:
    """The sample and the document that a row without an item is about, the latter from a column, if one was chosen."""
    sample, document = _sample_of(row), id_in(row if column is None else {column: row.get(column)})
    if sample is None or document is None:
        fix = "name item, or sample and id (query_id and doc_id)"
        raise InputError("this row does not say what it is about", fix=fix, place=location)
    return str(sample), str(document)


def _is_unfilled(row: Mapping[str, Json]) -> bool:
    """True if a row leaves its answer open; an item without an answer says in JSON, or by its reason, that somebody was unsure."""
    given = [row[name] for name in _ANSWERS if name in row]
    if "item" in row and (row.get("reason") or not isinstance(row, TableRow)):
        return False
    return bool(given) and all(
        value is None or (isinstance(value, str) and value.strip() in {"", *MISSING}) for value in given
    )


def _answer(row: Mapping[str, Json], location: SourceLocation) -> tuple[Json, str]:
    """The answer of a row and its scale; None where the person was unsure. InputError where it cannot be used."""
    name = next((name for name in _ANSWERS if row.get(name) not in (None, "")), "")
    scale = str(row.get("scale") or "")
    if not name and "item" in row:  # unsure, or taken back
        return None, scale or "graded"
    value = _value(row.get(name))
    if value is None:
        raise InputError("this row has no usable answer", fix=_WRITE_GRADE, place=location)
    if isinstance(value, bool) or name == "relevant" or scale == "binary":
        return bool(value), "binary"
    return value, scale or "graded"


def _value(value: Json) -> int | bool | None:
    """A grade, or yes or no; None where it is neither."""
    if isinstance(value, str):
        text = value.strip().casefold()
        grade = _GRADE.fullmatch(text)
        return int(grade[1]) if grade else _YES_NO.get(text)
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e9:
        return int(value)
    return value if isinstance(value, int) else None


def _rows(path: Path) -> Iterator[tuple[int, Mapping[str, Json]]]:
    """The rows of a file of labels with their numbers, by its extension."""
    if not path.is_file():
        raise InputError(f"no file {path}", fix="name a .jsonl, .csv or qrels file")
    suffix = suffix_of(path)
    if suffix == ".jsonl":
        yield from _json_rows(path)
    elif suffix == ".csv" or (suffix in {".tsv", ".json"} and _names_labels(path, suffix)):
        header = () if suffix == ".json" else _header(path, suffix)
        if header and not {"item", *_ANSWERS} & {*header}:
            problem = f"no column is the grade; the columns are {', '.join(header)}"[:300]
            place = SourceLocation(str(path), 1)
            raise InputError(problem, fix="begin with a header: sample,id,grade", place=place)
        cells = Cells(lambda name, among=(): "query")  # noqa: ARG005
        for number, row, where in READERS[suffix][0](path, cells):
            if not isinstance(row, dict):
                raise InputError("this row is not an object", fix=_WRITE_GRADE, place=where(()))
            yield number, row
    else:
        yield from _qrels_rows(path)


def _header(path: Path, suffix: str) -> list[str]:
    lines = (line for _, line in read_lines(path))
    rows = table_rows(lines, "\t" if suffix == ".tsv" else ",", str(path))
    return [name.strip() for name in next(rows, (1, []))[1]]


def _names_labels(path: Path, suffix: str) -> bool:
    """True if a file that could hold qrels names the columns or the keys of labels."""
    if suffix == ".tsv":
        return bool({"sample", "item"} & {*_header(path, suffix)})
    try:
        document = parse_strict_json(read_text(path))
    except JsonFault:
        return True  # which its reader explains
    rows = document if isinstance(document, list) else ()
    return any(isinstance(row, dict) and not row.keys().isdisjoint({"item", *_ANSWERS}) for row in rows)


def _json_rows(path: Path) -> Iterator[tuple[int, Mapping[str, Json]]]:
    for number, line in read_lines(path):
        if path.name == LABELS and not line.endswith("\n") and torn_bytes(line.encode()):
            note_torn(path, number)
        elif not line.isspace():
            row = json_in(line, path, number)
            if not isinstance(row, dict):
                raise InputError("this line is not a JSON object", place=SourceLocation(str(path), number))
            yield number, row


def _qrels_rows(path: Path) -> Iterator[tuple[int, Mapping[str, Json]]]:
    qrels = read_qrels(path)
    top = max((grade for grades in qrels.values() for grade in grades.values()), default=0)
    scale = "graded" if top <= 3 else f"0-{top}"
    for number, (query, qrel) in enumerate(qrels.items(), 1):
        for document, grade in qrel.items():
            yield number, {"sample": query, "id": document, "grade": max(grade, 0), "scale": scale}


def export_labels(path: Path, report: ReportData) -> int:
    """Write the labels that people gave, by the file's extension: .jsonl, .csv, or TREC qrels (.qrels, .txt); how many rows.

    In qrels each document of a sample has the label that counts for it; passages without an id are left out. InputError
    where the extension is another one.
    """
    if (suffix := path.suffix.lower()) not in {".jsonl", ".csv", ".qrels", ".txt", ".trec", ""}:
        raise InputError(f"{path}: labels are not written as {suffix}", fix="name it .jsonl, .csv or .qrels")
    labels = [label for label in report.labels() if label.answer is not None]
    if suffix == ".jsonl":
        write_whole(path, b"".join(encode(dump_label(label)) + b"\n" for label in labels))
        return len(labels)
    _, documents = _labelable(report)
    if suffix == ".csv":
        names = {(sample, item): name for (sample, name), items in documents.items() for item in items}
        rows = ({**dump_label(label), "id": names.get((label.sample, label.item))} for label in labels)
        write_whole(path, csv_lines([_COLUMNS, *([row[name] for name in _COLUMNS] for row in rows)]))
        return len(labels)
    book = LabelBook(labels)
    lines = []
    for (sample, document), items in documents.items():
        counting = filter(None, map(book.get, items))
        grades = [int(label.answer) for label in counting]
        if grades and not any(char.isspace() for char in sample + document):
            lines.append(f"{sample} 0 {document} {max(grades)}\n")
    write_whole(path, lines)
    return len(lines)
