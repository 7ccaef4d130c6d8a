"""The audit of gold: the documents on which judges and gold disagree most, and the mean after people's corrections."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from math import fsum, nan
from typing import Literal

import numpy as np
from msgspec import structs

from germane.clean import clean, counted, shorten
from germane.encoding import Line
from germane.errors import InputError
from germane.labelling.audit import AuditedJudge, yes
from germane.labelling.queue import LabelQueue, LabelTask
from germane.measures.graders import graders_of
from germane.measures.measure import Measure
from germane.measures.scoring import Block, Job
from germane.places.lists import labelled_contexts, turns
from germane.places.settings import Settings
from germane.reports.data import ReportData
from germane.reports.summary import in_digits
from germane.show.table import Table, TextDocument
from germane.statistics.agreement import doubt_of_labels
from germane.tables.labels import LabelBook
from germane.types import FrozenDict, Json, Sample

MOST = 1000
"""Places whose weight for the mean is computed, and that are listed."""
SHOWN = 20
QUEUE_COLUMNS = ("sample", "id", "query", "passage", "grade", "who", "doubt")
_LONGEST = 4000
"""Characters of a passage in a queue."""
_LEANING = 0.5
"""Doubt from which judges hold the gold to be wrong rather than right."""


class GoldDocument(Line, kw_only=True):
    """A document of a query with its gold label and the judges' grades of its passage.

    `gold` is its grade, None where it is not judged (which counts as not relevant). `doubt` is the probability that this is wrong;
    `moves` what the mean of the measure would change by if it were. `people` is the share of people who call it relevant,
    None where nobody was asked.
    """

    sample: str
    id: str
    item: str
    query: str
    passage: str
    gold: int | None
    doubt: float
    moves: float | None = None
    people: float | None = None
    grades: list[float | None]

    def relevant(self, rel: int) -> bool:
        """Return True if gold calls it relevant, from grade `rel`."""
        return self.gold is not None and self.gold >= rel


class GoldMeans(Line):
    """The means with `gold` as it is and as people `corrected` it, with `bounds` for suspects that nobody has looked at.

    People `looked_at` some documents, of which gold was `wrong` about some; `open` suspects remain.
    """

    gold: float
    corrected: float
    bounds: tuple[float, float]
    looked_at: int
    wrong: int
    open: int


class GoldAudit(Line, kw_only=True):
    """The document of `germane audit --gold --json`: the documents where judges and gold disagree most, and the means.

    Gold counts as relevant from grade `counts_from` on; `places` documents have a label of gold and of a judge.
    """

    schema_version: Literal[1] = 1
    judges: list[str | None]
    measure: str | None
    counts_from: int
    places: int
    suspects: list[GoldDocument]
    means: GoldMeans | None


def audit_gold(reports: Sequence[ReportData]) -> GoldAudit:
    """Return the audit of the gold as the document of `germane audit --gold --json`.

    The first report holds the samples with their gold, and its first measure of gold labels is the one whose mean is
    looked at; the judges are those of all reports. Nothing is changed in any of them.

    Raises:
        InputError: There is no gold, or nothing that it is about was judged.
    """
    report = reports[0]
    measures = [Measure.remembered(line.type) for line in report.summaries if line.basis.source == "gold"]
    measure = next((measure for measure in measures if measure.labels == "gold"), None)
    rel = int((measure.settings.get("rel") if measure else None) or 1)
    samples = [sample for sample in report.samples() if sample.qrels is not None]
    if not samples:
        raise InputError("no sample of this report has gold", fix="name a report whose samples have qrels")
    documents = _documents(reports, samples, rel)
    suspects = sorted(documents, key=lambda row: -round(row.doubt, 9))[:MOST]
    means = None
    if measure is not None:
        now, *turned = _means(samples, measure, rel, [[], *([row] for row in suspects)])
        suspects = [row.replace(moves=mean - now) for row, mean in zip(suspects, turned, strict=True)]
        means = _gold_means(documents, rel, partial(_means, samples, measure, rel))
    suspects.sort(key=lambda row: -round(row.doubt * abs(1.0 if row.moves is None else row.moves), 12))
    return GoldAudit(
        judges=[report.judge.source for report in reports],
        measure=None if measure is None else str(measure),
        counts_from=rel,
        places=len(documents),
        suspects=suspects,
        means=means,
    )


def _documents(reports: Sequence[ReportData], samples: Iterable[Sample], rel: int) -> list[GoldDocument]:
    """Return every document of a query whose passage a judge judged, in input order."""
    read = [AuditedJudge.of(report, every=True) for report in reports]
    graded = [judge.kinds.get("relevance", {}) for judge in read]
    book = LabelBook(label for judge in read for label in judge.labels if label.who is not None)
    rows: dict[tuple[str, str], GoldDocument] = {}
    for sample in samples:
        for item, context in labelled_contexts(sample):
            name = sample.id, context.id or ""
            if context.id is None or name in rows or not any(item in mine for mine in graded):
                continue
            votes = [yes(float(vote.answer), vote.scale) for vote in book.votes(item)]
            rows[name] = GoldDocument(
                sample=sample.id,
                id=context.id,
                item=item,
                query=sample.query,
                passage=context.passage,
                gold=(sample.qrels or {}).get(context.id),
                doubt=0.0,
                people=fsum(votes) / len(votes) if votes else None,
                grades=[mine[item][0] if item in mine else None for mine in graded],
            )
    if not rows:
        fix = "run it with a judged measure, such as context_relevance, on samples whose contexts have ids and texts"
        raise InputError("no judge judged a passage that gold could be about", fix=fix)
    documents = list(rows.values())
    labels = [nan if row.gold is None else float(row.gold >= rel) for row in documents]
    grades = np.array([row.grades for row in documents], float).T  # None is nan
    doubts = doubt_of_labels(labels, grades, [row.sample for row in documents]).tolist()
    for row, doubt in zip(documents, doubts, strict=True):
        row.doubt = doubt
    return documents


def _means(
    samples: Sequence[Sample], measure: Measure, rel: int, changes: Iterable[Iterable[GoldDocument]]
) -> Iterator[float]:
    """Yield the mean of a measure with the gold label of each of these sets of documents flipped.

    A value is 0 where gold leaves nothing to find.
    """
    graders = graders_of((measure,))

    def scored(some: Sequence[Sample]) -> list[float]:
        jobs = [Job(sample=sample, graders=graders) for sample in some]
        return [outcome[str(measure)].value or 0.0 for outcome in Block(jobs, Settings()).outcomes([])]

    own, numbers = scored(samples), defaultdict[str, list[int]](list)
    for number, sample in enumerate(samples):
        numbers[sample.id].append(number)
    for turned in changes:
        grades = defaultdict[str, dict[str, int]](dict)
        for row in turned:
            grades[row.sample][row.id] = 0 if row.relevant(rel) else rel
        changed = {
            number: structs.replace(
                samples[number], qrels=FrozenDict({**(samples[number].qrels or {}), **mine})
            )
            for name, mine in grades.items()
            for number in numbers[name]
        }
        values = own.copy()
        for number, value in zip(changed, scored(list(changed.values())), strict=True):
            values[number] = value
        yield fsum(values) / len(samples)


def _gold_means(
    rows: Sequence[GoldDocument],
    rel: int,
    means: Callable[[Iterable[Iterable[GoldDocument]]], Iterator[float]],
) -> GoldMeans:
    """Return the means with gold as it is and as people corrected it, with bounds for suspects that nobody has looked at.

    The bounds are the least and the most of the means with none of these suspects turned round, with those turned that gold
    calls relevant, with the others, and with all.
    """
    asked = [(row, row.people >= _LEANING) for row in rows if row.people is not None]
    wrong = [row for row, relevant in asked if relevant != row.relevant(rel)]
    unseen = [row for row in rows if row.people is None and row.doubt >= _LEANING]
    sides = [[row for row in unseen if row.relevant(rel) is side] for side in (True, False)]
    now, *ends = means([[], *([*wrong, *more] for more in ([], *sides, unseen))])
    return GoldMeans(now, ends[0], (min(ends), max(ends)), len(asked), len(wrong), len(unseen))


def gold_document(audit: GoldAudit) -> TextDocument:
    """Return the audit of the gold as text, with a table of the first suspects."""
    judges = ", ".join(map(str, audit.judges))
    places = counted(audit.places, "document")
    suspects = Table(["doubt", "moves", "query", "document", "gold", "judges"], "rrllrl")
    for suspect in audit.suspects[:SHOWN]:
        grades = ", ".join("-" if grade is None else f"{grade:g}" for grade in suspect.grades)
        names = (shorten(getattr(suspect, name), 60) for name in ("query", "id"))
        moves = in_digits(suspect.moves, "+")
        suspects.add([f"{suspect.doubt:.2f}", moves, *names, suspect.gold, grades])
    head = f"{places} with a label of gold and of {judges}; gold counts from grade {audit.counts_from}"
    means = ["", *(f"- {line}" for line in mean_lines(audit))] if audit.means else []
    return TextDocument([head, "", suspects, *means, "", _NEXT])


_NEXT = "gold is not changed; have people look at these: germane label REPORT --queue gold, or -o suspects.csv for their grades"


def mean_lines(audit: GoldAudit) -> Iterator[str]:
    """Yield the mean with gold unchanged, as corrected, and its bounds; nothing without a gold measure."""
    if not (means := audit.means):
        return
    yield f"{clean(audit.measure or '')}: {means.gold:.4f} with gold as it is"
    if means.looked_at:
        wrong = f"{means.wrong} of the {counted(means.looked_at, 'place')} that they looked at are wrong"
        yield f"{means.corrected:.4f} as people corrected it: {wrong}"
    low, high = means.bounds
    yield f"{low:.4f} to {high:.4f}, whatever the {means.open} suspects are that nobody looked at"


def suspects_queue(reports: Sequence[ReportData], budget: int | None = None) -> LabelQueue:
    """Return the suspects as a queue for people, in the order of the audit; these labels correct no judged mean."""
    history = {sample.id: turns(sample) for sample in reports[0].samples()}
    suspects = audit_gold(reports).suspects
    tasks = [
        LabelTask(
            item=suspect.item,
            kind="relevance",
            case=suspect.sample,
            query=suspect.query,
            passages=(suspect.passage,),
            history=history[suspect.sample],
            sample=suspect.sample,
            doubt=-at,
        )
        for at, suspect in enumerate(suspects)
    ]
    return LabelQueue(tasks=tasks, queue="targeted", budget=budget)


def queue_rows(audit: GoldAudit) -> Iterator[list[Json]]:
    """Yield the suspects as a table, header first, with an empty column `grade` for people.

    `germane label REPORT --import` reads it; rows without a grade are not answered yet. Gold and verdicts are not shown.
    """
    yield [*QUEUE_COLUMNS]
    for value in audit.suspects:
        cells = value.sample, value.id, value.query, value.passage[:_LONGEST]
        yield [*cells, "", "", round(value.doubt, 4)]
