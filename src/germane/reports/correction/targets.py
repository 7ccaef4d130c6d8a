"""Find the judged means that people's labels can correct, and the number of answers needed for this."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from germane.clean import counted, some_of
from germane.errors import MeasureError
from germane.measures.measure import Measure
from germane.reports.data import ReportData
from germane.reports.summary import PASSAGE_MEANS, VERDICT_MEANS
from germane.statistics.correction import FEWEST, Design

_LEAST_QUERIES = 3  # queries with labels that a correction needs at least


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelTarget:
    """The judged means that people's labels of one `kind` (relevance, support or sufficiency) can correct.

    `design` is the unit of the random draw: single passages or claims, or whole queries. `measures` are the
    measures whose means are corrected. `ordered` are the measures that depend on the order of the passages
    and therefore need whole queries. `cases` are the queries for which every measure has a value; labels of
    other queries correct nothing.
    """

    kind: str
    design: Design
    measures: tuple[str, ...] = ()
    ordered: tuple[str, ...] = ()
    cases: frozenset[str] = frozenset()

    def answers_needed(self, cases: Sequence[str]) -> int:
        """Return the number of answers needed to correct the means, given the query of each item in order."""
        labels, answers, seen = 0, 0, set[str]()
        if self.design == "queries":
            for case, size in Counter(cases).items():
                answers, labels = answers + size, labels + (case in self.cases)
                if labels == FEWEST:
                    break
            return answers
        for answers, case in enumerate(cases, 1):
            if case in self.cases:
                labels += 1
                seen.add(case)
            if labels >= FEWEST and len(seen) >= _LEAST_QUERIES:
                return answers
        return len(cases)

    def announcement(self, cases: Sequence[str], size: int) -> str:
        """Return which means the first `size` answers correct, given the query of each item in order."""
        names, needed = some_of(self.measures, 4), self.answers_needed(cases)
        what = {"relevance": "passages", "support": "claims"}.get(self.kind, "sets of passages")
        how = "whole queries" if self.design == "queries" else what
        if needed > size:
            return f"not corrected by {counted(size, 'answer')}: {names}; correcting takes {needed:,} ({how})"
        return f"corrected after {counted(needed, 'answer')} of {size:,} ({how}): {names}"


def choose_targets(
    report: ReportData, kind: str | None, design: Design | None
) -> tuple[list[LabelTarget], list[str]]:
    """Return the label targets of a report, of this `kind` and `design`, and the judged measures left out.

    Measures of order need labels of whole queries, others of some passages, of claims or one per query.
    """
    wanted: dict[str, dict[str, bool]] = {"relevance": {}, "support": {}, "sufficiency": {}}
    never: dict[str, bool] = {}
    for summary in report.summaries:  # store by kind if each measure depends on the order of passages
        if summary.basis.source == "judge":
            measure = Measure.remembered(summary.type)
            of = _kind_of(measure)
            by_order = of == "relevance" and measure.name not in PASSAGE_MEANS
            wanted.get(of, never)[summary.measure] = by_order
    if kind is None and design is not None and wanted["relevance"]:
        kind = "relevance"
    cases: dict[str, set[str]] = defaultdict(set)
    for score in report.scores() if any(wanted.values()) else ():
        if score.value is not None:
            cases[score.measure].add(score.sample)
    targets, others, left_out = list[LabelTarget](), list[str](), list[str]()
    for of, names in wanted.items():
        if kind not in {None, of}:
            others += names
        elif names:
            ordered = tuple(name for name, by_order in names.items() if by_order)
            of_all = frozenset(set.intersection(*(cases[name] for name in names)))
            unit: Design = design or ("queries" if ordered else "passages")
            measures = tuple(name for name in names if not (design == "passages" and name in ordered))
            left_out += [name for name in names if name not in measures]
            targets.append(
                LabelTarget(kind=of, design=unit, measures=measures, ordered=ordered, cases=of_all)
            )
    targets = targets or [LabelTarget(kind=kind or "relevance", design=design or "passages")]
    return targets, [*others, *left_out, *never]


def shared_budget(
    targets: Sequence[LabelTarget], orders: Sequence[Sequence[str]], budget: int | None
) -> list[int]:
    """Return how many answers of `budget` (None = all) each target gets, with enough left for later ones."""
    needed = [target.answers_needed(cases) for target, cases in zip(targets, orders, strict=True)]
    left, shares = sum(map(len, orders)) if budget is None else budget, list[int]()
    for at, cases in enumerate(orders):
        shares.append(min(len(cases), max(left - sum(needed[at + 1 :]), 0)))
        left -= shares[-1]
    return shares


def _kind_of(measure: Measure) -> str:
    """Return the kind of labels from which a judged measure can be computed too; "" for none."""
    if measure.name in VERDICT_MEANS:
        return "sufficiency" if measure.name == "context_sufficiency" else "support"
    if measure.definition.family != "ranked":
        return ""
    try:
        Measure(measure.name, {**measure.params, "labels": "human"}, measure.k)  # type: ignore[arg-type]
    except MeasureError:
        return ""
    return "relevance"
