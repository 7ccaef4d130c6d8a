"""Gates: limits on the means of measures, their results, and the exit code of the evaluation."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import fsum, isfinite
from typing import Any, Literal

import numpy as np
from msgspec import UnsetType
from numpy.typing import NDArray

from germane.clean import clean, counted
from germane.encoding import Line, internal
from germane.errors import InputError, SourceLocation, option
from germane.places.table import Floats
from germane.reports.summary import (
    LIKE_THESE,
    THESE,
    MeasureSummary,
    canonical_name,
    check_change,
    interval_in_words,
    known_measure,
    range_of,
    slices_of,
)
from germane.tables.cases import CaseScores
from germane.tables.scores import NO_IDS, WITHOUT_IDS
from germane.types import Json, Sample

__all__ = ["Gate"]

GateOutcome = Literal["passed", "failed", "undecided"]
DecidedBy = Literal["corrected", "judged", "gold", "labels"]
"""The figures that decide: the judge's corrected by people's labels, the judge's own, gold, or people's."""
_COMPARE: dict[str, Callable[[Any, float], Any]] = {
    ">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt, "=": operator.eq, "==": operator.eq,
}  # fmt: skip
_IN_WORDS = {"gte": ">=", "gt": ">", "lte": "<=", "lt": "<", "eq": "=="}
# Patterns are compiled when a gate is read: most evaluations have no gates and start faster.
_WORD = rf"\s+({'|'.join(_IN_WORDS)})\s+(?=[-+.\d])"
_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_MEASURE = r"(?P<measure>(?:[^<>=()]|\([^()]*\))+?)"
_WRITTEN = (
    rf"(?P<how>min|max) \( mean \( {_MEASURE} \) by\s (?P<by>[^<>=()]+?) \)",
    rf"(?P<how>share) \( {_MEASURE} (?P<share>(?:>=|<=|>|<) {_NUMBER}) \)",
    rf"(?P<how>lower|upper) \( (?P<of>mean|corrected|judged) \( {_MEASURE} \) \)",
    rf"(?P<how>mean|min|max|lower|upper|change) \( {_MEASURE} \)",
    rf"(?P<of>corrected|judged) \( {_MEASURE} \)",
    _MEASURE,
)
"""Patterns of a gate's left side; a space in them stands for any or no white space."""
_HELD = rf" (?P<op>>=|<=|==|=|>|<) (?P<limit>{_NUMBER}%?) "
FUNCTIONS = {
    "mean(MEASURE)": "the mean over cases (corrected by people's labels if possible), without its interval: at the limit, half of all sets of queries pass",
    "min(MEASURE)": "the lowest value of a case",
    "max(MEASURE)": "the highest value of a case",
    "share(MEASURE>=0.5)": "the share of cases whose value meets the condition",
    "min(mean(MEASURE) by tag)": "the lowest (`max`: highest) mean of a slice: a tag, `tags` or a metadata field; undecided if a slice of fewer than five cases decides",
    "lower(MEASURE)": "the lower end of the mean's interval: at the limit, about 2.5% of all sets of queries pass; also `lower(mean(MEASURE))`",
    "upper(MEASURE)": "the upper end of the mean's interval",
    "corrected(MEASURE)": "the mean corrected by people's labels; also `lower(corrected(MEASURE))`",
    "judged(MEASURE)": "the mean of the judge's own verdicts, uncorrected; also `lower(judged(MEASURE))`",
    "change(MEASURE)": "the paired difference to `--baseline`, over its whole interval: `change(nDCG@10)>-0.02`",
}
"""The values that a gate can compare, by how they are written."""
_FIX = "write e.g. lower(nDCG@10)>=0.65, mean(nDCG@10)>=0.7 or change(nDCG@10)>-0.02"


