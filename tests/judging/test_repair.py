"""Ledgers that were damaged, or written by an older germane: nothing intact is lost, nothing damaged is believed."""

import json
import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from germane.errors import LedgerError
from germane.judging.ledger import FORMAT, SQLiteLedger
from germane.judging.repair import check, repair
from germane.types import FrozenDict, Judgement, Usage

ROWS = 2000
PAGE = 4096


def judgement(n: int) -> Judgement:
    return Judgement(
        key=f"{n * 7919 % 2**31:08x}" * 4,
        kind="relevance",
        judge="openai:test",
        prompt="abc",
        answer={"grade": n % 4, "reasoning": f"weil es so ist – ü {n} " * (60 if n % 100 == 0 else 2)},
        usage=Usage(requests=1, input_tokens=10, output_tokens=5, cost_usd=0.25),
        at="2026-01-01T00:00:00.000+00:00",
        provenance=FrozenDict({"rung": "schema"}),
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


def contents(path: Path) -> dict[str, Judgement]:
    with SQLiteLedger(path) as ledger:
        return ledger.get(list(EVERYTHING))


def test_a_sound_ledger_is_sound(path: Path) -> None:
    """Every judgement counted, nothing wrong, nothing changed."""
    found = check(path)
    assert (found.sound, found.judgements) == (True, ROWS)


def test_pages_that_were_overwritten_cost_only_what_stood_on_them(path: Path) -> None:
    """Three pages of noise: check names the damage, repair keeps all other answers, equal, and the old file."""

    def noise(data: bytearray) -> None:
        for page in (5, 40, 41):
            data[page * PAGE : (page + 1) * PAGE] = b"\xa5" * PAGE

    harm(path, noise)
    found = check(path)
    assert not found.sound
    damaged = path.read_bytes()
    done = repair(path)
    left = contents(path)
    assert check(path).sound
    assert len(left) == done.judgements > ROWS * 0.9
    assert all(EVERYTHING[key] == one for key, one in left.items())
    assert done.kept.read_bytes() == damaged
    assert ".damaged-" in done.kept.name


def test_a_lost_header_loses_nothing(path: Path) -> None:
    """The first page holds no answers: SQLite calls the file no database, and everything is recovered."""
    harm(path, lambda data: data.__setitem__(slice(0, PAGE), b"\0" * PAGE))
    with pytest.raises(LedgerError, match="germane ledger check"):
        SQLiteLedger(path)
    assert not check(path).sound
    repair(path)
    assert contents(path) == EVERYTHING


def test_a_file_that_was_cut_keeps_its_first_part(path: Path) -> None:
    """Half of the file is gone: about half of the answers are not."""
    harm(path, lambda data: data.__delitem__(slice(len(data) // 2, None)))
    assert not check(path).sound
    left = repair(path).judgements
    assert ROWS * 0.4 < left < ROWS * 0.7
    assert all(EVERYTHING[key] == one for key, one in contents(path).items())


def test_a_flipped_letter_in_an_answer_is_noticed(path: Path) -> None:
    """SQLite sees nothing wrong; the checksum does: the answer is not believed, and repair drops it alone."""

    def flip(data: bytearray) -> None:
        at = data.index(b'{"grade":3') + len('{"grade":')
        data[at : at + 1] = b"0"

    harm(path, flip)
    assert any("is damaged" in problem for problem in check(path).problems)
    with SQLiteLedger(path) as ledger, pytest.raises(LedgerError, match=r"is damaged.*germane ledger check"):
        ledger.get(list(EVERYTHING))
    assert repair(path).judgements == ROWS - 1
    assert contents(path).items() <= EVERYTHING.items()


def test_answers_in_the_log_are_recovered(path: Path, tmp_path: Path) -> None:
    """What was committed and stands only in the write-ahead log is found although the file's header is lost."""
    late = judgement(ROWS + 1)
    ledger = SQLiteLedger(path)
    ledger.put([late])
    copy = tmp_path / "copy.sqlite"
    shutil.copy(path, copy)
    shutil.copy(path.with_name("l.sqlite-wal"), tmp_path / "copy.sqlite-wal")
    ledger.close()
    harm(copy, lambda data: data.__setitem__(slice(0, PAGE), b"\0" * PAGE))
    repair(copy)
    with SQLiteLedger(copy) as mended:
        assert mended.get([late.key]) == {late.key: late}
        assert len(mended) == ROWS + 1


def test_a_file_that_never_was_a_ledger_gives_nothing_and_stays(tmp_path: Path) -> None:
    """Repairing a text file yields an empty ledger beside the untouched file."""
    path = tmp_path / "l.sqlite"
    path.write_text("a shopping list, not a ledger\n" * 500)
    done = repair(path)
    assert done.judgements == 0
    assert done.kept.read_text().startswith("a shopping list")


FIRST_FORMAT = """
CREATE TABLE judgements (
    key BLOB PRIMARY KEY, kind TEXT NOT NULL, judge TEXT NOT NULL, prompt TEXT NOT NULL, answer TEXT NOT NULL,
    requests INTEGER NOT NULL, input_tokens INTEGER NOT NULL, output_tokens INTEGER NOT NULL, cost_usd REAL,
    ms REAL, at TEXT, provenance TEXT NOT NULL
) WITHOUT ROWID
"""


def write_first_format(path: Path, count: int) -> None:
    db = sqlite3.connect(path)
    db.execute("PRAGMA journal_mode=WAL")
    db.execute(FIRST_FORMAT)
    db.execute("PRAGMA user_version=1")
    for one in map(judgement, range(count)):
        used = one.usage
        row = (
            bytes.fromhex(one.key), one.kind, one.judge, one.prompt, json.dumps(one.answer, ensure_ascii=False),
            used.requests, used.input_tokens, used.output_tokens, used.cost_usd, one.ms, one.at,
            json.dumps(one.provenance),
        )  # fmt: skip
        db.execute(f"INSERT INTO judgements VALUES ({','.join('?' * 12)})", row)
    db.commit()
    db.close()


def test_a_ledger_of_the_first_format_opens(tmp_path: Path) -> None:
    """Its answers are found as they were, new ones are added, and the file has the new format from then on."""
    path = tmp_path / "l.sqlite"
    write_first_format(path, 50)
    with SQLiteLedger(path) as ledger:
        first = {one.key: one for one in map(judgement, range(50))}
        assert ledger.get(list(first)) == first
        ledger.put([judgement(50)])
        assert ledger.format == FORMAT
    with SQLiteLedger(path) as ledger:
        assert len(ledger) == 51
    assert check(path).sound


def test_a_damaged_ledger_of_the_first_format_is_recovered(tmp_path: Path) -> None:
    """Its rows have no checksum; those that can be read are kept."""
    path = tmp_path / "l.sqlite"
    write_first_format(path, 500)
    harm(path, lambda data: data.__setitem__(slice(0, PAGE), b"\0" * PAGE))
    repair(path)
    assert contents(path) == {one.key: one for one in map(judgement, range(500))}
