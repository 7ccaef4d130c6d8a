"""Audit one or several judges: measure how far their verdicts agree with people's labels.

Several judges are compared on the items that all of them judged.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any, Literal, TypeAlias

import numpy as np
from msgspec import UNSET, UnsetType

from germane.clean import counted
from germane.encoding import Line
from germane.errors import InputError
from germane.judges.client.providers import PROVIDERS
from germane.questions.relevance import HELPS
from germane.reports.data import ReportData, models_in
from germane.reports.label_draws import is_drawn
from germane.reports.summary import in_digits, interval_in_words, p_in_words
from germane.show.table import Table, TextDocument
from germane.statistics.agreement import Bias, JudgeAgreement, agreement, cohen_kappa, confusion
from germane.statistics.intervals import IntervalEnds
from germane.statistics.systems import paired_difference
from germane.tables.labels import Label, LabelBook, by_people
from germane.types import Judgement

Grades: TypeAlias = Mapping[str, tuple[float, str]]
"""The judge's grade of each item, and its scale."""

FEW = 30
"""An agreement over fewer labels than this says little."""
SLIGHT = 0.2
"""The kappa below which agreement is at most slight (Landis and Koch, 1977)."""
_OFF_SCALE = re.compile(r'"grade": Input should be .* not (-?\d+(?:\.\d+)?)$')
"""Matches the error of a judgement whose grade is outside the scale; the group is the grade."""
_SCALES: dict[str, tuple[float, ...]] = {"graded": (0, 1, 2, 3), "binary": (0, 1)}


class ShiftLine(Line):
    """The change (`shift`) of a judged mean if new verdicts replace the stored verdicts, and its interval."""

    shift: float | None
    interval: IntervalEnds | None


class AgainLine(Line, kw_only=True):
    """The result of asking the judge again for verdicts that are stored (--again).

    Measures read `of` stored verdicts, of which `asked` were asked again. `flips` counts the new verdicts
    that differ from the stored ones. Asked a third time about these, the judge repeated the new verdict in
    `confirmed` cases and the stored verdict in `taken_back` cases. `errors` counts questions without an
    answer. `changed` is null if neither a change nor the absence of a large change can be shown, for the
    reason `why`. `calls` and `cost_usd` are the cost of asking again.
    """

    asked: int
    of: int
    flips: int
    confirmed: int
    taken_back: int
    errors: int
    kappa: float | None
    means: dict[str, ShiftLine]
    changed: bool | None
    why: str
    calls: int
    cost_usd: float | None

    def lines(self) -> list[str]:
        """Return the lines that `germane audit` prints: whether the judge changed, flips, shifts of means."""
        verdict = "the judge has changed" if self.changed else "no change of the judge"
        if self.changed is None:
            verdict = f"it is undecided whether the judge has changed: {self.why}"
        if not self.asked:
            return [verdict]
        flips = f"{self.flips} of {counted(self.asked, 'verdict')} flipped when asked again"
        flips += "" if self.kappa is None else f", kappa {self.kappa:.2f}"
        if self.flips:
            flips += (
                f"; asked a third time, {self.confirmed} stayed flipped and {self.taken_back} flipped back"
            )
        shifts = [
            f"{name}: shift {line.shift:+.3f} ({line.interval[0]:+.3f} to {line.interval[1]:+.3f})"
            for name, line in self.means.items()
            if line.shift is not None and line.interval is not None
        ]
        return [f"{verdict}: {flips}", *shifts]


class AuditDocument(Line):
    """The document that `germane audit --json` prints: the judge's agreement with people, by kind and scale.

    `again` is present with --again.
    """

    schema_version: Literal[1]
    judge: str | None
    kinds: list[JudgeAgreement]
    warnings: list[str]
    again: AgainLine | UnsetType = UNSET


