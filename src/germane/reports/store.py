"""Where an evaluation's rows go: memory, or the report folder. Samples, judgements and scores, in input order."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, Protocol

from germane.encoding import decode, encode
from germane.errors import InputError, Place
from germane.judging.rows import dump_judgement, load_judgement
from germane.reports.schema import ScoreRow
from germane.samples.rows import sample_to_json
from germane.types import Json, Judgement, Sample, Score

__all__ = [
    "OWN",
    "FolderStore",
    "MemoryStore",
    "Store",
    "dump_judgement",
    "dump_score",
    "earlier",
    "forget_killed",
    "has_rows",
    "has_unsaved",
    "leave_unsaved",
    "load_judgement",
    "load_score",
    "unsaved",
]

_JUDGEMENTS, _PART, _EARLIER, _UNSAVED = "judgements.jsonl", ".part", ".earlier", ".unsaved"


OWN = ("samples.jsonl", "judgements.jsonl", "scores.jsonl", "manifest.json")
"""The files that are a report folder's own: nothing else is written under these names."""


class Store(Protocol):
    """The three tables of an evaluation and its manifest."""

    def add(
        self, samples: Iterable[Sample], judgements: Iterable[Judgement], scores: Iterable[Score]
    ) -> None:
        """Append a block's rows."""
        ...

    def samples(self) -> Iterator[Sample]:
        """All samples."""
        ...

    def judgements(self, keys: Container[str] | None = None) -> Iterator[Judgement]:
        """All judgements, or those under some keys."""
        ...

    def scores(self) -> Iterator[Score]:
        """All scores."""
        ...


class MemoryStore:
    """Rows in lists: what `evaluate()` returns before it is saved."""

    def __init__(self) -> None:
        self._samples: list[Sample] = []
        self._judgements: dict[str, Judgement] = {}
        self._scores: list[Score] = []

    def add(
        self, samples: Iterable[Sample], judgements: Iterable[Judgement], scores: Iterable[Score]
    ) -> None:
        """Append a block's rows."""
        self._samples.extend(samples)
        for judgement in judgements:
            self._judgements.setdefault(judgement.key, judgement)
        self._scores.extend(scores)

    def samples(self) -> Iterator[Sample]:
        """All samples."""
        return iter(self._samples)

    def judgements(self, keys: Container[str] | None = None) -> Iterator[Judgement]:
        """All judgements, each once, or those under some keys."""
        return (found for key, found in self._judgements.items() if keys is None or key in keys)

    def scores(self) -> Iterator[Score]:
        """All scores."""
        return iter(self._scores)


def dump_score(score: Score) -> ScoreRow:
    """A score as the JSON object that scripts rely on."""
    return {
        "sample": score.sample,
        "system": score.system,
        "trial": score.trial,
        "measure": score.measure,
        "type": score.type,
        "value": score.value,
        "status": score.status,
        "why": score.why,
        "bounds": list(score.bounds) if score.bounds else None,
    }


def load_score(row: dict[str, Json]) -> Score:
    """The score in a JSON object."""
    return Score(**{**row, "bounds": tuple(row["bounds"]) if row.get("bounds") else None})


