"""`germane ledger`: what is in it, out and in again, what is not wanted any more, is it whole."""

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from msgspec.structs import replace

from germane.judges.lexical import LexicalJudge
from germane.ledger.sqlite import SQLiteLedger
from germane.types import FrozenDict, Judgement, Usage
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


def files(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def count(path: Path) -> int:
    with SQLiteLedger(path) as found:
        return len(found)


def test_stats_count_by_judge_and_kind(inside: Cli, ledger: Path) -> None:
    """Judgements, tokens, cost and size; a price that is not known is counted, not 0."""
    found = inside("ledger", "stats", "--ledger", ledger, "--json").json
    assert (found["judgements"], found["cost_usd"]) == (9, 1.5)
    assert [
        (line["judge"], line["kind"], line["judgements"], line["unpriced"]) for line in found["lines"]
    ] == [
        ("ollama:small", "claims", 3, 3),
        ("openai:test", "relevance", 6, 0),
    ]
    assert found["bytes"] > 0
    shown = inside("ledger", "stats", "--ledger", ledger).out
    assert "9 judgements" in shown
    assert shown.endswith("  $1.5000\n")
    assert "  price unknown\n" in shown


def test_an_unknown_price_is_no_price_of_nothing(inside: Cli, tmp_path: Path) -> None:
    """Answers that shared a request cost 0: where no request has a price, neither has the sum; else both are said."""
    shared = replace(answer(1), usage=Usage(cost_usd=0.0))
    with SQLiteLedger(tmp_path / "l.sqlite") as made:
        made.put([answer(0, cost=None), shared])
    stats = ("ledger", "stats", "--ledger", "l.sqlite")
    found = inside(*stats, "--json").json
    assert found["cost_usd"] is None
    assert (found["lines"][0]["cost_usd"], found["lines"][0]["unpriced"]) == (None, 1)
    assert inside(*stats).out.endswith("  price unknown\n")
    with SQLiteLedger(tmp_path / "l.sqlite") as made:
        made.put([answer(2)])
    found = inside(*stats, "--json").json
    assert found["cost_usd"] == 0.25
    assert inside(*stats).out.endswith("  $0.2500 and 1 of unknown price\n")


def test_looking_makes_no_ledger(inside: Cli, tmp_path: Path) -> None:
    """Stats and export of a ledger that does not exist: exit 2, its name, and still no file."""
    for words in (["stats"], ["export"]):
        ran = inside("ledger", *words, "--ledger", "none.sqlite")
        assert ran.code == 2
        assert "no ledger none.sqlite" in ran.err
        assert "--ledger FILE" in ran.err
    assert not (tmp_path / "none.sqlite").exists()


def test_what_is_exported_is_imported_equal(inside: Cli, ledger: Path, tmp_path: Path) -> None:
    """Out of one ledger and into another: every judgement equal, a second import adds nothing."""
    assert inside("ledger", "export", "-o", "all.jsonl", "--ledger", ledger).code == 0
    first = inside("ledger", "import", "all.jsonl", "--ledger", "new.sqlite")
    assert "9 added, 0 known already" in first.err
    again = inside("ledger", "import", "all.jsonl", "--ledger", "new.sqlite")
    assert "0 added, 9 known already" in again.err
    keys = [f"{n:032x}" for n in range(9)]
    with SQLiteLedger(ledger) as one, SQLiteLedger(tmp_path / "new.sqlite") as other:
        assert one.find(keys) == other.find(keys)


def test_the_first_answer_stays_when_another_is_imported(inside: Cli, ledger: Path, tmp_path: Path) -> None:
    """An import never changes an answer that is there."""
    row = {
        "key": f"{1:032x}",
        "kind": "relevance",
        "judge": "openai:test",
        "answer": {"grade": 3, "reasoning": "new"},
    }
    write_jsonl(tmp_path / "other.jsonl", row)
    assert "0 added, 1 known already" in inside("ledger", "import", "other.jsonl", "--ledger", ledger).err
    with SQLiteLedger(ledger) as found:
        assert found.find([f"{1:032x}"])[f"{1:032x}"] == answer(1)


def test_a_line_that_is_no_judgement_is_named(inside: Cli, ledger: Path, tmp_path: Path) -> None:
    """Exit 2 with file and line."""
    (tmp_path / "bad.jsonl").write_text('{"key": "00", "kind": "relevance", "judge": "m", "answer": 1}\n')
    ran = inside("ledger", "import", "bad.jsonl", "--ledger", ledger)
    assert ran.code == 2
    assert "bad.jsonl:1: the line is not a judgement: the field 'key' is not 32 hexadecimal digits" in ran.err


def test_a_damaged_ledger_stops_a_run(inside: Cli, tmp_path: Path) -> None:
    """Exit 2 and the command that saves what can be read; the file stays as it is."""
    data = write_jsonl(tmp_path / "data.jsonl", *GRADED)
    run = ["run", data, "-m", "context_precision@3", "--judge", "lexical", "--ledger", "l.sqlite", "--json"]
    assert inside(*run).json["judge"]["calls"] == 12
    path = tmp_path / "l.sqlite"
    path.write_bytes(b"\0" * 4096 + path.read_bytes()[4096:])
    before = path.read_bytes()
    command = "save what can be read: sqlite3 l.sqlite .recover | sqlite3 NEW.sqlite"
    ran = inside(*run)
    assert (ran.code, command in ran.err) == (2, True)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("version", "said"),
    [
        (3, "germane ledger import REPORT/judgements.jsonl"),
        (1, "older germane (format 1"),
        (99, "newer germane (format 99"),
    ],
)
def test_a_ledger_of_another_version_is_never_rewritten(
    inside: Cli, ledger: Path, version: int, said: str
) -> None:
    """Whatever the verb or flag: exit 2, the version and the way out, and no byte is changed."""
    with sqlite3.connect(ledger) as db:
        db.execute(f"PRAGMA user_version={version}")
    db.close()
    write_jsonl(ledger.parent / "data.jsonl", *GRADED)
    run = ("run", "data.jsonl", "-m", "context_precision@3", "--judge", "lexical")
    before = ledger.read_bytes()
    for words in (
        ("ledger", "stats"),
        ("ledger", "export"),
        ("ledger", "import", "data.jsonl"),
        run,
        (*run, "--dry-run"),
    ):
        ran = inside(*words, "--ledger", ledger)
        assert (ran.code, said in ran.err) == (2, True), (words, ran.err)
        assert "name another file" in ran.err
        assert ledger.read_bytes() == before