@dataclass(frozen=True, slots=True)
class AuditedJudge:
    """The part of a report that an audit reads: the judge's grades, and people's labels of the same items.

    `kinds` holds the judge's grades by kind, `query_of` the query of each item. `labels` are the labels that
    the audit counts, `left_out` people's labels that it does not count. `failed` holds the passages for which
    the judge gave no usable answer.
    """

    kinds: Mapping[str, Grades]
    query_of: Mapping[str, str]
    labels: Sequence[Label]
    left_out: Sequence[Label] = ()
    failed: frozenset[str] = frozenset()

    @classmethod
    def of(cls, report: ReportData, *, every: bool) -> AuditedJudge:
        """Read the judge's grades and people's labels from a report.

        Only labels that were drawn at random count, unless `every` is true. If every judged item of a kind is
        labelled, all labels of the kind count.
        """
        query_of: dict[str, str] = {}
        parts: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for row in report.places():
            query_of.setdefault(row.item, row.sample)
            if row.of is not None and row.part is not None:
                parts[row.of].append((row.part, row.item))
        kinds: dict[str, dict[str, tuple[float, str]]] = defaultdict(dict)
        failed: set[str] = set()
        for judgement in report.judgements():
            if judgement.parent is None:
                graded = kinds[judgement.kind]
                if judgement.error is not None and judgement.kind == "relevance":
                    failed.add(judgement.item)
                for item, grade, scale in _graded(judgement, parts.get(judgement.item, ())):
                    graded.setdefault(item, (grade, scale))
        labels = tuple(report.labels())
        book = LabelBook(labels)
        whole = {kind for kind, graded in kinds.items() if graded and all(item in book for item in graded)}
        counting, left_out = list[Label](), list[Label]()
        for label in labels:
            if label.kind in kinds and (every or label.kind in whole or is_drawn(label)):
                counting.append(label)
            elif by_people(label):
                left_out.append(label)
        return cls(kinds, query_of, counting, left_out, frozenset(failed - kinds["relevance"].keys()))


def _graded(judgement: Judgement, parts: Iterable[tuple[int, str]]) -> Iterator[tuple[str, float, str]]:
    """Yield (item, grade, scale) for each item that a judgement grades, even outside the scale."""
    answer: Any = judgement.answer
    if judgement.error is not None:
        if (match := _OFF_SCALE.search(judgement.error)) and judgement.kind == "relevance":
            yield judgement.item, float(match[1]), "graded"
    elif judgement.kind == "relevance":
        scale, name = ("graded", "grade") if "grade" in answer else ("binary", "relevant")
        yield judgement.item, float(answer[name]), scale
    elif judgement.kind == "sufficiency":
        yield judgement.item, float(answer["sufficient"]), "binary"
    elif judgement.kind == "support":
        verdicts = {value["claim"]: float(bool(value["contexts"])) for value in answer["claims"]}
        yield from ((item, verdicts[number], "binary") for number, item in parts if number in verdicts)


def audit_judge(report: ReportData, *, every: bool = False, again: AgainLine | None = None) -> AuditDocument:
    """Return the audit of a report's judge: its agreement with people's labels, and warnings.

    With `every`, labels that were not drawn at random count too; the agreement then describes only the
    labelled items. `again` is the result of asking the judge again for stored verdicts.
    """
    source = report.judge.source
    labelled = next(iter(report.labels()), None) is not None
    read = AuditedJudge.of(report, every=every) if labelled else AuditedJudge({}, {}, ())
    kinds = list[JudgeAgreement]()
    for kind, graded in sorted(read.kinds.items()):
        book = LabelBook(label for label in read.labels if label.kind == kind)
        pairs: dict[str, list[tuple[str, float, float]]] = defaultdict(list)
        for label in (vote for first in book for vote in book.votes(first.item) if first.item in graded):
            grade, scale = graded[label.item]
            if scale == label.scale:
                pairs[scale].append((label.item, grade, float(label.answer)))
            elif {scale, label.scale} == {"graded", "binary"}:  # a grade is made a yes or no
                both = _yes(grade, scale), _yes(float(label.answer), label.scale)
                pairs["binary"].append((label.item, *both))
        for scale, rows in pairs.items():
            items, judge, people = zip(*rows, strict=True)
            grades = _SCALES.get(scale) or sorted({*judge, *people})  # else those that occur
            queries = [read.query_of.get(item, item) for item in items]
            result = agreement(judge, people, scale=grades, queries=queries)
            kinds.append(result.replace(kind=kind, scale=scale))
    if not source:
        problem = "no judge was asked, so there are no verdicts to compare with people's labels"
        only = f"{problem}; run germane run SAMPLES --judge JUDGE"
        return AuditDocument(1, source, kinds, [only], again or UNSET)
    warnings = [*_not_counted(read.left_out)]
    if not kinds and not read.left_out:
        text = "there are no people's labels to compare the judge with; run germane label REPORT --budget 100"
        warnings.append(text)
    for line in kinds:
        warnings += [f"{line.kind}: {warning}" for warning in _few_items(line.n, "label is", "labels are")]
        if line.base_rate == 1.0:
            warnings.append(f"{line.kind}: people's labels are all equal, so kappa cannot rate the judge")
        elif (kappa := line.kappa_quadratic) is not None and kappa < SLIGHT:
            hardly = f"agrees with people hardly more than by chance (quadratic kappa {kappa:.2f} of 1)"
            warnings.append(f"{line.kind}: the judge {hardly}; do not use its verdicts")
        if line.illegal:
            text = ", ".join(f"{grade} ({count})" for grade, count in line.illegal.items())
            warnings.append(f"{line.kind}: the judge gave grades outside the scale: {text}")
    warnings += [report.judge.stand_in] if report.judge.stand_in else []
    asked = report.manifest.get("asked") or {}
    if failed := {kind: counts["errors"] for kind, counts in asked.items() if counts.get("errors")}:
        have = counted(sum(failed.values()), "question to the judge has", "questions to the judge have")
        names = ", ".join(sorted(failed))
        warnings.append(f"{have} no usable answer ({names}); run germane run --resume REPORT")
    warnings += _of_one_family(report)
    return AuditDocument(1, source, kinds, warnings, again or UNSET)


