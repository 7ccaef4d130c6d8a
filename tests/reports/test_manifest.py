"""What a manifest keeps of a grader is all of it, and a failed gate fails in the reopened report too."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from germane.encoding import decode, encode
from germane.errors import InputError
from germane.folder.tables import BlockRows
from germane.measures import Measure
from germane.measures.declaration import Grader
from germane.reports.data import dump_grader, load_grader
from germane.reports.report import Report
from germane.tables.scores import ScoreTable
from germane.types import FrozenDict, Sample, Score

EVERYTHING: dict[str, Any] = {
    "measure": Measure.parse("P(rel=2)@5"),
    "name": "precise",
    "weight": 0.0,
    "required": 1.0,
    "threshold": 0.0,
    "strict": True,
    "expected_relevant_count": 3,
    "options": FrozenDict(a=FrozenDict(b=(1, 2))),
}


def test_every_field_of_a_grader_comes_back() -> None:
    """Values that equal a default by accident (True == 1.0 == 1) too; what grades a case stands in the eval file."""
    assert {field.name for field in fields(Grader)} == {*EVERYTHING, "by"}
    plain = {"measure": EVERYTHING["measure"]}
    for name, value in EVERYTHING.items():
        grader = Grader(**{**plain, name: value})
        again = load_grader(decode(encode(dump_grader(grader))))
        assert again == grader
        assert repr(again) == repr(grader)


@pytest.mark.parametrize(("grader", "code"), [({"required": 1.0}, 1), ({}, 0)])
def test_a_required_grader_fails_in_the_reopened_report(
    tmp_path: Path, grader: dict[str, Any], code: int
) -> None:
    """`required: 1.0` is no default: what exits 1 exits 1 when it is opened."""
    dumped = dump_grader(Grader(measure=Measure.parse("RR"), **grader))
    part = BlockRows(
        samples=[Sample(id="q", query="q")],
        scores=ScoreTable([Score(sample="q", measure="RR", type="RR", value=0.5)]),
        graders=[[dumped]],
    )
    report = Report.build(part, {}).save(tmp_path)
    assert report.verdict.exit_code == code
    assert Report.open(tmp_path).verdict == report.verdict


def test_a_strict_grader_fails_its_case_in_the_reopened_report(tmp_path: Path) -> None:
    """`strict: true` is kept, though True == 1.0."""
    part = BlockRows(
        samples=[Sample(id="q", query="q")],
        scores=ScoreTable([Score(sample="q", measure="RR", type="RR", value=1.0, why="strict: 1 of 2")]),
        graders=[[dump_grader(Grader(measure=Measure.parse("RR"), strict=True))]],
    )
    Report.build(part, {}).save(tmp_path)
    assert [case.verdict for case in Report.open(tmp_path).cases()] == ["fail"]


@pytest.mark.parametrize(
    ("field", "value"), [("measure", None), ("options", [1]), ("name", 3), ("weight", "high")]
)
def test_a_wrong_value_of_a_grader_is_an_error_with_its_place(
    tmp_path: Path, field: str, value: object
) -> None:
    """Somebody edited the manifest: the message names the value, without a traceback."""
    part = BlockRows(
        samples=[Sample(id="q", query="q")],
        scores=ScoreTable([Score(sample="q", measure="RR", type="RR", value=0.5)]),
        graders=[[dump_grader(Grader(measure=Measure.parse("RR")))]],
    )
    Report.build(part, {}).save(tmp_path)
    manifest = decode((tmp_path / "manifest.json").read_bytes())
    manifest["graders"][0][0][field] = value
    (tmp_path / "manifest.json").write_bytes(encode(manifest))
    with pytest.raises(InputError, match=rf"the manifest is damaged: .* at `\$.graders.*{field}`"):
        Report.open(tmp_path)