class FolderStore:
    """Rows as JSON lines in a report folder.

    What is written stands in `.part` files until `finish`, so that an earlier report in the folder stays whole
    until the new one is complete, and a killed run leaves its judgements beside it (see `earlier`).
    """

    _NAMES = ("samples", "judgements", "scores")

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._files: dict[str, IO[bytes]] = {}
        self._end = ""

    def start(self) -> FolderStore:
        """Begin the folder's rows anew; what a killed run left is kept until `finish`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        _set_aside(self.folder)
        self._end = _PART
        self._files = {name: self._path(name).open("wb") for name in self._NAMES}
        return self

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.jsonl{self._end}"

    def add(
        self, samples: Iterable[Sample], judgements: Iterable[Judgement], scores: Iterable[Score]
    ) -> None:
        """Append a block's rows."""
        self._write("samples", map(sample_to_json, samples))
        self._write("judgements", map(dump_judgement, judgements))
        self._write("scores", map(dump_score, scores))

    def _write(self, name: str, rows: Iterable[Json]) -> None:
        self._files[name].writelines(encode(row) + b"\n" for row in rows)

    def close(self) -> None:
        """Everything is on disk after this."""
        for file in self._files.values():
            file.flush()
            os.fsync(file.fileno())
            file.close()
        self._files = {}

    def finish(self) -> None:
        """What was written since `start` takes the place of the rows that stood there."""
        if not self._end:
            return
        written = {name: self._path(name) for name in self._NAMES}
        self._end = ""
        for name, path in written.items():
            path.replace(self._path(name))
        (self.folder / f"{_JUDGEMENTS}{_EARLIER}").unlink(missing_ok=True)

    def samples(self) -> Iterator[Sample]:
        """All samples."""
        from germane.samples import read_samples

        return iter(read_samples(self._path("samples"))) if self._path("samples").exists() else iter(())

    def judgements(self, keys: Container[str] | None = None) -> Iterator[Judgement]:
        """All judgements, or those under some keys: the others are passed over unread."""
        wanted = None if keys is None else (lambda line: line.split('"', 4)[3] in keys)  # the first field
        return map(load_judgement, self._rows("judgements", wanted))

    def scores(self) -> Iterator[Score]:
        """All scores."""
        return map(load_score, self._rows("scores"))

    def _rows(self, name: str, wanted: Callable[[str], bool] | None = None) -> Iterator[Any]:
        path = self._path(name)
        if not path.exists():
            return
        with path.open(encoding="utf-8") as file:
            for number, line in enumerate(file, 1):
                if wanted is not None and not wanted(line):
                    continue
                try:
                    yield decode(line)
                except ValueError:
                    place = Place(str(path), number)
                    raise InputError(
                        "this line is damaged", fix="run again with --resume", place=place
                    ) from None


def has_rows(folder: Path) -> bool:
    """Whether the rows of a report stand in a folder."""
    return (folder / _JUDGEMENTS).exists()


def forget_killed(folder: Path) -> None:
    """Remove what killed runs left in a folder: what begins there now is another evaluation."""
    for end in (_EARLIER, _PART):
        (folder / f"{_JUDGEMENTS}{end}").unlink(missing_ok=True)


def earlier(folder: Path, *, finished: bool = True) -> Iterator[Judgement]:
    """The judgements of the sessions of an evaluation in its folder, oldest first; half lines are passed over.

    Without `finished` only those of killed ones: the report that stands there is another evaluation's.
    """
    for end in ("", _EARLIER, _PART, _UNSAVED) if finished else (_EARLIER, _PART, _UNSAVED):
        yield from _whole_lines(folder / f"{_JUDGEMENTS}{end}")


def _whole_lines(path: Path) -> Iterator[Judgement]:
    with suppress(FileNotFoundError), path.open("rb") as lines:
        for line in lines:
            with suppress(ValueError, TypeError, AttributeError):
                yield load_judgement(decode(line))


def leave_unsaved(folder: Path, judgements: Sequence[Judgement]) -> int:
    """Append answers that no ledger would take to those that lie in a folder; how many of them are on disk now."""
    kept = 0
    with suppress(OSError), (folder / f"{_JUDGEMENTS}{_UNSAVED}").open("ab") as file:
        try:
            for judgement in judgements:
                file.write(b"\n" + encode(dump_judgement(judgement)))  # the line before may be half a one
                file.flush()
                kept += 1
        finally:
            os.fsync(file.fileno())
    return kept


def has_unsaved(folder: Path) -> bool:
    """Whether answers wait in a folder for room in a ledger."""
    return (folder / f"{_JUDGEMENTS}{_UNSAVED}").exists()


@contextmanager
def unsaved(folder: Path) -> Iterator[list[Judgement]]:
    """The answers in a folder that no ledger has. They are removed, unless keeping them elsewhere raises."""
    path = folder / f"{_JUDGEMENTS}{_UNSAVED}"
    yield list(_whole_lines(path))
    path.unlink(missing_ok=True)


def _set_aside(folder: Path) -> None:
    """Append the judgements of a killed run to those of the ones killed before it: the next begins the file anew."""
    part = folder / f"{_JUDGEMENTS}{_PART}"
    if part.exists():
        with part.open("rb") as left, (folder / f"{_JUDGEMENTS}{_EARLIER}").open("ab") as kept:
            shutil.copyfileobj(left, kept)
            kept.write(b"\n")  # the last line may be half a one
            kept.flush()
            os.fsync(kept.fileno())
