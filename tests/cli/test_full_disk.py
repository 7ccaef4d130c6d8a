"""A disk that is full stops a run, and nothing that has arrived is lost."""

import os
import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from germane import evaluate
from germane.errors import LedgerError
from germane.judges import LLMJudge
from germane.judging.ledger import SQLiteLedger
from germane.testing import ModelServer
from tests.cli.conftest import Ran, write_jsonl

KEY = {"OPENAI_API_KEY": "test"}
COUNT = 500
ROWS = [
    {"id": f"q{n}", "query": f"what is {n}", "contexts": [{"text": f"thing {n} is {k}"} for k in range(5)]}
    for n in range(COUNT // 5)
]

Run = Callable[..., Ran]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_jsonl(tmp_path / "data.jsonl", *ROWS)


@pytest.fixture
def run(tmp_path: Path) -> Run:
    """`run(...)` is `germane run ...`; with `largest` no file may grow beyond so many bytes."""

    def run(*words: object, largest: int = 0) -> Ran:
        def limited() -> None:
            if largest:
                resource.setrlimit(
                    resource.RLIMIT_FSIZE, (largest, resource.getrlimit(resource.RLIMIT_FSIZE)[1])
                )

        done = subprocess.run(
            [sys.executable, "-m", "germane", "run", *map(str, words)],
            capture_output=True,
            text=True,
            cwd=tmp_path,
            env={**os.environ, **KEY},
            preexec_fn=limited,
            timeout=120,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return run


def words(server: ModelServer) -> list[str]:
    asked = ["-m", "context_precision@5", "--judge", "openai:test", "--base-url", server.url]
    return ["data.jsonl", *asked, "--ledger", "disk/l.sqlite", "-j", "8", "--json"]


def kept(ledger: Path) -> int:
    with SQLiteLedger(ledger, reading=True) as found:
        return len(found)


def test_a_full_disk_loses_nothing(run: Run, data: Path, tmp_path: Path) -> None:
    """The ledger takes no more: what arrives lies in the report folder, a resume asks nothing, until there is room."""
    with ModelServer(latency=0.02) as server:
        ran = run(*words(server), "-o", "r", largest=300_000)
        assert ran.code == 2
        assert "disk/l.sqlite cannot be used" in ran.err
        assert "in r until it is continued; continue with: germane run --resume r" in ran.err
        stopped, committed = server.count, kept(tmp_path / "disk" / "l.sqlite")
        left = (tmp_path / "r" / "judgements.jsonl.unsaved").read_text().strip().splitlines()
        assert 0 < committed < committed + len(left) == stopped < COUNT
        resume = ("--resume", "r", "--base-url", server.url, "--json")
        for _ in range(2):
            ran = run(*resume, largest=40_000)
            assert (ran.code, server.count) == (2, stopped)
            assert f"nothing was asked; {len(left)} answers wait in r" in ran.err
        ahead = run(*resume, "--dry-run").json
        assert ahead["requests"] == COUNT - stopped
        ran = run(*resume)
        assert (ran.code, server.count) == (0, COUNT), ran.err
        assert ran.json["judge"]["calls"] == COUNT
    assert kept(tmp_path / "disk" / "l.sqlite") == COUNT
    assert not list((tmp_path / "r").glob("*.unsaved"))
    assert len((tmp_path / "r" / "judgements.jsonl").read_text().splitlines()) == COUNT


def test_nothing_is_asked_where_nothing_could_be_kept(run: Run, data: Path, tmp_path: Path) -> None:
    """A full disk from the start: a small write is tried before the first request. What is known needs none."""
    with ModelServer() as server:
        assert run(*words(server), "-o", "r", "--limit", 2).code == 0
        asked = server.count
        full = (tmp_path / "disk" / "l.sqlite").stat().st_size
        ran = run(*words(server), "-o", "s", largest=4096)
        assert (ran.code, server.count) == (2, asked)
        assert "disk/l.sqlite cannot be used" in ran.err
        assert full == (tmp_path / "disk" / "l.sqlite").stat().st_size


def test_what_lies_in_a_folder_is_used_by_whoever_runs_there_next(
    run: Run, data: Path, tmp_path: Path
) -> None:
    """Not resumed but begun anew: the answers were paid for all the same. Who wants no ledger is to go elsewhere."""
    with ModelServer(latency=0.02) as server:
        assert run(*words(server), "-o", "r", largest=300_000).code == 2
        assert run(*words(server), "-o", "r").code == 0
        assert server.count == COUNT
        assert run(*words(server), "-o", "s", "--ledger", "t.sqlite", largest=300_000).code == 2
        before = server.count
        refused = run(*words(server), "-o", "s", "--no-cache")
        assert (refused.code, server.count) == (2, before)
        assert "--resume s" in refused.err


def test_a_full_disk_in_python(tmp_path: Path) -> None:
    """evaluate() has no folder: it raises LedgerError, and asks nothing where it can know."""
    with ModelServer() as server, SQLiteLedger(tmp_path / "l.sqlite") as ledger:
        judge = LLMJudge("openai:test", base_url=server.url, api_key="x")
        ledger.db.execute("PRAGMA max_page_count=12")
        with pytest.raises(LedgerError, match=r"l\.sqlite cannot be used: database or disk is full"):
            evaluate(ROWS, "context_precision@5", judge=judge, ledger=ledger)
        assert 0 < len(ledger) < server.count < COUNT


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A disk of one megabyte, where this machine lets us make one; else a folder."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)]
    mounted = os.geteuid() == 0 and subprocess.run(mount, capture_output=True, check=False).returncode == 0
    yield folder
    if mounted:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_one_disk_for_everything(run: Run, data: Path, disk: Path) -> None:
    """Ledger and report folder on one disk: room was held back there for what is in flight when it is full."""
    resume = ("--resume", "disk/r", "--json", "--base-url")
    with ModelServer(latency=0.02) as server:
        (disk / "filler").write_bytes(b"x" * 300_000)
        ran = run(*words(server), "-o", "disk/r")
        if disk.is_mount():
            stopped = server.count
            assert (ran.code, 0 < stopped < COUNT) == (2, True)
            assert "answers of it in disk/r" in ran.err
            with suppress(OSError), (disk / "more").open("wb", buffering=0) as file:
                while file.write(b"x" * 4096):
                    pass
            ran = run(*resume, server.url)
            assert (ran.code, server.count) == (2, stopped)
            assert "free some space" in ran.err
            (disk / "more").unlink()
            subprocess.run(["mount", "-o", "remount,size=20m", str(disk)], check=True)
        ran = run(*resume, server.url)
        assert (ran.code, server.count) == (0, COUNT), ran.err
        assert ran.json["judge"]["calls"] == COUNT
    assert sorted(file.name for file in (disk / "r").iterdir()) == [
        "items.jsonl",
        "judgements.jsonl",
        "labels.jsonl",
        "manifest.json",
        "receipts.jsonl",
        "samples.jsonl",
        "scores.jsonl",
    ]
