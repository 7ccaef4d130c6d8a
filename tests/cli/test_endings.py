"""How the command line ends when something is the matter with its streams, and where it says what went wrong."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from germane.ledger.store import SQLiteLedger
from germane.types import Judgement
from tests.cli.conftest import Cli, write_jsonl

READER_LEFT = 141


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    """One whose export is more than a pipe takes."""
    path = tmp_path / "l.sqlite"
    with SQLiteLedger(path) as made:
        made.put(
            [
                Judgement(
                    key=f"{n:032x}", kind="relevance", judge="a", answer={"grade": 1, "reasoning": "x" * 500}
                )
                for n in range(400)
            ]
        )
    return path


def unread(folder: Path, *words: object) -> tuple[int, str]:
    """Exit code and stderr where the reader of stdout is gone already."""
    reader, writer = os.pipe()
    os.close(reader)
    try:
        done = subprocess.run(
            [sys.executable, "-m", "germane", *map(str, words)],
            cwd=folder,
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    finally:
        os.close(writer)
    return done.returncode, done.stderr


def test_a_reader_who_leaves_is_no_gate_that_failed(ledger: Path, tmp_path: Path) -> None:
    """Whether the output is long or short, data or help: 128 + SIGPIPE as in a shell, and nothing on stderr."""
    for words in (["ledger", "export"], ["ledger", "stats"], ["ledger", "stats", "--json"]):
        assert unread(tmp_path, *words, "--ledger", ledger) == (READER_LEFT, "")
    assert unread(tmp_path, "--help") == (READER_LEFT, "")
    assert unread(tmp_path, "run", "--help") == (READER_LEFT, "")


def test_a_complete_run_that_nobody_reads(tmp_path: Path) -> None:
    """The report is whole; 1 is left to a gate that failed."""
    data = write_jsonl(tmp_path / "data.jsonl", {"query": "a thing", "contexts": ["a thing"]})
    words = ("run", data, "-m", "context_precision@1", "--judge", "lexical", "-o", "r")
    code, err = unread(tmp_path, *words)
    assert code == READER_LEFT
    assert "Traceback" not in err
    assert (tmp_path / "r" / "scores.jsonl").stat().st_size


def test_an_error_keeps_its_code_where_nobody_reads(tmp_path: Path) -> None:
    """It is said on stderr."""
    code, err = unread(tmp_path, "ledger", "stats", "--ledger", "none.sqlite")
    assert code == 2
    assert err == "germane: there is no ledger none.sqlite\n"


@pytest.mark.parametrize(("to", "said"), [(">&-", "stdout"), (">/dev/full", "No space left")])
def test_an_export_that_cannot_be_written(ledger: Path, to: str, said: str) -> None:
    """One message and exit 2."""
    words = f'"{sys.executable}" -m germane ledger export --ledger "{ledger}" {to}'
    done = subprocess.run(["sh", "-c", words], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("germane: ")
    assert said in done.stderr
    assert "internal error" not in done.stderr
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize("words", [["--debug", "ledger", "stats"], ["ledger", "stats", "--debug"]])
def test_debug_shows_where_wherever_it_stands(cli: Cli, words: list[str]) -> None:
    """Before the verb and after it: the traceback, then the message; the exit code is the same."""
    ran = cli(*words, "--ledger", "none.sqlite")
    assert ran.code == 2
    assert "Traceback" in ran.err
    assert ran.err.endswith("germane: there is no ledger none.sqlite\n")


def test_without_debug_there_is_no_traceback(cli: Cli) -> None:
    """One line."""
    assert (
        cli("ledger", "stats", "--ledger", "none.sqlite").err == "germane: there is no ledger none.sqlite\n"
    )
