"""The tables of a report folder as they are read: row by row, and of rows that nobody asks for no more than a name."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from germane.errors import InputError
from germane.folder.commit import complete_killed
from germane.folder.index import short_name
from germane.folder.judgements import StoredJudgements, check_judgements
from germane.folder.labels import append_labels, labels_size, people_in
from germane.folder.layout import LABELS, TABLES, UNFINISHED, Table, files_in
from germane.folder.lines import Keep, TableFile, with_texts
from germane.folder.manifest import carried_over, read_manifest
from germane.folder.rows import GraderSet, Tables
from germane.tables.items import ItemTable
from germane.tables.judgements import AskedCounts, count_asked
from germane.tables.labels import Label, LabelTable, by_people, decode_labels, load_label
from germane.tables.scores import SampleKey, ScoreTable
from germane.types import ItemRow, Json, Sample

_FIX = "restore it, or run the evaluation again"


class StoredTables(Tables):
    """The tables of an evaluation in files.

    Args:
        path: The folder.
        files: The file of each table.
        manifest: The manifest of the report; {} of one that is being written.
        is_temporary: True if the folder is nobody's, and goes with this object.
        more_labels: A file of further labels, of which those count that people gave: what people labelled in the folder
            before stays in labels.jsonl until the rows that are being written take the place of the others.

    What is known without reading the files is set by their writer: `known_scores`, `known_clusters` and `known_asked`.
    """

    def __init__(
        self,
        path: Path,
        files: Mapping[Table, Path],
        manifest: Mapping[str, Json] | None = None,
        more_labels: Path | None = None,
        *,
        is_temporary: bool = False,
    ) -> None:
        super().__init__()
        self.path, self._is_temporary = path, is_temporary
        self.manifest: Mapping[str, Json] = manifest or {}
        self._graders: list[GraderSet] = list(self.manifest.get("graders", ()))
        self.known_scores: ScoreTable | None = None
        self.known_clusters: dict[str, str] | None = None
        self.known_asked: AskedCounts | None = None
        self.move_to(files, more_labels)

    def move_to(self, files: Mapping[Table, Path], more_labels: Path | None = None) -> None:
        """Read the same rows from other files from now on."""
        self.files = {name: TableFile(path) for name, path in files.items()}
        self._more_labels = None if more_labels is None else TableFile(more_labels)
        self.forget_labels()

    def forget_labels(self) -> None:
        """Read the labels again when they are next asked for."""
        for name in ("labels", "_people"):
            self.__dict__.pop(name, None)

    @classmethod
    def open(cls, path: Path | str) -> StoredTables:
        """Return the tables of a finished report.

        InputError where it is none or not finished, is of another version, or a file was changed since it was written.
        """
        path = Path(path)
        complete_killed(path)
        manifest = read_manifest(path)
        if manifest.get("status") != "complete":
            raise InputError(f"{path} was not finished", fix=f"continue it: germane run --resume {path}")
        digests = manifest.get("files", {})
        if any(name.endswith(".parquet") for name in digests):
            problem = f"the tables of {path} are in Parquet, which this germane does not read"
            raise InputError(problem, fix=carried_over(path, "judgements.parquet"))
        tables = cls(path, files_in(path), manifest)
        for name in TABLES if digests else ():
            file = path / f"{name}.jsonl"
            if file.exists() and file.name not in digests:
                raise InputError(f"{file} is not a file of this report", fix="remove it")
        for name in digests:
            check_digest(path / name, digests)
        check_judgements(tables.files["judgements"])
        check_items(tables.files["items"])
        return tables

    @classmethod
    def unfinished(cls, path: Path | str) -> StoredTables:
        """Return the tables of an evaluation that was interrupted: the rows of the blocks that it had finished."""
        path = Path(path)
        return cls(path, files_in(path, UNFINISHED), read_manifest(path), path / LABELS)

    # what is asked of the rows

    @property
    def folder(self) -> Path | None:
        """The report folder; None where the files go with this object."""
        return None if self._is_temporary else self.path

    @property
    def graders(self) -> list[GraderSet]:
        """The distinct sets of graders of the samples."""
        return self._graders

    @property
    def samples(self) -> Iterator[Sample]:
        """The samples, read one by one in input order; InputError where a line is damaged or a sample is there twice."""
        file, seen = self.files["samples"], set[bytes]()
        for number, _, line in file.lines():
            sample = _sample_in(file, number, line)
            if (name := short_name(repr(sample.key).encode(errors="replace"))) in seen:
                raise file.repeated(number, "sample")
            seen.add(name)
            yield sample

    def candidates(self, table: Table, field: str, values: Collection[str]) -> Iterator[Any]:
        """Iterate over the rows that may have one of these values in a field; of other lines nothing else is read."""
        keep = with_texts(field, values)
        if table == "samples":
            file = self.files["samples"]
            return (_sample_in(file, number, line) for number, _, line in file.lines() if keep(line))
        if table == "items":
            return self.files["items"].structs(ItemRow, keep)
        return self._labels_where(keep)

    def samples_with(self, field: str) -> Iterator[_SampleFields]:
        """Iterate over some fields of the samples that may have this one; of other samples nothing is read."""
        file, decode = self.files["samples"], msgspec.json.Decoder(_SampleFields).decode
        for number, _, line in file.lines_with(field):
            try:
                yield decode(line)
            except msgspec.DecodeError:
                raise file.damaged(number) from None

    def grader_numbers(self) -> dict[SampleKey, int]:
        """Return the number of the grader set of each sample for which it is not 0."""
        return {sample.key: sample.graders for sample in self.samples_with("graders") if sample.graders}

    def clusters(self) -> dict[str, str]:
        """Return the cluster of each case that has one, by the case's id."""
        if self.known_clusters is None:
            self.known_clusters = super().clusters()
        return self.known_clusters

    @cached_property
    def items(self) -> ItemTable:
        """The places where something was asked."""
        return ItemTable(self.files["items"].structs(ItemRow))

    @property
    def judgements(self) -> StoredJudgements:
        """The answers of judges, read from the file each time."""
        return StoredJudgements(self.files["judgements"].path)

    @property
    def asked(self) -> AskedCounts:
        """The number of judgements by the way in which they were asked."""
        if self.known_asked is None:
            self.known_asked = count_asked(AskedCounts(), self.judgements)
        return self.known_asked

    @property
    def scores(self) -> ScoreTable:
        """The table of all scores, read once."""
        if self.known_scores is None:
            file, table = self.files["scores"], ScoreTable()
            table.read((line for _, _, line in file.lines()), str(file.path))
            if (row := table.repeated_row()) is not None:
                raise file.repeated(row + 1, "score")
            self.known_scores = table
        return self.known_scores

    @cached_property
    def labels(self) -> LabelTable:
        """The answers of people."""
        return LabelTable(self._labels_where(None))

    def people(self) -> Iterator[Label]:
        """Iterate over the labels that people gave separately from the samples; other lines are passed over unread."""
        return iter(self._people)

    @cached_property
    def _people(self) -> list[Label]:
        files = (self.files["labels"], self._more_labels)
        return [label for file in files if file is not None for label in people_in(file)]

    def _labels_where(self, keep: Keep | None) -> Iterator[Label]:
        yield from self.files["labels"].records(decode_labels, load_label, keep)
        if self._more_labels is not None:
            yield from filter(by_people, self._more_labels.records(decode_labels, load_label, keep))

    @property
    def is_complete(self) -> bool:
        """True if the tables are those of a complete report, whose manifest holds what is counted of their rows."""
        return self.manifest.get("status") == "complete"

    @property
    def labels_added(self) -> bool:
        """True if labels were added since the scores were computed."""
        size = labels_size(self.path)
        return bool(self.manifest.get("labels_size", size) != size)

    def append_labels(self, labels: Iterable[Label]) -> None:
        """Append labels of people to labels.jsonl at once."""
        append_labels(self.path, labels)
        self.forget_labels()


