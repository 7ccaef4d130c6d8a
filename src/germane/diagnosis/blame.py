"""Tell for each wrong answer whether retrieval or generation failed, from stored verdicts alone.

Three measures decide: context_recall (do the contexts contain the reference's claims),
nugget_recall(text=response) (does the response state these claims) and faithfulness (do the contexts support
the response). The answer is yes for a query if the value is at least one half.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import fsum
from typing import Literal, TypeAlias, TypeGuard

import numpy as np
from msgspec import UNSET, UnsetType

from germane.clean import some_of
from germane.encoding import Line
from germane.judging.driver import results_of
from germane.measures.graders import graders_of
from germane.measures.measure import Measure
from germane.measures.outcome import Outcome
from germane.measures.scoring import Block, Job
from germane.reports.data import ReportData
from germane.reports.explain import recorded, settings_of
from germane.reports.summary import known_measure
from germane.statistics.intervals import IntervalEnds, mean_interval
from germane.tables.columns import batched
from germane.types import Sample

HALF = 0.5
"""The smallest value of each of the three measures that counts as yes."""
_NEEDED = ("context_recall", "nugget_recall(text=response)", "faithfulness")
_SAMPLES_PER_BLOCK = 500
BlameKind: TypeAlias = Literal["answered", "not_retrieved", "ignored", "unsupported", "unknown"]
"""The outcome of a query; `BlameLine` explains each."""
_WORDS: dict[BlameKind, str] = {
    "answered": "answered from the contexts",
    "not_retrieved": "not retrieved",
    "ignored": "retrieved and ignored",
    "unsupported": "answered without support",
    "unknown": "unknown",
}
_Case: TypeAlias = tuple[Sample, list[Outcome]]
"""A sample with the outcomes of the three measures."""


class BlameLine(Line):
    """The queries with one outcome: their number, their share of all with its interval, and their ids.

    The outcomes are `answered`: the response states the answer, and the contexts support it. `not_retrieved`:
    the response lacks the answer, and so do the contexts. `ignored`: the response lacks the answer, but the
    contexts contain it. `unsupported`: the response states the answer, but the contexts do not support the
    response. `unknown`: a verdict is missing; `add` names the measures that would give it.
    """

    count: int
    share: float
    interval: IntervalEnds | None
    queries: list[str]
    add: list[str] | UnsetType = UNSET


Blame: TypeAlias = dict[BlameKind, BlameLine]
"""The queries with a reference and a response, by outcome."""


def missing_verdicts(blame: Blame) -> list[str]:
    """Return the names of the measures whose verdicts are missing for some query."""
    return list(blame["unknown"].add or ())


def is_shown(blame: Blame | None) -> TypeGuard[Blame]:
    """Return True if at least one of the three measures has stored verdicts for all queries."""
    return blame is not None and len(missing_verdicts(blame)) < len(_NEEDED)


def blame_in_words(blame: Blame) -> str:
    """Return one line with the share of each outcome, its interval, and the measures that lack verdicts."""
    missing = missing_verdicts(blame) if blame["unknown"].count else ()
    add = f"; add -m '{' '.join(missing)}'" if missing else ""
    if blame["unknown"].share == 1:
        return f"retrieval or generation: not known{add}"
    parts = []
    for name, line in blame.items():
        if line.count:
            ends = f", {line.interval[0]:.0%} to {line.interval[1]:.0%}" if line.interval else ""
            parts.append(f"{_WORDS[name]} {line.count} ({line.share:.0%}{ends})")
    return f"retrieval or generation: {', '.join(parts)}{add}"


def blame_lines(blame: Blame) -> Iterator[str]:
    """Yield the printed lines: the share of each outcome, and the first queries that were answered wrongly."""
    yield blame_in_words(blame)
    for name in ("not_retrieved", "ignored", "unsupported"):
        if blame[name].count:
            yield f"  {_WORDS[name]}: {some_of(blame[name].queries, 5)}"


def blame_of(report: ReportData) -> dict[str, Blame]:
    """Return, by system, the queries by outcome (retrieval or generation failed), from stored verdicts.

    Queries without a reference or a response are left out; so is a system that has no other queries.
    """
    measures, settings, answers = _measures(report), settings_of(report), recorded(report)
    graders, cases = graders_of(tuple(measures)), defaultdict[str, list[_Case]](list)
    answered = (sample for sample in report.samples() if sample.reference and sample.response)
    samples = (sample for sample in answered if sample.answerable is not False and not sample.failed)
    for some in batched(samples, _SAMPLES_PER_BLOCK):
        block = Block([Job(sample=sample, graders=graders) for sample in some], settings)
        results = block.outcomes(results_of(block.programs, answers.values))
        for sample, outcomes in zip(some, results, strict=True):
            cases[sample.system].append((sample, [outcomes[str(measure)] for measure in measures]))
    return {system: _by_kind(measures, of_system) for system, of_system in cases.items()}


def _measures(report: ReportData) -> list[Measure]:
    """Return context_recall, nugget_recall(text=response) and faithfulness, with the report's own parameters."""

    def is_same(own: Measure, measure: Measure) -> bool:
        return own.name == measure.name and own.settings.get("text") == measure.settings.get("text")

    have = [*filter(None, (known_measure(report[name].type) for name in report.measures))]
    needed = map(Measure.parse, _NEEDED)
    return [next((own for own in have if is_same(own, measure)), measure) for measure in needed]


def _by_kind(measures: Sequence[Measure], cases: Sequence[_Case]) -> Blame:
    """Return the queries by outcome, with shares and intervals, and the measures that lack a verdict."""
    kinds = np.array([_kind_of(outcomes) for _, outcomes in cases])
    clusters = [sample.id if sample.cluster is None else sample.cluster for sample, _ in cases]
    blame: Blame = {}
    for kind in _WORDS:
        marked = (kinds == kind).astype(float)
        ends = mean_interval(marked, clusters=clusters, value_range=(0.0, 1.0)).ends
        ids = list(dict.fromkeys(cases[at][0].id for at in np.flatnonzero(marked).tolist()))
        blame[kind] = BlameLine(int(marked.sum()), float(marked.mean()), ends, ids)
    columns = zip(*(outcomes for _, outcomes in cases), strict=True)
    lacking = [not all(map(_is_known, column)) for column in columns]
    blame["unknown"].add = [str(measure) for measure, lacks in zip(measures, lacking, strict=True) if lacks]
    return blame


def _is_known(outcome: Outcome) -> bool:
    """Return True if a measure has its verdicts for a query, or was skipped as the response makes no claims."""
    return outcome.status in {"ok", "skipped"}


def _kind_of(outcomes: Sequence[Outcome]) -> BlameKind:
    """Return the outcome of a query (answered, ignored, ...) from the values of the three measures."""
    held, stated, faithful = outcomes
    if not all(map(_is_known, outcomes)) or held.value is None or stated.value is None:
        return "unknown"
    answered = stated.value >= HALF
    # the contexts' share of the claims that the response states, or lacks if it is wrong; of all claims if
    # the sample has its own nuggets, which are other claims
    wanted = {item.text for item in stated.items if bool(item.held) is answered}
    same = [float(bool(item.held)) for item in held.items if item.text in wanted]
    retrieved = (fsum(same) / len(same) if same else held.value) >= HALF
    if not answered:
        return "ignored" if retrieved else "not_retrieved"
    supported = retrieved and (faithful.value is None or faithful.value >= HALF)
    return "answered" if supported else "unsupported"
