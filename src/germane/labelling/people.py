"""People's labels after a corpus has changed: those of passages that are the same, or that hold or lie within the labelled one.

A label is of a passage. A document that holds all of a relevant passage is as relevant; one that lies within a passage that is
not relevant is none, either. Anything else is unknown: the person would be unsure, and measures of people's labels are bounds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from msgspec import structs

from germane.encoding import Line
from germane.labelling.corpus import Corpus, TextMatch
from germane.labelling.files import LabelFile
from germane.places.lists import labelled_passages, turns
from germane.reports.data import ReportData
from germane.tables.labels import (
    UNSURE,
    Label,
    LabelTable,
    add_labels,
    newest_labels,
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


class CarriedLabels(NamedTuple):
    """People's labels of the documents of a corpus, and how many labels became what."""

    labels: list[Label]
    counts: dict[str, int]

    def __str__(self) -> str:
        """The counts that are not 0, in words: `people's labels: 12 same, 3 carried`."""
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
    counts = dict.fromkeys(LabelsRow.__struct_fields__, 0)
    labelled = list(_labelled_passages(labels, samples, counts))
    # of labels under an id alone nobody knows the text
    kept = corpus.texts_of({row.document for row in labelled if row.document and row.passage == row.document})
    matches_of = corpus.find(row.passage for row in labelled if row.document not in kept)
    texts = kept | corpus.texts_of({at.document for matches in matches_of.values() for at in matches})
    made: dict[tuple[str, str | None], Label] = {}
    for label, sample, passage, document in labelled:
        matches = matches_of.get(passage, [])
        if document is not None and document in kept:
            matches = [TextMatch(document, 0, 0, 1.0, exact=True, all=True)]
        counts[_outcome(label, matches)] += 1
        for at in matches:
            item = relevance_item(sample.query, texts[at.document], turns(sample))
            fields = {"queue": "import", "design": None, "call": None, "rank": None}
            if not _holds(label, at):
                fields |= {"answer": None, "reason": UNSURE}
            carried = structs.replace(label, item=item, sample=sample.id, **fields)
            before = made.setdefault((item, carried.who), carried)
            if carried.answer is not None and (before.answer is None or before.answer < carried.answer):
                made[item, carried.who] = carried
    return CarriedLabels(list(made.values()), counts)


def _labelled_passages(
    labels: Iterable[Label], samples: Sequence[Sample], counts: dict[str, int]
) -> Iterator[_Labelled]:
    """The newest label of each person and passage, with the passage. Other labels are counted."""
    passages: dict[str, tuple[Sample, str, str | None]] = {}
    for sample in samples:
        for item, (_, _, _, context) in labelled_passages(sample):
            passages.setdefault(item, (sample, context.passage, context.id))
    for label in newest_labels(labels):
        if label.item not in passages or label.kind != "relevance":
            counts["others"] += 1
        elif label.answer is not None:
            yield _Labelled(label, *passages[label.item])


def _holds(label: Label, at: TextMatch) -> bool:
    """True if the label of a passage holds for a document that stands there."""
    if at.share >= WHOLE and at.all:
        return True
    return at.share >= WHOLE if label.answer else at.all


def _outcome(label: Label, matches: Sequence[TextMatch]) -> str:
    if any(at.share == 1.0 and at.all for at in matches):
        return "same"
    if any(_holds(label, at) for at in matches):
        return "carried"
    return "unsure" if matches else "lost"
