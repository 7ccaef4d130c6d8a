"""The `--json` document, as records: what scripts rely on. It is written, read and described by its JSON Schema from here.

`scripts/reference_pages.py` publishes the schemas in docs/schema.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from inspect import cleandoc
from typing import Any, Literal, get_args

import msgspec
from msgspec import UNSET, UnsetType, structs

from germane.encoding import Line
from germane.reports.data import CaseResult, FileLine, RankingLine, SearchLine, SliceLine, SystemLine
from germane.reports.explain import ResultRow
from germane.reports.gates import GateResult
from germane.reports.manifest import JudgeLine
from germane.reports.summary import MeasureSummary
from germane.tables.scores import ScoreRow


class CaseRow(CaseResult, kw_only=True):
    """The score of one sample over all of its graders, the verdict on it, and the result of each grader."""

    results: list[ResultRow] | UnsetType = UNSET


class CorpusLine(Line):
    """The documents that were searched: a digest of their ids and texts, how many there are, and the file's or folder's name."""

    digest: str
    documents: int
    name: str


class Document(Line, kw_only=True):
    """The document of `--json`. `measures` where there is one system, `systems` and `ranking` where there are several.

    Where several eval files were run, `files` has the means over each one's own cases; where samples made several searches,
    `by_call` what each of them brought.

    `stopped` says why the run did not come to its end, and how it is continued; the rest is then what is known so far.
    """

    schema_version: Literal[1] = 1
    passed: bool
    exit_code: int
    report: str | None
    judge: JudgeLine
    verdict: list[str]
    gates: list[GateResult]
    notes: list[str]
    measures: dict[str, MeasureSummary] | UnsetType = UNSET
    systems: list[SystemLine] | UnsetType = UNSET
    files: list[FileLine] | UnsetType = UNSET
    slices: list[SliceLine] | UnsetType = UNSET
    by_call: list[SearchLine] | UnsetType = UNSET
    ranking: list[RankingLine] | UnsetType = UNSET
    scores: list[ScoreRow] | UnsetType = UNSET
    cases: list[CaseRow]
    corpus: CorpusLine | UnsetType = UNSET
    stopped: str | UnsetType = UNSET


class ScoredDocument(Line):
    """The part of a document that `compare` and a baseline read; `reports` where it is of several evaluations."""

    schema_version: int = 1
    scores: list[ScoreRow] | UnsetType = UNSET
    judge: dict[str, Any] | None = None
    corpus: dict[str, Any] | None = None
    reports: dict[str, Any] | UnsetType = UNSET


class Documents(Line):
    """The document of `--json` where a run was several evaluations: that of each under its path, and the exit code of all."""

    schema_version: Literal[1]
    passed: bool
    exit_code: int
    reports: dict[str, Document]


def schema_of(kind: Any) -> dict[str, Any]:
    """The JSON Schema of a document, or of either of several (A | B)."""
    results, lines = msgspec.json.schema_components(get_args(kind) or (kind,), ref_template="#/$defs/{name}")
    known = {line.__name__: line for line in _kinds(Line)}
    for name, line in lines.items():
        line["description"] = cleandoc(line.get("description", ""))
        if name in known:
            optional = {f.encode_name for f in structs.fields(known[name]) if UnsetType in get_args(f.type)}
            line["properties"] = {key: of for key, of in line["properties"].items() if key[0] != "_"}
            line["required"] = [key for key in line["properties"] if key not in optional]
            for key in line["required"]:  # a default is Python's: what is written has the field
                line["properties"][key].pop("default", None)
    one_of = results[0] if len(results) == 1 else {"anyOf": [*results]}
    used, text = dict[str, Any](), json.dumps(one_of)
    while more := [name for name in lines.keys() - used if f'/{name}"' in text]:
        used |= {name: lines[name] for name in more}
        text = json.dumps([one_of, used])
    defs = {name: line for name, line in lines.items() if name in used}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **one_of, "$defs": defs}


def _kinds(kind: type[Line]) -> Iterator[type[Line]]:
    """The records that are lines of this kind."""
    for line in kind.__subclasses__():
        yield line
        yield from _kinds(line)
