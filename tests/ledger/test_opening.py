"""Where a ledger is, is told as text: what opens it is one place, and any store with the same few methods will do."""

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from germane import evaluate
from germane.errors import InputError, LedgerError
from germane.ledger.sqlite import SQLiteLedger, address_from, is_there
from germane.ledger.store import Ledger

ROWS = [{"id": str(n), "query": "what is it", "contexts": [f"it is {n}", "it is not"]} for n in range(3)]
DATABASE = "mysql://me:secret@host/answers"


@pytest.mark.parametrize(
    "where", [DATABASE, "sqlite:///l.sqlite", "file:///l.sqlite", Path(DATABASE), "s3://x/y"]
)
def test_a_place_that_is_no_file_is_refused(
    where: str | Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not taken for a folder of that name. The message shows no password."""
    monkeypatch.chdir(tmp_path)
    for look in (SQLiteLedger, is_there, lambda ledger: evaluate(ROWS, "P@1", ledger=ledger)):
        with pytest.raises(
            InputError, match=r"a ledger cannot be stored at \w+://\.\.\.; write a file's path"
        ) as caught:
            look(where)
        assert "secret" not in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_a_file_is_opened_wherever_it_is_named_from(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It tells its own place, and is made unless one only looks."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(LedgerError, match="no ledger"):
        SQLiteLedger("l.sqlite", read_only=True)
    assert not is_there("~/l.sqlite")
    ledger: Ledger = SQLiteLedger("~/l.sqlite")
    ledger.close()
    assert ledger.place == str(tmp_path / "l.sqlite")
    assert is_there("l.sqlite")
    assert address_from(tmp_path, "~/l.sqlite") == address_from(tmp_path, "l.sqlite") == ledger.place
    assert address_from(tmp_path, DATABASE) == DATABASE


def test_a_small_write_is_a_write(tmp_path: Path) -> None:
    """The log grows: a full disk would be noticed."""
    ledger = SQLiteLedger(tmp_path / "l.sqlite")
    before = (tmp_path / "l.sqlite-wal").stat().st_size
    ledger.ready()
    assert (tmp_path / "l.sqlite-wal").stat().st_size > before
    ledger.close()


def test_a_new_ledger_is_opened_by_several_at_once(tmp_path: Path) -> None:
    """Whoever comes second waits for the first to make the table."""

    def opened(path: Path, barrier: threading.Barrier) -> None:
        barrier.wait()
        with SQLiteLedger(path) as ledger:
            ledger.ready()

    with ThreadPoolExecutor(4) as threads:
        for n in range(60):
            barrier = threading.Barrier(4)
            started = [threads.submit(opened, tmp_path / f"{n}.sqlite", barrier) for _ in range(4)]
            assert [one.result() for one in started] == [None] * 4


def test_a_file_that_cannot_be_opened(tmp_path: Path) -> None:
    """A folder of that name, or a disk that is read-only."""
    with pytest.raises(LedgerError, match="unable to open database file; name a file in a folder that can"):
        SQLiteLedger(tmp_path)
