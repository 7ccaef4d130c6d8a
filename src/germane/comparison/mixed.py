"""Score system B's lists with system A's verdicts and gold, and split the difference into parts.

With M the score of B's lists with A's labels, M - A is due to retrieval and B - M to the labels.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from msgspec.structs import replace
from numpy.typing import NDArray

from germane.comparison.corrected import DecidedPair
from germane.comparison.judged import how_judged, verdicts_of
from germane.judges.labels import GoldJudge, LabelsJudge
from germane.judging.driver import FindValues, results_of
from germane.judging.groups import judgement_of
from germane.judging.recorded import StoredAnswers
from germane.measures.graders import graders_of
from germane.measures.measure import Measure
from germane.measures.outcome import Outcome
from germane.measures.scoring import Block, Job
from germane.places.lists import field_text, rankings, turns
from germane.places.settings import Settings
from germane.places.table import Bools
from germane.questions.asking import Unanswered, value_of
from germane.questions.question import AnyQuestion
from germane.reports.explain import recorded, settings_of
from germane.reports.pairing import Floats, PairedSystems, Side
from germane.reports.summary import known_measure, limits_of, range_of
from germane.statistics.comparison import DifferenceParts, split_difference
from germane.tables.columns import batched
from germane.types import Context, Json, Sample

MOST_SPLIT = 20_000
"""Cases up to which a difference is split: every list is scored once more for it."""
_BLOCK = 500
"""Cases that are scored together."""
_TEXTS = ("reference", "criterion")
"""The fields from which a measure may take its questions, apart from the query and the contexts."""
_GOLD = ("qrels", "gold", "evidence", "answerable", "forbidden", "grade_scale")


def parts_of(pair: DecidedPair, measures: Sequence[str]) -> dict[str, tuple[DifferenceParts | None, str]]:
    """Return the difference of each measure, by its reported name, as two parts that sum to it; or None and why.

    Where A holds no verdict on a passage of B's lists, B's own counts.
    """
    a, b = pair.a, pair.b
    own = {}
    for name in measures:
        theirs = pair.values(name)[1]
        own[name] = np.full(len(a.scores.cases), np.nan)
        own[name][theirs.case] = theirs.values
    nothing = np.zeros(len(a.scores.cases), np.bool_)
    if a.report is b.report:  # one report holds one verdict per item: all of the difference is retrieval
        return {name: _split(pair, name, values, nothing, nothing) for name, values in own.items()}
    settings = settings_of(a.report), settings_of(b.report)
    result: dict[str, tuple[DifferenceParts | None, str]] = {
        name: (None, why) for name in measures if (why := _refusal(pair, name, settings))
    }
    scorable = {name: Measure.parse(a.types[name]) for name in measures if name not in result}
    if not scorable:
        return result
    case, outcomes, differs = _scored_again(pair, list(scorable.values()), settings)
    for name, measure in scorable.items():
        values = [np.nan if (value := row[str(measure)].value) is None else value for row in outcomes]
        trials, sums = (np.bincount(case, of, len(own[name])) for of in (None, values))
        regolded = nothing.copy()
        if verdicts_of((a, b), name) == "judge":
            for text in ("shown", *set(_TEXTS).intersection(measure.definition.needs)):
                regolded |= differs[text]
        means = np.where(trials > 0, sums / np.maximum(trials, 1), own[name])
        result[name] = _split(pair, name, means, regolded, differs["lists"])
    return result


def _scored_again(
    pair: DecidedPair, measures: Sequence[Measure], both: tuple[Settings, Settings]
) -> tuple[NDArray[np.intp], list[Mapping[str, Outcome]], dict[str, Bools]]:
    """Return the outcomes of B's lists with A's labels, each with its case number, where they can differ from the stored score.

    The last value says of each case whether the lists, what the judge was shown, and the texts differ.
    """
    a, b, (ours, theirs) = pair.a, pair.b, both
    by_labels = ours.judged_by or theirs.judged_by
    changed = a.scores.numbers if pair.by_query or by_labels else _judged_otherwise(a, b)
    settings = theirs if ours.judged_by == theirs.judged_by else theirs.with_judge("")
    differs = {name: np.zeros(len(a.scores.cases), np.bool_) for name in ("shown", "lists", *_TEXTS)}
    case_of, outcomes = list[int](), list[Mapping[str, Outcome]]()
    graders, find = graders_of(tuple(measures)), _shared_verdicts((a, ours), (b, theirs))
    for some in batched(pair.samples_in_both(), _BLOCK):
        jobs: list[Job] = []
        for case, before, after in some:
            number, first, other = a.scores.numbers[case], before[0], after[0]
            differs["shown"][number] = ours.shown_with(first) != theirs.shown_with(other)
            differs["lists"][number] = _output_of(before) != _output_of(after)
            for name in _TEXTS:
                differs[name][number] = field_text(first, name) != field_text(other, name)
            samples = [_with_labels(sample, first) for sample in after]
            if case in changed or samples != after:
                jobs += [Job(sample=sample, graders=graders) for sample in samples]
                case_of += [number] * len(samples)
        block = Block(jobs=jobs, settings=settings)
        outcomes += block.outcomes(results_of(block.programs, find))
    return np.array(case_of, np.intp), outcomes, differs


def _output_of(samples: Sequence[Sample]) -> Json:
    """Return the system's output: its lists and its answer."""
    lists = [[(query, [(c.text, c.id) for c in of]) for query, of in rankings(s)] for s in samples]
    return [lists, [sample.response for sample in samples]]


