"""Ranked results and gold from files: TREC, tables (TSV, CSV, Parquet) and JSON, found by content; plain or packed.

A TREC run has lines `query Q0 document rank score tag ...`, TREC gold (qrels) lines `query 0 document grade`, as
trec_eval reads them: split at ASCII white space, the rank ignored, lines that begin with # skipped, whatever
follows the tag of a run ignored. A table has a header, or a known number of columns; JSON is one sample, one
result or one grade per line, or one document: a list of these, or {query: {document: score}}. A folder is a data set
as BEIR has it, its gold `qrels/test.tsv`.

Each format is a generator of the rows of a file under the roles of their columns. A row that cannot be read does not end the
reading: `BadRows` takes its fault. Columns that are not needed may hold anything, bytes that are no UTF-8 included.
"""

from __future__ import annotations

import json
import re
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, Literal, NamedTuple, TypeAlias

from germane.errors import InputError, Place
from germane.samples.files import (
    BadRows,
    JsonFault,
    decode,
    decoded,
    fold,
    numbered_lines,
    on_disk,
    opened,
    place_in,
    shown_name,
    structure,
    table_rows,
    whole_text,
)
from germane.samples.frames import parquet_batches

Format: TypeAlias = Literal["trec", "tsv", "csv", "jsonl", "json", "parquet"]
Qrels: TypeAlias = Mapping[str, Mapping[str, int]]
"""Gold: query id -> document id -> grade."""


class FileRow(NamedTuple):
    """One result with its score, or one gold grade, as it stands in a file.

    `doc` None = the query is there, and nothing came back or is known; `value` None = a result without a score.
    """

    line: int
    query: str
    doc: str | None
    value: float | None


@dataclass(slots=True)
class Results:
    """The results of one query, in the order of the file; `scores` is empty for a list without scores."""

    ids: list[str] = field(default_factory=list)
    scores: array[float] = field(default_factory=lambda: array("d"))
    lines: array[int] = field(default_factory=lambda: array("q"))


@dataclass(slots=True)
class Run:
    """The ranked results of one system: query id -> results. `name` is the file, `notes` are remarks about it."""

    name: str
    queries: dict[str, Results] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Kind:
    """What tells runs and gold apart: the roles of their columns, of tables without a header, and examples."""

    roles: tuple[str, ...]
    listed: str
    bare: Mapping[int, tuple[str, ...]]
    trec: str
    json: str


_RUN = _Kind(
    roles=("query", "doc", "docs", "score", "rank"),
    listed="docs",
    bare={
        2: ("query", "doc"),
        3: ("query", "doc", "score"),
        4: ("query", "doc", "rank", "score"),
        5: ("query", "", "doc", "rank", "score"),
        6: ("query", "", "doc", "rank", "score", ""),
    },
    trec="write: query Q0 document rank score tag",
    json='write {"id": "q1", "contexts": [{"id": "d7"}]} or {"query_id": "q1", "doc_id": "d7", "score": 1.5}',
)
_GOLD = _Kind(
    roles=("query", "doc", "gold", "grade"),
    listed="gold",
    bare={2: ("query", "doc"), 3: ("query", "doc", "grade"), 4: ("query", "", "doc", "grade")},
    trec="write: query 0 document grade",
    json='write {"id": "q1", "qrels": {"d7": 2}} or {"query_id": "q1", "doc_id": "d7", "relevance": 2}',
)
ROLES: dict[str, tuple[str, ...]] = {
    "query": ("qid", "query_id", "topic_id", "id", "topic", "query", "question", "user_input"),
    "doc": ("doc_id", "document_id", "docno", "pid", "passage_id", "corpus_id", "did", "doc", "document"),
    "docs": ("doc_ids", "document_ids", "retrieved_context_ids", "retrieved_ids", "contexts", "results"),
    "score": ("score", "sim", "similarity", "scores"),
    "rank": ("rank", "position"),
    "grade": ("grade", "relevance", "rel", "label", "judgment", "judgement", "score", "grades", "relevances"),
    "gold": ("qrels", "gold_ids", "reference_context_ids", "document_ids", "doc_ids"),
}
"""The roles of a column, each with its names in order of preference (compared without case, underscores, dashes)."""
_NAME_THEM = "give the table a header, e.g. query_id, doc_id, {0}, or say --columns query=...,doc=...,{0}=..."
_WHOLE = re.compile(rb"[+-]?\d+")


