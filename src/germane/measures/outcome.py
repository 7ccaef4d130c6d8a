"""What a measure says of one sample: a value, or why there is none; and what it counted to get there."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from germane.questions.asking import Missing, Program, Unanswered
from germane.types import Status

__all__ = [
    "Item",
    "Outcome",
    "Result",
    "complement",
    "error",
    "incomplete",
    "ok",
    "proportion",
    "safely",
    "share",
    "skipped",
]


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
        """What it added to the sum."""
        return self.weight * (float(self.held is True) if self.worth is None else self.worth)


@dataclass(frozen=True, slots=True)
class Outcome:
    """A value, or a status with its reason; `bounds` hold what an incomplete value can still become.

    `items` are what was counted and `what` says in words which of them held ("claims supported by the contexts"):
    an explanation is made of both. They are in no score row and make no difference to equality.
    """

    value: float | None = None
    status: Status = "ok"
    why: str | None = None
    bounds: tuple[float, float] | None = None
    items: tuple[Item, ...] = field(default=(), compare=False, repr=False)
    what: str = field(default="", compare=False, repr=False)


def ok(value: float, *, items: Iterable[Item] = (), what: str = "") -> Outcome:
    """A value; one that is not a finite number is an error of the measure."""
    if not math.isfinite(value):
        return error(f"the measure returned {value}, which is not a number")
    return Outcome(value=float(value), items=tuple(items), what=what)


def skipped(why: str) -> Outcome:
    """Not applicable to this sample: it lacks something the measure needs."""
    return Outcome(status="skipped", why=why)


def error(why: str) -> Outcome:
    """Should have been measured and could not be."""
    return Outcome(status="error", why=why)


def incomplete(why: str, bounds: tuple[float, float]) -> Outcome:
    """Some verdicts are missing; the value lies within `bounds`."""
    return Outcome(status="incomplete", why=why, bounds=bounds)


def proportion(
    verdicts: Sequence[bool | Unanswered | Item], *, nothing: str = "nothing to count", what: str = ""
) -> Outcome:
    """The share that held; skipped where there is nothing to count, incomplete where a verdict is missing.

    Items may have weights: the share is then of the weight. The bounds are exact: a missing verdict is all or nothing.
    """
    items = tuple(map(_item, verdicts))
    whole = math.fsum(item.weight for item in items)
    if not whole:
        return skipped(nothing)
    gained = math.fsum(item.gained for item in items)
    missing = [item for item in items if item.held is None]
    if not missing:
        return ok(gained / whole, items=items, what=what)
    why = f"{len(missing)} of {len(items)} verdicts missing: {missing[0].why}"
    if len(missing) == len(items):
        return replace(error(why), items=items, what=what)
    open_ = math.fsum(item.weight for item in missing)
    found = incomplete(why, (gained / whole, (gained + open_) / whole))
    return replace(found, items=items, what=what)


def share(counted: Sequence[Item], hidden: Sequence[Unanswered], *, nothing: str, what: str = "") -> Outcome:
    """The share that held where what is to be counted comes from several lists, some of which (`hidden`) are missing.

    A missing list may hold any number of things, so nothing narrower than 0 to 1 can be said of the share.
    """
    if not hidden:
        return proportion(counted, nothing=nothing, what=what)
    why = f"{len(hidden)} lists missing: {hidden[0].why}"
    found = incomplete(why, (0.0, 1.0)) if counted else error(why)
    return replace(found, items=tuple(counted), what=what)


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


def safely(name: str, start: Callable[[], Program[Result]]) -> Program[Outcome]:
    """A measure's program that never raises: a missing answer or a fault in the measure becomes an error."""
    try:
        result = yield from start()
        return result if isinstance(result, Outcome) else ok(float(result))
    except Missing as missing:
        return error(missing.why)
    except Exception as fault:  # noqa: BLE001 - a measure may be a user's own; its fault is one sample's error
        return error(f"{name} raised {type(fault).__name__}: {fault}")
