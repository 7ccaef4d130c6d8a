"""Parts that an engine runs at once: killed workers and drivers lose nothing, and nothing is paid twice."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import re
import signal
import time
from collections import Counter
from pathlib import Path
from zlib import crc32

import pytest

from germane.addons.cluster.merging import Share
from germane.addons.cluster.running import executor_of, parse_engine
from germane.errors import InputError
from germane.ledger.sqlite import SQLiteLedger
from tests.cli.conftest import Cli, started, wait_for, write_jsonl
from tests.server import Act, ModelServer
from tests.server.asked import Asked

CONTEXTS, JOBS = 5, 4
KEY = {"OPENAI_API_KEY": "test"}


def missing(name: str) -> str:
    """Why tests of an engine cannot run here; "" where they can. CI installs its library, and fails where it is missing."""
    return "" if importlib.util.find_spec(name) else f"{name} is not installed: make engines"


ENGINES = [
    "processes:2",
    pytest.param(
        "dask", marks=pytest.mark.skipif(bool(missing("distributed")), reason=missing("distributed"))
    ),
]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Samples of which some ask the same questions."""
    rows = [
        {
            "id": f"q{n}",
            "query": f"what is thing {n % 20}",
            "contexts": [{"text": f"thing {n % 20} is in passage {k}"} for k in range(CONTEXTS)],
            "qrels": {f"d{n}": 1},
        }
        for n in range(24)
    ]
    return write_jsonl(tmp_path / "data.jsonl", *rows)


QUESTIONS = 20 * CONTEXTS


def words(server: ModelServer, name: str, *more: str) -> list[str]:
    asked = ["-m", "context_precision@5", "--judge", "openai:test", "--base-url", server.url]
    ledger = [] if "--ledger" in more else ["--ledger", f"{name}.sqlite"]
    return ["run", "data.jsonl", *asked, "-o", name, *ledger, "-j", str(JOBS), *more]


class Asks:
    """Counts how often each question was asked."""

    def __init__(self) -> None:
        self.times = Counter[int]()

    def __call__(self, request: Asked) -> None:
        self.times[crc32(re.sub(rb"-[a-z2-7]{4}>", b">", request.raw))] += (
            1  # without the code of its process
        )

    @property
    def extra(self) -> int:
        return sum(self.times.values()) - len(self.times)


def workers_of(driver: int) -> list[int]:
    """The processes that do a driver's parts."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError, IndexError, ValueError):
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == driver and b"spawn_main" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
    return sorted(found)


def committed(path: Path) -> int:
    with SQLiteLedger(path) as ledger:
        return len(ledger)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_engine_gives_the_same_bytes(inside: Cli, data: Path, tmp_path: Path, engine: str) -> None:
    """Equal questions are paid once, and scores are those of one process; the workers read their own key."""
    with ModelServer() as server:
        assert inside(*words(server, "whole"), env=KEY).code == 0
        assert server.count == QUESTIONS
        ran = inside(*words(server, "parts", "--engine", engine, "-o", "r.md"), env=KEY)
        assert ran.code == 0, ran.err
        assert server.count == 2 * QUESTIONS
    for name in ("scores", "samples", "places"):
        both = [(tmp_path / folder / f"{name}.jsonl").read_bytes() for folder in ("whole", "parts")]
        assert both[0] == both[1]
    assert (tmp_path / "r.md").exists()
    assert not (tmp_path / "parts" / "parts").exists()


def test_a_killed_worker_costs_what_was_in_flight(inside: Cli, data: Path, tmp_path: Path) -> None:
    """One of two workers is killed half way: exit code 2 and the command that continues; nothing is lost, little is asked twice."""
    asks = Asks()
    with ModelServer(asks, latency=0.05) as server:
        with started(words(server, "killed", "--engine", "processes:2"), tmp_path) as driver:
            wait_for(server, QUESTIONS // 2)
            os.kill(workers_of(driver.pid)[0], signal.SIGKILL)
            _, err = driver.communicate(timeout=120)
        assert driver.returncode == 2, err
        assert b"a worker ended before its part did" in err
        assert b"germane run --resume killed" in err
        ran = inside("run", "--resume", "killed", "--base-url", server.url, "--json", env=KEY)
        assert ran.code == 0, ran.err
        assert QUESTIONS <= ran.json["judge"]["calls"] <= server.count
        assert committed(tmp_path / "killed.sqlite") == QUESTIONS == len(asks.times)
        assert asks.extra <= 2 * JOBS
        assert inside(*words(server, "calm", "--ledger", "killed.sqlite"), env=KEY).code == 0
        assert len(asks.times) + asks.extra == server.count
    both = [(tmp_path / name / "scores.jsonl").read_bytes() for name in ("killed", "calm")]
    assert both[0] == both[1]


@pytest.mark.skipif(bool(missing("distributed")), reason=missing("distributed"))
def test_dask_goes_on_without_a_killed_worker(inside: Cli, data: Path, tmp_path: Path) -> None:
    """A worker of a Dask cluster is killed half way: Dask gives its part to another one, which continues it."""
    from distributed import LocalCluster

    asks = Asks()
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None) as cluster,
        ModelServer(asks, latency=0.05) as server,
        started(words(server, "killed", "--engine", f"dask:{cluster.scheduler_address}"), tmp_path) as driver,
    ):
        wait_for(server, QUESTIONS // 2)
        os.kill(cluster.workers[0].pid, signal.SIGKILL)
        _, err = driver.communicate(timeout=120)
        assert driver.returncode == 0, err
    assert committed(tmp_path / "killed.sqlite") == QUESTIONS == len(asks.times)
    assert asks.extra <= JOBS


def test_a_killed_driver_is_continued(inside: Cli, data: Path, tmp_path: Path) -> None:
    """The driver is killed: its workers end too, and `--resume` asks only what was in flight once more."""
    asks = Asks()
    with ModelServer(asks, latency=0.05) as server:
        with started(words(server, "killed", "--engine", "processes:2"), tmp_path) as driver:
            wait_for(server, QUESTIONS // 2)
            driver.send_signal(signal.SIGKILL)
            driver.wait()
        ran = inside("run", "--resume", "killed", "--base-url", server.url, "--json", env=KEY)
        assert ran.code == 0, ran.err
        assert committed(tmp_path / "killed.sqlite") == QUESTIONS == len(asks.times)
        assert asks.extra <= 2 * JOBS
        assert QUESTIONS <= ran.json["judge"]["calls"] <= server.count
        assert inside(*words(server, "calm", "--ledger", "killed.sqlite"), env=KEY).code == 0
        assert len(asks.times) + asks.extra == server.count
    both = [(tmp_path / name / "scores.jsonl").read_bytes() for name in ("killed", "calm")]
    assert both[0] == both[1]


def test_ctrl_c_stops_all_workers(inside: Cli, data: Path, tmp_path: Path) -> None:
    """SIGINT: exit 130, and the printed command continues the whole; at most what was in flight is asked again."""
    with ModelServer(latency=0.1) as server:
        with started(words(server, "stopped", "--engine", "processes:2"), tmp_path) as driver:
            wait_for(server, 20)
            driver.send_signal(signal.SIGINT)
            _, err = driver.communicate(timeout=60)
        assert driver.returncode == 130, err
        assert b"germane run --resume stopped" in err
        ran = inside("run", "--resume", "stopped", "--base-url", server.url, "--json", env=KEY)
        assert ran.code == 0, ran.err
        assert QUESTIONS <= server.count <= QUESTIONS + 2 * JOBS


def test_what_an_engine_refuses(inside: Cli, data: Path) -> None:
    """What cannot be run by several workers is said before anything is asked."""
    base = ("run", "data.jsonl", "-m", "nDCG@10")
    for more, problem in (
        (("--engine", "spark"), "is not an engine"),
        (("--engine", "processes:0"), "is not an engine"),
        (("--engine", "processes:2", "--part", "1/2"), "cannot be combined"),
    ):
        ran = inside(*base, *more)
        assert ran.code == 2
        assert problem in ran.err
    assert "from stdin" in inside("run", "-", "-m", "RR", "--engine", "processes:2", stdin="{}").err


def test_engines_by_name() -> None:
    """An engine is a kind, an address or a number of processes."""
    assert parse_engine("processes:8") == ("processes", "8")
    assert parse_engine("dask") == ("dask", "")
    assert parse_engine("dask:tcp://h:8786") == ("dask", "tcp://h:8786")
    for text in ("ray", "processes:-1", ""):
        with pytest.raises(InputError):
            parse_engine(text)


@pytest.mark.skipif(bool(missing("distributed")), reason=missing("distributed"))
def test_a_cluster_that_is_not_there_is_named_soon() -> None:
    """Within Dask's half minute."""
    begun = time.monotonic()
    with (
        pytest.raises(InputError, match=r"no Dask scheduler answers at .*127.0.0.1:1"),
        executor_of("dask:tcp://127.0.0.1:1"),
    ):
        pass
    assert time.monotonic() - begun < 60


