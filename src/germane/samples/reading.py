"""Reads samples from JSON Lines, JSON, CSV, TSV and Parquet files and from Python objects."""

from __future__ import annotations

import functools
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import chain, islice
from operator import attrgetter
from pathlib import Path
from typing import Any, TypeAlias

import msgspec

from germane.addons import all_of, reader_of
from germane.clean import shorten, some_of
from germane.encoding import encode_records, replace_surrogates, without_surrogates
from germane.errors import InputError, Invalid, SourceLocation, collect_or_raise
from germane.samples.cells import TableRow, named_rows
from germane.samples.fields import FIELDS, SPELLINGS, read_id
from germane.samples.files import (
    HOLDERS,
    Notice,
    Notices,
    Warn,
    dataset_files,
    decoded,
    is_stream,
    location_in,
    opened,
    parse_json_lines,
    read_lines,
    read_text,
    shown_name,
)
from germane.samples.frames import LIST, parquet_batches, records
from germane.samples.rows import Columns, Row, RowReader
from germane.samples.strictjson import JsonFault, json_in, locate, parse_strict_json
from germane.types import TOO_DEEP, Json, Sample, Step

Faults: TypeAlias = list[InputError] | None
"""The list to which errors in rows are appended; None to raise them."""
SampleSource: TypeAlias = Iterable[Sample | Mapping[str, Json]] | str | Path
"""The path of a file, a list of Samples or mappings, or a DataFrame with a row per sample."""


def read_samples(
    path: str | Path, *, columns: Columns | None = None, warn: Warn | None = None, prefix: str = ""
) -> Iterator[Sample]:
    """Read the samples of a file or folder, one at a time; `-` is JSON Lines on stdin.

    A folder gives the samples of all its files in order of their names, a BEIR data set the queries that have
    gold, and exported spans one sample per trace with a retrieval.

    Args:
        path: The file or folder; the extension tells the format.
        columns: Maps germane's field names to the names in the file (`{"query": "Question"}`).
        warn: Called with a Notice for each field that is probably misspelt.
        prefix: A sample without an id gets this prefix and its line number as its id.

    Raises:
        InputError: The file is missing (raised at once), or a row is invalid (when it is reached).
    """
    path = Path(path)
    if path.is_dir() and not _is_beir(path):
        return _samples_of_folder(path, columns, warn)
    return _read_file(path, RowReader(columns, warn, prefix))


def _read_file(path: Path, rows: RowReader, faults: Faults = None) -> Iterator[Sample]:
    """Return an iterator over the samples of a file or a BEIR folder."""
    if _is_beir(path):
        return _samples(_located(_beir_rows(path)), rows, SourceLocation("samples"), "row", faults)
    reader, unit = _format(path)
    if reader is _read_jsonl:
        found = _read_jsonl(path, rows.warn, faults, typed=not rows.columns)
    else:
        found = reader(path, rows.warn)
    return _samples(_as_samples(found, rows.warn), rows, SourceLocation(shown_name(path)), unit, faults)


def _beir_rows(folder: Path) -> Iterator[Mapping[str, Json]]:
    from germane.samples.runs.source import read_qrels  # other files do not need it

    gold = read_qrels(folder)
    for file in dataset_files(folder, "queries"):
        reader, _ = _format(file)
        for _, row, where in reader(file, Notices()):
            name = None
            if isinstance(row, dict) and "text" in row:
                with suppress(Invalid):
                    name = read_id(row.get("_id", row.get("id")))
            if name is None:
                problem = "this query of a BEIR folder has no _id or no text"
                raise InputError(problem, fix='write {"_id": "q1", "text": "..."}', place=where(()))
            if name in gold:
                yield {"id": name, "query": row["text"], "qrels": dict(gold[name])}


def _is_beir(path: Path) -> bool:
    return (path / "qrels").is_dir() and bool(dataset_files(path, "queries"))


def faults_in(path: Path, columns: Columns | None = None, warn: Warn | None = None) -> list[InputError]:
    """Return the first error of each row in a file or folder of samples, at most MOST_FAULTS per file.

    `warn` is called with a Notice for each suspicious field.
    """
    faults: list[InputError] = []
    try:
        if path.is_dir() and not _is_beir(path):
            return [fault for file in data_files(path) for fault in faults_in(file, columns, warn)]
        deque(_read_file(path, RowReader(columns, warn), faults), maxlen=0)
    except InputError as fault:
        faults.append(fault)
    return faults