def check_digest(file: Path, digests: Mapping[str, str]) -> None:
    """InputError where a file is missing or was changed after the report was written."""
    if not file.is_file():
        raise InputError(f"{file} is missing", fix=_FIX)
    if TableFile(file).digest() != digests[file.name]:
        raise InputError(f"{file} was changed after the report was written", fix=_FIX)


def check_items(file: TableFile) -> None:
    """InputError at the first row of items.jsonl that is damaged or is there twice."""
    seen = set[bytes]()
    for number, row in enumerate(file.structs(ItemRow), 1):
        if (name := short_name(repr(row).encode(errors="replace"))) in seen:
            raise file.repeated(number, "item")
        seen.add(name)


class _SampleFields(msgspec.Struct):
    """The fields that name a sample, and those that are read of some samples alone."""

    id: str
    system: str = ""
    trial: int = 0
    tags: tuple[str, ...] = ()
    cluster: str | None = None
    calls: tuple[msgspec.Raw, ...] = ()
    history: tuple[msgspec.Raw, ...] = ()
    graders: int = 0

    @property
    def key(self) -> SampleKey:
        """The id, the system and the trial."""
        return self.id, self.system, self.trial


_decode_sample, _GRADERS = msgspec.json.Decoder(Sample).decode, b',"graders":'


def numbered(line: bytes, number: int) -> bytes:
    """Return a line of samples.jsonl with the number of the sample's grader set, where that is not 0."""
    return line[:-2] + b"%b%d}\n" % (_GRADERS, number) if number else line


def _sample_in(file: TableFile, number: int, line: bytes) -> Sample:
    """The sample of a line of samples.jsonl, without the number of its grader set; InputError where it is damaged."""
    end, mark, graders = line[-30:].rpartition(_GRADERS)
    if mark and graders.rstrip().removesuffix(b"}").isdigit():
        line = line[:-30] + end + b"}"
    try:
        return _decode_sample(line)
    except (ValueError, RecursionError):
        pass
    try:
        return msgspec.convert(file.row(number, line), Sample)
    except msgspec.ValidationError:
        raise file.damaged(number) from None
