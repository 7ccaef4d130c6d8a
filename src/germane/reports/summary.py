"""Summarise the scores of each measure: the mean, its interval and bounds, and whose labels are used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import floor, fsum, isfinite
from typing import Annotated, Literal

import numpy as np
from msgspec import UNSET, Meta, UnsetType, field
from numpy.typing import NDArray

from germane.clean import some_of
from germane.encoding import Line, internal
from germane.errors import InputError, SourceLocation
from germane.measures.measure import UNKNOWN, Measure
from germane.places.table import Source
from germane.show.table import Table
from germane.statistics.intervals import SAME, CorrectedMean, Interval, IntervalEnds, mean_interval
from germane.tables.cases import CaseScores, CaseValues
from germane.tables.scores import ScoreTable
from germane.types import STATUSES, FrozenDict, Sample, Score

IntegerEnds = Annotated[Sequence[int], Meta(min_length=2, max_length=2, description="the lower one first")]


class Basis(Line, kw_only=True, rename=internal("labels", "stand_in", "outdated", "interval_note")):
    """The basis of a mean: the source of its labels (gold, judge, human or best), and how they were made.

    For `source` best, a passage has its label from people, or else from the judge; `mixed` is the proportion
    of people's labels. `models` counts verdicts by the model that answered, and `modes` counts them by output
    mode. `fused` counts verdicts that shared a request with others. `beside` contains means to read together
    with a mean of gold labels, such as the proportion of passages with a label, or RBP's residual. `remarks`
    are printed with the mean, such as `uncalibrated: no human labels`.
    """

    source: Source = "gold"
    calibrated: bool = True
    """True if the judge's mean was corrected by people's labels; gold and people's labels need no correction."""
    models: Mapping[str, int] = FrozenDict()
    modes: Mapping[str, int] = FrozenDict()
    fused: int = 0
    with_reference: int | None = None  # relevance verdicts given with a reference; None if unknown
    without_reference: int | None = None
    mixed: float | None = None
    beside: Mapping[str, float] = FrozenDict()
    remarks: Sequence[str] = ()
    labels: int = 0  # the number of people's labels
    stand_in: bool = False  # True if the judge only stands in for a model
    outdated: bool = False  # True if labels for this measure were added after scoring
    interval_note: str = ""  # the remark that the interval is too narrow; "" if it is not

    def __post_init__(self) -> None:
        remarks = []
        if self.source == "best":
            share = "" if self.mixed is None else f"{self.mixed:.0%} human, "
            remarks.append(f"mixed: {share}not a corrected estimate")
        elif self.source == "judge" and not self.calibrated:
            stored = "1 person's label is" if self.labels == 1 else f"{self.labels} people's labels are"
            note = f"{stored} stored; `germane audit` checks the judge against {'it' if self.labels == 1 else 'them'}"
            remarks.append(f"uncalibrated: {note if self.labels else 'no human labels'}")
        if self.outdated:
            remarks.append(
                "people's labels were added since it was scored: run germane score REPORT -m MEASURE"
            )
        if self.with_reference and self.without_reference:
            counts = f"{self.with_reference} with reference, {self.without_reference} without"
            remarks.append(f"verdicts: {counts}")
        for name, mean in self.beside.items():
            if not name.startswith("Judged"):
                remarks.append(f"{name} {mean:.4f}")
            elif mean < 1.0:
                top = f"top-{name.rpartition('@')[2]} " if "@" in name else ""
                share = "over 99%" if mean > 0.995 else f"{mean:.0%}"
                judged = f"{share} of the {top}results have a gold label"
                remarks.append(judged if mean else f"no {top}result has a gold label")
        self.remarks = [*remarks, *filter(None, [self.interval_note])]


class Sampled(Line):
    """A random sample of the cases: `n` of all cases (`of`) were evaluated, in an order drawn with `seed`."""

    n: int
    of: int
    seed: int


_SKIPPED, _INCOMPLETE, _ERROR = range(1, len(STATUSES))
_REASONS = 100  # the largest number of distinct reasons stored for a measure
_INTERNAL = (
    *("measure", "type", "system", "slice", "mean_bounds", "low", "high"),
    *("edges", "due", "scores", "failed", "why"),
)


