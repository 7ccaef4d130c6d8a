"""Read the results of Inspect, promptfoo and DeepEval for `germane compare`."""

from __future__ import annotations

import json
import re
import struct
import zipfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

from germane.clean import shorten
from germane.errors import InputError, SourceLocation
from germane.results import NAMES, MeasuredRow, canonical_measure, case_id, measured
from germane.samples.files import shown_name
from germane.samples.strictjson import json_in

__all__ = ["deepeval_results", "inspect_results", "promptfoo_results"]

Object: TypeAlias = Mapping[str, Any]

# Inspect

_GRADES = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0}
"""The values of Inspect's grades (correct, partial, incorrect, no answer), as in Inspect's own metrics."""
_ZSTANDARD = 93


def inspect_results(rows: Sequence[Object]) -> Iterator[MeasuredRow]:
    """Yield the results in an Inspect log.

    `rows` contains one object: a JSON log, or a mapping of the names of the files in a ZIP archive to the
    archive's path. Raises InputError if the archive is damaged.
    """
    (log,) = rows
    if isinstance(log.get("eval"), Mapping):
        return _inspect(log["eval"], log.get("samples") or ())
    path = next(iter(log.values()))
    name = shown_name(path)
    try:
        with zipfile.ZipFile(path) as archive:
            members = {member.filename: member for member in archive.infolist()}
            head = members.get("header.json") or members["_journal/start.json"]
            header = _member(archive, head, name)
            files = (member for path, member in members.items() if re.fullmatch(r"samples/.*\.json", path))
            samples = [_member(archive, member, name) for member in files]
            return _inspect(header.get("eval") or {}, samples)
    except (zipfile.BadZipFile, EOFError) as fault:
        problem = f"this Inspect log is damaged: {fault}"
        raise InputError(problem, fix="copy the log again", place=SourceLocation(name)) from None


def _member(archive: zipfile.ZipFile, member: zipfile.ZipInfo, name: str) -> Any:
    """Return the JSON of one file in an Inspect log; `zipfile` reads Zstandard only from Python 3.14 on."""
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
    """Yield the results of an Inspect log: one per sample, epoch, scorer, and named value of the scorer."""
    tables = list[dict[tuple[str, str], Any]]()  # for each sample, its scores by (scorer, name of the value)
    for sample in samples:
        tables.append({})
        for scorer, score in (sample.get("scores") or {"score": sample.get("score")}).items():
            value = score.get("value") if isinstance(score, Mapping) else score
            named = value if isinstance(value, Mapping) else {"": value}
            tables[-1] |= {(scorer, name): value for name, value in named.items() if score is not None}
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


# promptfoo

_GRADER_FAILED = re.compile(r"threw error|execution (error|failed)")
_ERROR = 2
"""The `failureReason` of a promptfoo row that could not be graded because of an error."""


def promptfoo_results(rows: Sequence[Object]) -> Iterator[MeasuredRow]:
    """Yield the results of promptfoo: one per test and score.

    `rows` are the rows of the results, or one object that contains them. The scores of a test are its named
    scores and the mean score of each type of unnamed assertion; if no test has any of them, it is the score
    of the test. The system is the provider, followed by the prompt's label if there are several prompts. A
    repeated test is a new trial.
    """
    results = rows[0]["results"]["results"] if "results" in rows[0] else rows
    prompts = {(row.get("promptIdx"), _provider(row)) for row in results}
    several = len({at for at, _ in prompts}) > len({provider for _, provider in prompts})
    tables = [_named_scores(row) for row in results]
    graded = any(tables)
    times: Counter[tuple[str, str]] = Counter()
    for row, table in zip(results, tables, strict=True):
        test, failed = row.get("testCase") or {}, row.get("failureReason") == _ERROR
        fault = str(row.get("error") or "error") if failed else ""
        variables = {**(row.get("vars") or {}), **(test.get("metadata") or {})}
        sample = (
            case_id(variables, NAMES)
            or case_id(variables)
            or json.dumps(variables, sort_keys=True, ensure_ascii=False, default=str)
        )
        system = _provider(row)
        system += f" | {shorten(str((row.get('prompt') or {}).get('label')), 40)}" if several else ""
        times[sample, system] += 1
        asserted = test.get("assert") or () if failed else ()
        names = [str(assertion.get("metric") or assertion.get("type")) for assertion in asserted]
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
    """Return the named scores in a row of promptfoo, and the mean score of each type of unnamed assertion."""
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
    return {**{name: sum(numbers) / len(numbers) for name, numbers in others.items()}, **scores}


# DeepEval


def deepeval_results(rows: Sequence[Object]) -> Iterator[MeasuredRow]:
    """Yield the results of DeepEval: one per test case and metric.

    `rows` are the test cases, or one object that contains them. If a metric failed, its result has no value.
    Whether higher values are better is found by comparing the score with the threshold and the success.
    """
    cases = rows
    if {"metrics_data", "metricsData"}.isdisjoint(rows[0]):
        tests = rows[0].get("testRunData") or rows[0]
        cases = [
            *tests.get("test_results", tests.get("testCases")),
            *tests.get("conversationalTestCases", ()),
        ]
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