def read_run(
    path: str | Path,
    *,
    fmt: Format | None = None,
    columns: Mapping[str, str] | None = None,
    bad: BadRows | None = None,
) -> Run:
    """The ranked results in a file. `columns` maps query, doc, score, ... to the header's own names (tables).

    Rows that cannot be read are one InputError at the end, or left out and said in the notes, as `bad` has it.
    """
    bad = bad or BadRows()
    with on_disk(path) as file, opened(file) as stream:
        name, kind = shown_name(file), fmt or _detect(stream, file, _RUN)
        bare = kind in {"tsv", "csv"} and not columns and _is_bare_triple(_head(stream))
        if kind == "trec":
            run = _trec_run(stream, name, bad)
        else:
            records = _records(kind, file, stream, name, _RUN, columns, bad)
            run = _collect_run(name, _file_rows(records, _RUN, bad), bad)
    return _ranks_not_scores(run) if bare else run


def format_of(path: str | Path, fmt: Format | None = None, *, gold: bool = False) -> Format:
    """The format that a run, or gold, would be read as."""
    if fmt is not None:
        return fmt
    with opened(path) as stream:
        return _detect(stream, path, _GOLD if gold else _RUN)


def read_qrels(
    path: str | Path,
    *,
    fmt: Format | None = None,
    columns: Mapping[str, str] | None = None,
    keep_first: bool = False,
    bad: BadRows | None = None,
) -> dict[str, dict[str, int]]:
    """The gold grades in a file: query id -> document id -> grade. `keep_first` settles grades that disagree.

    Rows that cannot be read are one InputError at the end, or left out, as `bad` has it.
    """
    bad = bad or BadRows()
    with on_disk(_in_folder(path)) as file:
        name = shown_name(file)
        with opened(file) as stream:
            kind = fmt or _detect(stream, file, _GOLD)
            if kind == "trec":
                qrels = _trec_qrels(stream, name, bad, keep_first=keep_first)
            else:
                records = _records(kind, file, stream, name, _GOLD, columns, bad)
                qrels = _collect_qrels(name, _file_rows(records, _GOLD, bad), bad, keep_first=keep_first)
    if not qrels:
        raise InputError("there is no gold in this file", fix=_GOLD.trec, place=Place(name))
    return qrels


def _in_folder(path: str | Path) -> str | Path:
    """The gold of a folder as BEIR has it: qrels/test.tsv, or the only file in qrels; a file is itself."""
    if not Path(path).is_dir():
        return path
    files = sorted((Path(path) / "qrels").glob("*.tsv"))
    test = [file for file in files if file.name == "test.tsv"] or files
    if len(test) != 1:
        names = ", ".join(str(file) for file in files) or str(Path(path) / "qrels" / "test.tsv")
        raise InputError(
            "this folder has no qrels/test.tsv", fix=f"name a file: {names}", place=Place(str(path))
        )
    return test[0]


def run_of_frame(frame: Any, name: str = "run", columns: Mapping[str, str] | None = None) -> Run:
    """A run from a DataFrame of pandas or polars: a row per result, or one per query with lists of ids (and scores)."""
    bad = BadRows()
    rows = _file_rows(_frame_records(frame, name, _RUN, columns or {}), _RUN, bad)
    return _collect_run(name, rows, bad)


def qrels_of_frame(
    frame: Any, name: str = "qrels", columns: Mapping[str, str] | None = None, *, keep_first: bool = False
) -> dict[str, dict[str, int]]:
    """Gold from a DataFrame of pandas or polars: a row per grade, or one per query with a list of relevant ids."""
    bad = BadRows()
    rows = _file_rows(_frame_records(frame, name, _GOLD, columns or {}), _GOLD, bad)
    qrels = _collect_qrels(name, rows, bad, keep_first=keep_first)
    if not qrels:
        raise InputError("there is no gold in this table", place=Place(name))
    return qrels


