"""AgentV's example runs as its files say, on a plain install."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from germane.evaluation.run import run
from germane.evaluation.spec import Spec

WRITTEN_DOWN = {
    "bands": [1.0, 0.8333, 0.2],
    "retrieval-quality": [1.0, 0.8333, 0.2, 0.0],
    "standalone": [1.0, 0.0],
}
"""Of perfect, good and poor lists: by the measure, by the script that calls germane, and by the one that stands alone."""


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(
        shutil.copytree(
            Path(__file__).parents[3] / "examples/agentv", tmp_path_factory.mktemp("example") / "it"
        )
    )


@pytest.mark.parametrize("name", WRITTEN_DOWN)
def test_every_eval_file_gives_its_scores(example: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    """Every script finds germane, and the gates are reached."""
    assert {path.stem for path in example.glob("evals/*.yaml") if path.stem != "typed"} == WRITTEN_DOWN.keys()
    monkeypatch.chdir(example)
    monkeypatch.setenv("PATH", f"{Path(sys.executable).parent}:/usr/bin:/bin")
    report = run(Spec.of(paths=(f"evals/{name}.yaml",), folder=f"r-{name}"))
    assert bool(report.verdict.gates) is (name != "retrieval-quality")
    assert report.verdict.exit_code == 0
    values = [round(score.value, 4) for score in report.scores() if score.value is not None]
    assert values == WRITTEN_DOWN[name]


def test_the_standalone_evaluator_brings_its_tests(example: Path) -> None:
    """They pass with the standard library alone."""
    words = [sys.executable, "-I", "-m", "unittest", "discover", "-s", str(example / "evaluators")]
    done = subprocess.run(words, capture_output=True, check=False, cwd=example / "evaluators")
    assert done.returncode == 0, done.stderr.decode()
    text = (example / "evaluators/standalone_precision.py").read_text()
    imported = re.findall(r"^(?:import|from) (\w+)", text, re.MULTILINE)
    assert set(imported) <= sys.stdlib_module_names


_TYPE = r"(?:Set<string>|string\[\]|string|number|boolean|Check\[\]|Case|Result)"


def test_the_typescript_evaluator_gives_what_the_python_one_does(
    example: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """By node, in the place of the Python one; a node that reads no types gets the file without them."""
    node = shutil.which("node")
    if node is None:
        pytest.skip("no node: apt-get install nodejs")
    script = example / "evaluators/contextual-precision.ts"
    assert len(script.read_text().splitlines()) <= 60
    version = tuple(map(int, subprocess.check_output([node, "--version"], text=True)[1:].split(".")[:2]))
    if version < (22, 18):
        erased = re.sub(r"^interface .*\n", "", script.read_text(), flags=re.MULTILINE)
        script = script.with_suffix(".mjs")
        script.write_text(re.sub(rf": {_TYPE}(?=[,)]| {{$)", "", erased, flags=re.MULTILINE))
    evals = example / "evals/standalone.yaml"
    text = evals.read_text().replace(
        "[python3, ./evaluators/standalone_precision.py]", f"[{node}, ./evaluators/{script.name}]"
    )
    (example / "evals/typed.yaml").write_text(text)
    monkeypatch.chdir(example)
    report = run(Spec.of(paths=("evals/typed.yaml",), folder="typed"))
    assert [score.value for score in report.scores()] == [1.0, 0.0]
