"""Compare judges: several judges' reports on the same items, against the same people's labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Literal

import numpy as np

from germane.clean import counted
from germane.encoding import Line
from germane.errors import InputError
from germane.labelling.audit import AuditedJudge, few_items, not_counted, yes
from germane.reports.correct import corrections_of
from germane.reports.data import ReportData
from germane.reports.gates import Gate, check_gate
from germane.reports.summary import in_digits, interval_in_words, p_in_words
from germane.show.table import Table, TextDocument
from germane.statistics.agreement import Bias, agreement, compare_kappas
from germane.statistics.intervals import IntervalEnds
from germane.tables.labels import Label, LabelBook

ALPHA = 0.05
"""The p below which a judge is told apart from the best one."""


class CorrectedWidth(Line):
    """A judged mean, the same mean corrected with people's labels, and the width of its interval."""

    measure: str
    system: str
    judged: float | None
    mean: float
    interval: IntervalEnds
    width: float


class JudgeOnLabels(Line, kw_only=True):
    """One of several judges on the same `n` labelled items of `queries` queries.

    `kappa` is on yes and no; the `failed` items, which it gave no usable answer on, count as wrong: `kappa_bounds` are its ends
    if they were wrong or right, `kappa_answered` is on the others alone. `difference` is to the best judge's, with its `interval` and
    `p`; `distinguishable` says that it is worse. `kappa_graded` is on grades, where people used the judge's scale.
    `gates_otherwise` are the gates that its own verdicts decide otherwise (`judge`) than what is known best (`known`).
    """

    name: str
    judge: str | None
    report: str
    n: int
    failed: int
    queries: int
    kappa: float | None
    kappa_bounds: tuple[float | None, float | None] | None
    kappa_answered: float | None
    difference: float | None
    interval: IntervalEnds | None
    p: float | None
    distinguishable: bool
    raw: float
    kappa_graded: float | None
    bias: Bias
    corrected: list[CorrectedWidth]
    calls: int
    tokens: dict[str, int] | None
    cost_usd: float | None
    gates_otherwise: list[dict[Literal["gate", "judge", "known"], str]]


class JudgesAudit(Line, kw_only=True):
    """The document of `germane audit A B --json`: judges on the same `items`, which have `labels` of people."""

    schema_version: Literal[1] = 1
    labels: int
    items: int
    best: str
    not_distinguishable: list[str]
    judges: list[JudgeOnLabels]
    warnings: list[str]


