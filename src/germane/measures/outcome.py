"""The outcome of a measure for one sample: a value or the reason why there is none, and the counted items."""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from germane.questions.asking import Missing, Program, Unanswered
from germane.types import Context, Status


@dataclass(frozen=True, slots=True)
class Item:
    """One item that a measure counted: True, False, or None if it could not be judged.

    `text` names it in a hit or a miss, `why` says what decided. `weight` is how much it counts, `worth` the share of that which
    it gained, if not all or nothing.
    """

    text: str
    held: bool | None
    why: str = ""
    weight: float = 1.0
    worth: float | None = None

    @property
    def gained(self) -> float:
        """The item's contribution: its weight if True, else none, or the share `worth` of it."""
        return self.weight * (float(self.held is True) if self.worth is None else self.worth)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A value, or a status with its reason; `bounds` are the least and greatest value of an incomplete one.

    For explanations, `items` are what was counted, `what` describes those that held ("claims supported by the contexts") and
    `lacking` the others. They are not stored in score rows and do not affect equality.
    """

    value: float | None = None
    status: Status = "ok"
    why: str | None = None
    bounds: tuple[float, float] | None = None
    items: tuple[Item, ...] = field(default=(), compare=False, repr=False)
    what: str = field(default="", compare=False, repr=False)
    lacking: str = field(default="missing", compare=False, repr=False)


def ok(value: float, *, items: Iterable[Item] = (), what: str = "") -> Outcome:
    """Return the outcome of a value; a value that is not a finite number is an error."""
    if not math.isfinite(value):
        return error(f"the measure returned {value}, which is not a number")
    return Outcome(value=float(value), items=tuple(items), what=what)


NO_CONTEXT = ok(0.0, items=[Item("No context retrieved", held=False)])
NO_IDS = "the contexts have no document ids"
"""Why gold ids say nothing about contexts: unknown is not irrelevant."""


def skipped(why: str) -> Outcome:
    """Return the outcome of a sample that lacks something that the measure needs."""
    return Outcome(status="skipped", why=why)


def error(why: str) -> Outcome:
    """Return the outcome of a sample that should have been measured but could not be."""
    return Outcome(status="error", why=why)


def incomplete(why: str, bounds: tuple[float, float]) -> Outcome:
    """Return the outcome of a sample with missing verdicts: its value lies within `bounds`, and is known if these are equal."""
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
    """Return the share (by weight) of items that held; skipped with nothing to count, incomplete if a verdict is missing.

    The bounds are exact: a missing verdict is all or nothing. `hidden` are missing lists of items, each of which may hold any
    number: the bounds are then 0 and 1.
    """
    plain = (Item("", None, v.why) if isinstance(v, Unanswered) else v for v in verdicts)
    items = tuple(v if isinstance(v, Item) else Item("", v) for v in plain)
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
    """Return 1 - the value, with bounds and items accordingly."""
    value = None if outcome.value is None else 1.0 - outcome.value
    bounds = outcome.bounds and (1.0 - outcome.bounds[1], 1.0 - outcome.bounds[0])
    return replace(outcome, value=value, bounds=bounds)


Result: TypeAlias = Outcome | float | int | bool


def safely(name: str, start: Callable[[], Program[Result] | Result]) -> Program[Outcome]:
    """Run a measure's body, a generator of questions or a plain function; missing answers and exceptions become an error outcome."""
    try:
        started = start()
        result = (yield from started) if isinstance(started, Generator) else started
        return result if isinstance(result, Outcome) else ok(float(result))
    except Missing as missing:
        return error(missing.why)
    except Exception as fault:  # noqa: BLE001 - a measure may be a user's own; its fault is one sample's error
        return error(f"{name} raised {type(fault).__name__}: {fault}")


def texts_of(contexts: Sequence[Context]) -> tuple[str, ...]:
    """Return the contexts' texts in rank order; raise Missing if one has no text."""
    for context in contexts:
        if not context.text:
            raise Missing(f"the context {context.id!r} has no text")
    return tuple(context.text for context in contexts)