class MeasureSummary(Line, kw_only=True, rename=internal(*_INTERNAL, finite_bounds="mean_bounds")):
    """The summary of one measure over all cases; `mean` is null if no score could be computed.

    Of `total` cases, `n` have a value. `skipped`, `incomplete` and `errors` count the cases without a value,
    by the worst status of their trials. `trials` is the number of trials of each case, or [least, most] if
    cases differ. `trials_failed` counts the trials that are incomplete or errors. Both are absent if each
    case has one trial. `mean_bounds` are the lowest and highest possible mean: incomplete scores are at their
    own bounds, and errors are anywhere in the measure's range.

    `interval` is the confidence interval of the mean at `level` over `units` cases or clusters of cases. If
    it is null, `interval_why` says why. `estimand` is the population: "queries" means queries like these.
    """

    measure: str
    type: str
    system: str = ""
    slice: str = ""
    """The name of the slice that the summary is over; "" for all cases."""
    mean: float | None
    interval: IntervalEnds | None = None
    interval_method: str | None = None
    level: float | None = None
    units: int | None = None
    interval_why: str | None = None
    estimand: Literal["queries", "set"] = "queries"
    mean_bounds: tuple[float, float] | None
    """The bounds of the mean over all `due` cases that should have a score; a bound can be infinite."""
    finite_bounds: IntervalEnds | None = None
    n: int
    total: int
    trials: int | IntegerEnds | UnsetType = UNSET
    trials_failed: int | UnsetType = UNSET
    skipped: int
    incomplete: int
    errors: int
    basis: Basis = field(default_factory=Basis)
    corrected: CorrectedMean | None = None
    corrected_why: str | None = None
    sampled: Sampled | None = None
    low: float | None = None
    """The smallest value. `high` is the largest, and `edges` are the bounds of both with missing scores."""
    high: float | None = None
    edges: tuple[tuple[float, float], tuple[float, float]] | None = None
    due: int
    scores: int
    """The number of scores that are due over all trials; `failed` scores are incomplete or errors."""
    failed: int
    why: tuple[tuple[str, int], ...] = ()  # the reasons of scores without a value, each with its count

    def __post_init__(self) -> None:
        self.finite_bounds = self.mean_bounds if self.mean_bounds and isfinite(self.mean_bounds[1]) else None
        self.interval_why, self.corrected_why = self.interval_why or None, self.corrected_why or None

    def __repr__(self) -> str:
        system = f" of {self.system}" if self.system else ""
        interval = f" ({interval_in_words(self.interval)})" if self.interval else ""
        return f"<{self.measure}{system} {self.in_words()}{interval}, {self.count_in_words()}>"

    def remarks(self) -> Iterator[str]:
        """Yield the remarks printed with the mean: whose labels it is based on, and why it is uncorrected."""
        if self.mean is not None:
            yield from self.basis.remarks
            if self.basis.labels and self.corrected_why:
                yield f"not corrected: {self.corrected_why}"

    def over_all(self, mean: float) -> tuple[float, float]:
        """Return the range of the mean over all cases due, if it is `mean` over the `n` cases."""
        rest, (low, high) = 1 - self.n / self.due, range_of(self.type)
        return (mean + rest * (low - mean), mean + rest * (high - mean)) if rest else (mean, mean)

    def in_words(self) -> str:
        """Return the mean as text, or "-" if there is no mean.

        If scores are missing, the text also contains the number of scored cases and the range of the mean
        over all cases.
        """
        if self.mean is None:
            return "-"
        if not self.failed:
            return f"{self.mean:.4f}"
        could = interval_in_words(self.finite_bounds, 2) if self.finite_bounds else "any value"
        return f"{self.mean:.4f} over {self.n} of {self.due} ({could} over all)"

    def count_in_words(self) -> str:
        """Return "n/total", with the number of trials and the size of a random sample, if any.

        `n` is the number of cases with a value.
        """
        share = f"{100 * self.sampled.n / self.sampled.of:.3g}%" if self.sampled else ""
        more = ", ".join(filter(None, (self.trials_in_words(), share)))
        return f"{self.n}/{self.total}" + (f" ({more})" if more else "")

    def trials_in_words(self) -> str:
        """Return the number of trials of each case, such as "5 trials each".

        Returns "" if each case has one trial.
        """
        if not self.trials:
            return ""
        number = self.trials if isinstance(self.trials, int) else "{} to {}".format(*self.trials)
        return f"{number} trials each"


