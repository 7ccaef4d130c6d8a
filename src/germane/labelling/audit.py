"""The audit of a judge: against people, and against itself."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, zip_longest
from math import nan
from typing import Any, TypeAlias

import numpy as np
from msgspec import UNSET

from germane.clean import counted
from germane.encoding import Line, json_of
from germane.labelling.schema import (
    AgainLine,
    AuditDocument,
    ConsistencyLine,
    CorrectedMeasureLine,
    DisagreementLine,
)
from germane.questions.relevance import HELPS
from germane.reports.correction.draws import design_of, is_drawn
from germane.reports.data import ReportData
from germane.reports.manifest import circular
from germane.reports.summary import interval_in_words
from germane.show.table import Table, TextDocument
from germane.statistics.agreement import (
    Agreement,
    JudgeAgreement,
    Spread,
    agreement,
    krippendorff_alpha,
    spread_between,
)
from germane.statistics.intervals import IntervalEnds
from germane.tables.judgements import is_asked_again
from germane.tables.labels import Label, LabelBook, by_people
from germane.types import Json, Judgement

Grades: TypeAlias = Mapping[str, tuple[float, str]]
"""The judge's grade of each item, and its scale."""

FEW = 30
"""Labels below which an agreement says little."""
SLIGHT = 0.2
"""Kappa below which an agreement is at most slight (Landis and Koch, 1977)."""
_OFF_SCALE = re.compile(r'"grade" must be .* not (-?\d+(?:\.\d+)?)$')
"""The end of the error of a judgement whose grade is outside the scale."""
_SCALES: dict[str, tuple[float, ...]] = {"graded": (0, 1, 2, 3), "binary": (0, 1)}


@dataclass(frozen=True, slots=True)
class AuditedJudge:
    """The part of a report that an audit reads: the judge's grades by kind, where each item occurs, and the labels that count.

    `left_out` are people's labels that do not count, `failed` the passages that the judge gave no usable answer on.
    """

    kinds: Mapping[str, Grades]
    occurrences: Mapping[str, tuple[tuple[str, str], ...]]
    labels: tuple[Label, ...]
    left_out: tuple[Label, ...] = ()
    failed: frozenset[str] = frozenset()

    @classmethod
    def of(cls, report: ReportData, *, every: bool) -> AuditedJudge:
        """Read a report. Only labels drawn at random count, or all of them: with `every`, or if everything is labelled."""
        occurrences: dict[str, dict[tuple[str, str], None]] = defaultdict(dict)
        parts: dict[str, list[tuple[int, str]]] = defaultdict(list)
        for row in report.places():
            occurrences[row.item][row.sample, row.system] = None
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
        counted = tuple(
            label
            for label in labels
            if label.kind in kinds and (every or label.kind in whole or is_drawn(label))
        )
        where = {item: tuple(result) for item, result in occurrences.items()}
        counts = set(map(id, counted))
        left_out = tuple(label for label in labels if by_people(label) and id(label) not in counts)
        return cls(kinds, where, counted, left_out, frozenset(failed - kinds["relevance"].keys()))


def _graded(judgement: Judgement, parts: Iterable[tuple[int, str]]) -> Iterator[tuple[str, float, str]]:
    """Yield each item that a judgement grades, with its grade and scale. Grades outside the scale are included."""
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
    """Return the audit as the document of `germane audit --json`.

    `every`: labels count whatever queue they come from; their agreement is then that of what people chose to label.
    `again`: what asking stored verdicts again gave.
    """
    read = AuditedJudge.of(report, every=every)
    kinds = list(_against_people(read))
    return AuditDocument(
        schema_version=1,
        judge=report.judge.source,
        kinds=kinds,
        people=list(_people(report.labels())),
        disagreement=list(_disagreement(report.labels())),
        self_consistency=list(_replicas(report.judgements())),
        corrected=list(_corrected(report)),
        warnings=_warnings(report, read, kinds),
        again=again or UNSET,
    )


def audit_labelled(report: ReportData) -> dict[str, Json]:
    """Return the `kinds` and `warnings` of the audit: the judge's agreement with people, and its limits.

    Judgements are read once, and only where anybody labelled anything.
    """
    labelled = next(iter(report.labels()), None) is not None
    read = AuditedJudge.of(report, every=False) if labelled else AuditedJudge({}, {}, ())
    kinds = list(_against_people(read))
    return {"kinds": json_of(kinds), "warnings": _warnings(report, read, kinds)}


