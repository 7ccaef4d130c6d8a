"""A disk that is full stops a run, and only what is in flight is lost."""

import json
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
from germane.ledger.sqlite import SQLiteLedger
from tests.cli.conftest import write_jsonl
from tests.command import Ran
from tests.server import ModelServer

KEY = {"OPENAI_API_KEY": "test"}
COUNT = 500
IN_FLIGHT = 8
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
    return ["data.jsonl", *asked, "--ledger", "disk/l.sqlite", "-j", str(IN_FLIGHT), "--json"]


def kept(ledger: Path) -> int:
    with SQLiteLedger(ledger, read_only=True) as found:
        return len(found)


def test_a_full_disk_costs_no_more_than_what_is_in_flight(run: Run, data: Path, tmp_path: Path) -> None:
    """The run stops at the first answer that cannot be stored; of those, the folder keeps what it has room for."""
    with ModelServer(latency=0.02) as server:
        ran = run(*words(server), "-o", "r", largest=300_000)
        assert ran.code == 2
        assert "disk/l.sqlite cannot be used" in ran.err
        assert "continue with: germane run --resume r" in ran.err
        stopped, committed = server.count, kept(tmp_path / "disk" / "l.sqlite")
        assert 0 < committed < stopped < COUNT
        assert stopped - committed <= IN_FLIGHT
        resume = ("--resume", "r", "--base-url", server.url, "--json")
        for _ in range(2):
            ran = run(*resume, largest=40_000)
            assert ran.code == 2
            more, stopped, before = server.count - stopped, server.count, committed
            committed = kept(tmp_path / "disk" / "l.sqlite")
            assert more - (committed - before) <= IN_FLIGHT
        missing = run(*resume, "--dry-run").json["requests"]
        assert missing < COUNT - committed
        ran = run(*resume)
        assert (ran.code, server.count - stopped) == (0, missing), ran.err
        assert ran.json["judge"]["calls"] == server.count
    assert kept(tmp_path / "disk" / "l.sqlite") == committed + missing
    assert len((tmp_path / "r" / "judgements.jsonl").read_text().splitlines()) == COUNT


def test_a_full_disk_under_the_report_alone(run: Run, tmp_path: Path) -> None:
    """The error names the folder and the command, also if closing its files fails."""
    contexts = [{"id": "d", "text": "x" * 103_000}]
    write_jsonl(tmp_path / "data.jsonl", {"query": "q", "contexts": contexts, "qrels": {"d": 1}})
    ran = run("data.jsonl", "-m", "RR", "-o", "r", largest=100_000)
    assert ran.code == 2
    assert "the report folder r cannot be written: [Errno 27] File too large" in ran.err
    assert "continue with: germane run --resume r" in ran.err


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
    """Ledger and report folder on one disk: what was stored before it was full is kept."""
    resume = ("--resume", "disk/r", "--json", "--base-url")
    with ModelServer(latency=0.02) as server:
        (disk / "filler").write_bytes(b"x" * 300_000)
        ran = run(*words(server), "-o", "disk/r")
        if disk.is_mount():
            stopped = server.count
            assert (ran.code, 0 < stopped < COUNT) == (2, True)
            committed = kept(disk / "l.sqlite")
            assert stopped - committed <= IN_FLIGHT
            with suppress(OSError), (disk / "more").open("wb", buffering=0) as file:
                while file.write(b"x" * 4096):
                    pass
            ran = run(*resume, server.url)
            assert (ran.code, server.count) == (2, stopped)
            assert "space" in ran.err
            (disk / "more").unlink()
            subprocess.run(["mount", "-o", "remount,size=20m", str(disk)], check=True)
        ran = run(*resume, server.url)
        assert ran.code == 0, ran.err
        assert server.count <= COUNT + IN_FLIGHT
        assert COUNT - IN_FLIGHT <= kept(disk / "l.sqlite") <= COUNT
    assert sorted(file.name for file in (disk / "r").iterdir()) == [
        "judgements.jsonl",
        "labels.jsonl",
        "manifest.json",
        "places.jsonl",
        "samples.jsonl",
        "scores.jsonl",
    ]


@pytest.mark.parametrize("ending", ["html", "json", "md", "csv", "txt", "xml", "svg"])
def test_an_output_is_whole_or_as_it_was(tmp_path: Path, ending: str) -> None:
    """Of a report that finds no room the old file stays, mode and all, and the message names it."""
    write_jsonl(tmp_path / "s.jsonl", {"query": "q", "qrels": {"d": 1}, "retrieved_context_ids": ["e", "d"]})
    command = f"{sys.executable} -m germane"
    file = tmp_path / f"x.{ending}"
    file.write_text("OLD")
    file.chmod(0o640)
    (tmp_path / f"link.{ending}").symlink_to(file.name)
    words = f"{command} run s.jsonl -m RR -o R && (ulimit -f 0; {command} report R -o link.{ending})"
    done = subprocess.run(["sh", "-c", words], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert done.returncode == 2
    assert f"link.{ending}: File too large" in done.stderr
    assert file.read_text() == "OLD"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["R", f"link.{ending}", "s.jsonl", file.name]
    words = f"{command} report R -o link.{ending}"
    assert subprocess.run(["sh", "-c", words], capture_output=True, cwd=tmp_path, check=False).returncode == 0
    assert (tmp_path / f"link.{ending}").is_symlink()
    assert file.stat().st_mode & 0o777 == 0o640
    assert file.stat().st_size > 100


def test_a_pipe_is_written_in_place(tmp_path: Path) -> None:
    write_jsonl(tmp_path / "s.jsonl", {"query": "q", "qrels": {"d": 1}, "retrieved_context_ids": ["d"]})
    os.mkfifo(tmp_path / "p.json")
    words = f"cat p.json & {sys.executable} -m germane run s.jsonl -m RR -o p.json > /dev/null; wait"
    done = subprocess.run(["sh", "-c", words], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert json.loads(done.stdout)["schema_version"]
    assert (tmp_path / "p.json").is_fifo()
