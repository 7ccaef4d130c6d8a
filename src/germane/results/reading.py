"""Reads result files of other programs: tables, printed results, and logs or exports known to add-ons."""

from __future__ import annotations

import ast
import json
import math
import re
import zipfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from germane import addons
from germane.clean import counted, fold, shorten
from germane.errors import InputError, SourceLocation
from germane.results.naming import canonical_measure, is_known, is_measure
from germane.samples.cells import is_missing, named_rows
from germane.samples.fields import SPELLINGS
from germane.samples.files import HOLDERS, read_lines, shown_name
from germane.samples.strictjson import JsonFault, json_in, parse_strict_json

NAMES = (
    "id", "queryid", "qid", "sampleid", "sample", "caseid", "case", "testid", "questionid", "exampleid", "clientrequestid",
    "topicid", "topic",
)  # fmt: skip
TEXTS = ("query", "question", "userinput")
IDS = (*NAMES, *TEXTS, "inputs", "input", "prompt", "request")
"""Folded names of columns with the case's id or its text; the first column that is not empty is used."""
ROLES = {
    "measure": ("measure", "metric", "measurename", "metricname"),
    "value": ("value", "score", "metricvalue"),
    "trial": ("trial", "epoch", "repeat", "repeatindex", "iteration"),
    "system": ("system",),
    "cluster": ("cluster",),
    "error": ("error", "errormessage", "exception"),
    "status": ("status", "executionstatus"),
}
"""Maps each role of a column to the names (folded) that columns with this role may have."""
FAILED = ("error", "errored", "executionerror", "exception", "timeout", "timedout", "crashed", "cancelled")
NESTED = ("scores", "metrics", "measures")
OTHERS = (
    "", "unnamed:0", "index", "seed", "line", "timestamp", "time", "created", "createdat", "response", "answer", "output", "outputs",
    "prediction", "expected", "reference", "label", "gold", "groundtruth", "target", "run", "runid", "variant", "model",
    "isaggregated", "retrieveddocscount", "golddocscount", "correctdocscount",
)  # fmt: skip
"""The names (folded) of columns whose numbers are not values of a measure."""
AVERAGES = ("all", "amean", "average", "avg", "mean", "overall")
"""The names (folded) of rows that hold means over the cases, and are no cases."""
_LARGEST, _MOST_TRIALS, _MOST_MEASURES = 1e100, 1 << 20, 200
"""The largest value whose squares can be summed without overflow; the limits of trial numbers and of measures."""


class MeasuredRow(NamedTuple):
    """The value of one measure for one case.

    If there is no value, `value` is None and `why` is the reason. `higher` is True if more is better, and
    None if the file does not say. `query` is the case's text, if the file has it beside the id.
    """

    sample: str
    measure: str
    value: float | None
    why: str = ""
    system: str = ""
    trial: int = 0
    cluster: str = ""
    higher: bool | None = None
    query: str = ""


def number_in(value: Any) -> float | None:
    """Return a value or cell as a float, such as 0.25 for 25%; NaN if too large, None if not a number."""
    if isinstance(value, bool):
        return float(value)
    if isinstance(value, int | float):
        return float(value) if abs(value) <= _LARGEST else math.nan
    text = str(value).strip()
    if (word := text.casefold()) in {"true", "yes", "pass", "false", "no", "fail"}:
        return float(word in {"true", "yes", "pass"})
    share = text.endswith("%")
    try:
        return number_in(float(text.removesuffix("%")) / (100 if share else 1)) if "_" not in text else None
    except ValueError:
        return None


def measured(value: Any, fault: str = "", where: SourceLocation | None = None) -> tuple[float | None, str]:
    """Return (number, "") for a measure's value, or (None, reason) if `value` is not a finite number.

    If `fault` is given, it is the reason: the error that the program reported. `where` is the location named
    in errors. Raises InputError if the number is written with a decimal comma.
    """
    if fault:
        return None, shorten(fault, 200)
    if value is None or (isinstance(value, str) and is_empty(value)):
        return None, "no value"
    number = number_in(value)
    if number is None and re.fullmatch(r"[-+]?\d+,\d+ ?%?", str(value).strip()):
        problem = f"the number {value!s} has a decimal comma"
        raise InputError(problem, fix="write a decimal point: 0.25", place=where)
    if number is None or not math.isfinite(number):
        return None, f"the value is {shorten(str(value), 120)}"
    return number, ""


