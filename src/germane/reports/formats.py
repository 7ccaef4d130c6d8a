"""Write a report in the format that a file's extension names, and as annotations of a GitHub workflow."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from itertools import chain, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from msgspec import UNSET, UnsetType

from germane.addons import absent, all_of, find, load
from germane.clean import clean, clean_lines, shorten
from germane.encoding import Line
from germane.errors import InputError, MissingPart, install_extra
from germane.folder.files import is_own
from germane.reports.data import CaseResult, CaseVerdict, ReportData
from germane.reports.gates import REQUIRED, GateResult
from germane.reports.summary import MeasureSummary, in_digits
from germane.reports.text.overview import markdown, notes_of, render_plain
from germane.samples.files import whole_file, write_whole
from germane.show.table import csv_lines
from germane.tables.judgements import JudgeLine
from germane.tables.scores import SampleKey, ScoreRow, dump_score, to_frame
from germane.types import Json

if TYPE_CHECKING:
    from xml.etree.ElementTree import Element

_MOST_ANNOTATIONS = 10  # of one step that GitHub shows


class SystemLine(Line, kw_only=True):
    """The summaries of one system over all cases, or over the cases of one `slice` or one eval `file`."""

    system: str
    measures: dict[str, MeasureSummary]
    slice: str | UnsetType = UNSET
    file: str | UnsetType = UNSET


def system_lines(summaries: Iterable[MeasureSummary], **group: str) -> list[SystemLine]:
    """Return one line per system with its summaries; `group` is `slice=NAME` or `file=NAME`."""
    measures: dict[str, dict[str, MeasureSummary]] = {}
    for summary in summaries:
        measures.setdefault(summary.system, {})[summary.measure] = summary
    return [
        SystemLine(system=system, measures=rows, **group) for system, rows in (measures or {"": {}}).items()
    ]


class Document(Line, kw_only=True):
    """The document that `--json` prints.

    It contains `measures` if there is one system, and `systems` if there are several. If several eval files
    ran, `files` contains the means over the cases of each file.

    If the run stopped early, `stopped` says why and how to continue it, and the document contains the results
    so far. `declared` has the range and direction of your own measures, unless 0 to 1 and higher is better.
    `clusters` maps the samples that have a cluster to it.
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
    files: list[SystemLine] | UnsetType = UNSET
    slices: list[SystemLine] | UnsetType = UNSET
    scores: list[ScoreRow] | UnsetType = UNSET
    cases: list[CaseResult]
    stopped: str | UnsetType = UNSET
    declared: list[str] | UnsetType = UNSET
    clusters: dict[str, str] | UnsetType = UNSET


def json_document(report: ReportData, *, scores: bool = True) -> dict[str, Json]:
    """Return the `--json` document (docs/schema/report.schema.json); `scores` adds each sample's scores."""
    systems, verdict = system_lines(report.summaries), report.verdict
    files = [system_lines(section.summaries, file=section.name) for section in report.files]
    slices = [system_lines(section.summaries, slice=section.name) for section in report.own_slices()[0]]
    document = Document(
        passed=verdict.passed,
        exit_code=verdict.exit_code,
        report=str(report.folder) if report.folder is not None else None,
        judge=report.judge,
        verdict=list(verdict.reasons),
        gates=list(verdict.gates),
        notes=list(notes_of(report)),
        measures=systems[0].measures if len(systems) == 1 else UNSET,
        systems=systems if len(systems) > 1 else UNSET,
        files=list(chain.from_iterable(files)) or UNSET,
        slices=list(chain.from_iterable(slices)) or UNSET,
        scores=[] if scores else UNSET,
        cases=list(report.cases()),
        stopped=report.stopped or UNSET,
        declared=report.manifest.get("declared", UNSET),
        clusters=(dict(report.tables.clusters()) or UNSET) if scores else UNSET,
    ).as_json()
    if scores:
        document["scores"] = list(map(dump_score, report.scores()))
    return document


def _beside(
    report: ReportData,
) -> tuple[dict[SampleKey, CaseVerdict | None], dict[tuple[str, str], list[str]]]:
    """Return each case's verdict, {} without graders, and the remarks on each (system, measure)."""
    verdicts = {case.key: case.verdict for case in report.decided_cases()}
    return verdicts, {(line.system, line.measure): list(line.remarks()) for line in report.summaries}


def _jsonl(report: ReportData) -> Iterator[str]:
    (verdicts, remarks), clusters = _beside(report), report.tables.clusters()
    if not verdicts and not any(remarks.values()) and not clusters:
        yield from (line.decode() for line in report.tables.scores.lines())
        return
    for score in report.scores():
        of_mean = remarks[score.system, score.measure]
        more: dict[str, Json] = {"remarks": of_mean} if of_mean else {}
        more |= {"verdict": verdicts.get(score.key)} if verdicts else {}
        more |= {"cluster": clusters[score.sample]} if score.sample in clusters else {}
        yield json.dumps({**dump_score(score), **more}, ensure_ascii=False) + "\n"


