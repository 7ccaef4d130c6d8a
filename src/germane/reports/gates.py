"""Cases and gates: the verdict of each case, what an evaluation must reach, and the one object that decides it."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import groupby
from math import fsum
from operator import mul
from typing import TYPE_CHECKING, Literal

from germane.clean import clean
from germane.errors import InputError, Place
from germane.measures.measure import Measure
from germane.reports.summary import MeasureSummary, canonical_name
from germane.statistics.power import flip_of_mean
from germane.tables.scores import SampleKey
from germane.types import Json, Score

if TYPE_CHECKING:
    from germane.measures.scoring import Grader


CASE_SCORE = "score of each case"
"""What the gate of `execution: {threshold: 0.8}` is called."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """One sample's graders taken together.

    `score` is their weighted mean, None where one of them could not be measured; skipped graders are left out. Where
    lower is better, what counts is how good the value is: 1 - hallucination, 1 / (1 + leaks).
    `failed_required` names required graders below their threshold, `undecided_required` those whose score is
    missing.
    """

    sample: str
    system: str = ""
    trial: int = 0
    score: float | None
    verdict: Literal["pass", "borderline", "fail", "undecided", "skipped"]
    failed_required: tuple[str, ...] = ()
    undecided_required: tuple[str, ...] = ()


def cases_of(
    scores: Iterable[Score], graders_of: Callable[[SampleKey], Mapping[str, Grader]]
) -> Iterator[CaseResult]:
    """The cases of scores in sample order; `graders_of` gives a case's graders by their reported name."""
    for key, mine in groupby(scores, key=lambda score: (score.sample, score.system, score.trial)):
        yield _case(key, list(mine), graders_of(key))


def _case(key: SampleKey, scores: Sequence[Score], graders: Mapping[str, Grader]) -> CaseResult:
    from germane.measures.scoring import STRICT  # not at the top: `germane rank` has gates and no programs

    rows = [(score, graders.get(score.measure)) for score in scores]
    due = [(score, grader) for score, grader in rows if score.status != "skipped"]
    weights = [1.0 if grader is None else grader.weight for _, grader in due]
    values = [_good(grader, score.value) for score, grader in due if score.value is not None]
    mean = None
    if len(values) == len(due) and fsum(weights) > 0:
        mean = fsum(map(mul, weights, values)) / fsum(weights)
    below = {
        score.measure: _below(score, grader, grader.required)
        for score, grader in rows
        if grader is not None and grader.required is not None
    }
    least = next((grader.threshold for grader in graders.values() if grader.threshold is not None), None)
    if least is not None and due:
        below[CASE_SCORE] = None if mean is None else mean < least
    failed = tuple(name for name, found in below.items() if found)
    strict = any(grader and grader.strict and (score.why or "").startswith(STRICT) for score, grader in rows)
    sample, system, trial = key
    return CaseResult(
        sample=sample,
        system=system,
        trial=trial,
        score=mean,
        verdict="fail" if failed or strict else _verdict(mean, due=bool(due)),
        failed_required=failed,
        undecided_required=tuple(name for name, found in below.items() if found is None),
    )


def _good(grader: Grader | None, value: float) -> float:
    return value if grader is None else grader.measure.definition.good(value)


def _below(score: Score, grader: Grader, least: float) -> bool | None:
    """Whether a required score is below its threshold; None where that hangs on what is missing."""
    ends = (score.value, score.value) if score.value is not None else score.bounds
    if ends is None:
        return None
    low, high = sorted(_good(grader, end) for end in ends)
    return True if high < least else False if low >= least else None


def _verdict(
    value: float | None, *, due: bool
) -> Literal["pass", "borderline", "fail", "undecided", "skipped"]:
    from germane.measures.scoring import BORDERLINE, PASS

    if value is None:
        return "undecided" if due else "skipped"
    return "pass" if value >= PASS else "borderline" if value >= BORDERLINE else "fail"