def known_measure(name: str) -> Measure | None:
    """Return the measure with this name; None if it is not one of germane's, such as a file's grader."""
    try:
        measure = Measure.parse(name)
    except InputError:
        return None
    return None if measure.definition.formula == UNKNOWN else measure


def canonical_name(name: str) -> str:
    """Return the canonical spelling of a measure's name; an eval file's own grader keeps its name."""
    return str(known_measure(name) or name.strip())


def range_of(canonical: str) -> tuple[float, float]:
    """Return the lowest and highest value of a measure by its canonical name; 0 and 1 if it is unknown."""
    return Measure.remembered(canonical).definition.range


def is_foreign(canonical: str) -> bool:
    """Return True if a measure is not germane's, but a user's or another program's."""
    definition = Measure.remembered(canonical).definition
    return definition.formula == UNKNOWN or not definition.compute.__module__.startswith("germane.")


def check_change(canonical: str, change: float, problem: str, location: SourceLocation | None = None) -> None:
    """Raise an InputError that begins with `problem` if `change` exceeds the width of a measure's range."""
    low, high = range_of(canonical)
    if abs(change) > high - low:
        name = canonical.partition(" [")[0]
        fix = "write a smaller number, e.g. 0.02 or 2%"
        fix += ", or declare the range: @measure(range=(0, 100))" if is_foreign(canonical) else ""
        problem = f"{problem} asks for more than {name} can change: its values are from {low:g} to {high:g}"
        raise InputError(problem, fix=fix, place=location)


def higher_is_better(canonical: str) -> bool:
    """Return True if higher values of a measure are better, or if germane does not know the measure."""
    return Measure.remembered(canonical).definition.better == "higher"


def is_diagnostic(canonical: str) -> bool:
    """Return True if a measure (such as Judged@10) describes the labels or rankings, not their quality."""
    measure = Measure.remembered(canonical)
    return measure.definition.diagnostic or measure.settings.get("part") == "residual"


def summarise(
    scores: CaseScores | ScoreTable | Iterable[Score],
    *,
    clusters: Mapping[str, str] | None = None,
    keep: NDArray[np.int64] | None = None,
) -> list[MeasureSummary]:
    """Return a summary per system and measure, in order of appearance, over the samples `keep`."""
    cases = scores
    if not isinstance(cases, CaseScores):
        cases = CaseScores(cases if isinstance(cases, ScoreTable) else ScoreTable(cases))
    return [_summary(cases, system, number, rows, clusters) for system, number, rows in cases.groups(keep)]


