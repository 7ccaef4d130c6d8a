"""Compare several judges with the same people's labels, on the items that all of them judged."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

import numpy as np

from germane.clean import counted
from germane.encoding import Line
from germane.errors import InputError
from germane.labelling.audit import AuditedJudge, few_items, not_counted, yes
from germane.reports.data import ReportData
from germane.reports.summary import in_digits, interval_in_words, p_in_words
from germane.show.table import Table, TextDocument
from germane.statistics.agreement import Bias, agreement, cohen_kappa, confusion
from germane.statistics.comparison import paired_difference
from germane.statistics.intervals import IntervalEnds
from germane.tables.labels import LabelBook

ALPHA = 0.05
"""The p-value below which a judge counts as worse than the best one."""


class JudgeOnLabels(Line, kw_only=True):
    """One of several judges, compared with the same `n` labels of people in `queries` queries.

    `kappa` is the agreement on yes and no; `failed` counts labels of items on which the judge gave no usable
    answer, which count as wrong. `difference` is the judge's share of verdicts that equal people's labels
    less that of the best judge, with `interval` and `p`; `distinguishable` is true if the judge is worse than
    the best. `bias` is the judge's share of yes less people's, without failed items.
    """

    name: str
    judge: str | None
    report: str
    n: int
    failed: int
    queries: int
    kappa: float | None
    difference: float | None
    interval: IntervalEnds | None
    p: float | None
    distinguishable: bool
    bias: Bias
    calls: int
    cost_usd: float | None


class JudgesAudit(Line, kw_only=True):
    """The document that `germane audit A B --json` prints: several judges on the same labelled items.

    `labels` and `items` are the numbers of people's labels and of labelled items.
    """

    schema_version: Literal[1] = 1
    labels: int
    items: int
    best: str
    not_distinguishable: list[str]
    judges: list[JudgeOnLabels]
    warnings: list[str]


def audit_judges(reports: Sequence[ReportData], *, every: bool = False) -> JudgesAudit:
    """Return the comparison of several reports' judges with people's labels.

    The labels of all reports are pooled, and read as yes (grade 2 or 3) or no, on the items that every judge
    was asked about. An unusable answer of a judge counts as wrong. `every` also counts labels that were not
    drawn at random. Raises InputError if no item is both judged in all reports and labelled.
    """
    read = [AuditedJudge.of(report, every=every) for report in reports]
    labels = list(dict.fromkeys(label for judge in read for label in judge.labels))
    book, graded = LabelBook(labels), [judge.kinds.get("relevance", {}) for judge in read]
    asked = [mine.keys() | judge.failed for mine, judge in zip(graded, read, strict=True)]
    by_all = (label for label in book if all(label.item in mine for mine in asked))
    votes = [vote for label in by_all for vote in book.votes(label.item)]
    left_out = dict.fromkeys(label for judge in read for label in judge.left_out if label not in labels)
    if not votes or not all(graded):
        problem = "no passage is both judged in all of these reports and labelled by people"
        fix = "name reports on the same samples, and label one of them (germane label)"
        raise InputError("; ".join([problem, *not_counted(left_out)]), fix=fix)
    items = [vote.item for vote in votes]
    query_of = {item: query for judge in read for item, query in judge.query_of.items()}
    queries = np.array([query_of[item] for item in items])
    people = np.array([yes(float(vote.answer), vote.scale) for vote in votes])
    answers = np.array([[yes(*mine[item]) if item in mine else np.nan for item in items] for mine in graded])
    failed = np.isnan(answers)
    verdicts = np.where(failed, 1 - people, answers)
    kappas = [cohen_kappa(confusion(row, people)) for row in verdicts]
    best = int(np.argmax([-1.0 if kappa is None else kappa for kappa in kappas]))
    names, lines = [str(report.judge.source) for report in reports], list[JudgeOnLabels]()
    if len(set(names)) < len(names):
        names = [report.where or str(number) for number, report in enumerate(reports, 1)]
    for at, (report, kappa) in enumerate(zip(reports, kappas, strict=True)):
        known = np.flatnonzero(~failed[at])
        agreed = agreement(answers[at, known], people[known], scale=(0, 1), queries=queries[known])
        equal = (verdicts[[best, at]] == people).astype(float)
        less = paired_difference(*equal, clusters=queries, value_range=(0.0, 1.0))
        line = JudgeOnLabels(
            name=names[at],
            judge=report.judge.source,
            report=report.where,
            n=len(items),
            failed=int(failed[at].sum()),
            queries=len(np.unique(queries)),
            kappa=kappa,
            difference=None if at == best else less.difference,
            interval=None if at == best else less.interval.ends,
            p=None if at == best else less.p,
            distinguishable=(less.p or 1.0) < ALPHA and (less.difference or 0.0) < 0,
            bias=agreed.bias,
            calls=report.judge.calls + report.judge.cached,
            cost_usd=report.judge.cost_usd,
        )
        lines.append(line)
    n_items = len(set(items))
    few = few_items(n_items, "labelled item is", "labelled items are")
    stand_ins = [why for report in reports if (why := report.judge.stand_in)]
    return JudgesAudit(
        labels=len(votes),
        items=n_items,
        best=names[best],
        not_distinguishable=[line.name for line in lines if not line.distinguishable],
        judges=lines,
        warnings=[*_failures(lines), *not_counted(left_out), *few, *stand_ins],
    )


def _failures(lines: Sequence[JudgeOnLabels]) -> Iterator[str]:
    for line in lines:
        if line.failed:
            on = f"for {line.failed} of {counted(line.n, 'label')}, which counts as wrong"
            again = f"ask again: germane run --resume {line.report or 'REPORT'}"
            yield f"the judge {line.name} has no usable answer {on}; {again}"


_HEADS = ("failed", "kappa (yes or no)", "agreement less the best", "p", "bias", "calls", "price")


def judges_document(audit: JudgesAudit) -> TextDocument:
    """Return the comparison of judges as text: a table of agreement, the best judge, and warnings."""
    table = Table(["judge", *_HEADS], "l" + "r" * len(_HEADS))
    for line in sorted(audit.judges, key=lambda line: -(line.kappa or -1.0)):
        less = _signed(line.difference, line.interval) if line.interval else None
        price = "unknown" if line.cost_usd is None else f"${line.cost_usd:.4f}"
        figures = [in_digits(line.kappa, digits=3), less, p_in_words(line.p)]
        bias = _signed(line.bias.mean, line.bias.ends)
        table.add([line.name, line.failed, *figures, bias, line.calls, price])
    title = f"# {counted(len(audit.judges), 'judge')} on {counted(audit.items, 'labelled item')}"
    best, *others = (str(name) for name in (audit.best, *audit.not_distinguishable))
    result = f"best: {best}; not distinguishable from it: {', '.join(others)}"
    return TextDocument([title, "", table, "", result, *(f"- {warning}" for warning in audit.warnings)])


def _signed(mean: float | None, ends: IntervalEnds | None) -> str:
    return f"{in_digits(mean, '+', 3)} ({interval_in_words(ends, 3, '+')})"
