"""The rows of places.jsonl: the questions asked about a sample, and the ranks of their passages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from msgspec import Struct

from germane.places.lists import places_of
from germane.questions.question import AnyQuestion
from germane.types import Context, PlaceRow, Sample


class AskedItem(Struct, frozen=True, gc=False):
    """What one question is about.

    `item` is the question's digest, `query` and `passage` are the texts that are judged (None: no such text),
    and `parts` are the digests of its sub-questions.
    """

    item: str
    kind: str
    query: str | None = None
    passage: str | None = None
    parts: tuple[str, ...] = ()

    @classmethod
    def of(cls, question: AnyQuestion) -> AskedItem:
        """Return the AskedItem that describes a question."""
        judged = question.judged()
        return cls(question.item, question.kind, judged.get("query"), judged.get("passage"), question.parts())


def places_asked(sample: Sample, asked: Iterable[AskedItem]) -> Iterator[PlaceRow]:
    """Yield rows of places.jsonl: the ranks at which the passages in `asked` questions were retrieved.

    A question about a passage has one row for each rank of the passage in the sample's lists, if its query is
    that of the sample or of the search. Any other question, and each sub-question, has one row without a
    rank. A repeated question counts once.
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