def test_a_report_s_judgements_fill_a_ledger(inside: Cli, tmp_path: Path) -> None:
    """The answers in somebody's report folder, imported: a run on the same data asks nothing."""
    data = write_jsonl(tmp_path / "data.jsonl", *GRADED)
    run = ["run", data, "-m", "context_precision@3", "--judge", "lexical", "--json"]
    inside(*run, "--ledger", "mine.sqlite", "-o", "report")
    inside("ledger", "import", "report/judgements.jsonl", "--ledger", "yours.sqlite")
    assert inside(*run, "--ledger", "yours.sqlite").json["judge"]["calls"] == 0


def test_an_older_report_is_refused_and_what_was_paid_is_carried_over(inside: Cli, tmp_path: Path) -> None:
    """The error names two commands: with them a new run asks nobody, and has the labels."""
    row = {
        "id": "a",
        "query": "tide",
        "contexts": [{"id": "1", "text": "The tide is high."}, {"id": "2", "text": "Bread"}],
    }
    (tmp_path / "s.jsonl").write_text(json.dumps(row))
    run = ("run", "s.jsonl", "-m", "context_precision", "--judge", "lexical", "--json")
    assert inside(*run, "--ledger", "old.sqlite", "-o", "old").code == 0
    manifest = tmp_path / "old/manifest.json"
    labels = [{"sample": "a", "id": "1", "grade": 3}]
    write_jsonl(tmp_path / "labels.jsonl", *labels)
    assert inside("label", "old", "--import", "labels.jsonl", "--who", "ann").code == 0
    for older, said in (
        (3, "this germane reads format 4; keep"),
        (5, "update germane"),
        (None, "keep"),
        (True, "keep"),
    ):
        manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "schema_version": older}))
        for words in (
            ("report", "old"),
            ("score", "old", "-m", "RR"),
            ("run", "--resume", "old"),
            ("compare", "old", "old"),
        ):
            refused = inside(*words)
            assert (refused.code, f"old is a report of format {older}" in refused.err) == (2, True), (
                refused.err
            )
            assert said in refused.err
    carry, label = re.findall(r"germane ((?:ledger|label) [^;]+)", refused.err)
    assert inside(*carry.split(), "--ledger", "new.sqlite").code == 0
    again = inside(*run, "--ledger", "new.sqlite", "-o", "NEW_REPORT")
    assert again.json["judge"]["calls"] == 0
    assert inside(*label.split()).code == 0
    (kept,) = (json.loads(line) for line in (tmp_path / "NEW_REPORT/labels.jsonl").read_text().splitlines())
    assert (kept["answer"], kept["who"]) == (3, "ann")