def case_id(row: Mapping[str, Any], names: Sequence[str] = IDS) -> str:
    """Return the id of a row's case: the first non-empty value in the columns `names` (folded names).

    If this value is an object, the result is the id in the object, or else the object as JSON. Returns "" if
    all columns are empty or missing.
    """
    folded = {fold(str(key)).strip(): value for key, value in row.items()}
    value = next((folded[name] for name in names if not is_empty(_text(folded.get(name)))), None)
    text = _text(value)
    if text.startswith("{") and not isinstance(value, Mapping):
        try:
            value = ast.literal_eval(text) if "'" in text[:3] else json.loads(text)
        except (ValueError, SyntaxError):
            return text
    return case_id(value, NAMES) or as_text(value) if isinstance(value, Mapping) else text


def as_text(value: Any) -> str:
    """Return a value as JSON with sorted keys."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


def is_empty(cell: str) -> bool:
    """Return True if a cell is blank or a word for a missing value, such as nan, None or N/A."""
    return not cell.strip() or is_missing(cell)


Located = tuple[SourceLocation, Mapping[str, Any]]
_Roles: TypeAlias = dict[str, str | None]


def _columns(rows: Sequence[Mapping[str, Any]], where: SourceLocation) -> tuple[_Roles, list[str]]:
    """Return the column of each role (or None), and the columns of measures; [] if each row names its own."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    folded = {fold(name).strip(): name for name in reversed(names)}
    filled = {name for name in names if any(not is_empty(_text(row.get(name))) for row in rows)}
    case = next((folded[name] for name in IDS if folded.get(name) in filled), None)
    if case is None and "" in filled and [row[""] for row in rows] != [str(at) for at in range(len(rows))]:
        case = ""  # the unnamed index of a DataFrame is the id, unless it only numbers the rows
    have = f"the columns are {', '.join(names)}"[:300]
    if case is None:
        fix = "rename the column with the ids of the cases to id"
        if len(names) == 1 and len(names[0].split()) in {5, 6}:
            fix = "score a TREC run first: germane rank RUN --qrels GOLD -q --json > scores.json"
        raise InputError(f"no column has the ids of the cases; {have}", fix=fix, place=where)
    texts = (folded[name] for name in TEXTS if folded.get(name) in filled - {case})
    roles: _Roles = {"case": case, "query": next(texts, None) if fold(case) in NAMES else None}
    for role, spellings in ROLES.items():
        roles[role] = next((folded[name] for name in spellings if name in folded), None)
    long = roles["measure"] and roles["value"]
    naming = {name for role, name in roles.items() if role not in {"measure", "value"}}
    measures = _measures(rows, [name for name in names if name not in naming])
    if not (measures or long):
        fix = "write a column per measure, or the columns id, measure and value"
        if {"contexts", "qrels"} & {*map(SPELLINGS.get, names)}:
            fix = "score samples first: germane run SAMPLES -o REPORT, and name the report"
        raise InputError(f"no column has numbers; {have}", fix=fix, place=where)
    return roles, [] if long else measures


def _cell(row: Mapping[str, Any], column: str | None) -> str:
    return "" if column is None else _text(row.get(column))


