"""The ledger: what is committed stays, the first answer wins, several processes share one file."""

import multiprocessing
import sqlite3
from pathlib import Path

import pytest

from germane.errors import LedgerError
from germane.judging.ledger import SQLiteLedger, find_ledger
from germane.types import FrozenDict, Judgement, Usage

KEY = "0" * 32


def judgement(key: str = KEY, grade: int = 2) -> Judgement:
    return Judgement(
        key=key,
        kind="relevance",
        judge="fake",
        prompt="abc",
        answer={"grade": grade, "reasoning": "weil es so ist – ü"},
        usage=Usage(requests=1, input_tokens=10, output_tokens=5, cost_usd=0.25),
        ms=1.5,
        at="2026-01-01T00:00:00.000+00:00",
        provenance=FrozenDict({"rung": "schema"}),
    )


def test_what_is_put_is_got_back_equal(tmp_path: Path) -> None:
    """A judgement comes back from disk, through another connection, as it went in."""
    SQLiteLedger(tmp_path / "l.sqlite").put([judgement()])
    assert SQLiteLedger(tmp_path / "l.sqlite").get([KEY]) == {KEY: judgement()}


def test_the_first_committed_answer_wins(tmp_path: Path) -> None:
    """A later answer to the same key is not stored, and the writer is told what stands."""
    ledger = SQLiteLedger(tmp_path / "l.sqlite")
    ledger.put([judgement(grade=2)])
    stands = ledger.put([judgement(grade=0), judgement("1" * 32)])
    assert stands[KEY].answer["grade"] == 2
    assert len(ledger) == 2


def test_many_keys_are_looked_up(tmp_path: Path) -> None:
    """More keys than one statement takes; unknown ones are left out."""
    ledger = SQLiteLedger(tmp_path / "l.sqlite")
    keys = [f"{n:032x}" for n in range(1203)]
    ledger.put([judgement(key) for key in keys[:1200]])
    assert set(ledger.get(keys)) == set(keys[:1200])


def test_a_file_that_is_no_ledger_is_said_so(tmp_path: Path) -> None:
    """Any other file is refused by name, and left as it is."""
    path = tmp_path / "l.sqlite"
    path.write_text("this is not a database, it is a text of some length")
    with pytest.raises(LedgerError, match=r"l\.sqlite"):
        SQLiteLedger(path)
    assert path.read_text().startswith("this is not")


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    """A ledger of a later version is not touched."""
    path = tmp_path / "l.sqlite"
    SQLiteLedger(path).close()
    with sqlite3.connect(path) as db:
        db.execute("PRAGMA user_version=99")
    db.close()
    with pytest.raises(LedgerError, match="newer"):
        SQLiteLedger(path)


def _write(path: Path, start: int) -> None:
    ledger = SQLiteLedger(path)
    for n in range(start, start + 50):
        ledger.put([judgement(f"{n:032x}")])
    ledger.close()


def test_processes_write_one_ledger_at_once(tmp_path: Path) -> None:
    """Four processes that write overlapping keys lose nothing and do not fail."""
    path = tmp_path / "l.sqlite"
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write, args=(path, start)) for start in (0, 25, 50, 75)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(60)
    assert [writer.exitcode for writer in writers] == [0, 0, 0, 0]
    assert len(SQLiteLedger(path)) == 125


def test_the_ledger_stands_beside_the_nearest_project_file(tmp_path: Path) -> None:
    """From a folder inside a project the project's ledger is found; elsewhere it is the folder's own."""
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "a" / "pyproject.toml").touch()
    assert find_ledger(inner) == tmp_path / "a" / ".germane" / "ledger.sqlite"