# against people


def _against_people(read: AuditedJudge) -> Iterator[JudgeAgreement]:
    """Yield one line per kind and scale. A grade that is compared with a yes or no becomes a yes or no."""
    for kind, graded in sorted(read.kinds.items()):
        book = LabelBook(label for label in read.labels if label.kind == kind)
        pairs: dict[str, list[tuple[str, float, float]]] = defaultdict(list)
        for label in (vote for first in book for vote in book.votes(first.item) if first.item in graded):
            grade, scale = graded[label.item]
            if scale == label.scale:
                pairs[scale].append((label.item, grade, float(label.answer)))
            elif {scale, label.scale} == {"graded", "binary"}:
                both = yes(grade, scale), yes(float(label.answer), label.scale)
                pairs["binary"].append((label.item, *both))
        for scale, rows in pairs.items():
            yield _kind_line(kind, scale, rows, read)


def _kind_line(
    kind: str, scale: str, rows: Sequence[tuple[str, float, float]], read: AuditedJudge
) -> JudgeAgreement:
    """Return the judge's agreement with people on rows of (item, the judge's grade, a person's grade)."""
    items = [item for item, _, _ in rows]
    voted = Counter(items)  # of several people each counts in part
    judge, people = (np.array([row[column] for row in rows], float) for column in (1, 2))
    result = agreement(
        judge,
        people,
        scale=_legal(scale, judge, people),
        queries=[read.occurrences.get(item, ((item, ""),))[0][0] for item in items],
        weights=[1 / voted[item] for item in items] if len(voted) < len(items) else None,
    )
    between = _systems(items, judge - people, read)
    return result.replace(kind=kind, scale=scale, n=len(voted), between_systems=between)


def _legal(scale: str, *grades: Iterable[float]) -> tuple[float, ...]:
    """Return the grades of a scale, ascending; for a scale of people's own, those that occur."""
    return _SCALES.get(scale) or tuple(sorted({float(grade) for side in grades for grade in side}))


def yes(grade: float, scale: str) -> float:
    """Return 1 if this grade means relevant on its scale, else 0."""
    return float(grade >= (1 if scale == "binary" else HELPS))


def _systems(items: Sequence[str], error: Any, read: AuditedJudge) -> Spread | None:
    """Return the judge's bias per system, and its spread beyond chance; None for a single system."""
    rows = [
        (system, float(wrong))
        for item, wrong in zip(items, error.tolist(), strict=True)
        for system in {system for _, system in read.occurrences.get(item, ())}
    ]
    names = sorted({system for system, _ in rows})
    if len(names) < 2:
        return None
    spread = spread_between([wrong for _, wrong in rows], [system for system, _ in rows])
    spread.bias = {
        name: float(np.mean([wrong for system, wrong in rows if system == name])) for name in names
    }
    return spread


def _people(labels: Iterable[Label]) -> Iterator[Agreement]:
    """Yield the agreement of each pair of people on the items that both labelled."""
    labels_of: dict[tuple[str, str], dict[str, list[Label]]] = defaultdict(lambda: defaultdict(list))
    for label in labels:
        if label.who is not None:
            labels_of[label.kind, label.scale][label.who].append(label)
    for (kind, scale), people in sorted(labels_of.items()):
        books = {who: LabelBook(mine) for who, mine in sorted(people.items())}
        for name, other in combinations(books, 2):
            both = [(label, same) for label in books[name] if (same := books[other].get(label.item))]
            if both:
                first, second = ([float(pair[side].answer) for pair in both] for side in (0, 1))
                agreed = agreement(first, second, scale=_legal(scale, first, second))
                shown = {field: getattr(agreed, field) for field in Agreement.__struct_fields__}
                yield Agreement(**{**shown, "kind": kind, "scale": scale, "people": [name, other]})


def _disagreement(labels: Iterable[Label]) -> Iterator[DisagreementLine]:
    """Yield per kind how many items several people labelled, and on how many of them they differ."""
    kinds: dict[str, list[Label]] = defaultdict(list)
    for label in labels:
        kinds[label.kind].append(label)
    for kind, mine in sorted(kinds.items()):
        book = LabelBook(mine)
        votes = [votes for label in book if len(votes := book.votes(label.item)) > 1]
        if votes:
            differ = sum(len({vote.answer for vote in some}) > 1 for some in votes)
            yield DisagreementLine(kind, len(votes), differ)


