"""Items: what was judged, and the places of samples where it stands. They join labels, judgements and samples."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple, Protocol

from germane.encoding import encode
from germane.tables.columns import RowTable
from germane.types import Json, RankedPassage, Sample


class ItemRow(NamedTuple):
    """One place where a judge or a person was asked something.

    `item` is the digest of what was asked about. `call` and `rank` count from 1 and are None where it is not one
    passage. A part of a larger question (one claim of several) says `of` which item and which `part` it is, from 1.
    """

    item: str
    kind: str
    sample: str
    system: str = ""
    trial: int = 0
    call: int | None = None
    rank: int | None = None
    of: str | None = None
    part: int | None = None


class ItemTable(RowTable[ItemRow]):
    """The items of an evaluation, in input order."""

    row = ItemRow
    fields = ItemRow._fields


class AskedQuestion(Protocol):
    """What a question tells of itself here."""

    @property
    def kind(self) -> str:
        """The name of its kind."""
        ...

    @property
    def item(self) -> str:
        """The digest of what it judges."""
        ...

    def judged(self) -> Mapping[str, Json]:
        """What it judges, by name; a question about one passage has `passage`."""
        ...

    def parts(self) -> tuple[str, ...]:
        """The items of its parts, in order."""
        ...


def item_rows(sample: Sample, questions: Iterable[AskedQuestion]) -> Iterator[ItemRow]:
    """The item rows of what was asked about a sample, each once.

    A question about a passage has a row for each place that shows this passage for the question's query (its call's
    or the sample's); any other question has one row, and one more for each of its parts.
    """
    asked = list(questions)
    if not asked:
        return
    of_text: dict[str, list[RankedPassage]] = {}
    for place in sample.places():
        of_text.setdefault(place.context.text, []).append(place)
    key = (sample.id, sample.system, sample.trial)
    seen: set[str] = set()
    for question in asked:
        item, kind, judged = question.item, question.kind, question.judged()
        if item in seen:
            continue
        seen.add(item)
        shown = of_text.get(judged["passage"], ()) if "passage" in judged else ()
        places = [place for place in shown if judged.get("query") in {place.query, sample.query}]
        for place in places:
            yield ItemRow(item, kind, *key, place.call, place.rank)
        if not places:
            yield ItemRow(item, kind, *key)
        for number, part in enumerate(question.parts(), 1):
            yield ItemRow(part, kind, *key, of=item, part=number)


def item_lines(key: tuple[str, str, int], items: Iterable[str]) -> list[bytes]:
    """The lines of items.jsonl for the relevance of the places of one ranking, best first, each another passage."""
    middle = b'","kind":"relevance","sample":%b,"system":%b,"trial":%d,"call":1,"rank":' % (
        encode(key[0]),
        encode(key[1]),
        key[2],
    )
    end = b',"of":null,"part":null}\n'
    return [b'{"item":"%b%b%d%b' % (item.encode(), middle, rank, end) for rank, item in enumerate(items, 1)]