def _summary(
    cases: CaseScores, system: str, number: int, rows: NDArray[np.int64], clusters: Mapping[str, str] | None
) -> MeasureSummary:
    """Return the summary of one system's scores of the measure with index `number`."""
    measure, canonical = cases.measures[number]
    span = range_of(canonical)
    case_values = cases.values_of(rows, span)
    values, low, high = case_values.measured, case_values.low, case_values.high
    n, due = len(values), len(low)
    interval = interval_of_cases(case_values, cases.clusters_of(case_values.case, clusters), span)
    ends, method = interval.ends, interval.method + (", clusters" if interval.units == "clusters" else "")
    total = fsum(values.tolist())
    sums = [total if side is values else fsum(side.tolist()) for side in (low, high)]
    taken = cases.table.taken(rows)
    status, codes = taken.status, taken.why
    counts = np.bincount(status, minlength=len(STATUSES)).tolist()
    scores, failed = len(rows) - counts[_SKIPPED], counts[_INCOMPLETE] + counts[_ERROR]
    trials: int | list[int] | UnsetType = UNSET
    if cases.trials:
        of_case = cases.counts(rows, status)
        sizes = of_case.sum(axis=1)
        if (most := int(sizes.max())) > 1:
            trials = most if (least := int(sizes.min())) == most else [least, most]
        # a case without a value counts once, by the worst of its trials
        worst = len(STATUSES) - 1 - np.argmax(of_case[:, ::-1] > 0, axis=1)
        counts = np.bincount(np.where(of_case[:, 0] > 0, 0, worst), minlength=len(STATUSES)).tolist()
    reasons, times = np.unique(codes[codes > 0], return_counts=True)
    why = zip((cases.whys[code] or "" for code in reasons.tolist()), times.tolist(), strict=True)
    return MeasureSummary(
        measure=measure,
        type=canonical,
        system=system,
        mean=total / n if n else None,
        mean_bounds=(sums[0] / due, sums[1] / due) if due else None,
        interval=ends,
        interval_method=method if ends else None,
        interval_why=interval.why,
        level=interval.level if ends else None,
        units=interval.n if ends else None,
        low=float(values.min()) if n else None,
        high=float(values.max()) if n else None,
        edges=((float(low.min()), float(high.min())), (float(low.max()), float(high.max()))) if due else None,
        n=n,
        due=due,
        total=sum(counts),
        skipped=counts[_SKIPPED],
        incomplete=counts[_INCOMPLETE],
        errors=counts[_ERROR],
        trials=trials,
        trials_failed=failed if trials else UNSET,
        basis=Basis(interval_note=interval.note),
        scores=scores,
        failed=failed,
        why=tuple(sorted(why, key=lambda reason: (-reason[1], reason[0]))[:_REASONS]),
    )


def interval_of_cases(
    values: CaseValues, clusters: NDArray[np.generic] | None, span: tuple[float, float], *, times: float = 1.0
) -> Interval:
    """Return the interval of the mean over cases, or over `times` as many; `span` is the measure's range."""
    bounds, limits = (values.low, values.high), limits_of(span, values)
    if not np.isfinite(values.high).all():
        why = "missing scores could have any value"
        return Interval(mean=None, ends=None, method="", units="cases", n=len(values.low), why=why)
    return mean_interval(values.values, clusters=clusters, bounds=bounds, value_range=limits, times=times)


def limits_of(span: tuple[float, float], *sides: CaseValues) -> tuple[float, float] | None:
    """Return a measure's range `span`; None if a value in `sides` is outside, as unknown measures allow."""
    ends = [(side.low.min(), side.high.max()) for side in sides if len(side.low)]
    return span if all(span[0] <= low and high <= span[1] for low, high in ends) else None


def in_digits(value: float | None, sign: str = "", digits: int = 4) -> str:
    """Return a number with `digits` decimals, "-" for None; `sign` "+" adds a plus to positive numbers."""
    return "-" if value is None else f"{0.0 if abs(value) <= SAME else value:{sign}.{digits}f}"


def p_in_words(value: float | None) -> str:
    """Return a p-value with four decimals, or as 3e-06 if it is below 0.00005; "-" for None."""
    return in_digits(value) if value is None or value >= 0.00005 else f"{value:.1g}"


PASSAGE_MEANS = ("P", "SetP", "context_relevancy")
"""Ranked measures that are a mean over passages, whose order does not matter."""
VERDICT_MEANS = ("context_recall", "faithfulness", "context_sufficiency")
"""Judged measures that are a mean over yes/no verdicts: a claim is supported, or contexts are sufficient."""
LIKE_THESE, THESE = "for queries like these", "for these queries"
"""The two estimands: the population from which the queries are a sample, and the set of queries itself."""
INTERVALS = f"95% confidence intervals ({LIKE_THESE})"


def interval_in_words(ends: Sequence[float] | None, digits: int = 4, sign: str = "") -> str:
    """Return an interval, rounded outwards, as text such as "0.61 to 0.74"; "-" for None.

    With `sign` "+", positive numbers get a plus. An interval of width 0 is shown as one number.
    """
    if ends is None:
        return "-"
    if ends[1] - ends[0] <= 1e-12:
        return in_digits(ends[0], sign, digits)
    unit = 10.0**digits
    low, high = floor(ends[0] * unit + 1e-6) / unit, -floor(-ends[1] * unit + 1e-6) / unit
    return f"{low:{sign}.{digits}f} to {high:{sign}.{digits}f}"