def _judged_otherwise(a: Side, b: Side) -> Container[str]:
    """Return the cases of B for which A holds an answer other than B's own."""
    ours: dict[str, bytes] = {}
    for item, answer in a.report.tables.answers():
        if answer is not None:
            ours.setdefault(item, answer)
    alike: dict[str, bool] = {}
    for item, answer in b.report.tables.answers():
        if item in ours:
            alike[item] = alike.get(item, True) and answer == ours[item]
    return {
        row.sample
        for row in b.report.places()
        if row.of is None and row.system == b.system and row.item in ours and not alike.get(row.item)
    }


def _shared_verdicts(a: tuple[Side, Settings], b: tuple[Side, Settings]) -> FindValues:
    """Return a lookup of B's stored answers in which A's answer to the same item comes first."""

    @cache
    def sources() -> tuple[FindValues, FindValues]:
        ours = _labels_of(*a) or StoredAnswers(a[0].report.tables.judgements, however=True).values
        return ours, _labels_of(*b) or recorded(b[0].report).values

    def find(asked: Sequence[Sequence[AnyQuestion]]) -> list[list[Any]]:
        ours, theirs = sources()
        result = [list(values) for values in ours(asked)]
        lacking = [n for n, values in enumerate(result) if any(isinstance(v, Unanswered) for v in values)]
        for n, own in zip(lacking, theirs([asked[n] for n in lacking]) if lacking else (), strict=True):
            both = zip(result[n], own, strict=True)
            result[n] = [other if isinstance(value, Unanswered) else value for value, other in both]
        return result

    return find


def _labels_of(side: Side, settings: Settings) -> FindValues | None:
    """Return a function that reads the labels of a system judged by labels; None for a system with a judge."""
    if not settings.judged_by:
        return None
    reader = GoldJudge() if settings.judged_by == "gold" else LabelsJudge()
    for sample in side.read():
        for _, contexts in rankings(sample):
            reader.learn(sample.query, contexts, turns(sample), sample.qrels)

    def value(question: AnyQuestion) -> Any:
        judgement = judgement_of("", question, reader, reader.reply(question))
        return value_of(question, judgement.answer, judgement.error)

    return lambda asked: [list(map(value, questions)) for questions in asked]


def _refusal(pair: PairedSystems, name: str, settings: tuple[Settings, Settings]) -> str:
    """Return why the difference of a measure cannot be split, or ""."""
    a, b = pair.a, pair.b
    measure = known_measure(a.types[name])
    if measure is None:
        return "the measure is not known here"
    reasons = {
        "labels of people and of a judge are mixed in it": verdicts_of((a, b), name) == "mixed",
        "a script's score belongs to the list that it was given": measure.definition.family == "graded",
        "it takes the samples of both, which only report folders of germane run hold": not (
            a.has_samples and b.has_samples
        ),
        f"there are more than {MOST_SPLIT:,} queries": len(b.scores.cases_of(b.system)) > MOST_SPLIT,
        "the judges answered on different scales": settings[0].scale != settings[1].scale,
    }
    return next((why for why, holds in reasons.items() if holds), "")


def _with_labels(sample: Sample, other: Sample) -> Sample:
    """Return a sample with the gold and people's labels of another system's sample of the same case."""
    labels: dict[str | None, tuple[int | None, bool | None]] = {}
    for _, contexts in rankings(other):
        for context in contexts:
            if context.grade is not None or context.relevant is not None:
                labels.setdefault(context.text or context.id, (context.grade, context.relevant))
    gold = {name: of for name in _GOLD if (of := getattr(other, name)) != getattr(sample, name)}
    if not labels and not gold:
        return sample

    def labelled(context: Context) -> Context:
        own = context.grade, context.relevant
        grade, relevant = labels.get(context.text or context.id, own)
        return context if (grade, relevant) == own else replace(context, grade=grade, relevant=relevant)

    return sample.with_contexts(labelled, **gold) if labels else replace(sample, **gold)


def _split(
    pair: PairedSystems, measure: str, mixed: Floats, regolded: Bools, other_lists: Bools
) -> tuple[DifferenceParts | None, str]:
    """Return the parts of the difference of a measure; or None and why.

    `mixed` is the score of B's lists with A's labels for each case of A's report, nan where there is none. `regolded` marks the
    cases whose verdicts were asked against another text in B (gold is read from A's sample), `other_lists` those whose lists
    or answer differ.
    """
    if verdicts_of((pair.a, pair.b), measure) == "judge" and (why := how_judged(pair.a, pair.b, [measure])):
        return None, why
    ours, theirs = pair.values(measure)
    common = np.flatnonzero(ours.complete & theirs.complete)
    if not len(common):
        return None, "no query was measured in both"
    case = ours.case[common]
    a, b, regolded = ours.low[common], theirs.low[common], regolded[case]
    if (regolded & other_lists[case]).any():
        return None, "of some queries both the lists and the reference changed"
    middle = np.where(regolded, a, mixed[case])
    middle = np.where(np.isnan(middle), b, middle)  # A's verdicts say nothing of these lists
    span = limits_of(range_of(pair.a.types[measure]), ours.taken(common), theirs.taken(common))
    clusters = pair.a.scores.clusters_of(case, pair.clusters)
    return split_difference(middle - a, b - middle, clusters=clusters, value_range=span), ""
