"""Read the tables of a report folder row by row; rows that are not needed are not parsed whole."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from germane.encoding import encode
from germane.errors import InputError
from germane.folder.commit import complete_killed
from germane.folder.judgements import judgement_in
from germane.folder.labels import append_labels, label_in, labels_size
from germane.folder.layout import LABELS, TABLES, UNFINISHED, Table, files_in
from germane.folder.lines import Keep, StoredRows, TableFile, with_texts
from germane.folder.manifest import read_manifest
from germane.folder.rows import Tables
from germane.tables.judgements import AskedCounts, count_asked
from germane.tables.labels import Label, by_people
from germane.tables.scores import SampleKey, ScoreTable
from germane.types import Json, Judgement, PlaceRow, Sample

__all__ = ["StoredTables", "numbered"]


class StoredTables(Tables):
    """The tables of an evaluation, read from files.

    Args:
        path: The report folder.
        files: The file of each table.
        manifest: The manifest of the report; {} while it is being written.
        more_labels: A second file of labels, from which the labels that people gave are read as well:
            until a new report replaces the folder's old one, they stay in the old labels.jsonl.

    Labels and scores are read at first use and cached, other tables each time. The writer of the files sets
    `scores`, `asked` and `cluster_of`, which it knows.
    """

    def __init__(
        self,
        path: Path,
        files: Mapping[Table, Path],
        manifest: Mapping[str, Json] | None = None,
        more_labels: Path | None = None,
    ) -> None:
        manifest = manifest or {}
        super().__init__(
            graders=list(manifest.get("graders", ())),
            folder=path,
            is_complete=manifest.get("status") == "complete",
        )
        self.path, self.manifest = path, manifest
        self.move_to(files, more_labels)

    def move_to(self, files: Mapping[Table, Path], more_labels: Path | None = None) -> None:
        """Read the same rows from other files from now on, after the files were renamed."""
        self.files = {name: TableFile(path) for name, path in files.items()}
        self._labels = [self.files["labels"], *([] if more_labels is None else [TableFile(more_labels)])]
        self.forget("labels")

    def forget(self, *names: str) -> None:
        """Drop the cached tables with these names, so that they are read again at next use."""
        for name in names:
            self.__dict__.pop(name, None)

    @classmethod
    def open(cls, path: Path | str) -> StoredTables:
        """Return the tables of a finished report.

        Raises InputError if the folder is not a finished report of this version, or a file was changed since
        it was written.
        """
        path = Path(path)
        complete_killed(path)
        manifest = read_manifest(path)
        if manifest.get("status") != "complete":
            raise InputError(f"{path} is an unfinished report", fix=f"write germane run --resume {path}")
        digests = manifest.get("files", {})
        tables = cls(path, files_in(path), manifest)
        for name in TABLES if digests else ():
            file = path / f"{name}.jsonl"
            if file.exists() and file.name not in digests:
                raise InputError(f"{file} is not a file of this report", fix="remove the file")
        for name in digests:
            check_digest(path / name, digests)
        return tables

    @classmethod
    def unfinished(cls, path: Path | str) -> StoredTables:
        """Return the tables of an interrupted evaluation: the rows that were finished before it stopped."""
        path = Path(path)
        return cls(path, files_in(path, UNFINISHED), read_manifest(path), path / LABELS)

    # the tables

    @property
    def samples(self) -> StoredRows[Sample]:
        """The samples, in input order. Iterating raises InputError if a line is damaged."""
        return StoredRows(self.files["samples"], _sample_in)

    @property
    def places(self) -> Iterator[PlaceRow]:
        """Yield the rows of places.jsonl: what was asked, and the ranks where it occurs, in input order."""
        return self.files["places"].read(_place_in)

    @property
    def judgements(self) -> StoredRows[Judgement]:
        """The judgements, in order of first use."""
        return StoredRows(self.files["judgements"], judgement_in)

    @cached_property
    def labels(self) -> list[Label]:
        """All labels: those on the samples' contexts and those that people added."""
        return list(self._labels_where(lambda _: True))

    @cached_property
    def scores(self) -> ScoreTable:
        """The table of all scores."""
        file, table = self.files["scores"], ScoreTable()
        table.read((line for _, _, line in file.lines()), str(file.path))
        return table

    @cached_property
    def asked(self) -> AskedCounts:
        """Counts of the judgements by how the judge was asked."""
        return count_asked(AskedCounts(), self.judgements)

    # what is asked of the rows

    def candidates(self, table: Table, field: str, values: Collection[str]) -> Iterator[Any]:
        """Yield the rows that may have one of these values in a field; other lines are not parsed."""
        keep, file = with_texts(field, values), self.files[table]
        if table == "labels":
            return self._labels_where(keep)
        row_of: Callable[..., Any] = {"samples": _sample_in, "places": _place_in}.get(table, judgement_in)
        return file.read(row_of, keep)

    def values_of(self, field: str) -> Iterator[tuple[SampleKey, Any]]:
        """Yield (sample key, value) for each sample that has this field; nothing else is parsed."""
        file, word = self.files["samples"], encode(field) + b":"
        for number, _, line in file.lines():
            if word in line:
                row = file.decoded(number, line, _decode_fields)
                if (value := getattr(row, field)) is not None and value != ():
                    yield (row.id, row.system, row.trial), value

    def grader_numbers(self) -> dict[SampleKey, int]:
        """Return the number of the grader set of each sample, where that number is not 0."""
        return dict(self.values_of("graders"))

    def answers(self) -> Iterator[tuple[str, bytes | None]]:
        """Yield (item, answer as JSON) for each unmerged judgement; the answer is None if it failed."""
        for row in self.files["judgements"].read(_answer_in):
            if row.parent is None:
                yield row.item, bytes(row.answer) if row.error is None else None

    def _labels_where(self, keep: Keep) -> Iterator[Label]:
        for number, file in enumerate(self._labels):
            labels = file.read(label_in, keep)
            yield from filter(by_people, labels) if number else labels

    def labels_added(self) -> bool:
        """Return True if labels.jsonl has grown since the scores were computed."""
        size = labels_size(self.path)
        return bool(self.manifest.get("labels_size", size) != size)

    def append_labels(self, labels: Iterable[Label]) -> None:
        """Append people's labels to the folder's labels.jsonl."""
        append_labels(self.path, labels)
        self.forget("labels")


