"""Reads result files of other programs: tables, printed results, and logs and exports of Inspect, promptfoo, DeepEval, MLflow."""

from __future__ import annotations

import re
import struct
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from germane import addons
from germane.clean import shorten
from germane.errors import InputError, SourceLocation
from germane.results.naming import canonical_measure
from germane.results.rows import (
    NAMES,
    Located,
    MeasuredRow,
    ResultFile,
    as_text,
    case_id,
    is_printed,
    measured,
    printed_results,
    table_results,
)
from germane.samples.cells import named_rows
from germane.samples.files import JsonFault, json_in, parse_strict_json, read_lines, shown_name

Object: TypeAlias = Mapping[str, Any]
Results: TypeAlias = tuple[str, Iterable[MeasuredRow]]
"""The name of the program that wrote a file ("" if the format does not tell), and the results in the file."""


def read_results(path: str | Path) -> ResultFile | None:
    """Return the results in another program's file, or None for a JSON object without results (such as germane's own).

    Raises InputError if the file cannot be read, has an unknown format, no results, or two values of a measure for one case.
    """
    name = shown_name(path)
    place = SourceLocation(name)
    try:
        program, found = _results(path, name) or ("", None)
        rows = None if found is None else list(found)
    except (AttributeError, KeyError, TypeError, ValueError) as fault:  # in a log or an export
        problem = f"this log or export has an unknown form: {type(fault).__name__}: {fault}"
        fix = "write a table with the columns id, measure and value"
        raise InputError(problem, fix=fix, place=place) from None
    if rows is None:
        return None
    if not rows:
        fix = "write the columns id, measure and value, or id and a column per measure; write a log with its samples"
        raise InputError("this file has no results of single cases", fix=fix, place=place)
    counts = Counter((row.sample, row.system, row.trial, row.measure) for row in rows)
    (sample, system, trial, measure), times = counts.most_common(1)[0]
    if times > 1:
        case = f"the case {shorten(sample, 60)}{f' of {system}' if system else ''}"
        problem = f"{case} has {times} values of {measure} in trial {trial}"
        fix = "keep one value; add a column trial (0, 1, ...) for repetitions, a column system for several systems"
        raise InputError(problem, fix=fix, place=place)
    return ResultFile(name, program, rows)


def _results(path: str | Path, name: str) -> Results | None:
    """Return the results in a file whose format is detected from its first characters; `name` is its name in messages."""
    if zipfile.is_zipfile(path) and (log := _inspect_log(path, name)):
        return log
    filled = (line for line in read_lines(path) if line[1].strip())
    head = list(islice(filled, 2))
    first = head[0][1].lstrip() if head else ""
    if re.match(r'\{\s*"schema_version"', "".join(text for _, text in head).lstrip()):
        return None
    lines = [*head, *filled]
    if first[:1] in {"{", "["}:
        rows = _json_rows(lines, name)
        return _of_document(rows, name) if isinstance(rows, Mapping) else _of_rows(rows)
    if is_printed(first):
        return printed_results(lines, name)
    delimiter = "\t" if "\t" in first and "," not in first else ","
    table = named_rows((text for _, text in lines), delimiter, name)
    return "", table_results([(SourceLocation(name, lines[(at.line or 1) - 1][0]), row) for at, row in table])


def _json_rows(lines: Sequence[tuple[int, str]], name: str) -> list[Located] | Object:
    """Return the rows of a JSON list or of JSON Lines, each with its location, or the object if the file is one JSON object."""
    number, first = lines[0]
    rows: list[tuple[SourceLocation, Any]] = []
    if len(lines) > 1 and first.lstrip().startswith("{"):
        with suppress(JsonFault):  # the first line of an object that spans several lines
            parse_strict_json(first, infinite=True)
            rows = [(SourceLocation(name, at), json_in(line, name, at, infinite=True)) for at, line in lines]
    if not rows:
        value = json_in("".join(line for _, line in lines), name, number, infinite=True)
        if isinstance(value, list):
            rows = [(SourceLocation(f"{name}, row {at}"), row) for at, row in enumerate(value, 1)]
        elif name.removesuffix(".gz").removesuffix(".zst").endswith((".jsonl", ".ndjson")):
            rows = [(SourceLocation(name, number), value)]
        else:
            document: Object = value
            return document
    if wrong := next((where for where, row in rows if not isinstance(row, Mapping)), None):
        fix = 'write {"id": "q1", "nDCG@10": 0.5}'
        raise InputError("this row of results is not an object", fix=fix, place=wrong)
    return rows


# other programs' documents