def required_gates(cases: Iterable[CaseResult], required: Iterable[str]) -> list[GateResult]:
    """One gate per required grader: every case that has it must reach its threshold."""
    failed: dict[str, list[str]] = {name: [] for name in required}
    undecided: dict[str, list[str]] = {name: [] for name in failed}
    for case in cases:
        for name in case.failed_required:
            failed[name].append(case.sample)
        for name in case.undecided_required:
            undecided[name].append(case.sample)
    return [
        GateResult(f"required {name}", "failed", f"below its threshold in {_names(below)}")
        if below
        else GateResult(f"required {name}", "undecided", f"not measured in {_names(undecided[name])}")
        if undecided[name]
        else GateResult(f"required {name}", "passed", "reached in every case")
        for name, below in failed.items()
    ]


def _names(samples: Sequence[str], most: int = 3) -> str:
    more = f" and {len(samples) - most} more" if len(samples) > most else ""
    return ", ".join(samples[:most]) + more


_COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt, "=": operator.eq, "==": operator.eq,
}  # fmt: skip
_IN_WORDS = {"gte": ">=", "gt": ">", "lte": "<=", "lt": "<", "eq": "=="}
# Patterns are compiled when a gate is read: most evaluations have none, and a small one starts sooner.
_WORD = rf"\s+({'|'.join(_IN_WORDS)})\s+(?=[-+.\d])"
_GATE = (r"\s*(?:(?P<how>min|max|change|(?:(?:lower|upper)\s*\(\s*)?(?:mean|corrected)|lower|upper)\s*\()?"
                   r"\s*(?P<measure>[^<>=]+?(?:\([^()]*\))?(?:@\d+)?)\s*(?P<close>\)(?:\s*\))?)?\s*"
                   r"(?P<op>>=|<=|==|=|>|<)\s*(?P<limit>[-+0-9.eE]+%?)\s*")  # fmt: skip
_ENDS = r"\s*(?P<op>>=|<=|==|=|>|<)\s*(?P<limit>[-+0-9.eE]+%?)\s*"
_BY_CASE = (
    (r"\s*(?P<how>p\d{1,2})\s*\(\s*(?P<measure>[^<>=]+?(?:\([^()]*\))?(?:@\d+)?)(?P<after>)\s*\)" + _ENDS),
    (r"\s*(?P<how>share)\s*\(\s*(?P<measure>[^<>=]+?(?:\([^()]*\))?(?:@\d+)?)\s*"
               r"(?P<after>(?:>=|<=|>|<)\s*[-+0-9.eE]+)\s*\)" + _ENDS),
    (r"\s*(?P<how>(?:min|max)\s*\(\s*mean)\s*\(\s*(?P<measure>[^<>=]+?(?:\([^()]*\))?(?:@\d+)?)\s*"
               r"(?P<after>\)\s*by\s+[\w.-]+)\s*\)" + _ENDS),
)  # fmt: skip
"""Gates that read the scores of the cases: a percentile, a share, the least or largest mean of a slice."""
FUNCTIONS = {
    "mean(MEASURE)": "the mean of the cases",
    "min(MEASURE)": "the least value of a case",
    "max(MEASURE)": "the largest value of a case",
    "p10(MEASURE)": "a percentile of the cases' values, p1 to p99",
    "share(MEASURE>=0.5)": "the share of the cases whose value is so",
    "min(mean(MEASURE) by tag)": "the least (`max`: the largest) mean of a slice: a tag, `tags` or a field of the metadata; a slice of "
    "fewer than five cases is undecided",
    "lower(MEASURE)": "the lower end of the mean's interval: a gate that luck does not pass; `lower(mean(MEASURE))` too",
    "upper(MEASURE)": "the upper end of the mean's interval",
    "corrected(MEASURE)": "the mean corrected by people's labels; `lower(corrected(MEASURE))` is the lower end of its interval",
    "change(MEASURE)": "the paired difference to `--baseline`, over its whole interval: `change(nDCG@10)>-0.02`",
}
"""What a gate compares, by how it is written."""
_FORMS = ", ".join(form.removesuffix("(MEASURE)") for form in FUNCTIONS)
_FUNCTION = re.compile(r"(\w+)\((.*)\)")
_FIX = "write e.g. mean(nDCG@10)>=0.7, lower(nDCG@10)>=0.65 or change(nDCG@10)>-0.02"
Outcome = Literal["passed", "failed", "undecided"]


