"""The mean over the passages that were judged, each counting once, corrected with people's labels (estimand A)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import fsum, nan

import numpy as np
from numpy.typing import NDArray

from germane.labelling.schema import SetMeanLine
from germane.questions.relevance import HELPS
from germane.reports.correct import largest_draw
from germane.reports.correction.draws import design_of
from germane.reports.schema import line_of
from germane.statistics.correction import CorrectedMean, between, corrected_mean, corrected_query_mean
from germane.statistics.intervals import cluster_codes
from germane.tables.labels import Label, LabelBook
from germane.types import NOTHING, Json

Floats = NDArray[np.float64]

SHARE, MEAN, YES = f"share of grades {HELPS} and more", "mean grade", "share of yes"


def set_means(
    kind: str,
    graded: Mapping[str, tuple[float, str]],
    cases: Mapping[str, str],
    labels: Sequence[Label],
    probabilities: Mapping[str, Sequence[float]] = NOTHING,
) -> Iterator[dict[str, Json]]:
    """The means over everything of a kind that the judge judged, and the same corrected: one line per value.

    Of graded things these are the share of grades 2 and more and the mean grade, else the share of yes.

    Args:
        kind: What was judged.
        graded: The judge's grade of each item, and its scale.
        cases: The query of each item.
        labels: People's labels of this kind that count.
        probabilities: Of items whose grade is the mode of a distribution: of each grade from 0 up.
    """
    items = list(graded)
    grades = np.array([grade for grade, _ in graded.values()])
    scales = {scale for _, scale in graded.values()}
    yes_no = scales == {"binary"}
    if not items or (len(scales) > 1 and "binary" in scales):
        return
    mine, queue, design = largest_draw(labels) if labels else ([], "", "")
    drawn = LabelBook(mine)
    of_case = cluster_codes([cases.get(item, item) for item in items])
    illegal = int(((grades < 0) | (grades > (1 if yes_no else 3))).sum())
    for value in (YES,) if yes_no else (SHARE, MEAN):
        judged = (grades >= HELPS).astype(float) if value == SHARE else grades
        proxy = grades
        if probabilities:
            proxy = judged = np.array([
                _expected(probabilities[item], value) if item in probabilities else entry
                for item, entry in zip(items, judged.tolist(), strict=True)
            ])  # fmt: skip
        least, most = (_people(items, drawn, value, unsure) for unsure in (0.0, 1.0))
        unsure = int((most > least).sum())
        limits = (0.0, 3.0) if value == MEAN else (0.0, 1.0)
        if not len(drawn):
            result: CorrectedMean | str = "no labels that count"
        elif illegal:
            result = f"{illegal} grades are outside the scale"
        elif np.isnan(least).all():
            result = "people said yes or no" if value == MEAN else "people labelled other things"
        elif queue == "stratified" and _moved(items, grades, drawn):
            result = "the judge's verdicts changed after labels were drawn from their strata"
        else:
            ends = (least, most) if unsure else (least,)
            draw = queue, design
            sides = [_corrected(judged, people, grades, proxy, of_case, draw, limits) for people in ends]
            result = between(*sides, unsure=unsure) if unsure else sides[0]
        yield _line(kind, value, float(judged.mean()), len(items), result)


def _expected(probabilities: Sequence[float], value: str) -> float:
    """The mean grade of a distribution, or how probable it is that a grade counts as relevant."""
    if value == SHARE:
        return fsum(probabilities[HELPS:])
    return fsum(grade * probability for grade, probability in enumerate(probabilities))


def _value(label: Label, value: str) -> float:
    if label.scale == "binary":
        return nan if value == MEAN else float(bool(label.answer))
    return float(label.answer) if value == MEAN else float(label.answer >= HELPS)


def _people(items: Sequence[str], book: LabelBook, value: str, unsure: float) -> Floats:
    """The mean of what people say of each item, nan where nobody was asked; who could not tell counts as `unsure`."""
    top = 3.0 if value == MEAN else 1.0
    votes = (
        [*(_value(vote, value) for vote in book.votes(item)), *[unsure * top] * book.unsure(item)]
        for item in items
    )
    return np.array([fsum(vote) / len(vote) if vote else nan for vote in votes])


def _moved(items: Sequence[str], grades: Floats, drawn: LabelBook) -> bool:
    """True if an item stands in another stratum than the one that it was drawn from."""
    strata = ((drawn.get(item), grade) for item, grade in zip(items, grades.tolist(), strict=True))
    return any(label and design_of(label).get("stratum") != str(int(grade)) for label, grade in strata)


def _corrected(
    judged: Floats,
    people: Floats,
    grades: Floats,
    proxy: Floats,
    cases: NDArray[np.intp],
    draw: tuple[str, str],
    limits: tuple[float, float],
) -> CorrectedMean:
    """The corrected mean, by how the labels were drawn."""
    if draw[0] == "stratified":
        return corrected_mean(judged, people, proxy=proxy, strata=grades.astype(int), value_range=limits)
    if draw[1] == "queries":
        partly = np.isin(cases, cases[np.isnan(people)])
        whole = np.where(partly, nan, people)
        return corrected_mean(judged, whole, proxy=proxy, clusters=cases, value_range=limits)
    # Some of every query: as a mean over queries (estimand C) in which each query weighs as much as it holds. Values are
    # counted from the labels' own mean, or a query without a label would add its size alone (a ratio estimator).
    sizes = np.bincount(cases)
    scale = (sizes * len(sizes) / len(cases))[cases]
    middle = _mean_of_labelled(people, cases, sizes)
    mean = corrected_query_mean(
        (judged - middle) * scale,
        (people - middle) * scale,
        cases,
        proxy=(proxy - proxy.mean()) * scale,
        value_range=(float(scale.max()) * (limits[0] - middle), float(scale.max()) * (limits[1] - middle)),
    )

    def back(ends: tuple[float, float] | None) -> tuple[float, float] | None:
        return ends and (max(ends[0] + middle, limits[0]), min(ends[1] + middle, limits[1]))

    return replace(
        mean,
        judged=mean.judged + middle,
        mean=None if mean.mean is None else min(max(mean.mean + middle, limits[0]), limits[1]),
        ends=back(mean.ends),
        human=None if mean.human is None else mean.human + middle,
        human_ends=back(mean.human_ends),
    )


def _mean_of_labelled(people: Floats, cases: NDArray[np.intp], sizes: NDArray[np.intp]) -> float:
    """The mean of the queries' mean labels, each weighing as much as its query holds; 0 without labels."""
    labelled = ~np.isnan(people)
    counts = np.bincount(cases[labelled], minlength=len(sizes))
    sums = np.bincount(cases[labelled], people[labelled], minlength=len(sizes))
    some = counts > 0
    return float(sizes[some] @ (sums[some] / counts[some]) / sizes[some].sum()) if some.any() else 0.0


def _line(kind: str, value: str, judged: float, total: int, mean: CorrectedMean | str) -> dict[str, Json]:
    line: dict[str, Json] = {"kind": kind, "value": value, "judged": judged, "total": total}
    if isinstance(mean, str) or mean.mean is None:
        return {**line, "corrected": None, "why": mean if isinstance(mean, str) else mean.why}
    ends = mean.ends or (mean.mean, mean.mean)  # everything is labelled
    alone = None if mean.human_ends is None else list(mean.human_ends)
    corrected = line_of(SetMeanLine, mean, interval=list(ends), estimand="set", labels_alone=alone)
    return {**line, "corrected": corrected, "why": None}
