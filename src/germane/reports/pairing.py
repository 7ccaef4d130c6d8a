"""Compare two systems on the queries that are scored for both: differences, intervals and outcomes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from math import inf
from typing import Literal

import numpy as np
from msgspec import UNSET, UnsetType
from numpy.typing import NDArray

from germane.clean import counted, two_digits
from germane.encoding import Line, internal
from germane.reports.data import ReportData, models_in
from germane.reports.gates import STAND_IN, DecidedBy, GateOutcome
from germane.reports.summary import (
    higher_is_better,
    in_digits,
    interval_in_words,
    is_diagnostic,
    limits_of,
    p_in_words,
    range_of,
)
from germane.statistics.differences import CorrectedDifference
from germane.statistics.intervals import LEVEL, SAME, Interval, IntervalEnds
from germane.statistics.systems import DifferenceParts, PairedDifference, holm, paired_difference
from germane.tables.cases import CaseValues, are_line_numbers, counterparts, texts_of
from germane.types import Sample

Floats = NDArray[np.float64]
Outcome = Literal["better", "worse", "same", "not shown"]
MarginResult = Literal["pass", "fail", "undecided"]
OUTCOMES: dict[MarginResult, GateOutcome] = {"undecided": "undecided", "fail": "failed", "pass": "passed"}
ALPHA = 0.05  # the probability that any measure is called better or worse if no measure differs


_INTERNAL = ("interval", "stand_in", "undecided_why", "tests", "several", "asked")


class MeasureComparison(
    Line, kw_only=True, rename=internal(*_INTERNAL, ends="interval", in_words="sentence")
):
    """The comparison of system `b` with system `a` by one measure, over the `n` queries scored for both.

    `difference` is b minus a. `decided_by` names the figures from which `decision` and `p_holm` are computed:
    `corrected` if there is a corrected difference, otherwise the judge's verdicts, gold labels or people's
    labels. `estimand` is the population of the interval: queries like these, or this set alone.

    `outcome` says how `b` compares with `a`, and `sentence` says it in words. Both are null for a measure
    that is not primary. "same" means that the whole interval is within `margin`. "better" and "worse" mean
    that the interval excludes 0 and `p_holm` is at most 0.05. "not shown" is the outcome in all other cases,
    and if a stand-in for a model judged.

    `mde` is the smallest difference that this number of queries would show with power 0.8. `decision` says
    whether `b` is worse by `margin` or more. If it is undecided, `needed_to_decide` queries would show with
    probability 0.8 that a system is no worse.

    For one `slice` of the queries, `p_holm` is adjusted over all slices, primary measures and systems, and
    `outcome` is null.
    """

    a: str
    b: str
    measure: str
    type: str
    n: int
    due: int  # the number of cases that should have a score
    mean_a: float | None
    mean_b: float | None
    difference: float | None
    ends: IntervalEnds | None = None
    interval_method: str | None = None
    interval_why: str | None = None
    estimand: Literal["queries", "set"] = "queries"
    level: float = LEVEL
    units: int = 0
    p: float | None
    p_holm: float | None = None
    wins: int
    ties: int
    losses: int
    mde: float | None
    decision: MarginResult | None = None
    margin: float | None = None
    needed_to_decide: int | None = None
    decided_by: DecidedBy = "gold"
    outcome: Outcome | None = None
    in_words: str | None = None
    corrected: CorrectedDifference | None = None
    corrected_why: str | None = None
    parts: DifferenceParts | None = None
    parts_why: str | None = None
    slice: str | UnsetType = UNSET
    interval: Interval  # of `difference`; it covers missing scores
    stand_in: bool = False
    undecided_why: str = ""  # why no decision is possible; "" if it is possible
    tests: int = 0  # the number of tests that `p_holm` is adjusted over; 0 if the measure is not primary
    several: bool = False  # True if there are several comparisons, so that sentences name the systems
    asked: int = 0  # the number of queries of the larger report, with or without a score

    def __post_init__(self) -> None:
        interval = self.interval
        self.ends, self.level, self.units = interval.ends, interval.level, interval.n
        self.interval_method = interval.method if interval.ends else None
        self.interval_why, self.corrected_why = interval.why or None, self.corrected_why or None
        self.parts_why = self.parts_why or None
        self.outcome = ("not shown" if self.stand_in else self.finding) if self.tests else None
        self.in_words = self.sentence() if self.outcome else None

    @property
    def deciding(self) -> tuple[float | None, Interval, float | None]:
        """The deciding difference (corrected by labels if possible), its interval and its p-value."""
        if self.corrected is None:
            return self.difference, self.interval, self.p
        return self.corrected.difference, self.corrected.interval, self.corrected.p

    @property
    def gain(self) -> Interval:
        """The interval of how much better B is than A; for measures where lower is better it is negated."""
        interval = self.deciding[1]
        return interval if higher_is_better(self.type) else interval.negated()

    @property
    def finding(self) -> Outcome:
        """The outcome that follows from interval and p-value, even if a stand-in for a model judged."""
        if self.undecided_why or (ends := self.gain.ends) is None:
            return "not shown"
        margin = self.margin or 0.0
        if -margin < ends[0] and ends[1] < margin:
            return "same"
        if self.p_holm is None or self.p_holm > ALPHA or ends[0] <= 0 <= ends[1]:
            return "not shown"
        return "better" if ends[0] > 0 else "worse"

    @property
    def figure(self) -> str:
        """The deciding difference with its interval, such as "+0.03 (95% interval +0.01 to +0.05)"."""
        difference, interval, _ = self.deciding
        if difference is None:
            return "not measured"
        ends, corrected = interval.ends, self.corrected
        figures = difference, *(ends or ())
        least = min((abs(value) for value in figures if abs(value) > SAME), default=1.0)
        digits = next((n for n in (2, 3) if least >= 10.0**-n), 4)
        text = f"no interval: {interval.why}"
        if ends:
            text = f"95% interval {interval_in_words(ends, digits, '+')}"
        labels = f", corrected by {counted(corrected.labels, 'label')}" if corrected else ""
        return f"{in_digits(difference, '+', digits)} ({text}{labels})"

    @property
    def why_not_shown(self) -> str:
        """The reason why no difference is shown, such as "60 queries detect 0.16 or more"."""
        difference, interval, p = self.deciding
        if self.stand_in or self.undecided_why:
            return STAND_IN if self.stand_in else self.undecided_why
        if difference is None:
            return interval.why or f"no query has scores of both {self.a} and {self.b}"
        if self.corrected is None and self.n == self.due and not self.wins + self.losses:
            return f"{counted(self.n, 'query')}, no score differs"
        if self.p_holm is not None and interval.ends and not interval.ends[0] <= 0 <= interval.ends[1]:
            own = "at most 0.05, as scores are missing" if p is None else p_in_words(p)
            return f"{self.figure}, p {own}; over {self.tests} tests (Holm) {p_in_words(self.p_holm)}"
        if self.corrected is None and self.mde is not None and abs(difference) < self.mde:
            return f"{counted(self.n, 'query')} detect{'s' * (self.n == 1)} {two_digits(self.mde)} or more"
        return self.figure

    def sentence(self) -> str:
        """Return the outcome as a sentence, such as "B is better than A in nDCG@10: +0.03 (...)"."""
        match self.outcome or self.finding:
            case "same":
                within = f"within {self.margin or 0.0:g} in {self.measure}"
                return f"{self.b} and {self.a} are the same {within}: {self.figure}"
            case "not shown":
                suffix = f" ({self.b} against {self.a})" if self.several else ""
                return f"no difference shown in {self.measure}{suffix}: {self.why_not_shown}"
            case outcome:
                return f"{self.b} is {outcome} than {self.a} in {self.measure}: {self.figure}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.replace(several=True).sentence()}>"


def adjusted(rows: Iterable[MeasureComparison], primary: Collection[str]) -> list[MeasureComparison]:
    """Return the comparisons with Holm-adjusted p-values for the `primary` measures of all systems.

    Other measures, and diagnostic measures such as Judged@10, get no adjusted p-value. If scores are missing,
    a comparison has no p-value; for the adjustment it is 0.05 if the interval excludes 0, and 1 otherwise.
    """
    comparisons = list(rows)
    tested = [row for row in comparisons if row.measure in primary and not is_diagnostic(row.type)]
    ps: list[tuple[MeasureComparison, float]] = []
    for row in tested:
        _, interval, p = row.deciding
        if p is None and interval.ends is not None:
            p = 1.0 if interval.ends[0] <= 0 <= interval.ends[1] else ALPHA
        if p is not None:
            ps.append((row, p))
    adjusted_p = {id(row): p for (row, _), p in zip(ps, holm([p for _, p in ps]), strict=True)}
    tests = {id(row): max(len(ps), 1) for row in tested}
    return [row.replace(p_holm=adjusted_p.get(id(row)), tests=tests.get(id(row), 0)) for row in comparisons]


class Side:
    """One of two compared systems.

    `name` is its printed name, `report` its report, and `system` its name in that report. `types` maps the
    reported name of each of its measures to the canonical name.
    """

    def __init__(self, name: str, report: ReportData, system: str) -> None:
        self.name, self.report, self.system = name, report, system
        self.types = {line.measure: line.type for line in report.summaries if line.system == system}
        self.scores = report.case_scores

    def read(self) -> Iterator[Sample]:
        """Yield the system's samples in input order."""
        return (sample for sample in self.report.samples() if sample.system == self.system)

    @cached_property
    def has_samples(self) -> bool:
        """True if the report contains samples of the system; a `--json` document contains only scores."""
        return next(self.read(), None) is not None

    def first_of(self, cases: Collection[str]) -> Mapping[str, Sample]:
        """Return the first sample (trial) of each of these cases, by case id; no others are loaded."""
        table = self.report.tables.scores
        keys = {key for key in table.samples if key[0] in cases and key[1] == self.system}
        return {sample.id: sample for sample in reversed(list(self.report.tables.samples_of(keys)))}

    def source(self, measure: str) -> str:
        """Return whose labels a measure uses (gold, judge, human or best), given its reported name."""
        return self.report[measure, self.system].basis.source


