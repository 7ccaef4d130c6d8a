"""Runs the command line as a user does: another process, in a folder of its own."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from germane.cli import main


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out)
        return found


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
        out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
        with monkeypatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
            patch.chdir(cwd or tmp_path)
            for name, value in (env or {}).items():
                patch.setenv(name, value)
            patch.setattr(sys, "argv", ["germane", *map(str, words)])
            patch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin.encode()), "utf-8"))
            with pytest.raises(SystemExit) as ended:
                main()
        return Ran(int(ended.value.code or 0), *(_written(stream) for stream in (out, err)))

    return run


def _written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().decode()


def write_jsonl(path: Path, *rows: Mapping[str, object]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path
