"""The example runs as its files say, on a plain install; the skill says what is true."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from germane.cli.init import shipped
from germane.cli.verbs import VERBS
from germane.evaluation.run import run
from germane.evaluation.spec import Spec
from tests.cli.conftest import Cli

EVALS = sorted(path for path in shipped("rag-evaluation").glob("*/*.yaml"))
SKILL = shipped("skill")


@pytest.fixture(scope="module")
def example(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(shutil.copytree(shipped("rag-evaluation"), tmp_path_factory.mktemp("example") / "it"))


@pytest.mark.parametrize("path", EVALS, ids=lambda path: path.stem)
def test_every_eval_file_reaches_its_gates(
    example: Path, monkeypatch: pytest.MonkeyPatch, path: Path
) -> None:
    """No add-on and no library but germane's own is needed, and the scores are those written down."""
    monkeypatch.chdir(example)
    report = run(Spec.of(paths=(f"{path.parent.name}/{path.name}",), folder=f"r-{path.stem}"))
    assert report.verdict.gates
    assert report.verdict.exit_code == 0
    assert all(summary.n for summary in report.summaries)
    if path.stem == "known-scores":
        assert [round(score.value or 0.0, 4) for score in report.scores()] == [1.0, 0.8333, 0.2, 0.0]


def test_what_init_prints_runs(inside: Cli, tmp_path: Path) -> None:
    """Line by line in an empty folder; scripts and runs share one ledger, and git ignores it."""
    lines = inside("init").out.splitlines()
    steps = [shlex.split(line, comments=True) for line in lines[lines.index("next:") + 1 :]]
    where = tmp_path
    path = f"{Path(sys.executable).parent}:/usr/bin:/bin"
    for step in steps:
        if step[0] == "cd":
            where /= step[1]
        elif step[0] == "germane":
            ran = inside(*step[1:], cwd=where, env={"PATH": path})
            assert ran.code == 0, ran.err
        else:
            subprocess.run(step, cwd=where, check=True, capture_output=True)
    assert len(steps) > 3
    assert [str(found.relative_to(where)) for found in where.rglob("*.sqlite")] in (
        [],
        [".germane/ledger.sqlite"],
    )
    assert {".germane/", "germane-reports/"} <= set((where / ".gitignore").read_text().split())


def test_a_run_without_a_path(inside: Cli, tmp_path: Path) -> None:
    """In the example it evaluates evals/; beside it, the file that the message names can be run as it is."""
    assert inside("init").code == 0
    ran = inside("run")
    (file,) = re.findall(r"as in germane run (\S+)$", ran.err.strip())
    assert (ran.code, inside("run", file, "-q").code) == (2, 0)
    ran = inside("run", cwd=tmp_path / "rag-evaluation")
    assert (ran.code, "passed" in ran.out) == (0, True)


def test_the_demo_is_a_run_of_the_example(tmp_path: Path) -> None:
    """In an empty folder only its report and page are left; another passage in the example gives other numbers."""
    root = shipped("rag-evaluation").parent.parent
    for name in ("src", "examples", "docs/schema"):
        shutil.copytree(root / name, tmp_path / "tree" / name)

    def means(folder: str) -> dict[str, float]:
        (here := tmp_path / folder).mkdir()
        words = [sys.executable, "-m", "germane", "demo"]
        done = subprocess.run(
            words,
            cwd=here,
            env={"PYTHONPATH": str(tmp_path / "tree/src")},
            capture_output=True,
            text=True,
            check=True,
        )
        assert "germane-reports/demo/report.html" in done.stdout
        assert [path.name for path in here.iterdir()] == ["germane-reports"]
        assert "<html" in (here / "germane-reports/demo/report.html").read_text()
        shown = re.findall(r"^ (\S+) +(0\.\d{4}) ", done.stdout, re.MULTILINE)
        return {name: float(mean) for name, mean in shown}

    before = means("before")
    assert before["nDCG@5"] == 0.8816
    passages = tmp_path / "tree/examples/rag-evaluation/corpus/passages.jsonl"
    passages.write_text(re.sub(r"(?m)^.*bloom.*\n", "", passages.read_text()))
    assert means("after")["nDCG@5"] < before["nDCG@5"]


def test_the_skill_is_written_out(inside: Cli, tmp_path: Path) -> None:
    """Where coding agents look for it, or where it is wanted; what is there stays."""
    assert inside("init", "--skill").code == 0
    folder = tmp_path / ".claude/skills/rag-evaluation"
    head = yaml.safe_load((folder / "SKILL.md").read_text().split("---")[1])
    assert head["name"] == folder.name
    assert 0 < len(head["description"]) <= 1024
    assert (folder / "references/rag-evaluation.md").is_file()
    assert inside("init", "--skill").code == 2
    assert inside("init", "--skill", "elsewhere").code == 0
    assert (tmp_path / "elsewhere/SKILL.md").is_file()


def test_the_skill_knows_every_measure() -> None:
    """And names none that there is not."""
    page = (SKILL / "references/rag-evaluation.md").read_text()
    rows = re.findall(r"^\| (`.*?) \|", page.partition("## The same elsewhere")[0], re.MULTILINE)
    named = {re.split(r"[@(]", name)[0] for row in rows for name in re.findall(r"`([^`]+)`", row)}
    listed = (
        "from germane.measures.measure import definitions; print(*(known.name for known in definitions()))"
    )
    # other tests declare measures of their own in this process
    known = subprocess.run([sys.executable, "-c", listed], check=True, capture_output=True, text=True).stdout
    assert named == {*known.split()}


def test_every_command_of_the_skill_exists() -> None:
    """Verbs and flags."""
    known = {verb.split()[0] for verb in VERBS}
    text = "".join(path.read_text() for path in SKILL.rglob("*.md"))
    for line in re.findall(
        r"germane ([a-z]+(?: --?[a-z-]+)*)", " ".join(re.findall(r"`(germane [^`]+)`", text))
    ):
        assert line.split()[0] in known, line
    (block,) = re.findall(r"```sh\n(.*?)```", (SKILL / "SKILL.md").read_text(), re.DOTALL)
    for line in block.splitlines():
        assert shlex.split(line, comments=True)[1] in known


def test_the_eval_file_of_the_skill_is_valid(inside: Cli, tmp_path: Path) -> None:
    """With the files that it names."""
    (text,) = re.findall(r"```yaml\n(.*?)```", (SKILL / "SKILL.md").read_text(), re.DOTALL)
    (tmp_path / "e.yaml").write_text(text)
    (tmp_path / "questions.jsonl").write_text('{"query": "a"}\n')
    target = re.findall(r"(\{name: .*?\})", text)[0]
    (tmp_path / "targets.yaml").write_text(f"targets: [{target}]")
    ran = inside("validate", "e.yaml")
    assert ran.code == 0, ran.out