@dataclass(frozen=True, slots=True)
class Gate:
    """A gate: the condition `how(measure) op limit`, such as `mean(nDCG@10)>=0.7`; see `FUNCTIONS`.

    `measure` is a reported or canonical name, `mean_of` the mean that is meant ("" = corrected if possible),
    `share` the condition on each case, such as ">=0.5", `by` the tag or metadata field of slices, and
    `location` the eval file that declares the gate.
    """

    how: str
    measure: str
    op: str
    limit: float
    location: SourceLocation | None = field(default=None, compare=False)
    mean_of: Literal["", "corrected", "judged"] = ""
    share: str = ""
    by: str = ""

    @classmethod
    def parse(cls, text: str, where: SourceLocation | None = None) -> Gate:
        """Parse a gate such as `lower(nDCG@10)>=0.65`. Raises InputError if the string is not a gate."""
        text = re.sub(_WORD, lambda word: _IN_WORDS[word[1]], text)
        forms = (f" {form}{_HELD}".replace(" ", r"\s*") for form in _WRITTEN)
        match = next(filter(None, (re.fullmatch(form, text) for form in forms)), None)
        if match is None:
            raise InputError(f"{text!r} is not a gate", fix=_FIX, place=where)
        result = match.groupdict("")
        how, limit, statistic = result.get("how", "mean"), result["limit"], result.get("of", "")
        share = "".join(result.get("share", "").split())
        number = float(limit.rstrip("%")) / (100 if limit.endswith("%") else 1)
        small = not number and re.search("[1-9]", re.split("[eE]", limit)[0])
        if small or not (isfinite(number) and isfinite(float(share.lstrip("<>=") or "0"))):
            problem = f"the limit of the gate {text!r} is too {'small' if small else 'large'}"
            raise InputError(problem, fix=_FIX, place=where)
        if how == "change" and result["op"] in {"=", "=="}:
            problem = f"the gate {text!r} can never pass: the interval of a change never equals one number"
            raise InputError(problem, fix="write >, >=, < or <=, e.g. change(nDCG@10)>-0.02", place=where)
        measure, by = canonical_name(result["measure"]), result.get("by", "")
        mean_of: Any = "" if statistic == "mean" else statistic
        return cls(how, measure, result["op"], number, where, mean_of=mean_of, share=share, by=by)

    def check_named(self, measured: Iterable[str]) -> None:
        """Raise InputError if the measure is not in `measured`, mixes labels or cannot change so much."""
        names = dict.fromkeys(measured)
        if self.measure in names:
            measure = known_measure(self.measure)
            if measure is not None and measure.labels == "best":
                raise self.mixed()
            if measure is not None and self.how == "change":
                check_change(self.measure, self.limit, f"the gate {self}", self.location)
            return
        problem = f"the gate {self} names {self.measure}, which is not measured"
        fix = f"name one of the measures {', '.join(names)}" if names else f"measure it: -m {self.measure}"
        known = dict.fromkeys(form.partition("(")[0] for form in FUNCTIONS)
        function, _, inner = self.measure.removesuffix(")").partition("(")
        if function not in known and (inner in names or known_measure(inner)):
            problem = f"the gate {self.measure}{self.op}{self.limit:g} has an unknown function, {function}"
            fix = f"write one of {', '.join(known)}, e.g. mean({inner}){self.op}{self.limit:g}"
        elif " by " in self.measure:
            fix = f"of slices, write min(mean({next(iter(names), 'RR')}) by tag){self.op}{self.limit:g}"
        raise InputError(problem, fix=fix, place=self.location)

    def mixed(self) -> InputError:
        """Return the error for a gate on labels=best, whose mean mixes the labels of people and the judge."""
        problem = f"the gate {self} is on labels=best, which mixes people's and the judge's labels"
        return InputError(problem, fix="gate on labels=human or labels=judge", place=self.location)

    def no_slices(self) -> InputError:
        """Return the error for a gate on slices by a tag or metadata field that occurs in no case."""
        problem = f"the gate {self} has no slices: no case has a tag or a metadata field {self.by!r}"
        return InputError(problem, fix="name a tag or a metadata field, or write `tags`", place=self.location)

    def stored(self) -> Json:
        """Return the gate for the manifest: its text, or its text and the eval file that declares it."""
        return str(self) if self.location is None else [str(self), self.location.file]

    @classmethod
    def of_stored(cls, row: Json) -> Gate:
        """Return the gate that `stored` wrote into a manifest."""
        return cls.parse(row) if isinstance(row, str) else cls.parse(row[0], SourceLocation(row[1]))

    def __str__(self) -> str:
        measured = f"{self.measure}{self.share}"
        if self.by:
            measured = f"mean({measured}) by {self.by}"
        how = self.mean_of if self.mean_of and self.how == "mean" else self.how
        if self.mean_of and how != self.mean_of:
            measured = f"{self.mean_of}({measured})"
        return f"{how}({measured}){self.op}{self.limit:g}"

    def name(self, system: str) -> str:
        """Return the gate's text followed by the system's name, if any, as in `RR>=0.5 [bm25]`."""
        return f"{self} [{system}]" if system else str(self)

    def meets(self, value: Floats | float) -> NDArray[np.bool_]:
        """Return whether a value, or each one of an array, meets the limit, despite rounding of its sum."""
        gap = np.subtract(value, self.limit)
        return np.asarray(_COMPARE[self.op](gap * (np.abs(gap) > 1e-12 * max(1.0, abs(self.limit))), 0.0))

    def holds(self, low: float, high: float) -> GateOutcome:
        """Return the outcome for a value between `low` and `high`; undecided if the limit is there too."""
        results = {bool(self.meets(end)) for end in (low, high)}
        if len(results) > 1 or (self.op in {"=", "=="} and low < self.limit < high):
            return "undecided"
        return "passed" if results == {True} else "failed"


