"""Labels from and to files: our own JSON lines (the page's too), CSV, and TREC qrels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from msgspec import structs

from germane.clean import counted
from germane.encoding import encode, now
from germane.errors import InputError, SourceLocation
from germane.measures.labels import labelled_passages, turns
from germane.reports.data import ReportData
from germane.samples.cells import MISSING, Cells, TableRow, table_rows
from germane.samples.fields import SPELLINGS, id_in, id_keys
from germane.samples.files import JsonFault, parse_strict_json, read_lines, read_text, write_whole
from germane.samples.reading import READERS, suffix_of
from germane.samples.trec import read_qrels
from germane.show.table import csv_lines
from germane.tables.labels import (
    UNNAMED,
    Label,
    LabelBook,
    dump_label,
    load_label,
    newest_labels,
    passage_of,
    relevance_item,
    scale_ends,
    time_of,
)
from germane.tables.stored import LABELS, note_torn
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
_DRAWN = ("random", "stratified")
_YES_NO = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}


@dataclass(frozen=True, slots=True)
class ImportedLabels:
    """Labels of a file that are about things in the report, and how many rows were about anything else.

    `unfilled` rows have no answer yet. `unchanged` labels change nothing: the report holds the same answer of the same person,
    or a newer one.
    """

    labels: tuple[Label, ...]
    others: int
    unfilled: int = 0
    unchanged: int = 0


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
    for number, row in _rows(path):
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
            seen = documents.get(_named(row, location), {}).values()
            labels = [load_label({**dump_label(label), **fields}, location) for label in seen]
        elif isinstance(item, str) and item in kinds:
            design = row.get("design")
            drawn = isinstance(design, Mapping) and design.get("probability") and row.get("queue") in _DRAWN
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
    return ImportedLabels(named, others, unfilled, unchanged)


class LabelFile:
    """People's labels of passages in a file, for samples that are read: they become the labels on the contexts themselves.

    A folder is a report, whose labels.jsonl is read. Rows name the item, or the sample's id and the document's. A label
    stands in place of one that the context had. Where a label of a sample names a person, a passage has several, or somebody
    could not tell, all labels of that sample stand in `book`, each with its person. It knows those of the samples that it
    was asked `on`. InputError where the file holds no label of a passage.
    """

    def __init__(self, path: Path) -> None:
        path = path / "labels.jsonl" if path.is_dir() else path
        labels = []
        for number, row in _rows(path):
            if row.get("kind", "relevance") != "relevance" or _is_unfilled(row):
                continue
            answer, scale = _answer(row, location := SourceLocation(str(path), number))
            item = row.get("item") or _document(*_named(row, location))
            row_of = {"item": item, "kind": "relevance", "answer": answer, "scale": scale}
            labels.append(load_label({**row_of, "who": row.get("who"), "at": row.get("at")}, location))
        self.book, self._alone, self._labels = LabelBook(), LabelBook(labels), dict[str, list[Label]]()
        if not len(self._alone):
            raise InputError(f"{path} holds no label of a passage", fix="name a file of labels, or a report")
        for label in labels:
            if label.item in self._alone or self._alone.unsure(label.item):
                self._labels.setdefault(label.item, []).append(label)
        for some in self._labels.values():
            if len({(label.who, label.answer, label.scale) for label in some}) == 1:
                del some[:-1]  # the same label again
        others = (label.scale for label in self._alone if label.scale not in {"graded", "binary"})
        self._scale = scale_ends(other) if (other := next(others, None)) else None

    def on(self, sample: Sample) -> tuple[Sample, tuple[Label, ...]]:
        """The sample with these labels on its contexts, and those that keep their persons, which are added to the book."""
        labels = {
            item: some
            for item, passage in labelled_passages(sample)
            if (some := self._of(sample, passage.context, item))
        }
        people = any(len(some) > 1 or some[0].who or some[0].answer is None for some in labels.values())
        history = turns(sample)

        def labelled(context: Context) -> Context:
            some = labels.get(relevance_item(sample.query, passage_of(context), history))
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
        for item, passage in labelled_passages(sample):
            for label in self._of(sample, passage.context, item):
                yield _placed(label, item, sample)


def _placed(label: Label, item: str, sample: Sample) -> Label:
    return structs.replace(label, item=item, sample=sample.id, system=sample.system)


def _document(sample: str, document: str) -> str:
    return f"{sample}\n{document}"


def _labelable(report: ReportData) -> tuple[dict[str, str], dict[tuple[str, str], dict[str, Label]]]:
    """The kind of each item that can be labelled in a report, and for each sample's document labels without an answer."""
    kinds = {row.item: row.kind for row in report.items()}
    documents: dict[tuple[str, str], dict[str, Label]] = {}
    for sample in report.samples():
        for item, (call, rank, _, context) in labelled_passages(sample):
            kinds.setdefault(item, "relevance")
            if context.id is not None:
                name, system = sample.id, sample.system
                seen = Label(item, "relevance", None, "", sample=name, system=system, call=call, rank=rank)
                documents.setdefault((name, context.id), {}).setdefault(item, seen)
    return kinds, documents


def _named(row: Mapping[str, Json], location: SourceLocation) -> tuple[str, str]:
    """The sample and the document that a row without an item is about."""
    sample, document = row.get("sample"), id_in(row)
    if sample is None:
        others = row.keys() - set(id_keys(tuple(row)))
        sample = next((row[name] for name in row if name in others and SPELLINGS.get(name) == "id"), None)
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
        if not line.strip():
            continue
        try:
            row = parse_strict_json(line)
        except JsonFault as fault:
            if path.name == LABELS and not line.endswith("\n"):
                note_torn(path, number)
                return
            raise fault.error(path, line, number) from None
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
