"""Split the difference of two systems by scoring B's lists with A's verdicts and gold.

If M is that score, M - A is due to retrieval and B - M is due to the labels.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from math import fsum
from typing import Any

import numpy as np
from msgspec.structs import replace

from germane.comparison.corrected import DecidedPair, how_judged, verdicts_of
from germane.encoding import batched
from germane.judging.recorded import StoredAnswers
from germane.measures.declaration import graders_of
from germane.measures.measure import Measure
from germane.measures.scoring import Block, Job
from germane.places.lists import Settings, field_text, rankings
from germane.places.table import Floats
from germane.questions.asking import FindValues, Unanswered, results_of
from germane.questions.question import AnyQuestion
from germane.reports.data import ReportData
from germane.reports.explain import settings_of
from germane.reports.pairing import PairedSystems, Side
from germane.reports.summary import known_measure
from germane.statistics.comparison import DifferenceParts
from germane.types import Context, Sample

MOST_SPLIT = 20_000
"""The most cases for which a difference is split, as each list must be scored once more."""
_CASES_PER_BLOCK = 500
_TEXTS = ("reference", "criterion")
"""Fields, besides query and contexts, whose text may be part of a measure's questions."""
_GOLD = ("qrels", "gold", "evidence", "answerable", "forbidden", "grade_scale")


def parts_of(pair: DecidedPair, measures: Sequence[str]) -> dict[str, tuple[DifferenceParts | None, str]]:
    """Return, by measure, (parts, ""), or (None, the reason why the difference cannot be split).

    The two parts of the difference are due to retrieval and to labels. If A has no verdict on a passage of
    B's lists, B's own verdict is used.
    """
    a, b = pair.a, pair.b
    if a.report is b.report:  # one report holds one verdict per item: all of the difference is retrieval
        unchanged = np.full(len(a.scores.cases), np.nan)
        return {name: _split(pair, name, unchanged) for name in measures}
    settings = settings_of(a.report), settings_of(b.report)
    result: dict[str, tuple[DifferenceParts | None, str]] = {
        name: (None, why) for name in measures if (why := _refusal(pair, name, settings))
    }
    scorable = {name: Measure.parse(a.types[name]) for name in measures if name not in result}
    if not scorable:
        return result
    mixed, texts_differ = _scored_again(pair, scorable, settings)
    for name, sums in mixed.items():
        if texts_differ and verdicts_of((a, b), name) == "judge":
            result[name] = None, "the judges were shown different references or criteria"
        else:
            result[name] = _split(pair, name, sums)
    return result


def _scored_again(
    pair: DecidedPair, measures: dict[str, Measure], both: tuple[Settings, Settings]
) -> tuple[dict[str, Floats], bool]:
    """Return the scores of B's lists with A's labels, by measure and case; True if judges saw other texts.

    A score is nan if A's and B's labels are the same, because it then equals B's stored score.
    """
    a, b, (ours, theirs) = pair.a, pair.b, both
    changed: Container[str] = a.scores.numbers if pair.by_query else _judged_otherwise(a, b)
    settings = theirs if ours.judged_by == theirs.judged_by else theirs.with_judge("")
    graders, find = graders_of(tuple(measures.values())), None
    sums = {name: np.zeros(len(a.scores.cases)) for name in measures}
    trials, texts_differ = np.zeros(len(a.scores.cases)), False
    for some in batched(pair.samples_in_both(), _CASES_PER_BLOCK):
        jobs, case_of = list[Job](), list[int]()
        for case, before, after in some:
            first, other = before[0], after[0]
            texts_differ |= ours.shown_with(first) != theirs.shown_with(other)
            texts_differ |= any(field_text(first, name) != field_text(other, name) for name in _TEXTS)
            samples = [_with_labels(sample, first) for sample in after]
            if case in changed or samples != after:
                jobs += [Job(sample=sample, graders=graders) for sample in samples]
                case_of += [a.scores.numbers[case]] * len(samples)
        if not jobs:
            continue
        find = find or _shared_verdicts(a.report, b.report)
        block = Block(jobs=jobs, settings=settings)
        for number, outcome in zip(case_of, block.outcomes(results_of(block.programs, find)), strict=True):
            trials[number] += 1
            for name, measure in measures.items():
                value = outcome[str(measure)].value
                sums[name][number] += np.nan if value is None else value
    scored = np.where(trials > 0, trials, np.nan)
    return {name: total / scored for name, total in sums.items()}, texts_differ