def audit_judges(reports: Sequence[ReportData], *, every: bool = False) -> JudgesAudit:
    """Return the comparison of several reports' judges, as the document of `germane audit A B --json`.

    Every report's labels count for all, on the items that each judge was asked and people labelled; where a judge gave no
    usable answer it counts as wrong. `every`: also labels that were not drawn at random. Per judge: kappa on yes and no (grade
    2 and more), its difference to the best one's, bias, the corrected means with the widths of their intervals, calls and
    price, and which gates its own verdicts would decide otherwise than what is known best.

    Raises:
        InputError: No item is judged by all and labelled.
    """
    read = [AuditedJudge.of(report, every=every) for report in reports]
    labels = list(dict.fromkeys(label for judge in read for label in judge.labels))
    book, graded = LabelBook(labels), [judge.kinds.get("relevance", {}) for judge in read]
    asked = [mine.keys() | judge.failed for mine, judge in zip(graded, read, strict=True)]
    relevance = [label for label in book if any(label.item in mine for mine in asked)]
    by_all = (label for label in relevance if all(label.item in mine for mine in asked))
    votes = [vote for label in by_all for vote in book.votes(label.item)]
    left_out = dict.fromkeys(label for judge in read for label in judge.left_out if label not in labels)
    if not votes or not all(graded):
        problem = "no item is judged in all of these reports and labelled by people"
        fix = "name reports on the same samples, at least one labelled (germane label)"
        raise InputError("; ".join([problem, *not_counted(left_out)]), fix=fix)
    items = [vote.item for vote in votes]
    queries = [
        next(judge.occurrences[item][0][0] for judge in read if item in judge.occurrences) for item in items
    ]
    several = Counter(items)
    weights = np.array([1 / several[item] for item in items])
    people = np.array([float(vote.answer) for vote in votes])
    people_yes = np.array([yes(float(vote.answer), vote.scale) for vote in votes])
    answered = np.array([[item in mine for item in items] for mine in graded])
    pairs = list(zip(items, people_yes.tolist(), strict=True))
    verdicts = np.array(
        [[yes(*mine[item]) if item in mine else 1 - true for item, true in pairs] for mine in graded]
    )
    kappas = compare_kappas(verdicts, people_yes, queries, weights)
    at_best = compare_kappas(np.where(answered, verdicts, people_yes), people_yes, queries, weights)
    firsts = (at for at, row in enumerate(kappas) if row.kappa is not None and row.difference is None)
    best, names = next(firsts, 0), _names(reports)
    stored = (Gate.of_stored(row) for report in reports for row in report.manifest.get("gates") or ())
    gates = list(dict.fromkeys(gate for gate in stored if gate.how != "change"))
    decided, lines = _outcomes(gates, _corrected(reports[best], labels), own=False), list[JudgeOnLabels]()
    for at, (report, mine, kappa) in enumerate(zip(reports, graded, kappas, strict=True)):
        known = np.flatnonzero(answered[at])
        of, heavy = [queries[n] for n in known], weights[known]
        failed = len({item for item in items if item not in mine})
        same_scale = {mine[items[n]][1] for n in known} == {vote.scale for vote in votes}
        pair = verdicts[at, known], people_yes[known]
        alone = compare_kappas(pair[0][None], pair[1], of, heavy)[0] if failed else kappa
        if same_scale:
            pair = np.array([mine[items[n]][0] for n in known]), people[known]
        agreed = agreement(*pair, queries=of, weights=heavy) if len(known) else None
        judge, corrected = report.judge, _corrected(report, labels)
        outcomes = _outcomes(gates, corrected, own=True).items()
        line = JudgeOnLabels(
            name=names[at],
            judge=judge.source,
            report=report.where,
            n=len(several),
            failed=failed,
            queries=len(set(queries)),
            **kappa.as_json(),
            kappa_bounds=(kappa.kappa, at_best[at].kappa) if failed else None,
            kappa_answered=alone.kappa,
            distinguishable=kappa.p is not None and kappa.p < ALPHA and (kappa.difference or 0.0) < 0,
            # what a judge does not grade is wrong
            raw=(agreed.raw or 0.0) * float(heavy.sum() / weights.sum()) if agreed else 0.0,
            kappa_graded=agreed.kappa if agreed and same_scale else None,
            bias=agreed.bias if agreed else Bias(None, None),
            corrected=[
                CorrectedWidth(
                    by.measure, by.system, by.mean, mean.mean, mean.ends, mean.ends[1] - mean.ends[0]
                )
                for by in corrected.summaries
                if (mean := by.corrected) is not None
            ],
            calls=judge.calls + judge.cached,
            tokens=judge.tokens.as_json(),
            cost_usd=judge.cost_usd,
            gates_otherwise=[
                {"gate": gate, "judge": own, "known": decided[gate]}
                for gate, own in outcomes
                if own != decided.get(gate, own)
            ],
        )
        lines.append(line)
    return JudgesAudit(
        labels=len(votes),
        items=len(several),
        best=names[best],
        not_distinguishable=[line.name for line in lines if not line.distinguishable],
        judges=lines,
        warnings=[
            *_failures(lines),
            *_not_asked(relevance, asked, names),
            *not_counted(left_out),
            *few_items(len(several), "labelled item is", "labelled items are"),
            *(why for report in reports if (why := report.judge.stand_in)),
        ],
    )