def _samples_of_folder(folder: Path, columns: Columns | None, warn: Warn | None) -> Iterator[Sample]:
    notices, seen = Notices(warn), dict[tuple[str, str, int], Path]()
    for file in data_files(folder):
        prefix = f"{file.relative_to(folder).with_suffix('').as_posix()}-"
        for sample in read_samples(file, columns=columns, warn=notices, prefix=prefix):
            first = seen.setdefault(sample.key, file)
            if first != file:
                fix = "give the samples of each file their own ids, or their own system"
                raise InputError(
                    f"sample ids must be unique; {sample.id!r} is in {first} and in {file}", fix=fix
                )
            yield sample


def data_files(folder: Path) -> list[Path]:
    """Return the files of samples in a folder and its subfolders, without hidden files and reports.

    Of a folder that an add-on writes and `germane label` reads, only samples.jsonl contains samples.
    """
    paths, markers = list[Path](), all_of("labellers")
    for file in sorted(folder.rglob("*")):
        inside = file.relative_to(folder)
        hidden = any(name.startswith(".") for name in inside.parts)
        if suffix_of(file) in READERS and file.is_file() and not hidden:
            reports = (folder / above / "manifest.json" for above in inside.parents)
            drafted = any((file.parent / marker).exists() for marker in markers)
            other = drafted and file.name != "samples.jsonl"
            if not (other or any(report.exists() for report in reports)):
                paths.append(file)
    if not paths:
        fix = f"name a file, or add an eval file (.yaml) or samples ({', '.join(READERS)})"
        problem = "this folder has no eval file and no file of samples"
        if (folder / "manifest.json").exists():
            problem = "this folder is a report, not samples"
            fix = f"to compute measures from it, write germane score {folder} -m MEASURES"
        raise InputError(problem, fix=fix, place=SourceLocation(str(folder)))
    return paths


def read_questions(
    source: SampleSource | Iterable[str], warn: Warn | None = None, *, asked: bool = False
) -> Iterator[Sample]:
    """Return an iterator over the samples in a file, a list or a DataFrame.

    `asked` says that a system will be queried for the contexts: a string in the list is then a query. `warn`
    is called with a Notice for each field that is probably misspelt.
    """
    if isinstance(source, str | Path):
        path = Path(source)
        if isinstance(source, str) and ("\n" in source or suffix_of(path) not in READERS):
            fix = f"name a file ({', '.join(READERS)}), or {LIST}"
            raise InputError(f"{shorten(source, 40)!r} is not the path of a file of samples", fix=fix)
        return read_samples(path, warn=warn)
    rows = records(source)
    if asked:
        rows = ({"query": row} if isinstance(row, str) else row for row in rows)
    return samples_from(rows, warn=warn)


def suffix_of(path: Path) -> str:
    """Return a file's extension in lower case, without a final .gz or .zst: `.csv` for `gold.CSV.gz`."""
    return Path(path.name.lower().removesuffix(".gz").removesuffix(".zst")).suffix


def samples_from(
    rows: Iterable[Mapping[str, Json] | Sample], *, columns: Columns | None = None, warn: Warn | None = None
) -> Iterator[Sample]:
    """Return an iterator over the Samples built from `rows`; a Sample stays unchanged.

    Mappings are read like lines of JSON Lines. `columns` and `warn` are as in `read_samples`.
    """
    located = _as_samples(_located(rows), warn)
    return _samples(located, RowReader(columns, warn), SourceLocation("samples"), "row")


def _located(rows: Iterable[Any]) -> Iterator[Row]:
    """Yield a Row (number from 1, value, function for locations) per value, without lone surrogates."""
    for number, row in enumerate(rows, 1):
        made: Json = without_surrogates(row) if isinstance(row, Sample) else row
        if isinstance(row, Mapping):
            made = (TableRow if isinstance(row, TableRow) else dict)(replace_surrogates(dict(row)))
        yield number, made, functools.partial(_at, SourceLocation("samples", number))


def _as_samples(rows: Iterator[Row], warn: Warn | None = None) -> Iterator[Row]:
    """Yield the rows, or the samples that an add-on builds from them if it recognises the first row."""
    first = next(rows, None)
    if first is None:
        return
    known = not isinstance(first[1], Mapping) or any(SPELLINGS.get(key) == "query" for key in first[1])
    read = reader_of(first[1], known=known)
    rows = chain([first], rows)
    yield from rows if read is None else read(rows, warn)


def _format(path: Path) -> tuple[Reader, str]:
    piped = shown_name(path) == shown_name("-")
    suffix = ".jsonl" if piped else suffix_of(path)
    if not piped and not path.exists():
        problem = "no such file" if suffix in READERS else "no such file or folder"
        raise InputError(problem, fix="check the path", place=SourceLocation(str(path)))
    if not piped and is_stream(path):
        problem = "this is a pipe, which can be read only once"
        fix = "write - for JSON Lines on standard input, or save it as a file"
        raise InputError(problem, fix=fix, place=SourceLocation(str(path)))
    if suffix not in READERS:
        with opened(path):
            pass  # the error for a folder or a file packed in another way comes first
        problem = f"samples cannot be read from a file with the extension {suffix!r}"
        fix = f"save the samples as {' or '.join(READERS)}; give a TREC run to germane rank"
        raise InputError(problem, fix=fix, place=SourceLocation(str(path)))
    return READERS[suffix]


