"""`--replay`: a ledger or its committed export answers, and nobody else; what it lacks is never green."""

from __future__ import annotations

from pathlib import Path

import pytest

from germane import evaluate
from germane.errors import InputError
from tests.cli.conftest import Cli, write_jsonl
from tests.command import Ran
from tests.server import ModelServer

ROWS = [
    {
        "id": f"q{n}",
        "query": f"what is thing {n}",
        "reference": f"thing {n} is good. thing {n} is old.",
        "contexts": [{"text": f"thing {n} is good"}, {"text": f"thing {n} is old"}],
    }
    for n in range(3)
]
MEASURES = "context_precision@5 context_recall"


@pytest.fixture
def recorded(inside: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[list[str], Ran]:
    """A run against a model whose answers are exported to answers.jsonl; then there is neither key nor server."""
    write_jsonl(tmp_path / "data.jsonl", *ROWS)
    with ModelServer() as server:
        words = ["run", "data.jsonl", "-m", MEASURES, "--judge", f"openai:test@{server.url}", "--json"]
        monkeypatch.setenv("OPENAI_API_KEY", "test")
        first = inside(*words, "--ledger", "l.sqlite", "-o", "first")
    assert first.code == 0, first.err
    assert inside("ledger", "export", "--ledger", "l.sqlite", "-o", "answers.jsonl").code == 0
    monkeypatch.delenv("OPENAI_API_KEY")
    return words, first


def _files_beside(path: Path) -> list[Path]:
    return sorted(file for file in path.parent.iterdir() if file.is_file())


@pytest.mark.parametrize("ledger", ["answers.jsonl", "l.sqlite", "first/judgements.jsonl"])
def test_a_ledger_and_its_exports_answer_without_a_key(
    inside: Cli, recorded: tuple[list[str], Ran], tmp_path: Path, ledger: str
) -> None:
    """The same scores to the byte, no call, and no ledger is made or changed."""
    words, first = recorded
    before, beside = (tmp_path / ledger).read_bytes(), _files_beside(tmp_path / ledger)
    ran = inside(*words, "--replay", ledger, "-o", "again")
    assert ran.code == 0, ran.err
    assert ran.json["scores"] == first.json["scores"]
    assert ran.json["judge"]["calls"] == 0
    assert ran.json["judge"]["cached"] == first.json["judge"]["calls"]
    assert (tmp_path / "again/scores.jsonl").read_bytes() == (tmp_path / "first/scores.jsonl").read_bytes()
    assert (tmp_path / ledger).read_bytes() == before
    assert _files_beside(tmp_path / ledger) == beside
    assert not (tmp_path / ".germane").exists()


def test_a_missing_answer_is_named_and_never_green(
    inside: Cli, recorded: tuple[list[str], Ran], tmp_path: Path
) -> None:
    """Exit 3 whatever may be unmeasured and whatever gate fails; the report says so when it is read again."""
    words, _ = recorded
    changed = {**ROWS[1], "contexts": [ROWS[1]["contexts"][0], {"text": "a new passage"}]}
    write_jsonl(tmp_path / "data.jsonl", ROWS[0], changed, ROWS[2])
    loose = ["--max-unmeasured", "1", "--fail-under", "mean(context_precision@5)>=1.1"]
    ran = inside(*words, "--replay", "answers.jsonl", "-o", "again", *loose, "-q")
    assert ran.code == 3
    assert ran.json["passed"] is False
    again = inside("report", "again")
    assert "2 answers are not in answers.jsonl" in again.out
    assert "1 of relevance" in again.out
    assert "1 of support" in again.out
    assert "germane ledger export" in " ".join(again.out.split())
    assert "no answer in it fits" not in again.out


def test_answers_of_another_judge_are_told_from_missing_ones(
    inside: Cli, recorded: tuple[list[str], Ran]
) -> None:
    """Here another URL, as where OPENAI_BASE_URL was set when they were asked."""
    words, _ = recorded
    ran = inside(*words, "--replay", "answers.jsonl", "-o", "again", "--base-url", "http://127.0.0.1:9/v1")
    said = " ".join(ran.json["verdict"])
    assert (ran.code, "no answer in it fits: the judge's model, URL (OPENAI_BASE_URL)" in said) == (3, True)


def test_a_missing_answer_stays_missing_when_the_run_is_continued(
    inside: Cli, recorded: tuple[list[str], Ran], tmp_path: Path
) -> None:
    """One of many does not turn green, however little it is."""
    words, _ = recorded
    write_jsonl(tmp_path / "data.jsonl", *ROWS, {**ROWS[0], "id": "new", "query": "something new"})
    loose = ["--max-unmeasured", "1", "-o", "again"]
    assert inside(*words, "--replay", "answers.jsonl", *loose).code == 3
    assert inside("run", "--resume", "again", "-q").code == 3
    assert inside("score", "again", "--fail-under", "max(context_recall)>=0").code == 3
    assert inside("score", "again", "-m", "context_recall").code == 3


def test_another_judge_has_no_answers(inside: Cli, recorded: tuple[list[str], Ran]) -> None:
    """All is missing, and the message says how to get them."""
    del recorded
    words = ["run", "data.jsonl", "-m", MEASURES, "--judge", "openai:gpt-4o-mini", "-q"]
    ran = inside(*words, "--replay", "answers.jsonl")
    assert ran.code == 3
    assert "germane ledger export" in ran.err


def test_a_dry_run_forecasts_what_is_missing(inside: Cli, recorded: tuple[list[str], Ran]) -> None:
    """Nothing is, for the answers that were recorded."""
    words, _ = recorded
    assert inside(*words, "--replay", "answers.jsonl", "--dry-run").json["requests"] == 0


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--replay", "none.jsonl"], "is not a file"),
        (["--replay", "first"], "is not a file"),
        (["--replay", "data.jsonl"], "data.jsonl:1: has no key"),
        (["--replay", "empty.sqlite"], "--replay empty.sqlite holds no answers; name a ledger"),
        (["--replay", "first/labels.jsonl"], "--replay first/labels.jsonl holds no answers; name a ledger"),
        (["--replay", "answers.jsonl", "--no-cache"], "cannot be combined"),
        (["--replay", "answers.jsonl", "--ledger", "l.sqlite"], "cannot be combined"),
        (["--replay", "answers.jsonl", "--resume", "first"], "cannot be combined"),
    ],
)
def test_what_cannot_be_replayed_is_said(
    inside: Cli, recorded: tuple[list[str], Ran], tmp_path: Path, flags: list[str], said: str
) -> None:
    """Exit 2, before anything is asked."""
    words, _ = recorded
    (tmp_path / "empty.sqlite").touch()
    ran = inside(*words, *flags)
    assert ran.code == 2
    assert said in ran.err


def test_python_replays_too(recorded: tuple[list[str], Ran], tmp_path: Path) -> None:
    """`evaluate(replay=)` has the same verdicts; a ledger beside it is refused."""
    words, first = recorded
    path, judge = tmp_path / "answers.jsonl", str(words[5])
    report = evaluate(ROWS, MEASURES, judge=judge, replay=path)
    assert report["context_recall"].mean == first.json["measures"]["context_recall"]["mean"]
    lacking = evaluate([{**ROWS[0], "query": "else"}], MEASURES, judge=judge, replay=path, max_unmeasured=1)
    assert lacking.verdict.exit_code == 3
    with pytest.raises(InputError):
        evaluate(ROWS, MEASURES, judge=judge, replay=path, ledger=path)