UNMEASURED = "nothing was measured"
_DECIDED_BY: dict[str, DecidedBy] = {"gold": "gold", "human": "labels"}  # by source; otherwise "judged"
_WORDS = {0: "passed", 1: "failed", 2: "not measurable", 3: "undecided"}
REQUIRED = "required "  # the name of a required grader's gate begins with it
ORDER: tuple[GateOutcome, ...] = ("failed", "undecided", "passed")
SMALLEST = 5  # the number of cases from which a slice's mean can decide a gate
STAND_IN = "judged by a stand-in for a model, which decides nothing"
POINT = ", decided on the point"  # for a gate on a mean, which ignores the mean's interval


class GateResult(Line, kw_only=True, rename=internal("stand_in", "few")):
    """The result of one gate: passed, failed or undecided, with the figures that decided it.

    `word` is the outcome as printed, such as `passed (stand-in)` if a stand-in for a model judged.
    `decided_by` names the labels from which the figures are computed. It is null if no labels were used, for
    example for a script's score. `sentence` is set if the gate is on a change, such as "nDCG@10 got worse:
    -0.14 (...)".
    """

    gate: str
    outcome: GateOutcome
    word: str = ""
    detail: str
    decided_by: DecidedBy | None = None
    sentence: str | UnsetType | None = None
    stand_in: bool = False
    few: str = ""  # says that fewer than half of the samples decided the gate

    @property
    def text(self) -> str:
        """The printed line: the sentence of a gate on a change, else the gate and its figures."""
        return self.sentence or f"{self.gate}  {self.detail}"

    def __post_init__(self) -> None:
        self.word = f"{self.outcome} (stand-in)" if self.stand_in else self.outcome
        self.sentence, self.decided_by = self.sentence or None, self.decided_by or None

    def without_stand_in(self) -> GateResult:
        """Return the result; if a stand-in for a model judged, its outcome is changed to undecided."""
        if not self.stand_in or self.outcome == "undecided":
            return self
        given = option("--allow-stand-in")
        more = f"; {STAND_IN} (unless {given} is given)"
        return self.noting(more).replace(outcome="undecided", stand_in=False, decided_by=None)

    def noting(self, more: str) -> GateResult:
        """Return the result with `more` added to its text."""
        return self.replace(detail=self.detail + more, sentence=self.sentence and self.sentence + more)


