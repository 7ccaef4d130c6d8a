"""Looking after a ledger: statistics, a choice of its judgements to export or to delete, a check of the file."""

from __future__ import annotations

import datetime
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from germane.errors import InputError
from germane.ledger.files import explain, files_of, integrity, is_damage, open_for_reading
from germane.ledger.rows import COLUMNS, FORMAT, from_row
from germane.ledger.store import SQLiteLedger
from germane.types import Json, Judgement

__all__ = ["Checked", "Chosen", "Line", "Stats", "check", "chosen_rows", "count", "known", "moment", "prune", "shrink", "stats"]  # fmt: skip

_PROBLEMS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Which judgements: those that fit every condition that is given.

    `since` and `before` are moments as `moment` writes them; a judgement whose time is not known fits neither.
    """

    judge: str | None = None
    kind: str | None = None
    prompt: str | None = None
    since: str | None = None
    before: str | None = None

    def where(self) -> tuple[str, list[str]]:
        """The condition in SQL, and its values."""
        tests = {
            "judge = ?": self.judge,
            "kind = ?": self.kind,
            "prompt = ?": self.prompt,
            "at >= ?": self.since,
            "at < ?": self.before,
        }
        given = {test: value for test, value in tests.items() if value is not None}
        return " AND ".join(given) or "1", list(given.values())


def moment(text: str, flag: str) -> str:
    """A date or a time as the ledger writes it, in UTC; without a zone it is the local one."""
    try:
        found = datetime.datetime.fromisoformat(text).astimezone(datetime.UTC)
    except (ValueError, OverflowError):
        raise InputError(
            f"{flag} {text!r} is no date", fix=f"write {flag} 2026-11-21, or 2026-11-21T15:00"
        ) from None
    return found.isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What one judge answered to one kind of question with one prompt.

    `cost_usd` is the sum over requests of known price, None where no price is known; `unpriced` requests have none.
    """

    judge: str
    kind: str
    prompt: str
    judgements: int
    requests: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    unpriced: int
    oldest: str | None
    newest: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """What a ledger holds."""

    path: Path
    bytes: int
    lines: tuple[Line, ...]
    format: int = FORMAT

    @property
    def judgements(self) -> int:
        """How many."""
        return sum(line.judgements for line in self.lines)

    def as_json(self) -> dict[str, Json]:
        """For `--json`."""
        times = [time for line in self.lines for time in (line.oldest, line.newest) if time]
        costs = [line.cost_usd for line in self.lines if line.cost_usd is not None]
        return {
            "schema_version": 1,
            "ledger": str(self.path),
            "format": self.format,
            "bytes": self.bytes,
            "judgements": self.judgements,
            "requests": sum(line.requests for line in self.lines),
            "tokens": {
                "input": sum(line.input_tokens for line in self.lines),
                "output": sum(line.output_tokens for line in self.lines),
            },
            "cost_usd": sum(costs) if costs else None,
            "unpriced": sum(line.unpriced for line in self.lines),
            "oldest": min(times, default=None),
            "newest": max(times, default=None),
            "lines": [{name: getattr(line, name) for name in Line.__slots__} for line in self.lines],
        }


def stats(ledger: SQLiteLedger) -> Stats:
    """What a ledger holds, one line for each judge, kind and prompt.

    An answer that shared another's request has no request of its own and costs 0, which says nothing about a price.
    """
    query = """
        SELECT judge, kind, prompt, count(*), sum(requests), sum(input_tokens), sum(output_tokens),
               sum(CASE WHEN requests > 0 OR cost_usd > 0 THEN cost_usd END),
               sum(requests > 0 AND cost_usd IS NULL), min(at), max(at)
        FROM judgements GROUP BY judge, kind, prompt ORDER BY judge, kind, prompt
    """
    with ledger.using() as db:
        lines = tuple(Line(**dict(zip(Line.__slots__, row, strict=True))) for row in db.execute(query))
    size = sum(path.stat().st_size for path in files_of(ledger.path)[:2] if path.exists())
    return Stats(path=ledger.path, bytes=size, lines=lines)


def chosen_rows(ledger: SQLiteLedger, chosen: Chosen) -> Iterator[Judgement]:
    """The judgements chosen, in the order of their keys."""
    where, values = chosen.where()
    query = f"SELECT {', '.join(COLUMNS)} FROM judgements WHERE {where} ORDER BY key"  # noqa: S608 - constants and question marks
    with ledger.using() as db:
        yield from map(from_row, db.execute(query, values))


def known(ledger: SQLiteLedger) -> tuple[list[str], list[str]]:
    """The judges and the kinds of question that a ledger holds answers of."""
    with ledger.using() as db:
        found = db.execute("SELECT DISTINCT judge, kind FROM judgements").fetchall()
    return sorted({judge for judge, _ in found}), sorted({kind for _, kind in found})


def count(ledger: SQLiteLedger, chosen: Chosen) -> int:
    """How many judgements are chosen."""
    where, values = chosen.where()
    with ledger.using() as db:
        (found,) = db.execute(f"SELECT count(*) FROM judgements WHERE {where}", values).fetchone()  # noqa: S608 - constants and question marks
    return int(found)


def prune(ledger: SQLiteLedger, chosen: Chosen) -> int:
    """Delete the judgements chosen; how many there were. Their room is free for new ones: see `shrink`."""
    where, values = chosen.where()
    with ledger.writing() as db:
        return int(db.execute(f"DELETE FROM judgements WHERE {where}", values).rowcount)  # noqa: S608 - constants and question marks


def shrink(ledger: SQLiteLedger) -> None:
    """Give the room of deleted judgements back to the disk; LedgerError where there is no room to do it in."""
    with ledger.using() as db:
        db.execute("VACUUM")
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()


@dataclass(frozen=True, slots=True, kw_only=True)
class Checked:
    """What was found in a file: judgements that can be read, and what is wrong."""

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


def check(path: Path) -> Checked:
    """Read every page and every row of a ledger; nothing is changed.

    Raises LedgerError where there is no such file, or it is another program's, or of another version.
    """
    path = path.expanduser()
    problems: list[str] = []
    sound = 0
    try:
        with closing(open_for_reading(path, damaged=True)) as db:
            problems += integrity(db, _PROBLEMS)
            for row in db.execute(f"SELECT {', '.join(COLUMNS)} FROM judgements"):  # noqa: S608 - constants
                from_row(row)
                sound += 1
    except (sqlite3.Error, OSError, ValueError) as error:
        if not is_damage(error):
            raise explain(error, path) from error
        problems.append(str(error))
    return Checked(path=path, judgements=sound, problems=tuple(problems[:_PROBLEMS]))
