"""Draw random cases: a fixed number (`--sample`), or until intervals are narrow enough (`--until 0.02`).

`--until` works in two stages (Stein 1945; Chow and Robbins 1965): a pilot, then as many cases as the variance
of the pilot requires. If the scores of these cases vary more than those of the pilot, further stages follow.
"""

from __future__ import annotations

import random
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from math import ceil

import numpy as np
from numpy.typing import NDArray

from germane.errors import InputError
from germane.measures.declaration import Grader
from germane.reports.summary import interval_of_cases, range_of
from germane.tables.cases import CaseScores, CaseValues
from germane.tables.scores import ScoreTable
from germane.targets.answers import PlannedCase
from germane.types import Json

PILOT = 100
"""The number of cases in the first stage."""
_LEAST_GROWTH = 1.02


def draw_rows(
    cases: Callable[[], Iterable[PlannedCase]], n: int, seed: int
) -> tuple[frozenset[int], dict[str, Json]]:
    """Draw `n` sample ids at random without replacement, each with its cases of all systems and trials.

    `cases` returns all cases in order. Returns the positions (from 0) of the drawn cases in this order, and
    the manifest's entry: the number of ids drawn, the number of all ids, and the seed.
    """
    numbers: dict[str, int] = {}
    of_rows = array("q", (numbers.setdefault(planned.sample.id, len(numbers)) for planned in cases()))
    n = min(len(numbers), n)
    drawn = set(random.Random(seed).sample(range(len(numbers)), n))  # noqa: S311 - a sample, not a secret
    rows = frozenset(row for row, case in enumerate(of_rows) if case in drawn)
    return rows, {"n": n, "of": len(numbers), "seed": seed}


def goals_of(width: float, graders: Sequence[Grader]) -> dict[str, float]:
    """Return `width`, the half-width of the intervals to reach, for each measure that asks a judge.

    Raises InputError if no measure asks a judge.
    """
    judged = [grader.name for grader in graders if (grader.by or grader.measure).asks]
    if not judged:
        problem = f"--until {width:g} applies to judged measures, and no measure of this run asks a judge"
        raise InputError(problem, fix="leave out --until, or name a judged measure: -m context_precision")
    return dict.fromkeys(judged, width)


class Stages:
    """Chooses the cases to judge in each stage of `--until`, in a random order of clusters (or single cases).

    Only the numbers of the cases are stored. `goals` maps each measure to the half-width that its interval
    must reach. If `cases` were drawn from more cases with `--sample`, `total` is the number of all cases.
    """

    def __init__(
        self, cases: Iterable[PlannedCase], goals: Mapping[str, float], seed: int, total: int | None = None
    ) -> None:
        numbers, seen = dict[str, int](), set[str]()
        rows, first = array("q"), array("b")
        for planned in cases:
            sample = planned.sample
            unit = f"case {sample.id}" if sample.cluster is None else f"cluster {sample.cluster}"
            rows.append(numbers.setdefault(unit, len(numbers)))
            first.append(sample.id not in seen)
            seen.add(sample.id)
        order = list(range(len(numbers)))
        random.Random(seed).shuffle(order)  # noqa: S311 - a sample, not a secret
        positions = np.empty(len(order), np.int64)
        positions[order] = np.arange(len(order))
        self._position: NDArray[np.int64] = positions[np.frombuffer(rows, np.int64)] if rows else positions
        # a case with several systems and trials is counted once
        new = np.frombuffer(first, np.int8) if first else None
        self._cases_up_to = np.cumsum(np.bincount(self._position, new, minlength=len(order)))
        self._goals, self._seed, self._total = goals, seed, total or sum(first)
        self._clusters: dict[str, str] = {}
        self._begun = 0  # the first stage contains at least PILOT cases
        self._ended = min(int(np.searchsorted(self._cases_up_to, PILOT)) + 1, len(self._cases_up_to))
        self._sizes = [self.count]

    @property
    def count(self) -> int:
        """The number of cases in all stages so far."""
        return int(self._cases_up_to[self._ended - 1]) if self._ended else 0

    def holds(self, row: int) -> bool:
        """Return True if the case at position `row` (from 0) of all cases is in the current stage."""
        return self._begun <= int(self._position[row]) < self._ended

    def of_stage(self, cases: Iterable[PlannedCase]) -> Iterator[PlannedCase]:
        """Yield the cases that are in the current stage; `cases` are all cases in order."""
        for position, planned in zip(self._position.tolist(), cases, strict=False):
            if self._begun <= position < self._ended:
                sample = planned.sample
                if sample.cluster is not None:
                    self._clusters[sample.id] = sample.cluster
                yield planned

    def next(self, scores: ScoreTable) -> bool:
        """Start the next stage and return True if the intervals of the scores so far are too wide.

        Returns False if the intervals are narrow enough, if no cases are left, or if more cases would not
        help.
        """
        case_scores, size = CaseScores(scores), self._ended
        for _, number, rows in case_scores.groups():
            name, canonical = case_scores.measures[number]
            span = range_of(canonical)
            values = case_scores.values_of(rows, span)
            if (width := self._goals.get(name)) is not None:
                size = max(size, ceil(self._ended * self._times(case_scores, values, span, width)))
        if size == self._ended or self._ended == len(self._cases_up_to):
            return False
        size = max(size, ceil(self._ended * _LEAST_GROWTH))
        self._begun, self._ended = self._ended, min(size, len(self._cases_up_to))
        self._sizes.append(self.count)
        return True

    def _times(self, cases: CaseScores, values: CaseValues, span: tuple[float, float], width: float) -> float:
        """Return the factor by which the cases must grow to reach `width`; 1 if more cases cannot help."""
        clusters = cases.clusters_of(values.case, self._clusters)
        most = len(self._cases_up_to) / self._ended

        def narrow(times: float) -> bool:
            half = interval_of_cases(values, clusters, span, times=times).half_width
            return half is not None and half <= width

        if narrow(1.0):
            return 1.0
        if not narrow(most):  # if missing scores alone are too wide, more cases do not help
            return 1.0 if float(np.mean(values.high - values.low)) / 2 > width else most
        low, high = 1.0, most
        while (high - low) * self._ended > 0.5:
            middle = (low + high) / 2
            low, high = (low, middle) if narrow(middle) else (middle, high)
        return high

    def sampled(self) -> dict[str, Json]:
        """Return the manifest's entry on the sample, as for `--sample`: cases judged, total, seed."""
        return {"n": self.count, "of": self._total, "seed": self._seed}

    def as_json(self) -> dict[str, Json]:
        """Return the manifest's entry on `--until`: the goals, and the number of cases after each stage."""
        return {"widths": dict(self._goals), "stages": list(self._sizes)}
