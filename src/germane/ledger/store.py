"""The ledger: paid answers, shared by evaluations and processes.

An answer is stored when it arrives, under its key (`questions.key_of`); the first one that is committed wins. Errors are not
stored, so that their questions are asked again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, ClassVar, Self

from germane.encoding import decode, encode
from germane.errors import LedgerError
from germane.types import FrozenDict, Judgement, Usage, freeze

__all__ = [
    "COLUMNS",
    "DECLARED",
    "FORMAT",
    "INDEXES",
    "SELECT",
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
    """Return a judgement as a row; ValueError or TypeError if its answer is not JSON."""
    answer, provenance = encode(judgement.answer).decode(), encode(judgement.provenance).decode()
    used = judgement.usage
    counts = (used.requests, used.input_tokens, used.output_tokens, used.cost_usd)
    return *_names(judgement), answer, provenance, judgement.request, *counts, judgement.ms, judgement.at


def from_row(row: Row) -> Judgement:
    """Return the judgement of a row; ValueError or TypeError if the values are not those of a judgement."""
    key, item, kind, judge, prompt, parent, answer, provenance, request, requests, sent, got, cost, ms, at = (
        row
    )
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
    """Return the mapping in a text, cached, as most answers of a run have the same one."""
    return FrozenDict(freeze(decode(text)))


class Ledger(ABC):
    """A durable, thread-safe store of judgements in a database table. It raises LedgerError for every fault.

    Its SQL suits SQLite and PostgreSQL, with `?` for values.
    """

    chunk: ClassVar[int]
    """Keys that are looked up together."""

    @property
    @abstractmethod
    def place(self) -> str:
        """The absolute path or URL that reopens it, without a password."""

    @property
    @abstractmethod
    def size(self) -> int:
        """Bytes of the table and what belongs to it."""

    @abstractmethod
    def ready(self) -> None:
        """Test that answers can be stored; LedgerError if not."""

    @abstractmethod
    def close(self) -> None:
        """Close the files or connections."""

    @abstractmethod
    def rows(self, sql: str, values: Sequence[Any] = (), read: Callable[[Row], Any] = tuple) -> Iterator[Any]:
        """Yield the rows of a query, each through `read`."""

    @abstractmethod
    def make(self, statements: Sequence[str]) -> None:
        """Create tables unless they exist; several processes wait for each other."""

    @abstractmethod
    def change(self, sql: str, values: Sequence[Any] = ()) -> int:
        """Execute a statement, and return the number of rows that it changed."""

    @abstractmethod
    def _look_up(self, column: str, values: Sequence[str]) -> list[Judgement]:
        """Return the judgements with one of these values."""

    @abstractmethod
    def _insert(self, rows: Sequence[Row], useless: Sequence[tuple[str, str]]) -> set[str]:
        """Delete the `useless` (key, answer) rows and insert rows under new keys in one transaction; return the new keys."""

    def find(self, keys: Sequence[str]) -> dict[str, Judgement]:
        """Return the judgements under these keys."""
        keys = sorted(keys)
        chunks = (keys[start : start + self.chunk] for start in range(0, len(keys), self.chunk))
        return {judgement.key: judgement for some in chunks for judgement in self._look_up("key", some)}

    def children(self, keys: Sequence[str]) -> list[Judgement]:
        """Return the judgements whose parent is one of these keys, ordered by their own keys."""
        return sorted(self._look_up("parent", keys), key=attrgetter("key"))

    def put(
        self, judgements: Sequence[Judgement], *, replacing: Sequence[Judgement] = ()
    ) -> dict[str, Judgement]:
        """Store judgements in one transaction, and return those under their keys: an earlier answer wins.

        Judgements in `replacing`, whose answers cannot be used, are deleted first, unless another answer has taken their place.
        """
        stored = {judgement.key: judgement for judgement in reversed(judgements)}
        useless = [(judgement.key, encode(judgement.answer).decode()) for judgement in replacing]
        added = self._insert([to_row(stored[key]) for key in sorted(stored)], useless)
        earlier = [key for key in stored if key not in added]
        return stored | self.find(earlier) if earlier else stored

    def __len__(self) -> int:
        return next((int(row[0]) for row in self.rows("SELECT count(*) FROM judgements")), 0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def check_format(address: str, version: int, fix: str) -> None:
    """Raise LedgerError for a ledger written by a newer or an older germane."""
    if version == FORMAT:
        return
    if version > FORMAT:
        raise LedgerError(
            f"{address}: written by a newer germane (format {version}); update germane, or {fix}"
        )
    raise LedgerError(
        f"{address}: written by an older germane (format {version}), whose answers cannot be looked up any more; {fix}; "
        "what was paid is kept in reports: germane ledger import REPORT/judgements.jsonl"
    )
