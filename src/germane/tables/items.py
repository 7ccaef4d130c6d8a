"""Items: what was judged, and the places of samples where it stands. They join labels, judgements and samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from sys import intern
from typing import Any, Protocol, Self

from msgspec import Struct

from germane.tables.columns import batched, texts_of
from germane.types import ItemRow, Json, RankedPassage, Sample


class ItemTable:
    """The items of an evaluation, in input order, as columns; iterating over it makes the rows.

    Every distinct text of the rows that are added together is held once, every item once in all tables.
    """

    def __init__(self, rows: Iterable[ItemRow] = ()) -> None:
        self._columns: dict[str, list[Any]] = {name: [] for name in ItemRow.__struct_fields__}
        self.extend(rows)

    def extend(self, rows: Iterable[ItemRow]) -> Self:
        """Append rows, or all those of another table."""
        if isinstance(rows, ItemTable):
            for name, column in self._columns.items():
                column.extend(rows.column(name))
            return self
        interned, values_of = dict[str, str]().setdefault, attrgetter(*self._columns)
        for some in batched(rows):
            columns = zip(*map(values_of, some), strict=True)
            for name, values in zip(self._columns, columns, strict=True):
                texts = map(intern, map(str, values)) if name == "item" else map(interned, values, values)
                self._columns[name] += texts if name in _TEXTS else values
        return self

    def add(self, count: int, **values: Sequence[Any] | str | float | None) -> None:
        """Append `count` rows: of each field a list of their values, or the one value that all have."""
        for name, column in self._columns.items():
            value = values[name]
            column.extend(value if isinstance(value, list) else [value] * count)

    def texts(self) -> Iterator[tuple[bytes, int]]:
        """The rows as lines of JSON, many together, each time with their number."""
        return texts_of(self)

    def column(self, name: str) -> list[Any]:
        """One column by its field's name."""
        return self._columns[name]

    def __len__(self) -> int:
        return len(self._columns["item"])

    def __iter__(self) -> Iterator[ItemRow]:
        return map(ItemRow, *self._columns.values())

    def to_columns(self) -> dict[str, Sequence[Json]]:
        """The values of each field, for a DataFrame."""
        return {name: list(column) for name, column in self._columns.items()}

    def items_of(self, system: str) -> set[str]:
        """The distinct items of a system."""
        both = zip(self.column("item"), self.column("system"), strict=True)
        return {item for item, of in both if of == system}


_TEXTS = {"item", "kind", "sample", "system", "of"}


class AskedQuestion(Protocol):
    """The attributes of a question that items are made of."""

    @property
    def kind(self) -> str:
        """The name of the question's kind, such as `relevance`."""
        ...

    @property
    def item(self) -> str:
        """The digest of what it judges."""
        ...

    def judged(self) -> Mapping[str, Json]:
        """The judged fields by name; a question about one passage has `passage`."""
        ...

    def parts(self) -> tuple[str, ...]:
        """The items of its parts, in order."""
        ...


class AskedItem(Struct, frozen=True, gc=False):
    """One thing that was asked: its item and kind, the passage and the query that it is about, the items of its parts."""

    item: str
    kind: str
    query: str | None = None
    passage: str | None = None
    parts: tuple[str, ...] = ()

    @classmethod
    def of(cls, question: AskedQuestion) -> AskedItem:
        """The item of a question, with those of its parts, as `add_items` takes it."""
        judged = question.judged()
        return cls(question.item, question.kind, judged.get("query"), judged.get("passage"), question.parts())


def add_items(table: ItemTable, sample: Sample, asked: Iterable[AskedItem]) -> None:
    """Append the item rows of what was asked about a sample, each once.

    A question about a passage has a row for each place that shows this passage for the question's query (its call's
    or the sample's); any other question has one row, and one more for each of its parts.
    """
    distinct: dict[str, AskedItem] = {}
    for asked_item in asked:
        distinct.setdefault(asked_item.item, asked_item)
    if not distinct:
        return
    of_text: dict[str | None, list[RankedPassage]] = {}
    for passage in sample.ranked_passages():
        of_text.setdefault(passage.context.text, []).append(passage)
    rows: list[tuple[str, str, int | None, int | None, str | None, int | None]] = []
    for asked_item in distinct.values():
        before = len(rows)
        rows.extend(
            (asked_item.item, asked_item.kind, passage.call, passage.rank, None, None)
            for passage in of_text.get(asked_item.passage, ())
            if asked_item.query in (passage.query, sample.query)
        )
        if len(rows) == before:
            rows.append((asked_item.item, asked_item.kind, None, None, None, None))
        rows += [
            (part, asked_item.kind, None, None, asked_item.item, number)
            for number, part in enumerate(asked_item.parts, 1)
        ]
    columns = dict(zip(_OF_ITEM, map(list, zip(*rows, strict=True)), strict=True))
    table.add(len(rows), sample=sample.id, system=sample.system, trial=sample.trial, **columns)


_OF_ITEM = ("item", "kind", "call", "rank", "of", "part")
"""The fields of an item's row other than those that name the sample."""