def _frame_records(
    frame: Any, name: str, kind: _Kind, columns: Mapping[str, str], before: int = 0
) -> _Records:
    """The rows of a DataFrame under the roles of their columns; a place's line is the number of the row."""
    found = frame_roles([str(column) for column in _column_names(frame)], name, columns, kind)
    values = zip(*(_column_of(frame, column) for column in found.values()), strict=True)
    for number, row in enumerate(values, before + 1):
        yield Place(name, number), dict(zip(found, row, strict=True))


def _column_names(frame: Any) -> Sequence[Any]:
    return getattr(frame, "column_names", None) or frame.columns  # type: ignore[no-any-return]


def _column_of(frame: Any, column: str) -> list[Any]:
    values = frame[column]
    return values.to_pylist() if hasattr(values, "to_pylist") else values.to_list()  # type: ignore[no-any-return]


def frame_roles(
    names: Sequence[str], name: str, columns: Mapping[str, str] | None, kind: _Kind = _RUN
) -> dict[str, str]:
    """Which column plays which role; InputError where none holds the query, or none the documents."""
    found = _roles(names, kind.roles, columns)
    if "query" not in found or not {"doc", kind.listed} & set(found):
        fix = "name them query_id and doc_id, or say columns={'query': ..., 'doc': ...}"
        raise InputError(
            f"no columns hold query and document: {', '.join(names)[:200]}", fix=fix, place=Place(name)
        )
    return found


def _paired(docs: list[Any], scores: list[Any], place: Place) -> dict[str, Any]:
    """Ids with their scores."""
    paired = {str(doc): score for doc, score in zip(docs, scores, strict=False)}
    if not len(docs) == len(scores) == len(paired):
        problem = f"{len(docs)} ids, {len(paired)} of them different, have {len(scores)} scores"
        raise InputError(problem, fix="give each id once, with one score", place=place)
    return paired


def as_run(results: Mapping[str, Mapping[str, float] | Sequence[str]], name: str = "run") -> Run:
    """A run from a mapping: query id -> {document id: score}, or a list of document ids, best first."""

    def rows() -> Iterator[FileRow]:
        for query, listed in results.items():
            yield FileRow(0, query, None, None)
            scored = listed.items() if isinstance(listed, Mapping) else ((doc, None) for doc in listed)
            for doc, score in scored:
                yield FileRow(0, query, doc, None if score is None else float(score))

    return _collect_run(name, rows(), BadRows())


def _collect_run(name: str, rows: Iterable[FileRow], bad: BadRows) -> Run:
    """A run from its results; a NaN score, and a list with scores on some of its places only, are bad rows."""
    queries: dict[str, Results] = {}
    last, results = None, Results()
    for line, query, doc, score in rows:
        if query != last:
            last, results = query, queries.setdefault(query, Results())
        if doc is None:
            continue
        if (score is None) == bool(results.scores) and results.ids:
            problem = f"query {query} has results with and without scores"
            bad.add(InputError(problem, fix="give each of them a score, or none", place=Place(name, line)))
            continue
        if score is not None:
            if score != score:  # noqa: PLR0124 - the test for NaN
                bad.add(_nan(query, doc, Place(name, line)))
                continue
            results.scores.append(score)
        results.ids.append(doc)
        results.lines.append(line)
    bad.check()
    return Run(name, queries, bad.notes())


def _collect_qrels(
    name: str, rows: Iterable[FileRow], bad: BadRows, *, keep_first: bool
) -> dict[str, dict[str, int]]:
    """Gold from its grades; two different grades of one document are a bad row unless the first is to be kept."""
    qrels: dict[str, dict[str, int]] = {}
    for line, query, doc, value in rows:
        known, grade = qrels.setdefault(query, {}), int(value or 0)
        if doc is not None and known.setdefault(doc, grade) != grade and not keep_first:
            bad.add(_disagree(query, doc, grade, known[doc], Place(name, line)))
    bad.check()
    return qrels


def _nan(query: str, doc: str, place: Place) -> InputError:
    problem = f"the score of document {doc} in query {query} is NaN, which has no place in an order"
    return InputError(problem, fix="write a number (inf and -inf are allowed) or drop the line", place=place)


def _disagree(query: str, doc: str, grade: int, above: int, place: Place) -> InputError:
    problem = f"document {doc} of query {query} has grade {grade} here and {above} above"
    return InputError(problem, fix="keep one of them, or give --duplicates first", place=place)


