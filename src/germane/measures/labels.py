"""Labels: what a source - gold ids, a judge, people - says of the places of a sample's rankings.

From a sample to its rankings, from rankings to labels (asking the judge where the source is the judge, and nobody
elsewhere), from the labels of many samples to one `RankedLabels`.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from germane.errors import InputError
from germane.measures.kernel import Ints, RankedLabels
from germane.measures.measure import LabelChoice
from germane.questions.asking import Missing, Program, Unanswered, ask_all
from germane.questions.relevance import Relevance, Scale
from germane.questions.text import blank
from germane.tables.labels import LabelBook, answer_on, passage_of, relevance_item
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


class LabelledPlace(NamedTuple):
    """One place of a ranking: its context, and its label, None (unjudged) or Unanswered (the judge failed).

    Places that share a verdict (the same passage twice) share `verdict`, the number of the question.
    """

    context: Context
    label: PlaceLabel | Unanswered | None
    verdict: int = -1


class Ranking(NamedTuple):
    """One call's places, best first; `query` is what this call searched for.

    `known`: of gold, the grades of all documents that are judged for the query. `repeated` contexts gave up their place.
    `mixed`: the sample's labels were on two scales, and what they are worth is a yes or no.
    """

    query: str
    places: tuple[LabelledPlace, ...]
    known: tuple[int, ...] | None = None
    repeated: int = 0
    mixed: bool = False


def _label(answer: float, scale: str, source: str, reasoning: str = "") -> PlaceLabel:
    if scale == "binary":
        return PlaceLabel(float(answer), math.inf if answer else 0.0, reasoning, source, scale)
    return PlaceLabel(max(answer, 0), answer, reasoning, source, scale)


def people_on(sample: Sample, settings: Settings, turn: int = 0) -> Callable[[Context], PlaceLabel | None]:
    """What people say of a context of this sample: the labels of its item, else the one on the context.

    Of several people the `turn` says whose answer is held against thresholds; gains are the mean of all.
    """
    book, history = settings.labels, turns(sample)

    def label(context: Context) -> PlaceLabel | None:
        item = relevance_item(sample.query, passage_of(context), history) if book else ""
        if book and (votes := book.votes(item)):
            one = book.turn(item, turn)
            found = None if one is None else _label(one.answer, one.scale, "human")
            gains = [_label(vote.answer, vote.scale, "human").gain for vote in votes]
            return found and found._replace(gain=math.fsum(gains) / len(gains))
        answer = answer_on(context, sample)
        return answer and _label(*answer, "human")

    return label


def people_turns(sample: Sample, settings: Settings, lists: Iterable[Iterable[Context]]) -> int:
    """How many rankings it takes to read everybody's labels of a sample: measures are computed per person, then averaged."""
    if settings.labels is None:
        return 1
    history = turns(sample)
    items = (relevance_item(sample.query, passage_of(one), history) for contexts in lists for one in contexts)
    return settings.labels.turns(items)


@functools.lru_cache
def _gold_label(grade: int | None) -> PlaceLabel | None:
    return None if grade is None else _label(grade, "graded", "gold", f"gold grade {grade}")


def _gold_ranking(query: str, contexts: Sequence[Context], qrels: Mapping[str, int]) -> Ranking:
    """Gold is about documents: of several chunks of one document the first counts, the others give up their place."""
    seen: set[str] = set()
    places = []
    for context in contexts:
        if context.id is None:
            places.append(LabelledPlace(context, None))
        elif context.id not in seen:
            seen.add(context.id)
            places.append(LabelledPlace(context, _gold_label(qrels.get(context.id))))
    return Ranking(query, tuple(places), tuple(qrels.values()), repeated=len(contexts) - len(places))