def check_gate(
    gate: Gate,
    summaries: Sequence[MeasureSummary],
    cases: CaseScores,
    samples: Iterable[Sample],
    keep: NDArray[np.int64] | None = None,
) -> list[GateResult]:
    """Return a gate's result per system on the samples `keep` (None = all); `samples` define its slices."""
    gate.check_named(name for summary in summaries for name in (summary.measure, summary.type))
    named = [summary for summary in summaries if gate.measure in {summary.measure, summary.type}]
    if any(summary.basis.source == "best" for summary in named):
        raise gate.mixed()
    try:
        slices = slices_of(samples, gate.by) if gate.by else {}
    except InputError:
        raise gate.no_slices() from None
    results = []
    for summary in named:
        by, stand_in = _DECIDED_BY.get(summary.basis.source, "judged"), summary.basis.stand_in
        of_mean = gate.how in {"mean", "lower", "upper"} and gate.mean_of != "judged"
        outcome: GateOutcome = "failed"
        detail = UNMEASURED
        if gate.share or gate.by:
            pair = summary.measure, summary.type
            values = cases.case_values(summary.system, pair, range_of(summary.type), keep)
            if names := [cases.cases[at] for at in values.case.tolist()]:
                outcome, detail = _of_values(gate, names, (values.low, values.high), slices)
        elif gate.mean_of == "corrected" or (of_mean and summary.corrected is not None):
            by, stand_in = "corrected", False
            outcome, detail = _corrected(gate, summary)
        elif summary.mean_bounds is not None and summary.edges is not None:
            bounds = {"mean": summary.mean_bounds, "min": summary.edges[0], "max": summary.edges[1]}
            outcome, detail = _uncorrected(gate, summary, bounds)
        name = gate.name(summary.system)
        result = GateResult(gate=name, outcome=outcome, detail=detail, stand_in=stand_in, decided_by=by)
        more = f", {trials}" if (trials := summary.trials_in_words()) else ""
        result = with_count(result, summary.n, summary.total, "case" if more else "sample", more)
        results.append(result.noting(_foregone(gate, summary, outcome)))
    return results


def _foregone(gate: Gate, summary: MeasureSummary, outcome: GateOutcome) -> str:
    """Return a clause that no value within the measure's range changes a gate's outcome; "" if one does."""
    low, high = (0.0, 1.0) if gate.share else range_of(summary.type)
    inside = low <= (summary.low or 0.0) <= (summary.high or 0.0) <= high
    if not inside or outcome == "undecided" or gate.holds(low, high) != outcome:
        return ""
    return f"; it can never {'pass' if outcome == 'failed' else 'fail'}: its values are {low:g} to {high:g}"


def with_count(result: GateResult, n: int, total: int, unit: str = "sample", more: str = "") -> GateResult:
    """Return the result with "; measured on `n` of `total` samples" (or another `unit`) and `more` added."""
    seen = f"{n:,} of {counted(total, unit)}"
    few = f"{result.gate} was decided on only {seen}" if 0 < 2 * n < total else ""
    return result.noting(f"; measured on {seen}{more}").replace(few=few)


def _corrected(gate: Gate, summary: MeasureSummary) -> tuple[GateOutcome, str]:
    """Decide a gate on the corrected mean or an end of its interval; return the outcome and text."""
    if (mean := summary.corrected) is None:
        why = summary.corrected_why or "no verdict of the judge is stored"
        return "undecided", f"{summary.measure} has no corrected mean: {why}"
    low, high = mean.ends
    value = {"lower": low, "upper": high}.get(gate.how, mean.mean)
    end = POINT if gate.how == "mean" else f", {_printed_end(gate, mean.ends)}"
    of_set = f"; {interval_in_words(mean.set_ends)} {THESE}" if mean.set_ends else ""
    ends = f"{interval_in_words(mean.ends)} {LIKE_THESE}{of_set}"
    text = f"corrected {mean.mean:.4f}{end} ({ends}, {counted(mean.labels, 'label')})"
    inside = "; the limit is inside the interval" if gate.how == "mean" and low < gate.limit < high else ""
    low, high = summary.over_all(value)
    if (outcome := gate.holds(low, high)) == "undecided":
        inside += f", could be {low:.4f} to {high:.4f} once everything is judged"
    return outcome, f"{text}; judged {mean.judged:.4f}{inside}"


def _printed_end(gate: Gate, ends: Sequence[float]) -> str:
    """Return the end of the interval that the gate is on, such as "lower end 0.61"."""
    return f"{gate.how} end {interval_in_words(ends).split(' to ')[-(gate.how == 'upper')]}"