@dataclass(frozen=True, slots=True)
class Gate:
    """One comparison: `aggregate(measure) op limit`; `measure` is a reported name or a canonical one.

    `how`: mean, min or max of the cases' values; lower or upper end of the mean's interval; change of the mean against a
    baseline, over the whole interval of the paired difference.
    """

    how: str
    measure: str
    op: str
    limit: float
    place: Place | None = field(default=None, compare=False)
    after: str = ""

    @property
    def by_case(self) -> bool:
        """Whether it reads the scores of the cases, and not the summary of the measure alone."""
        return self.how[0] == "p" or self.how == "share" or bool(self.after)

    @property
    def by(self) -> str:
        """What makes the slices whose means it reads; "" where it reads none."""
        return self.after.removeprefix(") by ") if self.after.startswith(") by ") else ""

    @classmethod
    def parse(cls, text: str, place: Place | None = None) -> Gate:
        """The gate that a text names; InputError says what is wrong with another text."""
        text = re.sub(_WORD, lambda word: _IN_WORDS[word[1]], text)
        by_case = next((found for pattern in _BY_CASE if (found := re.fullmatch(pattern, text))), None)
        match = by_case or re.fullmatch(_GATE, text)
        how = "".join((match["how"] or "").split()) if match else ""
        closed = match["close"] or "" if match and by_case is None else ""
        if not match or (by_case is None and closed.count(")") != (how.count("(") + 1 if how else 0)):
            raise InputError(f"{text!r} is not a gate", fix=_FIX, place=place)
        limit = match["limit"]
        try:
            number = float(limit.rstrip("%")) / (100 if limit.endswith("%") else 1)
        except ValueError:
            raise InputError(f"{text!r}: {limit!r} is not a number", fix=_FIX, place=place) from None
        if how == "change" and match["op"] in {"=", "=="}:
            raise InputError(f"{text!r} can never pass", fix="write e.g. change(nDCG@10)>-0.02", place=place)
        after = " ".join(by_case["after"].split()) if by_case else ""
        how = how if by_case else how.removesuffix("(mean") or "mean"
        return cls(how, canonical_name(match["measure"]), match["op"], number, place, after)

    def check_named(self, measured: Iterable[str]) -> None:
        """InputError where the gate's measure is none of these names, or reads a mix of labels."""
        names = dict.fromkeys(measured)
        if self.measure not in names:
            have = ", ".join(names) or "none"
            inner = _FUNCTION.fullmatch(self.measure)
            if inner and canonical_name(inner[2]) in names:
                problem, fix = f"a gate has no function {inner[1]!r}", f"write one of {_FORMS}"
                if inner[1] == "share":
                    problem, fix = (
                        "share counts the cases that reach something",
                        f"write share({inner[2]}>=0.5)>=0.9",
                    )
                raise InputError(problem, fix=fix, place=self.place)
            raise InputError(
                f"the gate {self} names {self.measure}, which is not measured",
                fix=f"measured: {have}",
                place=self.place,
            )
        mixed = False
        with suppress(InputError):  # a name that an eval file gave
            mixed = Measure.parse(self.measure).labels == "best"
        if mixed:
            raise self.mixed()

    def mixed(self) -> InputError:
        """The error that labels=best cannot be gated."""
        return InputError(
            f"the gate {self} rests on labels=best, a mix that is no corrected estimate",
            fix="gate on labels=human or labels=judge",
            place=self.place,
        )

    def stored(self) -> Json:
        """For the manifest: the gate, and the file that declares it where it stands in one."""
        return str(self) if self.place is None else [str(self), self.place.file]

    @classmethod
    def of_stored(cls, row: Json) -> Gate:
        """The gate of a manifest's entry."""
        text, file = (row, None) if isinstance(row, str) else row
        return cls.parse(text, None if file is None else Place(file))

    def __str__(self) -> str:
        closing = ")" if self.after else ")" * (self.how.count("(") + 1)
        return f"{self.how}({self.measure}{self.after}{closing}{self.op}{self.limit:g}"


def compare(op: str, value: float, limit: float) -> bool:
    """Whether a comparison of a gate holds."""
    return _COMPARE[op](value, limit)


