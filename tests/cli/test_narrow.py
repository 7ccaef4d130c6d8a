"""What a terminal of 40 columns shows: no line runs over."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from germane import evaluate
from tests.command import invoke

COLUMNS = 40
ROW = {
    "id": "q1",
    "query": "when is high tide at the long pier",
    "reference": "High tide is at noon, as the tables of the harbour office say.",
    "contexts": [{"id": "d1", "text": "High tide is at noon at the pier."}, {"id": "d2", "text": "Bread."}],
    "qrels": {"d1": 2, "d3": 1},
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("narrow")
    evaluate([ROW], "nDCG@10 context_precision@5", judge="lexical").save(path / "report")
    for name, ids in (("a.run", "d1 d2 d3"), ("b.run", "d3 d1 d4")):
        lines = [f"q1 Q0 {document} {rank} {9 - rank} x\n" for rank, document in enumerate(ids.split(), 1)]
        (path / name).write_text("".join(lines))
    assert (
        invoke("ledger", "import", path / "report/judgements.jsonl", "--ledger", path / "l.sqlite").code == 0
    )
    return path


@pytest.mark.parametrize(
    "words",
    [
        "explain report q1",
        "ledger stats --ledger l.sqlite",
        "rank --help",
        "stages report",
    ],
)
def test_no_line_is_wider_than_the_terminal(folder: Path, words: str) -> None:
    """Words are wrapped, and names of flags fit."""
    ours, theirs = os.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    environment = {name: value for name, value in os.environ.items() if name != "COLUMNS"}
    command = [sys.executable, "-m", "germane", *words.split()]
    with subprocess.Popen(command, stdout=theirs, stderr=theirs, cwd=folder, env=environment) as process:
        os.close(theirs)
        written = b""
        while data := _read(ours):
            written += data
    os.close(ours)
    assert process.returncode == 0, written.decode()
    lines = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]|\r", "", written.decode()).split("\n")
    assert len(lines) > 3
    assert [line for line in lines if len(line) > COLUMNS and " " in line.strip()] == []  # a path is one word


@pytest.mark.parametrize("columns", [200, 60])
def test_columns_is_the_width_of_a_pipe(folder: Path, monkeypatch: pytest.MonkeyPatch, columns: int) -> None:
    """A table that fits in COLUMNS is one, and no line is wider; there are 120 at least."""
    monkeypatch.setenv("COLUMNS", str(columns))
    lines = invoke("diagnose", folder / "report").out.splitlines()
    assert max(map(len, lines)) <= max(columns, 120)
    assert any(" change " in line and "drops" in line for line in lines) is (columns == 200)
    monkeypatch.setenv("COLUMNS", "0")
    lines = invoke("diagnose", folder / "report").out.splitlines()
    assert 60 < max(map(len, lines)) <= 120


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 1 << 16)
    except OSError:  # the other end is closed
        return b""
