"""The report folder on disk: one file per table, one manifest, one writer at a time."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
import weakref
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import IO, Literal, Self, TypeAlias

import msgspec

from germane.encoding import encode, encode_records
from germane.errors import InputError
from germane.tables.columns import batched
from germane.tables.items import ItemTable
from germane.tables.judgements import AskedCounts, JudgementTable, count_asked, judgement_line
from germane.tables.labels import Label, LabelTable, by_people
from germane.tables.lock import WriterLock
from germane.tables.part import Counts, GraderSet, Part
from germane.tables.scores import SampleKey, ScoreTable
from germane.tables.stored import (
    LABELS,
    UNFINISHED,
    EarlierJudgements,
    StoredJudgements,
    blocks,
    check_items,
    check_judgements,
    label_in,
    labels_in,
    lines_of,
    record_in,
    records_in,
    refuse_repeated,
    repeated,
    samples_with,
    torn_bytes,
)
from germane.types import ItemRow, Json, Judgement, Sample

SCHEMA_VERSION = 3
"""The version of the report folder's files that is written, and the oldest that is read."""

_TABLES = ("samples", "items", "judgements", "scores")
_OF_SOURCE = ("samples", "labels")
_MANIFEST = "manifest.json"
_EARLIER = ".earlier"
_NOBODY, _IMPORTED = b'"who":null', b'"queue":"import"'
_AT_ONCE = 1000
"""The number of lines that are written together."""

OWN = (*(f"{name}.jsonl" for name in _TABLES), LABELS, _MANIFEST)
"""The files that are a report folder's own: nothing else is written under these names."""


