"""Is a ledger whole, and if it is not: a fresh one with everything that is intact in the damaged file."""

from __future__ import annotations

import datetime
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

from germane.errors import LedgerError
from germane.judging.faults import damage_beside, explain, is_damage
from germane.judging.layout import COLUMNS, columns_of, from_row, names
from germane.judging.ledger import SQLiteLedger
from germane.judging.log import beside, files_of
from germane.judging.pages import rows_in
from germane.types import Json, Judgement

__all__ = ["Checked", "Repaired", "check", "repair"]

_BATCH = 1000
_PROBLEMS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What was found in a file: judgements that are sound, and what is wrong."""

    path: Path
    judgements: int
    problems: tuple[str, ...]

    @property
    def sound(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems

    def as_json(self) -> dict[str, Json]:
        """For `--json`."""
        found = {"ledger": str(self.path), "judgements": self.judgements, "problems": list(self.problems)}
        return {"schema_version": 1, "sound": self.sound, **found}


@dataclass(frozen=True, slots=True, kw_only=True)
class Repaired:
    """How many judgements a fresh ledger has from the damaged file, which is kept under another name."""

    path: Path
    judgements: int
    kept: Path


def check(path: Path) -> Checked:
    """Look at every page and every row, also of the log; nothing is changed: SQLite sees a copy only.

    Raises LedgerError where there is no such file, or it is another database, or of a newer germane.
    """
    path = path.expanduser()
    with _copied(path) as copy:
        problems = [found] if (found := damage_beside(copy)) else []
        sound = 0
        try:
            with closing(_opened(copy)) as db:
                columns = columns_of(db, path, new=bool(problems))
                by_sqlite = db.execute(f"PRAGMA integrity_check({_PROBLEMS})").fetchall()
                said = (line for (text,) in by_sqlite for line in text.splitlines())
                problems += [line for line in said if line != "ok" and not line.startswith("***")]
                for row in _rows(db, columns) if columns else ():
                    if isinstance(judgement := _read(row), Judgement):
                        sound += 1
                    else:
                        problems.append(judgement)
        except (sqlite3.Error, ValueError) as error:
            if not is_damage(error):
                raise explain(error, path) from error
            problems.append(str(error))
    return Checked(path=path, judgements=sound, problems=tuple(problems[:_PROBLEMS]))


def repair(path: Path) -> Repaired:
    """Write a fresh ledger with every sound row of the damaged file, and put it in its place.

    First through SQLite, as far as it can read, then page by page without it. The damaged file and its log stay
    beside it, byte for byte, as `.damaged-TIME`. Nothing else may be using the ledger. Raises LedgerError as
    `check` does.
    """
    path = path.expanduser()
    with _copied(path) as copy:
        rows = chain(_through_sqlite(copy, path), rows_in(_bytes(copy), _bytes(beside(copy))))
        first = next(rows, None)  # raises where the file is not ours, before anything is written
        fresh, kept = _beside(path, "fresh"), _beside(path, "damaged")
        try:
            count = _written(fresh, chain([] if first is None else [first], rows))
        except BaseException:
            for file in files_of(fresh):
                file.unlink(missing_ok=True)
            raise
    for file, name in zip(files_of(path), files_of(kept), strict=True):
        with suppress(FileNotFoundError):
            file.rename(name)
    fresh.rename(path)
    return Repaired(path=path, judgements=count, kept=kept)


def _written(fresh: Path, rows: Iterator[Any]) -> int:
    with closing(SQLiteLedger(fresh)) as ledger:
        for batch in _batches(rows):
            ledger.put(batch)
        with ledger.using():
            ledger.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return len(ledger)


def _beside(path: Path, what: str) -> Path:
    """A name for a file beside a ledger that none has yet."""
    stamp = datetime.datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    found, number = path.with_name(f"{path.name}.{what}-{stamp}"), 2
    while found.exists():
        found, number = path.with_name(f"{path.name}.{what}-{stamp}-{number}"), number + 1
    return found


@contextmanager
def _copied(path: Path) -> Iterator[Path]:
    """A copy of a ledger and its log, taken while neither changed.

    This process must not have the ledger open: to close one of its files ends SQLite's locks on it.
    """
    if path.is_dir():
        raise LedgerError(f"{path} is a folder; name the ledger's file in it")
    if not path.exists() and not beside(path).exists():
        raise LedgerError(f"there is no ledger {path}")
    with tempfile.TemporaryDirectory(prefix="germane-") as folder:
        copy = Path(folder) / "ledger.sqlite"
        for _ in range(20):
            before = _states(path)
            for original, copied in ((path, copy), (beside(path), beside(copy))):
                copied.unlink(missing_ok=True)
                with suppress(FileNotFoundError):
                    shutil.copyfile(original, copied)
            if _states(path) == before:
                break
            time.sleep(0.1)
        else:
            raise LedgerError(f"{path} is being written to; look at it when that has finished")
        yield copy


def _states(path: Path) -> list[tuple[int, int] | None]:
    found = (file.stat() if file.exists() else None for file in (path, beside(path)))
    return [state and (state.st_size, state.st_mtime_ns) for state in found]


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""


def _opened(copy: Path) -> sqlite3.Connection:
    """SQLite on a copy, which it leaves as it is: the log is not written back."""
    copy.touch()  # it may be that only the log is left
    return sqlite3.connect(f"{copy.as_uri()}?mode=ro", uri=True, isolation_level=None)


def _rows(
    db: sqlite3.Connection, columns: tuple[str, ...], low: bytes = b"", high: bytes | None = None
) -> Iterator[Any]:
    end = "" if high is None else "AND key < ?"
    values = [low] if high is None else [low, high]
    wanted = f"SELECT {names(columns)} FROM judgements WHERE key >= ? {end} ORDER BY key"  # noqa: S608 - constants
    return iter(db.execute(wanted, values))


def _through_sqlite(copy: Path, path: Path) -> Iterator[Any]:
    """Rows by ranges of keys: a range in which a page is damaged is halved until it gives what it has."""
    try:
        with closing(_opened(copy)) as db:
            if columns := columns_of(db, path, new=True):
                yield from _range(db, columns, 0, 1 << 16)
    except (sqlite3.Error, ValueError):
        return


def _range(db: sqlite3.Connection, columns: tuple[str, ...], low: int, high: int) -> Iterator[Any]:
    top = high.to_bytes(2, "big") if high < 1 << 16 else None
    try:
        yield from _rows(db, columns, low.to_bytes(2, "big"), top)
    except (sqlite3.Error, UnicodeError):
        if high - low > 1:
            middle = (low + high) // 2
            yield from _range(db, columns, low, middle)
            yield from _range(db, columns, middle, high)


def _batches(rows: Iterator[Any]) -> Iterator[list[Judgement]]:
    batch: list[Judgement] = []
    for row in rows:
        if isinstance(judgement := _read(row), Judgement):
            batch.append(judgement)
        if len(batch) >= _BATCH:
            yield batch
            batch = []
    yield batch


def _read(row: Any) -> Judgement | str:
    """The judgement in a row, or what is wrong with it."""
    width = len(COLUMNS)
    if len(row) == width - 1:  # as format 1 wrote it
        row = (*row, None)
    if len(row) != width or not isinstance(row[0], bytes) or len(row[0]) != 16:
        return "a row that is no judgement"
    try:
        judgement = from_row(row)
    except (ValueError, TypeError, AttributeError) as error:
        return str(error)
    texts = (judgement.kind, judgement.judge, judgement.prompt)
    return (
        judgement
        if all(isinstance(text, str) for text in texts)
        else f"{judgement.key}: no text where one belongs"
    )
