"""Change of a judge: verdicts that were asked again against those that are stored, beyond what the judge's own noise changes.

A judge that answers the same question twice may answer differently. If it has not changed, the stored answer and the new ones
are exchangeable: either order of the two is as likely. Two tests follow, for any amount of noise, and share the error rate.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import comb

import numpy as np
from numpy.typing import ArrayLike

from germane.statistics.comparison import holm
from germane.statistics.intervals import LEVEL, Interval, mean_interval

FEWEST = 10
"""Verdicts below which nothing can be said of a judge."""
NARROW = 0.1
"""The largest shift of a mean that may remain possible where a judge is called unchanged."""


@dataclass(frozen=True, slots=True)
class ChangedVerdicts:
    """Comparison of stored verdicts with new ones.

    Attributes:
        shifts: The shift of each mean, with its interval.
        p_of_means: The smallest p-value of these shifts (Holm).
        p_of_flips: The p-value of the flips that a third answer confirms, against those that it takes back.
        changed: True where either shows a change, False where a large one is excluded, None where neither can be said.
    """

    shifts: Mapping[str, Interval]
    p_of_means: float
    p_of_flips: float
    changed: bool | None


def compare_answers(
    effects: Mapping[str, ArrayLike],
    answered: int,
    flips: int,
    confirmed: int,
    taken_back: int,
    largest: Mapping[str, float] | None = None,
) -> ChangedVerdicts:
    """Test whether a judge has changed, at level 1 - LEVEL.

    - Shifts of means: without a change, the effect of a new verdict on a mean is as often up as down, whatever the noise.
    - Flips: without a change, a third answer to a question whose first two differ equals either of these with the same
      probability, since the three are exchangeable. One-sided sign test.

    Each family of tests has half of the error rate (Bonferroni); among the means it is Holm's.

    Args:
        effects: By mean, the change of it that each new verdict makes, times the verdicts that there are, shape (answered,).
        answered: Verdicts that were answered again.
        flips: Those whose answer is another one.
        confirmed: Flips that a third answer confirms: it is the new one.
        taken_back: Flips that it takes back: it is the stored one.
        largest: By mean, the largest effect that a verdict may be expected to have; None = 1 for all.
    """
    ends = largest or {}
    shifts = (
        {name: _shift(np.asarray(values, float), ends.get(name, 1.0)) for name, values in effects.items()}
        if answered
        else {}
    )
    p_of_means = min(
        holm([shift.p if shift.p is not None else 1.0 for shift in shifts.values()]), default=1.0
    )
    m = confirmed + taken_back
    p_of_flips = sum(comb(m, k) for k in range(confirmed, m + 1)) / 2**m
    least = (1 - LEVEL) / 2
    changed: bool | None = None
    if answered >= FEWEST:
        if min(p_of_means, p_of_flips) <= least:
            changed = True
        elif not flips or all(_is_narrow(shift) for shift in shifts.values()):
            changed = False
    return ChangedVerdicts(shifts, p_of_means, p_of_flips, changed)


def _shift(effects: np.ndarray, largest: float) -> Interval:
    """Return the mean effect, within the largest that is expected, or that was seen."""
    end = max(largest, float(np.abs(effects).max(initial=0.0)))
    return mean_interval(effects, value_range=(-end, end), differences=True)


def _is_narrow(shift: Interval) -> bool:
    return shift.ends is not None and max(map(abs, shift.ends)) <= NARROW


def kappa_of(stored: Sequence[str], new: Sequence[str]) -> float | None:
    """Return Cohen's kappa of answers by name; None where all are one and the same."""
    from germane.statistics.agreement import cohen_kappa, confusion

    number = {name: at for at, name in enumerate(dict.fromkeys([*stored, *new]))}
    return cohen_kappa(confusion([number[name] for name in stored], [number[name] for name in new]))
