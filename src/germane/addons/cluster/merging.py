"""The parts of an evaluation, and their merge into one report: rows, counts and manifests.

All tables of a part are in the order of its samples, so merging reads each table once and copies its lines.
The tables are those that an evaluation in one part would have written.
"""

from __future__ import annotations

import hashlib
import heapq
import re
import sys
from array import array
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise, repeat
from operator import itemgetter
from pathlib import Path
from types import MappingProxyType
from typing import Any, Self

import msgspec

from germane.clean import some_of
from germane.cli.finishing import Outputs, check_writable, finish
from germane.encoding import canonical, decode, now, short_name
from germane.errors import InputError
from germane.evaluation.spec import Spec, differing_options
from germane.folder.files import KEY, Table, TableFile
from germane.folder.tables import BlockRows, StoredTables
from germane.folder.writer import FolderWriter
from germane.reports.basis import judge_in_all, panel_notes
from germane.reports.data import ReportData
from germane.reports.gates import Gate
from germane.reports.report import Report, find_baseline
from germane.samples.files import local
from germane.tables.judgements import AskedCounts, asked_counts, count_asked, load_judgement
from germane.types import Json
from germane.version import __version__

_ROWS = "rows.txt"
_SHARE = re.compile(r"([0-9]{1,6})/([0-9]{1,6})")


@dataclass(frozen=True, slots=True)
class Share:
    """One part of an evaluation: part `number` (from 1) of `of` parts."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the part for a string such as `3/16`. Raises InputError for any other string."""
        match = _SHARE.fullmatch(text.strip())
        number, total = (int(match[1]), int(match[2])) if match else (0, 0)
        if not 1 <= number <= total:
            fix = "write --part 3/16: the third of 16, from 1/16 to 16/16"
            raise InputError(f"--part {text!r} is not of the form I/N", fix=fix)
        return cls(number, total)

    def has(self, query: str) -> bool:
        """Return True if cases with this query are in the part.

        The part is chosen by the hash of the query, so that cases with equal queries are in the same part.
        """
        result = hashlib.blake2b(query.encode(errors="replace"), digest_size=8).digest()
        return int.from_bytes(result, "big") % self.of == self.number - 1

    def of_limits(self, spec: Spec) -> Spec:
        """Return a copy of `spec` with this part's portion of the limits, which apply to all parts together.

        Each of N parts gets 1/N of the requests and tokens per minute and of the dollars. Calls and
        concurrent requests are divided into whole numbers, and the first parts get the remainder. Each part
        may send at least one request at a time.
        """

        def whole(limit: int | None) -> int | None:
            return None if limit is None else limit // self.of + (self.number <= limit % self.of)

        limits = {"rpm": spec.rpm, "tpm": spec.tpm, "max_cost": spec.max_cost}
        portions = {name: limit and limit / self.of for name, limit in limits.items()}
        jobs = None if spec.jobs is None else max(1, whole(spec.jobs) or 0)
        return spec.but(**portions, max_calls=whole(spec.max_calls), jobs=jobs)

    @property
    def folder(self) -> str:
        """The name of the part's folder, without a slash."""
        return f"{self.number}-of-{self.of}"

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def entry(
        self,
        tables: StoredTables,
        rows: Iterable[int],
        cases: int,
        inputs: Sequence[Path],
        gates: Iterable[Gate],
    ) -> dict[str, Json]:
        """Return the part's entry in the manifest, which merging needs, and write `rows` to a file.

        `rows` are the positions of the part's cases among all cases, and `cases` is the number of all cases.
        Some means are computed over all parts, so their values are stored, each with its count.
        """
        (tables.path / _ROWS).write_text("".join(f"{row}\n" for row in rows), "ascii")
        values = sorted(tables.beside.items())
        digests = []
        for path in inputs:
            with path.open("rb") as file:
                digests.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()} {path.name}")
        numbers = {"number": self.number, "of": self.of, "cases": cases, "inputs": digests}
        beside = [[system, name, sorted(Counter(each).items())] for (system, name), each in values]
        return {**numbers, "gates": [gate.stored() for gate in gates], "beside": beside}


def merge(
    folders: Sequence[Path], *, output: Sequence[Path], force: bool, json: bool, quiet: bool, verbose: bool
) -> int:
    """Join the reports of `germane run --part` into one, equal to the report of an undivided run.

    Gates are decided here, on the joined report. Exit codes are those of `germane run`.
    """
    outputs = Outputs.of(output)
    files, target = outputs.files, outputs.folder or outputs.made
    for path in files:
        check_writable(path, ())
    if target is None:
        raise InputError("the joined report needs a folder", fix="give -o germane-reports/whole")
    outputs.refuse_other(replace=force)
    parts = list[Path]()
    for folder in map(local, folders):  # one part, or a folder of parts
        inside = () if (folder / "manifest.json").exists() else sorted(folder.glob("*/manifest.json"))
        parts += [file.parent for file in inside] or [folder]
    if target.resolve() in {part.resolve() for part in parts}:
        raise InputError(f"-o {target} is the folder of a part", fix="name another folder")
    opened = open_parts(parts)
    writer = FolderWriter(target).lock()
    try:
        if not force:
            writer.refuse_other()
        report, before = merge_parts(*opened, writer)
    finally:
        writer.close()
    code = finish(report, files, as_json=json, quiet=quiet, verbose=verbose, baseline=before)
    outputs.put(report, store=outputs.store or "")
    return code


