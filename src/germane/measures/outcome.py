"""What a measure says of one sample: a value, or why there is none."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from germane.judging.programs import Missing, Program, Unanswered
from germane.types import Status

__all__ = ["Outcome", "error", "incomplete", "ok", "proportion", "safely", "skipped"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """A value, or a status with its reason; `bounds` hold what an incomplete value can still become."""

    value: float | None = None
    status: Status = "ok"
    why: str | None = None
    bounds: tuple[float, float] | None = None


def ok(value: float) -> Outcome:
    """A value; one that is not a finite number is an error of the measure."""
    if not math.isfinite(value):
        return error(f"the measure returned {value}, which is not a number")
    return Outcome(value=float(value))


def skipped(why: str) -> Outcome:
    """Not applicable to this sample: it lacks something the measure needs."""
    return Outcome(status="skipped", why=why)


def error(why: str) -> Outcome:
    """Should have been measured and could not be."""
    return Outcome(status="error", why=why)


def incomplete(why: str, bounds: tuple[float, float]) -> Outcome:
    """Some verdicts are missing; the value lies within `bounds`."""
    return Outcome(status="incomplete", why=why, bounds=bounds)


def proportion(verdicts: Sequence[bool | Unanswered], *, nothing: str = "nothing to count") -> Outcome:
    """The share of True; skipped where there is nothing to count, incomplete where a verdict is missing."""
    if not verdicts:
        return skipped(nothing)
    missing = [verdict for verdict in verdicts if isinstance(verdict, Unanswered)]
    held = sum(verdict is True for verdict in verdicts)
    if not missing:
        return ok(held / len(verdicts))
    why = f"{len(missing)} of {len(verdicts)} verdicts missing: {missing[0].why}"
    if len(missing) == len(verdicts):
        return error(why)
    return incomplete(why, (held / len(verdicts), (held + len(missing)) / len(verdicts)))


Result: TypeAlias = Outcome | float | int | bool


def safely(name: str, start: Callable[[], Program[Result]]) -> Program[Outcome]:
    """A measure's program that never raises: a missing answer or a fault in the measure becomes an error."""
    try:
        result = yield from start()
    except Missing as missing:
        return error(missing.why)
    except Exception as fault:  # noqa: BLE001 - a measure may be a user's own; its fault is one sample's error
        return error(f"{name} raised {type(fault).__name__}: {fault}")
    return result if isinstance(result, Outcome) else ok(float(result))