@dataclass(frozen=True, slots=True)
class GateResult:
    """What became of one gate; `stand_in` = the judge that it rests on stands in for a model."""

    gate: str
    outcome: Outcome
    detail: str
    stand_in: bool = False

    @property
    def word(self) -> str:
        """The outcome as it is printed."""
        return f"{self.outcome} (stand-in)" if self.stand_in else self.outcome


def check_gate(gate: Gate, summaries: Sequence[MeasureSummary]) -> list[GateResult]:
    """One result per system; InputError where no measure of that name was computed, or its labels are mixed."""
    gate.check_named(name for summary in summaries for name in (summary.measure, summary.type))
    mine = [summary for summary in summaries if gate.measure in {summary.measure, summary.type}]
    if any(summary.basis.source == "best" for summary in mine):
        raise gate.mixed()
    return [_check(gate, summary) for summary in mine]


def _check(gate: Gate, summary: MeasureSummary) -> GateResult:
    name = f"{gate}" + (f" [{summary.system}]" if summary.system else "")
    if gate.how.endswith("corrected"):
        return _check_corrected(gate, summary, name)
    stand_in = summary.basis.stand_in
    if summary.mean_bounds is None or summary.edges is None:
        return GateResult(name, "failed", "nothing was measured", stand_in)
    if gate.how in {"lower", "upper"}:
        return _check_end(gate, name, summary)
    low, high = {"mean": summary.mean_bounds, "min": summary.edges[0], "max": summary.edges[1]}[gate.how]
    holds = {_COMPARE[gate.op](low, gate.limit), _COMPARE[gate.op](high, gate.limit)}
    equality = gate.op in {"=", "=="} and low < gate.limit < high
    value = {"mean": summary.mean, "min": summary.low, "max": summary.high}[gate.how]
    shown = "not measured" if value is None else f"{gate.how} {value:.4f}"
    if value is not None and summary.basis.source == "judge" and not (summary.basis.calibrated or stand_in):
        shown += ", uncalibrated"
    if summary.n == 0 or len(holds) > 1 or equality:
        detail = f"{shown}, could be {low:.4f} to {high:.4f} once everything is judged"
        return GateResult(name, "undecided", detail, stand_in)
    if summary.basis.references_mixed:
        mix = f"{summary.basis.with_reference} verdicts with reference, {summary.basis.without_reference} without"
        return GateResult(name, "undecided", f"{shown}, from {mix}: set --against", stand_in)
    if gate.how == "mean":
        shown += _may_flip(gate.limit, summary)
    return GateResult(name, "passed" if holds == {True} else "failed", shown, stand_in)


def _check_end(gate: Gate, name: str, summary: MeasureSummary) -> GateResult:
    """A gate on an end of the interval, which covers what is missing."""
    stand_in = summary.basis.stand_in
    if summary.interval is None:
        why = f"there is no interval: {summary.interval_why or 'nothing was measured'}"
        return GateResult(name, "undecided", why, stand_in)
    end = summary.interval[0 if gate.how == "lower" else 1]
    holds = _COMPARE[gate.op](end, gate.limit)
    shown = f"{gate.how} end {end:.4f} of {summary.interval_in_words()}"
    return GateResult(name, "passed" if holds else "failed", shown, stand_in)


def _may_flip(limit: float, summary: MeasureSummary) -> str:
    """A warning where the limit lies inside the interval: how often another draw of cases would decide otherwise."""
    inside = summary.interval is not None and summary.interval[0] < limit < summary.interval[1]
    if not inside or summary.mean is None or summary.error is None or summary.units is None:
        return ""
    flips = flip_of_mean(summary.mean, summary.error, summary.units, limit)
    return f"; {flips:.0%} of new draws of {summary.n} cases would decide otherwise: the limit is inside the interval"


def _check_corrected(gate: Gate, summary: MeasureSummary, name: str) -> GateResult:
    """A gate on the corrected mean, or on an end of its interval; undecided where there is none."""
    found = summary.corrected
    if found is None or found.mean is None or found.ends is None:
        return GateResult(
            name, "undecided", f"no corrected mean: {summary.corrected_why or 'nothing is judged'}"
        )
    value = {"lower": found.ends[0], "upper": found.ends[1]}.get(gate.how.partition("(")[0], found.mean)
    holds = _COMPARE[gate.op](value, gate.limit)
    shown = f"corrected {found.mean:.4f} ({found.ends[0]:.4f} to {found.ends[1]:.4f}, {found.labels} labels)"
    return GateResult(name, "passed" if holds else "failed", shown)


