"""Items: what was judged, and the places of samples where it stands. They join labels, judgements and samples."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Protocol

from msgspec import Struct

from germane.tables.columns import RowTable
from germane.types import ItemRow, Json, RankedPassage, Sample


class ItemTable(RowTable[ItemRow]):
    """The items of an evaluation, in input order."""

    row = ItemRow

    def items_of(self, system: str) -> set[str]:
        """The distinct items of a system."""
        both = zip(self.column("item"), self.column("system"), strict=True)
        return {item for item, of in both if of == system}


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