def place_labels(
    sample: Sample, choice: LabelChoice, depth: int | None, settings: Settings
) -> Program[tuple[Ranking, ...]]:
    """The labels of a sample's first `depth` places (None = all) in each of its calls, or in its final list."""
    lists, qrels = list(rankings(sample, final=choice.final)), sample.qrels
    if choice.source == "gold":
        return tuple(_gold_ranking(query, contexts, qrels or {}) for query, contexts in lists)
    read = (
        1 if choice.source == "judge" else people_turns(sample, settings, (one[:depth] for _, one in lists))
    )
    people = None
    need = {"query": sample.query, **settings.asked, "history": turns(sample), **settings.beside(sample)}
    numbers: dict[tuple[object, ...], int] = {}
    questions: list[Relevance] = []
    found: list[tuple[str, list[LabelledPlace]]] = []
    for number, (query, contexts) in enumerate(lists * read):
        if choice.source != "judge" and number % len(lists) == 0:
            people = people_on(sample, settings, number // len(lists))
        shown = need if choice.against == "need" else {"query": query, **settings.asked}
        places = []
        for context in contexts[:depth]:
            label, verdict = people and people(context), -1
            if label is None and choice.source != "human":
                known: dict[str, Any] = {}
                if shown["query"] == sample.query:  # people and gold label for the need
                    gold = None if qrels is None or context.id is None else int(qrels.get(context.id, 0))
                    known = {"context": context, "gold": gold}
                alike = (shown["query"], context.text, *(known and (context.grade, context.relevant, gold)))
                verdict = numbers.setdefault(alike, len(questions))
                if verdict == len(questions):
                    questions.append(Relevance(passage=context.text, **known, **shown))
            places.append(LabelledPlace(context, label, verdict))
        found.append((query, places))
    verdicts = [
        one if isinstance(one, Unanswered) else _label(one.grade, one.scale, "judge", one.reasoning)
        for one in (yield from ask_all(questions))
    ]
    return _on_one_scale(
        [
            (query, [LabelledPlace(c, label if n < 0 else verdicts[n], n) for c, label, n in places])
            for query, places in found
        ]
    )


def _on_one_scale(lists: Sequence[tuple[str, Sequence[LabelledPlace]]]) -> tuple[Ranking, ...]:
    """One sample's rankings, where a yes stands beside grades with every label worth 1 or 0.

    A yes has no place among the grades: worth 1, a perfect ranking with it above a 3 would not score 1. Thresholds
    hold on both scales, so what is relevant stays as it is.
    """
    if (
        len({p.label.scale == "binary" for _, one in lists for p in one if isinstance(p.label, PlaceLabel)})
        < 2
    ):
        return tuple(Ranking(query, tuple(places)) for query, places in lists)

    def worth(place: LabelledPlace) -> LabelledPlace:
        if not isinstance(place.label, PlaceLabel):
            return place
        return place._replace(label=place.label._replace(gain=float(place.label.level >= HELPS)))

    return tuple(Ranking(query, tuple(map(worth, places)), mixed=True) for query, places in lists)


def fill_table(lists: Sequence[Ranking]) -> RankedLabels:
    """The labels of these rankings, one row each, all of one source. The ideal of gold is all that gold knows.

    A missing verdict stands as an unjudged place: `missing_verdicts` finds them, for bounds.
    """
    found = [[p.label if isinstance(p.label, PlaceLabel) else None for p in one.places] for one in lists]
    levels = [[label and label.level for label in row] for row in found]
    if lists and lists[0].known is not None:
        return RankedLabels.of_lists(levels, [one.known or () for one in lists])
    gains = [[label and label.gain for label in row] for row in found]
    return RankedLabels.of_lists(levels, gains=gains, rel=HELPS)


def missing_verdicts(lists: Sequence[Ranking], *, holes: bool) -> Ints:
    """For each place of one sample's rankings: the number of its verdict where that is missing, else -1.

    `holes`: a place that nobody judged is missing a verdict of its own.
    """
    numbers = []
    lonely = 1 + max((place.verdict for ranking in lists for place in ranking.places), default=0)
    for position, place in enumerate(place for ranking in lists for place in ranking.places):
        missing = isinstance(place.label, Unanswered) or (holes and place.label is None)
        numbers.append(-1 if not missing else place.verdict if place.verdict >= 0 else lonely + position)
    return np.array(numbers, dtype=np.int64)