def _ranks_not_scores(run: Run) -> Run:
    """A bare third column that counts 1, 2, 3, ... in every query is the rank (MS MARCO's format), not a score."""
    lists = [results for results in run.queries.values() if results.ids]
    if not any(len(results.ids) > 1 for results in lists):
        return run
    if any(results.scores.tolist() != list(range(1, len(results.ids) + 1)) for results in lists):
        return run
    for results in lists:
        del results.scores[:]
    return replace(
        run,
        notes=(
            *run.notes,
            f"{run.name}: the third column counts 1, 2, 3, ... and was read as the rank",
        ),
    )


def _trec_run(stream: BinaryIO, name: str, bad: BadRows) -> Run:
    """A run in TREC's columns, in one loop without an object per line."""
    queries: dict[str, Results] = {}
    raw, results = b"", Results()
    for number, line in enumerate(stream, 1):
        cells = line.split(None, 5)
        try:
            score, doc = float(cells[4]), cells[2].decode()
            if score != score:  # noqa: PLR0124 - the test for NaN
                raise ValueError  # noqa: TRY301 - all faults are named in one place
            if cells[0] != raw:
                if cells[0][:1] == b"#":
                    continue
                results = queries.setdefault(cells[0].decode(), Results())
                raw = cells[0]
        except (IndexError, ValueError):
            if cells and cells[0][:1] != b"#":
                bad.add(_trec_fault(line, cells, Place(name, number)))
            continue
        results.ids.append(doc)
        results.scores.append(score)
        results.lines.append(number)
    bad.check()
    return Run(name, queries, bad.notes())


def _trec_fault(line: bytes, cells: Sequence[bytes], place: Place) -> InputError:
    """Why a line is none of a TREC run."""
    try:
        decoded(line, place.file, place.line)
    except InputError as fault:
        return fault
    if len(cells) < 5:
        problem = f"a run has 6 columns, this line {len(cells)}"
    elif _is_number(cells[4]):
        return _nan(cells[0].decode(), cells[2].decode(), place)
    else:
        problem = f"the score {cells[4].decode()[:60]!r} is not a number"
    return InputError(problem, fix=_RUN.trec, place=place)


def _trec_qrels(stream: BinaryIO, name: str, bad: BadRows, *, keep_first: bool) -> dict[str, dict[str, int]]:
    """Gold in TREC's columns, in one loop without an object per line."""
    qrels: dict[str, dict[str, int]] = {}
    raw, known = b"", dict[str, int]()
    whole = _WHOLE.fullmatch
    for number, line in enumerate(stream, 1):
        cells = line.split()
        try:
            query, _, given, graded = cells
            if not (graded.isdigit() or whole(graded)):
                raise ValueError  # noqa: TRY301 - all faults are named in one place
            doc, grade = given.decode(), int(graded)
            if query != raw:
                if query[:1] == b"#":
                    continue
                known = qrels.setdefault(query.decode(), {})
                raw = query
        except ValueError:
            if cells and cells[0][:1] != b"#":
                bad.add(_trec_gold_fault(line, cells, Place(name, number)))
            continue
        if known.setdefault(doc, grade) != grade and not keep_first:
            bad.add(_disagree(raw.decode(), doc, grade, known[doc], Place(name, number)))
    bad.check()
    return qrels


def _trec_gold_fault(line: bytes, cells: Sequence[bytes], place: Place) -> InputError:
    """Why a line is none of TREC's gold."""
    try:
        decoded(line, place.file, place.line)
    except InputError as fault:
        return fault
    if len(cells) != 4:
        problem = f"gold has 4 columns, this line {len(cells)}"
    else:
        problem = f"the grade {cells[3].decode()[:60]!r} is not a whole number"
    return InputError(problem, fix=_GOLD.trec, place=place)


_Records: TypeAlias = Iterator[tuple[Place, dict[str, Any]]]
"""Rows of a table or of JSON as role -> value, each with its place."""


def _file_rows(records: _Records, kind: _Kind, bad: BadRows) -> Iterator[FileRow]:
    """The rows of all records that can be read."""
    for place, record in records:
        try:
            found = list(_rows(record, kind, place))
        except InputError as fault:
            bad.add(fault)
        else:
            yield from found