def test_a_report_in_parquet_is_refused_and_its_judgements_are_carried_over(
    inside: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Earlier versions wrote such reports; the error names the two commands, and what was paid is found again.

    The lexical judge of now, which cuts words in another way, is not served what its version 2 said.
    """
    old = Path(__file__).parent.parent / "fixtures/report_in_parquet"
    refused = inside("report", old)
    assert refused.code == 2
    assert f"germane ledger import {old}/judgements.parquet" in refused.err
    assert f"--import {old}/labels.jsonl" in refused.err
    assert "10 added" in inside("ledger", "import", old / "judgements.parquet", "--ledger", "l.sqlite").err
    write_jsonl(
        tmp_path / "s.jsonl",
        {"id": "a", "query": "When is high tide?", "reference": "The tide is high at noon.", "contexts": ["The tide is high at noon.", "Bread"]},
        {"id": "b", "query": "How is bread made?", "reference": "Bread needs yeast.", "contexts": ["Bread needs yeast."]},
    )  # fmt: skip
    words = ("-m", "context_precision context_recall context_entity_recall", "--judge", "lexical", "--json")
    with monkeypatch.context() as patch:
        patch.setattr(LexicalJudge, "identity", FrozenDict(judge="lexical", version=2))
        judge = inside("run", "s.jsonl", *words, "--ledger", "l.sqlite").json["judge"]
    assert (judge["calls"], judge["cached"]) == (0, 10)
    judge = inside("run", "s.jsonl", *words, "--ledger", "l.sqlite").json["judge"]
    assert (judge["calls"], judge["cached"]) == (10, 0)


def test_an_export_never_overwrites_the_ledger(inside: Cli, ledger: Path, tmp_path: Path) -> None:
    """Nor its log, under whatever name."""
    (tmp_path / "link").symlink_to(ledger)
    with SQLiteLedger(ledger) as used:  # its files must not be opened here: that would end SQLite's locks
        used.put([answer(9)])
        own = [tmp_path / "l.sqlite", tmp_path / "l.sqlite-wal"]
        before = [(path.stat().st_ino, path.stat().st_size) for path in own]
        for name in ("l.sqlite", "l.sqlite-wal", "link"):
            ran = inside("ledger", "export", "-o", name, "--ledger", ledger)
            assert ran.code == 2
            assert "is the file of the ledger" in ran.err
        assert [(path.stat().st_ino, path.stat().st_size) for path in own] == before
    assert count(ledger) == 10


def test_an_export_through_a_link_leaves_the_link(cli: Cli, ledger: Path, tmp_path: Path) -> None:
    """As /dev/stdout is one, which a shell leads to a file."""
    (tmp_path / "all.jsonl").touch()
    (tmp_path / "link").symlink_to(tmp_path / "all.jsonl")
    assert cli("ledger", "export", "-o", "link", "--ledger", ledger).code == 0
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "all.jsonl").read_bytes()


def test_an_export_that_fails_leaves_the_earlier_one(cli: Cli, ledger: Path, tmp_path: Path) -> None:
    """A damaged answer on the way: exit 2, the file of yesterday is whole, and nothing half-written is left."""
    export = ("ledger", "export", "-o", "all.jsonl", "--ledger", ledger)
    assert cli(*export).code == 0
    before = (tmp_path / "all.jsonl").read_bytes()
    data = ledger.read_bytes()
    ledger.write_bytes(data.replace(b'{"grade":3', b'["grade":3', 1))
    ran = cli(*export)
    assert ran.code == 2
    assert "is damaged" in ran.err
    assert (tmp_path / "all.jsonl").read_bytes() == before
    assert not list(tmp_path.glob("*.part"))
    ledger.write_bytes(data)
    assert cli("ledger", "export", "-o", "/dev/stdout", "--ledger", ledger).out.count("\n") == 9


def test_half_a_surrogate_pair_goes_out_and_in(inside: Cli, tmp_path: Path) -> None:
    """What a judge wrote is exported whatever it is, and imported with U+FFFD in the place of the half."""
    odd = Judgement(
        key="ab" * 16, kind="relevance", judge="a", answer={"grade": 1, "reasoning": "half \ud83d"}
    )
    with SQLiteLedger(tmp_path / "l.sqlite") as one:
        one.put([odd])
    assert inside("ledger", "export", "-o", "a.jsonl", "--ledger", "l.sqlite").code == 0
    assert inside("ledger", "import", "a.jsonl", "--ledger", "m.sqlite").code == 0
    with SQLiteLedger(tmp_path / "m.sqlite") as other:
        assert other.find([odd.key])[odd.key].answer == {"grade": 1, "reasoning": "half \ufffd"}


def test_importing_a_missing_file_makes_no_ledger(inside: Cli, tmp_path: Path) -> None:
    """Exit 2 with its name, before anything is made."""
    ran = inside("ledger", "import", "none.jsonl", "--ledger", "l.sqlite")
    assert ran.code == 2
    assert "none.jsonl is not a readable file" in ran.err
    assert not files(tmp_path)


def test_what_is_no_ledger_is_left_alone(inside: Cli, tmp_path: Path) -> None:
    """An empty file, a folder and another program's database: exit 2, what it is, and no byte changed."""
    (tmp_path / "empty").touch()
    (tmp_path / "folder").mkdir()
    with sqlite3.connect(tmp_path / "other.db") as db:
        db.execute("CREATE TABLE recipes (name TEXT)")
    db.close()
    before = files(tmp_path)
    for words in (["stats"], ["export"]):
        for name, said in (
            ("empty", "is empty"),
            ("folder", "unable to open"),
            ("other.db", "its tables are recipes"),
        ):
            ran = inside("ledger", *words, "--ledger", name)
            assert ran.code == 2, (words, name)
            assert said in ran.err
    assert files(tmp_path) == before


def test_a_ledger_where_nobody_can_write_is_read(ledger: Path) -> None:
    """Stats and export work in a folder and on a file that are read-only, and leave them as they are."""
    folder = Path(tempfile.mkdtemp())
    try:
        shutil.copy(ledger, folder / "l.sqlite")
        (folder / "l.sqlite").chmod(0o444)
        folder.chmod(0o555)
        for verb, said in (
            ("stats", "9 judgements"),
            ("export", '"key"'),
        ):
            done = as_nobody("ledger", verb, "--ledger", str(folder / "l.sqlite"))
            assert said in done.stdout, done.stderr
            assert done.returncode == 0
        assert [path.name for path in folder.iterdir()] == ["l.sqlite"]
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)