@pytest.mark.parametrize(
    ("flags", "code"), [((), 0), (("--max-unmeasured", "0.05"), 3), (("--seed", "0"), 0)]
)
def test_a_flag_at_its_default_holds_for_finished_parts(
    inside: Cli, tmp_path: Path, flags: tuple[str, ...], code: int
) -> None:
    """A part that was finished with another option is scored again from what is known; nothing is asked twice."""
    rows = [
        {"id": f"q{n}", "query": f"q {n};", "contexts": [{"id": "d", "text": f"t{n}"}]} for n in range(12)
    ]
    failed = [{**row, "error": "failed"} if n in {1, 2} else row for n, row in enumerate(rows)]
    write_jsonl(tmp_path / "data.jsonl", *failed)
    second = [row["query"] for row in rows if Share(2, 2).has(str(row["query"]))]
    broken = [str(query).encode() for query in second]
    with ModelServer(
        lambda asked: Act(status=401) if any(q in asked.content for q in broken) else None
    ) as server:
        options = ("--engine", "processes:2", "--max-unmeasured", "0.9", "--seed", "7")
        assert inside(*words(server, "r", *options), env=KEY).code == 2
        (first, other) = (tmp_path / "r/parts" / f"{n}-of-2" / "manifest.json" for n in (1, 2))
        assert ('"complete"' in first.read_text(), '"complete"' in other.read_text()) == (True, False)
        broken.clear()
        before = server.count
        ran = inside("run", "--resume", "r", "--base-url", server.url, *flags, env=KEY)
        assert (ran.code, server.count - before) == (
            code,
            len([q for q in second if q not in {"q 1;", "q 2;"}]),
        ), ran.err


@pytest.mark.parametrize(
    ("limit", "spent"),
    [(("--max-calls", "7"), r"\d calls were made"), (("--max-cost", "0.002"), r"\$0\.\d+ was spent")],
)
def test_a_limit_is_named_as_it_was_written(
    inside: Cli, data: Path, limit: tuple[str, str], spent: str
) -> None:
    """Not the portion of one process, which nobody wrote."""
    with ModelServer() as server:
        more = ("--engine", "processes:2", "--price", "1/1", *limit)
        ran = inside(*words(server, "r", *more), env=KEY)
    assert ran.code == 3
    assert re.search(rf"stopped at {' '.join(limit)} \(for all parts\): {spent}", ran.err), ran.err
