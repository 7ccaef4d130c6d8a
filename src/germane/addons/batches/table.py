"""Two more tables of a ledger: requests that wait for an answer, and the batches that hold them.

They are made in a ledger of any age when the first request goes out. Requests that `germane questions` has written to a file
belong to the batch "".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain

import msgspec
from msgspec import structs

from germane.addons.batches.requests import Request
from germane.clean import mask_urls
from germane.encoding import decode, encode
from germane.ledger.store import Ledger
from germane.tables.columns import batched
from germane.types import Json

FILE = ""
"""The batch of requests in a file."""

SENDING, SENT, DONE = "sending", "sent", "done"
_MANY = 200
"""Rows per statement: SQLite may take no more than 999 values."""


class BatchRow(msgspec.Struct, kw_only=True):
    """One batch of requests at a provider.

    Attributes:
        id: Our name of it, which is stored before it is made and told to the provider.
        name: The provider's name; "" until it is known.
        run: The evaluation that sent it.
        provider, model, url: Where it was sent; "" is the provider's own URL.
        requests, questions: What it holds.
        cost_usd: An estimate; None where the price is not known.
        at: When it was made.
        state: "sending", "sent" or "done".
        why: Why the batch, or most of its failed lines, failed.
    """

    id: str
    run: str
    provider: str
    model: str
    url: str
    requests: int
    questions: int
    cost_usd: float | None
    at: str
    name: str = ""
    state: str = SENDING
    why: str = ""

    @property
    def endpoint(self) -> tuple[str, str, str]:
        """The provider, model and URL that it was sent to."""
        return self.provider, self.model, mask_urls(self.url)


_COLUMNS = BatchRow.__struct_fields__
_TYPES = dict.fromkeys(("requests", "questions"), "bigint") | {
    "id": "text PRIMARY KEY",
    "cost_usd": "double precision",
}
_SCHEMA = (
    f"CREATE TABLE IF NOT EXISTS batches ({', '.join(' '.join((name, _TYPES.get(name, 'text'))) for name in _COLUMNS)})",
    "CREATE TABLE IF NOT EXISTS asked (request text PRIMARY KEY, batch text NOT NULL, keys text NOT NULL, record text NOT NULL)",
    "CREATE INDEX IF NOT EXISTS asked_batch ON asked (batch)",
)


class AskedTable:
    """The ledger's tables of unanswered requests and of batches."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        ledger.make(_SCHEMA)

    # Requests

    def add(self, batch: str, requests: Iterable[Request]) -> None:
        """Store requests as part of this batch."""
        for some in batched(requests, _MANY):
            rows = [
                (row.custom_id, batch, " ".join(row.keys), encode(dict(row.record)).decode()) for row in some
            ]
            self._ledger.change(
                f"INSERT INTO asked (request, batch, keys, record) VALUES {', '.join(['(?, ?, ?, ?)'] * len(rows))} "  # noqa: S608 - question marks
                "ON CONFLICT (request) DO UPDATE SET batch = excluded.batch, keys = excluded.keys, record = excluded.record",
                list(chain.from_iterable(rows)),
            )

    def records(self, requests: Sequence[str]) -> dict[str, dict[str, Json]]:
        """Return the records of these requests that wait for an answer."""
        result: dict[str, dict[str, Json]] = {}
        for some in batched(requests, _MANY):
            sql = f"SELECT request, record FROM asked WHERE request IN ({_marks(some)})"  # noqa: S608 - question marks
            result |= {request: decode(record) for request, record in self._ledger.rows(sql, some)}
        return result

    def answered(self, requests: Sequence[str]) -> None:
        """Delete requests that have been answered."""
        for some in batched(requests, _MANY):
            self._ledger.change(f"DELETE FROM asked WHERE request IN ({_marks(some)})", some)  # noqa: S608 - question marks

    def in_flight(self) -> set[str]:
        """Return the keys of the questions in open batches."""
        sql = "SELECT keys FROM asked WHERE batch IN (SELECT id FROM batches WHERE state <> ?)"
        return {key for (keys,) in self._ledger.rows(sql, [DONE]) for key in keys.split()}

    def requests_in(self, batch: str) -> set[str]:
        """Return the unanswered requests of a batch."""
        rows = self._ledger.rows("SELECT request FROM asked WHERE batch = ?", [batch])
        return {request for (request,) in rows}

    # Batches

    def batches(self, *, opened: bool = False) -> list[BatchRow]:
        """Return all batches, or only open ones, oldest first."""
        test, values = ("WHERE state <> ?", [DONE]) if opened else ("", [])
        sql = f"SELECT {', '.join(_COLUMNS)} FROM batches {test} ORDER BY at, id"  # noqa: S608 - constants
        return [BatchRow(**dict(zip(_COLUMNS, row, strict=True))) for row in self._ledger.rows(sql, values)]

    def begin(self, batch: BatchRow) -> None:
        """Store a batch that is about to be created; its requests are added afterwards."""
        sql = f"INSERT INTO batches ({', '.join(_COLUMNS)}) VALUES ({_marks(_COLUMNS)})"  # noqa: S608 - constants and question marks
        self._ledger.change(sql, structs.astuple(batch))

    def sent(self, batch: BatchRow, name: str) -> None:
        """Store the name that the provider gave the batch."""
        self._ledger.change("UPDATE batches SET name = ?, state = ? WHERE id = ?", [name, SENT, batch.id])
        batch.name, batch.state = name, SENT

    def forget(self, batch: BatchRow) -> None:
        """Delete a batch that was never created."""
        self._ledger.change("DELETE FROM asked WHERE batch = ?", [batch.id])
        self._ledger.change("DELETE FROM batches WHERE id = ?", [batch.id])

    def done(self, batch: BatchRow, why: str = "") -> None:
        """Mark a batch as done once its answers are read; unanswered requests may be asked again."""
        self._ledger.change("DELETE FROM asked WHERE batch = ?", [batch.id])
        self._ledger.change("UPDATE batches SET state = ?, why = ? WHERE id = ?", [DONE, why, batch.id])
        batch.state, batch.why = DONE, why


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))
