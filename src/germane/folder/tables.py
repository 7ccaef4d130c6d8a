"""The five tables of an evaluation: in memory, for a batch of cases, or in the files of a report folder.

Files are read row by row; lines and fields that are not needed are not parsed.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Literal, TypeAlias

import msgspec

from germane.encoding import canonical, encode, json_lines
from germane.errors import InputError
from germane.folder.files import (
    APPEND,
    LABELS,
    TABLES,
    UNFINISHED,
    Table,
    TableFile,
    complete_killed,
    files_in,
    judgement_in,
    label_in,
    object_in,
    opened,
    read_manifest,
    torn_bytes,
    with_texts,
)
from germane.places.lists import PlaceRow
from germane.tables.judgements import AskedCounts, JudgementTable, count_asked
from germane.tables.labels import Label, by_people
from germane.tables.scores import SampleKey, ScoreTable
from germane.types import Json, Judgement, Sample

__all__ = ["BlockRows", "GraderSet", "StoredTables", "numbered"]

GraderSet: TypeAlias = Sequence[Mapping[str, Json]]
"""The graders of a sample as JSON objects, in the order of their scores."""


@dataclass(kw_only=True)
class Tables:
    """The five tables of an evaluation, in memory or in a folder.

    Attributes:
        samples: The samples, in input order.
        places: The rows of places.jsonl: each judged item of a sample with its ranks there, in input order.
        judgements: The judgements, in order of first use.
        graders: The distinct lists of graders that samples are scored with (grader sets).
        numbers: The index in `graders` of each grader set, by the grader set's JSON.
        graded: The index in `graders` of each sample's grader set, if it is not 0. It is empty for rows in a
            folder; use `grader_numbers`.
        notes: The remarks on the data that the report shows, each with its count.
        prompts: The hash of each prompt, by name.
        reads: The kinds of question that each measure asked, by the measure's canonical name.
        references: For each measure, how many verdicts were given with and without a reference.
        beside: The values of companion measures, which are shown next to the means: one value per sample, by
            (system, measure).
        folder: The report folder; None if the rows are in memory.
        is_complete: True if the folder holds a complete report, whose manifest contains the counts.
        cluster_of: The cluster of each case that has a cluster; None until it is read from the samples.
    """

    samples: Iterable[Sample] = ()
    places: Iterable[PlaceRow] = ()
    judgements: Iterable[Judgement] = ()
    graders: list[GraderSet] = field(default_factory=list)
    numbers: dict[bytes, int] = field(default_factory=dict, repr=False, compare=False)
    graded: dict[SampleKey, int] = field(default_factory=dict)
    notes: Counter[str] = field(default_factory=Counter)
    prompts: dict[str, str] = field(default_factory=dict)
    reads: dict[str, set[str]] = field(default_factory=dict)
    references: dict[str, Counter[str]] = field(default_factory=dict)
    beside: dict[tuple[str, str], array[float]] = field(default_factory=dict)
    folder: Path | None = None
    is_complete: bool = False
    cluster_of: dict[str, str] | None = field(default=None, repr=False, compare=False)

    @cached_property
    def labels(self) -> list[Label]:
        """All labels: the labels in the input samples and the labels that people added."""
        return []

    @cached_property
    def scores(self) -> ScoreTable:
        """The table of all scores."""
        return ScoreTable()

    @cached_property
    def asked(self) -> AskedCounts:
        """The number of judgements by (kind, field, value), such as ("relevance", "mode", "schema")."""
        return count_asked(Counter(), self.judgements)

    def candidates(self, table: Table, field: str, values: Collection[str]) -> Iterator[Any]:  # noqa: ARG002
        """Yield the rows whose `field` is in `values`, in table order; other rows may be among them."""
        return iter(getattr(self, table))

    def values_of(
        self, field: Literal["calls", "history", "tags", "cluster"]
    ) -> Iterator[tuple[SampleKey, Any]]:
        """Yield (sample key, value of `field`) for each sample in which `field` is not empty."""
        both = ((sample, getattr(sample, field)) for sample in self.samples)
        return ((sample.key, value) for sample, value in both if value is not None and value != ())

    def number_of(self, graders: GraderSet) -> int:
        """Return the index of a list of graders in `self.graders`, to which it is added if it is new."""
        if len(self.numbers) < len(self.graders):
            self.numbers.update((canonical(known), number) for number, known in enumerate(self.graders))
        number = self.numbers.setdefault(canonical(graders), len(self.graders))
        if number == len(self.graders):
            self.graders.append(graders)
        return number

    def add_counts(self, more: Tables) -> None:
        """Add `notes`, `prompts`, `reads`, `references` and `beside` of `more` to those of this object."""
        self.notes.update(more.notes)
        self.prompts.update(more.prompts)
        for measure, kinds in more.reads.items():
            self.reads.setdefault(measure, set()).update(kinds)
        for measure, counts in more.references.items():
            self.references.setdefault(measure, Counter()).update(counts)
        for name, values in more.beside.items():
            self.beside.setdefault(name, array("d")).extend(values)

    def grader_numbers(self) -> dict[SampleKey, int]:
        """Return a mapping from sample keys to the index of their graders in `graders`, without indices 0."""
        return self.graded

    def append_labels(self, labels: Iterable[Label]) -> None:
        """Append labels that people gave after the evaluation."""
        self.labels.extend(labels)

    def labels_added(self) -> bool:
        """Return True if labels were added since the scores were computed."""
        return False

    def samples_of(self, keys: Collection[SampleKey]) -> Iterator[Sample]:
        """Yield the samples with these keys, in input order."""
        rows = self.candidates("samples", "id", {name for name, _, _ in keys})
        return (sample for sample in rows if sample.key in keys)

    def places_of(self, keys: Collection[SampleKey]) -> Iterator[PlaceRow]:
        """Yield the rows of places.jsonl for the samples with these keys, in input order."""
        rows = self.candidates("places", "sample", {name for name, _, _ in keys})
        return (row for row in rows if row.key in keys)

    def judgements_of(self, items: Collection[str]) -> Iterator[Judgement]:
        """Yield the judgements whose `item` is in `items`, in order of first use."""
        return (row for row in self.candidates("judgements", "item", items) if row.item in items)

    def answers(self) -> Iterator[tuple[str, bytes | None]]:
        """Yield (item, answer as JSON) for each judgement; if judging failed, the answer is None.

        The item is the digest of the judged texts. Judgements with a parent are left out: they are
        merged into another judgement, such as a panel's verdict.
        """
        for row in self.judgements:
            if row.parent is None:
                yield row.item, None if row.error is not None else encode(row.answer)

    def people(self) -> Iterator[Label]:
        """Yield the labels that people added; labels in the input samples are left out."""
        return filter(by_people, self.labels)

    def clusters(self) -> dict[str, str]:
        """Return the cluster of each case that has a cluster, by case id."""
        if self.cluster_of is None:
            self.cluster_of = {name: cluster for (name, _, _), cluster in self.values_of("cluster")}
        return self.cluster_of


@dataclass(kw_only=True)
class BlockRows(Tables):
    """The rows of the five tables in memory, for one batch of cases or several merged batches."""

    samples: list[Sample] = field(default_factory=list)
    places: list[PlaceRow] = field(default_factory=list)
    judgements: JudgementTable = field(default_factory=JudgementTable)
    labels: list[Label] = field(default_factory=list)
    scores: ScoreTable = field(default_factory=ScoreTable)

    def add(self, other: BlockRows) -> None:
        """Append the rows and counts of another batch; the indices of its grader sets are adapted."""
        renumbered = list(map(self.number_of, other.graders))
        for sample in other.samples if any(renumbered) else ():
            if number := renumbered[other.graded.get(sample.key, 0)]:
                self.graded[sample.key] = number
        self.samples += other.samples
        self.cluster_of = None
        self.__dict__.pop("asked", None)
        self.places += other.places
        self.judgements.extend(other.judgements)
        self.labels.extend(other.labels)
        self.scores.extend(other.scores)
        self.add_counts(other)


def merge(several: Iterable[BlockRows]) -> BlockRows:
    """Return one BlockRows with the rows of all batches in `several`, in order."""
    merged = BlockRows()
    for rows in several:
        merged.add(rows)
    return merged


class StoredTables(Tables):
    """The tables of an evaluation, read from the files of a report folder.

    Labels and scores are read at first use and cached; other tables are read at each use. `end` is the suffix
    of the file names. While a FolderWriter writes the files, `manifest` is {} and the writer itself sets
    `scores`, `asked` and `cluster_of`.
    """

    def __init__(self, path: Path, manifest: Mapping[str, Json] | None = None, end: str = "") -> None:
        self.path, self.manifest = path, manifest or {}
        is_complete = self.manifest.get("status") == "complete"
        super().__init__(graders=list(self.manifest.get("graders", ())), folder=path, is_complete=is_complete)
        self.move_to(end)

    def move_to(self, end: str, others: Mapping[Table, TableFile] | None = None) -> None:
        """Read the rows from the files with the suffix `end` from now on, or from the files in `others`."""
        files = files_in(self.path, end).items()
        self.files = {name: TableFile(path, _DECODERS.get(name, object_in)) for name, path in files}
        self.files |= others or {}
        self.samples, self.places, self.judgements = (self.files[name] for name in TABLES[:3])
        # people's labels stay in the old labels.jsonl until the new report replaces the old report
        self._peoples = TableFile(self.path / LABELS, label_in) if end else None
        self.forget("labels")

    def forget(self, *names: str) -> None:
        """Drop the cached tables with these names, so that they are read again at their next use."""
        for name in names:
            self.__dict__.pop(name, None)

    @classmethod
    def open(cls, path: Path | str) -> StoredTables:
        """Return the tables of a finished report.

        Raises InputError if the folder is not a finished report, or if a file was changed after the report
        was written.
        """
        path = Path(path)
        complete_killed(path)
        manifest = read_manifest(path)
        if manifest.get("status") != "complete":
            raise InputError(f"{path} is an unfinished report", fix=f"write germane run --resume {path}")
        for name, digest in manifest.get("files", {}).items():
            check_digest(path / name, digest)
        return cls(path, manifest)

    @classmethod
    def unfinished(cls, path: Path | str) -> StoredTables:
        """Return the tables of an interrupted evaluation, with the rows finished before it stopped."""
        path = Path(path)
        return cls(path, read_manifest(path), UNFINISHED)

    @cached_property
    def labels(self) -> list[Label]:
        """All labels: the labels in the input samples and the labels that people added."""
        return [*self.files["labels"], *filter(by_people, self._peoples or ())]

    @cached_property
    def scores(self) -> ScoreTable:
        """The table of all scores."""
        file, table = self.files["scores"], ScoreTable()
        table.read((line for _, _, line in file.lines()), str(file.path))
        return table

    def candidates(self, table: Table, field: str, values: Collection[str]) -> Iterator[Any]:
        """Yield the rows of `table` whose `field` is in `values`; most other rows are skipped unparsed."""
        keep = with_texts(field, values)
        yield from replace(self.files[table], keep=keep)
        if table == "labels" and self._peoples is not None:
            yield from filter(by_people, replace(self._peoples, keep=keep))

    def values_of(self, field: str) -> Iterator[tuple[SampleKey, Any]]:
        """Yield (sample key, value of `field`) for each sample in which `field` is not empty."""
        word = encode(field) + b":"
        for row in TableFile(self.files["samples"].path, _decode_fields, lambda line: word in line):
            if (value := getattr(row, field)) is not None and value != ():
                yield (row.id, row.system, row.trial), value

    def grader_numbers(self) -> dict[SampleKey, int]:
        """Return a mapping from sample keys to the index of their graders in `graders`, without indices 0."""
        return dict(self.values_of("graders"))

    def answers(self) -> Iterator[tuple[str, bytes | None]]:
        """Yield (item, answer as JSON) as `Tables.answers` does, without parsing the answers."""
        for row in TableFile(self.files["judgements"].path, _decode_answer):
            if row.parent is None:
                yield row.item, bytes(row.answer) if row.error is None else None

    def labels_added(self) -> bool:
        """Return True if labels.jsonl has grown since the scores were computed."""
        file = self.path / LABELS
        size = file.stat().st_size if file.exists() else 0
        return bool(self.manifest.get("labels_size", size) != size)

    def append_labels(self, labels: Iterable[Label]) -> None:
        """Append people's labels to labels.jsonl; a truncated last line is removed first."""
        target = self.path / LABELS
        with opened(target, APPEND) as file:
            with target.open("rb") as stored:
                stored.seek(max(0, target.stat().st_size - (1 << 20)))
                end = stored.read()
            if end:
                torn = torn_bytes(end)
                file.truncate(target.stat().st_size - torn)
                file.write(b"" if end.endswith(b"\n") or torn else b"\n")
            file.writelines(json_lines(labels))
        self.forget("labels")


