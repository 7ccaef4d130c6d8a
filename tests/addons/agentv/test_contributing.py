"""The guide of docs/addons/agentv.md is followed to the letter, in a copy of the package: a grader more."""

from __future__ import annotations

import re
import shutil
import textwrap
from pathlib import Path

import pytest

from tests.test_contributing import BLOCK, ROOT, ran

GUIDE = ROOT.joinpath("docs/addons/agentv.md").read_text("utf-8")


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of src with the grader, its test and an eval file."""
    home = tmp_path_factory.mktemp("contributed")
    shutil.copytree(ROOT / "src/germane", home / "germane", ignore=shutil.ignore_patterns("__pycache__"))
    grader, test = (textwrap.dedent(block) for block in BLOCK.findall(GUIDE))
    addon = home / "germane/addons/agentv"
    (addon / "graders/max_words.py").write_text(grader, "utf-8")
    entry, before = (
        '"max_words": GraderType(f"{_HERE}.graders.max_words:MaxWords", "limits kept / 1")',
        '"composite": GraderType(',
    )
    text = (addon / "__init__.py").read_text("utf-8")
    assert f"`{entry}`" in GUIDE
    assert text.count(before) == 1
    (addon / "__init__.py").write_text(text.replace(before, f"{entry},\n        {before}"), "utf-8")
    assert "`maxwords`" in GUIDE
    addons = home / "germane/addons/__init__.py"
    text = addons.read_text("utf-8")
    assert text.count('"cost, tokenusage, ') == 1
    addons.write_text(text.replace('"cost, tokenusage, ', '"cost, maxwords, tokenusage, '), "utf-8")
    (home / "test_max_words.py").write_text(test, "utf-8")
    (home / "e.yaml").write_text(
        "evaluators: [{type: max_words, most: 50}]\n"
        "evalcases: [{id: a, question: q, expected_messages: [{role: assistant, content: r}]}]\n"
    )
    return home


def test_the_guide_of_a_grader(home: Path) -> None:
    """Its test and that of the names of add-ons pass, an eval file may name it, and ruff finds nothing."""
    done = ran(home, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_max_words.py")
    assert re.search(r"\b3 passed", done.stdout), done.stdout
    done = ran(home, "-m", "germane", "validate", "e.yaml")
    assert done.returncode == 0, done.stdout + done.stderr
    names = (
        f"{ROOT / 'tests/addons/test_addons.py'}::test_the_names_of_absent_addons_are_those_that_they_declare"
    )
    done = ran(home, "-m", "pytest", "-q", "-p", "no:cacheprovider", names)
    assert re.search(r"\b1 passed", done.stdout), done.stdout
    config, file = str(ROOT / "pyproject.toml"), "germane/addons/agentv/graders/max_words.py"
    done = ran(home, "-m", "ruff", "check", "--config", config, file)
    assert done.returncode == 0, done.stdout
