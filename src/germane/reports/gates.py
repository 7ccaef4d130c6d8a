"""Gates: what an evaluation must reach, and the one object that both the printed verdict and the exit code come from.

A gate is a comparison of an aggregate with a number: `mean(nDCG@10)>=0.7`, `max(leaks@5)=0`, or short
`nDCG@10>=0.7` for the mean. Where scores are missing, the aggregate is a range: the gate passes or fails only
where the whole range does, and is undecided otherwise. Nothing measured never passes.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Sequence
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
        """InputError where the gate's measure is none of these names."""
        names = dict.fromkeys(measured)
        if self.measure not in names:
            have = ", ".join(names) or "none"
            raise InputError(
                f"the gate {self} names {self.measure}, which is not measured",
                fix=f"measured: {have}",
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
    """What became of one gate."""

    gate: str
    outcome: Outcome
    detail: str


def check_gate(gate: Gate, summaries: Sequence[MeasureSummary]) -> list[GateResult]:
    """One result a system; InputError where no measure of that name was computed."""
    gate.check_named(name for summary in summaries for name in (summary.measure, summary.type))
    return [_check(gate, summary) for summary in summaries if gate.measure in {summary.measure, summary.type}]


def _check(gate: Gate, summary: MeasureSummary) -> GateResult:
    name = f"{gate}" + (f" [{summary.system}]" if summary.system else "")
    if summary.mean_bounds is None or summary.edges is None:
        return GateResult(name, "failed", "nothing was measured")
    low, high = {"mean": summary.mean_bounds, "min": summary.edges[0], "max": summary.edges[1]}[gate.how]
    holds = {_COMPARE[gate.op](low, gate.limit), _COMPARE[gate.op](high, gate.limit)}
    equality = gate.op in {"=", "=="} and low < gate.limit < high
    value = {"mean": summary.mean, "min": summary.low, "max": summary.high}[gate.how]
    shown = "not measured" if value is None else f"{gate.how} {value:.4f}"
    if summary.n == 0 or len(holds) > 1 or equality:
        return GateResult(
            name, "undecided", f"{shown}, could be {low:.4f} to {high:.4f} once everything is judged"
        )
    return GateResult(name, "passed" if holds == {True} else "failed", shown)


def _never(summary: MeasureSummary) -> bool:
    return summary.total > 0 and summary.skipped == summary.total


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why an evaluation ended as it did: the exit code and the sentences that explain it."""

    exit_code: int
    reasons: tuple[str, ...]
    gates: tuple[GateResult, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether everything declared was reached."""
        return self.exit_code == 0

    def as_json(self) -> dict[str, Json]:
        """For the manifest."""
        gates = [{"gate": g.gate, "outcome": g.outcome, "detail": g.detail} for g in self.gates]
        return {
            "exit_code": self.exit_code,
            "passed": self.passed,
            "reasons": list(self.reasons),
            "gates": gates,
        }


def decide(
    gates: Iterable[GateResult],
    summaries: Sequence[MeasureSummary],
    *,
    max_unmeasured: float = 0.05,
    interrupted: bool = False,
) -> Verdict:
    """The exit code and why, in the order of precedence: 2 never measurable, 130 interrupted, 3 unmeasured or undecided, 1 failed, 0."""
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
    passed = [f"all {len(results)} gates passed"] if results else ["no gates declared"]
    return Verdict(0, tuple(passed), results)
