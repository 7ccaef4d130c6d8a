"""The base class of ledgers. A ledger stores paid answers, and several evaluations and processes can use it.

An answer is stored under its key (`questions.key_of`) when it arrives. If several answers have the same key,
the first to be committed is stored. Errors are not stored, so that their questions are asked again. A thread
commits the answers in groups.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from operator import attrgetter
from typing import Any, ClassVar, Self, TypeAlias

from germane.encoding import decode, encode
from germane.errors import LedgerError
from germane.types import FrozenDict, Json, Judgement, Usage, freeze

__all__ = [
    "COLUMNS",
    "DECLARED",
    "FORMAT",
    "INDEXES",
    "SELECT",
    "GroupCommit",
    "Ledger",
    "Row",
    "check_format",
    "from_row",
]

FORMAT = 4
"""The file's `user_version`. Formats 1 to 3 had other keys, and no items: their answers cannot be looked up any more."""

COLUMNS = ("key", "item", "kind", "judge", "prompt", "parent", "answer", "provenance", "request", "requests",
           "input_tokens", "output_tokens", "cost_usd", "ms", "at")  # fmt: skip
DECLARED = dict.fromkeys(COLUMNS, "TEXT NOT NULL") | {
    "key": "TEXT PRIMARY KEY",
    **dict.fromkeys(("parent", "request", "at"), "TEXT"),
    **dict.fromkeys(("requests", "input_tokens", "output_tokens"), "INTEGER NOT NULL"),
    **dict.fromkeys(("cost_usd", "ms"), "REAL"),
}
"""The SQL type and constraint of each column."""
INDEXES = (
    "CREATE INDEX judgements_item ON judgements (item)",
    "CREATE INDEX judgements_parent ON judgements (parent) WHERE parent IS NOT NULL",
)

SELECT = f"SELECT {', '.join(COLUMNS)} FROM judgements"  # noqa: S608 - constants

Row = Sequence[Any]
_names = attrgetter(*COLUMNS[: COLUMNS.index("answer")])


def to_row(judgement: Judgement) -> Row:
    """Return a judgement as a row of the table. Raises ValueError or TypeError if it is not JSON."""
    answer, provenance = encode(judgement.answer).decode(), encode(judgement.provenance).decode()
    used = judgement.usage
    counts = (used.requests, used.input_tokens, used.output_tokens, used.cost_usd)
    return *_names(judgement), answer, provenance, judgement.request, *counts, judgement.ms, judgement.at


def from_row(row: Row) -> Judgement:
    """Return the judgement in a row of the table. Raises ValueError or TypeError if a value is invalid."""
    key, item, kind, judge, prompt, parent, answer, provenance, request, *used, ms, at = row
    requests, sent, got, cost = used
    return Judgement(
        key=key,
        item=item,
        kind=kind,
        judge=judge,
        prompt=prompt,
        answer=decode(answer),
        parent=parent,
        request=request,
        usage=Usage(requests=requests, input_tokens=sent, output_tokens=got, cost_usd=cost),
        ms=ms,
        at=at,
        provenance=_provenance(provenance),
    )


@lru_cache(maxsize=1024)
def _provenance(text: str) -> FrozenDict:
    """Return the provenance in a JSON string, cached, because most answers of a run have the same one."""
    return FrozenDict(freeze(decode(text)))


_STATS = """
    SELECT judge, kind, count(*), CAST(sum(requests) AS bigint), CAST(sum(input_tokens) AS bigint),
           CAST(sum(output_tokens) AS bigint), sum(CASE WHEN requests > 0 OR cost_usd > 0 THEN cost_usd END),
           count(CASE WHEN requests > 0 AND cost_usd IS NULL THEN 1 END)
    FROM judgements GROUP BY judge, kind ORDER BY judge, kind
"""
_OF_STATS = ("judge", "kind", "judgements", *Usage.__struct_fields__, "unpriced")
"""The names of the columns of the statistics."""


