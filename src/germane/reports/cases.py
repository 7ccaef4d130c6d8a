"""From scores to cases: the weighted mean of a case's graders and its verdict. Information, unless required."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import fsum
from operator import mul
from typing import Literal

from germane.measures.scoring import BORDERLINE, PASS, STRICT, Grader
from germane.reports.gates import GateResult
from germane.tables.scores import SampleKey
from germane.types import Score

__all__ = ["CaseResult", "cases_of", "required_gates"]


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
