"""Gates: what an evaluation must reach, and the one object that both the printed verdict and the exit code come from.

A gate is a comparison of an aggregate with a number: `mean(nDCG@10)>=0.7`, `max(leaks@5)=0`, or short
`nDCG@10>=0.7` for the mean. Where scores are missing, the aggregate is a range: the gate passes or fails only
where the whole range does, and is undecided otherwise. Nothing measured never passes.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Literal

from germane.errors import InputError, Place
from germane.measures.measure import Measure
from germane.reports.summary import MeasureSummary
from germane.types import Json

__all__ = ["Gate", "GateResult", "Verdict", "decide"]

_COMPARE: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge, ">": operator.gt, "<=": operator.le, "<": operator.lt, "=": operator.eq, "==": operator.eq,
}  # fmt: skip
_GATE = re.compile(r"\s*(?:(?P<how>mean|min|max)\s*\()?\s*(?P<measure>[^<>=]+?(?:\([^()]*\))?(?:@\d+)?)\s*(?P<close>\))?\s*"
                   r"(?P<op>>=|<=|==|=|>|<)\s*(?P<limit>[-+0-9.eE]+%?)\s*")  # fmt: skip
_FIX = "write e.g. mean(nDCG@10)>=0.7"
Outcome = Literal["passed", "failed", "undecided"]


@dataclass(frozen=True, slots=True)
class Gate:
    """One comparison: `aggregate(measure) op limit`; `measure` is a reported name or a canonical one."""

    how: str
    measure: str
    op: str
    limit: float
    place: Place | None = field(default=None, compare=False)

    @classmethod
    def parse(cls, text: str, place: Place | None = None) -> Gate:
        """The gate that a text names; InputError says what is wrong with another text."""
        match = _GATE.fullmatch(text)
        if not match or bool(match["how"]) != bool(match["close"]):
            raise InputError(f"{text!r} is not a gate", fix=_FIX, place=place)
        limit = match["limit"]
        try:
            number = float(limit.rstrip("%")) / (100 if limit.endswith("%") else 1)
        except ValueError:
            raise InputError(f"{text!r}: {limit!r} is not a number", fix=_FIX, place=place) from None
        return cls(match["how"] or "mean", _canonical(match["measure"]), match["op"], number, place)

    def check_named(self, measured: Iterable[str]) -> None:
        """InputError where the gate's measure is none of these names, or reads a mix of labels."""
        names = dict.fromkeys(measured)
        if self.measure not in names:
            have = ", ".join(names) or "none"
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

    def __str__(self) -> str:
        return f"{self.how}({self.measure}){self.op}{self.limit:g}"


def _canonical(name: str) -> str:
    try:
        return str(Measure.parse(name))
    except InputError:
        return name.strip()


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
    stand_in = summary.basis.stand_in
    if summary.mean_bounds is None or summary.edges is None:
        return GateResult(name, "failed", "nothing was measured", stand_in)
    low, high = {"mean": summary.mean_bounds, "min": summary.edges[0], "max": summary.edges[1]}[gate.how]
    holds = {_COMPARE[gate.op](low, gate.limit), _COMPARE[gate.op](high, gate.limit)}
    equality = gate.op in {"=", "=="} and low < gate.limit < high
    value = {"mean": summary.mean, "min": summary.low, "max": summary.high}[gate.how]
    shown = "not measured" if value is None else f"{gate.how} {value:.4f}"
    if summary.n == 0 or len(holds) > 1 or equality:
        detail = f"{shown}, could be {low:.4f} to {high:.4f} once everything is judged"
        return GateResult(name, "undecided", detail, stand_in)
    if summary.basis.references_mixed:
        mix = f"{summary.basis.with_reference} verdicts with reference, {summary.basis.without_reference} without"
        return GateResult(name, "undecided", f"{shown}, from {mix}: set --against", stand_in)
    return GateResult(name, "passed" if holds == {True} else "failed", shown, stand_in)


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
        """The verdict with its reasons, then the gates, failed ones first: what both the terminal and -q print."""
        reasons = [one for one in self.reasons if not (self.gates and one.startswith(_OF_GATES))]
        because = f": {'; '.join(reasons)}" if reasons else ""
        gates = sorted(self.gates, key=lambda gate: _ORDER.index(gate.outcome))
        width = max((len(gate.word) for gate in gates), default=0)
        return [
            f"verdict  {self.word} (exit code {self.exit_code}){because}",
            *(f"  {gate.word:{width}}  {gate.gate}  {gate.detail}" for gate in gates),
        ]

    def as_json(self) -> dict[str, Json]:
        """For the manifest and the JSON document."""
        gates = [{"gate": g.gate, "outcome": g.outcome, "detail": g.detail} for g in self.gates]
        return {
            "exit_code": self.exit_code,
            "passed": self.passed,
            "reasons": list(self.reasons),
            "gates": gates,
        }


_WORDS = {0: "passed", 1: "failed", 2: "not measurable", 3: "undecided"}
_ORDER: tuple[Outcome, ...] = ("failed", "undecided", "passed")
_OF_GATES = ("gate failed", "gate undecided", "all ")


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
    return Verdict(0, (passed,), results)
