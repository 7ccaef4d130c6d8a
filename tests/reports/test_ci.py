"""What a continuous integration server reads of a report: JUnit XML and workflow commands."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from germane.folder.tables import BlockRows
from germane.measures import Measure
from germane.measures.declaration import Grader
from germane.reports.data import dump_grader
from germane.reports.formats import github_commands, junit, write
from germane.reports.gates import Gate
from germane.reports.report import Report
from germane.tables.scores import ScoreTable
from germane.types import Sample, Score

EVIL = 'a\x1b[0m"<b>&\n::add-mask::x, 100%'


def report_of(
    values: dict[str, float | None], gates: tuple[str, ...] = (), *, required: float = 0.8
) -> Report:
    part = BlockRows(
        samples=[Sample(id=name, query=name) for name in values],
        scores=ScoreTable(
            [
                Score(sample=name, measure="RR", type="RR", value=value, status="ok" if value is not None else "error",
                      why=None if value is not None else EVIL)
                for name, value in values.items()
            ]
        ),
        graders=[[dump_grader(Grader(measure=Measure.parse("RR"), required=required))]],
    )  # fmt: skip
    manifest = {"places": {name: ["e,v:al.yaml", number] for number, name in enumerate(values, 1)}}
    return Report.build(part, manifest, gates=[Gate.parse(gate) for gate in gates], max_unmeasured=1.0)


def test_cases_and_gates_are_tests(tmp_path: Path) -> None:
    """A case below a required threshold is a failure, one that was not measured an error; so are gates."""
    report = report_of({"good": 1.0, EVIL: 0.5, "open": None}, ("mean(RR)>=0.9", "max(RR)>=1"))
    write(report, tmp_path / "x.junit.xml")
    gates, cases = ElementTree.fromstring((tmp_path / "x.junit.xml").read_text())
    assert [(test.get("name"), [inner.tag for inner in test]) for test in gates] == [
        ("mean(RR)>=0.9", ["failure"]), ("max(RR)>=1", []), ("required RR", ["failure"]),
    ]  # fmt: skip
    assert (cases.get("tests"), cases.get("failures"), cases.get("errors")) == ("3", "1", "1")
    names = [test.get("name") or "" for test in cases]
    assert names[0] == "good"
    assert "\x1b" not in names[1]
    assert [test.get("line") for test in cases] == ["1", "2", "3"]


def test_nothing_of_a_case_ends_a_workflow_command_or_begins_another() -> None:
    """One line each; percent signs, and in properties colons and commas, are escaped."""
    (case, gate) = github_commands(report_of({EVIL: 0.5}, ("mean(RR)>=0.9",)))
    assert case.startswith("::error file=e%2Cv%3Aal.yaml,line=1,title=germane::a")
    assert "100%25" in case
    assert "\n" not in case
    assert "\x1b" not in case
    assert (
        gate
        == "::error title=germane::mean(RR)>=0.9: failed, mean 0.5000, decided on the point; measured on 1 of 1 sample"
    )


@pytest.mark.parametrize("values", [{"a": 1.0}, {"a": 0.9}])
def test_a_report_that_passes_has_no_failures(values: dict[str, float | None]) -> None:
    """No workflow command either."""
    report = report_of(values)
    assert list(github_commands(report)) == []
    assert "<failure" not in "".join(junit(report))


def test_junit_says_what_is_uncalibrated() -> None:
    """In the output of each case, beside the score."""
    measure = Measure.parse("context_precision@1")
    scores = ScoreTable([Score(sample="a", measure=str(measure), type=str(measure), value=1.0)])
    part = BlockRows(scores=scores, graders=[[dump_grader(Grader(measure=measure))]])
    report = Report.build(part, {"judge": {"source": "openai:m"}})
    shown = "".join(junit(report))
    assert "context_precision@1: 1.0000\n  uncalibrated: no human labels" in shown


def test_junit_has_the_shape_that_servers_read(tmp_path: Path) -> None:
    """Counts and times on every level; a failure has a type and its text, which is what GitLab shows."""
    report = report_of({"good": 1.0, "bad": 0.5, "open": None})
    write(report, tmp_path / "x.junit.xml")
    root = ElementTree.fromstring((tmp_path / "x.junit.xml").read_text())
    assert {"tests", "failures", "errors", "skipped", "time"} <= set(root.attrib)
    assert root.get("tests") == str(len(root.findall("testsuite/testcase")))
    for test in root.iter("testcase"):
        assert {"name", "classname", "time"} <= set(test.attrib)
        assert [inner.tag for inner in test] in (["system-out"], ["failure", "system-out"], ["error", "system-out"],
                                                 ["failure"])  # fmt: skip
    for what in (*root.iter("failure"), *root.iter("error")):
        assert what.get("message")
        assert what.get("type")
        assert what.text


def test_an_annotation_names_the_file_as_github_knows_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From the workspace, wherever the run was started."""
    (tmp_path / "sub").mkdir()
    monkeypatch.chdir(tmp_path / "sub")
    (command,) = github_commands(report_of({"a": 0.5}), tmp_path)
    assert command.startswith("::error file=sub/e%2Cv%3Aal.yaml,line=1,")
