"""The write-ahead log of a killed process: what was committed to it is never lost without a word."""

import shutil
import sqlite3
from pathlib import Path

import pytest

from germane.errors import LedgerError
from germane.judging.ledger import SQLiteLedger
from germane.judging.log import beside, damage_in_log
from germane.judging.repair import check, repair
from germane.types import Judgement
from tests.judging.test_repair import judgement

FRAME = 4096 + 24
ALL = {one.key: one for one in map(judgement, range(600))}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A file and its log as a killed process leaves them: half of the answers stand in the log only."""
    path = tmp_path_factory.mktemp("whole") / "l.sqlite"
    answers = list(ALL.values())
    with SQLiteLedger(path) as ledger:
        ledger.put(answers[:300])
        ledger.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
        ledger.db.execute("PRAGMA wal_autocheckpoint=0").fetchall()
        for start in range(300, 600, 50):
            ledger.put(answers[start : start + 50])
        killed = path.with_name("killed.sqlite")
        shutil.copy(path, killed)
        shutil.copy(beside(path), beside(killed))
    return killed


@pytest.fixture
def path(whole: Path, tmp_path: Path) -> Path:
    shutil.copy(beside(whole), beside(tmp_path / "l.sqlite"))
    return Path(shutil.copy(whole, tmp_path / "l.sqlite"))


def contents(path: Path) -> dict[str, Judgement]:
    with SQLiteLedger(path) as ledger:
        return ledger.get(list(ALL))


def flip(path: Path, at: int) -> None:
    log = bytearray(beside(path).read_bytes())
    log[at] ^= 1
    beside(path).write_bytes(log)


def both(path: Path) -> tuple[bytes, bytes]:
    return path.read_bytes(), beside(path).read_bytes()


def test_what_a_killed_process_left_is_all_there(path: Path) -> None:
    """Check counts the answers in the log and writes nothing; a run finds them all."""
    before = both(path)
    found = check(path)
    assert (found.sound, found.judgements) == (True, 600)
    assert both(path) == before
    assert contents(path) == ALL


@pytest.mark.parametrize("at", [0, 8, 20, 32 + 8, 32 + 24 + 2000, 32 + 40 * FRAME + 24 + 2000])
def test_a_damaged_log_loses_nothing(path: Path, at: int) -> None:
    """Nobody opens it, check changes nothing, repair finds what stands behind the damage and keeps both files."""
    flip(path, at)
    before = both(path)
    for reading in (False, True):
        with pytest.raises(LedgerError, match=r"write-ahead log.*germane ledger check"):
            SQLiteLedger(path, reading=reading)
    assert any("write-ahead log" in problem for problem in check(path).problems)
    assert both(path) == before
    done = repair(path)
    assert both(done.kept) == before
    assert contents(path) == ALL


def test_a_log_without_its_file_is_not_thrown_away(path: Path) -> None:
    """SQLite would delete it: nobody opens it, and repair finds the answers in it."""
    path.unlink()
    with pytest.raises(LedgerError, match=r"missing or empty.*germane ledger check"):
        SQLiteLedger(path)
    path.touch()
    assert not check(path).sound
    assert repair(path).judgements > 300


def test_a_log_that_a_crash_cut_off_is_no_damage(path: Path) -> None:
    """The last transaction was not finished: nobody was promised it."""
    log = beside(path).read_bytes()
    beside(path).write_bytes(log[: len(log) - FRAME - 1000])
    assert check(path).sound
    assert 500 <= len(contents(path)) < 600


def test_what_a_rolled_back_transaction_left_is_no_damage(tmp_path: Path) -> None:
    """Frames that were written early and never committed stand behind the next transaction's."""
    path = tmp_path / "any.sqlite"
    db = sqlite3.connect(path, isolation_level=None)
    for said in ("PRAGMA journal_mode=WAL", "PRAGMA cache_size=10", "CREATE TABLE t (x)", "BEGIN"):
        db.execute(said)
    for _ in range(100):
        db.execute("INSERT INTO t VALUES (randomblob(3000))")
    db.execute("ROLLBACK")
    left = beside(path).stat().st_size
    db.execute("INSERT INTO t VALUES (1)")
    assert beside(path).stat().st_size == left > 50 * FRAME
    assert damage_in_log(beside(path).read_bytes()) is None
    db.close()