def _uncorrected(
    gate: Gate, summary: MeasureSummary, bounds: Mapping[str, tuple[float, float]]
) -> tuple[GateOutcome, str]:
    """Decide a gate on the mean, minimum, maximum or an end of the interval; return the outcome and text."""
    if gate.how not in bounds:
        if (ends := summary.interval) is None:
            return "undecided", f"{summary.measure} has no interval: {summary.interval_why or UNMEASURED}"
        end = ends[gate.how == "upper"]
        words = f"{_printed_end(gate, ends)} of {interval_in_words(ends)}, {LIKE_THESE}"
        words += summary.basis.interval_note and f"; {summary.basis.interval_note}"
        return gate.holds(end, end), words
    low, high = bounds[gate.how]
    value = {"mean": summary.mean, "min": summary.low, "max": summary.high}[gate.how]
    outcome, basis = gate.holds(low, high), summary.basis
    text = "not measured" if value is None else f"{gate.how} {value:.4f}"
    if value is not None and basis.source == "judge" and not basis.stand_in:
        text += ", uncalibrated"
        if gate.how == "mean" and (corrected := summary.corrected) is not None:
            text += f" (corrected {corrected.mean:.4f})"
    if summary.n == 0 or outcome == "undecided":
        return "undecided", f"{text}, could be {low:.4f} to {high:.4f} once everything is judged"
    if basis.with_reference and basis.without_reference:
        have = counted(basis.with_reference, "verdict")
        mix = f"{have} with reference and {basis.without_reference} without"
        return "undecided", f"{text}, from {mix}: judge all alike with --against reference or --against query"
    return outcome, text + (POINT if gate.how == "mean" else "")


def _of_values(
    gate: Gate, names: Sequence[str], ends: Sequence[Floats], slices: Mapping[str, Collection[str]]
) -> tuple[GateOutcome, str]:
    """Decide a gate on a share or on the worst slice, by the `ends` of the values of the cases `names`."""
    if gate.share:
        of_case = Gate.parse(gate.measure + gate.share)
        low, high = sorted(float(of_case.meets(end).mean()) for end in ends)
        share = f"{low:.4f}" if low == high else f"{low:.4f} to {high:.4f}"
        text, outcome = f"share {share} over {counted(len(ends[0]), 'case')}", gate.holds(low, high)
        return outcome, f"{text}, once everything is judged" if outcome == "undecided" else text
    numbers = {name: at for at, name in enumerate(names)}
    rows = {name: sorted(numbers[id_] for id_ in ids if id_ in numbers) for name, ids in slices.items()}
    means = {name: [fsum(end[cases]) / len(cases) for end in ends] for name, cases in rows.items() if cases}
    worst = sorted(means, key=means.__getitem__, reverse=gate.how == "max")[:5]
    text = ", ".join(f"{name} {means[name][0]:.4f} (n={len(rows[name])})" for name in worst)
    large = {name: rows[name] for name in means if len(rows[name]) >= SMALLEST}
    if not large:
        return "undecided", f"no slice has {SMALLEST} cases: {text}"
    pick = min if gate.how == "min" else max
    sides = (zip(*map(means.get, group), strict=True) for group in (large, means))  # lower ends, upper
    decided, of_all = (gate.holds(*map(pick, side)) for side in sides)
    if decided != of_all:
        return "undecided", f"a slice of fewer than {SMALLEST} cases decides: {text}"
    from germane.statistics.systems import chance_to_fail  # other gates need no drawn sets

    chance = chance_to_fail(ends, [*large.values()], lambda means: bool(gate.meets(pick(means))))
    alike = f"; if all {len(large)} slices had one true mean, chance would fail it in {chance:.0%} of sets"
    return decided, text + (alike if chance >= 0.005 else "")


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of an evaluation: its exit code, the gates' results, and other causes of the exit code."""

    exit_code: int
    causes: tuple[str, ...] = ()
    gates: tuple[GateResult, ...] = ()

    @property
    def passed(self) -> bool:
        """True if the exit code is 0: all gates passed, and enough scores could be computed."""
        return self.exit_code == 0

    @property
    def word(self) -> str:
        """The verdict as printed: passed, failed, undecided, not measurable, interrupted, or "no gates"."""
        if self.passed and not self.gates:
            return "no gates"
        if self.passed and any(gate.stand_in for gate in self.gates):
            return "passed (stand-in)"
        return _WORDS.get(self.exit_code, "interrupted")

    @property
    def reasons(self) -> tuple[str, ...]:
        """The causes, then the undecided and failed gates; else that gates passed or none are declared."""
        gates = [gate for word in ("undecided", "failed") for gate in self.gates if gate.outcome == word]
        texts = [f"gate {gate.outcome}: {gate.sentence or f'{gate.gate} ({gate.detail})'}" for gate in gates]
        n = len(self.gates)
        if not self.passed or (self.causes and not n):
            return (*self.causes, *texts)
        passed = {0: "no gates declared", 1: "the gate passed"}.get(n, f"all {n} gates passed")
        passed += " (stand-in)" if any(gate.stand_in for gate in self.gates) else ""
        return (passed, *self.causes)

    def lines(self, *, exit_code: bool = True) -> list[str]:
        """Return the printed lines: the verdict with its causes, then the gates, failed ones first."""
        because = f": {'; '.join(self.causes)}" if self.causes else ""
        code = f" (exit code {self.exit_code})" if exit_code else ""
        gates = sorted(self.gates, key=lambda gate: ORDER.index(gate.outcome))
        width = max((len(gate.word) for gate in gates), default=0)
        lines = [f"  {gate.word:{width}}  {gate.text}" for gate in gates]
        return list(map(clean, [f"verdict  {self.word}{code}{because}", *lines]))

    def as_json(self) -> dict[str, Json]:
        """Return the verdict as it is stored in manifest.json and printed by `--json`."""
        reasons, gates = list(self.reasons), [gate.as_json() for gate in self.gates]
        return {"exit_code": self.exit_code, "passed": self.passed, "reasons": reasons, "gates": gates}


