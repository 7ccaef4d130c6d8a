"""What was asked of a judge about a sample, with the places where it stands: the rows of places.jsonl."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from germane.questions.question import AnyQuestion
from germane.types import PlaceRow, RankedPassage, Sample


class AskedItem(Struct, frozen=True, gc=False):
    """One thing that was asked: its item and kind, the passage and the query that it is about, the items of its parts."""

    item: str
    kind: str
    query: str | None = None
    passage: str | None = None
    parts: tuple[str, ...] = ()

    @classmethod
    def of(cls, question: AnyQuestion) -> AskedItem:
        """The item of a question, with those of its parts."""
        judged = question.judged()
        return cls(question.item, question.kind, judged.get("query"), judged.get("passage"), question.parts())


def places_asked(sample: Sample, asked: Iterable[AskedItem]) -> Iterator[PlaceRow]:
    """The rows of what was asked about a sample, each once.

    A question about a passage has a row for each place that shows this passage for the question's query (its call's
    or the sample's); any other question has one row, and one more for each of its parts.
    """
    distinct: dict[str, AskedItem] = {}
    for asked_item in asked:
        distinct.setdefault(asked_item.item, asked_item)
    of_text: dict[str | None, list[RankedPassage]] = {}
    for passage in sample.ranked_passages() if distinct else ():
        of_text.setdefault(passage.context.text, []).append(passage)
    name, gold = (sample.id, sample.system, sample.trial), sample.qrels or {}
    for row in distinct.values():
        places = [
            passage for passage in of_text.get(row.passage, ()) if row.query in (passage.query, sample.query)
        ]
        for call, rank, _, context in places:
            grade = None if context.id is None else gold.get(context.id)
            yield PlaceRow(row.item, row.kind, *name, call, rank, context.id, grade)
        if not places:
            yield PlaceRow(row.item, row.kind, *name)
        for number, part in enumerate(row.parts, 1):
            yield PlaceRow(part, row.kind, *name, of=row.item, part=number)
