"""Import people's labels from JSON lines (as in labels.jsonl), JSON, CSV and qrels; export all but JSON."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from itertools import islice, zip_longest
from pathlib import Path
from typing import TypeAlias

import numpy as np
from msgspec import structs

from germane.clean import counted, fold
from germane.encoding import encode, now
from germane.errors import InputError, SourceLocation
from germane.folder.files import LABELS, note_torn, torn_bytes
from germane.places.lists import labelled_contexts, turns
from germane.reports.data import ReportData
from germane.samples.cells import is_missing, table_rows
from germane.samples.fields import DOCUMENT_IDS, SPELLINGS, id_in, id_keys
from germane.samples.files import Notice, Warn, read_lines, read_text, write_whole
from germane.samples.reading import json_rows, suffix_of
from germane.samples.runs.formats import GOLD
from germane.samples.runs.source import RowSource
from germane.samples.strictjson import json_in
from germane.show.table import csv_lines
from germane.tables.labels import (
    OLDER_SCALE,
    TAKEN_BACK,
    UNNAMED,
    UNSURE,
    Label,
    LabelBook,
    dump_label,
    load_label,
    newest_labels,
    places_of,
    relevance_item,
    scale_ends,
    time_of,
)
from germane.types import Context, Json, Sample

_PLACE = ("sample", "system", "id")
_CSV = (*_PLACE, "answer", "scale", "who", "at", "queue", "guideline", "reason", "item", "kind")
_GRADE = re.compile(r"([0-9]{1,9})(?:[.,]0*)?")
_ANSWERS = ("answer", "grade", "relevant")
_WRITE_GRADE = "write grade (0-3), or relevant (yes or no)"
_WRITE_ROW = 'write a row per label: {"sample": "q1", "id": "d7", "grade": 2}'
_YES_NO = {"y": True, "yes": True, "true": True, "n": False, "no": False, "false": False}
_Row: TypeAlias = Mapping[str, Json]


def import_labels(
    path: Path, report: ReportData, who: str | None, guideline: str | None = None, user: str | None = None
) -> tuple[list[Label], list[str]]:
    """Read labels for a report from a file: .jsonl, .json, .csv, or TREC qrels (any other extension).

    A row names its `item`, or its sample and its document (`id`), and contains a `grade`, `relevant` or
    `answer`. A row's queue remains `random` only if its `design` contains a probability; all other rows get
    the queue `import`. A row that names no person becomes a label of `who`. If `who` is None, it becomes a
    label of `user`, or of UNNAMED if two such rows contradict each other.

    Returns the new labels of items in the report, and notes on rows about other items, rows without an
    answer, labels that the report has already, and labels that change nothing. Raises InputError if no row is
    about an item of the report.
    """
    kinds, documents = _labelable(report)
    (answered, unfilled), results, others = _rows_of(path), list[Label](), list[SourceLocation]()
    for location, row in answered:
        answer, scale = _answer(row, location)
        texts = {name: row.get(name) or None for name in ("who", "reason", "at")}
        instructions = row.get("guideline") or guideline
        fields = {**texts, "answer": answer, "scale": scale, "guideline": instructions}
        labels: list[_Row] = []
        if not (item := row.get("item")):
            labels = [dump_label(label) for label in documents.get(_document(row, location), {}).values()]
        elif isinstance(item, str) and item in kinds:
            design = row.get("design")
            drawn = isinstance(design, Mapping) and design.get("probability") and row.get("queue") == "random"
            fields |= {"kind": kinds[item], **({} if drawn else {"queue": "import", "design": None})}
            labels = [row]
        results += [load_label({**label, **fields}, location) for label in labels]
        others += [] if labels else [location]
    if not results:
        problem = f"{path}: no row of {len(others)} names a passage or claim of this report"
        fix = "write a row for an item of the report, or for a sample's id and a document's id"
        fix += "".join(f", as {name!r} and {document!r}" for name, document in islice(documents, 1))
        if unfilled and not others:
            problem, fix = f"{path}: none of its {counted(unfilled, 'row')} has an answer", _WRITE_GRADE
        elif not others:
            problem, fix = f"{path}: this file is empty", _WRITE_ROW
        raise InputError(problem, fix=fix)
    answers = {(label.sample, label.item): label.answer for label in results if not label.who}
    same = all(label.who or answers[label.sample, label.item] == label.answer for label in results)
    person = who or (user if same else None) or UNNAMED
    stored = list(report.labels())
    before = {(label.item, label.who): label for label in newest_labels(stored) if label.who != UNNAMED}
    known = {(label.item, label.who, label.answer, label.scale, time_of(label)): label for label in stored}
    named, repeated, unchanged = list[Label](), 0, 0
    for label in (structs.replace(label, who=label.who or person) for label in results):
        old = before.get((label.item, label.who))
        key = (label.item, label.who, label.answer, label.scale, time_of(label))
        if (twin := known.get(key) if label.at else old) is not None and _adds_nothing(label, twin):
            repeated += 1
            continue
        named.append(label if label.at else structs.replace(label, at=now("milliseconds")))
        if old is not None:
            equal = (label.answer, label.scale) == (old.answer, old.scale)
            unchanged += equal or time_of(named[-1]) < time_of(old)
    uncounted = LabelBook([*stored, *named]).uncounted(label.item for label in named)
    first = f" (the first: {others[0]})" if others else ""
    newer = "the person's stored answer is the same or newer; to replace it leave the field `at` empty"
    notes = (
        (repeated, "label is", "labels are", "already there"),
        (len(others), "row does", "rows do", f"not name a passage or claim of this report{first}"),
        (unfilled, "row has", "rows have", "no answer yet"),
        (uncounted, "label does", "labels do", OLDER_SCALE),
        (unchanged, "label changes", "labels change", f"nothing: {newer}"),
    )
    return named, [f"{counted(n, one, many)} {text}" for n, one, many, text in notes if n]


def _adds_nothing(label: Label, stored: Label) -> bool:
    """Return True if a stored label of the same item and person says all that `label` says."""
    if (label.answer, label.scale) != (stored.answer, stored.scale):
        return False
    if stored.reason == TAKEN_BACK and label.reason != TAKEN_BACK:  # "unsure" is an answer again
        return False
    pairs = ((getattr(label, name), getattr(stored, name)) for name in ("reason", "guideline", "design"))
    return all(new is None or new == old for new, old in pairs)


class LabelFile:
    """People's labels of passages in a file, or in the labels.jsonl of a report folder.

    `on` puts the labels on the contexts of a sample and replaces the contexts' own labels. If a label of the
    sample names a person or is "unsure", or a passage has several labels, all labels of that sample are added
    to `book` instead, each with its person. `is_used` becomes True with the first sample that has labels.
    Raises InputError if the file contains no label of a passage.
    """

    def __init__(self, path: Path) -> None:
        self._labels, self.book, self._is_filled = dict[str, list[Label]](), LabelBook(), False
        self.path, self.is_used = path, False
        labels = []
        for location, row in _rows_of(path)[0]:
            if (row.get("kind") or "relevance") == "relevance":
                answer, scale = _answer(row, location)
                fields = {"kind": "relevance", "answer": answer, "scale": scale}
                fields["item"] = row.get("item") or "\n".join(_document(row, location))
                fields |= {name: row.get(name) or None for name in ("who", "at", "reason")}
                labels.append(load_label(fields, location))
        alone = LabelBook(labels)
        if not len(alone):
            fix = "name a file of relevance labels, or a labelled report"
            raise InputError(f"the file {path} has no label of a passage", fix=fix)
        for label in labels:
            if label.item in alone or alone.unsure(label.item):
                self._labels.setdefault(label.item, []).append(label)
        for item_labels in self._labels.values():
            if len({(label.who, label.answer, label.scale) for label in item_labels}) == 1:
                del item_labels[:-1]  # the same label, repeated
        others = (label.scale for label in alone if label.scale not in {"graded", "binary"})
        self._scale = scale_ends(other) if (other := next(others, None)) else None

    def on(self, sample: Sample) -> tuple[Sample, tuple[Label, ...]]:
        """Return the sample with the file's labels on its contexts, and the labels that were added to `book`."""
        names: dict[str, dict[str, None]] = {}
        for item, context in labelled_contexts(sample):
            names.setdefault(item, {})[f"{sample.id}\n{context.id}"] = None
        labels: dict[str, list[Label]] = {}
        for item, documents in names.items():  # equal passages may have different document ids
            of_documents = (label for name in documents for label in self._labels.get(name, ()))
            place = {"item": item, "sample": sample.id, "system": sample.system}
            if found := [*(self._labels.get(item) or of_documents)]:
                labels[item] = [structs.replace(label, **place) for label in found]
        self.is_used = self.is_used or bool(labels)
        people = any(len(found) > 1 or found[0].who or found[0].answer is None for found in labels.values())
        history = turns(sample)

        def labelled(context: Context) -> Context:
            found = labels.get(relevance_item(sample.query, context.passage, history))
            if found is None:
                return context
            if people:
                return structs.replace(context, grade=None, relevant=None)
            (label,) = found
            if label.scale == "binary":
                return structs.replace(context, grade=None, relevant=bool(label.answer))
            return structs.replace(context, grade=int(label.answer), relevant=None)

        changed = sample.with_contexts(labelled, grade_scale=self._scale or sample.grade_scale)
        rows = [label for found in labels.values() for label in found] if people else []
        rows = [structs.replace(label, who=label.who or UNNAMED) for label in rows]
        if not self._is_filled:
            self.book.add(rows)
        return changed, tuple(rows)

    def fill(self, samples: Iterable[Sample], warn: Warn) -> None:
        """Add all labels of these samples, which are all there are, to `book` at once.

        A passage may be labelled under the ids of several samples, and the labels of all of them count. `warn`
        is called if none of the samples has a label.
        """
        named: list[str] = []
        for sample in samples:
            if len(named) < 4 and sample.id not in named:
                named.append(sample.id)
            self.on(sample)
        self._is_filled = True
        if not self.is_used:
            sample_id, _, document = next(iter(self._labels), "").partition("\n")
            first = (
                f"; the first is for the document {document!r} of the sample {sample_id!r}"
                if document
                else ""
            )
            named[3:] = ["..."] * len(named[3:])
            problem = f"no label is for a passage of these samples ({', '.join(named)}){first}"
            fix = "write the samples' ids and the documents' ids as in the data"
            warn(Notice(problem, fix, SourceLocation(str(self.path))))


