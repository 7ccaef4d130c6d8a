"""The rows of the five tables: the interface to them, and the rows held in memory."""

from __future__ import annotations

from abc import ABC, abstractmethod
from array import array
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias

from germane.encoding import canonical, encode
from germane.tables.judgements import AskedCounts, JudgementTable, count_asked
from germane.tables.labels import Label, by_people
from germane.tables.scores import SampleKey, ScoreTable
from germane.types import Json, Judgement, PlaceRow, Sample

__all__ = ["BlockRows", "GraderSet"]

GraderSet: TypeAlias = Sequence[Mapping[str, Json]]
"""The graders of a sample as JSON objects, in the order of their scores."""

Beside: TypeAlias = "dict[tuple[str, str], array[float]]"
"""Values that are shown with the means, by (system, measure): one per sample that has one."""

_Table: TypeAlias = Literal["samples", "places", "judgements", "labels"]


@dataclass(slots=True, kw_only=True)
class Tables(ABC):
    """The five tables of an evaluation, with the same interface for rows in memory and in a folder.

    Attributes:
        samples: The samples, in input order.
        judgements: The answers of judges.
        graders: The distinct sets of graders of the samples; `numbers` has their numbers by what they are as JSON.
        notes: Counts of what a reader should know.
        prompts: The hashes of the prompts by name.
        reads: The kinds of question that each measure asked, by its canonical name.
        references: How many verdicts of each measure were given with and without a reference.
        beside: The values of measures that belong beside the scores'.
        folder: The report folder; None where the rows are in memory, or in files that go with this object.
        is_complete: True if the folder holds a complete report, whose manifest says what is counted of the rows.
        cluster_of: The cluster of each case that has one, by the case's id; None until it is read from the samples.
    """

    graders: list[GraderSet] = field(default_factory=list)
    numbers: dict[bytes, int] = field(default_factory=dict, repr=False, compare=False)
    notes: Counter[str] = field(default_factory=Counter)
    prompts: dict[str, str] = field(default_factory=dict)
    reads: dict[str, set[str]] = field(default_factory=dict)
    references: dict[str, Counter[str]] = field(default_factory=dict)
    beside: Beside = field(default_factory=dict)
    folder: Path | None = None
    is_complete: bool = False
    cluster_of: dict[str, str] | None = field(default=None, repr=False, compare=False)

    @property
    @abstractmethod
    def samples(self) -> Iterable[Sample]:
        """The samples, in input order."""

    @property
    @abstractmethod
    def judgements(self) -> Iterable[Judgement]:
        """The answers of judges, in order of first use."""

    @property
    @abstractmethod
    def places(self) -> Iterable[PlaceRow]:
        """The places that something was asked about, in input order."""

    @property
    @abstractmethod
    def labels(self) -> list[Label]:
        """People's labels."""

    @property
    @abstractmethod
    def scores(self) -> ScoreTable:
        """All scores."""

    def candidates(self, table: _Table, field: str, values: Collection[str]) -> Iterator[Any]:  # noqa: ARG002
        """Yield every row of a table with one of these values in a field, and possibly others, in order."""
        return iter(getattr(self, table))

    def values_of(
        self, field: Literal["calls", "history", "tags", "cluster"]
    ) -> Iterator[tuple[SampleKey, Any]]:
        """Iterate over the keys of the samples that have this field, with its value."""
        both = ((sample.key, getattr(sample, field)) for sample in self.samples)
        return ((key, value) for key, value in both if value is not None and value != ())

    def number_of(self, graders: GraderSet) -> int:
        """Return the number of a grader set, adding a new one."""
        if len(self.numbers) < len(self.graders):
            self.numbers.update((canonical(known), number) for number, known in enumerate(self.graders))
        number = self.numbers.setdefault(canonical(graders), len(self.graders))
        if number == len(self.graders):
            self.graders.append(graders)
        return number

    def add_counts(self, more: Tables) -> None:
        """Add the counts of further rows."""
        self.notes.update(more.notes)
        self.prompts.update(more.prompts)
        for measure, kinds in more.reads.items():
            self.reads.setdefault(measure, set()).update(kinds)
        for measure, counts in more.references.items():
            self.references.setdefault(measure, Counter()).update(counts)
        for name, values in more.beside.items():
            self.beside.setdefault(name, array("d")).extend(values)

    @abstractmethod
    def grader_numbers(self) -> dict[SampleKey, int]:
        """Return the grader set's number of each sample for which it is not 0."""

    def append_labels(self, labels: Iterable[Label]) -> None:
        """Append labels that people gave separately from the samples."""
        self.labels.extend(labels)

    @property
    def asked(self) -> AskedCounts:
        """The number of judgements by how they were asked."""
        return count_asked(Counter(), self.judgements)

    def labels_added(self) -> bool:
        """Return True if labels were added since the scores were computed."""
        return False

    def samples_of(self, keys: Collection[SampleKey]) -> Iterator[Sample]:
        """Yield the samples with these keys in input order."""
        rows: Iterator[Sample] = self.candidates("samples", "id", {name for name, _, _ in keys})
        return (sample for sample in rows if sample.key in keys)

    def samples_named(self, name: str) -> Iterator[Sample]:
        """Yield the samples with this text as id or query, in input order."""
        return (sample for sample in self.samples if name in {sample.id, sample.query})

    def places_of(self, keys: Collection[SampleKey]) -> Iterator[PlaceRow]:
        """Yield the places of these samples in input order."""
        rows: Iterator[PlaceRow] = self.candidates("places", "sample", {name for name, _, _ in keys})
        return (row for row in rows if row.key in keys)

    def labels_of(self, items: Collection[str]) -> Iterator[Label]:
        """Yield the labels of these items, oldest first."""
        rows: Iterator[Label] = self.candidates("labels", "item", items)
        return (label for label in rows if label.item in items)

    def judgements_of(self, items: Collection[str]) -> Iterator[Judgement]:
        """Iterate over the judgements whose item is one of these, in order of first use."""
        rows: Iterator[Judgement] = self.candidates("judgements", "item", items)
        return (judgement for judgement in rows if judgement.item in items)

    def answers(self) -> Iterator[tuple[str, bytes | None]]:
        """Iterate over items and the answers about them as JSON, None for one that failed; merged judgements are left out."""
        for row in self.judgements:
            if row.parent is None:
                yield row.item, None if row.error is not None else encode(row.answer)

    def people(self) -> Iterator[Label]:
        """Yield people's labels that are not part of the samples."""
        return filter(by_people, self.labels)

    def clusters(self) -> dict[str, str]:
        """Return the cluster of each case that has one, by the case's id."""
        if self.cluster_of is None:
            self.cluster_of = {name: cluster for (name, _, _), cluster in self.values_of("cluster")}
        return self.cluster_of


