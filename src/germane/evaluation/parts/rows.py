"""The rows of several parts' report folders as those of one, in the order of the input.

Each part's rows stand in the order of its own samples, so that merging reads every table once, from its beginning to its end,
and copies lines as they are: what an evaluation in one part would have written.
"""

from __future__ import annotations

import sys
from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import merge
from itertools import repeat
from operator import itemgetter
from pathlib import Path
from typing import TypeAlias

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


def merge_rows(parts: Sequence[ReportFolder], rows: Sequence[Sequence[int]], target: ReportFolder) -> None:
    """Write the rows of these folders to another one, which was started; `rows` are the places of each one's samples.

    Judgements stand part by part, each key once. Their counts and the grader sets of the parts are added to the target's.
    InputError where two samples have the same name.
    """
    sets = {canonical(part.graders): list(part.graders) for part in parts if part.graders}
    names = [(array("q"), array("q")) for _ in parts]
    target.write_lines("samples", _samples(parts, rows, names, None if len(sets) < 2 else target))
    if len(sets) == 1:
        (target.graders,) = sets.values()
    for table, name_of in (("items", _name_in), ("scores", _name_in), ("labels", _name_in_label)):
        placed = (
            _placed(part.path / f"{table}.jsonl", name_of, zip(own[table == "labels"], row, strict=True))
            for part, own, row in zip(parts, names, rows, strict=True)
        )
        target.write_lines(table, (line for _, line in merge(*placed, key=itemgetter(0))))
    asked: AskedCounts = Counter()
    target.write_lines("judgements", _judgements(parts, asked))
    target.reread(+asked)


def _samples(
    parts: Sequence[ReportFolder],
    rows: Sequence[Sequence[int]],
    names: Sequence[tuple[array[int], array[int]]],
    target: ReportFolder | None,
) -> Iterator[bytes]:
    """The lines of all samples, their names added to `names` of their part: as items and scores have them, and as labels do.

    The grader sets of samples are numbered as those of the `target`; None = they are alike in all parts.
    """
    seen, lines = NumberSet(), [lines_of(part.path / "samples.jsonl") for part in parts]
    for _, number in merge(*(zip(row, repeat(number)) for number, row in enumerate(rows))):
        _, line = next(lines[number])
        name = _name_in(line)
        if not seen.add(hash(name)):
            problem = f"the sample {name[0]!r} is in two of the parts"
            raise InputError(problem, fix="give each sample its own id, system or trial")
        for listed, known in zip(names[number], (name, (*name[:2], 0)), strict=True):
            listed.append(hash(known))
        yield line if target is None else _regraded(line, parts[number].graders, target)


def _placed(
    file: Path, name_of: Callable[[bytes], _Name], samples: Iterator[tuple[int, int]]
) -> Iterator[tuple[int, bytes]]:
    """The lines of one table of a part, each with the place of its sample; labels that people gave in its folder come last."""
    name, place = 0, -1
    for _, line in lines_of(file):
        wanted = hash(name_of(line))
        while place < 0 or name != wanted:
            name, place = next(samples, (wanted, sys.maxsize))
        yield place, line


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
