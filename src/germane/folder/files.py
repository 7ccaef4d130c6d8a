"""The files of a report folder: names, lines, manifest, lock, and how a new report replaces the old one.

All new files are complete and on disk before the first new file is moved into place. The draft of the new
manifest is written last. If a process is killed while it moves files, the draft stays, and the next process
that opens the folder moves the remaining files.
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import IO, Any, Literal, TypeAlias

import msgspec

from germane.encoding import decode, encode, json_lines, replace_surrogates
from germane.errors import InputError, SourceLocation
from germane.samples.files import read_text
from germane.samples.strictjson import json_in
from germane.tables.judgements import JudgeLine, load_judgement
from germane.tables.labels import Label, by_people, decode_label, load_label
from germane.types import Json, Judgement

__all__ = ["KEY", "Table", "TableFile", "read_manifest", "write_manifest"]

_log = logging.getLogger("germane")

Table: TypeAlias = Literal["samples", "places", "judgements", "labels", "scores"]
"""The name of a table of a report folder."""

TABLES: tuple[Table, ...] = ("samples", "places", "judgements", "scores")
"""The tables whose files do not change once a report is complete."""

LABELS = "labels.jsonl"
"""The file to which people's labels are appended."""

MANIFEST, LOCK = "manifest.json", ".lock"

UNFINISHED = ".part"
"""The suffix of a file that is being written, or that a killed process left unfinished."""

EARLIER = ".earlier"
"""The suffix of the file of judgements from killed sessions or about unfinished samples."""

SESSION = f"session.json{UNFINISHED}"
"""The file in which a session records its costs, so that they are known even if it is killed."""

OWN = (*(f"{name}.jsonl" for name in TABLES), LABELS, MANIFEST)
"""The files of a report folder that only germane writes; output files may not have these names."""

APPEND, REPLACE = os.O_APPEND, os.O_TRUNC
"""The two ways to open a file: to write at its end, or to empty it first."""

Keep: TypeAlias = Callable[[bytes], bool]
"""A test of a line: True if the line is to be read."""

KEY = slice(8, 40)
"""The position of the key in a line of judgements.jsonl, which begins with `{"key":"..."`."""


def is_own(path: Path, folder: Path) -> bool:
    """Return True if `path` is a file in the report `folder` that only germane writes; links are resolved."""
    return path.resolve() in {(folder / name).resolve() for name in OWN}


def files_in(path: Path, end: str = "") -> dict[Table, Path]:
    """Return the path of each table's file in the folder `path`; `end` is appended to the file names."""
    tables: tuple[Table, ...] = (*TABLES, "labels")
    return {name: path / f"{name}.jsonl{end}" for name in tables}


def opened(path: Path, how: int) -> IO[bytes]:
    """Open a file for writing; `how` is APPEND or REPLACE. Raises OSError if the path is a symbolic link."""
    flags = os.O_WRONLY | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0) | how
    return os.fdopen(os.open(path, flags, 0o666), "wb")


def sync(file: IO[bytes]) -> None:
    """Flush a file and wait until its content is on disk."""
    file.flush()
    os.fsync(file.fileno())


# lines


def object_in(line: bytes) -> dict[str, Any]:
    """Return the JSON object in a line. Raises ValueError or RecursionError for anything else."""
    row = decode(line)
    if not isinstance(row, dict):
        raise ValueError("not a JSON object")  # noqa: TRY004 - as other lines that are no row
    return row


@dataclass(frozen=True, slots=True)
class TableFile:
    """The rows of a JSON Lines file; the file is read again each time the rows are iterated over.

    `decode` converts a line to a row. Lines for which `keep` returns False are skipped. A missing file counts
    as empty. A truncated last line is skipped in labels.jsonl and in a file that is still being written; in
    any other file it is an error.
    """

    path: Path
    decode: Callable[[bytes], Any] = object_in
    keep: Keep | None = None

    def __iter__(self) -> Iterator[Any]:
        for number, _, line in self.lines():
            if self.keep is None or self.keep(line):
                yield self.decoded(number, line)

    def lines(self) -> Iterator[tuple[int, int, bytes]]:
        """Yield the line number, the byte offset and the bytes of each line."""
        if not self.path.is_file():
            return
        offset = 0
        with self.path.open("rb") as content:
            for number, line in enumerate(content, 1):
                if not line.endswith(b"\n"):
                    is_torn = self.path.suffix == UNFINISHED
                    if self.path.name == LABELS and (is_torn := torn_bytes(line) > 0):
                        note_torn(self.path, number)
                    if is_torn:
                        return
                yield number, offset, line
                offset += len(line)

    def decoded(self, number: int, line: bytes) -> Any:
        """Return the row in a line. Raises InputError with the line number if the line is damaged."""
        try:
            return self.decode(line)
        except InputError as invalid:
            error = invalid
        except (ValueError, RecursionError):
            fix = "restore the file, or run the evaluation again"
            if self.path.suffix == UNFINISHED:
                fix = "run again with --resume"
            elif self.path.name == LABELS:
                fix = "remove the line; its answer is lost"
            error = InputError("this line is damaged or cut off", fix=fix)
        raise error.at(SourceLocation(str(self.path), number))

    def at(self, offsets: Iterable[int]) -> Iterator[bytes]:
        """Yield the lines that begin at the byte offsets in `offsets`."""
        with self.path.open("rb") as content:
            for offset in offsets:
                content.seek(offset)
                yield content.readline()

    def digest(self) -> str:
        """Return the SHA-256 of the file, in hex."""
        with self.path.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()


