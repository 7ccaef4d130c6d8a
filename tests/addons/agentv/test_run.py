"""`germane run` of AgentV's eval files: scripts, targets per case, several targets."""

from pathlib import Path

import pytest

from germane.addons.agentv.graders.code_grader import TextCompletion
from germane.judges import LLMJudge
from tests.cli.conftest import Cli
from tests.cli.test_run import TARGETS, eval_file
from tests.judges.test_llm import in_turn
from tests.server import Act, ModelServer

SCRIPT = """
import json, sys
document = json.load(sys.stdin)
assert document["question"] and document["criteria"], document
print(json.dumps({"score": document["config"]["give"], "hits": [document["candidate_answer"]], "misses": []}))
"""


def test_an_eval_file_with_a_script_and_a_target_a_case(inside: Cli, tmp_path: Path) -> None:
    """Each case's execution is honoured; the file's evaluators stay where a case names only a target."""
    (tmp_path / "grade.py").write_text(SCRIPT)
    path = eval_file(
        tmp_path,
        """
description: two cases
execution:
  target: good
  evaluators:
    - {name: given, type: code_judge, script: [python3, grade.py], give: 0.25, required: 0.2}
    - {name: precision, type: context_precision}
judge: labels
evalcases:
  - id: one
    expected_outcome: is good
    input_messages: [{role: user, content: What is good?}]
  - id: two
    question: What is poor?
    expected_outcome: is poor
    execution: {target: poor}
""",
        TARGETS,
    )
    ran = inside("run", path, "--json")
    assert ran.code == 0, ran.err + ran.out
    values = {(row["sample"], row["measure"]): row["value"] for row in ran.json["scores"]}
    assert values == {
        ("one", "given"): 0.25,
        ("one", "precision"): 1.0,
        ("two", "given"): 0.25,
        ("two", "precision"): 0.5,
    }
    assert [case["score"] for case in ran.json["cases"]] == [0.625, 0.375]
    assert ran.json["scores"][1]["type"] == "context_precision"


def test_a_number_among_the_words_of_a_script_is_an_argument(inside: Cli, tmp_path: Path) -> None:
    (tmp_path / "grade.py").write_text("import sys; print('{\"score\": ' + sys.argv[1] + '}')")
    path = eval_file(
        tmp_path,
        "target: good\nevaluators: [{name: given, type: code_judge, script: [python3, grade.py, 0.25]}]\n"
        "cases: [{id: one, query: a}]\n",
        TARGETS,
    )
    ran = inside("run", path, "--json")
    assert [row["value"] for row in ran.json["scores"]] == [0.25], ran.err


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("[no-such-program-anywhere]", "could not start"),
        ("[python3, -c, 'import sys; sys.exit(\"broken inside\")']", "broken inside"),
        ("[python3, -c, 'print(0.9)']", "one JSON object"),
        ("[python3, -c, 'print(\"well done\")']", "must print one JSON document"),
        ("[python3, -c, 'print(\"{}\")']", "must print a number"),
        ("[python3, -c, 'import time; time.sleep(60)']", "stopped after"),
        ("no-such-command-anywhere --now", "exit code 127"),
    ],
)
def test_a_failing_script_is_an_error_and_never_a_score(
    inside: Cli, tmp_path: Path, script: str, why: str
) -> None:
    """Missing, crashing, silent, talkative or hanging: status error with the reason."""
    path = eval_file(
        tmp_path,
        f"""
target: good
evaluators: [{{name: given, type: code_judge, timeout: 2, script: {script}}}]
evalcases: [{{id: one, question: What?}}]
""",
        TARGETS,
    )
    ran = inside("run", path, "--json")
    (score,) = ran.json["scores"]
    assert (score["status"], score["value"]) == ("error", None)
    assert why in score["why"]
    assert ran.code == 3


def test_a_script_need_not_read_its_stdin(inside: Cli, tmp_path: Path) -> None:
    """A program that exits at once, with a document of a megabyte waiting, harms nobody."""
    path = eval_file(
        tmp_path,
        f"""
target: good
evaluators: [{{name: given, type: code_judge, script: 'echo "{{\\"score\\": 1}}"', padding: {"x" * 1_000_000}}}]
evalcases: [{{id: one, question: What?}}]
""",
        TARGETS,
    )
    ran = inside("run", path, "--json")
    assert [row["value"] for row in ran.json["scores"]] == [1.0], ran.err


def test_a_scripts_own_words_are_shown(inside: Cli, tmp_path: Path) -> None:
    """Hits that a grading script printed are in the report's judgements and in the explanation."""
    (tmp_path / "grade.py").write_text(SCRIPT)
    path = eval_file(
        tmp_path,
        "target: good\nevaluators: [{name: given, type: code_judge, script: [python3, grade.py], give: 0.25}]\n"
        "evalcases: [{id: one, question: What?, expected_outcome: that}]\n",
        TARGETS,
    )
    assert inside("run", path, "-o", "r").code == 0
    ran = inside("explain", "r", "one")
    assert "given = 0.2500" in ran.out
    assert '+ {"answer": "yes"' in ran.out


def test_a_python_target_answers_the_last_message(inside: Cli, tmp_path: Path) -> None:
    """The messages of a case are its query and history."""
    (tmp_path / "rag.py").write_text(
        "def answer(query): return {'response': f'you asked {query}', 'contexts': []}\n"
    )
    target = "targets: [{name: t, provider: python, function: 'rag:answer', path: .}]"
    path = eval_file(
        tmp_path,
        "target: t\nassertions: [{type: equals, value: you asked hello}]\n"
        "evalcases: [{id: a, input_messages: hello, expected_outcome: x}]\n",
        target,
    )
    assert [row["value"] for row in inside("run", path, "--json").json["scores"]] == [1.0]


def test_a_model_may_answer_a_script_at_any_length() -> None:
    """The length of a free text is for the script to say that asked for it."""
    long = Act(text="word " * 5000, finish="length", usage={"completion_tokens": 4096})
    with ModelServer(lambda _: long) as server:
        judge = LLMJudge("openai:test", base_url=server.url, api_key="k")
        (reply,) = in_turn(judge, [TextCompletion(text="Write a word.")])
    assert (reply.error, reply.payload) == (None, {"text": "word " * 5000})
    assert "max_tokens" not in server.asked[0].json