# against itself


def _values(judgement: Judgement) -> tuple[float, ...]:
    parts = [(number, "") for number in range(1, 1 + len((judgement.answer or {}).get("claims", ())))]
    return tuple(grade for _, grade, _ in _graded(judgement, parts))


def _replicas(judgements: Iterable[Judgement]) -> Iterator[ConsistencyLine]:
    """Yield a judge's agreement with itself on questions that it was asked several times."""
    asked: dict[tuple[str, str], dict[tuple[str | None, str], list[Judgement]]] = defaultdict(
        lambda: defaultdict(list)
    )
    for judgement in judgements:
        again = is_asked_again(judgement)  # not a fair sample: what flipped was asked twice
        if judgement.parent is not None and judgement.error is None and not again:
            asked[judgement.kind, judgement.judge][judgement.parent, judgement.item].append(judgement)
    for (kind, judge), groups in sorted(asked.items()):
        repeated = [
            list(map(_values, rows))
            for rows in groups.values()
            if len(rows) > 1 and any("replica" in row.provenance for row in rows)
        ]
        equal_lengths = (rows for rows in repeated if len(set(map(len, rows))) == 1)
        columns = [column for rows in equal_lengths for column in zip(*rows, strict=True)]
        if columns:
            table = np.array([*zip_longest(*columns, fillvalue=nan)])
            equal = [a == b for column in columns for a, b in combinations(column, 2)]
            raw, alpha = float(np.mean(equal)), krippendorff_alpha(table)
            yield ConsistencyLine(kind, judge, len(columns), len(table), raw, alpha)


# what follows for the numbers


def _corrected(report: ReportData) -> Iterator[CorrectedMeasureLine]:
    for mean in report.summaries:
        if mean.basis.source == "judge":
            why = mean.corrected_why or None
            yield CorrectedMeasureLine(mean.measure, mean.system, mean.mean, mean.corrected, why)


def _warnings(report: ReportData, read: AuditedJudge, kinds: Sequence[JudgeAgreement]) -> list[str]:
    """Return the warnings about the labels and the judge; without a judge, say that one is needed."""
    if report.judge.source:
        return [*_label_warnings(read, kinds), *_judge_warnings(report)]
    return ["no judge was asked: no verdicts to compare with people; germane run ... --judge JUDGE"]


def _label_warnings(read: AuditedJudge, kinds: Sequence[JudgeAgreement]) -> Iterator[str]:
    """Yield warnings about labels that were not drawn at random, are missing, or are few."""
    yield from not_counted(read.left_out)
    if not kinds:
        yield "no people's labels to compare the judge with: germane label REPORT --budget 100"
    for line in kinds:
        yield from (f"{line.kind}: {warning}" for warning in few_items(line.n, "label is", "labels are"))
        if (kappa := line.kappa_quadratic) is not None and kappa < SLIGHT:
            yield (
                f"{line.kind}: the judge agrees with people hardly more than by chance (quadratic kappa {kappa:.2f}, 1 ="
                " always): do not use its verdicts"
            )
        if line.illegal:
            text = ", ".join(f"{grade} ({count})" for grade, count in line.illegal.items())
            yield f"{line.kind}: the judge gave grades outside the scale: {text}"
    if sighted := sum(by_people(label) and not label.blind for label in read.labels):
        yield f"{counted(sighted, 'label was', 'labels were')} given by people who may have seen the verdict"
    guidelines = {label.guideline for label in read.labels if by_people(label)}
    if len(guidelines) > 1:
        yield f"labels follow {len(guidelines)} guidelines: agreement on them is not of one question"


def few_items(count: int, singular: str, plural: str) -> Iterator[str]:
    """Yield a warning if an agreement on this many labels says little."""
    if count < FEW:
        yield f"{counted(count, singular, plural)} few; an agreement on fewer than {FEW} says little"


def not_counted(labels: Iterable[Label]) -> Iterator[str]:
    """Yield how many of people's labels do not count, and why: chosen by hand, or drawn between two reports."""
    reasons = Counter("between" in design_of(label) for label in labels)
    for between, count in sorted(reasons.items()):
        why = "not drawn at random (targeted or imported"
        if between:
            why = "drawn between two reports, from what these do not share (they correct the difference of the two"
        yield f"{counted(count, 'label is', 'labels are')} not counted: {why}; --all counts them)"


