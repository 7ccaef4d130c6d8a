"""Eval files of both generations with every grader, from the shell to the report; and one grader on one case."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from germane.cli import main
from tests.server import ModelServer

from .conftest import Cli

ANSWER = json.dumps(
    {"answer": "Steam rises.", "total": 12, "retrieved_context": ["Steam rises.", "Bananas."]}
)
RAG = f"""
import json, sys
answer = {ANSWER!r}
said = [{{"role": "assistant", "tool_calls": [{{"tool": "search"}}, {{"tool": "read"}}]}},
        {{"role": "assistant", "content": answer}}]
json.dump({{"text": answer, "output_messages": said, "duration_ms": 1200, "cost_usd": 0.02,
           "token_usage": {{"input": 100, "output": 20}}}}, open(sys.argv[1], "w"))
"""
SCRIPT = """
import json, os, sys, urllib.request
case = json.load(sys.stdin)
token = os.environ["AGENTV_TARGET_PROXY_TOKEN"]
asked = urllib.request.Request(os.environ["AGENTV_TARGET_PROXY_URL"] + "/invoke", b'{"question": "Good?"}',
                               {"Authorization": f"Bearer {token}"})
said = json.load(urllib.request.urlopen(asked))["rawText"]
print(json.dumps({"score": 0.5, "hits": case["trace_summary"]["tool_names"], "reasoning": said}))
"""
LARGEST = "import json, sys; r = json.load(sys.stdin)['results']; print(json.dumps({'score': max(v['score'] for v in r.values())}))"
OLDER = """
execution:
  target: rag
  evaluators:
    - {name: precision, type: context_precision}
    - {name: explicit, type: context_precision, config: {retrieval_context: ["Steam rises."]}}
    - {name: script, type: code_judge, script: [python3, grade.py], target: {max_calls: 3}, weight: 0}
    - {name: judge, type: llm_judge, prompt: "Is {{candidate_answer}} an answer to {{question}}?"}
    - {name: fields, type: field_accuracy, fields: [{path: total, match: numeric_tolerance, tolerance: 1},
                                                    {path: answer, match: exact}]}
    - {name: tools, type: tool_trajectory, mode: in_order, expected: [{tool: search}, {tool: read}]}
    - {name: speed, type: latency, threshold: 2000, required: true}
    - {name: price, type: cost, budget: 0.01}
    - {name: tokens, type: token_usage, max_total: 200}
    - {name: mean, type: composite, aggregator: {type: weighted_average, weights: {a: 3}},
       evaluators: [{name: a, type: latency, threshold: 5}, {name: b, type: cost, budget: 1}]}
    - {name: most, type: composite, aggregator: {type: code_judge, path: [python3, largest.py]},
       evaluators: [{name: a, type: latency, threshold: 5}, {name: b, type: cost, budget: 1}]}
    - {name: asked, type: composite, aggregator: {type: llm_judge, prompt: "Sum up {{EVALUATOR_RESULTS_JSON}}"},
       evaluators: [{name: b, type: cost, budget: 1}]}
    - {name: share, type: composite, aggregator: {type: threshold, threshold: 0.5},
       evaluators: [{name: a, type: latency, threshold: 5}, {name: b, type: cost, budget: 1}]}
evalcases:
  - id: one
    expected_outcome: It says why steam rises.
    input_messages: [{role: user, content: Why does steam rise?}]
    expected_messages: [{role: assistant, content: {answer: Heat., total: 12.5}}]
    rubrics: [Mentions steam, {id: short, description: Is short, weight: 3}]
"""
SCORES = {
    "precision": 1.0,
    "explicit": 1.0,
    "script": 0.5,
    "judge": 0.7,
    "fields": 0.5,
    "tools": 1.0,
    "speed": 1.0,
    "price": 0.0,
    "tokens": 1.0,
    "mean": 0.25,
    "most": 1.0,
    "asked": 0.7,
    "share": 0.5,
    "rubrics": 0.25,
}
NEWER = """
target: rag
assertions: [{type: contains, value: Steam}]
tests:
  - id: one
    criteria: It says why.
    input: Why does steam rise?
    assertions:
      - {type: contains, value: rises, metric: has-rises}
      - {type: regex, value: "rises.$"}
      - {type: is-json}
      - {type: token-usage, max_total: 500, effort: 1}
      - {type: assert-set, assert: [{type: contains, value: Steam}, {type: equals, value: x}]}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / ".agentv").mkdir()
    (tmp_path / ".agentv" / "targets.yaml").write_text(
        "targets: [{name: rag, provider: cli, command_template: 'python3 rag.py {OUTPUT_FILE} {EVAL_ID}'}]"
    )
    (tmp_path / "rag.py").write_text(RAG)
    (tmp_path / "grade.py").write_text(SCRIPT)
    (tmp_path / "largest.py").write_text(LARGEST)
    (tmp_path / "older.yaml").write_text(OLDER)
    (tmp_path / "newer.yaml").write_text(NEWER)
    return tmp_path