class ReportFolder(Counts):
    """The tables of one evaluation in a folder.

    A table is JSON lines. Rows are written to `.part` files until `finish`, so that the report that stands there stays whole
    until the new one is complete, and a killed session leaves its judgements beside it (`earlier`). labels.jsonl is only ever
    appended to.
    """

    def __init__(self, path: Path | str) -> None:
        super().__init__()
        self.path = Path(path)
        self._lock = WriterLock(self.path / ".lock")
        self._files: dict[str, IO[bytes]] = {}
        self._end = ""
        self._written = set[int]()
        self._asked: AskedCounts | None = None
        self._added = ScoreTable()
        self._clusters: dict[str, str] | None = None
        self._numbers: dict[bytes, int] = {}
        self.graders: list[GraderSet] = []
        self.manifest: dict[str, Json] = {}
        self.sample_lines = 0
        """The manifest that `finish` wrote or `open` read."""
        self.scratch = False
        """True if the folder is nobody's and goes with this object."""
        self._source: ReportFolder | None = None

    @classmethod
    def temporary(cls, source: ReportFolder) -> ReportFolder:
        """A folder for the rows of a report that is scored again, instead of memory. It is never finished.

        The samples and labels are those of the `source`, where all samples have the same graders.
        """
        import shutil  # not at the top, as below: `germane rank` starts without them
        import tempfile

        folder = cls(tempfile.mkdtemp(prefix="germane-"))
        folder.scratch = True
        folder._source = source if len(source.graders) < 2 else None
        weakref.finalize(folder, shutil.rmtree, folder.path, ignore_errors=True)
        return folder

    # writing

    def lock(self) -> Self:
        """Become the folder's writer until `close`; InputError where another process writes to it."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError):
            raise InputError(
                f"{self.path} is a file or in one, not a folder", fix="name a folder for the report"
            ) from None
        except OSError as error:
            raise InputError(
                f"{self.path}: {error.strerror}", fix="name a folder that can be written"
            ) from None
        self._lock.acquire()
        return self

    def locked_elsewhere(self) -> bool:
        """True if another process is the folder's writer just now."""
        try:
            self._lock.acquire()
        except InputError:
            return True
        self._lock.release()
        return False

    def refuse_other(self, fix: str = "name a new folder, or give --force to replace it") -> None:
        """InputError where the folder holds a report already."""
        if (self.path / _MANIFEST).exists() or self.has_rows():
            raise InputError(f"{self.path} holds the report of another evaluation", fix=fix)

    def start(self) -> Self:
        """Begin the rows anew, as the folder's writer; what a killed session left is kept until `finish`."""
        if not self._lock.held:
            self.lock()
        self._set_aside()
        self._end = UNFINISHED
        for name in (*_TABLES, "labels"):
            if (self._source is None or name not in _OF_SOURCE) and not (self.scratch and name == "scores"):
                self._files[name] = _open(self._path(name), os.O_TRUNC)
        self._written, self._asked = set(), AskedCounts()
        self._numbers, self.graders, self._clusters = {}, [], {}
        self.__dict__.pop("items", None)
        self._forget_labels()
        self.__dict__["scores"] = self._added = ScoreTable()
        return self

    def add(self, part: Tables) -> None:
        """Append the rows of a part; a judgement that was written before is not written again."""
        self._write_samples(part)
        if self._clusters is not None:
            self._clusters |= part.clusters()
        self._write_texts("items", part.items.texts())
        self.write_lines("judgements", map(judgement_line, self._new(part.judgements)))
        self._write_texts("labels", part.labels.texts())
        self._added.extend(part.scores, distinct=True)
        self._write_texts("scores", part.scores.texts())
        self.add_counts(part)

    def add_labels(self, labels: Iterable[Label]) -> None:
        """Append labels to the rows that are written."""
        self._write_texts("labels", LabelTable(labels).texts())

    def _write_samples(self, part: Tables) -> None:
        """The lines of samples.jsonl: each sample, and the number of its grader set where that is not 0."""
        numbers, graded = [self.number_of(graders) for graders in part.graders], part.grader_numbers()
        for some in batched(part.samples if self._source is None else (), _AT_ONCE):
            text = encode_records(some)
            if numbers and (graded or numbers != [0]):
                both = zip(some, BytesIO(text), strict=True)
                text = b"".join(numbered(line, numbers[graded.get(sample.key, 0)]) for sample, line in both)
            self._write("samples", text)

    def number_of(self, graders: GraderSet) -> int:
        """The number of a grader set, which is added where it is new."""
        number = self._numbers.setdefault(encode(graders), len(self.graders))
        if number == len(self.graders):
            self.graders.append(graders)
        return number

    def _new(self, judgements: Iterable[Judgement]) -> Iterator[Judgement]:
        assert self._asked is not None
        for some in batched(judgements, _AT_ONCE):
            new = list[Judgement]()
            for judgement in some:
                if (key := hash(judgement.key)) not in self._written:
                    self._written.add(key)
                    new.append(judgement)
            count_asked(self._asked, new)
            yield from new

    def write_lines(self, name: str, lines: Iterable[bytes]) -> None:
        """Append lines to a table as they are: those that `add` would write. `reread` then makes them known."""
        if name == "samples":
            self._clusters = None  # unknown until they are read back
        for some in batched(lines if name in self._files else (), _AT_ONCE):
            self._write(name, b"".join(some))

    def _write_texts(self, name: str, texts: Iterable[tuple[bytes, int]]) -> None:
        """Append lines to a table, many together."""
        for text, _ in texts if name in self._files else ():
            self._write(name, text)

    def _write(self, name: str, text: bytes) -> None:
        """Append lines to a table."""
        self._files[name].write(text)

    def _path(self, name: str) -> Path:
        if self._source is not None and name in _OF_SOURCE:
            return self._source._path(name)  # noqa: SLF001 - of the same class
        return self.path / f"{name}.jsonl{self._end}"

    def reread(self, asked: AskedCounts) -> None:
        """Read back the scores that were written as lines; the judgements among these were `asked` like that."""
        self.flush()
        self._asked = asked
        self.__dict__.pop("scores", None)

    def flush(self) -> None:
        """Everything that was added is on disk after this."""
        for file in self._files.values():
            if not file.closed:
                file.flush()
                os.fsync(file.fileno())

    def close(self) -> None:
        """Close the files and let others write; what was added and not finished stays as a killed session leaves it."""
        self.flush()
        for file in self._files.values():
            file.close()
        self._files = {}
        self._lock.release()

    def finish(self, manifest: Mapping[str, Json]) -> None:
        """Put the rows added since `start` in place of those that stood there; then write the manifest."""
        hashes: dict[str, str] = {}
        self.flush()
        for name, file in self._files.items():
            file.close()
            if name in _TABLES:
                hashes[f"{name}.jsonl"] = _digest_and_lines(self._path(name))[0]
        written = {name: self._path(name) for name in _TABLES if name in self._files}
        labels = self._path("labels")
        self._end = ""
        for name, path in written.items():
            path.replace(self._path(name))
        if self._files:
            self._keep_labels(labels)
        (self.path / f"judgements.jsonl{_EARLIER}").unlink(missing_ok=True)
        self._files = {}
        files = hashes or manifest.get("files", {})
        self.write_manifest({"labels_size": self._labels_size(), **manifest, "files": files}, "complete")

    def _labels_size(self) -> int:
        path = self.path / LABELS
        return path.stat().st_size if path.exists() else 0

    @property
    def labels_added(self) -> bool:
        """True if labels were added since the scores were computed."""
        size = self._labels_size()
        return bool(self.manifest.get("labels_size", size) != size)

    def _keep_labels(self, added: Path) -> None:
        """The labels that were added, then those that people gave in this folder before."""
        labels = list(_of_people(self._path("labels")))
        if labels:
            written = set(labels_in(added))
            with _open(added, os.O_APPEND) as file:
                file.write(_text(label for label in labels if label not in written))
        added.replace(self._path("labels"))
        self._forget_labels()

    def append_labels(self, labels: Iterable[Label]) -> None:
        """Append labels to labels.jsonl at once."""
        path = self._path("labels")
        with _open(path, os.O_APPEND) as file:
            if end := _last_bytes(path):
                file.truncate(path.stat().st_size - torn_bytes(end))
                file.write(b"" if end.endswith(b"\n") or torn_bytes(end) else b"\n")
            file.write(_text(labels))
        self._forget_labels()

    def write_manifest(self, manifest: Mapping[str, Json], status: str) -> None:
        """Write manifest.json in one step: it appears whole or not at all. `status`: running, interrupted or complete."""
        self.manifest = {**manifest, "schema_version": SCHEMA_VERSION, "status": status}
        temporary = self.path / f"{_MANIFEST}{UNFINISHED}"
        with _open(temporary, os.O_TRUNC) as file:
            text = json.dumps(self.manifest, ensure_ascii=False, indent=1)
            # half a surrogate, of a file name that is not UTF-8, becomes its escape, which JSON reads back
            file.write(text.encode("utf-8", "backslashreplace") + b"\n")
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self.path / _MANIFEST)

    # what killed sessions left

    def has_rows(self) -> bool:
        """True if the rows of a finished report stand in the folder."""
        return (self.path / "judgements.jsonl").exists()

    def unfinished_here(self) -> bool:
        """True if an evaluation was begun in the folder and has not come to its end."""
        return (self.path / _MANIFEST).exists() and read_manifest(self.path).get("status") != "complete"

    def earlier(
        self, *, finished: bool = True, keep: Callable[[Judgement], bool] = lambda _: True
    ) -> EarlierJudgements:
        """The judgements of the sessions before this one that `keep` accepts.

        Without `finished` only those of killed sessions: the report that stands there is another evaluation's.
        """
        ends = (*[""] * finished, _EARLIER, *[UNFINISHED] * (not self._lock.held))
        return EarlierJudgements([self.path / f"judgements.jsonl{end}" for end in ends], keep)

    def forget_killed(self) -> None:
        """Remove what killed sessions left: what begins here now is another evaluation."""
        for end in (_EARLIER, UNFINISHED):
            (self.path / f"judgements.jsonl{end}").unlink(missing_ok=True)

    def _set_aside(self) -> None:
        """Append the judgements of a killed session to those of earlier ones: the next begins its tables anew."""
        left = self.path / f"judgements.jsonl{UNFINISHED}"
        if left.exists():
            with _open(self.path / f"judgements.jsonl{_EARLIER}", os.O_APPEND) as kept:
                kept.write(b"\n")  # ends the half line of a session that was killed just here
                kept.writelines(line for _, line in lines_of(left))
                kept.flush()
                os.fsync(kept.fileno())
            left.unlink(missing_ok=True)

    # reading

    @classmethod
    def open(cls, path: Path | str) -> ReportFolder:
        """The folder of a finished report.

        InputError where it is none or not finished, is of another version, or a file was changed since it was written.
        """
        folder = cls(path)
        folder.manifest = read_manifest(folder.path)
        if folder.manifest.get("status") != "complete":
            raise InputError(f"{path} was not finished", fix=f"continue it: germane run --resume {path}")
        folder.graders = folder.manifest.get("graders", [])
        files = folder.manifest.get("files", {})
        if any(name.endswith(".parquet") for name in files):
            problem = f"the tables of {path} are in Parquet, which this germane does not read"
            raise InputError(problem, fix=_carried_over(folder.path, "judgements.parquet"))
        for file in (folder._path(name) for name in _TABLES):
            if files and file.exists() and file.name not in files:
                raise InputError(f"{file} is not a file of this report", fix="remove it")
        for name in files:
            lines = folder._check_digest(name, files)
            folder.sample_lines += lines if name == "samples.jsonl" else 0
        check_judgements(folder._path("judgements"))
        check_items(folder._path("items"))
        return folder

    def check_judgements(self, digests: Mapping[str, str]) -> None:
        """InputError where the judgements of a finished report were changed since, or one is none that a judge gives."""
        if "judgements.jsonl" in digests:
            self._check_digest("judgements.jsonl", digests)
            check_judgements(self.path / "judgements.jsonl")

    def _check_digest(self, name: str, digests: Mapping[str, str]) -> int:
        """The number of lines of a file; InputError where it is missing or was changed after the report was written."""
        file, fix = self.path / name, "restore it, or run the evaluation again"
        if not file.is_file():
            raise InputError(f"{file} is missing", fix=fix)
        digest, lines = _digest_and_lines(file)
        if digest != digests[name]:
            raise InputError(f"{file} was changed after the report was written", fix=fix)
        return lines

    @classmethod
    def unfinished(cls, path: Path | str) -> ReportFolder:
        """The folder of an evaluation that was interrupted: the rows of the blocks that it had finished."""
        folder = cls(path)
        folder.manifest = read_manifest(folder.path)
        folder._end = UNFINISHED
        return folder

    @property
    def samples(self) -> Iterator[Sample]:
        """The samples of the folder, read one by one in input order; InputError where a line is damaged."""
        path, seen = self._path("samples"), set[int]()
        for number, (_, line) in enumerate(lines_of(path), 1):
            sample = _sample_in(path, number, line)
            refuse_repeated(seen, [hash(sample.key)], path, number, "sample")
            yield sample

    def samples_of(self, keys: Collection[SampleKey]) -> Iterator[Sample]:
        """The samples with these keys, in input order; of the others nothing but the key is looked at."""
        path, heads = self._path("samples"), {_head(b'{"id":%b,' % encode(name)) for name, _, _ in keys}
        for number, (_, line) in enumerate(lines_of(path), 1):
            if _head(line) in heads and (sample := _sample_in(path, number, line)).key in keys:
                yield sample

    def samples_named(self, name: str) -> Iterator[Sample]:
        """The samples that have this text as their id or as their query, in input order."""
        path = self._path("samples")
        for number, (_, line) in enumerate(lines_of(path), 1):
            if name in {(sample := _sample_in(path, number, line)).id, sample.query}:
                yield sample

    def items_of(self, keys: Collection[SampleKey]) -> Iterator[ItemRow]:
        """The places of these samples; of other lines nothing but the sample's id is looked at."""
        ids = {b'"sample":%b' % encode(name) for name, _, _ in keys}

        def keep(line: bytes) -> bool:
            start = line.find(b'"sample":')
            return start < 0 or line[start : line.find(b',"system":', start)] in ids

        rows = records_in(self._path("items"), ItemRow, keep)
        return (row for row in rows if (row.sample, row.system, row.trial) in keys)

    def labels_of(self, items: Collection[str]) -> Iterator[Label]:
        """The labels of these items; of other lines nothing but the item is looked at."""
        if self._source is not None:
            yield from self._source.labels_of(items)
            return
        heads = {b'{"item":%b,' % encode(item) for item in items}
        files = [(self._path("labels"), False), *[(self.path / LABELS, True)] * bool(self._end)]
        for path, people in files:
            for number, (_, line) in enumerate(lines_of(path), 1):
                if line[: line.find(b",") + 1] in heads or not line.startswith(b'{"item":'):
                    label = label_in(path, number, line)
                    if label.item in items and (by_people(label) or not people):
                        yield label

    def any_has(self, field: Literal["calls", "history"]) -> bool:
        """True if any sample may have this field; no line is read as JSON."""
        return any(True for _ in samples_with(self._path("samples"), field))

    def tags(self) -> Iterator[tuple[SampleKey, Sequence[str]]]:
        """The tags of each sample that has any."""
        return (((row.id, row.system, row.trial), row.tags) for row in self._samples_with("tags") if row.tags)

    def grader_numbers(self) -> dict[SampleKey, int]:
        """The number of the grader set of each sample for which it is not 0."""
        rows = self._samples_with("graders")
        return {(row.id, row.system, row.trial): row.graders for row in rows if row.graders}

    def clusters(self) -> dict[str, str]:
        """The cluster of each case that has one, by the case's id."""
        if self._clusters is None:
            rows = self._samples_with("cluster")
            self._clusters = {row.id: row.cluster for row in rows if row.cluster is not None}
        return self._clusters

    def _samples_with(self, field: str) -> Iterator[_SampleFields]:
        """Some fields of the samples that may have this one; of other samples nothing is read."""
        decoder, path = msgspec.json.Decoder(_SampleFields), self._path("samples")
        for number, line in samples_with(path, field):
            try:
                yield decoder.decode(line)
            except msgspec.DecodeError:
                yield record_in(path, number, line, _SampleFields)

    @cached_property
    def items(self) -> ItemTable:
        """The places where something was asked."""
        return ItemTable(records_in(self._path("items"), ItemRow))

    @property
    def judgements(self) -> StoredJudgements:
        """The answers of judges, read from the file each time."""
        return StoredJudgements(self._path("judgements"))

    @cached_property
    def labels(self) -> LabelTable:
        """The answers of people; while rows are written, those that were added and those that people gave before."""
        if self._source is not None:
            return self._source.labels
        labels = labels_in(self.path / LABELS)
        if not self._end:
            return LabelTable(labels)
        return LabelTable([*labels_in(self._path("labels")), *filter(by_people, labels)])

    def people(self) -> Iterator[Label]:
        """The labels that people gave separately from the samples; other lines are passed over unread."""
        if self._source is not None:
            return self._source.people()
        if "labels" in self.__dict__:
            return filter(by_people, self.labels)
        if self._end:
            return chain(_of_people(self._path("labels")), _of_people(self.path / LABELS))
        return iter(self._people)

    @cached_property
    def _people(self) -> list[Label]:
        return list(_of_people(self._path("labels")))

    def _forget_labels(self) -> None:
        for name in ("labels", "_people"):
            self.__dict__.pop(name, None)

    @cached_property
    def scores(self) -> ScoreTable:
        """The table of all scores, read once."""
        table, path = ScoreTable(), self._path("scores")
        table.read((line for _, line in lines_of(path)), str(path))
        if (row := table.repeated_row()) is not None:
            raise repeated(path, row + 1, "score")
        return table

    @property
    def asked(self) -> AskedCounts:
        """The number of judgements by the way in which they were asked."""
        if self._asked is None:
            self._asked = JudgementTable(self.judgements).asked
        return self._asked


