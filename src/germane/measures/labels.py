"""Labels: what a source - gold ids, a judge, people - says of the places of a ranking, on one scale."""

from __future__ import annotations

import math
from typing import NamedTuple

from germane.questions import Grade
from germane.questions.asking import Unanswered
from germane.types import Context

__all__ = [
    "HELPS",
    "Label",
    "Place",
    "Ranking",
    "gold_label",
    "human_label",
    "on_one_scale",
    "verdict_label",
]

_BINARY = {True: math.inf, False: 0.0}
HELPS = 2
"""The grade, of 0 to 3, from which a context counts as relevant."""


class Label(NamedTuple):
    """One label: `gain` is its worth to nDCG, `level` is held against a threshold (inf / 0 for yes / no: `binary`)."""

    gain: float
    level: float
    reasoning: str = ""
    source: str = "gold"
    binary: bool = False


class Place(NamedTuple):
    """One place of a ranking: its context, and its label, None (unjudged) or Unanswered (the judge failed).

    Places that share a verdict (the same passage twice) share `verdict`, the number of the question.
    """

    context: Context
    label: Label | Unanswered | None
    verdict: int = -1


class Ranking(NamedTuple):
    """One call's places, best first; `query` is what this call searched for.

    `mixed`: the sample's labels were on two scales, and what they are worth is a yes or no.
    """

    query: str
    places: tuple[Place, ...]
    repeated: int = 0
    mixed: bool = False


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


def on_one_scale(lists: tuple[Ranking, ...]) -> tuple[Ranking, ...]:
    """One sample's rankings, where a yes stands beside grades with every label worth 1 or 0.

    A yes has no place among the grades: worth 1, a perfect ranking with it above a 3 would not score 1. Thresholds
    hold on both scales, so what is relevant stays as it is.
    """
    scales = {place.label.binary for one in lists for place in one.places if isinstance(place.label, Label)}
    if len(scales) < 2:
        return lists
    return tuple(one._replace(places=tuple(map(_yes_or_no, one.places)), mixed=True) for one in lists)


def _yes_or_no(place: Place) -> Place:
    if not isinstance(place.label, Label):
        return place
    return place._replace(label=place.label._replace(gain=float(place.label.level >= HELPS)))