def table_results(rows: Sequence[Located]) -> Iterator[MeasuredRow]:
    """Yield the results of a table that has columns for measure and value, or one column per measure.

    If a failed row names no measure, a missing value is yielded for every measure of the table.
    """
    if not rows:
        return
    flat: list[tuple[SourceLocation, dict[str, Any]]] = []
    for where, row in rows:
        cells: dict[str, Any] = {}
        for name, value in row.items():
            if isinstance(value, Mapping) and fold(name) in NESTED:
                cells |= value  # their numbers become columns
            else:
                cells[name] = as_text(value) if isinstance(value, Mapping | list) else value
        flat.append((where, cells))
    roles, columns = _columns([row for _, row in flat], flat[0][0])
    scored = []
    for where, row in flat:
        if fold(_cell(row, roles["status"])) == "skipped":
            continue
        sample, fault = case_id({"id": row.get(str(roles["case"]))}), _cell(row, roles["error"])
        if is_empty(fault) or fault.casefold() in {"false", "0", "{}", "[]"}:
            status = _cell(row, roles["status"])
            fault = status if fold(status) in FAILED else ""
        if not sample:
            problem = f"this row has no value in the column {roles['case']}, which holds the ids of the cases"
            fix = "write the id of the case in every row"
            raise InputError(problem, fix=fix, place=where)
        trial = _trial(row.get(roles["trial"]), where) if roles["trial"] else 0
        system, cluster, query = (_cell(row, roles[role]) for role in ("system", "cluster", "query"))
        identity = sample, trial, system, cluster, query
        values = {}
        for name in columns:
            # MLflow has a column with the error message of each measure
            message = _cell(row, f"{name.rpartition('/')[0]}/error_message") if "/" in name else ""
            values[name] = measured(row.get(name), fault or ("" if is_empty(message) else message), where)
        if not columns:
            name = _cell(row, roles["measure"])
            if not name and not fault:
                problem = f"this row has no value in the column {roles['measure']}, which names the measure"
                raise InputError(problem, fix="write the measure's name, such as nDCG@10", place=where)
            values = {name: measured(row.get(str(roles["value"])), fault, where)} if name else {}
        scored.append((identity, fault, values))
    names = dict.fromkeys(name for *_, values in scored for name in values)
    canonical = {name: canonical_measure(name) for name in names}
    for (sample, trial, system, cluster, query), fault, values in scored:
        for name, value in (values or dict.fromkeys(canonical, measured(None, fault))).items():
            yield MeasuredRow(sample, canonical[name], *value, system, trial, cluster, query=query)


def _measures(rows: Sequence[Mapping[str, Any]], names: Iterable[str]) -> list[str]:
    """Return the columns that hold measures: known ranking measures, and columns of mostly numbers.

    If there are columns named as by MLflow, NAME/value or NAME/score, only these and known names count.
    """
    result = [name for name in names if is_measure(name)]
    exported = [name for name in names if name.endswith(("/value", "/score"))]
    for name in names:
        cells = [value for row in rows if (value := row.get(name)) is not None and not is_empty(str(value))]
        # numbers with a decimal comma count here, and `measured` raises an error for them
        texts = [cell.replace(",", ".", 1) if isinstance(cell, str) else cell for cell in cells]
        numbers = sum(number_in(text) is not None for text in texts)
        usual = 2 * numbers >= len(cells) and fold(name).strip() not in OTHERS
        if numbers and (name in exported if exported else usual):
            result.append(name)
    return [name for name in names if name in result]


def _text(value: Any) -> str:
    value = int(value) if isinstance(value, float) and value.is_integer() else value  # 7.0 and 7 are one id
    return "" if value is None or (isinstance(value, float) and math.isnan(value)) else str(value).strip()


def _trial(value: Any, where: SourceLocation) -> int:
    number = number_in(value) if value is not None else None
    if number is None or not 0 <= number < _MOST_TRIALS or number != int(number):
        fix = "write 0, 1, 2, ..."
        raise InputError(f"the trial is {value!r}, not a whole number", fix=fix, place=where)
    return int(number)


def _fields(line: str) -> list[str]:
    return [text.strip() for text in (line.split("\t") if line.count("\t") == 2 else line.split())]


