"""Write a report for a CI server: as JUnit XML, or as GitHub annotations at the lines of failed cases."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from germane.clean import clean, clean_lines, shorten
from germane.reports.data import CaseResult, CaseVerdict, ReportData
from germane.reports.gates import REQUIRED
from germane.reports.summary import in_digits
from germane.types import Json

_NOT_XML = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")
_MOST = 10  # annotations of one step that GitHub shows


def junit(report: ReportData) -> Iterator[str]:
    """Yield a report as JUnit XML: suites of gates and cases, in which undecided results are errors."""
    root = Element("testsuites", name="germane")
    cases = (_case(report, case) for case in report.cases())
    start = str(report.manifest.get("created") or "").partition("+")[0]
    for name, tests in (("gates", _gates(report)), ("cases", cases)):
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


def _gates(report: ReportData) -> Iterator[Element]:
    """Yield a test per gate, and an error with the reasons if none of the gates caused the exit code."""
    words = {"failed": "failure", "undecided": "error"}
    for gate in report.verdict.gates:
        yield _test("gates", gate.gate, words.get(gate.outcome), gate.sentence or gate.detail)
    if report.verdict.exit_code and all(gate.outcome == "passed" for gate in report.verdict.gates):
        yield _test("gates", "evaluation", "error", "; ".join(report.verdict.reasons))


def _case(report: ReportData, case: CaseResult) -> Element:
    name = f"{case.sample}{f' [{case.system}]' if case.system else ''}{f' trial {case.trial}' if case.trial else ''}"
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


def _xml(text: str, clean: Callable[[str], str] = clean) -> str:
    """Return a cleaned string, without the characters that XML does not allow."""
    return _NOT_XML.sub("", clean(text))


def github_commands(report: ReportData, workspace: Path | None = None) -> Iterator[str]:
    """Yield GitHub annotations, escaped, of gates that did not pass and of up to ten failed cases."""
    places: Mapping[str, Sequence[Json]] = report.manifest.get("places") or {}
    for case in islice((case for case in report.cases() if case.failed), _MOST):
        at = " title=germane"
        if location := places.get(case.sample):
            file = _data(_within(str(location[0]), workspace)).replace(":", "%3A").replace(",", "%2C")
            at = f" file={file},line={location[1]},title=germane"
        below = f": {', '.join(case.failed_required)} below the threshold" if case.failed_required else ""
        text = f"{case.sample}{below or ' failed'}, score {in_digits(case.score)}"
        yield f"::{'error' if case.failed_required else 'warning'}{at}::{_data(text)}"
    for gate in report.verdict.gates:
        if gate.outcome != "passed" and not gate.gate.startswith(REQUIRED):
            level = "error" if gate.outcome == "failed" else "warning"
            yield f"::{level} title=germane::{_data(gate.sentence or f'{gate.gate}: {gate.outcome}, {gate.detail}')}"


def _within(file: str, workspace: Path | None) -> str:
    """Return a file's path relative to the workspace, or unchanged if the file is outside the workspace."""
    whole = Path(file).resolve()
    return str(whole.relative_to(workspace)) if workspace and whole.is_relative_to(workspace) else file


def _data(text: str) -> str:
    return shorten(clean(text), 400).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
