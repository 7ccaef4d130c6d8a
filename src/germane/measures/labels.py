"""Labels from any source - gold ids, a judge, people - for the places of a sample's rankings.

`place_labels` is a program: it asks the judge where the source is the judge and nobody elsewhere. Its result is
what the label table of a block is filled from, and what an explanation of a ranked score shows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import cast

from germane.errors import InputError
from germane.judging.programs import Missing, Program, Unanswered, ask_all
from germane.judging.questions import Grade, Relevance, Scale
from germane.judging.text import blank
from germane.measures.measure import Source
from germane.types import Context, Message, Sample

__all__ = [
    "AGAINST",
    "Label",
    "Place",
    "Ranking",
    "Settings",
    "distinct_contexts",
    "given",
    "place_labels",
    "rankings",
    "same",
    "shown_beside",
    "texts_of",
    "turns",
]

AGAINST = ("auto", "query", "reference", "response")
_BINARY = {True: math.inf, False: 0.0}
HELPS = 2
"""The grade, of 0 to 3, from which a context counts as relevant."""


@dataclass(frozen=True, slots=True)
class Settings:
    """What one evaluation asks relevance about: one setting for all its measures.

    `against`: auto = the query, and the reference where the sample has one; query; reference; response.
    `scale`: graded (0-3) or binary.
    """

    against: str = "auto"
    scale: Scale = "graded"

    def __post_init__(self) -> None:
        if self.against not in AGAINST:
            raise InputError(
                f"against={self.against!r} is not known", fix=f"write one of {', '.join(AGAINST)}"
            )
        if self.scale not in {"graded", "binary"}:
            raise InputError(f"scale={self.scale!r} is not known", fix="write graded or binary")

    @classmethod
    def of(cls, against: str | None, scale: str | None) -> Settings:
        """The settings that flags or a file name; None = the default."""
        return cls(against or "auto", cast("Scale", scale or "graded"))


@dataclass(frozen=True, slots=True)
class Label:
    """One label: `gain` is its worth to nDCG, `level` is held against a threshold (inf / 0 for yes / no: `binary`)."""

    gain: float
    level: float
    reasoning: str = ""
    source: str = "gold"
    binary: bool = False


@dataclass(frozen=True, slots=True)
class Place:
    """One place of a ranking: its context, and its label, None (unjudged) or Unanswered (the judge failed).

    Places that share a verdict (the same passage twice) share `verdict`, the number of the question.
    """

    context: Context
    label: Label | Unanswered | None
    verdict: int = -1


@dataclass(frozen=True, slots=True)
class Ranking:
    """One call's places, best first; `query` is what this call searched for.

    `mixed`: the sample's labels were on two scales, and what they are worth is a yes or no.
    """

    query: str
    places: tuple[Place, ...]
    repeated: int = 0
    mixed: bool = False


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
    found: dict[tuple[str, str | None], Context] = {}
    for contexts in (*(contexts for _, contexts in rankings(sample)), sample.contexts or ()):
        for context in contexts[:k]:
            found.setdefault(same(context), context)
    return tuple(found.values())


def texts_of(contexts: Sequence[Context]) -> tuple[str, ...]:
    """The contexts' texts, in rank order, for a judge to read; Missing where one has an id and no text."""
    for context in contexts:
        if not context.text:
            raise Missing(f"the context {context.id!r} has no text")
    return tuple(context.text for context in contexts)


def given(sample: Sample, name: str) -> str | None:
    """The query, reference or response of a sample; None where it is not there or says nothing."""
    text: str | None = getattr(sample, name)
    return None if text is None or blank(text) else text


def turns(sample: Sample) -> tuple[tuple[str, str], ...]:
    """What was said before, as (role, text); a turn that says nothing (a tool call) is none."""
    said = ((turn.role, _text(turn)) for turn in sample.history)
    return tuple((role, text) for role, text in said if not blank(text))


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
        own = [_against_call(sample, query, settings) for query, _ in cut]
    else:
        own = [_against_need(sample, settings)] * len(cut)
    return on_one_scale((yield from _judged(cut, own, people_first=source == "best")))


