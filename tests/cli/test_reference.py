"""The reference pages and the eval file's JSON Schema are those that the models make."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator
from scripts.reference_pages import evalfile_schema, pages

from germane.cli.validate import faults_of
from tests.cli.conftest import Cli

SCHEMA = Draft202012Validator(evalfile_schema())
EXAMPLES = [
    file
    for file in sorted((Path(__file__).parents[2] / "examples/rag-evaluation/evals").glob("*.yaml"))
    if "evalcases:" not in file.read_text("utf-8")
]
DATA = "data: s.jsonl\n"
GOOD = [
    DATA,
    "measures: nDCG@10 R@5\ngates: mean(R@5)>=0.1\n" + DATA,
    "judge: lexical\nrepeat: 2\ntrials: 3\ncontextsFrom: text\ndoc-id: 'x(.*)'\n" + DATA,
    "x-mine: 1\n_y: 2\n$schema: z\nversion: 1\n" + DATA,
    "measures: [RR, {measure: nDCG, k: 5, weight: 2, required: 0.5}]\n" + DATA,
]
WRONG = [
    "judge: [[a]]\n" + DATA,
    "repeat: 0\n" + DATA,
    "vote: most\n" + DATA,
    "against: all\n" + DATA,
    "mesures: [R@5]\n" + DATA,
    "trials: 0\n" + DATA,
    "gates: [[a]]\n" + DATA,
    "columns: [a]\n" + DATA,
    "measures: [{type: P@5, weight: -1}]\n" + DATA,
    "measures: [{type: P@5, required: 2}]\n" + DATA,
]


def test_the_pages_are_current() -> None:
    """After a change of a model: `.venv/bin/python scripts/reference_pages.py`."""
    assert [path.name for path, text in pages() if path.read_text("utf-8") != text] == []


def wrong_by_schema(text: str) -> list[str]:
    return [error.message for error in SCHEMA.iter_errors(yaml.safe_load(text))]


def wrong_by_reader(text: str, folder: Path) -> list[str]:
    """Faults and warnings: an editor has one kind of mark."""
    (folder / "s.jsonl").write_text('{"query": "q", "contexts": ["a"]}\n')
    (folder / "e.yaml").write_text(text)
    found: list[object] = []
    found += faults_of(folder / "e.yaml", found.append)
    return list(map(str, found))


@pytest.mark.parametrize("text", GOOD)
def test_what_is_right_has_no_mark(text: str, tmp_path: Path) -> None:
    """The reader finds nothing wrong in it either."""
    assert wrong_by_schema(text) == []
    assert wrong_by_reader(text, tmp_path) == []


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_has_a_mark(text: str, tmp_path: Path) -> None:
    """The reader says so too."""
    assert wrong_by_schema(text)
    assert wrong_by_reader(text, tmp_path)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_examples_have_no_mark(path: Path) -> None:
    """As they stand."""
    assert wrong_by_schema(path.read_text("utf-8")) == []


def test_validate_prints_the_schema(inside: Cli) -> None:
    """For an editor, where only the wheel is at hand."""
    ran = inside("validate", "--schema")
    assert ran.code == 0
    assert json.loads(ran.out) == evalfile_schema()
