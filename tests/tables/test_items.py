"""Items: one row per place where something was asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from germane.encoding import digest
from germane.tables.items import AskedItem, ItemTable, add_items
from germane.types import Call, Context, ItemRow, Sample


@dataclass(frozen=True)
class Asked:
    """A question as far as items see it."""

    kind: str
    about: dict[str, Any]
    claims: tuple[str, ...] = field(default=())

    @property
    def item(self) -> str:
        return digest({"kind": self.kind, **self.about})

    def judged(self) -> dict[str, Any]:
        return self.about

    def parts(self) -> tuple[str, ...]:
        return tuple(digest([claim, self.about["passages"]]) for claim in self.claims)


def relevance(query: str, passage: str) -> Asked:
    return Asked("relevance", {"query": query, "passage": passage})


def item_rows(sample: Sample, asked: list[Asked]) -> list[ItemRow]:
    table = ItemTable()
    add_items(table, sample, map(AskedItem.of, asked))
    return list(table)


def contexts(*texts: str) -> tuple[Context, ...]:
    return tuple(Context(text=text) for text in texts)


def test_a_passage_has_a_row_for_each_place() -> None:
    """Duplicates share an item; a question asked twice has no second row."""
    sample = Sample(id="q1", query="q", system="bm25", trial=2, contexts=contexts("a", "b", "a"))
    question = relevance("q", "a")
    rows = item_rows(sample, [question, question])
    assert rows == [
        ItemRow(question.item, "relevance", "q1", "bm25", 2, call=1, rank=1),
        ItemRow(question.item, "relevance", "q1", "bm25", 2, call=1, rank=3),
    ]


def test_a_question_of_one_call_stands_in_calls_with_its_query() -> None:
    """One about the sample's query stands wherever the passage came back."""
    calls = (Call(query="x", contexts=contexts("a")), Call(query="y", contexts=contexts("b", "a")))
    sample = Sample(id="q1", query="q", calls=calls)
    places = [(row.call, row.rank) for row in item_rows(sample, [relevance("y", "a")])]
    assert places == [(2, 2)]
    places = [(row.call, row.rank) for row in item_rows(sample, [relevance("q", "a")])]
    assert places == [(1, 1), (2, 2)]


def test_other_questions_have_no_place_and_their_parts_are_items() -> None:
    """Support of two claims is three rows: the question, and each claim with its number."""
    sample = Sample(id="q1", query="q", contexts=contexts("a"))
    claims = Asked("claims", {"text": "one. two."})
    support = Asked("support", {"claims": ["one", "two"], "passages": ["a"]}, ("one", "two"))
    first, second, *parts = item_rows(sample, [claims, support])
    assert (first.kind, first.call, first.rank, first.of, first.part) == ("claims", None, None, None, None)
    assert second.item == support.item
    assert [(row.item, row.of, row.part) for row in parts] == [
        (item, support.item, number) for number, item in enumerate(support.parts(), 1)
    ]


def test_a_passage_that_came_back_nowhere_keeps_its_row() -> None:
    """The question was asked: its judgement is joined to the sample."""
    sample = Sample(id="q1", query="q", contexts=contexts("a"))
    (row,) = item_rows(sample, [relevance("another", "a")])
    assert (row.sample, row.call, row.rank) == ("q1", None, None)


def test_rows_come_back_as_they_were() -> None:
    """From the columns, None included."""
    rows = [ItemRow("i", "relevance", "q", call=1, rank=2), ItemRow("j", "support", "q", of="k", part=1)]
    table = ItemTable(rows)
    assert list(table) == rows
    assert table.column("rank") == [2, None]
    assert table.column("of") == [None, "k"]