def printed_results(lines: Iterable[tuple[int, str]], path: str) -> list[MeasuredRow]:
    """Return the results in the printed output of `trec_eval -q` or ir_measures.

    trec_eval prints measure, query and value; ir_measures prints query, measure and value. The order is
    detected. Raises InputError if the order cannot be detected, or if the output contains only averages.
    """
    rows: list[tuple[str, str, str]] = []
    system = ""
    for number, line in lines:
        fields = _fields(line)
        if len(fields) != 3:
            have = counted(len(fields), "field")
            problem = f"this line has {have}; trec_eval -q and ir_measures print three"
            raise InputError(problem, fix="remove the line", place=SourceLocation(path, number))
        if fields[0] == "runid":
            system = fields[2]
        elif fields[0] != "relstring":  # a relstring is a list of grades
            rows.append((fields[0], fields[1], fields[2]))
    first, second = ({row[at] for row in rows} for at in (0, 1))
    as_trec = sum(map(is_measure, first)) + ("all" in second)
    as_ir = sum(map(is_measure, second)) + ("all" in first)
    if as_trec == as_ir:
        problem = "neither the first nor the second field of the lines is a known measure"
        fix = "write the output of trec_eval -q or ir_measures -q, or add a header: id,measure,value"
        raise InputError(problem, fix=fix, place=SourceLocation(path))
    if as_trec > as_ir:
        rows = [(query, name, value) for name, query, value in rows]
    results = []
    for query, name, value in rows:
        if query != "all":
            results.append(MeasuredRow(query, canonical_measure(name), *measured(value), system))
    if not results:
        problem = "this file has only averages, no values per query"
        fix = "print the values per query: trec_eval -q, ir_measures -q"
        raise InputError(problem, fix=fix, place=SourceLocation(path))
    return results


Object: TypeAlias = Mapping[str, Any]


def read_results(path: str | Path, note: Callable[[str], object]) -> list[MeasuredRow] | None:
    """Return the results in another program's file, or None for a JSON object without results.

    Germane's own JSON documents are such objects. Rows of means are left out, with a note. Raises InputError
    if the file cannot be read, has an unknown format, contains no results, or contains two values of a
    measure for the same case, system and trial.
    """
    name = shown_name(path)
    place = SourceLocation(name)
    try:
        found = _results(path, name)
        rows = None if found is None else list(found)
    except (AttributeError, KeyError, TypeError, ValueError) as fault:  # in reading a log or an export
        problem = f"this log or export has an unknown form: {type(fault).__name__}: {fault}"
        fix = "write a table with the columns id, measure and value"
        raise InputError(problem, fix=fix, place=place) from None
    if rows is None:
        return None
    if not rows:
        fix = "write the columns id, measure and value, or id and a column per measure, or a log with its samples"
        raise InputError("this file has no results per case", fix=fix, place=place)
    rows = _by_case(rows, place)
    if cases := [row for row in rows if fold(row.sample) not in AVERAGES]:
        for mean in dict.fromkeys(row.sample for row in rows if fold(row.sample) in AVERAGES):
            what = "is read as a mean over the cases and left out; rename it if it is a case"
            note(f"{name}: the row {mean!r} {what}")
        rows = cases
    counts = Counter((row.sample, row.system, row.trial, row.measure) for row in rows)
    (sample, system, trial, measure), times = counts.most_common(1)[0]
    if times > 1:
        case = f"the case {shorten(sample, 60)}{f' of {system}' if system else ''}"
        problem = f"{case} has {times} values of {measure} in trial {trial}"
        fix = "keep one value; add a column trial (0, 1, ...) for repetitions, a column system for several systems"
        raise InputError(problem, fix=fix, place=place)
    return rows


def _by_case(rows: list[MeasuredRow], where: SourceLocation) -> list[MeasuredRow]:
    """Return the rows with case and measure exchanged if a file maps measures to cases, as ranx's scores do.

    Such a file names measures as its cases, and no known measure as a measure. Raises InputError if it only
    numbers its cases.
    """
    cases, measures = dict.fromkeys(row.sample for row in rows), dict.fromkeys(row.measure for row in rows)
    few = len(cases) <= _MOST_MEASURES
    if not few or 2 * sum(map(is_known, cases)) <= len(cases) or any(map(is_known, measures)):
        return rows
    if list(measures) == [str(at) for at in range(len(measures))]:
        fix = "write the rows with their ids; in pandas: to_json(orient='records')"
        raise InputError("this file has the scores of each measure by row, without ids", fix=fix, place=where)
    return [row._replace(sample=row.measure, measure=canonical_measure(row.sample)) for row in rows]