def answer(kind: str, sections: Any, schema: Any) -> Any:
    """What the model says to each kind of question."""
    del schema
    if kind == "llm_judge":
        return {"reasoning": "Fair.", "hits": ["says that it rises"], "misses": ["no cause"], "score": 0.7}
    if kind == "rubric":
        checks = [{"id": "rubric-1", "satisfied": True}, {"id": "short", "satisfied": False}]
        return {
            "checks": [{**check, "reasoning": "So it is."} for check in checks],
            "overall_reasoning": "Half.",
        }
    if kind == "completion":
        return {"text": "Rather."}
    return {"grade": 3 if "Steam" in sections["passage"] else 0, "reasoning": "It is."}


def test_every_grader_of_the_older_generation(inside: Cli, folder: Path) -> None:
    """Scores, the case, the words of each grader; a second run asks nobody and says the same."""
    with ModelServer(answer=answer) as server:
        words = ("run", "older.yaml", "--judge", "openai:test", "--base-url", server.url, "--json", "-o", "r")
        ran = inside(*words, env={"OPENAI_API_KEY": "test"})
        again = inside(*words, "--force", env={"OPENAI_API_KEY": "test"})
    assert ran.code == 0, ran.err
    assert {row["measure"]: row["value"] for row in ran.json["scores"]} == SCORES
    types = {row["measure"]: row["type"] for row in ran.json["scores"]}
    assert (types["speed"], types["explicit"], types["rubrics"]) == (
        "latency",
        "context_precision",
        "llm_judge",
    )
    assert ran.json["judge"]["calls"] == 6
    assert again.json["judge"]["calls"] == 0
    assert again.json["scores"] == ran.json["scores"]
    (case,) = ran.json["cases"]
    assert case["score"] == pytest.approx(8.9 / 13)
    assert case["verdict"] == "borderline"
    assert [gate["outcome"] for gate in ran.json["gates"]] == ["passed"]
    said = inside("explain", "r", "one").out
    assert "+ read" in said
    assert "Rather." in said
    assert "- [short] Is short: So it is." in said


def test_assertions_of_the_newer_generation(inside: Cli, folder: Path) -> None:
    """They need no judge; a key that nobody knows is a warning at its line."""
    ran = inside("run", "newer.yaml", "--json")
    values = {row["measure"]: row["value"] for row in ran.json["scores"]}
    assert values == {
        "contains-Steam": 1.0,
        "has-rises": 1.0,
        "regex-rises.$": 0.0,
        "is-json": 1.0,
        "token_usage": 1.0,
        "composite": 0.5,
    }
    assert "newer.yaml:12:" in ran.err
    assert "unknown key 'effort'" in ran.err


def test_a_dry_run_runs_nothing_of_the_file(inside: Cli, folder: Path) -> None:
    """Neither the target nor a script."""
    (folder / "rag.py").write_text("open('ran', 'w')")
    (folder / "grade.py").write_text("open('ran', 'w')")
    ran = inside("run", "older.yaml", "--judge", "lexical", "--dry-run")
    assert ran.code == 0, ran.err
    assert not (folder / "ran").exists()


def inside(monkeypatch: pytest.MonkeyPatch, *words: str) -> int:
    """The exit code of the command line, in this process."""
    monkeypatch.setattr("sys.argv", ["germane", *words])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


