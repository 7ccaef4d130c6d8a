"""The program that labels the places of a sample's rankings, from gold ids, a judge or people.

It asks the judge where the source is the judge and nobody elsewhere. Its result is what the label table of a block is
filled from, and what an explanation of a ranked score shows.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from germane.measures.labels import Place, Ranking, gold_label, human_label, on_one_scale, verdict_label
from germane.measures.measure import Source
from germane.measures.passages import rankings, turns
from germane.measures.settings import Settings
from germane.questions import Relevance
from germane.questions.asking import Program, Unanswered, ask_all
from germane.types import Context, Sample

__all__ = ["place_labels"]


def place_labels(
    sample: Sample,
    source: Source,
    depth: int | None,
    settings: Settings,
    *,
    against: str = "need",
    final: bool = False,
) -> Program[tuple[Ranking, ...]]:
    """The labels of a sample's first `depth` places (None = all) in each of its calls, or in its final list.

    `against`: the judge holds contexts against the need (the sample's query, and whatever the settings add to it), or
    against the query of the call that they came from and nothing else - the reference answers the need.
    """
    lists = list(rankings(sample, final=final))
    if source == "gold":
        return tuple(_gold(sample, query, contexts) for query, contexts in lists)
    cut = [(query, contexts[:depth]) for query, contexts in lists]
    if source == "human":
        return on_one_scale(
            tuple(
                Ranking(query, tuple(Place(c, human_label(c)) for c in contexts)) for query, contexts in cut
            )
        )
    if against == "call":
        by_query = {query: _against_query(sample, query, settings) for query, _ in cut}
        own = [by_query[query] for query, _ in cut]
    else:
        own = [_against_need(sample, settings)] * len(cut)
    return on_one_scale((yield from _judged(cut, own, people_first=source == "best")))


def _gold(sample: Sample, query: str, contexts: Sequence[Context]) -> Ranking:
    """Gold is about documents: of several chunks of one document the first counts, the others give up their place."""
    qrels: Mapping[str, int] = sample.qrels or {}
    seen: set[str] = set()
    places = []
    for context in contexts:
        if context.id is not None and context.id in seen:
            continue
        seen.update([context.id] if context.id is not None else [])
        grade = None if context.id is None else qrels.get(context.id)
        places.append(Place(context, None if grade is None else gold_label(grade)))
    return Ranking(query, tuple(places), repeated=len(contexts) - len(places))


@dataclass(frozen=True, slots=True, eq=False)
class _Against:
    """What contexts are held against: `shown` beside them, and whether `labels` of people and gold answer just that."""

    shown: Mapping[str, Any]
    labels: bool = True
    qrels: Mapping[str, int] | None = None

    def gold(self, context: Context) -> int | None:
        """The grade a judge of gold ids reads: an unjudged document counts as 0, nothing known as None."""
        if self.qrels is None or context.id is None:
            return None
        return int(self.qrels.get(context.id, 0))

    def alike(self, context: Context) -> tuple[object, ...]:
        """What contexts have in common that get one verdict."""
        if not self.labels:
            return (self, context.text)
        return (self, context.text, context.grade, context.relevant, self.gold(context))

    def question(self, context: Context) -> Relevance:
        """Is this context relevant?"""
        if not self.labels:
            return Relevance(passage=context.text, **self.shown)
        return Relevance(passage=context.text, context=context, gold=self.gold(context), **self.shown)


def _against_need(sample: Sample, settings: Settings) -> _Against:
    """What the evaluation's settings say: the query, and what is shown beside it."""
    beside = {"history": turns(sample), **settings.beside(sample)}
    return _Against({"query": sample.query, "scale": settings.scale, **beside}, qrels=sample.qrels)


def _against_query(sample: Sample, query: str, settings: Settings) -> _Against:
    """What people and gold say is about the need: it is an answer only where the call searched for just that."""
    labels = query == sample.query
    return _Against({"query": query, "scale": settings.scale}, labels, sample.qrels)


def _judged(
    lists: Sequence[tuple[str, Sequence[Context]]],
    against: Sequence[_Against],
    *,
    people_first: bool,
) -> Program[tuple[Ranking, ...]]:
    numbers: dict[tuple[object, ...], int] = {}
    questions: list[Relevance] = []
    asked: list[list[int]] = []
    for (_, contexts), held in zip(lists, against, strict=True):
        row = []
        for context in contexts:
            if people_first and not isinstance(human_label(context), Unanswered):
                row.append(-1)
                continue
            alike = held.alike(context)
            number = numbers.get(alike)
            if number is None:
                number = numbers[alike] = len(questions)
                questions.append(held.question(context))
            row.append(number)
        asked.append(row)
    answers = yield from ask_all(questions)
    labels = [answer if isinstance(answer, Unanswered) else verdict_label(answer) for answer in answers]
    return tuple(
        Ranking(
            query,
            tuple(Place(c, labels[n] if n >= 0 else human_label(c), n) for c, n in zip(cs, row, strict=True)),
        )
        for (query, cs), row in zip(lists, asked, strict=True)
    )
