"""The audit of gold: where judges and gold disagree most, as a queue for people, and the effect of their answers on means."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
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
from germane.places.lists import labelled_passages, turns
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
        """True if gold calls it relevant, from grade `rel` on."""
        return self.gold is not None and self.gold >= rel


class GoldMeans(Line):
    """The means with `gold` as it is and as people `corrected` it, and the `bounds` that suspects nobody looked at leave.

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
    """The audit of the gold as the document of `germane audit --gold --json`.

    The first report holds the samples with their gold, and its first measure of gold labels is the one whose mean is
    looked at; the judges are those of all reports. Nothing is changed in any of them. InputError where there is no gold, or nothing that
    it is about was judged.
    """
    report = reports[0]
    measures = [Measure.remembered(line.type) for line in report.summaries if line.basis.source == "gold"]
    measure = next((measure for measure in measures if measure.labels == "gold"), None)
    rel = int((measure.settings.get("rel") if measure else None) or 1)
    samples = [sample for sample in report.samples() if sample.qrels is not None]
    if not samples:
        raise InputError("no sample of this report has gold", fix="name a report whose samples have qrels")
    documents = _documents(reports, samples, rel)
    worth = None if measure is None else _Worth(samples, measure, rel)
    suspects = sorted(documents, key=lambda row: -round(row.doubt, 9))[:MOST]
    if worth is not None:
        suspects = [row.replace(moves=worth.mean([row]) - worth.now) for row in suspects]
    suspects.sort(key=lambda row: -round(row.doubt * abs(1.0 if row.moves is None else row.moves), 12))
    return GoldAudit(
        judges=[(report.manifest.get("judge") or {}).get("source") for report in reports],
        measure=None if measure is None else str(measure),
        counts_from=rel,
        places=len(documents),
        suspects=suspects,
        means=None if worth is None else worth.means(documents),
    )


def _documents(reports: Sequence[ReportData], samples: Iterable[Sample], rel: int) -> list[GoldDocument]:
    """Every document of a query whose passage a judge judged, in input order."""
    read = [AuditedJudge.of(report, every=True) for report in reports]
    graded = [judge.kinds.get("relevance", {}) for judge in read]
    book = LabelBook(label for judge in read for label in judge.labels if label.who is not None)
    rows: dict[tuple[str, str], tuple[str, Sample, str]] = {}
    for sample in samples:
        for item, (_, _, _, context) in labelled_passages(sample):
            if context.id is not None and any(item in mine for mine in graded):
                rows.setdefault((sample.id, context.id), (item, sample, context.passage))
    if not rows:
        fix = "run it with a judged measure, such as context_relevance, on samples whose contexts have ids and texts"
        raise InputError("no judge judged a passage that gold could be about", fix=fix)
    grades = [[mine.get(item, (nan, ""))[0] for item, _, _ in rows.values()] for mine in graded]
    gold = [(sample.qrels or {}).get(name) for (_, name), (_, sample, _) in rows.items()]
    labels = [nan if grade is None else float(grade >= rel) for grade in gold]
    doubts = doubt_of_labels(labels, grades, [case for case, _ in rows]).tolist()
    documents = []
    for at, ((case, name), (item, sample, passage)) in enumerate(rows.items()):
        votes = [yes(float(vote.answer), vote.scale) for vote in book.votes(item)]
        documents.append(
            GoldDocument(
                sample=case,
                id=name,
                item=item,
                query=sample.query,
                passage=passage,
                gold=gold[at],
                doubt=doubts[at],
                people=fsum(votes) / len(votes) if votes else None,
                grades=[None if np.isnan(row[at]) else row[at] for row in grades],
            )
        )
    return documents


class _Worth:
    """The mean of a measure of gold labels, with gold as it is and with some of it turned round."""

    def __init__(self, samples: Sequence[Sample], measure: Measure, rel: int) -> None:
        self._graders, self._rel, self._count = graders_of((measure,)), rel, len(samples)
        self._of: dict[str, list[Sample]] = defaultdict(list)
        for sample in samples:
            self._of[sample.id].append(sample)
        self._values = self._scored(samples)
        self.now = fsum(self._values.values()) / self._count

    def mean(self, turned: Iterable[GoldDocument]) -> float:
        """The mean if gold were the other way round for these documents."""
        by_sample: dict[str, dict[str, int]] = defaultdict(dict)
        for row in turned:
            by_sample[row.sample][row.id] = 0 if row.relevant(self._rel) else self._rel
        changed = [
            structs.replace(sample, qrels=FrozenDict({**(sample.qrels or {}), **grades}))
            for name, grades in by_sample.items()
            for sample in self._of[name]
        ]
        return fsum((self._values | self._scored(changed)).values()) / self._count

    def _scored(self, samples: Sequence[Sample]) -> dict[str, float]:
        """The sum of the values of each id; a value is 0 where gold leaves nothing to find."""
        jobs = [Job(sample=sample, graders=self._graders) for sample in samples]
        values: dict[str, float] = defaultdict(float)
        for sample, outcome in zip(samples, Block(jobs, Settings()).outcomes([]), strict=True):
            values[sample.id] += next(iter(outcome.values())).value or 0.0
        return values

    def means(self, rows: Sequence[GoldDocument]) -> GoldMeans:
        """The means with gold as it is and as people corrected it, and the bounds that suspects nobody looked at leave.

        `bounds`: the least and the most of the means with none of these suspects turned round, with those turned that gold calls
        relevant, with the others, and with all.
        """
        asked = [(row, row.people >= _LEANING) for row in rows if row.people is not None]
        wrong = [row for row, relevant in asked if relevant != row.relevant(self._rel)]
        unseen = [row for row in rows if row.people is None and row.doubt >= _LEANING]
        relevant = [row for row in unseen if row.relevant(self._rel)]
        others = [row for row in unseen if not row.relevant(self._rel)]
        ends = [self.mean([*wrong, *more]) for more in ([], relevant, others, unseen)]
        return GoldMeans(self.now, ends[0], (min(ends), max(ends)), len(asked), len(wrong), len(unseen))


def gold_document(audit: GoldAudit) -> TextDocument:
    """The audit of the gold in words, with a table of the first suspects."""
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
    """The mean with gold as it is, as people corrected it, and its bounds; nothing where there is no measure of gold."""
    if not (means := audit.means):
        return
    yield f"{clean(audit.measure or '')}: {means.gold:.4f} with gold as it is"
    if means.looked_at:
        wrong = f"{means.wrong} of the {counted(means.looked_at, 'place')} that they looked at are wrong"
        yield f"{means.corrected:.4f} as people corrected it: {wrong}"
    low, high = means.bounds
    yield f"{low:.4f} to {high:.4f}, whatever the {means.open} suspects are that nobody looked at"


def suspects_queue(reports: Sequence[ReportData], budget: int | None = None) -> LabelQueue:
    """The suspects for people to label, in the order of the audit; labels of them correct no mean but that of the gold."""
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
    """The suspects as a table for people to fill in, header first: the column `grade` is theirs.

    `germane label REPORT --import` reads it; rows without a grade are not answered yet. Neither what gold says nor what judges
    say is shown.
    """
    yield [*QUEUE_COLUMNS]
    for value in audit.suspects:
        cells = value.sample, value.id, value.query, value.passage[:_LONGEST]
        yield [*cells, "", "", round(value.doubt, 4)]
