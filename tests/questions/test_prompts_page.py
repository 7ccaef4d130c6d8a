"""docs/prompts.md has each wording's file, its origin, what a judge returns, and an example of each answer."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from germane.questions import Degree, NuggetSupport, Relevance, Sufficiency
from germane.questions.kinds import Weight
from germane.questions.prompts import FOLDER

PAGE = (Path(__file__).parents[2] / "docs" / "prompts.md").read_text("utf-8")
FILES = sorted(FOLDER.glob("*.md"))
ANSWERS = {
    "relevance": ["0", "1", "2", "3"],
    "relevance_usefulness": ["0", "1", "2", "3"],
    "nuggets": list(Degree.__args__),  # type: ignore[attr-defined]
    **dict.fromkeys(("relevance_binary", "statements", "sufficiency", "citations"), ("true", "false")),
    "importance": list(Weight.__args__),  # type: ignore[attr-defined]
    "support": ["supported", "not supported"],
    "claims": [],
    "entities": [],
}


def section(name: str) -> str:
    found = re.search(rf"^## `{name}`:.*?(?=^## |\Z)", PAGE, re.MULTILINE | re.DOTALL)
    assert found, f"docs/prompts.md has no section on {name}"
    return found[0]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_file_is_named(path: Path) -> None:
    """A section for each question, a sentence for each fragment."""
    assert f"`{path.name}`" in PAGE if path.stem.startswith("_") else section(path.stem)


@pytest.mark.parametrize(
    "path", [path for path in FILES if not path.stem.startswith("_")], ids=lambda p: p.stem
)
def test_each_wording_has_its_origin_and_an_example_of_each_answer(path: Path) -> None:
    """Whoever labels, or writes another wording, sees what each answer means."""
    text = section(path.stem)
    assert re.search(r"^Origin: \w", text, re.MULTILINE)
    rows = re.findall(r"^\| (.+?) \| .+ \|$", text, re.MULTILINE)[2:]
    assert rows
    assert set(ANSWERS[path.stem]) <= set(rows)


@pytest.mark.parametrize(
    "path", [path for path in FILES if not path.stem.startswith("_")], ids=lambda path: path.stem
)
def test_what_a_judge_returns_is_shown(path: Path) -> None:
    """A payload with the keys of the answer."""
    (shown,) = re.findall(r"^Returns `(\{.+\})`\.$", section(path.stem), re.MULTILINE)
    keys = {"relevance": "grade", "relevance_usefulness": "grade", "relevance_binary": "relevant", "sufficiency": "sufficient",
            "support": "claims", "citations": "statements", "importance": "nuggets"}  # fmt: skip
    assert keys.get(path.stem, path.stem) in json.loads(shown)


@pytest.mark.parametrize("prompt", ["relevance", "relevance_usefulness"])
def test_the_definition_of_each_grade_is_sent(prompt: str) -> None:
    """In full, and what a contradicting, an outdated and a partly matching passage gets."""
    text = (FOLDER / f"{prompt}.md").read_text("utf-8")
    grades = Relevance(query="q", passage="p").schema()["properties"]["grade"]
    for grade in range(grades["minimum"], grades["maximum"] + 1):
        assert re.search(rf"^{grade}: it .{{10,}}\.$", text, re.MULTILINE)
    for case in ("contradicts", "outdated", "another time, place or person"):
        assert case in text


def test_so_is_that_of_each_word_and_of_yes_and_no() -> None:
    """Of nuggets, of sufficiency and of citations."""
    degrees = NuggetSupport("q", ("n",), ("x",)).schema()["properties"]["nuggets"]["items"]["properties"]
    for degree in degrees["support"]["enum"]:
        assert f"\n{degree}: " in (FOLDER / "nuggets.md").read_text("utf-8")
    for prompt in (Sufficiency("q", ("x",)).prompt, "citations", "relevance_binary"):
        text = (FOLDER / f"{prompt}.md").read_text("utf-8")
        assert "\ntrue: " in text
        assert "\nfalse: " in text
