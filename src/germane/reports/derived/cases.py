"""Compute the score and verdict of each case over all of its graders."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import fields
from math import fsum
from operator import mul
from typing import TYPE_CHECKING, Literal

from msgspec import UNSET, UnsetType

from germane.encoding import Line, internal
from germane.measures.measure import Measure
from germane.tables.scores import SampleKey
from germane.types import Json, Score, freeze

if TYPE_CHECKING:
    from germane.measures.graders import Grader


CASE_SCORE = "score of each case"  # the gate of `execution: {threshold: 0.8}`
CaseVerdict = Literal["pass", "borderline", "fail", "undecided", "skipped"]
"""The verdict on a case over all of its graders."""


class CaseResult(Line, kw_only=True, rename=internal("undecided_required")):
    """The score of one sample over all graders, with its verdict.

    `score` is the weighted mean of the graders' scores, null if one of them could not be measured; skipped
    graders are left out. If lower values of a measure are better, its goodness counts, e.g. 1 -
    noise_sensitivity or 1 / (1 + leaks).

    `verdict` is null if the eval file declares neither a grader nor `required` nor a threshold, as different
    measures have no common limit. It is "undecided" if a score is missing or a stand-in for a model judged.
    `failed_required` names the required graders below their threshold.
    """

    sample: str
    score: float | None
    verdict: CaseVerdict | None
    failed_required: Sequence[str] = ()
    system: str | UnsetType = UNSET
    trial: int | UnsetType = UNSET
    undecided_required: Sequence[str] = ()  # required graders without a score

    @property
    def key(self) -> SampleKey:
        """The key of the sample: its id, system and trial."""
        return self.sample, self.system or "", self.trial or 0

    @property
    def failed(self) -> bool:
        """True if the verdict on the case is "fail"."""
        return self.verdict == "fail"


def case_of(
    key: SampleKey, scores: Sequence[Score], graders: Mapping[str, Grader], open_to: Collection[str]
) -> CaseResult:
    """Return a case's score and verdict; it stays undecided if a stand-in judged a measure (`open_to`)."""
    from germane.measures.graders import BORDERLINE, PASS, STRICT  # not at the top: `germane rank` has none

    rows = [(score, graders.get(score.measure)) for score in scores]
    due = [(score, grader) for score, grader in rows if score.status != "skipped"]
    weights = [1.0 if grader is None else grader.weight for _, grader in due]
    values = [_good(grader, score.value) for score, grader in due if score.value is not None]
    mean = None
    if len(values) == len(due) and fsum(weights) > 0:
        mean = fsum(map(mul, weights, values)) / fsum(weights)
    below, strict = dict[str, bool | None](), set[str]()
    for score, grader in rows:
        if grader is not None and grader.required is not None:
            below[score.measure] = _is_below(score, grader, grader.required)
        if grader is not None and grader.strict and (score.why or "").startswith(STRICT):
            strict.add(score.measure)
    least = next((grader.threshold for grader in graders.values() if grader.threshold is not None), None)
    if least is not None:
        below[CASE_SCORE] = None if mean is None else mean < least
    failed = tuple(name for name, is_below in below.items() if is_below)
    undecided = tuple(name for name, is_below in below.items() if is_below is None)
    unsure = {score.measure for score, _ in due}.intersection(open_to)
    verdict: CaseVerdict | None = None
    if any(grader.declares for grader in graders.values()):
        if {*failed, *strict} - unsure - ({CASE_SCORE} if unsure else set()):
            verdict = "fail"
        elif undecided or unsure or (due and mean is None):
            verdict = "undecided"
        elif mean is None:
            verdict = "skipped"
        else:
            verdict = "pass" if mean >= PASS else "borderline" if mean >= BORDERLINE else "fail"
    sample, system, trial = key
    named: dict[str, Json] = {"system": system, "trial": trial} if system or trial else {}
    required: dict[str, Json] = {"failed_required": failed, "undecided_required": undecided}
    return CaseResult(sample=sample, score=mean, verdict=verdict, **required, **named)


def _good(grader: Grader | None, value: float) -> float:
    """Return a score scaled so that higher is better; unchanged without a grader."""
    return value if grader is None else grader.measure.definition.good(value)


def _is_below(score: Score, grader: Grader, least: float) -> bool | None:
    """Return True if a grader's score is below `least`; None if missing verdicts leave it undecided."""
    ends = (score.value, score.value) if score.value is not None else score.bounds
    if ends is None:
        return None
    low, high = sorted(_good(grader, end) for end in ends)
    return True if high < least else False if low >= least else None


def dump_grader(grader: Grader) -> dict[str, Json]:
    """Return a grader's declaration as the JSON object that manifest.json stores."""
    row = {field.name: getattr(grader, field.name) for field in fields(grader) if field.name != "by"}
    return {**row, "measure": str(grader.measure)}


def load_grader(row: Mapping[str, Json]) -> Grader:
    """Return the grader in a JSON object that `dump_grader` wrote."""
    from germane.measures.graders import Grader  # not at the top: `germane rank` has no graders

    return Grader(**{**row, "measure": Measure.remembered(row["measure"]), "options": freeze(row["options"])})