class _Fields(msgspec.Struct, gc=False):
    """The fields of a line of samples.jsonl that are parsed without the others."""

    id: str
    system: str = ""
    trial: int = 0
    tags: tuple[str, ...] = ()
    cluster: str | None = None
    calls: tuple[msgspec.Raw, ...] | None = None
    history: tuple[msgspec.Raw, ...] = ()
    graders: int | None = None


_decode_fields = msgspec.json.Decoder(_Fields).decode


def check_digest(file: Path, digests: Mapping[str, str]) -> None:
    """Raise InputError if a file of the report is missing or was changed after the report was written."""
    fix = "restore the file, or run the evaluation again"
    if not file.is_file():
        raise InputError(f"the report's file {file} is missing", fix=fix)
    if TableFile(file).digest() != digests[file.name]:
        raise InputError(f"{file} was changed after the report was written", fix=fix)


_decode_sample, _GRADERS = msgspec.json.Decoder(Sample).decode, b',"graders":'


def numbered(line: bytes, number: int) -> bytes:
    """Return a line of samples.jsonl with the number of its grader set added, unless that is 0."""
    return line[:-2] + b"%b%d}\n" % (_GRADERS, number) if number else line


def _sample_in(file: TableFile, number: int, line: bytes) -> Sample:
    """Return the sample in a line of samples.jsonl. Raises InputError if the line is damaged."""
    end, mark, graders = line[-30:].rpartition(_GRADERS)
    if mark and graders.rstrip().removesuffix(b"}").isdigit():
        line = line[:-30] + end + b"}"
    return file.decoded(number, line, _decode_sample)


_decode_place = msgspec.json.Decoder(PlaceRow).decode


def _place_in(file: TableFile, number: int, line: bytes) -> PlaceRow:
    return file.decoded(number, line, _decode_place)


class _Answered(msgspec.Struct, gc=False):
    """The item of a stored judgement and its unparsed answer."""

    item: str = ""
    error: str | None = None
    parent: str | None = None
    answer: msgspec.Raw = msgspec.Raw(b"null")


_decode_answer = msgspec.json.Decoder(_Answered).decode


def _answer_in(file: TableFile, number: int, line: bytes) -> _Answered:
    return file.decoded(number, line, _decode_answer)
