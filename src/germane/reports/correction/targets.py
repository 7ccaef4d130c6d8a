"""Which labels correct which means of a report, and after how many answers."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from germane.clean import counted, some_of
from germane.errors import MeasureError
from germane.measures.measure import Measure
from germane.reports.data import ReportData
from germane.reports.summary import PASSAGE_MEANS, VERDICT_MEANS
from germane.statistics.correction import FEWEST
from germane.statistics.sampling import Design

_LEAST_QUERIES = 3
"""Queries in which passages or claims must be labelled before a mean is corrected."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelTarget:
    """The judged means of a report that one queue of labels corrects.

    Attributes:
        kind: The kind of the labels: relevance, support or sufficiency.
        design: The design of the draw.
        measures: The names of the measures.
        ordered: Those that depend on the order of the passages: they need whole queries.
        cases: The queries for which each of them has a value: the labels of others correct nothing.
    """

    kind: str
    design: Design
    measures: tuple[str, ...] = ()
    ordered: tuple[str, ...] = ()
    cases: frozenset[str] = frozenset()

    def answers_needed(self, cases: Sequence[str]) -> int:
        """The number of answers after which the means are corrected; all where there are fewer.

        `cases` holds the query of each thing to label, in the order of the draw.
        """
        return _answers_needed(cases, self.design, self.cases)

    def announcement(self, cases: Sequence[str], size: int) -> str:
        """The means that the first `size` answers correct, and after how many of them."""
        names, needed = some_of(self.measures, 4), self.answers_needed(cases)
        what = {"relevance": "passages", "support": "claims"}.get(self.kind, "sets of passages")
        how = "whole queries" if self.design == "queries" else what
        if needed > size:
            return f"not corrected by {counted(size, 'answer')}: {names}; that takes {needed:,} ({how})"
        return f"corrected after {counted(needed, 'answer')} of {size:,} ({how}): {names}"


def label_targets(report: ReportData) -> tuple[list[LabelTarget], list[str]]:
    """The queues that correct the judged means of a report, and the names of those that no labels correct.

    Whole queries where a measure depends on the order of the passages, else some passages of every query; single claims for
    context_recall and its kin; one answer per query for sufficiency.
    """
    wanted: dict[str, dict[str, bool]] = {"relevance": {}, "support": {}, "sufficiency": {}}
    never: dict[str, None] = {}
    for summary in report.summaries:
        if summary.basis.source != "judge":
            continue
        measure = Measure.remembered(summary.type)
        kind = _kind_of(measure)
        if kind is None:
            never[summary.measure] = None
        else:
            wanted[kind][summary.measure] = kind == "relevance" and measure.name not in PASSAGE_MEANS
    cases: dict[str, set[str]] = defaultdict(set)
    for score in report.scores() if any(wanted.values()) else ():
        if score.value is not None:
            cases[score.measure].add(score.sample)
    targets = [
        LabelTarget(
            kind=kind,
            design="queries" if any(of.values()) else "passages",
            measures=tuple(of),
            ordered=tuple(name for name, ordered in of.items() if ordered),
            cases=frozenset(set.intersection(*(cases[name] for name in of))),
        )
        for kind, of in wanted.items()
        if of
    ]
    return targets, list(never)


def choose_targets(
    report: ReportData, kind: str | None, design: Design | None
) -> tuple[list[LabelTarget], list[str]]:
    """The queues to label, given what a person asked for (None = not said), and the judged measures that they leave as they are."""
    targets, never = label_targets(report)
    if kind is None and design is not None and any(target.kind == "relevance" for target in targets):
        kind = "relevance"
    chosen = [target for target in targets if kind in {None, target.kind}]
    others = [name for target in targets if target not in chosen for name in target.measures]
    if design == "passages":
        others += [name for target in chosen for name in target.ordered]
        chosen = [
            replace(target, measures=tuple(name for name in target.measures if name not in target.ordered))
            for target in chosen
        ]
    chosen = chosen or [LabelTarget(kind=kind or "relevance", design="passages")]
    if design is not None:
        chosen = [replace(target, design=design) for target in chosen]
    return chosen, [*others, *never]


def shared_budget(
    targets: Sequence[LabelTarget], orders: Sequence[Sequence[str]], budget: int | None
) -> list[int]:
    """The number of answers that each queue gets of a budget: each leaves the later ones what they need; None = all.

    `orders` hold the query of each thing to label, in the order of each queue.
    """
    needed = [target.answers_needed(cases) for target, cases in zip(targets, orders, strict=True)]
    left, shares = sum(map(len, orders)) if budget is None else budget, list[int]()
    for at, cases in enumerate(orders):
        shares.append(min(len(cases), max(left - sum(needed[at + 1 :]), 0)))
        left -= shares[-1]
    return shares


def _kind_of(measure: Measure) -> str | None:
    """The kind of the labels that a judged measure can be computed from; None where people cannot give them."""
    if measure.name in VERDICT_MEANS:
        return "sufficiency" if measure.name == "context_sufficiency" else "support"
    if measure.definition.family != "ranked":
        return None
    try:
        Measure(measure.name, {**measure.params, "labels": "human"}, measure.cutoff)  # type: ignore[arg-type]
    except MeasureError:
        return None
    return "relevance"


def _answers_needed(cases: Sequence[str], design: Design, measured: Collection[str]) -> int:
    answers = labels = 0
    if design == "queries":
        for case, size in Counter(cases).items():
            answers, labels = answers + size, labels + (case in measured)
            if labels == FEWEST:
                break
        return answers
    seen = set[str]()
    for answers, case in enumerate(cases, 1):
        if case in measured:
            labels += 1
            seen.add(case)
        if labels >= FEWEST and len(seen) >= _LEAST_QUERIES:
            return answers
    return len(cases)