def measures_in_common(sides: Sequence[Side]) -> list[str]:
    """Return the reported names of the measures computed for all systems under one canonical name."""
    first, *others = sides
    return [
        name
        for name, canonical in first.types.items()
        if all(side.types.get(name) == canonical for side in others)
    ]


class PairedSystems:
    """Two systems whose cases are paired: `a` is the baseline, and `b` is compared with it."""

    def __init__(self, a: Side, b: Side) -> None:
        self.a, self.b = a, b
        own = {self.case_in_a(case): cluster for case, cluster in b.report.tables.clusters().items()}
        clusters = {case: cluster for case, cluster in own.items() if case is not None}
        self.clusters = clusters | a.report.tables.clusters()

    @cached_property
    def by_query(self) -> Mapping[str, str | None]:
        """The id in A (or None) of each case of B, by query text; empty if equal ids are the same case."""
        sides = self.a, self.b
        for side in sides:
            ids = (side.scores.cases[number] for number in side.scores.cases_of(side.system))
            if not (are_line_numbers(ids) and side.has_samples):
                return {}
        return counterparts(*(texts_of(side.read()) for side in sides))

    def case_in_a(self, case: str) -> str | None:
        """Return the id in A of a case of B; None if the cases are matched by query and none in A matches."""
        return self.by_query.get(case, case)

    @cached_property
    def _in_a(self) -> NDArray[np.int64]:
        """The index in A's report of each case in B's report; -1 for a case that A does not contain."""
        number_of: Callable[..., int] = self.a.scores.numbers.get
        return np.array([number_of(self.case_in_a(case), -1) for case in self.b.scores.cases], np.int64)

    def only_in(self) -> tuple[list[str], list[str]]:
        """Return the ids of the cases that only A contains, and the ids of the cases that only B contains."""
        a, b = (side.scores.cases_of(side.system) for side in (self.a, self.b))
        in_a = self._in_a[b]
        only_a, only_b = a[~np.isin(a, in_a)].tolist(), b[~np.isin(in_a, a)].tolist()
        return [self.a.scores.cases[at] for at in only_a], [self.b.scores.cases[at] for at in only_b]

    def due(self, measure: str) -> list[CaseValues]:
        """Return A's and B's values of a measure for all cases that should have a score."""
        names = measure, self.a.types[measure]
        declared = range_of(names[1])

        def within(span: tuple[float, float]) -> list[CaseValues]:
            return [side.scores.case_values(side.system, names, span) for side in (self.a, self.b)]

        values = within(declared)
        return values if limits_of(declared, *values) else within((-inf, inf))

    def values(self, measure: str) -> tuple[CaseValues, CaseValues]:
        """Return A's and B's values of a measure for the cases in both, in A's order and with A's indices."""
        ours, theirs = self.due(measure)
        at = self._in_a[theirs.case]
        rows = np.flatnonzero(at >= 0)
        positions = np.full(len(self.a.scores.cases), -1)
        positions[at[rows]] = rows
        ours = ours.taken(np.flatnonzero(positions[ours.case] >= 0))
        return ours, replace(theirs.taken(positions[ours.case]), case=ours.case)

    def compare(
        self, measure: str, keep: NDArray[np.bool_] | None = None, name: str = ""
    ) -> MeasureComparison:
        """Return the comparison by one measure; `keep` masks A's cases in the slice with this `name`."""
        ours, theirs = self.values(measure)
        if keep is not None:
            chosen = np.flatnonzero(keep[ours.case])
            ours, theirs = ours.taken(chosen), theirs.taken(chosen)
        canonical = self.a.types[measure]
        complete = ours.complete & theirs.complete
        kept = np.flatnonzero(complete)
        counted = whole = self._difference(ours.taken(kept), theirs.taken(kept), canonical)
        if not complete.all():
            if np.isfinite(ours.high).all() and np.isfinite(theirs.high).all():
                whole = self._difference(ours, theirs, canonical)
            else:
                why = "missing scores could have any value"
                whole = replace(counted, interval=replace(counted.interval, ends=None, why=why), p=None)
        sources = {side.source(measure) for side in (self.a, self.b)}
        by = "judged" if sources & {"judge", "best"} else "gold" if sources == {"gold"} else "labels"
        better = higher_is_better(canonical)
        return MeasureComparison(
            a=self.a.name,
            b=self.b.name,
            measure=measure,
            type=canonical,
            slice=name or UNSET,
            n=len(kept),
            due=len(complete),
            mean_a=counted.mean_a,
            mean_b=counted.mean_b,
            difference=counted.difference,
            interval=whole.interval,
            p=whole.p,
            wins=counted.wins if better else counted.losses,
            ties=counted.ties,
            losses=counted.losses if better else counted.wins,
            mde=counted.detectable,
            stand_in=any(side.report[measure, side.system].basis.stand_in for side in (self.a, self.b)),
            decided_by=by,  # type: ignore[arg-type]  # one of the three
            asked=max(len(side.scores.cases_of(side.system)) for side in (self.a, self.b)),
        )

    def _difference(self, ours: CaseValues, theirs: CaseValues, canonical: str) -> PairedDifference:
        return paired_difference(
            ours.values,
            theirs.values,
            clusters=self.a.scores.clusters_of(ours.case, self.clusters),
            bounds_a=(ours.low, ours.high),
            bounds_b=(theirs.low, theirs.high),
            value_range=limits_of(range_of(canonical), ours, theirs),
        )


