"""Claims, sentences or nuggets that a model cannot keep apart: judged one by one, and the verdicts put together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from germane.judging.judge import AnyQuestion
from germane.judging.questions import CitationSupport, NuggetSupport, Support
from germane.types import Json

__all__ = ["singly", "together"]


def singly(question: AnyQuestion) -> tuple[AnyQuestion, ...]:
    """The question about each of its claims, sentences or nuggets alone; () where it has but one or none."""
    found: tuple[AnyQuestion, ...] = ()
    if isinstance(question, Support):
        found = tuple(replace(question, claims=(claim,)) for claim in question.claims)
    elif isinstance(question, CitationSupport):
        found = tuple(replace(question, statements=(statement,)) for statement in question.statements)
    elif isinstance(question, NuggetSupport):
        found = tuple(replace(question, nuggets=(nugget,)) for nugget in question.nuggets)
    return found if len(found) > 1 else ()


def together(payloads: Sequence[Json]) -> Json:
    """The payload of the whole question from those of its parts, in order."""
    ((name, _),) = payloads[0].items()
    items = [item for payload in payloads for item in payload[name]]
    return {name: [{**item, name.removesuffix("s"): number} for number, item in enumerate(items, 1)]}
