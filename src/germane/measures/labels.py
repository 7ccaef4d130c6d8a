"""Labels: what a source - gold ids, a judge, people - says of the places of a sample's rankings.

From a sample to its rankings, from rankings to labels (asking the judge where the source is the judge, and nobody
elsewhere), from the labels of many samples to one `RankedLabels`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from germane.errors import InputError
from germane.measures.kernel import Ints, RankedLabels
from germane.measures.measure import Source
from germane.questions.asking import Missing, Program, Unanswered, ask_all
from germane.questions.relevance import Relevance, Scale
from germane.questions.text import blank
from germane.tables.labels import LabelBook, passage_of, relevance_item
from germane.types import Context, Sample

if TYPE_CHECKING:
    from germane.samples.rows import PlainRow

AGAINST = ("auto", "query", "reference", "response", "criterion")
RUBRICS = ("trec", "usefulness")


def rankings(sample: Sample, *, final: bool = False) -> Iterator[tuple[str, tuple[Context, ...]]]:
    """The query and contexts of each search of a sample; a plain sample is one search.

    `final`: only what the system handed back in the end - its own list beside the calls, else the last call's.
    """
    if sample.calls and not (final and sample.contexts is not None):
        for call in sample.calls[-1:] if final else sample.calls:
            yield sample.query if blank(call.query or "") else call.query or "", call.contexts
    elif sample.contexts is not None:
        yield sample.query, sample.contexts


def same(context: Context) -> tuple[str, str | None]:
    """What two contexts share that are the same passage: their text or, where that says nothing, their id."""
    return ("", context.id) if blank(context.text) else (context.text, None)


def distinct_contexts(sample: Sample, k: int | None = None) -> tuple[Context, ...]:
    """The first `k` contexts (None = all) of all calls, each passage once, in order of first appearance.

    What a final list beside the calls adds to them comes last.
    """
    lists = (*(contexts for _, contexts in rankings(sample)), sample.contexts or ())
    return distinct(contexts[:k] for contexts in lists)


def distinct(lists: Iterable[Iterable[Context]]) -> tuple[Context, ...]:
    """Each passage of several lists once, in order of first appearance."""
    found: dict[tuple[str, str | None], Context] = {}
    for context in chain.from_iterable(lists):
        found.setdefault(same(context), context)
    return tuple(found.values())


def texts_of(contexts: Sequence[Context]) -> tuple[str, ...]:
    """The contexts' texts, in rank order, for a judge to read; Missing where one has an id and no text."""
    for context in contexts:
        if not context.text:
            raise Missing(f"the context {context.id!r} has no text")
    return tuple(context.text for context in contexts)


def given(sample: Sample | PlainRow, name: str) -> str | None:
    """The query, reference, response or criterion of a sample; None where it is not there or says nothing."""
    text: str | None = getattr(sample, name, None)
    return None if text is None or blank(text) else text


def turns(sample: Sample) -> tuple[tuple[str, str], ...]:
    """The conversation before the query, as (role, text); a turn without text (a tool call) is left out."""
    found = []
    for turn in sample.history:
        parts = turn.content if isinstance(turn.content, tuple) else (turn.content,)
        texts = (part.get("text") if isinstance(part, Mapping) else part for part in parts)
        text = " ".join(text for text in texts if isinstance(text, str))
        if not blank(text):
            found.append((turn.role, text))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class Settings:
    """What one evaluation asks relevance about: one setting for all its measures.

    `against`: auto = the query, and the sample's reference or, where it has none, its criterion; query; reference;
    response; criterion. `scale`: graded (0-3) or binary. `rubric` names the wording of the grades: trec, or usefulness.
    `labels` are people's labels beside those on the contexts themselves; where both speak, `labels` holds.
    """

    against: str = "auto"
    scale: Scale = "graded"
    rubric: str = "trec"
    labels: LabelBook | None = None

    def __post_init__(self) -> None:
        known = {"against": AGAINST, "scale": ("graded", "binary"), "rubric": RUBRICS}
        for name, choices in known.items():
            if getattr(self, name) not in choices:
                raise InputError(
                    f"{name}={getattr(self, name)!r} is not known", fix=f"write one of {', '.join(choices)}"
                )

    @classmethod
    def of(cls, against: str | None, scale: str | None, rubric: str | None = None) -> Settings:
        """The settings that flags or a file name; None = the default."""
        return cls(against or "auto", cast("Scale", scale or "graded"), rubric or "trec")

    @property
    def asked(self) -> dict[str, str]:
        """On which scale and by which wording relevance is graded."""
        return {"scale": self.scale, **({"rubric": self.rubric} if self.rubric != "trec" else {})}

    def beside(self, sample: Sample | PlainRow) -> dict[str, str]:
        """The reference, response or criterion of a sample that relevance is judged against beside the query."""
        names = ("reference", "criterion") if self.against == "auto" else (self.against,)
        return next(({name: text} for name in names if (text := given(sample, name)) and name != "query"), {})


