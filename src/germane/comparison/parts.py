"""What a difference is made of: retrieval and verdicts, and the queries that moved with what changed in their lists."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from germane.clean import shorten
from germane.comparison.pairing import Pair, Side
from germane.comparison.result import MovedQuery, higher_is_better
from germane.errors import InputError
from germane.judging.driver import replay
from germane.judging.recorded import Recorded
from germane.measures.labels import distinct_contexts
from germane.measures.measure import Measure
from germane.measures.scoring import Block, Job, graders_of
from germane.questions.question import AnyQuestion
from germane.reports.explain import settings_of
from germane.statistics.ranking import list_changes
from germane.types import Context, Json, Judgement, Sample

Floats = NDArray[np.float64]

MOST_SPLIT = 20_000
"""Cases up to which a difference is split: every list is scored once more for it."""


def verdicts_of(sides: Iterable[Side], measure: str) -> Literal["judge", "labels", "mixed"]:
    """Whose verdicts a measure reads in any of these: a judge's, labels alone (gold, people's), or both in one score."""
    sources = {side.report[measure, side.system].basis.source for side in sides}
    return "mixed" if "best" in sources else "judge" if "judge" in sources else "labels"


def how_judged(a: Side, b: Side) -> str:
    """What differs in how two systems were judged, in words; "" where nothing does."""
    if a.report is b.report:
        return ""
    one, other = (side.report.manifest for side in (a, b))
    ours, theirs = (manifest.get("judge") or {} for manifest in (one, other))
    if ours.get("source") != theirs.get("source"):
        return f"{a.name} was judged by {ours.get('source')}, {b.name} by {theirs.get('source')}"
    identities: tuple[dict[str, Json], dict[str, Json]] = (
        ours.get("identity") or {},
        theirs.get("identity") or {},
    )
    if all(identities) and identities[0] != identities[1]:
        names = _differing(*identities)
        return f"{a.name} and {b.name} were judged by {ours.get('source')} with another {', '.join(names)}"
    settings = one.get("settings") or {}, other.get("settings") or {}
    if all(settings) and settings[0] != settings[1]:
        names = sorted(
            {key for key in {*settings[0], *settings[1]} if settings[0].get(key) != settings[1].get(key)}
        )
        return f"{a.name} and {b.name} were judged with another {', '.join(names)}"
    prompts = one.get("prompts") or {}, other.get("prompts") or {}
    changed = sorted(
        name for name in prompts[0].keys() & prompts[1].keys() if prompts[0][name] != prompts[1][name]
    )
    return f"{a.name} and {b.name} were judged with another prompt of {', '.join(changed)}" if changed else ""


def _differing(one: Mapping[str, Json], other: Mapping[str, Json]) -> list[str]:
    return sorted(key for key in {*one, *other} if one.get(key) != other.get(key))


class _SharedVerdicts:
    """B's answers, with A's in their place wherever A holds one to the same item."""

    def __init__(self, a: Iterable[Judgement], b: Recorded) -> None:
        self._a: dict[tuple[str, str], Judgement] = {}
        self._b = b
        for one in a:
            if one.parent is None and one.error is None:
                self._a.setdefault((one.kind, one.item), one)

    def look_up(self, questions: Sequence[AnyQuestion]) -> list[Judgement]:
        """The answer to each question."""
        own = self._b.look_up(questions)
        return [self._a.get((q.kind, q.item), mine) for q, mine in zip(questions, own, strict=True)]


def mixed_scores(pair: Pair, measures: Sequence[str]) -> tuple[dict[str, Floats], dict[str, str]]:
    """The score of B's lists with A's verdicts, for each measure and each case of A's report; nan where there is none.

    A's verdict is taken where both hold the same item; gold is A's gold for the query, people's labels are A's where A's
    list has the same passage.

    Returns:
        Scores by reported name, shape (cases of A's report,), and for the other measures why there are none.
    """
    a, b = pair.a, pair.b
    refused = {name: why for name in measures if (why := _refusal(pair, name))}
    wanted = [name for name in measures if name not in refused]
    if not wanted:
        return {}, refused
    numbers = a.of.scores.numbers
    settings = settings_of(b.report)
    jobs = [
        Job(sample=_with_labels(sample, a.samples[case][0]), graders=graders)
        for graders in [graders_of(tuple(Measure.parse(a.measures[name][1]) for name in wanted))]
        for case, trials in b.samples.items()
        if case in a.samples
        for sample in trials
    ]
    shared = _SharedVerdicts(a.report.judgements(), Recorded(b.report.judgements()))
    block = Block(jobs=jobs, settings=settings)
    outcomes = block.outcomes([replay(program, shared.look_up)[0] for program in block.programs])
    found = {}
    for name in wanted:
        canonical = a.measures[name][1]
        sums, counts = np.zeros(len(numbers)), np.zeros(len(numbers))
        for job, row in zip(jobs, outcomes, strict=True):
            value = row[canonical].value
            sums[numbers[job.sample.id]] += np.nan if value is None else value
            counts[numbers[job.sample.id]] += 1
        found[name] = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    return found, refused


def _refusal(pair: Pair, name: str) -> str:
    """Why the difference of a measure cannot be split, or ""."""
    a, b = pair.a, pair.b
    try:
        script = Measure.parse(a.measures[name][1]).definition.family == "graded"
    except InputError:
        return "the measure is not known here"
    reasons = {
        "labels of people and of a judge are mixed in it": verdicts_of((a, b), name) == "mixed",
        "a script's score belongs to the list that it was given": script,
        "it takes the samples of both, which only report folders of germane run hold": not (
            a.samples and b.samples
        ),
        f"there are more than {MOST_SPLIT:,} queries": len(b.samples) > MOST_SPLIT,
        "the judges answered on different scales": settings_of(a.report).scale != settings_of(b.report).scale,
    }
    return next((why for why, holds in reasons.items() if holds), "")


def _with_labels(sample: Sample, other: Sample) -> Sample:
    """A sample with the gold of another system's sample of the same case, and with its people's labels."""
    labels = {
        context.text or context.id: (context.grade, context.relevant)
        for context in distinct_contexts(other)
        if context.grade is not None or context.relevant is not None
    }

    def labelled(context: Context) -> Context:
        label = labels.get(context.text or context.id)
        return context if label is None else replace(context, grade=label[0], relevant=label[1])

    return sample.with_contexts(
        labelled,
        qrels=other.qrels,
        gold=other.gold,
        evidence=other.evidence,
        answerable=other.answerable,
        forbidden=other.forbidden,
        grade_scale=other.grade_scale,
    )


def moved_queries(pair: Pair, measure: str, most: int = 5) -> tuple[list[MovedQuery], list[MovedQuery]]:
    """The queries that became worst and best by a measure, at most so many of each, the most moved first."""
    ours, theirs = pair.values(measure)
    change = theirs.values - ours.values
    gain = change if higher_is_better(pair.a.measures[measure][1]) else -change
    order = np.argsort(np.where(np.isnan(gain), 0.0, gain), kind="stable")
    worst = [row for row in order[:most].tolist() if gain[row] < 0]
    best = [row for row in order[::-1][:most].tolist() if gain[row] > 0]

    def moved(row: int) -> MovedQuery:
        case = pair.a.of.scores.cases[int(ours.case[row])]
        a, b = pair.a.samples.get(case, ()), pair.b.samples.get(case, ())
        return MovedQuery(
            sample=case,
            query=a[0].query if a else "",
            a=float(ours.low[row]),
            b=float(theirs.low[row]),
            lists=list_changes(_names(a[0]), _names(b[0])) if a and b else None,
        )

    return list(map(moved, worst)), list(map(moved, best))


def _names(sample: Sample) -> list[str]:
    return [context.id or shorten(context.text, 40) for context in distinct_contexts(sample)]


def covered(pair: Pair) -> Mapping[str, int] | None:
    """Of B's distinct items that were judged, how many A's verdicts covered; None where nothing was judged."""
    ours, theirs = (
        {row.item for row in side.report.items() if row.system == side.system} for side in (pair.a, pair.b)
    )
    return {"items": len(theirs), "covered": len(ours & theirs)} if theirs else None