def as_nobody(*words: str) -> subprocess.CompletedProcess[str]:
    """As somebody whom permissions hold back, which root is not without ado."""
    held_back = ["setpriv", "--bounding-set=-dac_override"] if os.geteuid() == 0 else []
    return subprocess.run(
        [*held_back, sys.executable, "-m", "germane", *words],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


@pytest.mark.parametrize("named", ["flag", "environment", "file"])
def test_a_tilde_is_the_home_folder(inside: Cli, ledger: Path, tmp_path: Path, named: str) -> None:
    """However the ledger is named."""
    home = tmp_path / "home"
    home.mkdir()
    ledger.rename(home / "l.sqlite")
    env = {"HOME": str(home), "USERPROFILE": str(home)}
    if named == "file":
        (tmp_path / "germane.toml").write_text('ledger = "~/l.sqlite"\n')
    if named == "environment":
        env["GERMANE_LEDGER"] = "~/l.sqlite"
    flag = ["--ledger=~/l.sqlite"] if named == "flag" else []
    ran = inside("ledger", "stats", *flag, env=env)
    assert ran.code == 0, ran.err
    assert "9 judgements" in ran.out
    assert not (tmp_path / "~").exists()


@pytest.mark.parametrize("told", ["flag", "environment", "config"])
def test_a_place_that_is_no_file_is_refused(inside: Cli, tmp_path: Path, told: str) -> None:
    """By every way to name a ledger, by every verb that uses one: exit 2, nothing asked, nothing made."""
    database, data = "mysql://me:secret@host/answers", write_jsonl(tmp_path / "data.jsonl", *GRADED)
    flags = ["--ledger", database] if told == "flag" else []
    env = {"GERMANE_LEDGER": database} if told == "environment" else {}
    if told == "config":
        (tmp_path / "germane.toml").write_text(f"ledger = {json.dumps(database)}\n")
    before = sorted(tmp_path.iterdir())
    asked = ("-m", "context_precision@2", "--judge", "lexical")
    for words in (
        ("run", data, *asked, "-o", "r"),
        ("run", data, *asked, "--dry-run"),
        ("ledger", "stats"),
        ("ledger", "import", data),
    ):
        ran = inside(*words, *flags, env=env, stdin=json.dumps(GRADED[0]))
        assert (ran.code, ran.out) == (2, ""), words
        assert "germane: a ledger cannot be stored at mysql://...; write a file's path" in ran.err
        assert "secret" not in ran.err
    assert sorted(tmp_path.iterdir()) == before