def _results(path: str | Path, name: str) -> Iterable[MeasuredRow] | None:
    """Return the results in a file of any known format; None for germane's own JSON documents."""
    fix = "name a report folder, or a file written with -o report.json or -o report.csv"
    if (suffix := Path(name).suffix.lower()) in {".parquet", ".xlsx", ".png"}:
        raise InputError(f"results in a {suffix} file are not read", fix=fix, place=SourceLocation(name))
    if zipfile.is_zipfile(path):
        with suppress(zipfile.BadZipFile), zipfile.ZipFile(path) as archive:
            members = dict.fromkeys(archive.namelist(), str(path))
            if read := addons.reader_of(members, kind="results", known=False):
                return read([members])  # type: ignore[no-any-return]
            _refuse_absent(members, SourceLocation(name))
    filled = (line for line in read_lines(path) if line[1].strip())
    head = list(islice(filled, 2))
    first = head[0][1].lstrip() if head else ""
    if re.match(r'\{\s*"schema_version"', "".join(text for _, text in head).lstrip()):
        return None
    if first[:1] == "<" or name.endswith((".md", ".tex")):
        problem = "a page, a chart or a JUnit file has no scores that can be compared"
        raise InputError(problem, fix=fix, place=SourceLocation(name))
    lines = [*head, *filled]
    if first[:1] in {"{", "["}:
        rows = _json_rows(lines, name)
        if isinstance(rows, Mapping):
            return _of_document(rows, name)
        records = [row for _, row in rows]
        read = addons.reader_of(records[0], kind="results", known=False) if rows else None
        if rows and not read:
            _refuse_absent(rows[0][1], rows[0][0])
        return read(records) if read else table_results(rows)
    fields = _fields(first)
    if len(fields) == 3 and (number_in(fields[2]) is not None or fields[0] in {"runid", "relstring"}):
        return printed_results(lines, name)
    delimiter = "\t" if "\t" in first and "," not in first else ","
    table = named_rows((text for _, text in lines), delimiter, name)
    return table_results([(SourceLocation(name, lines[(at.line or 1) - 1][0]), row) for at, row in table])


def _json_rows(lines: Sequence[tuple[int, str]], name: str) -> list[Located] | Object:
    """Return the located rows of a JSON list or JSON Lines; any other JSON object is returned itself."""
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


def _of_document(document: Object, name: str) -> Iterable[MeasuredRow] | None:
    """Return the results in a document of an add-on, MLflow or pytrec_eval, or with a list of rows; else None."""
    if read := addons.reader_of(document, kind="results"):
        return read([document])  # type: ignore[no-any-return]
    columns, data, values = document.get("columns"), document.get("data"), list(document.values())
    rows: list[Object] = []
    if isinstance(columns, list) and isinstance(data, list):
        rows = [dict(zip(columns, row, strict=False)) for row in data]
    elif all(isinstance(value, Mapping) and value for value in values):
        numbers = (number for value in values for number in value.values())
        if all(isinstance(number, int | float) for number in numbers):
            rows = [{"id": query, **value} for query, value in document.items()]
    else:
        listed: list[Any] = next(
            (document[key] for key in HOLDERS if isinstance(document.get(key), list)), []
        )
        rows = [row for row in listed if isinstance(row, Mapping)]
        rows = rows if len(rows) == len(listed) else []
    if not rows:
        _refuse_absent(document, SourceLocation(name))
    located = [(SourceLocation(f"{name}, row {at}"), row) for at, row in enumerate(rows, 1)]
    return table_results(located) if rows else None


def _refuse_absent(row: Object, location: SourceLocation) -> None:
    """Raise InputError if the keys of a row or document are those of results that an absent add-on reads."""
    if owner := addons.absent("results", *map(fold, row)):
        problem = f"these results need the add-on {owner}, which is not installed"
        raise InputError(problem, fix="save the scores as CSV, with one row per case", place=location)