def _never(summary: MeasureSummary) -> bool:
    return summary.total > 0 and summary.skipped == summary.total


@dataclass(frozen=True, slots=True)
class Verdict:
    """How an evaluation ended: the exit code, the sentences that explain it, and what became of its gates."""

    exit_code: int
    reasons: tuple[str, ...]
    gates: tuple[GateResult, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether everything declared was reached."""
        return self.exit_code == 0

    @property
    def word(self) -> str:
        """The verdict as it is printed."""
        if self.passed and any(gate.stand_in for gate in self.gates):
            return "passed (stand-in)"
        return _WORDS.get(self.exit_code, "interrupted")

    def lines(self) -> list[str]:
        """The verdict with its reasons, then the gates, failed ones first: what both the terminal and -q print.

        A line each, without control characters or workflow commands: ids of samples are in them.
        """
        reasons = [one for one in self.reasons if not (self.gates and one.startswith(_OF_GATES))]
        because = f": {'; '.join(reasons)}" if reasons else ""
        gates = sorted(self.gates, key=lambda gate: _ORDER.index(gate.outcome))
        width = max((len(gate.word) for gate in gates), default=0)
        lines = [
            f"verdict  {self.word} (exit code {self.exit_code}){because}",
            *(f"  {gate.word:{width}}  {gate.gate}  {gate.detail}" for gate in gates),
        ]
        return list(map(clean, lines))

    def as_json(self) -> dict[str, Json]:
        """For the manifest and the JSON document."""
        gates = [
            {"gate": g.gate, "outcome": g.outcome, "word": g.word, "detail": g.detail} for g in self.gates
        ]
        return {
            "exit_code": self.exit_code,
            "passed": self.passed,
            "reasons": list(self.reasons),
            "gates": gates,
        }


_WORDS = {0: "passed", 1: "failed", 2: "not measurable", 3: "undecided"}
_ORDER: tuple[Outcome, ...] = ("failed", "undecided", "passed")
_OF_GATES = ("gate failed", "gate undecided", "all ")


def worst_exit_code(codes: Iterable[int]) -> int:
    """The exit code of several evaluations, in the precedence of `decide`."""
    return max(codes, key=(0, 1, 3, 130, 2).index, default=0)


def decide(
    gates: Iterable[GateResult],
    summaries: Sequence[MeasureSummary],
    *,
    max_unmeasured: float = 0.05,
    interrupted: bool = False,
) -> Verdict:
    """The exit code and why, in the order of precedence.

    2 a measure that no sample could have, 130 interrupted, 3 too much unmeasured or a gate undecided, 1 a gate failed, 0.
    """
    results = tuple(gates)
    failed = [f"gate failed: {g.gate} ({g.detail})" for g in results if g.outcome == "failed"]
    undecided = [f"gate undecided: {g.gate} ({g.detail})" for g in results if g.outcome == "undecided"]
    due = sum(s.total - s.skipped for s in summaries)
    lost = sum(s.incomplete + s.errors for s in summaries)
    unmeasured = []
    if due and lost / due > max_unmeasured:
        unmeasured = [
            f"{lost} of {due} scores could not be measured ({lost / due:.0%}, more than {max_unmeasured:.0%} allowed)"
        ]
    never = [
        f"{s.measure} could not be computed for any sample: {s.why[0][0]}" for s in summaries if _never(s)
    ]
    if never:
        return Verdict(2, (*never, *unmeasured, *undecided, *failed), results)
    if interrupted:
        return Verdict(130, ("interrupted; what was done is kept",), results)
    if unmeasured or undecided:
        return Verdict(3, (*unmeasured, *undecided, *failed), results)
    if failed:
        return Verdict(1, tuple(failed), results)
    passed = f"all {len(results)} gates passed" if results else "no gates declared"
    if any(gate.stand_in for gate in results):
        passed = f"{passed} (stand-in)"
    return Verdict(0, (passed,), results)
