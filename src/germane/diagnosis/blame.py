"""Retrieval or generation: for each query, which of the two a wrong answer is due to, from stored verdicts. Nobody is asked.

Three measures tell: context_recall (do the contexts hold the reference's claims), nugget_recall(text=response) (does the response
state them) and faithfulness (do the contexts support what it states). A query is where at least half of it is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import fsum
from typing import Any, NamedTuple

import numpy as np

from germane.clean import some_of
from germane.encoding import Line
from germane.judging.recorded import StoredAnswers
from germane.measures.eligibility import applicable
from germane.measures.measure import Measure
from germane.measures.outcome import Outcome
from germane.measures.scoring import program_of
from germane.places.settings import Settings
from germane.questions.asking import Program
from germane.reports.data import ReportData
from germane.reports.explain import recorded, settings_of
from germane.reports.summary import known_measure
from germane.statistics.intervals import IntervalEnds, mean_interval
from germane.types import Sample

HALF = 0.5
"""The share of the reference's claims from which on contexts hold, or a response states, the answer; of the response's, faithful."""
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
        """True if any verdict is there: without one there is nothing to say."""
        return len(self.unknown.add) < len(_NEEDED)

    def in_words(self) -> str:
        """One line: each share with its interval, and what to add where verdicts are missing."""
        parts = []
        for name, words in _WORDS.items():
            line: BlameLine = getattr(self, name)
            if line.count:
                ends = f", {line.interval[0]:.0%} to {line.interval[1]:.0%}" if line.interval else ""
                parts.append(f"{words} {line.count} ({line.share:.0%}{ends})")
        add = f"; add -m '{' '.join(self.unknown.add)}'" if self.unknown.count and self.unknown.add else ""
        return f"retrieval or generation: {', '.join(parts)}{add}"


class _Case(NamedTuple):
    sample: Sample
    outcomes: Sequence[Outcome]


def blame_of(report: ReportData) -> dict[str, BlameDocument]:
    """By system, what became of the queries with a reference and a response; systems without any are left out."""
    measures, settings, answers = _measures(report), settings_of(report), recorded(report)
    cases: dict[str, list[_Case]] = defaultdict(list)
    block: list[Sample] = []
    for sample in report.samples():
        if sample.reference and sample.response and sample.answerable is not False and not sample.failed:
            block.append(sample)
        if len(block) == _BLOCK:
            _add(cases, block, measures, settings, answers)
            block = []
    _add(cases, block, measures, settings, answers)
    return {system: _document(measures, some) for system, some in cases.items()}


def _measures(report: ReportData) -> list[Measure]:
    """The three measures, as the report has them where it has."""
    have = [measure for name in report.measures if (measure := known_measure(report[name].type)) is not None]
    needed = map(Measure.parse, _NEEDED)
    return [
        next((own for own in have if own.name == measure.name and _reads(own) == _reads(measure)), measure)
        for measure in needed
    ]


def _reads(measure: Measure) -> Any:
    return measure.settings.get("text")


def _add(
    cases: Mapping[str, list[_Case]],
    samples: Sequence[Sample],
    measures: Sequence[Measure],
    settings: Settings,
    answers: StoredAnswers,
) -> None:
    programs = [_program(measure, sample, settings) for sample in samples for measure in measures]
    outcomes = _replayed(programs, answers)
    for number, sample in enumerate(samples):
        mine = outcomes[number * len(measures) : (number + 1) * len(measures)]
        cases[sample.system].append(_Case(sample, mine))


def _program(measure: Measure, sample: Sample, settings: Settings) -> Program[Outcome]:
    refusal = applicable(measure, sample, settings)
    if refusal is not None:
        yield from ()
        return refusal
    return (yield from program_of(measure, sample, settings))


def _replayed(programs: Sequence[Program[Outcome]], answers: StoredAnswers) -> list[Outcome]:
    """The result of each program, from stored answers, which are looked up for all programs together."""
    results: list[Outcome | None] = [None] * len(programs)
    sent: dict[int, Any] = dict.fromkeys(range(len(programs)))
    while sent:
        asked = {}
        for number, values in sent.items():
            try:
                asked[number] = programs[number].send(values)
            except StopIteration as end:
                results[number] = end.value
        found = answers.values(list(asked.values())) if asked else []
        sent = dict(zip(asked, map(tuple, found), strict=True))
    return [result for result in results if result is not None]


def _document(measures: Sequence[Measure], cases: Sequence[_Case]) -> BlameDocument:
    names = [_name_of(case.outcomes) for case in cases]
    clusters = [case.sample.id if case.sample.cluster is None else case.sample.cluster for case in cases]
    lines: dict[str, Any] = {}
    for name in _WORDS:
        marked = np.array([other == name for other in names], float)
        interval = mean_interval(marked, clusters=clusters, value_range=(0.0, 1.0))
        ids = dict.fromkeys(case.sample.id for case, other in zip(cases, names, strict=True) if other == name)
        fields: dict[str, Any] = {
            "count": int(marked.sum()),
            "share": float(marked.mean()),
            "interval": interval.ends and list(interval.ends),
            "queries": list(ids),
        }
        lines[name] = (
            UnknownLine(**fields, add=_missing(measures, cases)) if name == "unknown" else BlameLine(**fields)
        )
    return BlameDocument(**lines)


def _missing(measures: Sequence[Measure], cases: Iterable[_Case]) -> list[str]:
    """The measures that lack a verdict of any query."""
    lacking = {at for case in cases for at, outcome in enumerate(case.outcomes) if not _is_known(outcome)}
    return [str(measures[at]) for at in sorted(lacking)]


def _is_known(outcome: Outcome) -> bool:
    """True if the verdicts are there: a response that claims nothing has none to miss."""
    return outcome.status in {"ok", "skipped"}


def _name_of(outcomes: Sequence[Outcome]) -> str:
    """What became of a query, by the outcomes of the three measures."""
    held, stated, faithful = outcomes
    if not all(map(_is_known, outcomes)) or held.value is None or stated.value is None:
        return "unknown"
    answered = stated.value >= HALF
    retrieved = _share_of(held, stated, stated=answered) >= HALF
    if not answered:
        return "ignored" if retrieved else "not_retrieved"
    supported = retrieved and (faithful.value is None or faithful.value >= HALF)
    return "answered" if supported else "unsupported"


def _share_of(held: Outcome, said: Outcome, *, stated: bool) -> float:
    """The share that the contexts hold of the claims that the response states, or of those that it lacks.

    Where these are not the same claims (nuggets of the sample's own), it is that of all claims.
    """
    wanted = {item.text for item in said.items if bool(item.held) is stated}
    same = [float(bool(item.held)) for item in held.items if item.text in wanted]
    return fsum(same) / len(same) if same else held.value or 0.0


def lines_of(blame: BlameDocument) -> Iterator[str]:
    """The blame in words, and the first queries that retrieval and generation fail."""
    yield blame.in_words()
    for name in ("not_retrieved", "ignored", "unsupported"):
        line: BlameLine = getattr(blame, name)
        if line.count:
            yield f"  {_WORDS[name]}: {some_of(line.queries, 5)}"