def _at(location: SourceLocation, _: Sequence[Step]) -> SourceLocation:
    return location


_TOGETHER = 64
"""The number of lines that are parsed in one call."""


_ROW_PER_RESULT = "if each row is one result, put the results of a query into one row"
MOST_FAULTS = 50
"""The number of errors after which `faults_in` stops reading a file."""


def _samples(
    rows: Iterator[Row], reader: RowReader, file: SourceLocation, unit: str, faults: Faults = None
) -> Iterator[Sample]:
    """Convert rows to samples and yield them.

    Raises InputError if a row is invalid, if two samples have the same id, system and trial, or without rows;
    errors in rows are appended to `faults` if given. `unit` names a row's number in messages.
    """
    # most samples have neither system nor trial: their id is their key
    seen = dict[str | tuple[str, str, int], int]()
    previous: Sample | None = None
    repeated = dict[str, str]()  # queries of consecutive samples that are probably one, by what these have
    try:
        for number, row, where in rows:
            if faults is not None and len(faults) >= MOST_FAULTS:
                return
            try:
                sample = reader.read(row, number, where)
            except InputError as fault:
                collect_or_raise(fault, faults)
                continue
            key = sample.key if sample.system or sample.trial else sample.id
            if key in seen:
                more = f", system {sample.system!r}" if sample.system else ""
                more += f", trial {sample.trial}" if sample.trial else ""
                problem = f"sample ids must be unique; {sample.id!r}{more} also occurs on {unit} {seen[key]}"
                fix = f"give each sample its own id, system or trial; {_ROW_PER_RESULT}, or use germane rank"
                collect_or_raise(InputError(problem, fix=fix, place=where(())), faults)
            seen[key] = number
            if previous and sample.query == previous.query and key is sample.id and not sample.history:
                if len(sample.contexts or ()) == len(previous.contexts or ()) == 1:
                    repeated.setdefault("one context each", sample.query)
                elif (
                    sample.contexts
                    and sample.contexts == previous.contexts
                    and sample.qrels != previous.qrels
                ):
                    repeated.setdefault("the same contexts and other gold", sample.query)
            previous = sample
            yield sample
    except RecursionError:  # only Python objects can contain themselves
        problem, fix = TOO_DEEP
        raise InputError(f"a sample {problem}", fix=fix, place=file) from None
    if not (seen or faults):
        fix = 'write at least one sample: {"query": "...", "contexts": ["..."]}'
        raise InputError("there are no samples", fix=fix, place=file)
    for how, query in repeated.items():
        problem = f"consecutive samples with {how} have the same query ({shorten(query, 40)})"
        fix = "put all gold of a query into one row" if how.endswith("gold") else _ROW_PER_RESULT
        reader.warn(Notice(f"{problem} and count as queries of their own", fix, file))
    reader.warn_at_end(file)


_DOCUMENT = "if the file is one JSON document, name it .json; else write one object per line: jq -c ."


def _read_jsonl(path: Path, _: Warn, faults: Faults = None, *, typed: bool = False) -> Iterator[Row]:
    """Yield the rows of a JSON Lines file; an invalid line is an error, or is appended to `faults` if given.

    With `typed`, lines with the fields of a Sample and nothing else are yielded as Samples.
    """
    number = 0
    with opened(path) as file:
        while lines := list(islice(file, _TOGETHER)):
            # an add-on may know the first row by its keys
            rows = _rows_of_lines(lines, typed=typed and number > 0)
            for at, line in enumerate(lines):
                number += 1
                if rows is not None:
                    row = rows[at]
                elif line.isspace():
                    continue
                else:
                    try:
                        text = decoded(line, shown_name(path), number)
                        fix = _DOCUMENT if number == 1 and text.strip() in {"[", "{"} else ""
                        row = json_in(text.rstrip("\r\n"), path, number, fix=fix)
                    except InputError as fault:
                        collect_or_raise(fault, faults)
                        continue
                yield number, row, functools.partial(_json_location, path, line, number, ())


_ENDS = b"}\n", b"}\r\n", b"}"
"""The possible ends of a line that holds one JSON object."""


_decode_samples = msgspec.json.Decoder(Sample).decode_lines
_ALTERED = [(field.alters, attrgetter(name)) for name, field in FIELDS.items() if field.alters is not None]


