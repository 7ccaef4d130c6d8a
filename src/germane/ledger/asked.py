"""The requests that wait for an answer, and the batches that they went out in: two more tables of a ledger.

They are made when the first request goes out, in a ledger of any age: answers stand where they always stood. What
`germane questions` has written to a file stands here too, under the batch "".
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice

import msgspec
from msgspec import structs

from germane.clean import mask_urls
from germane.encoding import decode, encode
from germane.ledger.store import LedgerTable
from germane.types import Json

FILE = ""
"""The batch of requests in a file."""

SENDING, SENT, DONE = "sending", "sent", "done"
_ASKED = ("request", "batch", "keys", "record")
_MANY = 200
"""Rows that go in one statement: SQLite may take no more than 999 values."""


class BatchRow(msgspec.Struct, kw_only=True):
    """One batch of requests at a provider.

    `id` is ours: it is stored before the batch is made, and named to the provider. `name` is the provider's own, "" as long
    as it is not known. `state` is "sending", "sent" or "done". `run` is the evaluation that sent it, `url` where that is
    not the provider's own. `tokens` (of the requests) and `cost_usd` are estimates. `why` is what the batch, or most of
    its lines that failed, failed with; `refused` whether that was the provider's refusal of a request.
    """

    id: str
    run: str
    provider: str
    model: str
    url: str
    requests: int
    questions: int
    tokens: int
    cost_usd: float | None
    at: str
    name: str = ""
    state: str = SENDING
    why: str = ""
    refused: int = 0

    @property
    def endpoint(self) -> tuple[str, str, str]:
        """The provider, model and URL that were asked."""
        return self.provider, self.model, mask_urls(self.url)


_COLUMNS = BatchRow.__struct_fields__
_TYPES = {
    "requests": "bigint",
    "questions": "bigint",
    "tokens": "bigint",
    "cost_usd": "double precision",
    "refused": "bigint",
}
_SCHEMA = (
    "CREATE TABLE IF NOT EXISTS batches ("
    + ", ".join(f"{name} {_TYPES.get(name, 'text')}{' PRIMARY KEY' * (name == 'id')}" for name in _COLUMNS)
    + ")",
    "CREATE TABLE IF NOT EXISTS asked (request text PRIMARY KEY, batch text NOT NULL, keys text NOT NULL, record text NOT NULL)",
    "CREATE INDEX IF NOT EXISTS asked_batch ON asked (batch)",
)


class Request(msgspec.Struct, kw_only=True):
    """One request.

    `custom_id` is the digest of what it asks: the same questions have the same id, whenever and by whomever they are asked.
    `keys` are those of its questions, `record` is what must be known to read its answer. `body` is that of a chat
    completion, `line` the same as a provider's batches have it, `tokens` and `tokens_back` are what it uses, by bytes.
    """

    custom_id: str
    keys: Sequence[str]
    record: Mapping[str, Json]
    body: bytes
    tokens: int
    tokens_back: int
    line: bytes = b""


class AskedTable:
    """The requests without an answer, and the batches, of a ledger in a file or in PostgreSQL."""

    def __init__(self, ledger: LedgerTable) -> None:
        self._ledger = ledger
        ledger.make(_SCHEMA)

    # Requests

    def add(self, batch: str, requests: Iterable[Request]) -> None:
        """Store what these ask. A request that a batch holds which is not done stays there; another stands under this one."""
        left = iter(requests)
        while some := list(islice(left, _MANY)):
            rows = (
                (row.custom_id, batch, " ".join(row.keys), encode(dict(row.record)).decode()) for row in some
            )
            values = list(chain.from_iterable(rows))
            marks = ", ".join(["(?, ?, ?, ?)"] * len(some))
            self._ledger.change(
                f"INSERT INTO asked ({', '.join(_ASKED)}) VALUES {marks} "  # noqa: S608 - constants and question marks
                "ON CONFLICT (request) DO UPDATE SET batch = excluded.batch, keys = excluded.keys, record = excluded.record "
                # not: of no open batch, of which a statement of PostgreSQL may not see one that was begun just now
                "WHERE asked.batch IN (?, excluded.batch) OR asked.batch IN (SELECT id FROM batches WHERE state = ?)",
                [*values, FILE, DONE],
            )

    def records(self, requests: Sequence[str]) -> dict[str, dict[str, Json]]:
        """The records by which the answers to these are read, of those that wait for one."""
        result: dict[str, dict[str, Json]] = {}
        for some in _chunks(requests):
            sql = f"SELECT request, record FROM asked WHERE request IN ({_marks(some)})"  # noqa: S608 - question marks
            result |= {request: decode(record) for request, record in self._ledger.rows(sql, some)}
        return result

    def answered(self, requests: Sequence[str]) -> None:
        """Forget questions that need no answer any more."""
        for some in _chunks(requests):
            self._ledger.change(f"DELETE FROM asked WHERE request IN ({_marks(some)})", some)  # noqa: S608 - question marks

    def in_flight(self) -> set[str]:
        """The keys of the questions that batches hold which are not done."""
        sql = "SELECT keys FROM asked WHERE batch IN (SELECT id FROM batches WHERE state <> ?)"
        return {key for (keys,) in self._ledger.rows(sql, [DONE]) for key in keys.split()}

    def requests_in(self, batch: str) -> set[str]:
        """The requests of a batch without an answer."""
        return {
            request for (request,) in self._ledger.rows("SELECT request FROM asked WHERE batch = ?", [batch])
        }

    # Batches

    def batches(self, *, opened: bool = False) -> list[BatchRow]:
        """All batches, or those that are not done, in the order in which they were made."""
        test, values = ("WHERE state <> ?", [DONE]) if opened else ("", [])
        sql = f"SELECT {', '.join(_COLUMNS)} FROM batches {test} ORDER BY at, id"  # noqa: S608 - constants
        return list(
            self._ledger.rows(sql, values, lambda row: BatchRow(**dict(zip(_COLUMNS, row, strict=True))))
        )

    def begin(self, batch: BatchRow) -> None:
        """Store that a batch is about to be made: before its requests, which it then holds."""
        marks = _marks(_COLUMNS)
        sql = f"INSERT INTO batches ({', '.join(_COLUMNS)}) VALUES ({marks})"  # noqa: S608 - constants and question marks
        self._ledger.change(sql, structs.astuple(batch))

    def sent(self, batch: BatchRow, name: str) -> None:
        """The provider has it, under this name."""
        self._ledger.change("UPDATE batches SET name = ?, state = ? WHERE id = ?", [name, SENT, batch.id])
        batch.name, batch.state = name, SENT

    def forget(self, batch: BatchRow) -> None:
        """Delete a batch that was never made."""
        self._ledger.change("DELETE FROM asked WHERE batch = ?", [batch.id])
        self._ledger.change("DELETE FROM batches WHERE id = ?", [batch.id])

    def done(self, batch: BatchRow, why: str = "", *, refused: bool = False) -> None:
        """All that it answered is stored; what it did not answer is open again."""
        self._ledger.change("DELETE FROM asked WHERE batch = ?", [batch.id])
        sql = "UPDATE batches SET state = ?, why = ?, refused = ? WHERE id = ?"
        self._ledger.change(sql, [DONE, why, int(refused), batch.id])
        batch.state, batch.why = DONE, why


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


def _chunks(values: Sequence[str]) -> Iterator[Sequence[str]]:
    return (values[start : start + _MANY] for start in range(0, len(values), _MANY))