def judgement_in(line: bytes) -> Judgement:
    """Return the judgement in a line. Raises ValueError or RecursionError if the line is damaged."""
    return load_judgement(object_in(line))


def earlier_judgements(files: Iterable[Path]) -> Iterator[Judgement]:
    """Yield the judgements that earlier sessions wrote to `files`; damaged or truncated lines are skipped."""
    for file in files:
        for _, _, line in TableFile(file).lines():
            with suppress(ValueError, RecursionError, TypeError, AttributeError):
                yield judgement_in(line)


def label_in(line: bytes) -> Label:
    """Return the label in a line of labels.jsonl. Raises InputError if the label is invalid."""
    try:
        return decode_label(line)
    except (ValueError, RecursionError):
        return load_label(object_in(line))


def with_texts(field: str, texts: Collection[str]) -> Keep:
    """Return a function that tests, without parsing, whether a JSON line's `field` is one of `texts`.

    It returns False only if the field's string is not in `texts`; it also returns True if it cannot tell.
    """
    name = encode(field) + b":"
    values = {encode(text) for text in texts}

    def keep(line: bytes) -> bool:
        start = line.find(name) + len(name)
        text = line[start : line.find(b'"', start + 1) + 1]
        return text in values or not text.startswith(b'"') or b"\\" in text

    return keep


def torn_bytes(line: bytes) -> int:
    """Return the length in bytes of the last line in `line` if it is truncated, else 0."""
    last = line[line.rfind(b"\n") + 1 :]
    try:
        if last:
            object_in(last)
    except (ValueError, RecursionError):
        return len(last)
    return 0


@cache
def note_torn(file: Path, number: int) -> None:
    """Log a warning, once per file, that the last line of labels.jsonl, line `number`, is truncated."""
    _log.warning("%s:%d: the last line was cut off: its answer is lost, all other labels count", file, number)


# the manifest


SCHEMA_VERSION = 4
"""The version of the report folder's format that is written; only this version is read."""


class _GraderEntry(msgspec.Struct):
    name: str
    measure: str
    options: dict[str, Any]
    weight: float = 1.0
    threshold: float | None = None
    required: float | None = None


_TYPES: Mapping[Any, tuple[str, ...]] = {
    str | None: ("status", "germane", "created", "by", "over"),
    float: ("max_unmeasured", "labels_size"),
    dict[str, str]: ("prompts", "files"),
    dict[str, int]: ("notes",),
    dict[str, list[str]]: ("reads",),
    dict[str, dict[str, Any]]: ("asked", "beside", "references"),
    dict[str, Any]: ("command", "left_out", "options", "part", "places", "sampled", "settings", "until"),
    dict[str, Any] | None: ("judge", "target_digests", "targets", "verdict"),
    list[dict[str, Any]]: ("changes", "sessions"),
    list[list[_GraderEntry]]: ("graders",),
    list[Any]: ("eval_files", "gates"),
    list[str]: ("declared",),
}
_MANIFEST = msgspec.defstruct(
    "Manifest", [(name, kind, None) for kind, names in _TYPES.items() for name in names]
)
"""The manifest entries that germane reads, with their types; any may be missing, and others are allowed."""