def _of_document(document: Object, name: str) -> Results | None:
    """Return the results in a JSON document of another program, or None if the program is not recognised."""
    tests = document.get("testRunData") or document
    if isinstance(document.get("eval"), Mapping) and not {"plan", "samples"}.isdisjoint(document):
        return "Inspect", _inspect(document["eval"], document.get("samples") or ())
    if isinstance(document.get("results"), Mapping) and isinstance(document["results"].get("results"), list):
        return "promptfoo", _promptfoo(document["results"]["results"])
    if (cases := tests.get("test_results", tests.get("testCases"))) is not None:
        return "DeepEval", _deepeval([*cases, *tests.get("conversationalTestCases", ())])
    program, rows = _frame(document)
    located = [(SourceLocation(f"{name}, row {at}"), row) for at, row in enumerate(rows, 1)]
    return (program, table_results(located)) if rows else None


def _frame(document: Object) -> tuple[str, list[Object]]:
    """Return the program and the rows of a table that is one JSON object, as MLflow or pytrec_eval writes it.

    Returns ("", []) for any other object.
    """
    columns, data = document.get("columns"), document.get("data")
    if isinstance(columns, list) and isinstance(data, list):
        return "MLflow", [dict(zip(columns, row, strict=False)) for row in data]
    values = list(document.values())
    tables = bool(values) and all(isinstance(value, Mapping) and value for value in values)
    if tables and all(isinstance(number, int | float) for value in values for number in value.values()):
        return "pytrec_eval", [{"id": query, **value} for query, value in document.items()]
    return "", []


def _of_rows(located: Sequence[Located]) -> Results:
    """Return the results in JSON rows: of promptfoo, DeepEval, a program known to an add-on, or of a table."""
    rows = [row for _, row in located]
    first = rows[0] if rows else {}
    if {"promptIdx", "testIdx", "namedScores"} <= first.keys():
        return "promptfoo", _promptfoo(rows)
    if not {"metrics_data", "metricsData"}.isdisjoint(first):
        return "DeepEval", _deepeval(rows)
    read = addons.reader_of(first, kind="results", known=False)
    return "", read(rows) if read else table_results(located)


# Inspect

_GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""The values of Inspect's grades correct, partial, incorrect and no answer, as in Inspect's own metrics."""
_ZSTANDARD = 93


def _inspect_log(path: str | Path, name: str) -> Results | None:
    """Return the results in an Inspect log (.eval), or None for any other ZIP archive. Raises InputError if it is damaged."""
    try:
        with zipfile.ZipFile(path) as archive:
            members = {member.filename: member for member in archive.infolist()}
            head = members.get("header.json") or members.get("_journal/start.json")
            if head is None:
                return None
            header = _member(archive, head, name)
            files = (member for path, member in members.items() if re.fullmatch(r"samples/.*\.json", path))
            samples = [_member(archive, member, name) for member in files]
            return "Inspect", _inspect(header.get("eval") or {}, samples)
    except (zipfile.BadZipFile, EOFError) as fault:
        problem = f"this Inspect log is damaged: {fault}"
        raise InputError(problem, fix="copy the log again", place=SourceLocation(name)) from None


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str) -> Any:
    """Return the JSON value of a file in an Inspect log (a ZIP archive).

    Zstandard is decompressed here, since `zipfile` can do so only from Python 3.14 on.
    """
    where = f"{name}/{member.filename}"
    if member.compress_type != _ZSTANDARD:
        content = archive.read(member)
    else:
        try:
            import zstandard
        except ImportError:
            fix = "pip install zstandard, or convert the log: inspect log convert --to json"
            problem = "reading this Inspect log needs the package zstandard"
            raise InputError(problem, fix=fix, place=SourceLocation(name)) from None
        file: Any = archive.fp
        file.seek(member.header_offset + 26)
        file.seek(sum(struct.unpack("<HH", file.read(4))), 1)  # the name and the extra field
        try:
            content = zstandard.ZstdDecompressor().decompressobj().decompress(file.read(member.compress_size))
        except zstandard.ZstdError as fault:
            raise zipfile.BadZipFile(f"{member.filename}: {fault}") from None
    return json_in(content.decode(errors="replace"), where, infinite=True)


def _inspect(evaluation: Object, samples: Sequence[Object]) -> Iterator[MeasuredRow]:
    """Yield the results of an Inspect log: a row per sample, epoch, scorer and named value of the scorer."""
    tables = list(map(_values_of, samples))
    own = {key: canonical_measure(key[1] or key[0]) for table in tables for key in table}
    times = Counter(own.values())
    system = str(evaluation.get("model") or "")
    for sample, table in zip(samples, tables, strict=True):
        error, trial = sample.get("error"), max(int(sample.get("epoch") or 1) - 1, 0)
        fault = str(error.get("message") or "error") if isinstance(error, Mapping) else str(error or "")
        for key, name in own.items():
            measure = name if times[name] == 1 else "/".join(filter(None, key))
            value = table.get(key)
            value = _GRADES.get(value, value) if isinstance(value, str) else value
            yield MeasuredRow(str(sample.get("id")), measure, *measured(value, fault), system, trial)


def _values_of(sample: Object) -> dict[tuple[str, str], Any]:
    """Return an Inspect sample's scores by (scorer, name of the value); the name of a single value is ""."""
    result: dict[tuple[str, str], Any] = {}
    for scorer, score in (sample.get("scores") or {"score": sample.get("score")}).items():
        value = score.get("value") if isinstance(score, Mapping) else score
        named = value if isinstance(value, Mapping) else {"": value}
        result |= {(scorer, name): value for name, value in named.items() if score is not None}
    return result


