"""A report for a continuous integration server: JUnit XML, and annotations of GitHub at the lines of failed cases."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from xml.sax.saxutils import escape, quoteattr

from germane.clean import clean, shorten
from germane.reports.data import ReportData
from germane.reports.gates import CaseResult
from germane.types import Json

__all__ = ["github_commands", "junit"]

_NOT_XML = re.compile("[^\\t\\n\\r\\x20-\\ud7ff\\ue000-\\ufffd\\U00010000-\\U0010ffff]")
_MOST = 10
"""Annotations of one step that GitHub shows."""


def junit(report: ReportData) -> Iterator[str]:
    """The report as JUnit XML: a suite with a test per gate, and one with a test per case.

    A gate that fails is a failure, one that is undecided an error. So is a case whose required graders fail, or are not
    measured; without `required` a case's verdict is information and stands in its output.
    """
    gates, cases = _gates(report), [_case(report, case) for case in report.cases()]
    yield '<?xml version="1.0" encoding="UTF-8"?>\n<testsuites name="germane">\n'
    for name, tests in (("gates", gates), ("cases", cases)):
        counts = {
            kind: sum(f"<{kind} " in test for test in tests) for kind in ("failure", "error", "skipped")
        }
        heads = f'failures="{counts["failure"]}" errors="{counts["error"]}" skipped="{counts["skipped"]}"'
        yield f'<testsuite name="{name}" tests="{len(tests)}" {heads}>\n'
        yield from tests
        yield "</testsuite>\n"
    yield "</testsuites>\n"


def _gates(report: ReportData) -> list[str]:
    """A test per gate, and one for how the evaluation ended where that is no gate's doing."""
    words = {"failed": "failure", "undecided": "error"}
    tests = [_test("gates", gate.gate, words.get(gate.outcome), gate.detail) for gate in report.verdict.gates]
    ended_by_gates = any(gate.outcome != "passed" for gate in report.verdict.gates)
    if report.verdict.exit_code and not ended_by_gates:
        tests.append(_test("gates", "evaluation", "error", "; ".join(report.verdict.reasons)))
    return tests


def _case(report: ReportData, case: CaseResult) -> str:
    name = f"{case.sample}{f' [{case.system}]' if case.system else ''}{f' trial {case.trial}' if case.trial else ''}"
    scores = report.tables.scores.of_sample((case.sample, case.system, case.trial))
    shown = [
        f"{score.measure}: {_value(score.value)}{f' ({score.why})' if score.why else ''}" for score in scores
    ]
    said = "\n".join([f"verdict: {case.verdict}, score: {_value(case.score)}", *shown])
    kind, why = None, ""
    if case.failed_required:
        kind, why = "failure", f"required: {', '.join(case.failed_required)}"
    elif case.undecided_required:
        kind, why = "error", f"not measured: {', '.join(case.undecided_required)}"
    elif case.verdict == "skipped":
        kind, why = "skipped", "nothing could be measured"
    return _test("cases", name, kind, why, said, _place(report, case))


def _test(
    suite: str, name: str, kind: str | None, why: str, said: str = "", place: Sequence[Json] | None = None
) -> str:
    at = f' file={_attribute(str(place[0]))} line="{place[1]}"' if place else ""
    inside = f"<{kind} message={_attribute(why)}/>" if kind else ""
    inside += f"<system-out>{_xml(said)}</system-out>" if said else ""
    return f"<testcase classname={_attribute(suite)} name={_attribute(name)}{at}>{inside}</testcase>\n"


def _xml(text: str) -> str:
    return escape(_NOT_XML.sub("", text))


def _attribute(text: str) -> str:
    return quoteattr(_NOT_XML.sub("", text))


def _value(value: float | None) -> str:
    return "-" if value is None else f"{value:.4f}"


def _place(report: ReportData, case: CaseResult) -> Sequence[Json] | None:
    places = report.manifest.get("places") or {}
    place: Sequence[Json] | None = places.get(case.sample)
    return place


def github_commands(report: ReportData) -> Iterator[str]:
    """Commands of GitHub's workflows: an error at the line of each case whose required graders failed, and per gate.

    Retrieved text, ids and file names are escaped: none of them can end a command or begin another one.
    """
    failed = [case for case in report.cases() if case.failed_required]
    for case in failed[:_MOST]:
        place = _place(report, case)
        at = f" file={_property(str(place[0]))},line={place[1]},title=germane" if place else " title=germane"
        text = f"{case.sample}: {', '.join(case.failed_required)} below the threshold, score {_value(case.score)}"
        yield f"::error{at}::{_data(text)}"
    for gate in report.verdict.gates:
        if gate.outcome != "passed" and not gate.gate.startswith("required "):
            level = "error" if gate.outcome == "failed" else "warning"
            yield f"::{level} title=germane::{_data(f'{gate.gate}: {gate.outcome}, {gate.detail}')}"


def _data(text: str) -> str:
    return shorten(clean(text), 400).replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
