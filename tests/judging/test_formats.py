"""Ledgers that an older germane wrote: they open, their answers are as they were, and damage in them is noticed."""

import json
import sqlite3
from pathlib import Path
from zlib import crc32

import pytest

from germane.errors import LedgerError
from germane.judging.layout import FORMAT
from germane.judging.ledger import SQLiteLedger
from germane.judging.repair import check, repair
from germane.types import Judgement
from tests.judging.test_repair import harm, judgement

PAGE = 4096
TABLE = """
CREATE TABLE judgements (
    key BLOB PRIMARY KEY, kind TEXT NOT NULL, judge TEXT NOT NULL, prompt TEXT NOT NULL, answer TEXT NOT NULL,
    requests INTEGER NOT NULL, input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, cost_usd REAL,
    ms REAL, at TEXT, provenance TEXT NOT NULL
) WITHOUT ROWID
"""


def write(path: Path, version: int, count: int) -> dict[str, Judgement]:
    """A ledger as germane wrote it in format 1 (no checksum) or 2 (of key and answer)."""
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute(TABLE)
    if version == 2:
        db.execute("ALTER TABLE judgements ADD COLUMN checksum INTEGER")
    db.execute(f"PRAGMA user_version={version}")
    written = {one.key: one for one in map(judgement, range(count))}
    for one in written.values():
        used, key = one.usage, bytes.fromhex(one.key)
        answer = json.dumps(one.answer, ensure_ascii=False)
        row: tuple[object, ...] = (
            key, one.kind, one.judge, one.prompt, answer, used.requests, used.input_tokens, used.output_tokens,
            used.cost_usd, one.ms, one.at, json.dumps(one.provenance),
        )  # fmt: skip
        row = (*row, crc32(answer.encode(), crc32(key))) if version == 2 else row
        db.execute(f"INSERT INTO judgements VALUES ({','.join('?' * len(row))})", row)
    db.commit()
    db.close()
    return written


def rows(path: Path, columns: str = "*") -> list[tuple[object, ...]]:
    db = sqlite3.connect(path)
    try:
        return db.execute(f"SELECT {columns} FROM judgements ORDER BY key").fetchall()
    finally:
        db.close()


@pytest.mark.parametrize("version", [1, 2])
def test_an_older_ledger_opens(tmp_path: Path, version: int) -> None:
    """Answers as they were and never rewritten, new ones beside them; the file has the new format from then on."""
    path = tmp_path / "l.sqlite"
    first = write(path, version, 50)
    before = rows(path)
    with SQLiteLedger(path) as ledger:
        assert ledger.format == FORMAT
        assert ledger.get(list(first)) == first
        assert [row[: len(before[0])] for row in rows(path)] == before
        ledger.put([judgement(50)])
    with SQLiteLedger(path) as ledger:
        assert len(ledger) == 51
        assert ledger.get(list(first)) == first
    assert check(path).sound


@pytest.mark.parametrize("version", [1, 2])
def test_looking_does_not_change_the_format(tmp_path: Path, version: int) -> None:
    """An older ledger that is only read, or checked, stays what it is."""
    path = tmp_path / "l.sqlite"
    first = write(path, version, 50)
    before = path.read_bytes()
    with SQLiteLedger(path, reading=True) as ledger:
        assert ledger.get(list(first)) == first
    assert check(path).judgements == 50
    assert path.read_bytes() == before


@pytest.mark.parametrize("version", [1, 2])
def test_a_damaged_older_ledger_is_recovered(tmp_path: Path, version: int) -> None:
    """Without its header, every row that can be read is kept."""
    path = tmp_path / "l.sqlite"
    first = write(path, version, 500)
    harm(path, lambda data: data.__setitem__(slice(0, PAGE), b"\0" * PAGE))
    repair(path)
    with SQLiteLedger(path) as ledger:
        assert ledger.get(list(first)) == first


@pytest.mark.parametrize("version", [1, 2, FORMAT])
@pytest.mark.parametrize("says", [1, 2, FORMAT])
def test_a_number_of_format_that_is_wrong_costs_nothing(tmp_path: Path, version: int, says: int) -> None:
    """Whatever known format the header names, the columns say what is there."""
    path = tmp_path / "l.sqlite"
    if version == FORMAT:
        first = {one.key: one for one in map(judgement, range(50))}
        with SQLiteLedger(path) as ledger:
            ledger.put(list(first.values()))
    else:
        first = write(path, version, 50)
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version={says}")
    db.close()
    assert check(path).judgements == 50
    with SQLiteLedger(path) as ledger:
        assert ledger.get(list(first)) == first
        ledger.put([judgement(50)])


@pytest.mark.parametrize("says", [0, -1, 16, 188, 1 << 24])
def test_a_format_that_never_was_is_damage(tmp_path: Path, says: int) -> None:
    """The message names the command that mends it, and that loses nothing."""
    path = tmp_path / "l.sqlite"
    first = write(path, 2, 50)
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version={says}")
    db.close()
    with pytest.raises(LedgerError, match=r"is not known.*germane ledger check"):
        SQLiteLedger(path)
    assert not check(path).sound
    assert repair(path).judgements == 50
    with SQLiteLedger(path) as ledger:
        assert ledger.get(list(first)) == first


@pytest.mark.parametrize(
    "field", ["kind", "judge", "prompt", "at", "provenance", "cost_usd", "requests", "ms"]
)
def test_the_checksum_covers_the_whole_row(tmp_path: Path, field: str) -> None:
    """A change anywhere in a row that SQLite cannot see is noticed; the other rows are kept."""
    path = tmp_path / "l.sqlite"
    with SQLiteLedger(path) as ledger:
        ledger.put([judgement(n) for n in range(20)])
    key, other = (
        bytes.fromhex(judgement(3).key),
        {"cost_usd": 0.26, "requests": 2, "ms": 7.5}.get(field, "xyz"),
    )
    with sqlite3.connect(path) as db:
        db.execute(f"UPDATE judgements SET {field} = ? WHERE key = ?", (other, key))
    db.close()
    assert check(path).judgements == 19
    with SQLiteLedger(path) as ledger, pytest.raises(LedgerError, match="is damaged"):
        ledger.get([key.hex()])
    assert repair(path).judgements == 19