def read_manifest(path: Path) -> dict[str, Json]:
    """Return the manifest of the report folder `path`; the report need not be complete.

    Raises InputError if the folder has no manifest, or if the manifest is damaged or of another version.
    """
    file = path / MANIFEST
    if path.is_file():
        raise InputError(
            f"{path} is a file, but a report folder is needed, with samples and the labels of judges and people",
            fix="name the folder that `germane run` wrote (only `germane compare` reads files)",
        )
    if not file.is_file():
        inside = max(path.glob(f"*/{MANIFEST}"), key=lambda file: file.stat().st_mtime_ns, default=None)
        named = (
            f"report in that folder, such as {inside.parent}" if inside else "folder that `germane run` wrote"
        )
        raise InputError(f"{path} is not a report folder: it has no {MANIFEST}", fix=f"name a {named}")
    manifest = json_in(read_text(file), file, fix=_AGAIN, surrogates=True)
    place = SourceLocation(str(file))
    if not isinstance(manifest, dict):
        raise InputError("the manifest must be one JSON object", fix=_AGAIN, place=place)
    if (version := manifest.get("schema_version")) != SCHEMA_VERSION:
        problem = f"{path} is a report of format {version}, but this germane reads format {SCHEMA_VERSION}"
        if isinstance(version, int) and version > SCHEMA_VERSION:
            raise InputError(problem, fix="update germane")
        stored = (name for name in manifest.get("files") or () if name.startswith("judgements."))
        raise InputError(
            problem,
            fix=f"keep the paid answers: germane ledger import {path / next(stored, 'judgements.jsonl')}; "
            "run the evaluation again; "
            f"keep people's labels: germane label NEW_REPORT --import {path / LABELS}",
        )
    try:
        msgspec.convert(replace_surrogates(manifest), _MANIFEST)
        JudgeLine.stored(manifest.get("judge"))
    except ValueError as error:
        raise InputError(f"the manifest is damaged: {error}", fix=_AGAIN, place=place) from None
    return manifest


_AGAIN = "restore the file, or run the evaluation again"


def write_manifest(path: Path, manifest: Mapping[str, Json], status: str) -> dict[str, Json]:
    """Replace the manifest of a report folder in one atomic step, and return the new manifest.

    `manifest` contains all entries except the version and the status. `status` is running, interrupted or
    complete.
    """
    made = draft_manifest(path, manifest, status)
    (path / f"{MANIFEST}{UNFINISHED}").replace(path / MANIFEST)
    return made


def draft_manifest(path: Path, manifest: Mapping[str, Json], status: str) -> dict[str, Json]:
    """Write the new manifest, as `write_manifest`, but to a `.part` file, and return it."""
    made = {**manifest, "schema_version": SCHEMA_VERSION, "status": status}
    with opened(path / f"{MANIFEST}{UNFINISHED}", REPLACE) as file:
        text = json.dumps(made, ensure_ascii=False, indent=1)
        # a file name that is not UTF-8 contains surrogates, which are written as escapes of JSON
        file.write(text.encode("utf-8", "backslashreplace") + b"\n")
        sync(file)
    return made


# the lock, and the end


def publish(path: Path) -> None:
    """Move all `.part` files of a locked folder to their final names, the manifest last."""
    keep_people(path)
    for name, file in files_in(path).items():
        with suppress(FileNotFoundError):
            files_in(path, UNFINISHED)[name].replace(file)
    files_in(path, EARLIER)["judgements"].unlink(missing_ok=True)
    (path / f"{MANIFEST}{UNFINISHED}").replace(path / MANIFEST)


def keep_people(path: Path) -> None:
    """Copy people's labels from the folder's labels.jsonl to the `.part` file that will replace labels.jsonl.

    Labels that are already in the `.part` file are not copied. Without a `.part` file, nothing is done.
    """
    stored, new = files_in(path)["labels"], files_in(path, UNFINISHED)["labels"]
    if not new.exists():
        return
    if labels := list(filter(by_people, TableFile(stored, label_in))):
        written = set(TableFile(new, label_in))
        with opened(new, APPEND) as file:
            file.writelines(json_lines(label for label in labels if label not in written))
            sync(file)


def complete_killed(path: Path, *, is_writer: bool = False) -> None:
    """Finish publishing a report if the process that was publishing it was killed.

    Does nothing if another process is writing to the folder, or if the folder is not writable. `is_writer` is
    True if the caller already holds the lock.
    """
    draft = path / f"{MANIFEST}{UNFINISHED}"
    if not draft.exists():
        return
    with suppress(InputError, OSError):
        held = None if is_writer else acquire(path / LOCK)
        try:
            with suppress(ValueError):  # the process was killed before the draft was complete
                if decode(draft.read_bytes()).get("status") == "complete":
                    publish(path)
        finally:
            if held is not None:
                release(path / LOCK, held)


def acquire(path: Path) -> int:
    """Create and lock the lock file `path`, and return its descriptor. Raises InputError if it is locked."""
    while True:
        file = os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0), 0o600)
        try:
            if sys.platform == "win32":
                import msvcrt

                msvcrt.locking(file, msvcrt.LK_NBLCK, 1)
            else:
                import fcntl

                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(file)
            fix = "wait until that process ends, or name another folder"
            raise InputError(f"another process is writing to {path.parent}", fix=fix) from None
        with suppress(FileNotFoundError):
            if os.path.samestat(os.fstat(file), path.stat()):
                return file
        os.close(file)  # the process that held the lock has just deleted the file


def release(path: Path, file: int) -> None:
    """Delete and unlock the lock file `path`; `file` is the descriptor that `acquire` returned."""
    if sys.platform == "win32":  # Windows cannot delete an open file
        os.close(file)
        with suppress(OSError):
            path.unlink()
    else:
        path.unlink(missing_ok=True)
        os.close(file)
