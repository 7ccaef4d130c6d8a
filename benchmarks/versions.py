"""Two versions of germane beside each other: `python -m benchmarks.versions --beside PYTHON [--only NAME]... [--scale S]`.

PYTHON is the interpreter of an environment that holds the other version. Each workload is a command of the user's, run by both
programs in turn on the same input; printed are the CPU of the whole process and its peak memory, the other version first, and the
ratio. `--scale 0.1` takes a tenth of the samples.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from benchmarks.million import GOLD, LABELS, write_gold, write_labelled
from benchmarks.replay import JUDGE, NOWHERE, prepare
from benchmarks.running import head, row

WIDTHS = (44, 12, 12, 8, 12, 12)


@dataclass(frozen=True, slots=True)
class Work:
    """One line of the table: its input is made once, its command is run by each program in a folder of its own."""

    name: str
    samples: int
    prepare: Callable[[Path, int], None]
    command: Sequence[str]
    before: Sequence[Sequence[str]] = ()


def _shape(change: Callable[[dict[str, object], int], dict[str, object]]) -> Callable[[Path, int], None]:
    """Gold samples with ten passages each, every context changed as one shape has it."""

    def write(folder: Path, count: int) -> None:
        draw = random.Random(3)
        with (folder / "data.jsonl").open("w", encoding="utf-8") as lines:
            for number in range(count):
                ids = [f"d{one}" for one in draw.sample(range(10**6), 12)]
                contexts = [
                    change({"id": one, "text": f"{number} {one} {'word ' * 12}", "score": 10.5 - rank}, rank)
                    for rank, one in enumerate(ids[:10])
                ]
                qrels = {one: draw.choice((1, 2, 3)) for one in draw.sample(ids, 4)}
                sample = {"id": f"q{number}", "query": f"what is known about subject {number}"}
                lines.write(json.dumps({**sample, "contexts": contexts, "qrels": qrels}) + "\n")

    return write


def _aliased(folder: Path, count: int) -> None:
    _shape(lambda context, _: context)(folder, count)
    file = folder / "data.jsonl"
    names = {"query": "user_input", "contexts": "retrieved_contexts", "qrels": "document_ids"}
    lines = file.read_text("utf-8").splitlines()
    rows = ({names.get(key, key): value for key, value in json.loads(line).items()} for line in lines)
    file.write_text("".join(json.dumps(one) + "\n" for one in rows), "utf-8")


def _gold(folder: Path, count: int) -> None:
    write_gold(folder / "data.jsonl", count)


def _labelled(folder: Path, count: int) -> None:
    write_labelled(folder / "data.jsonl", count)


def _ledger(folder: Path, count: int) -> None:
    prepare(folder, "context_precision@10", [count])
    (folder / f"{count}.jsonl").rename(folder / "data.jsonl")


def _two_files(folder: Path, count: int, *, labelled: bool = True) -> None:
    _labelled(folder, count)
    rows = [json.loads(line) for line in (folder / "data.jsonl").read_text("utf-8").splitlines()]
    draw = random.Random(5)
    for name in ("data.jsonl", "other.jsonl"):
        for one in rows:
            for context in () if labelled else one["contexts"]:
                context.pop("grade", None)
            if name == "other.jsonl":
                draw.shuffle(one["contexts"])
        (folder / name).write_text("".join(json.dumps(one) + "\n" for one in rows), "utf-8")


def _unlabelled(folder: Path, count: int) -> None:
    _two_files(folder, count, labelled=False)


PLAIN = ("run", "data.jsonl", "-m", GOLD, "-q", "-o", "report")
JUDGED = ("-m", "context_precision context_relevancy(unit=context)", "--judge", "lexical", "-q", "--no-cache")
WORKS = (
    Work("start: run of one gold sample", 1, _gold, PLAIN),
    Work("gold, 10 passages, plain", 20_000, _shape(lambda one, _: one), PLAIN),
    Work("gold, whole-number scores", 20_000, _shape(lambda one, rank: {**one, "score": 10 - rank}), PLAIN),
    Work("gold, metadata", 20_000, _shape(lambda one, rank: {**one, "metadata": {"page": rank}}), PLAIN),
    Work("gold, unlike keys", 20_000, _shape(lambda one, rank: one if rank % 2 else {**one, "source": "a"}), PLAIN),
    Work("gold, other tools' names", 20_000, _aliased, PLAIN),
    Work("labels, 2 measures", 10_000, _labelled, ("run", "data.jsonl", "-m", LABELS, "--judge", "labels", "-q", "-o", "report")),
    Work("run, gold by id", 1_000_000, _gold, PLAIN),
    Work("score, gold by id", 1_000_000, _gold, ("score", "report", "-m", GOLD), (PLAIN,)),
    Work(
        "replay of stored verdicts, 10 per sample",
        100_000,
        _ledger,
        ("run", "data.jsonl", "-m", "context_precision@10", "--judge", JUDGE, "--base-url", NOWHERE, "--replay", "ledger.sqlite", "-q", "-o", "report"),
    ),
    *(
        Work(
            f"compare of two judged reports{also}",
            10_000,
            files,
            ("compare", "one", "two"),
            (("run", "data.jsonl", *JUDGED, "-o", "one"), ("run", "other.jsonl", *JUDGED, "-o", "two")),
        )
        for also, files in (("", _unlabelled), (", people labelled all", _two_files))
    ),
)  # fmt: skip


_NOT_THEIRS = {"PYTHONPATH", "PYTHONDONTWRITEBYTECODE"}
"""What would give both programs the same sources, or have each process compile its own anew."""


_ALONE = """
import os, subprocess, sys
process = subprocess.Popen(sys.argv[1:], stdout=subprocess.DEVNULL)
_, status, used = os.wait4(process.pid, 0)
process.returncode = os.waitstatus_to_exitcode(status)
print(process.returncode, used.ru_utime + used.ru_stime, used.ru_maxrss)
"""
"""A small process that starts the command: a child counts what its parent held when it was started into its own peak."""


def _spent(python: str, command: Sequence[str], folder: Path) -> tuple[float, float]:
    """CPU seconds and peak megabytes of one command; exit codes 1 and 3 are results too."""
    ran = subprocess.run(
        [sys.executable, "-I", "-S", "-c", _ALONE, python, "-m", "germane", *command],
        cwd=folder,
        env={**{k: v for k, v in os.environ.items() if k not in _NOT_THEIRS}, "OPENAI_API_KEY": "none"},
        capture_output=True,
        text=True,
        check=True,
    )
    code, cpu, peak = ran.stdout.split()
    if int(code) not in {0, 1, 3}:
        raise SystemExit(f"{command[0]}: exit {code}: {ran.stderr[-500:]}")
    return float(cpu), int(peak) / (1 << 20 if sys.platform == "darwin" else 1 << 10)


def _measured(work: Work, python: str, scratch: Path, source: Path) -> tuple[float, float]:
    with tempfile.TemporaryDirectory(dir=scratch) as name:
        folder = Path(name)
        for file in source.iterdir():
            target = folder / file.name
            if file.suffix == ".sqlite":
                target.write_bytes(file.read_bytes())  # each program may upgrade its own
            else:
                target.symlink_to(file)
        for command in work.before:
            _spent(python, command, folder)
        return _spent(python, work.command, folder)


def _lines(beside: str, only: Sequence[str], scale: float, rounds: int) -> Iterator[tuple[object, ...]]:
    for work in WORKS:
        if only and not any(word in work.name for word in only):
            continue
        count = max(1, int(work.samples * scale)) if work.samples > 1 else 1
        with tempfile.TemporaryDirectory() as name:
            scratch = Path(name)
            (scratch / "input").mkdir()
            work.prepare(scratch / "input", count)
            turns = rounds if count < 100_000 else 1
            both = [[_measured(work, python, scratch, scratch / "input") for python in (beside, sys.executable)] for _ in range(turns)]  # fmt: skip
        theirs, ours = ([median(one[side][figure] for one in both) for figure in (0, 1)] for side in (0, 1))
        title = f"{work.name} ({count:,})"
        yield title, theirs[0], ours[0], ours[0] / theirs[0], f"{theirs[1]:.0f}", f"{ours[1]:.0f}"


def main(*, quick: bool = False, peers: tuple[str, ...] = ()) -> None:
    del peers
    parser = argparse.ArgumentParser(prog="python -m benchmarks.versions")
    parser.add_argument("--beside", required=True, metavar="PYTHON")
    parser.add_argument("--only", action="append", default=[], metavar="WORDS")
    parser.add_argument("--scale", type=float, default=0.01 if quick else 1.0)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    head("this version beside another", "CPU seconds of the whole process, peak MB; medians")
    print(row(["", "other CPU", "CPU", "ratio", "other MB", "MB"], WIDTHS), flush=True)
    for cells in _lines(options.beside, options.only, options.scale, options.rounds):
        print(row(cells, WIDTHS), flush=True)


if __name__ == "__main__":
    main()
