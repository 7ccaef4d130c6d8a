"""Write a report folder: rows are added in batches, and all files are published together at the end."""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Iterable, Mapping
from contextlib import suppress
from io import BytesIO
from pathlib import Path
from typing import IO, Self

from germane.encoding import batched, encode_records, json_lines, short_name
from germane.errors import InputError
from germane.folder.files import (
    APPEND,
    EARLIER,
    LOCK,
    MANIFEST,
    REPLACE,
    TABLES,
    UNFINISHED,
    Table,
    TableFile,
    acquire,
    complete_killed,
    draft_manifest,
    files_in,
    keep_people,
    opened,
    publish,
    read_manifest,
    release,
    sync,
)
from germane.folder.tables import StoredTables, Tables, numbered
from germane.tables.judgements import AskedCounts, count_asked, judgement_line
from germane.tables.labels import Label
from germane.tables.scores import ScoreTable
from germane.types import Json, Judgement

__all__ = ["FolderWriter"]


class FolderWriter:
    """Writes a report folder; it is the folder's only writer between `lock` and `close`.

    Rows are written to `.part` files, and `tables` reads the rows written since `start`. `finish` replaces
    the folder's files with the `.part` files, so that a finished report stays readable until the next report
    is complete. Judgements of a killed process stay in the folder, where `earlier` finds their files.
    """

    def __init__(self, path: Path | str) -> None:
        self.path = Path(path)
        self._held: int | None = None
        self.tables = StoredTables(self.path)
        self._files: dict[Table, IO[bytes]] = {}
        self._written = set[bytes]()
        self._kept: IO[bytes] | None = None

    @classmethod
    def temporary(cls, source: StoredTables) -> FolderWriter:
        """Return a started writer for a report that is scored again without being saved.

        Samples and labels are read from the files of `source`, and scores are held in memory. The files that
        are written are deleted when `tables` is garbage-collected.
        """
        writer = cls(tempfile.mkdtemp(prefix="germane-"))
        weakref.finalize(writer.tables, shutil.rmtree, writer.path, ignore_errors=True)
        writer.start()
        writer.tables.folder = None
        kept: tuple[Table, ...] = ("samples", "labels", "scores")
        for name in kept:
            writer._files.pop(name).close()
        writer.tables.move_to(UNFINISHED, {name: source.files[name] for name in kept})
        return writer

    # the folder

    def lock(self) -> Self:
        """Lock the folder until `close` and return the writer. Raises InputError if it is locked."""
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            fix = "name a folder that can be written"
            raise InputError(f"cannot write to {self.path}: {error.strerror}", fix=fix) from None
        self._held = acquire(self.path / LOCK)
        complete_killed(self.path, is_writer=True)
        return self

    def refuse_other(self, fix: str = "name a new folder, or give --force to replace it") -> None:
        """Raise InputError if the folder already holds a report; `fix` is the advice in the error message."""
        status: Json = "complete"
        with suppress(InputError):  # there is no manifest, or it is damaged
            status = read_manifest(self.path).get("status")
        if status != "complete":
            problem = f"{self.path} holds an unfinished evaluation"
            raise InputError(problem, fix=f"continue it: germane run --resume {self.path}; or {fix}")
        if (self.path / MANIFEST).exists() or files_in(self.path)["judgements"].exists():
            raise InputError(f"{self.path} already holds a report", fix=fix)

    # what killed sessions left

    def earlier(self, *, finished: bool = True) -> list[Path]:
        """Return the files that contain the judgements of earlier sessions; must be called before `start`.

        Pass `finished=False` if the folder's finished report belongs to another evaluation. Its judgements
        are then left out.
        """
        ends = (*[""] * finished, EARLIER, UNFINISHED)
        files = (files_in(self.path, end)["judgements"] for end in ends)
        return [file for file in files if file.exists()]

    def keep(self, answers: Iterable[Judgement]) -> None:
        """Store answers about samples that are not scored yet, so that a stopped run can be resumed."""
        if self._kept is None:
            self._kept = self._append_earlier()
        self._kept.writelines(map(judgement_line, answers))
        self._kept.flush()

    def _append_earlier(self) -> IO[bytes]:
        file = opened(files_in(self.path, EARLIER)["judgements"], APPEND)
        file.write(b"\n")  # ends the line that a killed session may have left incomplete
        return file

    # rows

    def start(self) -> Self:
        """Empty the tables and return the writer; judgements of killed sessions are kept until `finish`."""
        if self._held is None:
            self.lock()
        files = files_in(self.path, UNFINISHED)
        if (left := files["judgements"]).exists():  # left by a killed session
            with self._append_earlier() as kept:
                kept.writelines(line for _, _, line in TableFile(left).lines())
                sync(kept)
            left.unlink(missing_ok=True)
        for name, file in files.items():  # one by one: if a file cannot be opened, `close` closes the others
            self._files[name] = opened(file, REPLACE)
        self._written = set()
        tables = self.tables
        tables.move_to(UNFINISHED)
        tables.graders, tables.numbers = [], {}
        tables.scores, tables.asked, tables.cluster_of = ScoreTable(), AskedCounts(), {}
        return self

    def add(self, rows: Tables) -> None:
        """Write a batch of rows; judgements that were written before are skipped."""
        tables = self.tables
        numbers = list(map(tables.number_of, rows.graders))
        graded = rows.grader_numbers() if len(numbers) > 1 else {}
        for samples in batched(rows.samples) if "samples" in self._files else ():  # not if it is temporary
            text = encode_records(samples)
            if graded or any(numbers[:1]):  # a line ends with the index of its graders, unless it is 0
                both = zip(samples, BytesIO(text), strict=True)
                text = b"".join(numbered(line, numbers[graded.get(sample.key, 0)]) for sample, line in both)
            self._write("samples", [text])
        tables.clusters().update(rows.clusters())
        self._write("places", json_lines(rows.places))
        for batch in batched(rows.judgements):
            new = []
            for judgement in batch:
                if (name := short_name(judgement.key.encode())) not in self._written:
                    self._written.add(name)
                    new.append(judgement)
            count_asked(tables.asked, new)
            self._write("judgements", map(judgement_line, new))
        self.append_labels(rows.labels)
        tables.scores.extend(rows.scores, distinct=True)
        self._write("scores", rows.scores.lines())
        tables.add_counts(rows)

    def append_labels(self, labels: Iterable[Label]) -> None:
        """Write labels in addition to the labels of the rows added so far."""
        self._write("labels", json_lines(labels))
        self.tables.forget("labels")

    def copy(self, name: Table, lines: Iterable[bytes]) -> None:
        """Write lines of another report's table unchanged; cached tables are read again at their next use."""
        self.tables.forget("labels", "scores", "asked")
        self.tables.cluster_of = None
        self._files[name].writelines(lines)

    def _write(self, name: Table, texts: Iterable[bytes]) -> None:
        if (file := self._files.get(name)) is not None:  # a temporary report does not write all tables
            file.writelines(texts)

    # the end

    def flush(self) -> None:
        """Wait until all rows added so far are on disk."""
        for file in self._files.values():
            sync(file)

    def finish(self, manifest: Mapping[str, Json]) -> dict[str, Json]:
        """Replace the folder's report with the rows added since `start`; return the manifest with digests."""
        self.flush()
        self._close_files()
        keep_people(self.path)
        written = files_in(self.path, UNFINISHED)
        size = written["labels"].stat().st_size
        digests = {f"{name}.jsonl": TableFile(written[name]).digest() for name in TABLES}
        made = {"labels_size": size, **manifest, "files": digests}
        self.tables.manifest = draft_manifest(self.path, made, "complete")
        publish(self.path)
        self.tables.is_complete = True
        self.tables.move_to("")
        return self.tables.manifest

    def append_judgements(self, judgements: Iterable[Judgement]) -> None:
        """Add judgements of `germane audit --again`, which measures do not read, to a finished report."""
        stored, added = (files_in(self.path, end)["judgements"] for end in ("", UNFINISHED))
        with opened(added, REPLACE) as file:
            file.writelines(line for _, _, line in TableFile(stored).lines())
            file.writelines(map(judgement_line, judgements))
            sync(file)
        manifest = read_manifest(self.path)
        files = {**manifest["files"], stored.name: TableFile(added).digest()}
        draft_manifest(self.path, {**manifest, "files": files}, "complete")
        publish(self.path)

    def close(self) -> None:
        """Close the files and release the lock; the rows written so far stay in the folder for `--resume`."""
        self._close_files()
        if self._held is not None:
            release(self.path / LOCK, self._held)
            self._held = None

    def _close_files(self) -> None:
        for file in (*self._files.values(), *filter(None, [self._kept])):
            with suppress(OSError):  # rows that the disk does not take are written again by `--resume`
                file.close()
        self._files, self._kept = {}, None