def _of_one_family(report: ReportData) -> Iterator[str]:
    """Yield a warning for each model of a system whose name has the same first word as the judge's model."""
    judges = {_first_word(model): model for model in models_in(report.judge.identity)}
    for system, models in (report.manifest.get("targets") or {}).items():
        for role, model in models.items():
            if judge := judges.get(_first_word(model)):
                yield f"the judge {judge} may favour texts of its family: the {role} of {system} is {model}"


def _first_word(model: str) -> str:
    provider, _, rest = (name := model.casefold().rpartition("/")[2]).partition(":")
    return re.split(r"[^a-z]", rest if provider in PROVIDERS else name)[0] or model


def _yes(grade: float, scale: str) -> float:
    """Return 1.0 if a grade means relevant on its scale ("binary" or "graded"), else 0.0."""
    return float(grade >= (1 if scale == "binary" else HELPS))


def _few_items(count: int, singular: str, plural: str) -> Iterator[str]:
    """Yield a warning if `count` labels are too few to trust an agreement."""
    if count < FEW:
        yield f"{counted(count, singular, plural)} too few to trust the agreement; give {FEW} or more"


def _not_counted(labels: Iterable[Label]) -> Iterator[str]:
    """Yield a note on the number of labels that do not count because they were not drawn at random."""
    if count := len(list(labels)):
        are = counted(count, "label is", "labels are")
        yield f"{are} not counted: only labels drawn at random count, not targeted or imported ones; --all counts all"


def audit_document(audit: AuditDocument) -> TextDocument:
    """Return the audit as a document of text and tables: agreement by kind, then warnings."""
    document: list[str | Table] = [f"# Audit of {audit.judge}" if audit.judge else "# Audit without a judge"]
    if audit.again:
        document += ["", "## Asked again", "", *(f"- {text}" for text in audit.again.lines())]
    for line in audit.kinds:
        labels = f"{counted(line.n, 'label')} in {counted(line.queries or 0, 'query')}"
        measures = (line.raw, line.base_rate, line.kappa, line.kappa_quadratic, line.alpha_ordinal)
        raw, base, kappa, quadratic, alpha = (in_digits(value, digits=3) for value in measures)
        ends = f" ({interval_in_words(line.bias.ends, 3)})" if line.bias.ends else ""
        grades = [f"{grade:g}" for grade in line.confusion.grades]
        table = Table(["people \\ judge", *grades])
        for grade, counts in zip(grades, line.confusion.people_by_judge, strict=True):
            table.add([grade, *(f"{round(n, 1):g}" for n in counts)])
        document += [
            "",
            f"## {line.kind} ({line.scale}): {labels}",
            "",
            f"- equal grades {raw}; always giving people's commonest grade would reach {base}",
            f"- Cohen's kappa {kappa}, quadratic {quadratic}; Krippendorff's ordinal alpha {alpha}",
            f"- bias of the mean grade (judge - people) {in_digits(line.bias.mean, digits=3)}{ends}",
            "",
            table,
        ]
    if audit.warnings:
        document += ["", "## Warnings", "", *(f"- {warning}" for warning in audit.warnings)]
    return document


ALPHA = 0.05
"""The p-value below which a judge counts as worse than the best one."""


