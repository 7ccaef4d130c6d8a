"""Parts in which somebody wrote what germane would not are not merged."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, write_jsonl
from tests.cli.test_forged import JUDGED, LABEL, ROWS, Edit, forge, put, report

__all__ = ["report"]


def test_parts_whose_gold_changed_are_not_merged(inside: Cli, report: Path) -> None:
    """The file is named, though it has its size still."""
    for number, old, new in ((3, '"d": 1', '"d": 0'), (2, '"e"', '"f"')):
        data = write_jsonl(report.parent / "s.jsonl", *ROWS)
        assert inside(*JUDGED, "--part", "1/2", "-o", "p1", "--force").code == 0
        lines = data.read_text().splitlines(keepends=True)
        lines[number - 1] = lines[number - 1].replace(old, new)
        data.write_text("".join(lines))
        assert inside(*JUDGED, "--part", "2/2", "-o", "p2", "--force").code == 0
        found = inside("merge", "p1", "p2", "-o", "m")
        assert found.code == 2
        assert "p1 and p2 are of different evaluations: the inputs; run all parts" in found.err


def test_a_part_counts_nothing_below_zero(inside: Cli, report: Path) -> None:
    """A count below zero is damage."""
    for number in (1, 2):
        assert inside(*JUDGED, "--part", f"{number}/2", "-o", f"p{number}").code == 0
    manifest = json.loads((report.parent / "p1" / "manifest.json").read_text())
    manifest["part"]["beside"] = [["", "Judged", [[0.5, -1]]]]
    (report.parent / "p1" / "manifest.json").write_text(json.dumps(manifest))
    found = inside("merge", "p1", "p2", "-o", "m")
    assert found.code == 2
    assert "the manifest is damaged" in found.err


@pytest.mark.parametrize(
    ("table", "edit", "message"),
    [
        ("scores.jsonl", put(value=5.0), "p1/scores.jsonl:1: RR is 5, which is not between 0 and 1"),
        ("scores.jsonl", put(value=1e308), "p1/scores.jsonl:1: RR is 1e+308"),
        ("scores.jsonl", put(status="fine"), "p1/scores.jsonl:1: this line is not a score"),
        ("samples.jsonl", lambda rows: rows.append(rows[0]), "p1/samples.jsonl:4: this sample stands here"),
        (
            "places.jsonl",
            lambda rows: rows.append(rows[0]),
            "p1/places.jsonl:7: this place stands here twice",
        ),
        ("judgements.jsonl", put(answer={"grade": 99}), "p1/judgements.jsonl:1: invalid answer of a judge"),
        ("labels.jsonl", lambda rows: rows.append(LABEL | {"answer": 9}), "p1/labels.jsonl:1: the answer of"),
    ],
)
def test_a_forged_part_is_not_merged(inside: Cli, report: Path, table: str, edit: Edit, message: str) -> None:
    """It is an error in the part's own file."""
    for number in (1, 2):
        assert inside(*JUDGED, "--part", f"{number}/2", "-o", f"p{number}").code == 0
    forge(report.parent / "p1", table, edit)
    found = inside("merge", "p1", "p2", "-o", "m")
    assert found.code == 2
    assert message in found.err
