"""The ledger: what is committed stays, the first answer wins, several processes share one file."""

import multiprocessing
import os
import sqlite3
import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from msgspec.structs import replace

from germane.errors import LedgerError
from germane.ledger.sqlite import SQLiteLedger, find_ledger
from germane.ledger.store import FORMAT
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
        item="ab" * 16,
        request="r1",
        provenance=FrozenDict({"mode": "schema"}),
    )


def test_what_is_put_is_got_back_equal(tmp_path: Path) -> None:
    """A judgement comes back from disk, through another connection, as it went in."""
    SQLiteLedger(tmp_path / "l.sqlite").put([judgement()])
    assert SQLiteLedger(tmp_path / "l.sqlite").find([KEY]) == {KEY: judgement()}


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
    assert set(ledger.find(keys)) == set(keys[:1200])


def test_a_file_that_is_no_ledger_is_said_so(tmp_path: Path) -> None:
    """Any other file is refused by name, and left as it is."""
    path = tmp_path / "l.sqlite"
    path.write_text("this is not a database, it is a text of some length")
    with pytest.raises(LedgerError, match=r"l\.sqlite"):
        SQLiteLedger(path)
    assert path.read_text().startswith("this is not")


@pytest.mark.parametrize(("version", "said"), [(FORMAT + 1, "newer germane"), (3, "older germane .format 3")])
@pytest.mark.parametrize("reading", [False, True])
def test_another_version_is_refused_and_stays(tmp_path: Path, version: int, said: str, reading: bool) -> None:
    """A newer file asks for a newer germane, an older one's answers cannot be looked up; neither is changed."""
    path = tmp_path / "l.sqlite"
    SQLiteLedger(path).close()
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version={version}")
    db.close()
    before = path.read_bytes()
    with pytest.raises(LedgerError, match=said):
        SQLiteLedger(path, read_only=reading)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["l.sqlite"]


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


def test_an_answer_that_cannot_be_used_makes_room_for_a_new_one(tmp_path: Path) -> None:
    """Where the caller says so; what others have put in its place meanwhile stays."""
    ledger, other = SQLiteLedger(tmp_path / "l.sqlite"), SQLiteLedger(tmp_path / "l.sqlite")
    useless = judgement(grade=9)
    ledger.put([useless])
    assert ledger.put([judgement(grade=1)])[KEY] == useless
    stands = other.put([judgement(grade=2), judgement("1" * 32)], replacing=[useless])
    assert stands[KEY] == judgement(grade=2)
    assert ledger.put([judgement(grade=3)], replacing=[useless])[KEY] == judgement(grade=2)
    assert len(ledger) == 2


def test_looking_makes_and_changes_nothing(tmp_path: Path) -> None:
    """A missing file, an empty one and another database are refused and stay as they are."""
    with pytest.raises(LedgerError, match="no ledger"):
        SQLiteLedger(tmp_path / "none" / "l.sqlite", read_only=True)
    (tmp_path / "empty").touch()
    with pytest.raises(LedgerError, match="is not a ledger: it is empty"):
        SQLiteLedger(tmp_path / "empty", read_only=True)
    with pytest.raises(LedgerError, match="unable to open"):
        SQLiteLedger(tmp_path)
    assert [(file.name, file.stat().st_size) for file in tmp_path.iterdir()] == [("empty", 0)]
    SQLiteLedger(tmp_path / "empty").put([judgement()])
    with SQLiteLedger(tmp_path / "empty", read_only=True) as ledger:
        assert ledger.find([KEY]) == {KEY: judgement()}
        with pytest.raises(LedgerError, match="readonly"):
            ledger.put([judgement("1" * 32)])


@pytest.mark.parametrize("reading", [False, True])
def test_another_database_is_no_ledger(tmp_path: Path, reading: bool) -> None:
    """Its tables are named; it is not changed, not even its journal mode."""
    path = tmp_path / "other.sqlite"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE recipes (name TEXT)")
    db.close()
    before = path.read_bytes()
    with pytest.raises(LedgerError, match="is not a ledger: its tables are recipes"):
        SQLiteLedger(path, read_only=reading)
    assert path.read_bytes() == before