def _rows(record: Mapping[str, Any], kind: _Kind, place: Place) -> Iterator[FileRow]:
    """The rows of one record: a single one, a list of ids, or a mapping of ids to scores or grades.

    In a list of gold ids each has grade 1.
    """
    query, line, gold = _query(record["query"], place), place.line, kind is _GOLD
    if "doc" in record:
        value = _grade(record.get("grade", 1), place) if gold else _score(record, place)
        yield FileRow(line, query, _document(record["doc"], place), value)
    elif (listed := record.get(kind.listed)) is not None:
        if isinstance(listed, list) and isinstance(values := record.get(kind.roles[-1 if gold else 3]), list):
            listed = _paired(listed, values, place)
        yield FileRow(line, query, None, None)
        if isinstance(listed, Mapping):
            for doc, given in listed.items():
                yield FileRow(
                    line, query, doc, _grade(given, place) if gold else _number(given, "score", place)
                )
        else:
            value = 1 if gold else None
            yield from (FileRow(line, query, doc, value) for doc in _listed(query, listed, kind, place))


def _query(value: Any, place: Place) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise InputError("this row has no query id", fix="fill it in or drop the row", place=place)
    return str(value)


def _score(record: Mapping[str, Any], place: Place) -> float | None:
    """The score of a single result, else its rank as one."""
    if record.get("score") is not None:
        return _number(record["score"], "score", place)
    return -_number(record["rank"], "rank", place) if "rank" in record else None


def _document(value: Any, place: Place) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int):
        raise InputError(f"{json.dumps(value)[:60]} is no document id", fix=_RUN.json, place=place)
    return str(value)


def _listed(query: str, value: Any, kind: _Kind, place: Place) -> list[str]:
    """The ids in a list of ids or of objects with an id, its text as JSON or Python, or one id."""
    original = value
    if isinstance(value, str):
        found = structure(value) if value.lstrip().startswith("[") else None
        value = value.strip() if found is None else found
    if isinstance(value, str | int) and not isinstance(value, bool):
        return [str(value)] if value != "" else []
    ids = [_id(item) for item in value] if isinstance(value, list | tuple) else [None]
    if None not in ids:
        return [one for one in ids if one is not None]
    if isinstance(original, str):
        raise InputError(f"{original[:60]!r} is no list of ids", fix='write ["d1", "d2"]', place=place)
    problem = f"query {query} has contexts without an id"
    if kind is _GOLD:
        problem = f"the gold of query {query} is neither a list of ids nor grades"
    raise InputError(problem, fix=kind.json, place=place)


def _id(item: Any) -> str | None:
    if isinstance(item, Mapping):
        item = next((item[key] for key in item if fold(key) in {"id", "docid", "documentid"}), None)
    return str(item) if isinstance(item, str | int) and not isinstance(item, bool) else None


class _Cell(str):
    """A cell of a table: a number may be written in it, which a text in JSON is not."""

    __slots__ = ()


def _number(value: Any, what: str, place: Place) -> float:
    try:
        if isinstance(value, _Cell) or (isinstance(value, int | float) and not isinstance(value, bool)):
            return float(value)
    except ValueError:
        pass
    shown = repr(str(value)) if isinstance(value, str) else json.dumps(value)
    fix = _NAME_THEM.format(what) if isinstance(value, _Cell) else f"write {what} as a number"
    raise InputError(f"the {what} {shown[:60]} is not a number", fix=fix, place=place)


def _grade(value: Any, place: Place) -> int:
    number = float(value) if isinstance(value, bool) else _number(value, "grade", place)
    if not number.is_integer():
        problem = f"the grade {str(value)!r} is not a whole number"
        raise InputError(problem, fix="write e.g. 0, 1 or 2", place=place)
    return int(number)


