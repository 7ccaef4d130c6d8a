"""Looking after a ledger: what is in it, out as JSON lines, in from them, and what is not wanted any more."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from germane.errors import InputError, Place
from germane.judging.ledger import COLUMNS, SQLiteLedger, from_row
from germane.judging.rows import dump_judgement, load_judgement
from germane.types import Json, Judgement

__all__ = [
    "Chosen",
    "Imported",
    "Line",
    "Stats",
    "dump_line",
    "export_rows",
    "import_rows",
    "moment",
    "prune",
    "stats",
]

_BATCH = 1000


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
    except ValueError:
        raise InputError(
            f"{flag} {text!r} is no date", fix=f"write {flag} 2026-11-21, or 2026-11-21T15:00"
        ) from None
    return found.isoformat(timespec="milliseconds")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """What one judge said to one kind of question with one wording."""

    judge: str
    kind: str
    prompt: str
    judgements: int
    requests: int
    input_tokens: int
    output_tokens: int
    cost_usd: float | None
    oldest: str | None
    newest: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Stats:
    """What a ledger holds. `cost_usd` is what the judgements with a known price cost; `unpriced` have none."""

    path: Path
    format: int
    bytes: int
    lines: tuple[Line, ...]
    unpriced: int

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
            "unpriced": self.unpriced,
            "oldest": min(times, default=None),
            "newest": max(times, default=None),
            "lines": [{name: getattr(line, name) for name in Line.__slots__} for line in self.lines],
        }


def stats(ledger: SQLiteLedger) -> Stats:
    """What a ledger holds, a line for each judge, kind and prompt."""
    query = """
        SELECT judge, kind, prompt, count(*), sum(requests), sum(input_tokens), sum(output_tokens),
               sum(cost_usd), min(at), max(at)
        FROM judgements GROUP BY judge, kind, prompt ORDER BY judge, kind, prompt
    """
    with ledger.explained():
        lines = tuple(Line(**dict(zip(Line.__slots__, row, strict=True))) for row in ledger.db.execute(query))
        (unpriced,) = ledger.db.execute(
            "SELECT count(*) FROM judgements WHERE cost_usd IS NULL AND requests > 0"
        ).fetchone()
    beside = (ledger.path, ledger.path.with_name(ledger.path.name + "-wal"))
    size = sum(path.stat().st_size for path in beside if path.exists())
    return Stats(path=ledger.path, format=ledger.format, bytes=size, lines=lines, unpriced=unpriced)


def export_rows(ledger: SQLiteLedger, chosen: Chosen) -> Iterator[Judgement]:
    """The judgements chosen, in the order of their keys."""
    where, values = chosen.where()
    with ledger.explained():
        names = ", ".join(COLUMNS)
        for row in ledger.db.execute(f"SELECT {names} FROM judgements WHERE {where} ORDER BY key", values):  # noqa: S608 - constants and question marks
            yield from_row(row)


def dump_line(judgement: Judgement) -> str:
    """One line of an export: the shape of a report's judgements.jsonl."""
    return json.dumps(dump_judgement(judgement), ensure_ascii=False) + "\n"


@dataclass(slots=True)
class Imported:
    """What became of an import's lines: new ones, those whose key had an answer (it stays), errors left out."""

    added: int = 0
    known: int = 0
    errors: int = 0


def import_rows(ledger: SQLiteLedger, path: Path) -> Imported:
    """Put the judgements of a JSONL file into a ledger, all or none of a batch; the first answer to a key stays.

    Raises InputError at the first line that is no judgement; what stood before it may be in the ledger.
    """
    done, batch = Imported(), dict[str, Judgement]()
    for judgement in _judgements(path):
        if judgement.error is not None:
            done.errors += 1
        elif judgement.key in batch:
            done.known += 1
        else:
            batch[judgement.key] = judgement
        if len(batch) >= _BATCH:
            _put(ledger, batch, done)
    _put(ledger, batch, done)
    return done


def _put(ledger: SQLiteLedger, batch: dict[str, Judgement], done: Imported) -> None:
    known = len(ledger.get(list(batch)))
    ledger.put(list(batch.values()))
    done.known += known
    done.added += len(batch) - known
    batch.clear()


def _judgements(path: Path) -> Iterator[Judgement]:
    try:
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if line.strip():
                    yield _judgement(line, Place(str(path), number))
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(
            f"{path} cannot be read: {error}", fix="name a file of `germane ledger export`"
        ) from None


def _judgement(line: str, place: Place) -> Judgement:
    try:
        row: Any = json.loads(line)
        judgement = load_judgement(row)
        whole = len(bytes.fromhex(judgement.key)) == 16 and (judgement.error or judgement.answer is not None)
    except (ValueError, TypeError, AttributeError):
        whole = False
    if not whole:
        raise InputError(
            "this is no judgement",
            fix="import what `germane ledger export` wrote, or a report's judgements.jsonl",
            place=place,
        )
    return judgement


def prune(ledger: SQLiteLedger, chosen: Chosen, *, dry_run: bool = False) -> int:
    """Delete the judgements chosen, and give their room back to the disk; how many there were."""
    where, values = chosen.where()
    with ledger.explained():
        if dry_run:
            (count,) = ledger.db.execute(f"SELECT count(*) FROM judgements WHERE {where}", values).fetchone()  # noqa: S608 - constants and question marks
            return int(count)
        with ledger.writing():
            count = ledger.db.execute(f"DELETE FROM judgements WHERE {where}", values).rowcount  # noqa: S608
        if count:
            ledger.db.execute("VACUUM")
            ledger.db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
    return int(count)