def test_a_locked_ledger_is_said_to_be_locked(tmp_path: Path) -> None:
    """Nothing is damaged: the message says that another program writes."""
    path = tmp_path / "l.sqlite"
    SQLiteLedger(path).close()
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with SQLiteLedger(path) as ledger:
        ledger.db.execute("PRAGMA busy_timeout=10").fetchone()
        with pytest.raises(LedgerError, match=r"locked; another program is writing"):
            ledger.put([judgement()])
    other.close()


def test_threads_use_one_object_at_once(tmp_path: Path) -> None:
    """Nobody's transaction meets another's: nothing fails, nothing is lost, and no row is seen before it is durable."""
    with SQLiteLedger(tmp_path / "l.sqlite") as ledger:

        def work(thread: int) -> None:
            for n in range(40):
                batch = [judgement(f"{thread:02x}{n:02x}{k:028x}") for k in range(20)]
                assert len(ledger.put(batch)) == 20
                assert len(ledger.find([one.key for one in batch])) == 20
                assert len(ledger)

        with ThreadPoolExecutor(4) as threads:
            assert len(list(threads.map(work, range(4)))) == 4
        assert len(ledger) == 4 * 40 * 20


def test_children_are_found_by_their_parent(tmp_path: Path) -> None:
    """The windows of a judgement are stored with it, under keys of their own."""
    windows = [replace(judgement(f"{n:032x}"), parent="f" * 32) for n in (2, 1)]
    with SQLiteLedger(tmp_path / "l.sqlite") as ledger:
        ledger.put([judgement("f" * 32), *windows])
        assert ledger.children(["f" * 32, KEY]) == windows[::-1]
        assert ledger.find(["f" * 32]) == {"f" * 32: judgement("f" * 32)}


def test_rows_can_be_read_without_germane(tmp_path: Path) -> None:
    """Plain columns, found by the item; answer and provenance are JSON."""
    with SQLiteLedger(tmp_path / "l.sqlite") as ledger:
        ledger.put([judgement()])
    db = sqlite3.connect(tmp_path / "l.sqlite")
    query = "SELECT key, judge, answer ->> 'grade', provenance ->> 'mode', request, cost_usd FROM judgements WHERE item = ?"
    assert db.execute(query, ["ab" * 16]).fetchall() == [(KEY, "fake", 2, "schema", "r1", 0.25)]
    assert "judgements_item" in str(db.execute(f"EXPLAIN QUERY PLAN {query}", ["x"]).fetchall())
    db.close()


def test_only_its_owner_reads_a_ledger(tmp_path: Path) -> None:
    """Mode 0600, the log's too, whatever the umask; the mode of a file that is there already stays."""
    path = tmp_path / "l.sqlite"
    before = os.umask(0)
    try:
        with SQLiteLedger(path) as ledger:
            ledger.put([judgement()])
            assert {stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()} == {0o600}
    finally:
        os.umask(before)
    path.chmod(0o640)
    SQLiteLedger(path).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_sync_that_fails_stops_the_next_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot reach the disk is not paid for any further."""

    def connect(_: Path) -> sqlite3.Connection:
        raise sqlite3.OperationalError("disk I/O error")

    with SQLiteLedger(tmp_path / "l.sqlite") as ledger:
        ledger.put([judgement()])
        monkeypatch.setattr("germane.ledger.sqlite._connect", connect)
        ledger._sync()
        with pytest.raises(LedgerError, match="disk I/O error"):
            ledger.put([judgement("1" * 32)])


def test_only_damage_is_called_damage(tmp_path: Path) -> None:
    """A ledger that was closed, or that we use wrongly, is not said to need mending."""
    ledger = SQLiteLedger(tmp_path / "l.sqlite")
    with pytest.raises(LedgerError) as caught, ledger.writing(), ledger.writing():
        pass
    assert "within a transaction" in str(caught.value)
    assert "damaged" not in str(caught.value)
    ledger.close()
    with pytest.raises(LedgerError) as caught:
        ledger.find([KEY])
    assert "closed" in str(caught.value)
    assert "damaged" not in str(caught.value)