class JudgeOnLabels(Line, kw_only=True):
    """One of several judges, compared with the same `n` labels of people in `queries` queries.

    `kappa` is the agreement on yes and no. `failed` counts the labels of items for which the judge gave no
    usable answer; these count as wrong. `difference`, with `interval` and `p`, is the proportion of the
    judge's verdicts that equal people's labels minus the best judge's proportion; it is null for the best
    judge. `distinguishable` is true if the judge is significantly worse than the best one. `bias` is the
    judge's proportion of yes minus people's, without failed items. `calls` and `cost_usd` count all answers
    of the report, also those that an earlier run paid for.
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


def _cost(report: ReportData) -> float | None:
    """Return what the report's answers cost when they were asked, or None if a price is unknown."""
    asked = (row for row in report.judgements() if (row.provenance.get("replica") or 0) >= 0)  # < 0: --again
    costs = [row.usage.cost_usd for row in asked if row.usage.requests]
    return None if None in costs else fsum(filter(None, costs))


def audit_judges(reports: Sequence[ReportData], *, every: bool = False) -> JudgesAudit:
    """Return the comparison of several reports' judges with people's labels.

    The labels of all reports are pooled and read as yes (grade 2 or 3) or no. Only items that every judge was
    asked about are compared. If a judge's answer is unusable, it counts as wrong. With `every`, labels that
    were not drawn at random count too. Raises InputError if no item is both judged in all reports and
    labelled.
    """
    read = [AuditedJudge.of(report, every=every) for report in reports]
    labels = list(dict.fromkeys(label for judge in read for label in judge.labels))
    book, graded = LabelBook(labels), [judge.kinds.get("relevance", {}) for judge in read]
    asked = [verdicts_of.keys() | judge.failed for verdicts_of, judge in zip(graded, read, strict=True)]
    by_all = (label for label in book if all(label.item in verdicts_of for verdicts_of in asked))
    votes = [vote for label in by_all for vote in book.votes(label.item)]
    left_out = dict.fromkeys(label for judge in read for label in judge.left_out if label not in labels)
    if not votes or not all(graded):
        problem = "no passage is both judged in all of these reports and labelled by people"
        fix = "name reports on the same samples, and label one of them (germane label)"
        raise InputError("; ".join([problem, *_not_counted(left_out)]), fix=fix)
    items = [vote.item for vote in votes]
    query_of = {item: query for judge in read for item, query in judge.query_of.items()}
    queries = np.array([query_of[item] for item in items])
    people = np.array([_yes(float(vote.answer), vote.scale) for vote in votes])
    answers = np.array(
        [
            [_yes(*verdicts_of[item]) if item in verdicts_of else np.nan for item in items]
            for verdicts_of in graded
        ]
    )
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
            cost_usd=_cost(report),
        )
        lines.append(line)
    failures = [
        f"the judge {line.name} has no usable answer for {line.failed} of {counted(line.n, 'label')}, which count"
        f" as wrong; ask again: germane run --resume {line.report or 'REPORT'}"
        for line in lines
        if line.failed
    ]
    few = _few_items(len(set(items)), "labelled item is", "labelled items are")
    stand_ins = dict.fromkeys(why for report in reports if (why := report.judge.stand_in))
    return JudgesAudit(
        labels=len(votes),
        items=len(set(items)),
        best=names[best],
        not_distinguishable=[line.name for line in lines if not line.distinguishable],
        judges=lines,
        warnings=[*failures, *_not_counted(left_out), *few, *stand_ins],
    )


def judges_document(audit: JudgesAudit) -> TextDocument:
    """Return the comparison of judges as a document: a table of agreement, the best judge, and warnings."""
    heads = ["judge", "failed", "kappa (yes or no)", "agreement minus best", "p", "bias", "calls", "price"]
    table = Table(heads, "lrrrrrrr")
    for line in sorted(audit.judges, key=lambda line: 1.0 if line.kappa is None else -line.kappa):
        less = _signed(line.difference, line.interval) if line.interval else None
        price = "unknown" if line.cost_usd is None else f"${line.cost_usd:.4f}"
        kappa, bias = in_digits(line.kappa, digits=3), _signed(line.bias.mean, line.bias.ends)
        table.add([line.name, line.failed, kappa, less, p_in_words(line.p), bias, line.calls, price])
    title = f"# {counted(len(audit.judges), 'judge')} on {counted(audit.items, 'labelled item')}"
    others = ", ".join(name for name in audit.not_distinguishable if name != audit.best)
    result = f"best: {audit.best}; not distinguishable from it: {others or 'none'}"
    return [title, "", table, "", result, *(f"- {warning}" for warning in audit.warnings)]


def _signed(mean: float | None, ends: IntervalEnds | None) -> str:
    return f"{in_digits(mean, '+', 3)} ({interval_in_words(ends, 3, '+')})"
