"""CONTRIBUTING.md's guides are followed to the letter, in a copy of the package: their code runs, and so do their tests and commands."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GUIDE = ROOT.joinpath("CONTRIBUTING.md").read_text("utf-8")
BLOCK = re.compile(r"^ *```py\n(.*?)^ *```$", re.DOTALL | re.MULTILINE)
BLOCKS = [textwrap.dedent(block) for block in BLOCK.findall(GUIDE)]
SAMPLE = '{"query": "q", "contexts": [{"id": "a", "text": "one two"}, {"id": "b"}], "qrels": {"b": 1}}\n'


def block(text: str) -> str:
    """The one block in which this stands."""
    (found,) = (one for one in BLOCKS if text in one)
    return found


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of src with a measure, a reader and a judge more, each where its guide says."""
    home = tmp_path_factory.mktemp("contributed")
    package = home / "germane"
    shutil.copytree(ROOT / "src" / "germane", package, ignore=shutil.ignore_patterns("__pycache__"))

    def put(file: str, before: str, new: str) -> None:
        path = package / file
        text = path.read_text("utf-8")
        assert text.count(before) == 1, f"{file} has {before!r} {text.count(before)} times"
        path.write_text(text.replace(before, new + before), "utf-8")

    def put_entry(file: str, before: str, entry: str, more: str) -> None:
        assert f"`{entry}`" in GUIDE
        put(file, before, entry + more)

    ranked = package / "measures" / "ranked.py"
    ranked.write_text(ranked.read_text("utf-8") + "\n\n" + block("LinP = _ranked("), "utf-8")
    context = package / "measures" / "context.py"
    context.write_text(context.read_text("utf-8") + "\n\n" + block("def long_contexts"), "utf-8")
    put("measures/__init__.py", '"P", "Param"', '"LinP", "long_contexts", ')
    put("samples/reading.py", "Reader: TypeAlias", block("def _read_blocks") + "\n\n")
    put_entry("samples/reading.py", '".csv": (', '".blocks": (_read_blocks, "line")', ",\n    ")
    (package / "judges" / "length.py").write_text(block("class LengthJudge"), "utf-8")
    put_entry("judges/__init__.py", '"lexical": (', '"length": ("LengthJudge",)', ",\n    ")
    put_entry("judges/__init__.py", '"lexical": "Lex', '"length": "LengthJudge"', ", ")
    put("judges/__init__.py", '    "LexicalJudge",\n', '    "LengthJudge",\n')
    tests = home / "tests_of_guides"
    tests.mkdir()
    for number, one in enumerate(one for one in BLOCKS if "def test_" in one):
        (tests / f"test_{number}.py").write_text(one, "utf-8")
    (home / "data.jsonl").write_text(SAMPLE, "utf-8")
    (home / "data.blocks").write_text('query: one?\ncontexts: [{"id": "x"}]\nqrels: ["x"]\n', "utf-8")
    return home


def ran(home: Path, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
    """Python there, with the copy before the package."""
    path = os.pathsep.join([str(home), str(ROOT)])
    return subprocess.run(
        [sys.executable, *words],
        cwd=home,
        env={**os.environ, "PYTHONPATH": path},
        input=stdin,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def test_the_tests_of_the_guides_pass(home: Path) -> None:
    """One for each of the three, on what the guides make."""
    assert len(list(home.glob("tests_of_guides/*.py"))) == 3
    done = ran(home, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests_of_guides")
    assert done.returncode == 0, done.stdout
    assert re.search(r"\b5 passed", done.stdout)


def test_the_commands_of_the_guides_run(home: Path) -> None:
    """As they stand in the text, with the data that they name."""
    commands = [
        line for line in re.findall(r"`((?:echo '[^`]*' \| )?germane (?:run|measures|validate)[^`]*)`", GUIDE)
        if "data." in line or "LinP" in line
    ]  # fmt: skip
    assert len(commands) == 5
    for command in commands:
        piped, _, ours = command.rpartition(" | ")
        stdin = shlex.split(piped)[1] if piped else ""
        done = ran(home, "-m", *shlex.split(ours.replace('-m "nDCG@10"', "-m RR")), stdin=stdin)
        assert done.returncode == 0, (command, done.stdout, done.stderr)


def test_the_code_of_the_guides_is_as_the_house_is(home: Path) -> None:
    """Ruff with all its rules; what is a part of a file stands among names that this cannot see."""
    config, files = str(ROOT / "pyproject.toml"), ("judges/length.py",)
    done = ran(home, "-m", "ruff", "check", "--config", config, *(f"germane/{file}" for file in files))
    assert done.returncode == 0, done.stdout