def on_one_scale(lists: tuple[Ranking, ...]) -> tuple[Ranking, ...]:
    """One sample's rankings, where a yes stands beside grades with every label worth 1 or 0.

    A yes has no place among the grades: worth 1, a perfect ranking with it above a 3 would not score 1. Thresholds
    hold on both scales, so what is relevant stays as it is.
    """
    scales = {place.label.binary for one in lists for place in one.places if isinstance(place.label, Label)}
    if len(scales) < 2:
        return lists
    return tuple(replace(one, places=tuple(map(_yes_or_no, one.places)), mixed=True) for one in lists)


def _yes_or_no(place: Place) -> Place:
    if not isinstance(place.label, Label):
        return place
    return replace(place, label=replace(place.label, gain=float(place.label.level >= HELPS)))


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


def gold_label(grade: int) -> Label:
    """A gold grade; a negative one is not relevant."""
    return Label(max(grade, 0), grade, f"gold grade {grade}", "gold")


def human_label(context: Context) -> Label | Unanswered:
    """A person's label on a context: a grade, or yes / no on a scale of its own."""
    if context.grade is not None:
        return Label(context.grade, context.grade, "", "human")
    if context.relevant is not None:
        return Label(float(context.relevant), _BINARY[context.relevant], "", "human", binary=True)
    return Unanswered("no label")


def verdict_label(verdict: Grade) -> Label:
    """A judge's verdict as a label."""
    binary = verdict.scale == "binary"
    level = _BINARY[bool(verdict.grade)] if binary else float(verdict.grade)
    return Label(verdict.grade, level, verdict.reasoning, "judge", binary)


def _against_need(sample: Sample, settings: Settings) -> Callable[[Context], Relevance]:
    """Is this context relevant, judged against what the evaluation's settings say? What is shown beside is the same."""
    beside, history = shown_beside(sample, settings), turns(sample)

    def about(context: Context) -> Relevance:
        return Relevance(
            query=sample.query,
            passage=context.text,
            history=history,
            scale=settings.scale,
            context=context,
            gold=_gold_grade(sample, context),
            **beside,
        )

    return about


def shown_beside(sample: Sample, settings: Settings) -> dict[str, str | None]:
    """The reference or response that relevance is judged against too, where the settings say so."""
    return {
        "reference": given(sample, "reference") if settings.against in {"auto", "reference"} else None,
        "response": given(sample, "response") if settings.against == "response" else None,
    }


def _against_call(sample: Sample, query: str, settings: Settings) -> Callable[[Context], Relevance]:
    """What people and gold say is about the need: it is an answer only where the call searched for just that."""
    known = query == sample.query

    def about(context: Context) -> Relevance:
        return Relevance(
            query=query,
            passage=context.text,
            scale=settings.scale,
            context=context if known else None,
            gold=_gold_grade(sample, context) if known else None,
        )

    return about


def _text(turn: Message) -> str:
    """What a turn says in words: its text, or that of its parts."""
    parts = turn.content if isinstance(turn.content, tuple) else (turn.content,)
    texts = (part.get("text") if isinstance(part, Mapping) else part for part in parts)
    return " ".join(text for text in texts if isinstance(text, str))


def _gold_grade(sample: Sample, context: Context) -> int | None:
    """The gold grade a judge of gold ids reads: an unjudged document counts as 0, nothing known as None."""
    if sample.qrels is None or context.id is None:
        return None
    return int(sample.qrels.get(context.id, 0))


def _judged(
    lists: Sequence[tuple[str, Sequence[Context]]],
    question_of: Sequence[Callable[[Context], Relevance]],
    *,
    people_first: bool,
) -> Program[tuple[Ranking, ...]]:
    numbers: dict[tuple[object, ...], int] = {}
    questions: list[Relevance] = []
    asked: list[list[int]] = []
    for (_, contexts), ask_about in zip(lists, question_of, strict=True):
        row = []
        for context in contexts:
            if people_first and not isinstance(human_label(context), Unanswered):
                row.append(-1)
                continue
            question = ask_about(context)
            alike = (question, question.gold, context.grade, context.relevant)
            if alike not in numbers:
                numbers[alike] = len(questions)
                questions.append(question)
            row.append(numbers[alike])
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
