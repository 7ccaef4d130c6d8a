"""Read the tables of a report folder row by row; lines and fields that are not needed are not parsed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec

from germane.encoding import encode
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
from germane.folder.rows import Tables
from germane.tables.columns import json_lines
from germane.tables.labels import Label, by_people
from germane.tables.scores import SampleKey, ScoreTable
from germane.types import Json, PlaceRow, Sample

__all__ = ["StoredTables", "numbered"]


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
        """Yield (item, answer as JSON) for each judgement; if judging failed, the answer is None.

        The item is the digest of the judged texts. Judgements with a parent are left out: they are
        merged into another judgement, such as a panel's verdict.
        """
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


_DECODERS: Mapping[Table, Callable[[bytes], Any]] = {
    "samples": _sample_in,
    "places": msgspec.json.Decoder(PlaceRow).decode,
    "judgements": judgement_in,
    "labels": label_in,
}
