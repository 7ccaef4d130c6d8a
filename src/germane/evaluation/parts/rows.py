"""The rows of several parts' report folders as those of one, in the order of the input.

Each part's rows stand in the order of its own samples, so that merging reads every file once, from its beginning to its end,
and copies lines as they are: what an evaluation in one part would have written.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import merge
from itertools import repeat
from pathlib import Path
from typing import NamedTuple, TypeAlias

import msgspec

from germane.encoding import canonical, decode
from germane.errors import InputError
from germane.evaluation.parts.share import Share
from germane.numberset import NumberSet
from germane.reports.gates import Gate
from germane.tables.folder import ReportFolder, numbered
from germane.tables.judgements import AskedCounts, asked_counts, count_asked, load_judgement
from germane.tables.part import GraderSet
from germane.tables.stored import KEY, lines_of
from germane.types import Json

_ROWS = "rows.txt"
_AT_ONCE = 250
"""Samples whose rows are written together."""


class _Named(msgspec.Struct, frozen=True):
    """The names of a sample's own line (`id`), or of the sample that a line of items, labels or scores is about."""

    id: str = ""
    sample: str = ""
    system: str = ""
    trial: int = 0


_Name: TypeAlias = tuple[str, str, int]


def part_entry(
    folder: ReportFolder, share: Share, rows: Iterable[int], cases: int, size: int, gates: Iterable[Gate]
) -> dict[str, Json]:
    """The entry of a part's manifest for merging: its number, the count of `cases`, the inputs' bytes, and the gates of the whole.

    Means that belong beside others are means over all parts: their values are kept, each with how often it came. Which
    cases the part's samples are is written beside its tables.
    """
    (folder.path / _ROWS).write_text("".join(f"{row}\n" for row in rows), "ascii")
    beside = [
        [system, name, sorted(Counter(values).items())]
        for (system, name), values in sorted(folder.beside.items())
    ]
    kept = [gate.stored() for gate in gates]
    numbers = {"number": share.number, "of": share.of, "cases": cases, "bytes": size}
    return {**numbers, "gates": kept, "beside": beside}


def read_rows(folder: Path) -> array[int]:
    """The places of a part's samples among all cases; InputError where they are not there, or are none."""
    try:
        return array("q", map(int, (folder / _ROWS).read_text("ascii").split()))
    except (OSError, ValueError):
        raise InputError(f"{folder / _ROWS} is missing or damaged", fix="run this part again") from None


class _Lines:
    """The lines of one table of one part, taken sample by sample."""

    def __init__(self, file: Path, name_of: Callable[[bytes], _Name]) -> None:
        self._lines, self._name_of = (line for _, line in lines_of(file)), name_of
        self._next()

    def _next(self) -> None:
        self.line = next(self._lines, b"")
        self.name = self._name_of(self.line) if self.line else None

    def take(self, name: _Name) -> Iterator[bytes]:
        """The next lines, as far as they belong to this sample."""
        while self.name == name:
            yield self.line
            self._next()

    def rest(self) -> Iterator[bytes]:
        """The lines that are left."""
        while self.line:
            yield self.line
            self._next()


_decode_named = msgspec.json.Decoder(_Named).decode


def _name_in(line: bytes) -> _Name:
    try:
        named = _decode_named(line)
    except msgspec.MsgspecError:  # half a surrogate pair
        named = msgspec.convert(decode(line), _Named)
    return named.id or named.sample, named.system, named.trial


def _name_in_label(line: bytes) -> _Name:
    """A label does not say of which trial it is."""
    name, system, _ = _name_in(line)
    return name, system, 0


class _Part(NamedTuple):
    """The tables of one part, read side by side."""

    samples: Iterator[bytes]
    items: _Lines
    scores: _Lines
    labels: _Lines
    graders: Sequence[GraderSet]


def merge_rows(parts: Sequence[ReportFolder], rows: Sequence[Sequence[int]], target: ReportFolder) -> None:
    """Write the rows of these folders to another one, which was started; `rows` are the places of each one's samples.

    Judgements stand part by part, each key once. Their counts and the grader sets of the parts are added to the target's.
    InputError where two samples have the same name.
    """
    opened = [
        _Part(
            (line for _, line in lines_of(part.path / "samples.jsonl")),
            _Lines(part.path / "items.jsonl", _name_in),
            _Lines(part.path / "scores.jsonl", _name_in),
            _Lines(part.path / "labels.jsonl", _name_in_label),
            part.graders,
        )
        for part in parts
    ]
    seen, alike = NumberSet(), len({canonical(part.graders) for part in parts if part.graders}) < 2
    lines: dict[str, list[bytes]] = {"samples": [], "items": [], "scores": [], "labels": []}
    order = merge(*(zip(row, repeat(number)) for number, row in enumerate(rows)))
    for count, (_, number) in enumerate(order, 1):
        part = opened[number]
        sample = next(part.samples)
        name = _name_in(sample)
        if not seen.add(hash(name)):
            problem = f"the sample {name[0]!r} is in two of the parts"
            raise InputError(problem, fix="give each sample its own id, system or trial")
        lines["samples"].append(sample if alike else _regraded(sample, part.graders, target))
        lines["items"] += part.items.take(name)
        lines["scores"] += part.scores.take(name)
        lines["labels"] += part.labels.take((*name[:2], 0))
        if count % _AT_ONCE == 0:
            _write(target, lines)
    for part in opened:
        lines["labels"] += part.labels.rest()  # those that people gave in the part's own folder
    _write(target, lines)
    if alike and opened:
        target.graders = list(next((part.graders for part in opened if part.graders), ()))
    asked: AskedCounts = Counter()
    target.write_lines("judgements", _judgements(parts, asked))
    target.reread(+asked)


def _write(target: ReportFolder, lines: dict[str, list[bytes]]) -> None:
    for name, some in lines.items():
        target.write_lines(name, some)
        some.clear()


def _regraded(line: bytes, graders: Sequence[GraderSet], target: ReportFolder) -> bytes:
    """The line of a sample with the number that its grader set has in the target, which counts them as they come."""
    written = decode(line).get("graders", 0)
    bare = line[: line.rindex(b',"graders":')] + b"}\n" if written else line
    return numbered(bare, target.number_of(graders[written]))


def _judgements(parts: Sequence[ReportFolder], asked: AskedCounts) -> Iterator[bytes]:
    """The judgements of the parts, each key once; how they were asked is added to the counts."""
    written = NumberSet()
    for part in parts:
        asked.update(asked_counts(part.manifest.get("asked") or {}))
        for _, line in lines_of(part.path / "judgements.jsonl"):
            if written.add(hash(line[KEY])):
                yield line
            else:
                asked.subtract(count_asked(Counter(), [load_judgement(decode(line))]))
