"""People's labels after a corpus has changed: those of passages that are the same, or that hold or lie within the labelled one.

A label is of a passage. A document that holds all of a relevant passage is as relevant; one that lies within a passage that is
not relevant is none, either. Anything else is unknown: the person would be unsure, and measures of people's labels are bounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from msgspec import structs

from germane.labelling.corpus import Corpus, FoundPlace
from germane.labelling.files import LabelFile
from germane.measures.labels import turns
from germane.reports.data import ReportData
from germane.reports.schema import Line
from germane.tables.labels import (
    UNSURE,
    Label,
    LabelTable,
    add_labels,
    passage_of,
    relevance_item,
)
from germane.types import Sample

WHOLE = 0.95
"""Share of a passage that a document must hold to be as relevant."""


class LabelsRow(Line):
    """Labels of people by what became of the passages that they are of.

    `same`: a document is that passage; `carried`: the label holds of another document; `unsure`: documents hold a part of it;
    `lost`: none does. `others` are labels of no single passage.
    """

    same: int
    carried: int
    unsure: int
    lost: int
    others: int


@dataclass(slots=True)
class CarriedLabels:
    """People's labels of the documents of a corpus, and how many labels became what."""

    labels: list[Label] = field(default_factory=list)
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(LabelsRow.__struct_fields__, 0))

    def __str__(self) -> str:
        """The counts in words."""
        words = [f"{count} {name}" for name, count in self.counts.items() if count]
        return f"people's labels: {', '.join(words)}"


class _Labelled(NamedTuple):
    label: Label
    sample: Sample
    passage: str
    document: str | None


def labels_in(samples: Sequence[Sample], report: ReportData | None, file: LabelFile | None) -> list[Label]:
    """The labels of a report, of a file of labels, and of the samples themselves."""
    table = LabelTable()
    for sample in samples if report is None else ():
        add_labels(table, sample, turns(sample))
    labels = list(table if report is None else report.labels())
    return [*labels, *(label for sample in samples if file is not None for label in file.about(sample))]


def carry_labels(labels: Iterable[Label], samples: Sequence[Sample], corpus: Corpus) -> CarriedLabels:
    """People's labels, carried to the documents of a corpus."""
    carried = CarriedLabels()
    labelled_passages = list(_places(labels, samples, carried))
    ids = {
        value.document
        for value in labelled_passages
        if value.document is not None and value.passage == value.document
    }
    kept = corpus.texts_of(ids)  # labels under an id alone, whose text nobody knows
    result = corpus.find(value.passage for value in labelled_passages if value.document not in kept)
    texts = kept | corpus.texts_of({at.document for positions in result.values() for at in positions})
    made: dict[tuple[str, str | None], Label] = {}
    for labelled in labelled_passages:
        found_places = result.get(labelled.passage, [])
        if labelled.document in kept:
            found_places = [FoundPlace(str(labelled.document), 0, 0, 1.0, exact=True, all=True)]
        carried.counts[_what(labelled, found_places)] += 1
        for at in found_places:
            sure = _holds(labelled.label, at)
            item = relevance_item(labelled.sample.query, texts[at.document], turns(labelled.sample))
            fields = {"queue": "import", "design": None, "call": None, "rank": None}
            if not sure:
                fields |= {"answer": None, "reason": UNSURE}
            label = structs.replace(labelled.label, item=item, sample=labelled.sample.id, **fields)
            before = made.setdefault((item, label.who), label)
            if label.answer is not None and (before.answer is None or before.answer < label.answer):
                made[item, label.who] = label
    carried.labels += made.values()
    return carried


def _places(
    labels: Iterable[Label], samples: Sequence[Sample], carried: CarriedLabels
) -> Iterator[_Labelled]:
    """The newest label of each person and passage, with the passage. Other labels are counted."""
    passages: dict[str, tuple[Sample, str, str | None]] = {}
    for sample in samples:
        history = turns(sample)
        for ranked_passage in sample.places():
            passage = passage_of(ranked_passage.context)
            item = relevance_item(sample.query, passage, history)
            passages.setdefault(item, (sample, passage, ranked_passage.context.id))
    newest: dict[tuple[str, str | None], Label] = {}
    for label in labels:
        before = newest.get((label.item, label.who))
        if before is None or (before.at or "") <= (label.at or ""):
            newest[label.item, label.who] = label
    for label in newest.values():
        if label.item not in passages or label.kind != "relevance":
            carried.counts["others"] += 1
        elif label.answer is not None:
            yield _Labelled(label, *passages[label.item])


def _holds(label: Label, at: FoundPlace) -> bool:
    """Whether the label of a passage is one of a document that stands there."""
    if at.share >= WHOLE and at.all:
        return True
    return at.share >= WHOLE if label.answer else at.all


def _what(labelled: _Labelled, places: Sequence[FoundPlace]) -> str:
    if any(at.share == 1.0 and at.all for at in places):
        return "same"
    if any(_holds(labelled.label, at) for at in places):
        return "carried"
    return "unsure" if places else "lost"
