"""From scores to cases: the weighted mean of a case's graders and its verdict. Information, unless required."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from math import fsum
from typing import Literal, TypeAlias

from germane.measures.scoring import BORDERLINE, PASS, STRICT, Grader
from germane.reports.gates import GateResult
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


CaseKey: TypeAlias = tuple[str, str, int]


def cases_of(
    scores: Iterable[Score], graders_of: Callable[[CaseKey], Mapping[str, Grader]]
) -> Iterator[CaseResult]:
    """The cases of scores in sample order; `graders_of` gives a case's graders by their reported name."""
    for key, mine in groupby(scores, key=lambda score: (score.sample, score.system, score.trial)):
        yield _case(key, list(mine), graders_of(key))


def _case(key: CaseKey, scores: Sequence[Score], graders: Mapping[str, Grader]) -> CaseResult:
    strict = any(
        score.measure in graders and graders[score.measure].strict and (score.why or "").startswith(STRICT)
        for score in scores
    )
    weights = {
        score.measure: graders[score.measure].weight if score.measure in graders else 1.0 for score in scores
    }
    due = [score for score in scores if score.status != "skipped"]
    total = fsum(weights[score.measure] for score in due)
    missing = any(score.value is None for score in due)
    value = None
    if due and not missing and total > 0:
        value = fsum(weights[s.measure] * _good(graders, s.measure, s.value or 0.0) for s in due) / total
    scores = [_turned(graders, score) for score in scores]
    required = [(score, graders[score.measure].required) for score in scores if score.measure in graders]
    failed = [
        score.measure for score, least in required if least is not None and _below(score, least) is True
    ]
    undecided = [
        score.measure for score, least in required if least is not None and _below(score, least) is None
    ]
    sample, system, trial = key
    return CaseResult(
        sample=sample,
        system=system,
        trial=trial,
        score=value,
        verdict="fail" if failed or strict else _verdict(value, due=bool(due)),
        failed_required=tuple(failed),
        undecided_required=tuple(undecided),
    )


def _good(graders: Mapping[str, Grader], name: str, value: float) -> float:
    return graders[name].measure.definition.good(value) if name in graders else value


def _turned(graders: Mapping[str, Grader], score: Score) -> Score:
    """A score of a measure that is better when lower, as how good it is."""
    if score.measure not in graders or graders[score.measure].measure.definition.better == "higher":
        return score
    ends = score.bounds and sorted(_good(graders, score.measure, end) for end in score.bounds)
    value = None if score.value is None else _good(graders, score.measure, score.value)
    return replace(score, value=value, bounds=(ends[0], ends[1]) if ends else None)


def _below(score: Score, least: float) -> bool | None:
    """Whether a required score is below its threshold; None where that hangs on what is missing."""
    if score.value is not None:
        return score.value < least
    if score.bounds is not None and score.bounds[1] < least:
        return True
    if score.bounds is not None and score.bounds[0] >= least:
        return False
    return None


def _verdict(
    value: float | None, *, due: bool
) -> Literal["pass", "borderline", "fail", "undecided", "skipped"]:
    if value is None:
        return "undecided" if due else "skipped"
    return "pass" if value >= PASS else "borderline" if value >= BORDERLINE else "fail"


def required_gates(cases: Iterable[CaseResult], required: Iterable[str]) -> list[GateResult]:
    """One gate a required grader: every case that has it must reach its threshold."""
    failed: dict[str, list[str]] = {name: [] for name in required}
    undecided: dict[str, list[str]] = {name: [] for name in failed}
    for case in cases:
        for name in case.failed_required:
            failed[name].append(case.sample)
        for name in case.undecided_required:
            undecided[name].append(case.sample)
    results = []
    for name, below in failed.items():
        if below:
            results.append(
                GateResult(f"required {name}", "failed", f"below its threshold in {_names(below)}")
            )
        elif undecided[name]:
            results.append(
                GateResult(f"required {name}", "undecided", f"not measured in {_names(undecided[name])}")
            )
        else:
            results.append(GateResult(f"required {name}", "passed", "reached in every case"))
    return results


def _names(samples: Sequence[str], most: int = 3) -> str:
    more = f" and {len(samples) - most} more" if len(samples) > most else ""
    return ", ".join(samples[:most]) + more
