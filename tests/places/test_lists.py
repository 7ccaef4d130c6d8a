"""Places: one row per place about which something was asked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from germane.encoding import digest
from germane.places.lists import PlaceRow, places_asked
from germane.types import Call, Context, FrozenDict, Sample


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


def item_rows(sample: Sample, asked: list[Any]) -> list[PlaceRow]:
    texts = ((question, question.judged()) for question in asked)
    items = ((q.item, q.kind, text.get("query"), text.get("passage"), q.parts()) for q, text in texts)
    return list(places_asked(sample, items))


def contexts(*texts: str) -> tuple[Context, ...]:
    return tuple(Context(text=text) for text in texts)


def test_a_passage_has_a_row_for_each_place() -> None:
    """Duplicates share an item; a question asked twice has no second row."""
    sample = Sample(id="q1", query="q", system="bm25", trial=2, contexts=contexts("a", "b", "a"))
    question = relevance("q", "a")
    rows = item_rows(sample, [question, question])
    assert rows == [
        PlaceRow(question.item, "relevance", "q1", "bm25", 2, call=1, rank=1),
        PlaceRow(question.item, "relevance", "q1", "bm25", 2, call=1, rank=3),
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


def test_a_place_says_its_document_and_the_gold_of_it() -> None:
    """None where the context has no id, and where gold does not know the document."""
    listed = tuple(Context(text="a", id=name) for name in ("d1", None, "d2"))
    sample = Sample(id="q1", query="q", contexts=listed, qrels=FrozenDict({"d1": 0, "d9": 2}))
    rows = item_rows(sample, [relevance("q", "a")])
    assert [(row.rank, row.document, row.gold) for row in rows] == [
        (1, "d1", 0),
        (2, None, None),
        (3, "d2", None),
    ]
