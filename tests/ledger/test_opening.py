"""Where a ledger is, is told as text: what opens it is one place, and any store with the same few methods will do."""

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from germane import evaluate
from germane.errors import InputError, LedgerError
from germane.judges import LLMJudge
from germane.ledger.address import address_from, is_there
from germane.ledger.sqlite import SQLiteLedger
from germane.ledger.store import Ledger
from germane.types import Judgement
from tests.command import invoke
from tests.server import ModelServer

ROWS = [{"id": str(n), "query": "what is it", "contexts": [f"it is {n}", "it is not"]} for n in range(3)]
DATABASE = "mysql://me:secret@host/answers"


class Memory:
    """A ledger that is not a file."""

    place = "memory"

    def __init__(self) -> None:
        self.rows: dict[str, Judgement] = {}
        self.looked = 0

    def ready(self) -> None:
        self.looked += 1

    def find(self, keys: Sequence[str]) -> dict[str, Judgement]:
        return {key: self.rows[key] for key in keys if key in self.rows}

    def children(self, keys: Sequence[str]) -> list[Judgement]:
        return [row for row in self.rows.values() if row.parent in keys]

    def put(
        self, judgements: Sequence[Judgement], *, replacing: Sequence[Judgement] = ()
    ) -> dict[str, Judgement]:
        for one in replacing:
            if self.rows.get(one.key) == one:
                del self.rows[one.key]
        return {one.key: self.rows.setdefault(one.key, one) for one in judgements}

    def close(self) -> None:
        """Whoever made it keeps it."""


def test_any_store_of_judgements_is_a_ledger() -> None:
    """What is known there is not asked again; whether it can be written is tried before anything is paid."""
    ledger = Memory()
    with ModelServer() as server:
        judge = LLMJudge("openai:test", base_url=server.url, api_key="k")
        first = evaluate(ROWS, "context_precision@2", judge=judge, ledger=ledger)
        assert (ledger.looked, len(ledger.rows)) == (1, server.count) == (1, 4)
        again = evaluate(ROWS, "context_precision@2", judge=judge, ledger=ledger)
        assert (ledger.looked, server.count) == (1, 4)
    assert again["context_precision@2"].mean == first["context_precision@2"].mean
    assert again.manifest["judge"]["cached"] == 4


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
            InputError, match=r"a ledger cannot be kept at \w+://\.\.\.; write a file's path"
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


@pytest.mark.parametrize(
    "text",
    [
        "host=db user=me password=secret dbname=answers",
        "dbname=answers password='secret'",
        "application_name=x password=secret",
        "postgresql:me:secret@host/answers",
    ],
)
def test_a_connection_string_is_no_file(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is refused, without being shown: it may hold a password."""
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="PGPASSWORD") as found:
        SQLiteLedger(text)
    assert "secret" not in str(found.value)
    monkeypatch.setenv("GERMANE_LEDGER", text)
    ran = invoke("ledger", "stats")
    assert (ran.code, "secret" in ran.out + ran.err, list(tmp_path.iterdir())) == (2, False, [])
