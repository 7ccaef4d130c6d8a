"""How the command line ends when something is the matter with its streams, and where it says what went wrong."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from germane.ledger.sqlite import SQLiteLedger
from germane.types import Judgement
from tests.cli.conftest import Cli, started, write_jsonl

EXIT_SIGPIPE = 141
NO_LEDGER = (
    "germane: there is no ledger none.sqlite; `germane run` creates one, or name another: --ledger FILE\n"
)


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
        assert unread(tmp_path, *words, "--ledger", ledger) == (EXIT_SIGPIPE, "")
    assert unread(tmp_path, "--help") == (EXIT_SIGPIPE, "")
    assert unread(tmp_path, "run", "--help") == (EXIT_SIGPIPE, "")


def test_a_complete_run_that_nobody_reads(tmp_path: Path) -> None:
    """The report is whole; 1 is left to a gate that failed."""
    data = write_jsonl(tmp_path / "data.jsonl", {"query": "a thing", "contexts": ["a thing"]})
    words = ("run", data, "-m", "context_precision@1", "--judge", "lexical", "-o", "r")
    code, err = unread(tmp_path, *words)
    assert code == EXIT_SIGPIPE
    assert "Traceback" not in err
    assert (tmp_path / "r" / "scores.jsonl").stat().st_size


def test_an_error_keeps_its_code_where_nobody_reads(tmp_path: Path) -> None:
    """It is said on stderr."""
    code, err = unread(tmp_path, "ledger", "stats", "--ledger", "none.sqlite")
    assert code == 2
    assert err == NO_LEDGER


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


@pytest.mark.parametrize("words", ["measures RR", "run s.jsonl -m RR --dry-run", "validate s.jsonl"])
def test_a_command_whose_stdout_is_closed_ends_as_usual(tmp_path: Path, words: str) -> None:
    """Nobody reads what it prints, so there is nothing to report."""
    (tmp_path / "s.jsonl").write_text('{"query": "q", "contexts": [{"id": "d"}], "qrels": {"d": 1}}\n')
    command = f'"{sys.executable}" -m germane {words} >&-'
    done = subprocess.run(
        ["sh", "-c", command], cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, "internal error" in done.stderr) == (0, False), done.stderr


@pytest.mark.parametrize("words", [["--debug", "ledger", "stats"], ["ledger", "stats", "--debug"]])
def test_debug_shows_where_wherever_it_stands(cli: Cli, words: list[str]) -> None:
    """Before the verb and after it: the traceback, then the message; the exit code is the same."""
    ran = cli(*words, "--ledger", "none.sqlite")
    assert ran.code == 2
    assert "Traceback" in ran.err
    assert ran.err.endswith(NO_LEDGER)


def test_without_debug_there_is_no_traceback(cli: Cli) -> None:
    """One line."""
    assert cli("ledger", "stats", "--ledger", "none.sqlite").err == NO_LEDGER


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("-o", "/proc/nowhere/r.html"), "cannot be written|/proc/nowhere"),
        (("-o", "d.jsonl/r.html"), "d.jsonl is a file; name a file in a folder"),
        (("-o", "folder.md"), "folder.md is a folder; name a file"),
        (("-o", "/proc/nowhere"), r"/proc/nowhere: .*; name a folder that can be written"),
    ],
)
def test_what_cannot_be_written_is_said_with_its_name(
    inside: Cli, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    """One message without the number of an error; exit code 2."""
    write_jsonl(
        tmp_path / "d.jsonl", {"query": "q", "qrels": {"a": 1}, "contexts": [{"id": "a", "text": "t"}]}
    )
    (tmp_path / "folder.md").mkdir()
    done = inside("run", "d.jsonl", "-m", "RR", *words)
    assert done.code == 2
    assert re.search(said, done.err), done.err
    assert "Errno" not in done.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("report", "nowhere"), "nowhere is not a report folder"),
        (
            ("explain", "reports", "q1"),
            "is not a report folder: it has no manifest.json; name a report in that folder, such as reports/r",
        ),
        (("ledger", "stats", "--ledger", "d.jsonl"), "is damaged or not an SQLite file"),
    ],
)
def test_what_is_not_there_or_another_thing_is_said(
    inside: Cli, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    """A path that leads nowhere is not called damaged, nor of a wrong format."""
    (tmp_path / "d.jsonl").write_text('{"query": "this is a file of samples, and no ledger"}\n')
    (tmp_path / "reports" / "r").mkdir(parents=True)
    (tmp_path / "reports" / "r" / "manifest.json").write_text("{}")
    done = inside(*words)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert said in done.err


def test_a_judge_without_a_key_leaves_no_report(
    inside: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was asked, so there is nothing to continue."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    row = {"query": "When?", "contexts": ["At noon."], "reference": "At noon."}
    data = write_jsonl(tmp_path / "s.jsonl", row)
    done = inside("run", data, "-m", "context_precision", "--judge", "openai:gpt-4o-mini")
    assert done.code == 2
    assert "needs an API key: set OPENAI_API_KEY" in done.err
    assert "--resume" not in done.err
    assert not list(tmp_path.glob("germane-reports/*"))


def test_a_target_that_cannot_be_opened_leaves_no_report(inside: Cli, tmp_path: Path) -> None:
    """Nobody was asked: a mistake in the targets file is mended, and the run begins anew."""
    data = write_jsonl(tmp_path / "s.jsonl", {"query": "When?", "qrels": {"d1": 1}})
    for entry in ("cli, command_template: echo", "python, function: 'none:ask'"):
        (tmp_path / "targets.yaml").write_text(f"targets: [{{name: t, provider: {entry}}}]")
        done = inside("run", data, "-m", "RR", "--target", "t")
        assert (done.code, done.out) == (2, "")
        assert not list(tmp_path.glob("germane-reports/*")), entry


@pytest.mark.parametrize(
    ("step", "said"),
    [
        ("germane.reports.report.Report.finish", "continue with: germane run --resume r"),
        ("germane.reports.formats.write", "the report is complete: germane report r"),
    ],
)
def test_ctrl_c_while_the_report_is_made(
    inside: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, said: str
) -> None:
    """Everything is measured by then: the message says how to get at it, and that command does."""
    write_jsonl(
        tmp_path / "d.jsonl", {"query": "q", "qrels": {"a": 1}, "contexts": [{"id": "a", "text": "t"}]}
    )
    with monkeypatch.context() as patched:
        patched.setattr(step, lambda *_, **__: signal.raise_signal(signal.SIGINT))
        done = inside("run", "d.jsonl", "-m", "RR", "-o", "r", "-o", "r.html")
    assert (done.code, done.err.splitlines()[-1]) == (130, f"germane: interrupted; {said}")
    assert inside(*said.partition(": germane ")[2].split()).code == 0


def test_two_interruptions_end_a_target_in_the_main_thread(tmp_path: Path) -> None:
    """The first waits for the target, which blocks the loop; the second ends it, without a traceback."""
    twice = "signal.raise_signal(signal.SIGINT); signal.raise_signal(signal.SIGINT)"
    (tmp_path / "app.py").write_text(
        f"import pathlib, signal\ndef search(query): {twice}; pathlib.Path('went_on').touch()\n"
    )
    (tmp_path / "targets.yaml").write_text(
        "targets: [{name: s, provider: python, function: 'app:search', path: ., workers: 1}]"
    )
    write_jsonl(tmp_path / "data.jsonl", {"query": "q", "qrels": {"d": 1}})
    with started(["run", "data.jsonl", "--target", "s", "-m", "RR", "-o", "r"], tmp_path) as process:
        _, said = process.communicate()
    assert process.returncode == 130
    assert said.decode().splitlines() == ["germane: interrupted; continue with: germane run --resume r"]
    assert not (tmp_path / "went_on").exists()
