"""Eval files as users of AgentV 4 write them: every type that it knows, programs of the user's own, and what is not read."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from tests.server import ModelServer

from .conftest import Cli, write_jsonl

FILE = """
tests:
  - id: steam
    criteria: Says that it rises.
    input: Why does steam rise?
    expected_output: Heat.
    response: Steam rises.
    assertions:
      - {GRADER}
"""
EXAMPLES = {
    "code-grader": "command: [cat]",
    "code_grader": "script: [cat]",
    "llm-grader": "prompt: Is it so?",
    "llm_grader": "rubrics: [{id: a, outcome: It is}]",
    "rubrics": "criteria: [It is]",
    "rubric": "rubrics: [{id: a, outcome: It is}]",
    "composite": "assertions: [{name: a, type: is-json}], aggregator: {type: weighted_average}",
    "tool-trajectory": "mode: any_order, minimums: {search: 1}",
    "tool_trajectory": "mode: in_order, expected: [{tool: search}]",
    "field-accuracy": "fields: [{path: a, match: exact}]",
    "field_accuracy": "fields: [{path: a, match: date, formats: [YYYY-MM-DD]}]",
    "latency": "threshold: 5",
    "cost": "budget: 1",
    "token-usage": "max_total: 5",
    "token_usage": "max_input: 5",
    "contains": "value: a",
    "icontains": "value: a",
    "starts-with": "value: a",
    "ends-with": "value: a",
    "regex": "value: a",
    "is-json": "",
    "is_json": "",
    "equals": "value: a",
}
"""The types of AgentV 4.42.4: those of its eval-schema.json, and those that it also runs."""
UNSUPPORTED = [
    "inline-assert", "execution-metrics", "execution_metrics", "skill-trigger", "contains-any", "contains-all", "icontains-any",
    "icontains-all",
]  # fmt: skip


def table() -> dict[str, str]:
    """The table of types in docs/addons/agentv.md."""
    text = (Path(__file__).parents[3] / "docs" / "addons" / "agentv.md").read_text("utf-8")
    rows = re.findall(
        r"^\| (`[^|]+) \| ([^|]+) \|$", text.partition("## Every type of AgentV 4.42.4")[2], re.MULTILINE
    )
    return {name: what for names, what in rows for name in re.findall(r"`([\w-]+)`", names)}


def test_the_table_of_types_is_whole() -> None:
    """It holds every type that runs, and those that do not."""
    assert table().keys() == EXAMPLES.keys() | set(UNSUPPORTED) | {"llm_judge", "code_judge"}


@pytest.mark.parametrize("kind", EXAMPLES)
def test_every_type_of_agentv_is_read_without_a_warning(inside: Cli, tmp_path: Path, kind: str) -> None:
    """As AgentV's schema has it, beside the keys that all of them have."""
    own = f"type: {kind}, name: g, weight: 2, required: true, min_score: 0.5, {EXAMPLES[kind]}"
    (tmp_path / "e.yaml").write_text(FILE.replace("GRADER", own.removesuffix(", ")))
    ran = inside("validate", "e.yaml")
    assert (ran.code, ran.err) == (0, "1 file: valid\n")


@pytest.mark.parametrize(
    ("grader", "said"),
    [
        *((f"type: {name}, max_tokens: 5", f"e.yaml:9:9: unknown grader or measure {name!r}") for name in UNSUPPORTED),
        ("type: composite, assertions: [{type: is-json}], aggregator: {type: all_or_nothing}", "write 'weighted_average'"),
    ],
)  # fmt: skip
def test_what_does_not_run_is_named_with_its_place(
    inside: Cli, tmp_path: Path, grader: str, said: str
) -> None:
    """One sentence, and what to write instead."""
    (tmp_path / "e.yaml").write_text(FILE.replace("GRADER", grader))
    ran = inside("validate", "e.yaml")
    assert said in ran.out + ran.err
    assert ";" in (ran.out + ran.err).splitlines()[0]


@pytest.mark.parametrize(
    ("key", "said"),
    [
        (
            "turns: [{input: hi}]",
            "e.yaml:4:5: a case has the key 'turns', which germane does not support",
        ),
        ("vars: {a: b}", "e.yaml:4:5: a case has the key 'vars', which germane does not support"),
        ("workspace: {template: a}", "unknown key 'workspace': it is kept as metadata"),
        ("execution: {workers: 3}", "execution has the unknown key 'workers': it is ignored"),
        (
            "execution: {skip_defaults: true}",
            "execution has the key 'skip_defaults', which germane does not support",
        ),
    ],
)
def test_keys_of_a_case_that_have_no_meaning_here(inside: Cli, tmp_path: Path, key: str, said: str) -> None:
    """Keys that would change scores are an error, others a warning."""
    (tmp_path / "e.yaml").write_text(
        f"tests:\n  - id: a\n    input: hi\n    {key}\n    assertions: [It is.]\n"
    )
    ran = inside("validate", "e.yaml")
    assert said in ran.out + ran.err


def test_a_case_without_assertions_is_graded_by_its_criteria(inside: Cli, tmp_path: Path) -> None:
    """A model is asked, as AgentV does."""
    (tmp_path / "e.yaml").write_text(FILE.partition("    assertions")[0])
    with ModelServer(
        answer={"llm_judge": {"score": 0.9, "hits": [], "misses": [], "reasoning": "Yes."}}
    ) as server:
        ran = inside("run", "e.yaml", "--judge", "openai:test", "--base-url", server.url, "--json",
                  env={"OPENAI_API_KEY": "test"})  # fmt: skip
        sent = json.dumps([asked.json for asked in server.asked])
    assert {row["measure"]: row["value"] for row in ran.json["scores"]} == {"llm_judge": 0.9}, ran.err
    assert "Says that it rises." in sent


def test_a_file_named_index_jsonl_holds_agentvs_rows(inside: Cli, tmp_path: Path) -> None:
    """What `agentv compare` 4.42.4 reads: a score per case and grader; a case or a grader without a score has none, never 0."""
    write_jsonl(
        tmp_path / "data.jsonl",
        {
            "id": "a",
            "query": "q",
            "qrels": {"d": 1},
            "contexts": [{"id": "x", "text": ""}, {"id": "d", "text": ""}],
        },
        {"id": "b", "query": "q", "qrels": {"d": 1}, "error": "the system was away"},
    )
    words = ("data.jsonl", "-m", "RR repeat_rate", "-o", "out/index.jsonl", "-o", "report")
    assert inside("run", *words).code == 3
    rows = [json.loads(line) for line in (tmp_path / "out/index.jsonl").read_text("utf-8").splitlines()]
    assert [(row["test_id"], row["score"], row["target"]) for row in rows] == [("a", 0.5, "germane")]
    assert [(one["name"], one["score"]) for one in rows[0]["scores"]] == [("RR", 0.5)]
    assert {"text": "Position 2: Relevant - gold grade 1", "passed": True} in rows[0]["scores"][0][
        "assertions"
    ]