def open_parts(folders: Sequence[Path]) -> tuple[list[StoredTables], list[array[int]]]:
    """Return the parts ordered by number, and the positions of each part's samples among all samples."""
    parts = list(map(StoredTables.open, folders))
    for part in parts:
        if not part.manifest.get("part"):
            fix = "name folders that `germane run --part 3/16 -o DIR` wrote"
            raise InputError(f"{part.path} is not the report of a part (germane run --part)", fix=fix)
        deque(part.labels, 0)
        part.forget("labels", "scores")  # their lines are copied, not read
    parts.sort(key=lambda part: part.manifest["part"]["number"])
    rows = []
    for part in parts:
        try:
            rows.append(array("q", map(int, (part.path / _ROWS).read_text("ascii").split())))
        except (OSError, ValueError):
            problem = f"{part.path / _ROWS} cannot be read as a list of numbers"
            raise InputError(problem, fix="run this part again") from None
    entries = [part.manifest["part"] for part in parts]
    for part, other in pairwise(parts):
        if part.manifest["part"]["number"] == other.manifest["part"]["number"]:
            problem = f"{part.path} and {other.path} are reports of the same part"
            raise InputError(problem, fix="name each part once")
    first, kept = parts[0], {"of": "the number of parts", "cases": "cases", "gates": "gates"}
    for part, entry in zip(parts, entries, strict=True):
        different = [name for key, name in kept.items() if entries[0][key] != entry[key]]
        judges = [canonical((report.manifest.get("judge") or {}).get("identity")) for report in (first, part)]
        different += ["the judge"] if judges[0] != judges[1] else []
        inputs = set(entries[0]["inputs"]) ^ set(entry["inputs"])  # each a digest, a blank and a name
        different += sorted({f"the input {input_.partition(' ')[2]}" for input_ in inputs})
        different += differing_options(first.manifest["options"], part.manifest["options"])
        if different:
            problem = f"{first.path} and {part.path} belong to different evaluations: {', '.join(different)}"
            raise InputError(problem, fix="run all parts with the same inputs and options")
    total = entries[0]["of"]
    if missing := sorted(set(range(1, total + 1)) - {entry["number"] for entry in entries}):
        problem = f"missing parts: {some_of([f'{number}/{total}' for number in missing], 5)}"
        fix = f"run the same command with --part {missing[0]}/{total}, or name its folder"
        raise InputError(problem, fix=fix)
    if sorted(chain.from_iterable(rows)) != list(range(entries[0]["cases"])):
        problem = "the parts are not of the same cases: some cases are in two parts or in none"
        raise InputError(problem, fix="run all parts again, on inputs that do not change")
    return parts, rows


def merge_parts(
    parts: Sequence[StoredTables],
    rows: Sequence[array[int]],
    folder: FolderWriter,
    own: Mapping[str, Json] = MappingProxyType({}),
) -> tuple[Report, ReportData | None]:
    """Write the report of all parts of an evaluation to a locked folder; return it and its baseline, if any.

    Scores, means and intervals are identical to those of the same evaluation in one part, and its gates are
    decided here. `own` are options of the whole evaluation, which replace those stored in the parts.
    """
    manifests = [part.manifest for part in parts]
    options = manifests[0]["options"]
    before = None
    if options.get("baseline") or options.get("fail_on_regression"):
        before = find_baseline(options.get("baseline") and local(options["baseline"]))
    merge_rows(parts, rows, folder.start())
    for manifest in manifests:
        derived = panel_notes(asked_counts(manifest["asked"]))
        counts = BlockRows(
            notes=Counter({note: n for note, n in manifest["notes"].items() if note not in derived}),
            prompts=manifest["prompts"],
            reads={measure: set(kinds) for measure, kinds in manifest["reads"].items()},
            references={measure: Counter(n) for measure, n in manifest["references"].items()},
            beside={
                (system, measure): array("d", chain.from_iterable([value] * n for value, n in values))
                for system, measure, values in manifest["part"]["beside"]
            },
        )
        folder.tables.add_counts(counts)
    stopped = [manifest["verdict"] for manifest in manifests if manifest["verdict"]["exit_code"] == 3]
    made = _manifest(manifests)
    made["options"] |= {"folder": str(folder.path), "outputs": [], **own}
    report = Report.build(
        folder.tables,
        made,
        gates=list(map(Gate.of_stored, manifests[0]["part"]["gates"])),
        max_unmeasured=options["max_unmeasured"],
        allow_stand_in=options["allow_stand_in"],
        over=str(stopped[0]["reasons"][0]) if stopped else "",
    )
    if before is not None:
        from germane.comparison.regression import settle_changes

        settle_changes(report, before, every=options["fail_on_regression"])
    report.finish(folder)
    return report, before