def _failures(lines: Sequence[JudgeOnLabels]) -> Iterator[str]:
    for line in lines:
        if failed := line.failed:
            most = in_digits(line.kappa_bounds and line.kappa_bounds[1], digits=3)
            yield (
                f"{line.name} has no usable answer on {failed} of {counted(line.n, 'labelled item')}, which count as wrong: "
                f"kappa {in_digits(line.kappa, digits=3)}, {most} if all of them were right, "
                f"{in_digits(line.kappa_answered, digits=3)} on the others alone, which its bias is over; ask again: "
                f"germane run --resume {line.report or 'REPORT'}"
            )


def _not_asked(
    labels: Iterable[Label], asked: Sequence[Collection[str]], names: Sequence[str]
) -> Iterator[str]:
    for name, mine in zip(names, asked, strict=True):
        if missing := len({label.item for label in labels if label.item not in mine}):
            yield f"{counted(missing, 'labelled item is', 'labelled items are')} left out for all: {name} was not asked about them"


def _names(reports: Sequence[ReportData]) -> list[str]:
    """Return the judges' names, or the reports' if two judges share one."""
    names = [str(report.judge.source) for report in reports]
    if len(set(names)) == len(names):
        return names
    where = [report.where or str(number) for number, report in enumerate(reports, 1)]
    return where if len(set(where)) == len(where) else [f"{name} {n}" for n, name in enumerate(where, 1)]


def _corrected(report: ReportData, labels: Sequence[Label]) -> ReportData:
    """Return the report with its judged means corrected by these labels."""
    corrections = corrections_of(report).with_labels(labels)
    lines = []
    for summary in report.summaries:
        mean, why = corrections.of(summary) if summary.basis.source == "judge" else (None, "")
        lines.append(summary.replace(corrected=mean, corrected_why=why))
    return ReportData(report.tables, report.manifest, report.verdict, lines)


def _outcomes(gates: Sequence[Gate], report: ReportData, *, own: bool) -> dict[str, str]:
    """Return the results of gates by gate and system; `own`: by the judge's own verdicts."""
    outcomes = {}
    for gate in gates:
        asked = replace(gate, mean_of="judged") if own and gate.how in {"mean", "lower", "upper"} else gate
        with suppress(InputError):  # this report does not measure it
            results = check_gate(asked, report.summaries, report.case_scores, report.cases_by)
            for system, result in zip(report.systems, results, strict=False):
                outcomes[gate.name(system)] = str(result.outcome)
    return outcomes


def _signed(mean: float | None, ends: IntervalEnds | None) -> str:
    return f"{in_digits(mean, '+', 3)} ({interval_in_words(ends, 3, '+')})"


_HEADS = (
    "kappa (yes or no)", "less than the best", "p", "bias", "corrected width", "calls", "price", "gates decided otherwise",
)  # fmt: skip


def judges_document(audit: JudgesAudit) -> TextDocument:
    """Return the comparison of judges as text: a table, the best judge, and warnings."""
    several = any(line.failed for line in audit.judges)
    table = Table(["judge", *["failed"] * several, *_HEADS], "l" + "r" * (several + 7) + "l")
    for line in sorted(audit.judges, key=lambda line: -(line.kappa or -1.0)):
        widths = ", ".join(f"{value.width:.3f} {value.measure}" for value in line.corrected[:2])
        table.add(
            [
                line.name,
                *[line.failed] * several,
                in_digits(line.kappa, digits=3),
                _signed(line.difference, line.interval) if line.interval else None,
                p_in_words(line.p),
                _signed(line.bias.mean, line.bias.ends),
                widths or None,
                line.calls,
                "unknown" if line.cost_usd is None else f"${line.cost_usd:.4f}",
                "; ".join(value["gate"] for value in line.gates_otherwise) or None,
            ]
        )
    title = f"# {counted(len(audit.judges), 'judge')} on {counted(audit.items, 'labelled item')}"
    best, *others = (str(name) for name in (audit.best, *audit.not_distinguishable))
    result = f"best: {best}; not distinguishable from it: {', '.join(others)}"
    return TextDocument([title, "", table, "", result, *(f"- {warning}" for warning in audit.warnings)])