def how_judged(a: Side, b: Side, measures: Sequence[str]) -> str:
    """Return a sentence on how the judging of two systems differs for these measures; "" if it is alike."""
    if a.report is b.report:
        return ""
    judge, other = a.report.judge, b.report.judge
    source = str(judge.source)
    if source != str(other.source):
        return f"{a.name} was judged by {source}, {b.name} by {other.source}"
    both = f"{a.name} and {b.name} were judged"
    if judge.identity and other.identity and (names := _differing(judge.identity, other.identity)):
        return f"{both} by {source} with different {', '.join(names)}"
    for key, what in (("settings", ""), ("prompts", "prompts of ")):
        ours, theirs = (side.report.manifest.get(key) or {} for side in (a, b))
        names = _differing(ours, theirs) if ours and theirs else []
        if names := [name for name in names if key == "settings" or (name in ours and name in theirs)]:
            return f"{both} with different {what}{', '.join(names)}"
    for name in measures:
        answered = []  # by side: the models that answered although another was requested
        for side in (a, b):
            identity, basis = side.report.judge.identity, side.report[name, side.system].basis
            asked = {part for model in models_in(identity) for part in (model, model.partition(":")[2])}
            answered.append([model for model in basis.models if model and model not in asked])
        served, others = answered
        if served and others and not set(served) & set(others):
            models = f"{a.name} by {', '.join(served)}, {b.name} by {', '.join(others)}"
            return f"{both} by {source}, but another model answered: {models}"
    return ""


def _differing(row: Mapping[str, object], other: Mapping[str, object]) -> list[str]:
    """Return the keys that only one of two mappings contains, or whose values differ, sorted."""
    return sorted(key for key in {*row, *other} if row.get(key) != other.get(key))
