"""Runs a command of germane within the test's own process: many commands in little time."""

from __future__ import annotations

import io
import json
import sys
import tempfile
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any
from unittest import mock

import pytest

from germane.cli import main


@dataclass(frozen=True)
class Ran:
    """What a command came to: its exit code, and what it wrote to stdout and stderr."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out)
        return found


def invoke(*words: object, stdin: str = "") -> Ran:
    """`invoke("run", ...)` as `germane run ...` would."""
    out, err = io.TextIOWrapper(io.BytesIO(), "utf-8"), io.TextIOWrapper(io.BytesIO(), "utf-8")
    with tempfile.TemporaryFile("w+", encoding="utf-8") as given:  # samples are read from its descriptor
        given.write(stdin)
        given.seek(0)
        with (
            redirect_stdout(out),
            redirect_stderr(err),
            mock.patch.multiple(sys, argv=["germane", *map(str, words)], stdin=given),
            pytest.raises(SystemExit) as ended,
        ):
            main()
    return Ran(int(ended.value.code or 0), *(_written(stream) for stream in (out, err)))


def _written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    assert isinstance(stream.buffer, io.BytesIO)
    return stream.buffer.getvalue().decode()
