"""Reports, parts and ledgers in which somebody wrote what germane would not: with right digests, in right JSON."""

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest

from germane import Context, Report, Sample, evaluate
from germane.judges import FakeJudge
from tests.cli.conftest import Cli, write_jsonl

ROWS = [
    {"id": f"q{n}", "query": f"query {n}", "qrels": {"d": 1}, "contexts": [{"id": "e", "text": "x"}, {"id": "d", "text": "y"}]}
    for n in range(6)
]  # fmt: skip
JUDGED = ("run", "s.jsonl", "-m", "RR context_precision", "--judge", "lexical", "--ledger", "l.sqlite")


@pytest.fixture
def report(inside: Cli, tmp_path: Path) -> Path:
    write_jsonl(tmp_path / "s.jsonl", *ROWS)
    assert inside(*JUDGED, "-o", "r").code == 0
    return tmp_path / "r"


@pytest.mark.parametrize(
    "statement",
    [
        "CREATE TRIGGER t AFTER INSERT ON judgements BEGIN UPDATE judgements SET answer = '{\"grade\":3}'; END",
        "ALTER TABLE judgements RENAME TO j; CREATE VIEW judgements AS SELECT * FROM j",
        "CREATE VIEW v AS SELECT 1",
    ],
)
def test_a_ledger_that_changes_what_it_stores_is_refused(inside: Cli, report: Path, statement: str) -> None:
    """Before anything is asked, when it is written and when it is replayed."""
    db = sqlite3.connect(report.parent / "l.sqlite")
    db.executescript(statement)
    db.close()
    for words in (
        (*JUDGED, "-o", "s"),
        (*JUDGED[:6], "--replay", "l.sqlite"),
        ("ledger", "stats", "--ledger", "l.sqlite"),
    ):
        found = inside(*words)
        assert found.code == 2
        assert "l.sqlite is not a ledger" in found.err


def test_a_finished_report_is_not_continued_with_other_verdicts(inside: Cli, report: Path) -> None:
    """The digest of an edited file is another."""
    text = (report / "judgements.jsonl").read_text()
    (report / "judgements.jsonl").write_text(text.replace('"grade":0', '"grade":3', 1))
    found = inside("run", "--resume", "r")
    assert found.code == 2
    assert "judgements.jsonl was changed after the report was written" in found.err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema_version": 99}, "is of version 99"),
        ({"judge": {"tokens": "many"}}, "neither a --json document"),
        ({"value": 5.0}, "RR is 5, which is not between 0 and 1"),
    ],
)
def test_a_forged_document_is_an_error(
    inside: Cli, report: Path, change: dict[str, Any], message: str
) -> None:
    """Of a newer germane, or with a score or a judge's tokens that no evaluation gives."""
    assert inside("report", "r", "-o", "d.json").code == 0
    document = json.loads((report.parent / "d.json").read_text())
    (document["scores"][0] if "value" in change else document).update(change)
    (report.parent / "d.json").write_text(json.dumps(document))
    found = inside("compare", "d.json", "r")
    assert found.code == 2
    assert message in found.err


def test_a_judge_that_gives_a_grade_as_text_makes_a_report_that_opens(tmp_path: Path) -> None:
    """Somebody's own judge, whose grade is stored as the number that was measured with."""
    sample = Sample(id="a", query="q", contexts=(Context(text="x"),))
    made = evaluate([sample], ["context_precision"], judge=FakeJudge(lambda _: {"grade": "2"}))
    assert made["context_precision"].mean == 1.0
    made.save(tmp_path / "r")
    (judgement,) = Report.open(tmp_path / "r").judgements()
    assert judgement.answer["grade"] == 2