def _labelable(report: ReportData) -> tuple[dict[str, str], dict[tuple[str, str], dict[str, Label]]]:
    """Return the kind of each item that can be labelled, and by (sample, document) a blank label per item."""
    kinds = {row.item: row.kind for row in report.places()}
    documents: dict[tuple[str, str], dict[str, Label]] = {}
    for sample in report.samples():
        places = zip(labelled_contexts(sample), places_of(sample), strict=True)
        for (item, context), (call, rank, _) in places:
            kinds.setdefault(item, "relevance")
            if context.id is not None:
                name, system = sample.id, sample.system
                seen = Label(item, "relevance", None, "", sample=name, system=system, call=call, rank=rank)
                documents.setdefault((sample.id, context.id), {}).setdefault(item, seen)
    return kinds, documents


def _document(row: _Row, location: SourceLocation) -> tuple[str, str]:
    """Return the sample id and document id of a row of labels. Raises InputError if one is missing."""
    if (sample := row.get("sample")) is None:  # or any spelling of `id` other than the document's
        others = row.keys() - set(id_keys(tuple(row)))
        sample = next((row[name] for name in row if name in others and SPELLINGS.get(name) == "id"), None)
    document = id_in(row)
    if sample is None or document is None:
        fix = "add the field item, or sample and id (query_id and doc_id)"
        raise InputError("this row does not name the passage that it labels", fix=fix, place=location)
    return str(sample), document