def _csv(report: ReportData) -> Iterator[str]:
    columns, (verdicts, remarks) = report.tables.scores.to_columns(), _beside(report)
    if verdicts:
        keys = zip(columns["sample"], columns["system"], columns["trial"], strict=True)
        columns["verdict"] = [verdicts.get(key) for key in keys]
    if clusters := report.tables.clusters():
        columns["cluster"] = [clusters.get(name, "") for name in columns["sample"]]
    both = zip(columns["system"], columns["measure"], strict=True)
    columns["remarks"] = ["; ".join(remarks[key]) for key in both]
    yield from csv_lines(chain([columns], zip(*columns.values(), strict=True)))


def html(report: ReportData, baseline: ReportData | None = None, **more: Any) -> Iterator[str]:
    """Yield the text of the report's HTML page in pieces; `more` are further arguments of `page_data`."""
    from germane.reports.page.data import page_data
    from germane.reports.page.render import page_html

    return page_html(*page_data(report, baseline, **more))


def junit(report: ReportData) -> Iterator[str]:
    """Yield a report as JUnit XML: suites of gates and cases, in which undecided results are errors."""
    from xml.etree.ElementTree import Element, SubElement, indent, tostring  # few reports are written as XML

    root = Element("testsuites", name="germane")
    words, verdict = {"failed": "failure", "undecided": "error"}, report.verdict
    gates = [
        _test("gates", result.gate, words.get(result.outcome), result.sentence or result.detail)
        for result in verdict.gates
    ]
    if verdict.exit_code and all(gate.outcome == "passed" for gate in verdict.gates):
        gates.append(_test("gates", "evaluation", "error", "; ".join(verdict.reasons)))
    cases = (_case(report, case) for case in report.cases())
    start = str(report.manifest.get("created") or "").partition("+")[0]
    for name, tests in (("gates", gates), ("cases", cases)):
        suite = SubElement(root, "testsuite", name=name)
        suite.extend(tests)
        suite.attrib |= _counts(suite) | ({"timestamp": start} if start else {})
    root.attrib |= _counts(root)
    indent(root, " ")
    yield f'<?xml version="1.0" encoding="UTF-8"?>\n{tostring(root, "unicode")}\n'


def _counts(suite: Element) -> dict[str, str]:
    """Return a suite's attributes: numbers of tests, failures, errors and skipped tests, and time 0."""
    names = {"tests": "testcase", "failures": "failure", "errors": "error", "skipped": "skipped"}
    return {name: str(len(list(suite.iter(kind)))) for name, kind in names.items()} | {"time": "0"}


def _case(report: ReportData, case: CaseResult) -> Element:
    system, trial = case.system and f" [{case.system}]", case.trial and f" trial {case.trial}"
    name = f"{case.sample}{system or ''}{trial or ''}"
    lines = [f"verdict: {case.verdict or '-'}, score: {in_digits(case.score)}"]
    for score in report.tables.scores.of_samples([case.key]):
        lines.append(f"{score.measure}: {in_digits(score.value)}{f' ({score.why})' if score.why else ''}")
        of_mean = report[score.measure, case.system or ""].remarks()  # true of each score too
        lines += [f"  {remark}" for remark in of_mean if remark.startswith(("uncalibrated", "mixed"))]
    places: Mapping[str, Sequence[Json]] = report.manifest.get("places") or {}
    kind, why = _ENDED.get(case.verdict, (None, ""))
    if case.failed and case.failed_required:
        why = f"below the threshold of a required grader: {', '.join(case.failed_required)}"
    elif case.undecided_required:
        why = f"a required grader has no score: {', '.join(case.undecided_required)}"
    return _test("cases", name, kind, why, "\n".join(lines), places.get(case.sample))


_ENDED: dict[CaseVerdict | None, tuple[str, str]] = {
    "fail": ("failure", "the case failed: its score is too low"),
    "undecided": ("error", "the case is undecided: a score is missing, or a stand-in for a model judged"),
    "skipped": ("skipped", "the case was skipped: no measure could be computed"),
    None: ("skipped", "the case has no verdict: the eval file declares no grader, `required` or `threshold`"),
}
"""The JUnit element of a case that did not pass, and the reason, by the case's verdict."""


def _test(
    suite: str, name: str, kind: str | None, why: str, message: str = "", at: Sequence[Json] | None = None
) -> Element:
    """Return a test case; `kind` is the element of a test that did not pass, such as "failure"."""
    from xml.etree.ElementTree import Element, SubElement

    test = Element("testcase", classname=suite, name=_xml(name), time="0")
    if at:
        test.attrib |= {"file": _xml(str(at[0])), "line": str(at[1])}
    if kind is not None:
        result = SubElement(test, kind, message=_xml(why))
        if kind != "skipped":
            result.set("type", suite)
            result.text = (
                f"{_xml(why)}\n{_xml(message, clean_lines)}"  # GitLab shows the text, others the message
            )
    if message:
        SubElement(test, "system-out").text = _xml(message, clean_lines)
    return test


_NOT_XML = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")


def _xml(text: str, clean: Callable[[str], str] = clean) -> str:
    """Return a cleaned string, without the characters that XML does not allow."""
    return _NOT_XML.sub("", clean(text))