def _judged_otherwise(a: Side, b: Side) -> Container[str]:
    """Return the ids of B's cases with an item (e.g. a passage) to which A and B store different answers."""
    ours: dict[str, bytes] = {}
    for item, answer in a.report.tables.answers():
        if answer is not None:
            ours.setdefault(item, answer)
    alike: dict[str, bool] = {}
    for item, answer in b.report.tables.answers():
        alike[item] = alike.get(item, True) and answer == ours.get(item)
    rows = (row for row in b.report.places() if row.of is None and row.system == b.system)
    return {row.sample for row in rows if row.item in ours and not alike.get(row.item)}


def _shared_verdicts(a: ReportData, b: ReportData) -> FindValues:
    """Return a function that looks up the stored answer to each question: A's, or B's if A has no answer."""
    ours, theirs = StoredAnswers(a.tables.judgements, however=True), StoredAnswers(b.tables.judgements)

    def find(asked: Sequence[Sequence[AnyQuestion]]) -> list[list[Any]]:
        result = [list(values) for values in ours.values(asked)]
        lacking = [n for n, values in enumerate(result) if any(isinstance(v, Unanswered) for v in values)]
        for n, own in zip(lacking, theirs.values([asked[n] for n in lacking]), strict=True):
            both = zip(result[n], own, strict=True)
            result[n] = [other if isinstance(value, Unanswered) else value for value, other in both]
        return result

    return find


def _refusal(pair: PairedSystems, name: str, settings: tuple[Settings, Settings]) -> str:
    """Return the reason why a measure's difference cannot be split; "" if it can."""
    a, b, measure = pair.a, pair.b, known_measure(pair.a.types[name])
    sources = {a.source(name), b.source(name)}
    reasons = {
        "this version of germane does not know the measure, so it cannot be computed again": measure is None,
        "the measure mixes people's labels with a judge's": "best" in sources,
        "one system's verdicts are people's labels, the other's are gold": sources == {"human", "gold"},
        "the score is a script's, which cannot be computed again": (
            measure is not None and measure.definition.family == "graded"
        ),
        "the samples of both systems are needed; only report folders of germane run have them": not (
            a.has_samples and b.has_samples
        ),
        f"system B has more than {MOST_SPLIT:,} queries": len(b.scores.cases_of(b.system)) > MOST_SPLIT,
        "the two judges answered on different scales": settings[0].scale != settings[1].scale,
    }
    return next((why for why, holds in reasons.items() if holds), "")


def _with_labels(sample: Sample, other: Sample) -> Sample:
    """Return `sample` with the gold and people's labels of `other`, the other system's sample of the case."""
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


def _split(pair: PairedSystems, measure: str, mixed: Floats) -> tuple[DifferenceParts | None, str]:
    """Return (parts of the difference, "") or (None, why not); `mixed` is nan where it equals B's score."""
    if verdicts_of((pair.a, pair.b), measure) == "judge" and (why := how_judged(pair.a, pair.b, [measure])):
        return None, why
    ours, theirs = pair.values(measure)
    common = np.flatnonzero(ours.complete & theirs.complete)
    if not len(common):
        return None, "no query has a score in both systems"
    a, b, middle = ours.low[common], theirs.low[common], mixed[ours.case[common]]
    middle = np.where(np.isnan(middle), b, middle)
    retrieval, labels = (fsum(part.tolist()) / len(common) for part in (middle - a, b - middle))
    return DifferenceParts(retrieval, labels), ""
