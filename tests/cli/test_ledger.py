"""`germane ledger`: what is in it, out and in again, what is not wanted any more, is it whole."""

import json
from pathlib import Path

import pytest

from germane.judging.ledger import SQLiteLedger
from germane.types import Judgement, Usage
from tests.cli.conftest import Cli, write_jsonl

GRADED = [
    {"id": f"q{n}", "query": f"thing {n}", "contexts": [{"text": f"thing {n} is good {k}"} for k in range(3)]}
    for n in range(4)
]


def answer(
    n: int, judge: str = "openai:test", kind: str = "relevance", cost: float | None = 0.25
) -> Judgement:
    return Judgement(
        key=f"{n:032x}",
        kind=kind,
        judge=judge,
        prompt="abc",
        answer={"grade": n % 4, "reasoning": "ü"},
        usage=Usage(requests=1, input_tokens=10, output_tokens=5, cost_usd=cost),
        at=f"2026-01-{n + 1:02}T00:00:00.000+00:00",
    )


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    path = tmp_path / "l.sqlite"
    with SQLiteLedger(path) as made:
        made.put([answer(n) for n in range(6)])
        made.put([answer(n, "ollama:small", "claims", None) for n in range(6, 9)])
    return path


def count(path: Path) -> int:
    with SQLiteLedger(path) as found:
        return len(found)


def test_stats_count_by_judge_kind_and_prompt(cli: Cli, ledger: Path) -> None:
    """Judgements, tokens, cost, size, oldest and newest; a price that is not known is counted, not 0."""
    found = cli("ledger", "stats", "--ledger", ledger, "--json").json
    assert (found["judgements"], found["requests"], found["tokens"]) == (9, 9, {"input": 90, "output": 45})
    assert (found["cost_usd"], found["unpriced"]) == (1.5, 3)
    assert (found["oldest"][:10], found["newest"][:10]) == ("2026-01-01", "2026-01-09")
    assert [(line["judge"], line["kind"], line["judgements"]) for line in found["lines"]] == [
        ("ollama:small", "claims", 3),
        ("openai:test", "relevance", 6),
    ]
    assert found["bytes"] > 0
    shown = cli("ledger", "stats", "--ledger", ledger).out
    assert "9 judgements" in shown
    assert "3 judgements have no known price" in shown


def test_looking_makes_no_ledger(cli: Cli, tmp_path: Path) -> None:
    """Stats, export, prune and check of a ledger that does not exist: exit 2, its name, and still no file."""
    for words in (["stats"], ["export"], ["prune", "--kind", "claims"], ["check"]):
        ran = cli("ledger", *words, "--ledger", "none.sqlite")
        assert ran.code == 2
        assert "there is no ledger none.sqlite" in ran.err
    assert not (tmp_path / "none.sqlite").exists()


def test_what_is_exported_is_imported_equal(cli: Cli, ledger: Path, tmp_path: Path) -> None:
    """Out of one ledger and into another: every judgement equal, a second import adds nothing."""
    assert cli("ledger", "export", "-o", "all.jsonl", "--ledger", ledger).code == 0
    first = cli("ledger", "import", "all.jsonl", "--ledger", "new.sqlite")
    assert "9 added, 0 known already" in first.err
    again = cli("ledger", "import", "all.jsonl", "--ledger", "new.sqlite")
    assert "0 added, 9 known already" in again.err
    keys = [f"{n:032x}" for n in range(9)]
    with SQLiteLedger(ledger) as one, SQLiteLedger(tmp_path / "new.sqlite") as other:
        assert one.get(keys) == other.get(keys)