class Ledger(ABC):
    """A durable, thread-safe store of judgements in a database table. All of its errors are LedgerErrors.

    Its SQL statements run on SQLite and PostgreSQL, with `?` as the placeholder of values.
    """

    chunk: ClassVar[int]
    """The number of keys that one query looks up."""

    @property
    @abstractmethod
    def place(self) -> str:
        """The absolute path or URL that opens this ledger again, without a password."""

    @property
    @abstractmethod
    def size(self) -> int:
        """The size of the table and its indexes in bytes."""

    @abstractmethod
    def ready(self) -> None:
        """Test that answers can be stored. Raises LedgerError if not."""

    @abstractmethod
    def close(self) -> None:
        """Close the files or connections."""

    @abstractmethod
    def rows(self, sql: str, values: Sequence[Any] = (), read: Callable[[Row], Any] = tuple) -> Iterator[Any]:
        """Yield `read(row)` for each row of an SQL query with the parameters `values`."""

    @abstractmethod
    def make(self, statements: Sequence[str]) -> None:
        """Create tables with SQL statements; several processes may do so at the same time."""

    @abstractmethod
    def change(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Execute an SQL statement and return the number of rows that it changed."""

    @abstractmethod
    def _look_up(self, column: str, values: Sequence[str]) -> list[Judgement]:
        """Return the judgements whose value in the table's column `column` is one of `values`."""

    @abstractmethod
    def _insert(self, rows: Sequence[Row], useless: Sequence[tuple[str, str]]) -> set[str]:
        """Delete the rows with the (key, answer) pairs in `useless`, then insert `rows`, in one transaction.

        A row whose key is already stored is not inserted. Return the keys of the inserted rows.
        """

    def find(self, keys: Sequence[str]) -> dict[str, Judgement]:
        """Return the stored judgements by key; keys without a judgement are left out."""
        keys = sorted(keys)
        chunks = (keys[start : start + self.chunk] for start in range(0, len(keys), self.chunk))
        return {judgement.key: judgement for chunk in chunks for judgement in self._look_up("key", chunk)}

    def children(self, keys: Sequence[str]) -> list[Judgement]:
        """Return the judgements (of panel members, say) merged into those under `keys`, sorted by own key."""
        return sorted(self._look_up("parent", keys), key=attrgetter("key"))

    def put(
        self, judgements: Sequence[Judgement], *, replacing: Sequence[Judgement] = ()
    ) -> dict[str, Judgement]:
        """Store judgements in one transaction; return the judgement that is now stored under each key.

        A judgement that is already stored under a key is not replaced, unless it is in `replacing`.
        """
        stored = {judgement.key: judgement for judgement in reversed(judgements)}
        useless = [(judgement.key, encode(judgement.answer).decode()) for judgement in replacing]
        added = self._insert([to_row(stored[key]) for key in sorted(stored)], useless)
        earlier = [key for key in stored if key not in added]
        return stored | self.find(earlier) if earlier else stored

    def stats(self) -> dict[str, Json]:
        """Return the JSON document of `germane ledger stats`, with an entry per judge and kind of question.

        `cost_usd` is the sum over the requests of known price, or None if no price is known. `unpriced` is
        the number of requests of unknown price. If one request gave several answers, it counts for one of
        them; the others have no request and cost 0.
        """
        lines = [dict(zip(_OF_STATS, row, strict=True)) for row in self.rows(_STATS)]
        costs = [line["cost_usd"] for line in lines if line["cost_usd"] is not None]
        return {
            "schema_version": 1,
            "ledger": self.place,
            "format": FORMAT,
            "bytes": self.size,
            "judgements": sum(line["judgements"] for line in lines),
            "cost_usd": sum(costs) if costs else None,
            "lines": lines,
        }

    def __len__(self) -> int:
        return next((int(row[0]) for row in self.rows("SELECT count(*) FROM judgements")), 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def check_format(address: str, version: int, fix: str) -> None:
    """Raise LedgerError, with the advice `fix`, if the `version` of a ledger is not that of this germane."""
    if version == FORMAT:
        return
    old = version < FORMAT
    problem = (
        f"the ledger {address} was written by {'an older' if old else 'a newer'} germane (format {version})"
    )
    if not old:
        raise LedgerError(f"{problem}; update germane, or {fix}")
    import_them = "answers in reports can be imported: germane ledger import REPORT/judgements.jsonl"
    raise LedgerError(f"{problem}, which computes keys differently; {fix}; {import_them}")


Stands: TypeAlias = dict[str, Judgement]
_Batch: TypeAlias = tuple[Sequence[Judgement], Sequence[Judgement], asyncio.Future[Stands]]


class GroupCommit:
    """A thread that stores judgements, so that the event loop never waits for a disk or a lock.

    Judgements that arrive during a commit are committed together by the next one. An instance belongs to one
    event loop. The thread calls `before` before each commit; if it raises, the judgements are stored all the
    same, but `put` raises its exception. After each commit the thread calls `after` with the stored
    judgements; if the ledger cannot store them, with those that were to be stored.
    """

    def __init__(
        self,
        ledger: Ledger | None,
        before: Callable[[], object] = lambda: None,
        after: Callable[[Iterable[Judgement]], object] = lambda _: None,
    ) -> None:
        self._ledger, self._before, self._after = ledger, before, after
        self._loop = asyncio.get_running_loop()
        self._batches = deque[_Batch]()
        self._thread = ThreadPoolExecutor(1, "germane-ledger")

    async def put(self, judgements: Sequence[Judgement], *, replacing: Sequence[Judgement] = ()) -> Stands:
        """Store the judgements (all or none of them); return, by key, the judgements that are now stored.

        One commit may include the judgements of several calls; the result then contains the keys of all.
        Raises the error of the ledger. `replacing` is as in `Ledger.put`.
        """
        committed: asyncio.Future[Stands] = self._loop.create_future()
        self._batches.append((judgements, replacing, committed))
        if len(self._batches) == 1:  # else a commit is already due, and it will include this batch
            try:
                self._thread.submit(self._commit)
            except RuntimeError:  # the main thread has ended: no executor takes work any more
                self._commit()
        return await committed

    def close(self) -> None:
        """Commit the judgements that are waiting, and end the thread."""
        self._thread.shutdown()

    def _commit(self) -> None:
        """Commit all batches that wait, in the thread. Do nothing if an earlier commit included them."""
        group: list[_Batch] = []
        with suppress(IndexError):
            while True:
                group.append(self._batches.popleft())
        if not group:
            return
        stored, failure = Stands(), None
        rows = [row for judgements, _, _ in group for row in judgements]
        try:
            try:
                self._before()
            finally:
                if rows and self._ledger is not None:
                    stored = {row.key: row for row in rows}
                    try:
                        stored = self._ledger.put(rows, replacing=[row for _, old, _ in group for row in old])
                    finally:
                        self._after(stored.values())
        except BaseException as error:  # noqa: BLE001 - whoever waits for the commit gets it
            failure = error
        self._loop.call_soon_threadsafe(_settle, group, stored, failure)


def _settle(group: Sequence[_Batch], stored: Stands, failure: BaseException | None) -> None:
    for _, _, committed in group:
        if committed.done():
            continue
        if failure is None:
            committed.set_result(stored)
        else:
            committed.set_exception(failure)
