"""The rows of places.jsonl: each question asked about a sample, and the ranks of the passage it is about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from germane.places.lists import places_of
from germane.questions.question import AnyQuestion
from germane.types import Context, PlaceRow, Sample


class AskedItem(Struct, frozen=True, gc=False):
    """The subject of one question: its item (digest), kind, query, passage, and its sub-questions' items."""

    item: str
    kind: str
    query: str | None = None
    passage: str | None = None
    parts: tuple[str, ...] = ()

    @classmethod
    def of(cls, question: AnyQuestion) -> AskedItem:
        """Return the AskedItem of a question, with the items of its sub-questions in `parts`."""
        judged = question.judged()
        return cls(question.item, question.kind, judged.get("query"), judged.get("passage"), question.parts())


def places_asked(sample: Sample, asked: Iterable[AskedItem]) -> Iterator[PlaceRow]:
    """Yield the rows of places.jsonl for the questions asked about a sample, each question once.

    A question about a passage has one row for each rank at which the sample's lists hold that passage, if the
    question's query is the sample's or that of the search. Any other question has one row, plus one for each
    of its sub-questions.
    """
    distinct: dict[str, AskedItem] = {}
    for asked_item in asked:
        distinct.setdefault(asked_item.item, asked_item)
    lists = sample.lists()
    of_text: dict[str | None, list[tuple[int, int, Context]]] = {}
    for place in places_of(sample) if distinct else ():
        of_text.setdefault(place[2].text, []).append(place)
    name, gold = (sample.id, sample.system, sample.trial), sample.qrels or {}
    for row in distinct.values():
        same = of_text.get(row.passage, ())
        places = [place for place in same if row.query in (lists[place[0] - 1][0], sample.query)]
        for call, rank, context in places:
            grade = None if context.id is None else gold.get(context.id)
            yield PlaceRow(row.item, row.kind, *name, call, rank, context.id, grade)
        if not places:
            yield PlaceRow(row.item, row.kind, *name)
        for number, part in enumerate(row.parts, 1):
            yield PlaceRow(part, row.kind, *name, of=row.item, part=number)
