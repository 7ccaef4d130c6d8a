"""Runs the command line as a user does: another process, in a folder of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from tests.command import Ran, invoke

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


def write_jsonl(path: Path, *rows: Mapping[str, object]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path