Tables: TypeAlias = Part | ReportFolder
"""The tables of an evaluation, in memory or on disk: `samples`, `items`, `judgements`, `labels`, `scores`."""


class _SampleFields(msgspec.Struct):
    """The fields that name a sample, and those that are read of some samples alone."""

    id: str
    system: str = ""
    trial: int = 0
    tags: tuple[str, ...] = ()
    cluster: str | None = None
    graders: int = 0


def _digest_and_lines(path: Path) -> tuple[str, int]:
    """The SHA-256 of a file in hex, and the number of its lines."""
    digest, lines = hashlib.sha256(), 0
    with path.open("rb") as content:
        while block := content.read(1 << 20):
            digest.update(block)
            lines += block.count(b"\n")
    return digest.hexdigest(), lines


def _open(path: Path, how: int) -> IO[bytes]:
    """A file to write to; InputError where it is a symbolic link."""
    flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0) | how
    try:
        return os.fdopen(os.open(path, flags, 0o666), "wb")
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise InputError(f"{path} is a symbolic link; nothing is written there", fix="remove it") from None


def _last_bytes(path: Path) -> bytes:
    """The last megabyte of a file."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - (1 << 20)))
        return file.read()


def is_own(path: Path, folder: Path) -> bool:
    """True if a path leads to one of a report folder's own files, links followed."""
    return path.resolve() in {(folder / name).resolve() for name in OWN}