@dataclass(slots=True, kw_only=True)
class BlockRows(Tables):
    """Rows of the five tables in memory, of one or several merged blocks of cases.

    `graded` gives, for each of the samples, the number of its grader set in `graders`; samples beyond its end have set 0.
    """

    samples: list[Sample] = field(default_factory=list)
    places: list[PlaceRow] = field(default_factory=list)
    judgements: JudgementTable = field(default_factory=JudgementTable)
    labels: list[Label] = field(default_factory=list)
    scores: ScoreTable = field(default_factory=ScoreTable)
    graded: list[int] = field(default_factory=list)

    def grader_numbers(self) -> dict[SampleKey, int]:
        """Return the grader set's number of each sample for which it is not 0."""
        numbered = zip(self.samples, self.graded, strict=False)
        return {sample.key: number for sample, number in numbered if number}

    def add(self, other: BlockRows) -> None:
        """Append other rows in order, add their counts, and renumber their grader sets."""
        self.graded += [0] * (len(self.samples) - len(self.graded))
        renumbered = list(map(self.number_of, other.graders))
        theirs = other.graded + [0] * (len(other.samples) - len(other.graded))
        self.graded += [renumbered[number] if renumbered else 0 for number in theirs]
        self.samples += other.samples
        self.cluster_of = None
        self.places += other.places
        self.judgements.extend(other.judgements)
        self.labels.extend(other.labels)
        self.scores.extend(other.scores)
        self.add_counts(other)


def merge(several: Iterable[BlockRows]) -> BlockRows:
    """Return the rows of all blocks in order.

    Merging is associative, and what is computed from the rows is the same however they were cut: counts are added, and
    means are taken over all rows at the end.
    """
    merged = BlockRows()
    for rows in several:
        merged.add(rows)
    return merged
