"""Is the gold right? Where judges and gold disagree most, as a queue for people, and what their answers do to the means."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum, nan

import numpy as np
from msgspec import structs

from germane.clean import counted, shorten
from germane.errors import InputError
from germane.labelling.audit import AuditedJudge, yes
from germane.labelling.queue import LabelQueue, LabelTask
from germane.measures.labels import Settings, turns
from germane.measures.measure import Measure
from germane.measures.scoring import Block, Job, graders_of
from germane.reports.data import ReportData
from germane.reports.summary import in_digits
from germane.statistics.agreement import doubt_of_labels
from germane.tables.labels import LabelBook, passage_of, relevance_item
from germane.types import FrozenDict, Json, Sample

MOST = 1000
"""Places whose weight for the mean is computed, and that are listed."""
SHOWN = 20
QUEUE_COLUMNS = ("sample", "id", "query", "passage", "grade", "who", "doubt")
_LONGEST = 4000
"""Characters of a passage in a queue."""
_LEANING = 0.5
"""Doubt from which judges hold the gold to be wrong rather than right."""


@dataclass(frozen=True, slots=True, kw_only=True)
class GoldPlace:
    """A document of a query, what gold says of it, and what judges say of its passage.

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
    grades: tuple[float | None, ...]
    doubt: float
    moves: float | None = None
    people: float | None = None

    def as_json(self) -> dict[str, Json]:
        """For `--json`."""
        names = ("sample", "id", "item", "query", "passage", "gold", "doubt", "moves", "people")
        return {**{name: getattr(self, name) for name in names}, "grades": list(self.grades)}