def _judge_warnings(report: ReportData) -> Iterator[str]:
    """Yield the warnings about the judge: it is a stand-in, it failed, or it judges its own family of models."""
    if stand_in := report.judge.stand_in:
        yield stand_in
    asked = report.manifest.get("asked") or {}
    failed = {kind: counts["errors"] for kind, counts in asked.items() if counts.get("errors")}
    if failed:
        yield f"{counted(sum(failed.values()), 'question has', 'questions have')} no usable answer ({', '.join(sorted(failed))})"
    yield from circular(report.judge, report.manifest.get("targets"))


# in words


_TABLES: Mapping[str, tuple[str, str, str]] = {
    "people": ("People against people", "lr", "kind people n raw kappa kappa_quadratic alpha_ordinal"),
    "disagreement": ("People who labelled the same", "lr", "kind items differ"),
    "self_consistency": ("The judge against itself", "llr", "kind judge times n raw alpha_ordinal"),
    "corrected": ("Corrected means", "llrrrl", "measure system judged corrected labels why"),
}
"""The title, the alignment and the columns of each table of the audit."""


def audit_document(audit: AuditDocument) -> TextDocument:
    """Return the audit as text and tables."""
    document = TextDocument([f"# Audit of {audit.judge}" if audit.judge else "# Audit without a judge"])
    if audit.again:
        document += ["", "## Asked again", "", *(f"- {text}" for text in audit.again.lines())]
    for line in audit.kinds:
        document += _of_kind(line)
    for name, (title, align, columns) in _TABLES.items():
        if lines := getattr(audit, name):
            rows = ([_cell(row, column) for column in columns.split()] for row in lines)
            heads = [column.replace("_", " ") for column in columns.split()]
            document += ["", f"## {title}", "", Table(heads, align, rows)]
    if audit.warnings:
        document += ["", "## Warnings", "", *(f"- {warning}" for warning in audit.warnings)]
    return document


def _cell(row: Line, column: str) -> str:
    """Return a cell of a row of the audit; of a corrected mean, its interval and its labels stand in it."""
    value = getattr(row, column, None)
    if isinstance(row, CorrectedMeasureLine):
        if (mean := row.corrected) and column in {"corrected", "labels"}:
            return _interval(mean.mean, mean.ends) if column == "corrected" else str(mean.labels)
        value = value or {"system": "-", "why": ""}.get(column, value)
    return _text(value)


def _of_kind(line: JudgeAgreement) -> Iterator[str | Table]:
    labels = f"{counted(line.n, 'label')} in {counted(line.queries or 0, 'query')}"
    yield from ("", f"## {line.kind} ({line.scale}): {labels}", "")
    kappa, quadratic, alpha = map(_text, (line.kappa, line.kappa_quadratic, line.alpha_ordinal))
    base = f"always giving people's commonest grade would reach {_text(line.base_rate)}"
    yield f"- equal grades {_text(line.raw)}; {base}"
    yield f"- Cohen's kappa {kappa}, quadratic {quadratic}; Krippendorff's ordinal alpha {alpha}"
    yield f"- bias of the mean (judge - people) {_interval(line.bias.mean, line.bias.ends)}"
    if between := line.between_queries:
        ends = f"from {between.low:.3f} to {between.high:.3f}"
        yield f"- bias by query: {ends}, spread {between.deviation:.3f}"
    if (systems := line.between_systems) and systems.bias:
        means = ", ".join(f"{name or '-'} {mean:+.3f}" for name, mean in systems.bias.items())
        yield f"- bias by system: {means}; spread {systems.deviation:.3f}"
    grades = [f"{grade:g}" for grade in line.confusion.grades]
    counts = line.confusion.people_by_judge
    rows = zip(grades, counts, strict=True)
    yield ""
    yield Table(
        ["people \\ judge", *grades],
        rows=([grade, *(f"{round(n, 1):g}" for n in row)] for grade, row in rows),
    )


def _text(value: Json) -> str:
    if isinstance(value, float):
        return f"{value:.3f}"
    if isinstance(value, list | tuple):
        return ", ".join(map(_text, value))
    return "-" if value is None else str(value)


def _interval(mean: float | None, ends: IntervalEnds | None) -> str:
    return _text(mean) + (f" ({interval_in_words(ends, 3)})" if ends else "")