HELPS = 2
"""The grade, of 0 to 3, from which a context counts as relevant."""


class PlaceLabel(NamedTuple):
    """The label of one place: `gain` is its worth to nDCG, `level` is held against a threshold (yes / no: inf / 0).

    `scale`: graded (0 to 3; gold: any), binary, or the ends of another one (0-4).
    """

    gain: float
    level: float
    reasoning: str = ""
    source: str = "gold"
    scale: str = "graded"

    @property
    def binary(self) -> bool:
        """Whether it is a yes or no."""
        return self.scale == "binary"


class LabelledPlace(NamedTuple):
    """One place of a ranking: its context, and its label, None (unjudged) or Unanswered (the judge failed).

    Places that share a verdict (the same passage twice) share `verdict`, the number of the question.
    """

    context: Context
    label: PlaceLabel | Unanswered | None
    verdict: int = -1


class Ranking(NamedTuple):
    """One call's places, best first; `query` is what this call searched for.

    `mixed`: the sample's labels were on two scales, and what they are worth is a yes or no.
    """

    query: str
    places: tuple[LabelledPlace, ...]
    repeated: int = 0
    mixed: bool = False


def _label(answer: float, scale: str, source: str, reasoning: str = "") -> PlaceLabel:
    if scale == "binary":
        return PlaceLabel(float(answer), math.inf if answer else 0.0, reasoning, source, scale)
    return PlaceLabel(max(answer, 0), answer, reasoning, source, scale)


def human_label(context: Context, scale: str = "graded") -> PlaceLabel | None:
    """The label of a person on the context itself: a grade, or yes / no on a scale of its own; None = unjudged."""
    if context.grade is not None:
        return _label(context.grade, scale, "human")
    return None if context.relevant is None else _label(context.relevant, "binary", "human")


def human_scales(sample: Sample, settings: Settings) -> set[str]:
    """The scales that people's labels on a sample's contexts are on; none = nobody labelled any of them."""
    need = _Against.need(sample, settings)
    found = (need.human(context) for _, contexts in rankings(sample) for context in contexts)
    return {label.scale for label in found if label is not None}


@dataclass(frozen=True, slots=True, eq=False)
class _Against:
    """What contexts are held against: `shown` beside them, and whether `labels` of people and gold answer just that."""

    shown: Mapping[str, Any]
    labels: bool = True
    qrels: Mapping[str, int] | None = None
    people: LabelBook | None = None
    grades: str = "graded"

    @classmethod
    def need(cls, sample: Sample, settings: Settings) -> _Against:
        """The query, and what the evaluation's settings show beside it."""
        beside = {"history": turns(sample), **settings.beside(sample)}
        shown = {"query": sample.query, **settings.asked, **beside}
        low, high = getattr(sample, "grade_scale", None) or (0, 3)
        grades = "graded" if (low, high) == (0, 3) else f"{low}-{high}"
        return cls(shown, qrels=sample.qrels, people=settings.labels, grades=grades)

    @classmethod
    def call(cls, query: str, sample: Sample, settings: Settings) -> _Against:
        """A call's own query. People and gold label for the need: they answer only where that is the call's query."""
        return cls({"query": query, **settings.asked}, query == sample.query, sample.qrels)

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

    def human(self, context: Context) -> PlaceLabel | None:
        """What people say of this context: the label that counts for its item, else the one on the context itself."""
        if self.people is not None:
            item = relevance_item(self.shown["query"], passage_of(context), self.shown.get("history", ()))
            if (label := self.people.get(item)) is not None:
                return _label(label.answer, label.scale, "human")
        return human_label(context, self.grades)


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
        return gold_rankings(sample, final=final)
    cut = [(query, contexts[:depth]) for query, contexts in lists]
    need = _Against.need(sample, settings)
    if source == "human":
        labelled = (tuple(LabelledPlace(c, need.human(c)) for c in contexts) for _, contexts in cut)
        return _on_one_scale(tuple(map(Ranking, (query for query, _ in cut), labelled)))
    if against == "call":
        by_query = {query: _Against.call(query, sample, settings) for query, _ in cut}
        own = [by_query[query] for query, _ in cut]
    else:
        own = [need] * len(cut)
    return _on_one_scale((yield from _judged(cut, own, people_first=source == "best")))


def _documents(contexts: Iterable[Context], qrels: Mapping[str, int]) -> Iterator[tuple[Context, int | None]]:
    """Gold is about documents: of several chunks of one document the first counts, the others give up their place."""
    seen: set[str] = set()
    for context in contexts:
        name = context.id
        if name is None:
            yield context, None
        elif name not in seen:
            seen.add(name)
            yield context, qrels.get(name)