def read_manifest(path: Path) -> dict[str, Json]:
    """The manifest of a report folder, finished or not; InputError where there is none, or it is of another version."""
    file = path / _MANIFEST
    if not path.exists():
        at_url = re.match(r"[A-Za-z][A-Za-z0-9+.-]+:/", str(path))
        fix = (
            "copy it here first: a report is read from disk"
            if at_url
            else "name a folder that `germane run` wrote"
        )
        raise InputError(f"no report folder {path}", fix=fix)
    if path.is_file():
        problem = f"{path} is a file, which has scores at most: the samples and the answers of judges and people are missing"
        fix = "name the folder that `germane run` wrote; `germane compare` reads files of scores"
        raise InputError(problem, fix=fix)
    if not file.is_file():
        inside = max(path.glob(f"*/{_MANIFEST}"), key=lambda file: file.stat().st_mtime_ns, default=None)
        fix = (
            f"name one of those in it: {inside.parent}"
            if inside
            else "name a folder that `germane run` wrote"
        )
        raise InputError(f"{path} is not a report folder: it has no {_MANIFEST}", fix=fix)
    from germane.tables.stored_manifest import (
        check_shape,
        manifest_in,
    )  # not at the top: pydantic takes time to load

    manifest = manifest_in(file)
    result = manifest.get("schema_version")
    if result != SCHEMA_VERSION:
        newer = isinstance(result, int) and result > SCHEMA_VERSION
        raise InputError(
            f"{path} is a report of format {result}; this germane reads format {SCHEMA_VERSION}",
            fix="update germane" if newer else _carried_over(path, "judgements.jsonl"),
        )
    check_shape(manifest, file)
    return manifest