def _answer(row: _Row, location: SourceLocation) -> tuple[Json, str]:
    """Return a row's answer (None for unsure) and its scale. Raises InputError if the answer is unusable."""
    name = next((name for name in _ANSWERS if row.get(name) not in (None, "")), "")
    scale, value = str(row.get("scale") or ""), row.get(name)
    if not name and "item" in row and not {*_ANSWERS}.isdisjoint(row):  # unsure, or taken back
        return None, scale or "graded"
    if isinstance(value, str):
        text = value.strip().casefold()
        grade = _GRADE.fullmatch(text)
        value = int(grade[1]) if grade else _YES_NO.get(text)
    elif isinstance(value, float) and value.is_integer() and abs(value) < 1e9:
        value = int(value)
    if not isinstance(value, int):
        problem = f"this row has no usable answer: {name or 'grade'} is {row.get(name)!r}"
        raise InputError(problem, fix=_WRITE_GRADE, place=location)
    if isinstance(value, bool) or name == "relevant" or scale == "binary":
        return bool(value), "binary"
    return value, scale or "graded"


def _rows_of(path: Path) -> tuple[list[tuple[SourceLocation, _Row]], int]:
    """Return the located rows that have an answer, and the number of rows without one."""
    path = path / LABELS if path.is_dir() else path
    if not path.is_file():
        raise InputError(f"there is no file {path}", fix="name a .jsonl, .csv or qrels file of labels")
    rows: list[tuple[int, _Row]] = []
    if suffix_of(path) in {".jsonl", ".ndjson"}:
        for number, line in read_lines(path):
            if path.name == LABELS and not line.endswith("\n") and torn_bytes(line.encode()):
                note_torn(path, number)
            elif not line.isspace():
                row = json_in(line, path, number)
                if not isinstance(row, dict):
                    place = SourceLocation(str(path), number)
                    raise InputError("this line is not a JSON object", fix=_WRITE_ROW, place=place)
                rows.append((number, row))
    elif suffix_of(path) == ".csv":  # cells with NA or null are empty
        table = table_rows((line for _, line in read_lines(path)), ",", str(path))
        start, header = next(table, (1, []))
        of_ids = (name for name, field in SPELLINGS.items() if field == "id")
        usual = {fold(name): name for name in (*of_ids, *DOCUMENT_IDS, *_ANSWERS, *_CSV)}
        names = [usual.get(fold(name), name.strip()) for name in header]
        if not {"item", *_ANSWERS} & {*names}:
            problem = f"no column of this file holds the grade; its columns are {', '.join(header)}"[:300]
            problem = problem if names else "this file is empty"
            place = SourceLocation(str(path), start)
            raise InputError(problem, fix="begin with a header: sample,id,grade", place=place)
        for number, cells in table:
            if len(cells) > len(names):
                problem = f"this row has {len(cells)} cells, but the header has {len(names)}"
                place = SourceLocation(str(path), number)
                raise InputError(problem, fix="quote cells that contain a comma", place=place)
            values = ("" if is_missing(cell) else cell.strip() for cell in cells)
            rows.append((number, dict(zip_longest(names, values, fillvalue=""))))
    else:
        rows = _rows_of_array(path) or _rows_of_qrels(path)
    answered = []
    for number, row in rows:
        given = [row[name] for name in _ANSWERS if name in row]
        unsure = row.get("item") and (None in given or row.get("reason") == UNSURE)  # which is an answer
        if unsure or not given or any(value is not None and value != "" for value in given):
            answered.append((SourceLocation(str(path), number), row))
    return answered, len(rows) - len(answered)