def test_the_first_answer_stays_when_another_is_imported(cli: Cli, ledger: Path, tmp_path: Path) -> None:
    """An import never changes an answer that is there."""
    row = {
        "key": f"{1:032x}",
        "kind": "relevance",
        "judge": "openai:test",
        "answer": {"grade": 3, "reasoning": "new"},
    }
    write_jsonl(tmp_path / "other.jsonl", row)
    assert "0 added, 1 known already" in cli("ledger", "import", "other.jsonl", "--ledger", ledger).err
    with SQLiteLedger(ledger) as found:
        assert found.get([f"{1:032x}"])[f"{1:032x}"] == answer(1)


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        (["--judge", "ollama:small"], 3),
        (["--kind", "relevance"], 6),
        (["--since", "2026-01-05T00:00:00+00:00"], 5),
        (["--kind", "relevance", "--since", "2026-01-05T00:00:00+00:00"], 2),
    ],
)
def test_an_export_takes_what_is_asked_for(cli: Cli, ledger: Path, filters: list[str], expected: int) -> None:
    """Filters by judge, kind and date hold together; without -o the lines go to stdout."""
    rows = [
        json.loads(line) for line in cli("ledger", "export", *filters, "--ledger", ledger).out.splitlines()
    ]
    assert len(rows) == expected


def test_a_line_that_is_no_judgement_is_named(cli: Cli, ledger: Path, tmp_path: Path) -> None:
    """Exit 2 with file and line."""
    (tmp_path / "bad.jsonl").write_text('{"key": "00", "kind": "relevance"}\n')
    ran = cli("ledger", "import", "bad.jsonl", "--ledger", ledger)
    assert ran.code == 2
    assert 'bad.jsonl:1: key cannot be "00"; write 32 hexadecimal digits' in ran.err
    assert cli("ledger", "export", "--since", "yesterday", "--ledger", ledger).code == 2


def test_prune_deletes_what_is_named_and_nothing_else(cli: Cli, ledger: Path) -> None:
    """Without a filter it refuses; --dry-run only counts; filters hold together."""
    ran = cli("ledger", "prune", "--ledger", ledger)
    assert ran.code == 2
    assert "not told what to delete" in ran.err
    ran = cli("ledger", "prune", "--kind", "claims", "--dry-run", "--ledger", ledger)
    assert "3 judgements would be deleted" in ran.err
    assert count(ledger) == 9
    assert cli("ledger", "prune", "--kind", "claims", "--ledger", ledger).code == 0
    assert count(ledger) == 6
    cli(
        "ledger",
        "prune",
        "--judge",
        "openai:test",
        "--before",
        "2026-01-03T00:00:00+00:00",
        "--ledger",
        ledger,
    )
    assert count(ledger) == 4


def test_a_damaged_ledger_stops_a_run_and_is_mended(cli: Cli, tmp_path: Path) -> None:
    """Run: exit 2 and the command to use. Check: exit 1. Repair: exit 0, and the run asks only what was lost."""
    data = write_jsonl(tmp_path / "data.jsonl", *GRADED)
    run = ["run", data, "-m", "context_precision@3", "--judge", "lexical", "--ledger", "l.sqlite", "--json"]
    assert cli(*run).json["judge"]["calls"] == 12
    path = tmp_path / "l.sqlite"
    path.write_bytes(b"\0" * 4096 + path.read_bytes()[4096:])
    ran = cli(*run)
    assert ran.code == 2
    assert "germane ledger check --ledger l.sqlite" in ran.err
    assert cli("ledger", "check", "--ledger", "l.sqlite").code == 1
    mended = cli("ledger", "check", "--repair", "--ledger", "l.sqlite", "--json")
    assert mended.code == 0
    assert mended.json["repaired"]["judgements"] == 12
    assert Path(tmp_path / mended.json["repaired"]["kept"]).exists()
    assert cli("ledger", "check", "--ledger", "l.sqlite").out.startswith("l.sqlite is sound: 12 judgements")
    assert cli(*run).json["judge"]["calls"] == 0


def test_a_report_s_judgements_fill_a_ledger(cli: Cli, tmp_path: Path) -> None:
    """The answers in somebody's report folder, imported: a run on the same data asks nothing."""
    data = write_jsonl(tmp_path / "data.jsonl", *GRADED)
    run = ["run", data, "-m", "context_precision@3", "--judge", "lexical", "--json"]
    cli(*run, "--ledger", "mine.sqlite", "-o", "report")
    cli("ledger", "import", "report/judgements.jsonl", "--ledger", "yours.sqlite")
    assert cli(*run, "--ledger", "yours.sqlite").json["judge"]["calls"] == 0