def _carried_over(path: Path, judgements: str) -> str:
    """The commands that keep the answers of a report that is not read: the judges' and the people's."""
    return (
        f"keep what was paid and run again: germane ledger import {path / judgements}; "
        f"germane label NEW_REPORT --import {path / LABELS}"
    )


def _text(labels: Iterable[Label]) -> bytes:
    return b"".join(text for text, _ in LabelTable(labels).texts())


def _of_people(path: Path) -> Iterator[Label]:
    """The labels in a file that people gave."""
    return filter(by_people, labels_in(path, blocks(path, _any_of_people)))


def _any_of_people(block: bytes) -> bool:
    return not block.count(_NOBODY) == block.count(_IMPORTED) == block.count(b"\n")


def numbered(line: bytes, number: int) -> bytes:
    """A line of samples.jsonl with the number of the sample's grader set, where that is not 0."""
    return line[:-2] + b',"graders":%d}\n' % number if number else line


def _head(line: bytes) -> bytes:
    """The beginning of a line of samples.jsonl, in which at least the beginning of the id stands."""
    return line[: line.find(b'",') + 1]


_decode_sample, _GRADERS = msgspec.json.Decoder(Sample).decode, b',"graders":'


def _sample_in(path: Path, number: int, line: bytes) -> Sample:
    """The sample of a line of samples.jsonl, without the number of its grader set; InputError where it is damaged."""
    end, mark, graders = line[-30:].rpartition(_GRADERS)
    if mark and graders.rstrip().removesuffix(b"}").isdigit():
        line = line[:-30] + end + b"}"
    try:
        return _decode_sample(line)
    except (ValueError, RecursionError):
        return record_in(path, number, line, Sample)