def decide(
    gates: Iterable[GateResult],
    summaries: Sequence[MeasureSummary],
    *,
    max_unmeasured: float = 0.05,
    over: str = "",
) -> Verdict:
    """Return the verdict of an evaluation, computed from the results of its gates and its missing scores.

    The exit code is the first that applies. 2: a measure could not be computed for any sample, unless a gate
    failed or the measure is a required grader. 3: a limit was exceeded (`over` names it), more than
    `max_unmeasured` of the scores are missing, or a gate is undecided. 1: a gate failed. 0: otherwise. With
    gates, scores of samples whose contexts have no ids count as missing too.
    """
    results = tuple(gates)
    skipped = [reason for s in summaries for reason in s.why] if results else []
    without_ids = sum(count for why, count in skipped if why.startswith((WITHOUT_IDS, NO_IDS)))
    due, lost = (sum(getattr(s, name) for s in summaries) + without_ids for name in ("scores", "failed"))
    absent = [s for s in summaries if s.total and s.skipped == s.total]
    unmeasured = (f"{s.measure} could not be computed for any sample: {s.why[0][0]}" for s in absent)
    causes = [*filter(None, [over]), *unmeasured]
    never = {f"{REQUIRED}{s.measure}" for s in absent} - {g.gate for g in results}
    below = any(g.outcome == "failed" and not g.detail.startswith(UNMEASURED) for g in results)
    if too_much := bool(due) and lost / due > max_unmeasured:
        digits = 0 if f"{lost / due:.0%}" != f"{max_unmeasured:.0%}" else 1
        shares = f"{lost / due:.{digits}%}, more than {max_unmeasured:.{digits}%} allowed"
        causes.append(f"{lost:,} of {counted(due, 'score')} could not be computed ({shares})")
    causes += dict.fromkeys(filter(None, (gate.few for gate in results)))
    outcomes = {gate.outcome for gate in results}
    undecided = bool(over) or too_much or "undecided" in outcomes
    code = 2 if never and not below else 3 if undecided else 1 if "failed" in outcomes else 0
    return Verdict(code, tuple(causes), results)
