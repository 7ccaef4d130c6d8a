"""Enough is enough: cases are judged in random order, until intervals are narrow enough or gates are decided.

Width (`--until 0.02`) is reached in two stages (Stein 1945; Chow and Robbins 1965): a pilot, then as many cases as the pilot's
spread asks for; where these turn out to vary more, further ones follow. Gates (`--until-decided`) are looked at again and
again, by a confidence sequence (`germane.statistics.sequences`).
"""

from __future__ import annotations

import random
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, isfinite
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from germane.errors import InputError
from germane.evaluation.answers import PlannedCase
from germane.measures.scoring import Grader
from germane.reports.gates import Gate
from germane.reports.summary import canonical_name, interval_of_cases, limits_of, range_of
from germane.statistics.intervals import Units
from germane.statistics.sequences import decided, sequence_ends
from germane.tables.cases import CaseScores, CaseValues
from germane.tables.scores import ScoreTable
from germane.types import Json

if TYPE_CHECKING:
    from germane.reports.data import ReportData

PILOT = 100
"""The number of cases in the first stage."""
_GROWTH = 1.25
"""Growth of the number of cases between two looks at the gates."""
_LEAST_GROWTH = 1.02


@dataclass(frozen=True, slots=True)
class Goals:
    """The goals that stop a run before all cases are judged.

    Attributes:
        widths: By the name of a measure, half the width that its interval may have.
        gates: What must be decided; none = nothing.
        baseline: What gates on a change are about; None = there are none.
    """

    widths: Mapping[str, float] = field(default_factory=dict)
    gates: tuple[Gate, ...] = ()
    baseline: ReportData | None = None

    @classmethod
    def of(
        cls,
        texts: Iterable[str],
        gates: Sequence[Gate],
        graders: Sequence[Grader],
        baseline: ReportData | None = None,
    ) -> Goals:
        """The goals that `--until` names: "0.02" for every judged measure, "context_recall: 0.01" for one.

        InputError where a text is none, where what it names is not measured, or where a gate is not on a mean.
        """
        widths: dict[str, float] = {}
        names = {name: grader.name for grader in graders for name in (str(grader.measure), grader.name)}
        judged = [grader.name for grader in graders if (grader.by or grader.measure).asks]
        for text in sorted(texts, key=lambda text: ":" in text):
            measure, colon, number = text.rpartition(":")
            width = _number(text, number if measure.strip() or not colon else "")
            if not measure and not judged:
                problem = f"--until {text} is about judged measures, and none of these is judged"
                raise InputError(problem, fix=f"name one: --until '{next(iter(names), 'nDCG@10')}: {number}'")
            name = names.get(measure.strip()) or names.get(canonical_name(measure)) if measure else ""
            if name is None:
                problem = f"--until names {measure}, which is not measured"
                raise InputError(problem, fix=f"measured: {', '.join(names) or 'none'}")
            widths |= dict.fromkeys([name] if name else judged, width)
        for gate in gates:
            kinds = {"mean", "lower", "upper", *(["change"] if baseline is not None else [])}
            if gate.how not in kinds or gate.mean_of == "corrected" or gate.by_case or gate.op in {"=", "=="}:
                problem = f"the gate {gate} cannot be decided early: it is not on a mean alone"
                if gate.how == "change":
                    problem = f"the gate {gate} needs --baseline REPORT"
                raise InputError(problem, fix="leave out --until-decided, or the gate", place=gate.location)
            if not all(map(isfinite, range_of(gate.measure))):
                problem = f"the gate {gate} cannot be decided early: {gate.measure} has no largest value"
                raise InputError(problem, fix="leave out --until-decided, or the gate", place=gate.location)
        return cls(widths, tuple(gates), baseline)