def _rows_of_lines(lines: Sequence[bytes], *, typed: bool) -> Sequence[Json] | None:
    """Return the JSON values of lines, or None if a line may be blank, be invalid or have duplicate keys.

    With `typed` they are Samples, several times as fast as by a RowReader, unless that may read any of them
    otherwise.
    """
    text = b"".join(lines)
    with suppress(ValueError, RecursionError):
        samples = _decode_samples(text) if typed else []
        # a key that stands twice, null and an empty text are not in what is written again
        same = len(samples) == len(lines) and encode_records(samples).count(b":") == text.count(b":")
        altered = (any(map(alters, map(values, samples))) for alters, values in _ALTERED)
        if same and b"\\u003" not in text and not any(altered):
            return samples
    unusual = [1 for line in lines if not line.startswith(b"{") or not line.endswith(_ENDS)]
    if unusual and len(lines) > 1:  # an object may continue on the next line
        return None
    with suppress(ValueError):
        rows = parse_json_lines(text)
        return rows if len(rows) == len(lines) else None
    return None


def _json_location(
    path: Path, text: str | bytes, first_line: int, above: tuple[Step, ...], steps: Sequence[Step]
) -> SourceLocation:
    """Return the location of the value at `above` + `steps`, or else at `above`, in `text`.

    `text` is the JSON of a file from the line `first_line` on. For an empty path there is no column.
    """
    text = text.decode() if isinstance(text, bytes) else text
    offset = locate(text, (*above, *steps)) if above or steps else None
    return location_in(path, text, locate(text, above) if offset is None and above else offset, first_line)


def json_rows(path: Path, _: Warn) -> Iterator[Row]:
    """Yield the rows of a JSON document, which is an array or an object with an array under a usual key."""
    text = read_text(path)
    if not text.strip():
        return
    try:
        document = parse_strict_json(text)
    except JsonFault as fault:
        several = fault.problem.endswith("extra data")
        fix = "write one object per line (jq -c .), and name the file .jsonl" if several else ""
        raise fault.error(path, text, fix=fix) from None
    whole, holder = document, tuple[Step, ...]()
    if reader_of(document) is not None:
        document = [document]
    elif isinstance(document, dict):
        holder = tuple(key for key in HOLDERS if isinstance(document.get(key), list))[:1]
        document = document[holder[0]] if holder else None
    if not isinstance(document, list):
        raise _not_an_array(whole, path)
    for index, row in enumerate(document):
        yield index + 1, row, functools.partial(_json_location, path, text, 1, (*holder, index))


def _not_an_array(document: Json, path: Path) -> InputError:
    """Return the InputError for a JSON document that holds no array of samples; it says what the document is."""
    problem = "this JSON document has no array of samples"
    fix = f"write an array of samples, or an object with one under {' or '.join(HOLDERS[:2])}"
    if isinstance(document, dict):
        problem += f"; its keys are {some_of(list(map(repr, document)), 5)}"
        asked = next((document[key] for key in document if SPELLINGS.get(key) == "query"), None)
        if isinstance(asked, str):
            problem, fix = "this JSON document is one sample", "write an array of samples: [{...}]"
        elif isinstance(asked, list | dict):
            problem = "this JSON document holds columns, not samples"
            fix = "write an array of samples; pandas does with to_json(orient='records')"
        elif document and all(isinstance(value, dict) for value in document.values()):
            fix = "write an array of samples; give a run, {query: {document: score}}, to germane rank"
    return InputError(problem, fix=fix, place=SourceLocation(str(path), 1))


def _read_table(delimiter: str, path: Path, warn: Warn) -> Iterator[Row]:
    """Yield the rows of a CSV or TSV file with a header; cells may hold lists and objects as JSON."""
    file = shown_name(path)
    lines = (line for _, line in read_lines(path))
    for place, row in named_rows(
        lines, delimiter, file, lambda text: warn(Notice(text, "", SourceLocation(file)))
    ):
        yield place.line or 0, TableRow(row), functools.partial(_at, place)


def _read_parquet(path: Path, _: Warn) -> Iterator[Row]:
    """Yield the rows of a Parquet file."""
    for number, row in enumerate(chain.from_iterable(map(records, parquet_batches(path))), 1):
        yield number, row, functools.partial(_at, SourceLocation(f"{path}, row {number}"))


Reader: TypeAlias = Callable[..., Iterator[Row]]
READERS: dict[str, tuple[Reader, str]] = {
    ".jsonl": (_read_jsonl, "line"),
    ".ndjson": (_read_jsonl, "line"),
    ".json": (json_rows, "row"),
    ".csv": (functools.partial(_read_table, ","), "line"),
    ".tsv": (functools.partial(_read_table, "\t"), "line"),
    ".parquet": (_read_parquet, "row"),
}
"""Maps each file extension, without .gz or .zst, to the file's reader and the unit of its row numbers."""
