"""The outcome of a measure for one sample: a value, or why there is none and its bounds; and the items that were counted.

Average precision and its kin are not monotone in the labels, so the worst and best case of a ranked score are not simply
"all irrelevant" and "all relevant": `bounds` tries every combination of the missing labels as rows of one table.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import numpy as np

from germane.measures.kernel import Floats, Ints, RankedLabels, best_first, pointers_of
from germane.measures.measure import Measure
from germane.measures.ranked import values
from germane.questions.asking import Missing, Program, Unanswered
from germane.questions.relevance import Scale
from germane.types import Status


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
        """Its part of the sum."""
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


MOST = 2**14
"""The most combinations that are tried; beyond, the bounds are the measure's whole range."""

_PLACES = 2**20
"""The most places of one kernel call, so that memory stays flat."""


def bounds(
    measure: Measure, table: RankedLabels, missing: Ints, *, scale: Scale = "graded", top: int = 3
) -> tuple[float, float]:
    """The lowest and highest value that a measure's mean over the rows of `table` can take.

    The rows are the rankings of one sample (one, or one for each call). `missing` has one number for each place: -1
    where the label is known, else the number of the verdict that is missing; places with the same number (the same
    passage twice) will get the same verdict, a grade from 0 to `top` or a yes or no. The ideal list grows with them.
    Over gold only what stands within the cut-off is tried. Exact up to MOST combinations, else the measure's range.
    """
    # what stands below the cut-off cannot matter to a formula that looks at the ranking alone
    depth = measure.k if measure.settings.get("holes") != "condensed" else None
    if depth is not None and (table.complete or not _graded(measure)):
        kept = table.rank <= depth
        table, missing = table.kept(kept), missing[kept]
    grades = [(float(grade), float(grade)) for grade in range(top + 1)]
    yes_or_no = scale == "binary" or not _graded(measure)
    answers = np.array([(0.0, 0.0), (1.0, np.inf)] if yes_or_no else grades)
    verdicts = np.unique(missing[missing >= 0])
    combinations = len(answers) ** len(verdicts)
    if combinations > MOST:
        return measure.definition.range
    step = max(1, _PLACES // max(1, len(missing)))
    result = []
    for at in range(0, combinations, step):
        tried = _assigned(table, missing, verdicts, answers, np.arange(at, min(at + step, combinations)))
        result.append(values(measure, tried).reshape(-1, table.rows).mean(axis=1))
    means = np.concatenate(result)
    return float(means.min()), float(means.max())


def _graded(measure: Measure) -> bool:
    """True if the grades themselves count (and the ideal list is made of them), not only a threshold on them."""
    return "rel" not in measure.definition.params


def _assigned(
    table: RankedLabels, missing: Ints, verdicts: Ints, answers: Floats, combinations: Ints
) -> RankedLabels:
    """The table once for each of the combinations, whose digits are the answers to the missing verdicts."""
    digits = combinations[:, None] // len(answers) ** np.arange(len(verdicts))[None, :] % len(answers)
    unknown = missing >= 0
    value = answers[digits[:, np.searchsorted(verdicts, missing[unknown])]]
    times = len(combinations)
    gain, level = (np.tile(values, (times, 1)) for values in (table.gain, table.level))
    gain[:, unknown], level[:, unknown] = value[..., 0], value[..., 1]
    filled = replace(
        table,
        pointers=pointers_of(np.tile(np.diff(table.pointers), times)),
        gain=gain.ravel(),
        level=level.ravel(),
        judged=np.tile(table.judged | unknown, times),
        chances=None if table.chances is None else np.tile(table.chances, (times, 1)),
    )
    # The ideal of each row: its own labels; of gold all that is known and what was filled in.
    row, gain, level = filled.row, filled.gain, filled.level
    if table.complete:
        known, new = np.tile(np.diff(table.ideal_pointers), times), np.tile(unknown, times)
        row = np.concatenate([np.repeat(np.arange(len(known)), known), row[new]])
        gain = np.concatenate([np.tile(table.ideal, times), gain[new]])
        level = np.concatenate([np.tile(table.ideal_level, times), level[new]])
    by_row = np.argsort(row, kind="stable")
    row = row[by_row]
    return replace(
        filled,
        ideal_pointers=pointers_of(np.bincount(row, minlength=filled.rows)),
        ideal=best_first(gain[by_row], row),
        ideal_level=best_first(level[by_row], row),
    )
