"""The outcome of a measure for one sample: a value, or why there is none and its bounds; and the items that were counted."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from germane.questions.asking import Missing, Program, Unanswered
from germane.types import Context, Status


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that a measure counted: it held, it did not, or (None) nobody could say.

    `text` names it in a hit or a miss, `why` says what decided. `weight` is what it counts, `worth` how much of that
    it gained where it is neither all nor nothing.
    """

    text: str
    held: bool | None
    why: str = ""
    weight: float = 1.0
    worth: float | None = None

    @property
    def gained(self) -> float:
        """The item's share of the sum: its weight where it held, else 0; or its `worth`, where it has one."""
        return self.weight * (float(self.held is True) if self.worth is None else self.worth)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A value, or a status with its reason; `bounds` hold what an incomplete value can still become.

    `items` were counted, `what` says in words which of them held ("claims supported by the contexts") and
    `lacking` what the others are: an explanation is made of them. They are in no score row and make no difference to
    equality.
    """

    value: float | None = None
    status: Status = "ok"
    why: str | None = None
    bounds: tuple[float, float] | None = None
    items: tuple[Item, ...] = field(default=(), compare=False, repr=False)
    what: str = field(default="", compare=False, repr=False)
    lacking: str = field(default="missing", compare=False, repr=False)


def ok(value: float, *, items: Iterable[Item] = (), what: str = "") -> Outcome:
    """A value; one that is not a finite number is an error of the measure."""
    if not math.isfinite(value):
        return error(f"the measure returned {value}, which is not a number")
    return Outcome(value=float(value), items=tuple(items), what=what)


NO_CONTEXT = ok(0.0, items=[Item("No context retrieved", held=False)])


NO_IDS = "the contexts have no document ids"
"""The reason why gold ids say nothing about contexts: unknown is not irrelevant."""


def skipped(why: str) -> Outcome:
    """Not applicable to this sample: it lacks something the measure needs."""
    return Outcome(status="skipped", why=why)


def error(why: str) -> Outcome:
    """Should have been measured and could not be."""
    return Outcome(status="error", why=why)


def incomplete(why: str, bounds: tuple[float, float]) -> Outcome:
    """Some verdicts are missing; the value lies within `bounds`. Where these are equal it is known all the same."""
    if bounds[0] == bounds[1]:
        return Outcome(value=bounds[0], why=f"{why}; the value is the same whatever they are")
    return Outcome(status="incomplete", why=why, bounds=bounds)


def proportion(
    verdicts: Sequence[bool | Unanswered | Item],
    *,
    hidden: Sequence[Unanswered] = (),
    nothing: str = "nothing to count",
    what: str = "",
    lacking: str = "missing",
) -> Outcome:
    """The share that held; skipped where there is nothing to count, incomplete where a verdict is missing.

    Items may have weights: the share is then of the weight. The bounds are exact: a missing verdict is all or nothing.
    Where what is to be counted comes of lists of which some are missing (`hidden`), nothing narrower than 0 to 1 can be
    said: such a list may hold any number of things.
    """
    items = tuple(map(_item, verdicts))
    whole = math.fsum(item.weight for item in items)
    if not whole and not hidden:
        return skipped(nothing)
    gained = math.fsum(item.gained for item in items)
    missing = [item for item in items if item.held is None]
    if hidden:
        why = f"{len(hidden)} lists missing: {hidden[0].why}"
        outcome = incomplete(why, (0.0, 1.0)) if items else error(why)
    elif missing:
        why = f"{len(missing)} of {len(items)} verdicts missing: {missing[0].why}"
        most = gained + math.fsum(item.weight for item in missing)
        outcome = incomplete(why, (gained / whole, most / whole)) if len(missing) < len(items) else error(why)
    else:
        outcome = Outcome(gained / whole)
    return replace(outcome, items=items, what=what, lacking=lacking)


def complement(outcome: Outcome) -> Outcome:
    """1 - the value, with bounds to match; what was counted stays as it is."""
    value = None if outcome.value is None else 1.0 - outcome.value
    bounds = outcome.bounds and (1.0 - outcome.bounds[1], 1.0 - outcome.bounds[0])
    return replace(outcome, value=value, bounds=bounds)


def _item(verdict: bool | Unanswered | Item) -> Item:
    if isinstance(verdict, Item):
        return verdict
    return Item("", None, verdict.why) if isinstance(verdict, Unanswered) else Item("", verdict)


Result: TypeAlias = Outcome | float | int | bool


def safely(name: str, start: Callable[[], Program[Result] | Result]) -> Program[Outcome]:
    """A measure's program that never raises: a missing answer or a fault in the measure becomes an error.

    `start` is the measure's body: a generator of questions, or a plain function that asks none.
    """
    try:
        started = start()
        result = (yield from started) if isinstance(started, Generator) else started
        return result if isinstance(result, Outcome) else ok(float(result))
    except Missing as missing:
        return error(missing.why)
    except Exception as fault:  # noqa: BLE001 - a measure may be a user's own; its fault is one sample's error
        return error(f"{name} raised {type(fault).__name__}: {fault}")


def texts_of(contexts: Sequence[Context]) -> tuple[str, ...]:
    """The contexts' texts, in rank order, for a judge to read; Missing where one has an id and no text."""
    for context in contexts:
        if not context.text:
            raise Missing(f"the context {context.id!r} has no text")
    return tuple(context.text for context in contexts)
