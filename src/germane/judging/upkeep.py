"""Looking after a ledger: what is in it, out as JSON lines, and what is not wanted any more."""

from __future__ import annotations

import datetime
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from germane.encoding import encode
from germane.errors import InputError
from germane.judging.layout import from_row
from germane.judging.ledger import SQLiteLedger
from germane.judging.log import files_of
from germane.tables.judgements import dump_judgement
from germane.types import Json, Judgement

__all__ = [
    "Chosen",
    "Line",
    "Stats",
    "count",
    "dump_line",
    "export_rows",
    "known",
    "moment",
    "prune",
    "shrink",
    "stats",
    "written",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Which judgements: those that fit everything that is said.

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
        said = {test: value for test, value in tests.items() if value is not None}
        return " AND ".join(said) or "1", list(said.values())


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
    """What one judge said to one kind of question with one wording.

    `cost_usd` is what those with a known price cost, None where no price is known; `unpriced` were asked without one.
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
    format: int
    bytes: int
    lines: tuple[Line, ...]

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
    """What a ledger holds, a line for each judge, kind and prompt.

    An answer that shared another's request has none of its own and costs 0: that says nothing of a price.
    """
    query = """
        SELECT judge, kind, prompt, count(*), sum(requests), sum(input_tokens), sum(output_tokens),
               sum(CASE WHEN requests > 0 OR cost_usd > 0 THEN cost_usd END),
               sum(requests > 0 AND cost_usd IS NULL), min(at), max(at)
        FROM judgements GROUP BY judge, kind, prompt ORDER BY judge, kind, prompt
    """
    with ledger.using():
        lines = tuple(Line(**dict(zip(Line.__slots__, row, strict=True))) for row in ledger.db.execute(query))
    size = sum(path.stat().st_size for path in files_of(ledger.path)[:2] if path.exists())
    return Stats(path=ledger.path, format=ledger.format, bytes=size, lines=lines)


def export_rows(ledger: SQLiteLedger, chosen: Chosen) -> Iterator[Judgement]:
    """The judgements chosen, in the order of their keys."""
    where, values = chosen.where()
    with ledger.using():
        for row in ledger.db.execute(f"{ledger.select} WHERE {where} ORDER BY key", values):
            yield from_row(row)


def dump_line(judgement: Judgement) -> bytes:
    """One line of an export: the shape of a report's judgements.jsonl."""
    return encode(dump_judgement(judgement)) + b"\n"


@contextmanager
def written(path: Path, ledger: Path) -> Iterator[IO[bytes]]:
    """A file that appears whole or not at all: what stands under its name stays until all is written.

    InputError where that is a file of the ledger itself.
    """
    for own in files_of(ledger):
        if own.exists() and path.exists() and path.samefile(own):
            raise InputError(f"{path} is the ledger's own file", fix="name another file")
    if path.exists() and not path.is_file():  # a pipe, /dev/stdout
        with path.open("wb") as file:
            yield file
        return
    target = path.resolve()
    part = target.with_name(f"{target.name}.part")
    try:
        with part.open("wb") as file:
            yield file
        part.replace(target)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def known(ledger: SQLiteLedger) -> tuple[list[str], list[str]]:
    """The judges and the kinds of question that a ledger holds answers of."""
    with ledger.using():
        found = ledger.db.execute("SELECT DISTINCT judge, kind FROM judgements").fetchall()
    return sorted({judge for judge, _ in found}), sorted({kind for _, kind in found})


def count(ledger: SQLiteLedger, chosen: Chosen) -> int:
    """How many judgements are chosen."""
    where, values = chosen.where()
    with ledger.using():
        (found,) = ledger.db.execute(f"SELECT count(*) FROM judgements WHERE {where}", values).fetchone()  # noqa: S608 - constants and question marks
    return int(found)


def prune(ledger: SQLiteLedger, chosen: Chosen) -> int:
    """Delete the judgements chosen; how many there were. Their room is free for new ones: see `shrink`."""
    where, values = chosen.where()
    with ledger.using(), ledger.writing():
        return int(ledger.db.execute(f"DELETE FROM judgements WHERE {where}", values).rowcount)  # noqa: S608 - constants and question marks


def shrink(ledger: SQLiteLedger) -> None:
    """Give the room of deleted judgements back to the disk; LedgerError where there is no room to do it in."""
    with ledger.using():
        ledger.db.execute("VACUUM")
        ledger.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