def _rows_of_array(path: Path) -> list[tuple[int, _Row]]:
    """Return (line number, row) for each label in a JSON array; [] if the file is none, or holds qrels."""
    if suffix_of(path) != ".json" or not read_text(path).lstrip().startswith("["):
        return []
    rows = [(where(()).line or 1, row) for _, row, where in json_rows(path, lambda _: None)]
    return rows if all(isinstance(row, dict) and "sample" in row for _, row in rows) else []


def _rows_of_qrels(path: Path) -> list[tuple[int, _Row]]:
    """Return (line number, row) for each grade in a file of qrels."""
    try:
        gold = RowSource(path, GOLD).gold
    except InputError as fault:
        if (suffix := suffix_of(path)) in {".tsv", ".json"}:
            fault.problem = f"labels in a {suffix} file are read as qrels, and {fault.problem}"
            fault.fix = "write a .csv or .jsonl file with sample, id and grade, or qrels: QUERY 0 ID GRADE"
        raise
    grades = np.maximum(gold.number, 0).astype(int)
    scale = "graded" if (top := int(grades.max(initial=0))) <= 3 else f"0-{top}"
    return [
        (line, {"sample": gold.queries[query], "id": document, "grade": grade, "scale": scale})
        for line, query, document, grade in zip(
            gold.line.tolist(), gold.of.tolist(), gold.doc, grades.tolist(), strict=True
        )
    ]


def export_labels(path: Path, report: ReportData) -> tuple[int, int]:
    """Write people's labels to a .jsonl, .csv or qrels file (.qrels, .txt).

    In qrels each document has one grade, the highest label of its passages. Labels of claims, "unsure", and
    labels of passages without a document id or with an id that contains a blank are left out.

    Returns the number of rows, and of labels that were left out. Raises InputError for another extension.
    """
    if (suffix := path.suffix.lower()) not in {".jsonl", ".csv", ".qrels", ".txt", ".trec", ""}:
        problem = f"{path}: labels cannot be written to a {suffix} file"
        raise InputError(problem, fix="name a file that ends in .jsonl, .csv or .qrels")
    newest = newest_labels(report.labels())
    labels = [label for label in newest if label.answer is not None or label.reason == UNSURE]
    if suffix == ".jsonl":
        write_whole(path, b"".join(encode(dump_label(label)) + b"\n" for label in labels))
        return len(labels), 0
    _, documents = _labelable(report)
    if suffix == ".csv":
        names = {(sample, item): name for (sample, name), items in documents.items() for item in items}
        rows = ({**dump_label(label), "id": names.get((label.sample, label.item))} for label in labels)
        write_whole(path, csv_lines([_CSV, *([row[name] for name in _CSV] for row in rows)]))
        return len(labels), 0
    book, lines, written = LabelBook(labels), list[str](), set[str]()
    for (sample, document), items in documents.items():
        answers = {item: int(label.answer) for item in items if (label := book.get(item))}
        if answers and not any(char.isspace() for char in sample + document):
            lines.append(f"{sample} 0 {document} {max(answers.values())}\n")
            written |= answers.keys()
    write_whole(path, lines)
    return len(lines), sum(label.item not in written for label in labels)