def _roles(
    names: Sequence[str], wanted: Sequence[str], columns: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Which of these names plays each wanted role; `columns` (role or its name -> name here) comes first."""
    folded = {fold(name): name for name in reversed(names)}
    chosen = {role(key, wanted): name for key, name in (columns or {}).items()}
    found = {}
    for part in wanted:
        by_flag = [chosen[part]] if part in chosen else []
        candidates = [*by_flag, *(folded[fold(name)] for name in ROLES[part] if fold(name) in folded)]
        if hit := next((name for name in candidates if name in names), None):
            found[part] = hit
    return found


def role(key: str, wanted: Sequence[str] = ()) -> str:
    """The role that a key of `--columns` means: its own name or one of the names that it goes by."""
    for part in (*wanted, *ROLES):
        if fold(key) == fold(part) or fold(key) in {fold(name) for name in ROLES[part]}:
            return part
    fix = "write query=, doc=, docs=, score=, rank= or grade="
    raise InputError(f"--columns does not know {key!r}", fix=fix)


def _json_records(stream: BinaryIO, name: str, kind: _Kind, bad: BadRows, *, whole: bool) -> _Records:
    """JSON objects under the roles of their keys; {query: ...} without a query id is a record per query."""
    for place, value in _json_values(stream, name, kind, bad, whole=whole):
        try:
            yield from [(place, record) for record in _json_found(value, kind, place)]
        except InputError as fault:
            bad.add(fault)


def _json_found(value: Any, kind: _Kind, place: Place) -> Iterator[dict[str, Any]]:
    if not isinstance(value, dict):
        raise InputError(f"{json.dumps(value)[:60]} is no JSON object", fix=kind.json, place=place)
    key = _roles(list(value), kind.roles)
    if "query" in key and isinstance(value[key["query"]], str | int):
        found = {part: value[name] for part, name in key.items()}
        if kind is _RUN and "doc" not in found:
            _check_lists(key.get("docs", ""), value, place)
        yield found
        return
    if kind is _RUN and not all(isinstance(listed, Mapping | list) for listed in value.values()):
        raise InputError("there is no query id here", fix=kind.json, place=place)
    for query, listed in value.items():
        yield {"query": query, kind.listed: listed}


def _check_lists(docs: str, record: Mapping[str, Any], place: Place) -> None:
    """A bare string among `doc_ids` is an id; among a sample's `contexts` it is a text."""
    if record.get("calls"):
        fix = "use germane run, which ranks per call"
        raise InputError("this sample has several calls", fix=fix, place=place)
    listed = record.get(docs)
    if docs == "contexts" and isinstance(listed, list) and any(isinstance(item, str) for item in listed):
        problem = "these contexts are texts without ids, and gold is about ids"
        raise InputError(problem, fix=_RUN.json, place=place)


def _json_values(
    stream: BinaryIO, name: str, kind: _Kind, bad: BadRows, *, whole: bool
) -> Iterator[tuple[Place, Any]]:
    if whole:
        document = _parse(whole_text(stream, name), name, 1, kind)
        yield from (
            (Place(name), value) for value in (document if isinstance(document, list) else [document])
        )
        return
    for number, line in numbered_lines(stream):
        try:
            value = _parse(line, name, number, kind)
        except InputError as fault:
            bad.add(fault)
        else:
            yield Place(name, number), value


def _parse(text: bytes, name: str, line: int, kind: _Kind) -> Any:
    """The JSON value of a text; infinite scores are allowed, other than in samples."""
    written = decoded(text, name, line)
    try:
        return decode(written, infinite=True)
    except JsonFault as fault:
        place = place_in(name, written, fault.offset, line)
        raise InputError(fault.problem, fix=fault.fix or kind.json, place=place) from None


def _table_records(
    delimiter: str, stream: BinaryIO, name: str, kind: _Kind, columns: Mapping[str, str], bad: BadRows
) -> _Records:
    """The rows of a table under the roles of its header, or of its number of columns."""
    lines = _texts(stream, name, bad)
    rows = (
        (line, [cell.strip() for cell in cells]) for line, cells in table_rows(lines, delimiter, name, bad)
    )
    first = next(rows, None)
    if first is None:
        return
    place, head = Place(name, first[0]), first[1]
    header = _roles(head, kind.roles, columns)
    named = "query" in header and len(header) > 1
    if columns and not named:
        problem = f"the header has no such columns: {', '.join(head)[:200]}"
        raise InputError(problem, fix="--columns query=...,doc=...", place=place)
    positions = {part: head.index(column) for part, column in header.items()}
    if not named:
        if len(head) not in kind.bare:
            few, many = min(kind.bare), max(kind.bare)
            problem = f"a table without a header has {few} to {many} columns, this line {len(head)}"
            raise InputError(problem, fix=_NAME_THEM.format("score"), place=place)
        positions = {part: position for position, part in enumerate(kind.bare[len(head)]) if part}
    if "doc" not in positions and kind.listed not in positions:
        fix = _NAME_THEM.format(kind.roles[-1])
        raise InputError("no column holds the document", fix=fix, place=place)
    width = max(positions.values()) + 1
    for line, cells in rows if named else chain([first], rows):
        place = Place(name, line)
        if len(cells) < width:
            problem = f"this row has {len(cells)} columns, the first one {len(head)}"
            bad.add(InputError(problem, fix="give every row all columns", place=place))
            continue
        yield place, {part: _Cell(cells[position]) for part, position in positions.items()}


def _texts(stream: BinaryIO, name: str, bad: BadRows) -> Iterator[str]:
    """The lines of a file; one that is no UTF-8 is a bad row, and empty."""
    for number, line in enumerate(stream, 1):
        try:
            text = decoded(line, name, number)
        except InputError as fault:
            bad.add(fault)
            text = "\n"
        yield text


def _records(
    fmt: Format,
    path: str | Path,
    stream: BinaryIO,
    name: str,
    kind: _Kind,
    columns: Mapping[str, str] | None,
    bad: BadRows,
) -> _Records:
    """The rows of a file that is not in TREC's columns."""
    if fmt == "parquet":
        return _parquet_records(path, name, kind, columns or {})
    if fmt in {"jsonl", "json"}:
        return _json_records(stream, name, kind, bad, whole=fmt == "json")
    return _table_records("\t" if fmt == "tsv" else ",", stream, name, kind, columns or {}, bad)


def _parquet_records(path: str | Path, name: str, kind: _Kind, columns: Mapping[str, str]) -> _Records:
    before = 0
    for frame in parquet_batches(path, lambda names: frame_roles(names, name, columns, kind).values()):
        yield from _frame_records(frame, name, kind, columns, before)
        before += len(frame)


def _detect(stream: BinaryIO, path: str | Path, kind: _Kind) -> Format:
    """The format of a file: Parquet by its first bytes, JSON by its first character, TREC by its columns, else a table."""
    lines = _head(stream)
    first = lines[0].strip() if lines else b""
    suffix = Path(str(path).removesuffix(".gz").removesuffix(".zst")).suffix.lower()
    if suffix == ".parquet" or first[:4] == b"PAR1":
        return "parquet"
    if first[:1] in {b"{", b"["}:
        return "json" if _one_document(lines, suffix) else "jsonl"
    if suffix == ".csv":
        return "csv"
    if _looks_trec(first.split(), kind):
        return "trec"
    if b"\t" in first or suffix == ".tsv":
        return "tsv"
    return "csv" if first.count(b",") and len(first.split()) < 4 else "trec"


def _head(stream: BinaryIO) -> list[bytes]:
    """The first lines that are not blank or comments, still to be read; the last one may be cut off."""
    head: bytes = stream.peek(1 << 16)[: 1 << 16]  # type: ignore[attr-defined]
    return [line for line in head.splitlines() if line.strip() and line[:1] != b"#"]


def _one_document(lines: list[bytes], suffix: str) -> bool:
    """Whether JSON goes on after its first line: then it is one document, not one object per line."""
    if lines[0].lstrip()[:1] == b"[":
        return True
    if len(lines) == 1:
        return suffix == ".json"
    try:
        json.loads(lines[0])
    except ValueError:
        return True
    return False


def _looks_trec(cells: list[bytes], kind: _Kind) -> bool:
    if kind is _GOLD:
        return len(cells) == 4 and bool(_WHOLE.fullmatch(cells[3]))
    return len(cells) >= 5 and _is_number(cells[4])


def _is_bare_triple(lines: Sequence[bytes]) -> bool:
    """Whether a table begins with three columns, the third a number, and so has no header."""
    cells = re.split(rb"[\t,]", lines[0]) if lines else []
    return len(cells) == 3 and _is_number(cells[2])


def _is_number(text: bytes) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