def _number(text: str, number: str) -> float:
    number = number.strip()
    try:
        width = float(number.removesuffix("%")) / (100 if number.endswith("%") else 1)
    except ValueError:
        width = 0.0
    if not 0 < width < float("inf"):
        problem = f"--until {text!r} is not half the width of an interval"
        raise InputError(problem, fix="write a number above 0, e.g. 0.02, or 'context_recall: 0.01'")
    return width


@dataclass(frozen=True, slots=True)
class _Decision:
    """The state of a gate: the side of its limit that the mean is on (0 = not known yet), and the mean's interval."""

    side: int
    ends: tuple[float, float]


class Stages:
    """The cases to judge, stage by stage: whole units (the cases of a cluster, or one case) in an order drawn with `seed`.

    Args:
        cases: All cases; only numbers are kept of them.
        goals: When it is enough.
        seed: Of the order.
        of: How many cases these were drawn from, where they were drawn.
    """

    def __init__(self, cases: Iterable[PlannedCase], goals: Goals, seed: int, of: int | None = None) -> None:
        numbers: dict[str, int] = {}
        rows, first, sizes, clustered = array("q"), array("b"), Counter[tuple[int, str, int]](), set[str]()
        for planned in cases:
            sample, units, others = planned.sample, len(numbers), len(clustered)
            unit = f"case {sample.id}" if sample.cluster is None else f"cluster {sample.cluster}"
            rows.append(numbers.setdefault(unit, units))
            if sample.cluster is not None:
                sizes[rows[-1], sample.system, sample.trial] += 1
                clustered.add(sample.id)
            first.append(len(clustered) > others if sample.cluster is not None else len(numbers) > units)
        order = list(range(len(numbers)))
        random.Random(seed).shuffle(order)  # noqa: S311 - a sample, not a secret
        positions = np.empty(len(order), np.int64)
        positions[order] = np.arange(len(order))
        self._position: NDArray[np.int64] = positions[np.frombuffer(rows, np.int64)] if rows else positions
        # of a case in several systems and trials one row
        new = np.frombuffer(first, np.int8) if first else None
        self._cases_up_to = np.cumsum(np.bincount(self._position, new, minlength=len(order)))
        self._largest = float(max(sizes.values(), default=1))
        self._goals, self._seed, self._of = goals, seed, of or sum(first)
        self._decided: dict[str, _Decision] = {}
        self._units: dict[str, int] = {}
        self._clusters: dict[str, str] = {}
        self._begun, self._ended = 0, self._units_for(PILOT)
        self._sizes = [self.count]

    @property
    def count(self) -> int:
        """The number of cases in the stages up to now."""
        return int(self._cases_up_to[self._ended - 1]) if self._ended else 0

    def _units_for(self, cases: int) -> int:
        """The number of units, first in order, that hold this number of cases."""
        return min(int(np.searchsorted(self._cases_up_to, cases)) + 1, len(self._cases_up_to))

    def holds(self, row: int) -> bool:
        """True if the stage that is judged now holds the case of this number, from 0."""
        return self._begun <= int(self._position[row]) < self._ended

    def of_stage(self, cases: Iterable[PlannedCase]) -> Iterator[PlannedCase]:
        """The cases that this stage judges, in their order."""
        for position, planned in zip(self._position.tolist(), cases, strict=False):
            if self._begun <= position < self._ended:
                sample = planned.sample
                self._units[sample.id] = position
                if sample.cluster is not None:
                    self._clusters[sample.id] = sample.cluster
                yield planned

    def next(self, scores: ScoreTable) -> bool:
        """Go on to the next stage, from the scores of those before; False where these are enough."""
        case_scores, size = CaseScores(scores), self._ended
        for system, number, rows in case_scores.groups():
            name, canonical = case_scores.measures[number]
            span = range_of(canonical)
            values = case_scores.of_rows(rows, span)
            if (width := self._goals.widths.get(name)) is not None:
                size = max(size, ceil(self._ended * self._times(case_scores, values, span, width)))
            for gate in self._goals.gates:
                if gate.measure in {name, canonical}:
                    self._decide(gate, system, name, case_scores, values)
        if any(not decision.side for decision in self._decided.values()):
            size = max(size, ceil(self._ended * _GROWTH))
        if size == self._ended or self._ended == len(self._cases_up_to):
            return False
        size = max(size, ceil(self._ended * _LEAST_GROWTH))
        self._begun, self._ended = self._ended, min(size, len(self._cases_up_to))
        self._sizes.append(self.count)
        return True

    def _times(self, cases: CaseScores, values: CaseValues, span: tuple[float, float], width: float) -> float:
        """The factor, at least 1, by which more units would give an interval that is narrow enough."""
        clusters = cases.clusters_of(values.case, self._clusters)
        most = len(self._cases_up_to) / self._ended

        def narrow(times: float) -> bool:
            half = interval_of_cases(values, clusters, span, times=times).half_width
            return half is not None and half <= width

        if narrow(1.0):
            return 1.0
        if not narrow(most):  # where what is missing is wider by itself, more cases are in vain
            return 1.0 if float(np.mean(values.high - values.low)) / 2 > width else most
        low, high = 1.0, most
        while (high - low) * self._ended > 0.5:
            middle = (low + high) / 2
            low, high = (low, middle) if narrow(middle) else (middle, high)
        return high

    def _decide(self, gate: Gate, system: str, measure: str, cases: CaseScores, values: CaseValues) -> None:
        """Look at a gate again; what is decided stays so."""
        name, span = gate.name(system), range_of(gate.measure)
        before = self._decided.get(name) or _Decision(0, span)
        limited = limits_of(span, values) is not None
        names, low, high = [cases.cases[at] for at in values.case.tolist()], values.low, values.high
        if gate.how == "change":
            reach = span[1] - span[0]
            span, before = (-reach, reach), self._decided.get(name) or _Decision(0, (-reach, reach))
            earlier = self._earlier(system, measure)
            both = [at for at, name in enumerate(names) if name in earlier]
            names = [names[at] for at in both]
            others = np.array([earlier[name] for name in names]).reshape(-1, 2)
            low, high = low[both] - others[:, 1], high[both] - others[:, 0]
        if not names or not limited:
            self._decided[name] = before
            return
        positions, codes = np.unique([self._units[name] for name in names], return_inverse=True)
        sizes = np.bincount(codes).astype(float)
        below, above = (
            Units(np.asarray(np.bincount(codes, side, len(positions)), float), sizes, "cases")
            for side in (low, high)
        )
        side = before.side or decided(below, above, gate.limit, span, self._largest)
        self._decided[name] = _Decision(side, sequence_ends(below, above, span, self._largest))

    def _earlier(self, system: str, measure: str) -> dict[str, tuple[float, float]]:
        """The least and the largest value that each case of the baseline could have."""
        baseline = self._goals.baseline
        if baseline is None:
            return {}
        if system not in baseline.systems and len(baseline.systems) == 1:
            (system,) = baseline.systems
        lines = (line for line in baseline.summaries if (line.measure, line.system) == (measure, system))
        if (line := next(lines, None)) is None:
            return {}
        cases = baseline.case_scores
        values = cases.of(system, (line.measure, line.type), range_of(line.type))
        ends = zip(values.low.tolist(), values.high.tolist(), strict=True)
        return dict(zip((cases.cases[at] for at in values.case.tolist()), ends, strict=True))

    # what is said of it

    def sampled(self) -> dict[str, Json]:
        """The number of cases judged, of how many, and the seed of their order: as for `--sample`."""
        return {"n": self.count, "of": self._of, "seed": self._seed}

    def as_json(self) -> dict[str, Json]:
        """The entry of the manifest: the goals, the cases after each stage, and what became of each gate."""
        gates = {
            name: {"above": {1: True, -1: False}.get(decision.side), "interval": list(decision.ends)}
            for name, decision in self._decided.items()
        }
        return {"widths": dict(self._goals.widths), "stages": list(self._sizes), "gates": gates}