# promptfoo

_GRADER_FAILED = re.compile(r"threw error|execution (error|failed)")
_ERROR = 2
"""The `failureReason` of a promptfoo row that could not be graded because of an error."""


def _promptfoo(results: Sequence[Object]) -> Iterator[MeasuredRow]:
    """Yield the results of promptfoo: one row per test and score.

    A test's scores are the named ones and one per type of unnamed assertion, or else the score of the test.
    The system is the provider, with the prompt's label if there are several. A repeated test is another trial.
    """
    prompts = {(row.get("promptIdx"), _provider(row)) for row in results}
    several = len({at for at, _ in prompts}) > len({provider for _, provider in prompts})
    tables = [_named_scores(row) for row in results]
    graded = any(tables)
    times: Counter[tuple[str, str]] = Counter()
    for row, table in zip(results, tables, strict=True):
        test, failed = row.get("testCase") or {}, row.get("failureReason") == _ERROR
        fault = str(row.get("error") or "error") if failed else ""
        of = {**(row.get("vars") or {}), **(test.get("metadata") or {})}
        sample = case_id(of, NAMES) or case_id(of) or as_text(of)
        system = _provider(row)
        system += f" | {shorten(str((row.get('prompt') or {}).get('label')), 40)}" if several else ""
        times[sample, system] += 1
        asserted = test.get("assert") or () if failed else ()
        names = [str(one.get("metric") or one.get("type")) for one in asserted]
        for name in dict.fromkeys((*table, *names)) if graded else ["score"]:
            value = table.get(name) if graded else row.get("score")
            score, why = measured(value, fault or (value if isinstance(value, str) else ""))
            trial = times[sample, system] - 1
            yield MeasuredRow(sample, canonical_measure(name), score, why, system, trial, higher=True)


def _provider(row: Object) -> str:
    """Return the name of the provider (the model) in a row of promptfoo's results."""
    provider = row.get("provider")
    provider = provider if isinstance(provider, Mapping) else {"id": provider}
    return str(provider.get("label") or provider.get("id") or "")


def _named_scores(row: Object) -> dict[str, Any]:
    """Return the named scores in a row of promptfoo, and the mean score of each type of unnamed assertion.

    If a grader failed, the value is its error message.
    """
    scores: dict[str, Any] = dict(row.get("namedScores") or {})
    others: dict[str, list[float]] = {}
    for part in (row.get("gradingResult") or {}).get("componentResults") or ():
        assertion = part.get("assertion") or {}
        metric, reason = assertion.get("metric"), str(part.get("reason") or "")
        name = str(metric or assertion.get("type") or "assertion")
        threw = not part.get("score") and _GRADER_FAILED.search(reason)
        if threw or (part.get("metadata") or {}).get("graderError"):
            scores[name] = reason or f"the grader of {name} failed without a reason"
        elif not metric:
            others.setdefault(name, []).append(float(part.get("score") or 0))
    return {**{name: sum(of) / len(of) for name, of in others.items()}, **scores}


# DeepEval


def _deepeval(cases: Iterable[Object]) -> Iterator[MeasuredRow]:
    """Yield the results of DeepEval: a row per test case and metric, without a value if the metric failed.

    Whether more is better follows from score, threshold and success.
    """
    times: Counter[tuple[str, str]] = Counter()
    for case in cases:
        name = str(case.get("name") or "")
        metadata = case.get("metadata") or case.get("additionalMetadata") or {}
        automatic = not name or re.fullmatch(r"(conversational_)?test_case_\d+", name)  # by its position
        text = str(case.get("input") or case.get("scenario") or name)
        sample = case_id(metadata, NAMES) or (text if automatic else name)
        times[sample, text] += 1
        for metric in case.get("metrics_data") or case.get("metricsData") or ():
            value, why = measured(metric.get("score"), str(metric.get("error") or ""))
            limit, success, higher = metric.get("threshold"), metric.get("success"), None
            # version 4 reversed the direction of some metrics
            if None not in {value, limit, success} and value != limit:
                higher = (value > limit) == bool(success)
            measure, trial = canonical_measure(str(metric.get("name"))), times[sample, text] - 1
            yield MeasuredRow(sample, measure, value, why, trial=trial, higher=higher)