def gold_rankings(sample: Sample, *, final: bool) -> tuple[Ranking, ...]:
    """The gold labels of a sample's rankings."""
    found = []
    for query, contexts in rankings(sample, final=final):
        places = tuple(
            LabelledPlace(
                context, None if grade is None else _label(grade, "graded", "gold", f"gold grade {grade}")
            )
            for context, grade in _documents(contexts, sample.qrels or {})
        )
        found.append(Ranking(query, places, repeated=len(contexts) - len(places)))
    return tuple(found)


def _judged(
    lists: Sequence[tuple[str, Sequence[Context]]], against: Sequence[_Against], *, people_first: bool
) -> Program[tuple[Ranking, ...]]:
    numbers: dict[tuple[object, ...], int] = {}
    questions: list[Relevance] = []
    found: list[list[tuple[Context, PlaceLabel | None, int]]] = []
    for (_, contexts), held in zip(lists, against, strict=True):
        found.append(row := [])
        for context in contexts:
            label = held.human(context) if people_first else None
            number = -1
            if label is None:
                number = numbers.setdefault(held.alike(context), len(questions))
                if number == len(questions):
                    questions.append(held.question(context))
            row.append((context, label, number))
    labels = [
        answer
        if isinstance(answer, Unanswered)
        else _label(answer.grade, answer.scale, "judge", answer.reasoning)
        for answer in (yield from ask_all(questions))
    ]
    return tuple(
        Ranking(
            query, tuple(LabelledPlace(c, labels[n] if label is None else label, n) for c, label, n in row)
        )
        for (query, _), row in zip(lists, found, strict=True)
    )


def _on_one_scale(lists: tuple[Ranking, ...]) -> tuple[Ranking, ...]:
    """One sample's rankings, where a yes stands beside grades with every label worth 1 or 0.

    A yes has no place among the grades: worth 1, a perfect ranking with it above a 3 would not score 1. Thresholds
    hold on both scales, so what is relevant stays as it is.
    """
    if len({p.label.binary for one in lists for p in one.places if isinstance(p.label, PlaceLabel)}) < 2:
        return lists
    found = []
    for one in lists:
        places = (
            p._replace(label=p.label._replace(gain=float(p.label.level >= HELPS)))
            if isinstance(p.label, PlaceLabel)
            else p
            for p in one.places
        )
        found.append(one._replace(places=tuple(places), mixed=True))
    return tuple(found)


def fill_table(
    lists: Sequence[Ranking], source: Source, qrels: Sequence[Mapping[str, Any]] = ()
) -> RankedLabels:
    """The labels of these rankings, one row each. Gold needs the row's qrels: they are its ideal.

    A missing verdict stands as an unjudged place: `missing_verdicts` finds them, for bounds.
    """
    found = [[p.label if isinstance(p.label, PlaceLabel) else None for p in one.places] for one in lists]
    levels = [[label and label.level for label in row] for row in found]
    if source == "gold":
        return RankedLabels.of_lists(levels, [[*known.values()] for known in qrels])
    gains = [[label and label.gain for label in row] for row in found]
    return RankedLabels.of_lists(levels, gains=gains, rel=HELPS)


def gold_table(samples: Iterable[Sample], *, final: bool) -> tuple[RankedLabels, list[int], int]:
    """The gold labels of many samples straight from their contexts, how many rankings each has, and repeated documents.

    Equal to `fill_table` of `place_labels`, without an object per place.
    """
    labels: list[list[int | None]] = []
    known: list[list[int]] = []
    lengths, repeated = [], 0
    for sample in samples:
        qrels: Mapping[str, int] = sample.qrels or {}
        lists = [contexts for _, contexts in rankings(sample, final=final)]
        lengths.append(len(lists))
        for contexts in lists:
            labels.append([grade for _, grade in _documents(contexts, qrels)])
            known.append([*qrels.values()])
            repeated += len(contexts) - len(labels[-1])
    return RankedLabels.of_lists(labels, known), lengths, repeated


def missing_verdicts(lists: Sequence[Ranking], *, holes: bool = False) -> Ints:
    """For each place of one sample's rankings: the number of its verdict where that is missing, else -1.

    `holes`: a place that nobody judged is missing a verdict of its own.
    """
    numbers = []
    lonely = 1 + max((place.verdict for ranking in lists for place in ranking.places), default=0)
    for position, place in enumerate(place for ranking in lists for place in ranking.places):
        missing = isinstance(place.label, Unanswered) or (holes and place.label is None)
        numbers.append(-1 if not missing else place.verdict if place.verdict >= 0 else lonely + position)
    return np.array(numbers, dtype=np.int64)
