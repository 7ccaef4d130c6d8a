"""The JSON Schema of AgentV's eval files marks what the reader finds wrong, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml
from jsonschema import Draft202012Validator
from scripts.agentv_pages import agentv_schema

from tests.cli.test_reference import wrong_by_reader

SCHEMA = Draft202012Validator(agentv_schema())
EXAMPLES = [
    file
    for file in sorted((Path(__file__).parents[3] / "examples").rglob("*.yaml"))
    if "evalcases:" in file.read_text("utf-8")
]
CASE = "cases: [{query: a}]\n"
GOOD = [
    CASE,
    "measures: nDCG@10 R@5\ngates: mean(R@5)>=0.1\n" + CASE,
    "judge: [lexical, labels]\nrepeat: 2\ntrials: 3\ncontextsFrom: text\ndoc-id: 'x(.*)'\n" + CASE,
    "x-mine: 1\n_y: 2\n$schema: z\nversion: 1\ncompatibility: null\n" + CASE,
    "tests: [{id: 7, input: hello, expected_output: yes it is, assertions: [it greets], mine: [1]}]",
    "evalcases: [{question: a, expected_messages: [{role: assistant, content: b}], rubrics: [c, {id: d, outcome: e}]}]",
    "assertions: [{type: contains, value: x}, {type: regex, value: y, required: 0.5}]\n" + CASE,
    "evaluators: [{type: code-grader, command: run, anything: [1]}, {name: a, type: nDCG, k: 5, weight: 2}]\n" + CASE,
    "evaluators: [{type: composite, evaluators: [{name: a, type: latency, threshold: 5}, {name: b, type: cost, budget: 1}]}]\n" + CASE,
    "execution: {target: null, evaluators: [{type: token_usage, maxTotal: 5}]}\n" + CASE,
    "cases: [{query: a, contexts: [x, {text: y, grade: 2}], qrels: {d: 1}, tags: [t], metadata: {b: 1}}]",
]  # fmt: skip
WRONG = [
    "judge: [[a]]\n" + CASE,
    "repeat: 0\n" + CASE,
    "vote: most\n" + CASE,
    "against: all\n" + CASE,
    "mesures: [R@5]\n" + CASE,
    "trials: 0\n" + CASE,
    "cases: {a: 1}",
    "cases: [a]",
    "gates: [[a]]\n" + CASE,
    "columns: [a]\n" + CASE,
    "measures: [{type: P@5, weight: -1}]\n" + CASE,
    "measures: [{type: P@5, required: 2}]\n" + CASE,
    "evaluators: [{type: code_judge, timeout: -1, script: a}]\n" + CASE,
    "evaluators: [{type: tool_trajectory, mode: sometimes}]\n" + CASE,
    "evaluators: [{type: cost, budget: free}]\n" + CASE,
    "execution: 7\n" + CASE,
    "cases: [{query: a, contexts: 5}]",
    "cases: [{query: a, input: [{content: b}]}]",
]


def wrong_by_schema(text: str) -> list[str]:
    return [error.message for error in SCHEMA.iter_errors(yaml.safe_load(text))]


@pytest.mark.parametrize("text", GOOD)
def test_what_is_right_has_no_mark(text: str, tmp_path: Path) -> None:
    """The reader finds nothing wrong in it either."""
    assert wrong_by_schema(text) == []
    left = [fault for fault in wrong_by_reader(text, tmp_path) if "kept as metadata" not in fault]
    assert [fault for fault in left if "goes to the script" not in fault] == []


@pytest.mark.parametrize("text", WRONG)
def test_what_is_wrong_has_a_mark(text: str, tmp_path: Path) -> None:
    """The reader says so too."""
    assert wrong_by_schema(text)
    assert wrong_by_reader(text, tmp_path)


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_the_examples_have_no_mark(path: Path) -> None:
    """As they stand."""
    assert EXAMPLES
    assert wrong_by_schema(path.read_text("utf-8")) == []


def test_the_types_of_graders_are_listed_once() -> None:
    types = agentv_schema()["$defs"]["grader"]["properties"]["type"]["anyOf"][0]["enum"]
    assert len(types) == len(set(types))
