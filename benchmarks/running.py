"""Runs a tool as a process against the server, and says what its whole process tree used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import cache
from pathlib import Path
from time import monotonic
from typing import Any

from benchmarks.server import ROOT, Server

BENCH = ROOT / ".bench"
TOOLS = ROOT / "benchmarks" / "tools"
PEERS = ("ragas", "deepeval", "autoevals", "ragelo")
SUITE = "context_precision context_position context_relevancy context_recall context_entity_recall nDCG(labels=judge)"
QUIET = {
    "DEEPEVAL_TELEMETRY_OPT_OUT": "YES",
    "DEEPEVAL_DISABLE_DOTENV": "1",
    "RAGAS_DO_NOT_TRACK": "true",
    "ANONYMIZED_TELEMETRY": "false",
    "DO_NOT_TRACK": "1",
    "LANGCHAIN_TRACING_V2": "false",
    "HF_HUB_OFFLINE": "1",
    "ERROR_REPORTING": "NO",
    "NO_COLOR": "1",
}
"""Telemetry off, wherever a tool has a switch for it."""


@dataclass(frozen=True, slots=True)
class Ran:
    """One run: what the process tree used, what the server saw, what the tool printed as JSON at its end."""

    wall: float
    cpu: float
    megabytes: float
    asked: Mapping[str, Any]
    printed: Mapping[str, Any] = field(default_factory=dict)
    failure: str = ""

    @property
    def requests(self) -> int:
        return int(self.asked["requests"])

    @property
    def tokens(self) -> float:
        """Bytes of all requests, by 4."""
        return float(self.asked["bytes"]) / 4


def run(
    server: Server,
    command: Sequence[str | Path],
    *,
    env: Mapping[str, str] | None = None,
    limit: float = 600,
    **settings: Any,
) -> Ran:
    """Run a command while the server behaves as `settings` say. CPU counts all descendants that it waited for."""
    server.begin(**settings)
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as log:
        started = monotonic()
        process = subprocess.Popen(
            [str(part) for part in command], cwd=ROOT, env=env or _ours(), stdout=out, stderr=log
        )
        timer = threading.Timer(limit, process.kill)
        timer.start()
        _, status, used = os.wait4(process.pid, 0)  # what this process and its children used, and nobody else
        timer.cancel()
        wall = monotonic() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        asked = server.told()
        out.seek(0)
        log.seek(0)
        lines = out.read().strip().splitlines() or [""]
        words = log.read().strip().splitlines() or [""]
    printed, failure = {}, ""
    try:
        printed = json.loads(lines[-1])
    except ValueError:
        killed = f"stopped after {limit:g} s; " if wall >= limit else ""
        failure = f"{killed}exit {process.returncode}: {words[-1][:200]}"
    return Ran(wall, used.ru_utime + used.ru_stime, used.ru_maxrss / 1024, asked, printed, failure)


def _ours() -> dict[str, str]:
    return {
        **os.environ,
        "OPENAI_API_KEY": "bench",
        "PYTHONPATH": os.environ.get("PYTHONPATH", str(ROOT / "src")),
    }


def _theirs(server: Server) -> dict[str, str]:
    """A peer's environment: nothing of ours, no telemetry, the server as OpenAI."""
    kept = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    return {**kept, **QUIET, "OPENAI_API_KEY": "peer", "OPENAI_BASE_URL": server.url}


def germane(
    server: Server,
    samples: Path,
    *options: str | Path,
    measures: str = SUITE,
    ledger: Path,
    jobs: int | None = 16,
    **settings: Any,
) -> Ran:
    """`germane run` as a user starts it: ledger and report included."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "germane", "run", samples, "-m", measures, "--judge", "openai:bench"]
        command += ["--base-url", server.url, "--ledger", ledger, "-o", Path(folder) / "report", "--json"]
        command += ["-j", str(jobs)] if jobs else []
        return run(server, [*command, *options], **settings)


def peer(server: Server, name: str, *options: str | Path, **settings: Any) -> Ran | None:
    """A peer's own suite in its own environment; None where it is not installed."""
    python = BENCH / name / "bin" / "python"
    if not (BENCH / name / "versions.txt").exists():
        return None
    command = [python, TOOLS / f"run_{name}.py", "--url", server.url, *options]
    return run(server, command, env=_theirs(server), **settings)


def write_samples(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")
    return path


@cache
def versions() -> dict[str, str]:
    """The version of everything that takes part; "not installed" where it does not."""
    import germane as ours

    found = {"germane": ours.__version__, "python": sys.version.split()[0]}
    for name in ("openai", *PEERS):
        file = BENCH / name / "versions.txt"
        rows = (
            dict(line.split("==") for line in file.read_text().splitlines() if "==" in line)
            if file.exists()
            else {}
        )
        found[name] = rows.get(name, "not installed (sh benchmarks/peers.sh)")
        if name == "openai":
            found["httpx2"] = rows.get("httpx2", "not installed")
    return found


def head(title: str, *more: str) -> None:
    print(f"\n== {title}")
    stamp = datetime.now().astimezone().strftime("%Y-%m-%d %H:%M")
    print(f"{stamp}; {os.cpu_count()} cores; " + ", ".join(f"{k} {v}" for k, v in versions().items()))
    for line in more:
        print(line)
    print(flush=True)


def table(columns: str, widths: Sequence[int]) -> None:
    print(row(columns.split("|"), widths), flush=True)


def row(cells: Iterable[object], widths: Sequence[int]) -> str:
    """The first cell to the left, numbers to the right."""
    first, *others = [f"{cell:,.2f}" if isinstance(cell, float) else str(cell) for cell in cells]
    return first.ljust(widths[0]) + "".join(
        cell.rjust(width) for cell, width in zip(others, widths[1:], strict=True)
    )


def bare(
    server: Server, client: str, bodies: Path, *, count: int = 0, jobs: int = 16, **settings: Any
) -> Ran | None:
    """A hand-written loop over recorded requests; None where its environment is not there."""
    python = BENCH / "openai" / "bin" / "python"
    if not python.exists():
        return None
    command = [python, TOOLS / "run_bare.py", client, "--url", server.url, "--bodies", bodies]
    command += ["--jobs", str(jobs), "--count", str(count)]
    return run(server, command, env=_theirs(server), **settings)
