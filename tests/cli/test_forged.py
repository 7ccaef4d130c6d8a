"""Reports, parts and ledgers in which somebody wrote what germane would not: with right digests, in right JSON."""

import hashlib
import json
import sqlite3
from collections.abc import Callable
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
Edit = Callable[[list[dict[str, Any]]], object]


@pytest.fixture
def report(inside: Cli, tmp_path: Path) -> Path:
    write_jsonl(tmp_path / "s.jsonl", *ROWS)
    assert inside(*JUDGED, "-o", "r").code == 0
    return tmp_path / "r"


def forge(report: Path, table: str, edit: Edit) -> None:
    """Change the rows of a table, and its digest in the manifest with them."""
    path, manifest = report / table, json.loads((report / "manifest.json").read_text())
    lines = path.read_text().splitlines()
    rows = [manifest] if table == "manifest.json" else list(map(json.loads, lines))
    edit(rows)
    text = "".join(json.dumps(row, separators=(",", ":")) + "\n" for row in rows)
    path.write_text(text)
    if table not in {"manifest.json", "labels.jsonl"}:
        manifest["files"][table] = hashlib.sha256(text.encode()).hexdigest()
        (report / "manifest.json").write_text(json.dumps(manifest))


def put(**fields: object) -> Edit:
    return lambda rows: rows[0].update(fields)


@pytest.mark.parametrize(
    ("table", "edit", "message"),
    [
        ("scores.jsonl", put(value=5.0), "scores.jsonl:1: RR is 5, which is not between 0 and 1"),
        ("scores.jsonl", put(value=-0.5), "scores.jsonl:1: RR is -0.5"),
        ("scores.jsonl", put(value=1e308), "scores.jsonl:1: RR is 1e+308"),
        ("scores.jsonl", put(value="0.5"), "scores.jsonl:1: this line is not a score"),
        ("scores.jsonl", put(bounds=[-3, 1]), "scores.jsonl:1: RR is -3"),
        ("scores.jsonl", lambda rows: rows.append(rows[0]), "scores.jsonl:13: this score stands here twice"),
        (
            "samples.jsonl",
            lambda rows: rows.append(rows[0]),
            "samples.jsonl:7: this sample stands here twice",
        ),
        ("scores.jsonl", put(trial=1 << 80), "scores.jsonl:1: this line is not a score"),
        ("manifest.json", put(schema_version=99), "is a report of format 99"),
        ("manifest.json", put(notes={"x": -5}), "manifest.json: the manifest is damaged"),
        ("manifest.json", put(judge={"tokens": {"input": 3}}), "manifest.json: the manifest is damaged"),
    ],
)
@pytest.mark.parametrize("verb", ["report r", "explain r q0", "compare r r", "audit r"])
def test_a_forged_number_is_an_error(
    inside: Cli, report: Path, table: str, edit: Edit, message: str, verb: str
) -> None:
    """With file and line, whichever verb reads it."""
    forge(report, table, edit)
    found = inside(*verb.split())
    assert found.code == 2
    assert message in found.err


LABEL = {"item": "0" * 32, "kind": "relevance", "answer": 2, "scale": "graded", "who": "ann"}
FIRST = "judgements.jsonl:1: "


@pytest.mark.parametrize(
    ("table", "edit", "message"),
    [
        ("judgements.jsonl", put(answer={"grade": "3"}), FIRST + "the grade of this answer is the text '3'"),
        ("judgements.jsonl", put(answer={"grade": 99}), FIRST + "invalid answer of a judge"),
        ("judgements.jsonl", put(answer={"grade": 1e308}), FIRST + "invalid answer of a judge"),
        ("judgements.jsonl", put(answer={"relevant": 1}), FIRST + "invalid answer of a judge"),
        ("judgements.jsonl", put(answer=None), FIRST + "invalid answer of a judge"),
        (
            "judgements.jsonl",
            put(kind="support", answer={"claims": [{"claim": 1, "contexts": ["d"]}]}),
            FIRST + "invalid answer of a judge",
        ),
        ("judgements.jsonl", put(kind="sufficiency", answer={"sufficient": "no"}), FIRST),
        ("judgements.jsonl", put(judge=7), FIRST + "this line is damaged"),
        ("judgements.jsonl", put(error=7), FIRST + "this line is damaged"),
        ("judgements.jsonl", put(beside={}), FIRST + "this line is damaged"),
        (
            "judgements.jsonl",
            lambda rows: rows.append(rows[3]),
            "judgements.jsonl:13: this judgement stands here",
        ),
        ("places.jsonl", lambda rows: rows.append(rows[3]), "places.jsonl:13: this place stands here twice"),
        ("places.jsonl", put(rank="one"), "places.jsonl:1: this line is damaged"),
        ("places.jsonl", put(rank=-1), "places.jsonl:1: this line is damaged"),
        ("labels.jsonl", lambda rows: rows.append(LABEL | {"answer": 9}), "labels.jsonl:1: the answer of"),
        ("labels.jsonl", lambda rows: rows.append(LABEL | {"answer": "3"}), "labels.jsonl:1: the answer of"),
        (
            "labels.jsonl",
            lambda rows: rows.append(LABEL | {"answer": 1e308}),
            "labels.jsonl:1: the answer of",
        ),
        ("labels.jsonl", lambda rows: rows.append(LABEL | {"answer": float("nan")}), "labels.jsonl:1: this"),
    ],
)
@pytest.mark.parametrize(
    "verb",
    [
        "explain r q0",
        "report r -o r.md",
        "score r -m context_precision",
        "compare r r",
        "audit r",
        "label r --export l.jsonl",
    ],
)
def test_a_forged_verdict_is_an_error(
    inside: Cli, report: Path, table: str, edit: Edit, message: str, verb: str
) -> None:
    """Whichever verb reads the report; so is a row that is there twice."""
    forge(report, table, edit)
    found = inside(*verb.split())
    assert found.code == 2
    assert message in found.err


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


def test_an_empty_ledger_is_not_replayed(inside: Cli, report: Path) -> None:
    """It would answer nothing: neither as SQLite nor as an export."""
    (report.parent / "empty.jsonl").write_text("")
    with sqlite3.connect(report.parent / "l.sqlite") as db:
        db.execute("DELETE FROM judgements")
    for name in ("l.sqlite", "empty.jsonl"):
        found = inside(*JUDGED[:6], "--replay", name)
        assert found.code == 2
        assert f"{name} holds no answer" in found.err


def test_a_finished_report_is_not_continued_with_other_verdicts(inside: Cli, report: Path) -> None:
    """Neither where a row was edited, nor where its digest was edited with it."""
    text = (report / "judgements.jsonl").read_text()
    (report / "judgements.jsonl").write_text(text.replace('"grade":0', '"grade":3', 1))
    found = inside("run", "--resume", "r")
    assert found.code == 2
    assert "judgements.jsonl was changed after the report was written" in found.err
    forge(report, "judgements.jsonl", put(answer={"grade": 99}))
    found = inside("run", "--resume", "r")
    assert found.code == 2
    assert FIRST + "invalid answer of a judge" in found.err


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema_version": 99}, "is of version 99"),
        ({"judge": {"tokens": "many"}}, "not a --json document"),
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