class _Fields(msgspec.Struct, gc=False):
    """The few fields of a line of samples.jsonl that are parsed when the whole sample is not needed."""

    id: str
    system: str = ""
    trial: int = 0
    tags: tuple[str, ...] = ()
    cluster: str | None = None
    calls: tuple[msgspec.Raw, ...] | None = None
    history: tuple[msgspec.Raw, ...] = ()
    graders: int | None = None


class _Answered(msgspec.Struct, gc=False):
    """The fields of a judgement that `StoredTables.answers` needs; the answer stays unparsed."""

    item: str = ""
    error: str | None = None
    parent: str | None = None
    answer: msgspec.Raw = msgspec.Raw(b"null")


_decode_fields = msgspec.json.Decoder(_Fields).decode
_decode_answer = msgspec.json.Decoder(_Answered).decode
_decode_sample, _GRADERS = msgspec.json.Decoder(Sample).decode, b',"graders":'


def check_digest(file: Path, digest: str) -> None:
    """Raise InputError if a file of the report is missing or its SHA-256 is not `digest`."""
    fix = "restore the file, or run the evaluation again"
    if not file.is_file():
        raise InputError(f"the report's file {file} is missing", fix=fix)
    if TableFile(file).digest() != digest:
        raise InputError(f"{file} was changed after the report was written", fix=fix)


def numbered(line: bytes, number: int) -> bytes:
    """Return a line of samples.jsonl with `number`, its index in `graders`, added unless it is 0."""
    return line[:-2] + b"%b%d}\n" % (_GRADERS, number) if number else line


def _sample_in(line: bytes) -> Sample:
    """Return the sample in a line of samples.jsonl; the index of its grader set is ignored."""
    end, mark, graders = line[-30:].rpartition(_GRADERS)
    if mark and graders.rstrip().removesuffix(b"}").isdigit():
        line = line[:-30] + end + b"}"
    return _decode_sample(line)


_decode_place = msgspec.json.Decoder(PlaceRow).decode


def _place_in(line: bytes) -> PlaceRow:
    """Return the row in a line of places.jsonl; unlike a decoder's method, this function can be pickled."""
    return _decode_place(line)


_DECODERS: Mapping[Table, Callable[[bytes], Any]] = {
    "samples": _sample_in,
    "places": _place_in,
    "judgements": judgement_in,
    "labels": label_in,
}
