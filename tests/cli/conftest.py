"""Runs the command line as a user does: another process, in a folder of its own."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from germane.ledger.sqlite import SQLiteLedger
from tests.command import Ran, invoke
from tests.server import ModelServer

Cli = Callable[..., Ran]


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    """`cli("run", ..., stdin=..., env=...)` in the test's own folder."""

    def run(
        *words: object, stdin: str = "", env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> Ran:
        done = subprocess.run(
            [sys.executable, "-m", "germane", *map(str, words)],
            input=stdin.encode(),
            capture_output=True,
            cwd=cwd or tmp_path,
            env={**os.environ, **(env or {})},
            timeout=120,
            check=False,
        )
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


@pytest.fixture
def inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cli:
    """Like `cli`, within this process: many commands in little time."""

    def run(
        *words: object, stdin: str = "", env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> Ran:
        with monkeypatch.context() as patch:
            patch.chdir(cwd or tmp_path)
            for name, value in (env or {}).items():
                patch.setenv(name, value)
            return invoke(*words, stdin=stdin)

    return run


@contextlib.contextmanager
def started(words: list[str], folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """A command that runs while the test goes on; killed in the end."""
    process = subprocess.Popen(
        [sys.executable, "-m", "germane", *words],
        cwd=folder,
        env={**os.environ, "OPENAI_API_KEY": "test"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def wait_for(server: ModelServer, count: int) -> None:
    """Until the server has had so many requests."""
    deadline = time.monotonic() + 300
    while server.count < count:
        assert time.monotonic() < deadline, "the run does not get on"
        time.sleep(0.01)


def committed(path: Path) -> int:
    """How many answers stand in a ledger."""
    ledger = SQLiteLedger(path)
    try:
        return len(ledger)
    finally:
        ledger.close()


def write_jsonl(path: Path, *rows: Mapping[str, object]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path