def sample_slices(sample: Sample, by: str) -> list[str]:
    """Return the names of the slices that a sample belongs to, such as ["lang=de"] for `by` "lang".

    `by` is one of four: a metadata field; the part of tags before a colon (`lang` for `lang:de`); a single
    tag; or "tags". The first two give one slice per value, and "tags" gives one slice per tag.
    """
    values = [tag.partition(":")[2] for tag in sample.tags if tag.startswith(f"{by}:")]
    if isinstance(value := sample.metadata.get(by), str | int | float):
        values.append(str(value))
    if values:
        return [f"{by}={value}" for value in dict.fromkeys(values)]
    if by in sample.tags:
        return [by]
    return list(sample.tags) if by in {"tag", "tags"} else []


def slices_of(samples: Iterable[Sample], by: str) -> dict[str, set[str]]:
    """Return the ids of the cases in each slice, by the slice's name.

    `by` is as in `sample_slices`. If `by` is a single tag, cases without it form the slice "not TAG". Raises
    InputError if no sample is in any slice.
    """
    slices: dict[str, set[str]] = {}
    cases, known = set[str](), set[str]()
    for sample in samples:
        cases.add(sample.id)
        known.update(sample.tags, sample.metadata)
        for name in sample_slices(sample, by):
            slices.setdefault(name, set()).add(sample.id)
    if set(slices) == {by}:
        return {by: slices[by], f"not {by}": cases - slices[by]}
    if not slices:
        have = f"use one of the samples' tags or fields: {some_of(sorted(known), 10)}"
        fix = have if known else "add tags to the samples"
        raise InputError(f"no sample has a tag or a metadata field {by!r}", fix=fix)
    return dict(sorted(slices.items()))


def with_measures(rows: Iterable[tuple[str, str]]) -> Iterator[str]:
    """Yield each distinct text of (text, measure) with its measures, such as "text (RR, nDCG@10)"."""
    measures_of: dict[str, dict[str, None]] = {}
    for text, measure in rows:
        measures_of.setdefault(text, {})[measure] = None
    return (f"{text} ({', '.join(measures)})" for text, measures in measures_of.items())


COUNTS = ("skipped", "incomplete", "errors")  # counts of cases without a value, shown next to a mean
_STYLES = {"corrected": "bold", "mean": "bold", "skipped": "dim", "incomplete": "yellow", "errors": "red"}


def means_table(
    summaries: Sequence[MeasureSummary], counts: Sequence[str] | None = None, of_all: str = "n"
) -> Table:
    """Return the table of means; `counts` names the columns of counts (None = those that are not all 0)."""
    zero = "0" if counts else "-"
    if counts is None:
        counts = [name for name in COUNTS if any(getattr(summary, name) for summary in summaries)]
    several = len({summary.system for summary in summaries}) > 1
    names = [*["slice"] * any(line.slice for line in summaries), *["system"] * several, "measure"]
    corrected = ["corrected", "interval"] if any(line.corrected for line in summaries) else []
    heads = [*names, *corrected, "mean", "interval", of_all, *counts]
    table = Table(heads, "l" * len(names) + "r", styles=_STYLES)
    for line in summaries:
        cells = [getattr(line, name) or "-" for name in names]
        if corrected:
            mean = line.corrected
            cells += [in_digits(mean.mean), interval_in_words(mean.ends)] if mean else ["-", "-"]
        cells += [line.in_words(), interval_in_words(line.interval), line.count_in_words()]
        table.add([*cells, *(str(getattr(line, count) or zero) for count in counts)])
    return table


def corrected_in_words(summaries: Iterable[MeasureSummary]) -> Iterator[str]:
    """Yield a sentence per corrected mean, with the judge's mean, the corrected mean and its interval."""
    for summary in summaries:
        if (mean := summary.corrected) is not None:
            system = f" of {summary.system}" if summary.system else ""
            judged = f"{summary.measure}{system}: the judge says {mean.judged:.3f}"
            labelled = f"with people's labels on {mean.labels} of {mean.total} it is {mean.mean:.3f}"
            yield f"{judged}; {labelled} ({interval_in_words(mean.ends, 3)} {LIKE_THESE})"