def _manifest(manifests: Sequence[Mapping[str, Any]]) -> dict[str, Json]:
    """Return the merged manifest: the entries that are equal in all parts, and the sums of their counts."""
    first = manifests[0]
    kept = ("created", "cwd", "settings", "places", "by", "sampled", "left_out", "declared")
    made: dict[str, Json] = {name: first[name] for name in kept if name in first}
    if warnings := list(dict.fromkeys(chain.from_iterable(m.get("warnings", ()) for m in manifests))):
        made["warnings"] = warnings
    if "eval_files" in first:
        counts = zip(*(m["eval_files"] for m in manifests), strict=True)
        made["eval_files"] = [[same[0][0], sum(count for _, count in same)] for same in counts]
    for entry in ("targets", "target_digests"):
        if found := {name: of for m in manifests for name, of in (m.get(entry) or {}).items()}:
            made[entry] = found
    sessions = chain.from_iterable(m.get("sessions", ()) for m in manifests)
    if ordered := sorted(sessions, key=itemgetter("at")):
        made["sessions"] = ordered
    made["options"] = {**first["options"], "part": None, "engine": None}
    judge = judge_in_all([manifest["judge"] for manifest in manifests])
    return {"germane": __version__, **made, "merged": now(), "judge": judge, "parts": len(manifests)}


class _Named(msgspec.Struct, frozen=True):
    """The fields of a line that identify its sample."""

    id: str = ""
    sample: str = ""
    system: str = ""
    trial: int = 0


_decode_named = msgspec.json.Decoder(_Named).decode


def _name_in(named: _Named) -> bytes:
    """Return a short key of a sample's id and system, but not its trial, because labels have no trial."""
    return short_name(repr((named.id or named.sample, named.system)).encode(errors="replace"))


def merge_rows(parts: Sequence[StoredTables], rows: Sequence[Sequence[int]], target: FolderWriter) -> None:
    """Write the rows of all parts to the folder `target`, in the order of the samples' positions in `rows`.

    Judgements are written part by part, each key once, and counted.
    """
    sets = {canonical(part.graders): part.graders for part in parts if part.graders}
    if len(sets) > 1:
        problem = "the samples of the parts have different graders, which cannot be merged"
        raise InputError(
            problem, fix="run the evaluation without --part: answers in the ledger are used again"
        )
    target.tables.graders[:] = next(iter(sets.values()), [])
    names: list[list[bytes]] = [[] for _ in parts]
    target.copy("samples", _samples(parts, rows, names))
    tables: tuple[Table, ...] = ("places", "scores", "labels")
    for table in tables:
        placed = (
            _placed(part.files[table], zip(own, row, strict=True))
            for part, own, row in zip(parts, names, rows, strict=True)
        )
        target.copy(table, (line for _, line in heapq.merge(*placed, key=itemgetter(0))))
    asked: AskedCounts = Counter()
    target.copy("judgements", _judgements(parts, asked))
    target.flush()
    target.tables.asked = +asked


def _samples(
    parts: Sequence[StoredTables], rows: Sequence[Sequence[int]], names: Sequence[list[bytes]]
) -> Iterator[bytes]:
    """Yield the lines of all samples in order of position; append each sample's key to its part's `names`."""
    seen, lines = set[bytes](), [part.files["samples"].lines() for part in parts]
    for _, number in heapq.merge(*(zip(row, repeat(number)) for number, row in enumerate(rows))):
        _, _, line = next(lines[number])
        named = _decode_named(line)
        if (key := short_name(repr(named).encode(errors="replace"))) in seen:
            problem = f"sample ids must be unique; {named.id!r} is in two parts"
            raise InputError(problem, fix="give each sample its own id, system or trial")
        seen.add(key)
        names[number].append(_name_in(named))
        yield line


def _placed(file: TableFile, samples: Iterator[tuple[bytes, int]]) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a part's table, each after the position of its sample among all samples."""
    name, position = b"", -1
    for _, _, line in file.lines():
        key = _name_in(_decode_named(line))
        while position < 0 or name != key:
            name, position = next(samples, (key, sys.maxsize))
        yield position, line


def _judgements(parts: Sequence[StoredTables], asked: AskedCounts) -> Iterator[bytes]:
    """Yield the judgements of all parts, each key once, and add their counts to `asked`."""
    written = set[bytes]()
    for part in parts:
        asked.update(asked_counts(part.manifest.get("asked") or {}))
        for _, _, line in part.files["judgements"].lines():
            if (key := short_name(line[KEY])) not in written:
                written.add(key)
                yield line
            else:
                asked.subtract(count_asked(Counter(), [load_judgement(decode(line))]))
