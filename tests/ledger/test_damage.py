"""Damaged ledgers are refused with the command that saves what can be read; nothing damaged is believed."""

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from germane.errors import LedgerError
from germane.ledger.sqlite import SQLiteLedger
from germane.types import FrozenDict, Judgement, Usage

ROWS = 2000
PAGE = 4096
WAY_OUT = r"is damaged or not an SQLite file: .*; save what can be read: sqlite3 .*l\.sqlite \.recover \| sqlite3 NEW"


def judgement(n: int) -> Judgement:
    return Judgement(
        key=f"{n * 7919 % 2**31:08x}" * 4,
        item=f"{n:032x}",
        kind="relevance",
        judge="openai:test",
        prompt="abc",
        answer={"grade": n % 4, "reasoning": f"weil es so ist – ü {n} " * (60 if n % 100 == 0 else 2)},
        usage=Usage(requests=1, input_tokens=10, output_tokens=5, cost_usd=0.25),
        at="2026-01-01T00:00:00.000+00:00",
        provenance=FrozenDict({"mode": "schema"}),
    )


EVERYTHING = {j.key: j for j in map(judgement, range(ROWS))}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("whole") / "l.sqlite"
    with SQLiteLedger(path) as ledger:
        ledger.put(list(EVERYTHING.values()))
    return path


@pytest.fixture
def path(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copy(whole, tmp_path / "l.sqlite"))


def harm(path: Path, change: Callable[[bytearray], None]) -> None:
    data = bytearray(path.read_bytes())
    change(data)
    path.write_bytes(data)


def noise(data: bytearray) -> None:
    for page in (5, 40, 41):
        data[page * PAGE : (page + 1) * PAGE] = b"\xa5" * PAGE


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data.__setitem__(slice(0, PAGE), b"\0" * PAGE),
        lambda data: data.__setitem__(slice(0, None), b"a shopping list, not a ledger\n" * 500),
    ],
    ids=["no header", "text"],
)
def test_a_file_that_is_no_database_is_refused(path: Path, change: Callable[[bytearray], None]) -> None:
    """To write and to read: the problem and the command are named, and no byte is changed."""
    harm(path, change)
    before = path.read_bytes()
    for reading in (False, True):
        with pytest.raises(LedgerError, match=WAY_OUT):
            SQLiteLedger(path, read_only=reading)
    assert path.read_bytes() == before


def test_damage_is_noticed_when_the_page_is_read(path: Path) -> None:
    """No damaged answer is given."""
    harm(path, noise)
    with SQLiteLedger(path) as ledger, pytest.raises(LedgerError, match=WAY_OUT):
        ledger.find(list(EVERYTHING))


def test_an_answer_that_is_no_json_is_damage(path: Path) -> None:
    """The row is named as damage by a look-up."""
    db = sqlite3.connect(path)
    db.execute("UPDATE judgements SET answer = '{' WHERE item = ?", [judgement(7).item])
    db.commit()
    db.close()
    with SQLiteLedger(path) as ledger, pytest.raises(LedgerError, match=WAY_OUT):
        ledger.find([judgement(7).key])
