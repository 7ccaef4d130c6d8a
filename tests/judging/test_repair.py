"""Ledgers that were damaged, or written by an older germane: nothing intact is lost, nothing damaged is believed."""

import shutil
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from germane.errors import LedgerError
from germane.judging.layout import FORMAT
from germane.judging.ledger import SQLiteLedger
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


def flipped(data: bytearray, at: int, value: int) -> None:
    data[at] = value


@pytest.mark.parametrize(
    ("at", "value"), [(16, 0x20), (16, 0x08), (16, 0), (17, 1), (19, 9), (20, 64), (47, 9), (59, 2), (100, 0)]
)
def test_a_damaged_byte_in_the_header_loses_nothing(path: Path, at: int, value: int) -> None:
    """Page size, reserved bytes, encoding: whatever SQLite is told, every answer is found page by page."""
    harm(path, lambda data: flipped(data, at, value))
    with pytest.raises(LedgerError, match="germane ledger check"):
        SQLiteLedger(path)
    assert not check(path).sound
    repair(path)
    assert contents(path) == EVERYTHING


def test_a_page_that_hides_others_is_noticed_when_the_ledger_is_opened(path: Path) -> None:
    """A count too small on an inner page makes half of the answers seem unknown: nothing is asked again for that."""
    harm(path, lambda data: flipped(data, PAGE + 4, 1))
    with pytest.raises(LedgerError, match="germane ledger check"):
        SQLiteLedger(path)
    assert repair(path).judgements > ROWS * 0.99


@pytest.mark.parametrize("apart", [1, 30])
def test_a_page_in_another_s_place_is_noticed_when_the_ledger_is_opened(path: Path, apart: int) -> None:
    """Each page is sound, yet a look-up would not find what stands on them: nothing is paid for again for that."""

    def swap(data: bytearray) -> None:
        leaves = [at for at in range(PAGE, len(data), PAGE) if data[at] == 0x0A]
        here, there = (slice(at, at + PAGE) for at in (leaves[5], leaves[5 + apart]))
        data[here], data[there] = data[there], data[here]

    harm(path, swap)
    with pytest.raises(LedgerError, match=r"germane ledger check"):
        SQLiteLedger(path)
    repair(path)
    assert contents(path) == EVERYTHING


def test_two_repairs_within_a_second_keep_both_files(path: Path) -> None:
    """What is kept is never overwritten."""
    kept = set()
    for _ in range(3):
        harm(path, lambda data: flipped(data, 16, 0))
        kept.add(repair(path).kept)
    assert len(kept) == 3
    assert all(file.exists() for file in kept)


def test_a_ledger_of_a_newer_germane_is_not_mended(path: Path) -> None:
    """Check and repair refuse it as every other use does, and it stays as it is."""
    with sqlite3.connect(path) as db:
        db.execute(f"PRAGMA user_version={FORMAT + 1}")
    db.close()
    before = path.read_bytes()
    for look in (check, repair, SQLiteLedger):
        with pytest.raises(LedgerError, match="newer germane"):
            look(path)
    assert path.read_bytes() == before
    assert [file.name for file in path.parent.iterdir()] == [path.name]


def test_another_database_is_not_mended(tmp_path: Path) -> None:
    """Somebody else's tables are named and left alone; so is an empty file, and a folder."""
    path, empty = tmp_path / "other.sqlite", tmp_path / "empty"
    with sqlite3.connect(path) as db:
        db.execute("CREATE TABLE recipes (name TEXT)")
    db.close()
    empty.touch()
    before = path.read_bytes()
    for look in (check, repair):
        with pytest.raises(LedgerError, match="is no ledger: it holds recipes"):
            look(path)
        with pytest.raises(LedgerError, match="is a folder"):
            look(tmp_path)
    with pytest.raises(LedgerError, match="is no ledger: it is empty"):
        check(empty)
    assert path.read_bytes() == before
    assert {file.name for file in tmp_path.iterdir()} == {"other.sqlite", "empty"}


def test_a_ledger_that_another_program_has_locked_is_sound(path: Path) -> None:
    """Check looks at a copy: a lock is no damage."""
    db = sqlite3.connect(path, isolation_level=None)
    db.execute("PRAGMA locking_mode=EXCLUSIVE")
    db.execute("BEGIN EXCLUSIVE")
    assert check(path).sound
    db.close()
