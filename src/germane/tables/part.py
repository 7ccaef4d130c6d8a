"""The result of one unit of work, and the merging of several: exact, whatever the number of parts."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from germane.encoding import canonical
from germane.tables.items import ItemTable
from germane.tables.judgements import AskedCounts, JudgementTable
from germane.tables.labels import Label, LabelTable, by_people
from germane.tables.scores import SampleKey, ScoreTable
from germane.types import ItemRow, Json, Sample

GraderSet: TypeAlias = Sequence[Mapping[str, Json]]
"""The graders of a sample as JSON objects, in the order of their scores."""

Beside: TypeAlias = "dict[tuple[str, str], array[float]]"
"""Values that are shown with the means, by (system, measure): one per sample that has one."""


@dataclass(slots=True, kw_only=True)
class Counts:
    """Counts over rows.

    `notes` count what a reader should know, `prompts` are the hashes of the prompts by name, `reads` the kinds of question
    that each measure asked, by its canonical name, and `references` how many of its verdicts were given with and without a
    reference; `beside` are the values of measures that belong beside the scores'.
    """

    notes: Counter[str] = field(default_factory=Counter)
    prompts: dict[str, str] = field(default_factory=dict)
    reads: dict[str, set[str]] = field(default_factory=dict)
    references: dict[str, Counter[str]] = field(default_factory=dict)
    beside: Beside = field(default_factory=dict)

    def add_counts(self, more: Counts) -> None:
        """Add what is counted of further rows."""
        self.notes.update(more.notes)
        self.prompts.update(more.prompts)
        for measure, kinds in more.reads.items():
            self.reads.setdefault(measure, set()).update(kinds)
        for measure, counts in more.references.items():
            self.references.setdefault(measure, Counter()).update(counts)
        for name, values in more.beside.items():
            self.beside.setdefault(name, array("d")).extend(values)


@dataclass(slots=True, kw_only=True)
class Part(Counts):
    """The rows of one unit of work, or of several that were merged.

    `graded` gives, for each of the samples, the number of its grader set in `graders`; samples beyond its end have set 0.
    """

    samples: list[Sample] = field(default_factory=list)
    items: ItemTable = field(default_factory=ItemTable)
    judgements: JudgementTable = field(default_factory=JudgementTable)
    labels: LabelTable = field(default_factory=LabelTable)
    scores: ScoreTable = field(default_factory=ScoreTable)
    graders: list[GraderSet] = field(default_factory=list)
    graded: list[int] = field(default_factory=list)

    @property
    def asked(self) -> AskedCounts:
        """The number of judgements by the way in which they were asked."""
        return self.judgements.asked

    def add_labels(self, labels: Iterable[Label]) -> None:
        """Append labels that people gave separately from the samples."""
        self.labels.extend(labels)

    def people(self) -> Iterator[Label]:
        """The labels that people gave separately from the samples."""
        return filter(by_people, self.labels)

    def samples_of(self, keys: Collection[SampleKey]) -> Iterator[Sample]:
        """The samples with these keys, in input order."""
        return (sample for sample in self.samples if sample.key in keys)

    def samples_named(self, name: str) -> Iterator[Sample]:
        """The samples that have this text as their id or as their query, in input order."""
        return (sample for sample in self.samples if name in {sample.id, sample.query})

    def items_of(self, keys: Collection[SampleKey]) -> Iterator[ItemRow]:
        """The item rows of these samples: each question with where it was asked."""
        return (row for row in self.items if (row.sample, row.system, row.trial) in keys)

    def labels_of(self, items: Collection[str]) -> Iterator[Label]:
        """The labels whose item is one of these, in the order in which they came."""
        return (label for label in self.labels if label.item in items)

    def any_has(self, field: Literal["calls", "history"]) -> bool:
        """True if any sample has this field."""
        return any(getattr(sample, field) for sample in self.samples)

    def tags(self) -> Iterator[tuple[SampleKey, Sequence[str]]]:
        """The tags of each sample that has any."""
        return ((sample.key, sample.tags) for sample in self.samples if sample.tags)

    def grader_numbers(self) -> dict[SampleKey, int]:
        """The number of the grader set of each sample for which it is not 0."""
        numbered = zip(self.samples, self.graded, strict=False)
        return {sample.key: number for sample, number in numbered if number}

    def clusters(self) -> dict[str, str]:
        """The cluster of each case that has one, by the case's id."""
        return {sample.id: sample.cluster for sample in self.samples if sample.cluster is not None}

    def add(self, other: Part) -> None:
        """Append another part: its rows in their order, its counts added, its grader sets numbered anew."""
        numbers = {canonical(graders): number for number, graders in enumerate(self.graders)}
        self.graded += [0] * (len(self.samples) - len(self.graded))
        renumbered = []
        for graders in other.graders:
            number = numbers.setdefault(canonical(graders), len(self.graders))
            if number == len(self.graders):
                self.graders.append(graders)
            renumbered.append(number)
        theirs = other.graded + [0] * (len(other.samples) - len(other.graded))
        self.graded += [renumbered[number] if renumbered else 0 for number in theirs]
        self.samples += other.samples
        self.items.extend(other.items)
        self.judgements.extend(other.judgements)
        self.labels.extend(other.labels)
        self.scores.extend(other.scores)
        self.add_counts(other)


def merge(parts: Iterable[Part]) -> Part:
    """One part that holds the rows of all, in their order.

    Merging is associative, and what is computed from the rows is the same however they were cut: counts are added, and
    means are taken over all rows at the end.
    """
    merged = Part()
    for part in parts:
        merged.add(part)
    return merged