def github_commands(report: ReportData, workspace: Path | None = None) -> Iterator[str]:
    """Yield GitHub annotations, escaped: up to ten failed cases, why the run is undecided, and its gates."""
    places: Mapping[str, Sequence[Json]] = report.manifest.get("places") or {}
    for case in islice((case for case in report.cases() if case.failed), _MOST_ANNOTATIONS):
        at = " title=germane"
        if location := places.get(case.sample):
            file, whole = str(location[0]), Path(location[0]).resolve()
            if workspace and whole.is_relative_to(workspace):
                file = str(whole.relative_to(workspace))
            file = _data(file).replace(":", "%3A").replace(",", "%2C")
            at = f" file={file},line={location[1]},title=germane"
        below = f": {', '.join(case.failed_required)} below the threshold" if case.failed_required else ""
        text = f"{case.sample}{below or ' failed'}, score {in_digits(case.score)}"
        yield f"::{'error' if case.failed_required else 'warning'}{at}::{_data(text)}"
    for cause in report.verdict.causes:
        yield f"::warning title=germane::{_data(cause)}"
    yield from gate_commands(report.verdict.gates)


def gate_commands(gates: Iterable[GateResult]) -> Iterator[str]:
    """Yield GitHub annotations, escaped, of the gates that did not pass."""
    for gate in gates:
        if gate.outcome != "passed" and not gate.gate.startswith(REQUIRED):
            level = "error" if gate.outcome == "failed" else "warning"
            text = gate.sentence or f"{gate.gate}: {gate.outcome}, {gate.detail}"
            yield f"::{level} title=germane::{_data(text)}"


def _data(text: str) -> str:
    return shorten(clean(text), 400).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


FORMATS: dict[str, Callable[[ReportData], Iterable[str]]] = {
    ".json": lambda report: [json.dumps(json_document(report), ensure_ascii=False, indent=1), "\n"],
    ".jsonl": _jsonl,
    ".csv": _csv,
    ".md": markdown,
    ".txt": lambda report: [f"{render_plain(report)}\n"],
    ".xml": junit,
    ".html": html,
}
"""The formats of a report, by the ending of the file's name."""
_PICTURES = (".svg", ".png")  # files with the report's charts
_PACKAGES = {".png": ("resvg-py", "png"), ".parquet": ("polars", "tables")}
"""The package that writes a format, and the extra with it."""
ENDINGS = (*FORMATS, *_PICTURES, ".parquet")


def known_format(path: Path) -> str | None:
    """Return the format that a file's name ends in, or None. Raises InputError if its add-on is absent."""
    name = path.name.lower()

    def longest(endings: Iterable[str]) -> str | None:
        known = [end for end in endings if (name.endswith(end) if end[0] == "." else name == end)]
        return max(known, key=len, default=None)

    if owner := absent("writers", name, "".join(path.suffixes[-2:]).lower()):
        problem = f"{path}: this format needs the add-on {owner}, which is not installed"
        raise InputError(problem, fix=f"name a file that ends in {', '.join(ENDINGS)}")
    known = longest([*ENDINGS, *all_of("writers")])
    return known or (longest(all_of("writers", installed=True)) if path.suffix else None)


def format_of(path: Path) -> str:
    """Return the report format of a file name, such as ".csv".

    Raises InputError if it has none, and MissingPart if the package that writes it is not installed.
    """
    if kind := known_format(path):
        package, extra = _PACKAGES.get(kind, ("", ""))
        if package and find_spec(package.replace("-", "_")) is None:
            fix = f"{install_extra(extra)}, or write a {'.svg' if kind == '.png' else '.csv'} file"
            raise MissingPart(f"{path}: writing a {kind} needs the package {package}", fix=fix)
        return kind
    ending = f"ends in {path.suffix}, which is not a report format" if path.suffix else "has no extension"
    endings = ", ".join([*ENDINGS, *all_of("writers")])
    raise InputError(f"the file {path} {ending}", fix=f"name a file that ends in {endings}")


def write(report: ReportData, path: Path, *, baseline: ReportData | None = None, **page: Any) -> None:
    """Write a report to a file, in the format of its extension; pages and pictures show the `baseline`.

    Raises InputError if the extension is unknown, or `path` is one of the report folder's own files.
    """
    kind = format_of(path)
    if report.folder is not None and is_own(path, report.folder):
        problem = f"{path} is a file of the report folder itself, and would be overwritten"
        raise InputError(problem, fix="write outside the folder, e.g. -o report.html")
    path.parent.mkdir(parents=True, exist_ok=True)
    if kind in _PICTURES:
        from germane.reports.plots import write_picture

        write_picture(report, path, baseline)
    elif kind == ".parquet":
        with whole_file(path) as file:
            to_frame(report.tables.scores.to_columns(), "polars").write_parquet(file)
    elif kind == ".html":
        write_whole(path, html(report, baseline, **page))
    elif kind == ".md":
        write_whole(path, markdown(report, page.get("comparison")))
    else:
        write_whole(path, (FORMATS.get(kind) or load(find("writers", kind)))(report))
