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
    """One item that a measure counts, such as a claim that the contexts may support.

    `held` is the decision on the item, or None if the judge gave no answer. `text` names the item, and `why`
    is the reason for the decision. `weight` is its weight in the score, and `worth` the proportion of it that
    it earns, for partial credit; None means all of it if `held` is True, else nothing.
    """

    text: str
    held: bool | None
    why: str = ""
    weight: float = 1.0
    worth: float | None = None

    @property
    def gained(self) -> float:
        """The part of the item's weight that it earns."""
        return self.weight * (float(self.held is True) if self.worth is None else self.worth)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a measure for one sample: a value, or a status with its reason.

    `bounds` are the lowest and highest possible value of an incomplete result. The other fields are only for
    explanations, and are not stored: `items` are the counted items, `what` describes those that held ("claims
    supported by the contexts"), and `lacking` the others.
    """

    value: float | None = None
    status: Status = "ok"
    why: str | None = None
    bounds: tuple[float, float] | None = None
    items: tuple[Item, ...] = field(default=(), compare=False, repr=False)
    what: str = field(default="", compare=False, repr=False)
    lacking: str = field(default="missing", compare=False, repr=False)


def ok(value: float, *, items: Iterable[Item] = (), what: str = "") -> Outcome:
    """Return the outcome with this value, or an error outcome if the value is not a finite number."""
    if not math.isfinite(value):
        return error(f"the measure returned {value}, which is not a finite number")
    return Outcome(value=float(value), items=tuple(items), what=what)


class Decided(Exception):
    """Raised by a function that several measures call, to end the measure early with this outcome."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome)
        self.outcome = outcome


NO_CONTEXT = ok(0.0, items=[Item("No context retrieved", held=False)])


def skipped(why: str) -> Outcome:
    """Return the outcome of a sample that cannot be scored because data are missing; `why` says which."""
    return Outcome(status="skipped", why=why)


def error(why: str) -> Outcome:
    """Return the outcome of a sample whose scoring failed; `why` is the reason."""
    return Outcome(status="error", why=why)


def incomplete(why: str, bounds: tuple[float, float]) -> Outcome:
    """Return an incomplete outcome: answers are missing, and the score is somewhere within `bounds`.

    If the bounds are equal, the score is certain, and the outcome is ok.
    """
    if bounds[0] == bounds[1]:
        return Outcome(value=bounds[0], why=f"{why}; the missing answers cannot change the value")
    return Outcome(status="incomplete", why=why, bounds=bounds)


def proportion(
    verdicts: Sequence[bool | Unanswered | Item],
    *,
    hidden: Sequence[Unanswered] = (),
    nothing: str = "nothing to count",
    what: str = "",
    lacking: str = "missing",
) -> Outcome:
    """Return an outcome with the proportion (by weight) of the verdicts that are true.

    Without verdicts it is skipped, for the reason `nothing`. If some are missing (Unanswered), it is
    incomplete, with bounds; if all are, it is an error. `hidden` are unanswered questions for items to count:
    the bounds are then 0 and 1. `what` describes the true items in explanations, `lacking` the others.
    """
    plain = (Item("", None, v.why) if isinstance(v, Unanswered) else v for v in verdicts)
    items = tuple(v if isinstance(v, Item) else Item("", v) for v in plain)
    whole = math.fsum(item.weight for item in items)
    if not whole and not hidden:
        return skipped(nothing)
    gained = math.fsum(item.gained for item in items)
    missing = [item for item in items if item.held is None]
    if hidden:
        why = f"{len(hidden)} lists of items are missing: {hidden[0].why}"
        outcome = incomplete(why, (0.0, 1.0)) if items else error(why)
    elif missing:
        why = f"{len(missing)} of {len(items)} verdicts missing: {missing[0].why}"
        most = gained + math.fsum(item.weight for item in missing)
        outcome = incomplete(why, (gained / whole, most / whole)) if len(missing) < len(items) else error(why)
    else:
        outcome = Outcome(gained / whole)
    return replace(outcome, items=items, what=what, lacking=lacking)


def complement(outcome: Outcome) -> Outcome:
    """Return the outcome with the value v and the bounds (a, b) replaced by 1 - v and (1 - b, 1 - a)."""
    value = None if outcome.value is None else 1.0 - outcome.value
    bounds = outcome.bounds and (1.0 - outcome.bounds[1], 1.0 - outcome.bounds[0])
    return replace(outcome, value=value, bounds=bounds)


Result: TypeAlias = Outcome | float | int | bool


def safely(name: str, start: Callable[[], Program[Result] | Result]) -> Program[Outcome]:
    """Run a measure's function and return its outcome; a missing answer or an exception becomes an error.

    `start` calls the function, which returns a result or a generator of questions.
    """
    try:
        started = start()
        result = (yield from started) if isinstance(started, Generator) else started
        return result if isinstance(result, Outcome) else ok(float(result))
    except Decided as end:
        return end.outcome
    except Missing as missing:
        return error(missing.why)
    except Exception as fault:  # noqa: BLE001 - a measure may be a user's own; its fault is one sample's error
        return error(f"{name} raised {type(fault).__name__}: {fault}")


def texts_of(contexts: Sequence[Context]) -> tuple[str, ...]:
    """Return the contexts' texts in rank order. Raises Missing if a context has no text."""
    for context in contexts:
        if not context.text:
            raise Missing(f"the context {context.id!r} has no text")
    return tuple(context.text for context in contexts)