def audit_gold(reports: Sequence[ReportData]) -> dict[str, Json]:
    """The audit of the gold as the JSON document of `germane audit --gold --json`.

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
    gold_places = _places(reports, samples, rel)
    worth = _Worth(samples, measure, rel)
    first = sorted(gold_places, key=lambda gold_place: -round(gold_place.doubt, 9))[:MOST]
    moved = [
        replace(gold_place, moves=worth.of([gold_place]) - worth.now if measure else None)
        for gold_place in first
    ]
    moved.sort(
        key=lambda gold_place: (
            -round(gold_place.doubt * (1.0 if gold_place.moves is None else abs(gold_place.moves)), 12)
        )
    )
    return {
        "schema_version": 1,
        "judges": [(report.manifest.get("judge") or {}).get("source") for report in reports],
        "measure": None if measure is None else str(measure),
        "counts_from": rel,
        "places": len(gold_places),
        "suspects": [gold_place.as_json() for gold_place in moved],
        "means": worth.means(gold_places) if measure else None,
    }


def _places(reports: Sequence[ReportData], samples: Iterable[Sample], rel: int) -> list[GoldPlace]:
    """Every document of a query whose passage a judge judged, in input order."""
    read = [AuditedJudge.of(report, every=True) for report in reports]
    graded = [judge.kinds.get("relevance", {}) for judge in read]
    book = LabelBook(label for judge in read for label in judge.labels if label.who is not None)
    result: dict[tuple[str, str], dict[str, str]] = {}
    gold: dict[tuple[str, str], int | None] = {}
    for sample in samples:
        history = turns(sample)
        for ranked_passage in sample.places():
            name, passage = ranked_passage.context.id, passage_of(ranked_passage.context)
            item = relevance_item(sample.query, passage, history)
            if name is not None and (sample.id, name) not in result and any(item in mine for mine in graded):
                result[sample.id, name] = {"item": item, "query": sample.query, "passage": passage}
                gold[sample.id, name] = (sample.qrels or {}).get(name)
    if not result:
        fix = "run it with a judged measure, such as context_relevance, on samples whose contexts have ids and texts"
        raise InputError("no judge judged a passage that gold could be about", fix=fix)
    grades = [[mine.get(row["item"], (nan, ""))[0] for row in result.values()] for mine in graded]
    labels = [nan if grade is None else float(grade >= rel) for grade in gold.values()]
    doubts = doubt_of_labels(labels, grades, [case for case, _ in result]).tolist()
    gold_places = []
    for at, ((case, name), entry) in enumerate(result.items()):
        votes = [yes(float(vote.answer), vote.scale) for vote in book.votes(entry["item"])]
        gold_places.append(
            GoldPlace(
                sample=case,
                id=name,
                item=entry["item"],
                query=entry["query"],
                passage=entry["passage"],
                gold=gold[case, name],
                grades=tuple(None if np.isnan(row[at]) else row[at] for row in grades),
                doubt=doubts[at],
                people=fsum(votes) / len(votes) if votes else None,
            )
        )
    return gold_places


class _Worth:
    """The mean of a measure of gold labels, with gold as it is and with some of it turned round."""

    def __init__(self, samples: Sequence[Sample], measure: Measure | None, rel: int) -> None:
        self._graders = graders_of((measure,)) if measure else ()
        self._of: dict[str, list[Sample]] = defaultdict(list)
        for sample in samples:
            self._of[sample.id].append(sample)
        self._rel, self._count = rel, 0
        self._values: dict[str, float] = {}
        if measure:
            values = self._scored(samples)
            self._count = len(values)
            for sample, value in zip(samples, values, strict=True):
                self._values[sample.id] = self._values.get(sample.id, 0.0) + value

    @property
    def now(self) -> float:
        """The mean with gold as it is."""
        return fsum(self._values.values()) / max(1, self._count)

    def of(self, turned: Iterable[GoldPlace]) -> float:
        """The mean if gold were the other way round in these places."""
        by_sample: dict[str, dict[str, int]] = defaultdict(dict)
        for gold_place in turned:
            relevant = gold_place.gold is not None and gold_place.gold >= self._rel
            by_sample[gold_place.sample][gold_place.id] = 0 if relevant else self._rel
        changed = [
            structs.replace(sample, qrels=FrozenDict({**(sample.qrels or {}), **grades}))
            for name, grades in by_sample.items()
            for sample in self._of[name]
        ]
        values = dict(self._values)
        values |= dict.fromkeys(by_sample, 0.0)
        for sample, value in zip(changed, self._scored(changed), strict=True):
            values[sample.id] += value
        return fsum(values.values()) / max(1, self._count)

    def _scored(self, samples: Sequence[Sample]) -> list[float]:
        """The value of each sample; 0 where gold leaves nothing to find."""
        jobs = [Job(sample=sample, graders=self._graders) for sample in samples]
        outcomes = Block(jobs, Settings()).outcomes([])
        return [next(iter(outcome.values())).value or 0.0 for outcome in outcomes]

    def means(self, places: Sequence[GoldPlace]) -> dict[str, Json]:
        """With gold as it is, as people corrected it, and between which values suspects that nobody looked at leave that.

        `bounds`: the least and the most of the means with none of these suspects turned round, with those turned that gold calls
        relevant, with the others, and with all.
        """
        wrong = [
            gold_place
            for gold_place in places
            if gold_place.people is not None
            and (gold_place.people >= _LEANING)
            != (gold_place.gold is not None and gold_place.gold >= self._rel)
        ]
        open_ = [
            gold_place for gold_place in places if gold_place.people is None and gold_place.doubt >= _LEANING
        ]
        relevant = [
            gold_place for gold_place in open_ if gold_place.gold is not None and gold_place.gold >= self._rel
        ]
        others = [gold_place for gold_place in open_ if gold_place not in relevant]
        ends = [self.of([*wrong, *more]) for more in ([], relevant, others, open_)]
        return {
            "gold": self.now,
            "corrected": ends[0],
            "bounds": [min(ends), max(ends)],
            "looked_at": sum(gold_place.people is not None for gold_place in places),
            "wrong": len(wrong),
            "open": len(open_),
        }


def gold_lines(found: Mapping[str, Json]) -> Iterator[str]:
    """The audit of the gold for a terminal, as Markdown."""
    suspects, means = found["suspects"], found["means"]
    judges = ", ".join(str(value) for value in found["judges"])
    yield f"{counted(found['places'], 'document')} with a label of gold and of {judges}; gold counts from grade {found['counts_from']}"
    yield ""
    yield "| doubt | moves | query | document | gold | judges |"
    yield "| ---: | ---: | --- | --- | ---: | --- |"
    for suspect in suspects[:SHOWN]:
        gold = "-" if suspect["gold"] is None else suspect["gold"]
        grades = ", ".join("-" if grade is None else f"{grade:g}" for grade in suspect["grades"])
        moves = in_digits(suspect["moves"], "+")
        names = (shorten(suspect[name], 60).replace("|", "\\|") for name in ("query", "id"))
        yield f"| {suspect['doubt']:.2f} | {moves} | {' | '.join(names)} | {gold} | {grades} |"
    if means:
        yield ""
        yield from (f"- {line}" for line in mean_lines(found))
    yield ""
    yield "gold is not changed; have people look at these: germane label REPORT --queue gold, or -o suspects.csv for their grades"


def mean_lines(found: Mapping[str, Json]) -> Iterator[str]:
    """The mean with gold as it is, as people corrected it, and its bounds; nothing where there is no measure of gold."""
    if not (means := found["means"]):
        return
    yield f"{found['measure']}: {means['gold']:.4f} with gold as it is"
    if means["looked_at"]:
        wrong = f"gold is wrong in {means['wrong']} of the {counted(means['looked_at'], 'place')} that they looked at"
        yield f"{means['corrected']:.4f} as people corrected it: {wrong}"
    low, high = means["bounds"]
    yield f"{low:.4f} to {high:.4f}, whatever the {means['open']} suspects are that nobody looked at"


def suspects_queue(reports: Sequence[ReportData], budget: int | None = None) -> LabelQueue:
    """The suspects for people to label, in the order of the audit; labels of them correct no mean but that of the gold."""
    history = {sample.id: turns(sample) for sample in reports[0].samples()}
    suspects = audit_gold(reports)["suspects"]
    tasks = [
        LabelTask(
            item=suspect["item"],
            kind="relevance",
            case=suspect["sample"],
            query=suspect["query"],
            passages=(suspect["passage"],),
            history=history[suspect["sample"]],
            sample=suspect["sample"],
            doubt=-at,
        )
        for at, suspect in enumerate(suspects)
    ]
    return LabelQueue(tasks=tasks, queue="targeted", budget=budget)


def queue_rows(found: Mapping[str, Json]) -> Iterator[list[Json]]:
    """The suspects as a table for people to fill in, header first: the column `grade` is theirs.

    `germane label REPORT --import` reads it; rows without a grade are not answered yet. Neither what gold says nor what judges
    say is shown.
    """
    yield [*QUEUE_COLUMNS]
    for value in found["suspects"]:
        yield [
            value["sample"],
            value["id"],
            value["query"],
            value["passage"][:_LONGEST],
            "",
            "",
            round(value["doubt"], 4),
        ]
