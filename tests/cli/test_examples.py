"""The example runs as its files say, on a plain install."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from germane.cli.init import example_folder
from germane.evaluation.options import Options
from germane.evaluation.run import run

PLAIN = [
    "answer-relevance",
    "bands",
    "contextual-recall",
    "contextual-relevance",
    "faithfulness",
    "standalone",
]


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(example_folder(), tmp_path_factory.mktemp("example") / "it"))


@pytest.mark.parametrize("name", PLAIN)
def test_the_eval_files_that_need_no_library_pass_their_gates(
    example: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """Each of them declares gates, and they are reached."""
    monkeypatch.chdir(example)
    report = run(Options(paths=(f"evals/{name}.yaml",), folder=f"r-{name}", ledger="ledger.sqlite"))
    assert report.verdict.gates
    assert report.verdict.exit_code == 0


def test_the_standalone_evaluator_brings_its_tests(example: Path) -> None:
    """They pass with the standard library alone."""
    words = [sys.executable, "-I", "-m", "unittest", "discover", "-s", str(example / "evaluators")]
    done = subprocess.run(words, capture_output=True, check=False, cwd=example / "evaluators")
    assert done.returncode == 0, done.stderr.decode()