@pytest.mark.parametrize(
    ("evaluators", "refused"),
    [
        ("[{name: s, type: code_judge, script: [touch, ran]}]", "a grader would run 'touch ran'"),
        ("[{name: x, script: touch ran}]", "a grader would run 'touch ran'"),
        ("[{type: composite, aggregator: {type: code_judge, path: 'touch ran'}, evaluators: [{type: is-json}]}]",
         "a grader would run 'touch ran'"),
        ("[{type: composite, evaluators: [{type: assert-set, assert: [{script: touch ran}]}]}]", "a grader would run 'touch ran'"),
        ("['evil.py:run']", "a measure runs 'evil.py:run'"),
        ("[{measure: 'evil.py:run', k: 5}]", "a measure runs 'evil.py:run'"),
        ("[{type: composite, evaluators: [{type: 'evil.py:run'}]}]", "a measure runs 'evil.py:run'"),
        ("[{type: contains, value: Steam}]", "the target rag would run a program or send a request"),
        ("[{type: contains, value: 'evil.py:run'}]\ntarget: said", ""),
        ("[{type: rubrics, criteria: ['it names script: touch ran']}]\ntarget: said", ""),
    ],
)  # fmt: skip
def test_what_is_not_trusted_runs_nothing(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    evaluators: str,
    refused: str,
) -> None:
    """Scripts, measures in files and live targets: with the place, before anything is imported or run; their text alone is no code."""
    monkeypatch.chdir(folder)
    (folder / "evil.py").write_text("open('ran', 'w')")
    text = (folder / ".agentv/targets.yaml").read_text().rstrip()[:-1]
    (folder / ".agentv/targets.yaml").write_text(f"{text}, {{name: said, provider: mock, response: x}}]\n")
    evaluators += "" if "target:" in evaluators else "\ntarget: rag"
    (folder / "e.yaml").write_text(f"evaluators: {evaluators}\ncases: [{{query: q}}]\n")
    words = ("--judge", "lexical", "--ledger", "l.sqlite", "-o", "out")
    code = inside(monkeypatch, "run", "e.yaml", "--untrusted", *words)
    said = capsys.readouterr().err
    assert (code == 2) is bool(refused), said
    assert refused in said
    assert not refused or "yaml:" in said
    assert not (folder / "ran").exists()
    assert (folder / "out").exists() is not bool(refused)


def test_each_case_is_asked_as_often_as_trials_says(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """In the file or by flag; the trials are rows of their own, and the case is one case."""
    monkeypatch.chdir(folder)
    (folder / "e.yaml").write_text(
        "target: rag\ntrials: 2\nassertions: [{type: is-json}]\ncases: [{id: one, query: q}]\n"
    )
    assert inside(monkeypatch, "run", "e.yaml", "--json", "-o", "r", "--ledger", "l.sqlite") == 0
    document = json.loads(capsys.readouterr().out)
    assert [(row["sample"], row["trial"]) for row in document["scores"]] == [("one", 0), ("one", 1)]
    assert len((folder / "r" / "samples.jsonl").read_text().splitlines()) == 2
    assert (
        inside(monkeypatch, "run", "e.yaml", "--json", "--trials", "3", "-o", "s", "--ledger", "l.sqlite")
        == 0
    )
    assert len(json.loads(capsys.readouterr().out)["scores"]) == 3


@pytest.mark.parametrize(
    ("file", "case", "code"),
    [("0.5", "", 0), ("0.6", "", 1), ("0.6", "0.4", 0), ("", "0.6", 1), ("0.5", "0.6", 1)],
)
def test_the_least_score_of_each_case_is_a_gate(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    file: str,
    case: str,
    code: int,
) -> None:
    """Of the file, or of a case: one of two assertions holds, so the case has .5; the other case has 1."""
    monkeypatch.chdir(folder)
    of_file = f"execution: {{threshold: {file}}}\n" if file else ""
    of_case = f", execution: {{threshold: {case}}}" if case else ""
    (folder / "e.yaml").write_text(
        f"{of_file}assertions: [{{type: contains, value: a}}, {{type: contains, value: b}}]\n"
        f"cases: [{{id: one, query: q, response: a{of_case}}}, {{id: two, query: q, response: ab}}]\n"
    )
    assert inside(monkeypatch, "run", "e.yaml", "--json", "-o", "r", "--ledger", "l.sqlite") == code
    gates = json.loads(capsys.readouterr().out)["gates"]
    assert [gate["outcome"] for gate in gates] == ["failed" if code else "passed"]
    assert gates[0]["gate"] == "required score of each case"
    assert not code or gates[0]["detail"] == "below its threshold in one; measured on 2 of 2 samples"


def test_gates_of_the_file_on_measures_that_are_not_asked_for_are_dropped_aloud(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`-m` takes the place of the file's measures; its gates on others cannot be decided, and that is said."""
    monkeypatch.chdir(folder)
    (folder / "e.yaml").write_text(
        "measures: [RR, R@5]\ngates: ['mean(R@5)>=0.5', 'mean(RR)>=0.5']\n"
        "cases: [{id: one, query: q, contexts: [{id: d, text: t}], qrels: {d: 1}}]\n"
    )
    assert inside(monkeypatch, "run", "e.yaml", "-m", "RR", "--json", "--ledger", "l.sqlite") == 0
    said = capsys.readouterr()
    assert [gate["gate"] for gate in json.loads(said.out)["gates"]] == ["mean(RR)>=0.5"]
    assert (
        "e.yaml:2:9: the gate mean(R@5)>=0.5 is ignored, since R@5 is not among the measures of -m"
        in said.err
    )
