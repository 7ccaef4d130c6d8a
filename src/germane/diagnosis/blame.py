"""Retrieval or generation: which of the two is to blame for each wrong answer, from stored verdicts. No judge is asked.

Three measures tell: context_recall (do the contexts hold the reference's claims), nugget_recall(text=response) (does the response
state them) and faithfulness (do the contexts support what it states). Each holds for a query with a value of at least one half.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from math import fsum
from typing import Any, TypeAlias

import numpy as np
from msgspec import structs

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
"""The share of claims from which on contexts hold the answer, a response states it, or is faithful."""
_NEEDED = ("context_recall", "nugget_recall(text=response)", "faithfulness")
_BLOCK = 500
"""Samples whose verdicts are looked up together."""
_WORDS = {
    "answered": "answered from the contexts",
    "not_retrieved": "not retrieved",
    "ignored": "retrieved and ignored",
    "unsupported": "answered without support",
    "unknown": "unknown",
}
_Case: TypeAlias = tuple[Sample, list[Outcome]]
"""A sample with the outcomes of the three measures."""


class BlameLine(Line):
    """The queries of one kind: their number, their share of all with its interval, and their ids."""

    count: int
    share: float
    interval: IntervalEnds | None
    queries: list[str]


class UnknownLine(BlameLine):
    """The queries of which a verdict is missing, and the measures that would `add` it."""

    add: list[str]


class BlameDocument(Line):
    """Each query with a reference and a response by what became of it.

    `answered`: the response states the answer and the contexts support it. `not_retrieved`: it does not, and the contexts do not
    hold it. `ignored`: it does not, and the contexts hold it. `unsupported`: it does, and the contexts do not support what it
    says. `unknown`: a verdict is missing.
    """

    answered: BlameLine
    not_retrieved: BlameLine
    ignored: BlameLine
    unsupported: BlameLine
    unknown: UnknownLine

    @property
    def shown(self) -> bool:
        """True if any of the three verdicts is stored."""
        return len(self.unknown.add) < len(_NEEDED)

    def in_words(self) -> str:
        """Return one line: each share with its interval, and the measures to add where verdicts are missing."""
        parts = []
        for name, words in _WORDS.items():
            line: BlameLine = getattr(self, name)
            if line.count:
                ends = f", {line.interval[0]:.0%} to {line.interval[1]:.0%}" if line.interval else ""
                parts.append(f"{words} {line.count} ({line.share:.0%}{ends})")
        add = f"; add -m '{' '.join(self.unknown.add)}'" if self.unknown.count and self.unknown.add else ""
        return f"retrieval or generation: {', '.join(parts)}{add}"

    def lines(self) -> Iterator[str]:
        """Yield the blame in words, and the first queries that retrieval and generation fail."""
        yield self.in_words()
        for name in ("not_retrieved", "ignored", "unsupported"):
            line: BlameLine = getattr(self, name)
            if line.count:
                yield f"  {_WORDS[name]}: {some_of(line.queries, 5)}"


def blame_of(report: ReportData) -> dict[str, BlameDocument]:
    """Return by system what became of the queries with a reference and a response; systems without any are left out."""
    measures, settings, answers = _measures(report), settings_of(report), recorded(report)
    graders, cases = graders_of(tuple(measures)), defaultdict[str, list[_Case]](list)
    samples = (
        sample
        for sample in report.samples()
        if sample.reference and sample.response and sample.answerable is not False and not sample.failed
    )
    for some in batched(samples, _BLOCK):
        block = Block([Job(sample=sample, graders=graders) for sample in some], settings)
        for sample, outcomes in zip(
            some, block.outcomes(results_of(block.programs, answers.values)), strict=True
        ):
            cases[sample.system].append((sample, [outcomes[str(measure)] for measure in measures]))
    return {system: _document(measures, of_system) for system, of_system in cases.items()}


def _measures(report: ReportData) -> list[Measure]:
    """Return context_recall, nugget_recall(text=response) and faithfulness, with the report's own parameters."""

    def is_same(own: Measure, measure: Measure) -> bool:
        return own.name == measure.name and own.settings.get("text") == measure.settings.get("text")

    have = [measure for name in report.measures if (measure := known_measure(report[name].type)) is not None]
    needed = map(Measure.parse, _NEEDED)
    return [next((own for own in have if is_same(own, measure)), measure) for measure in needed]


def _document(measures: Sequence[Measure], cases: Sequence[_Case]) -> BlameDocument:
    """Return the shares of the kinds of queries, and the measures that lack a verdict of any query."""
    kinds = np.array([_kind_of(outcomes) for _, outcomes in cases])
    clusters = [sample.id if sample.cluster is None else sample.cluster for sample, _ in cases]
    lines: dict[str, Any] = {}
    for kind in _WORDS:
        marked = (kinds == kind).astype(float)
        ends = mean_interval(marked, clusters=clusters, value_range=(0.0, 1.0)).ends
        ids = list(dict.fromkeys(cases[at][0].id for at in np.flatnonzero(marked).tolist()))
        lines[kind] = BlameLine(int(marked.sum()), float(marked.mean()), ends and list(ends), ids)
    columns = zip(*(outcomes for _, outcomes in cases), strict=True)
    lacking = [not all(map(_is_known, column)) for column in columns]
    add = [str(measure) for measure, lacks in zip(measures, lacking, strict=True) if lacks]
    lines["unknown"] = UnknownLine(**structs.asdict(lines["unknown"]), add=add)
    return BlameDocument(**lines)


def _is_known(outcome: Outcome) -> bool:
    """Return True if the verdicts are there: a response that claims nothing has none to miss."""
    return outcome.status in {"ok", "skipped"}


def _kind_of(outcomes: Sequence[Outcome]) -> str:
    """Return what became of a query, by the outcomes of the three measures."""
    held, stated, faithful = outcomes
    if not all(map(_is_known, outcomes)) or held.value is None or stated.value is None:
        return "unknown"
    answered = stated.value >= HALF
    # the share that the contexts hold of the claims that the response states, or of those that it lacks; of all claims
    # where the sample has nuggets of its own, which are other claims
    wanted = {item.text for item in stated.items if bool(item.held) is answered}
    same = [float(bool(item.held)) for item in held.items if item.text in wanted]
    retrieved = (fsum(same) / len(same) if same else held.value) >= HALF
    if not answered:
        return "ignored" if retrieved else "not_retrieved"
    supported = retrieved and (faithful.value is None or faithful.value >= HALF)
    return "answered" if supported else "unsupported"
