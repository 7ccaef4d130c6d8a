"""`germane validate` of AgentV's eval files: every fault at once, in the words that a user reads."""

from __future__ import annotations

from pathlib import Path

from tests.cli.test_validate import agree, messages

SNAPSHOT = Path(__file__).with_name("malformed.txt")
CASE = "cases: [{query: a}]"
MALFORMED = [
    "compatibility: promptfoo\n" + CASE,
    "measures: [nope]\n" + CASE,
    "cases: {a: 1}",
    "evalcases: []\ntests: []",
    "cases: [a]",
    "cases: [{id: a}]",
    "cases: [{id: a, query: b}, {id: a, query: c}]",
    "cases: [{query: a, contexts: [{text: t, grade: 7}]}]",
    "cases: [{query: a, contexts: 5}]",
    "cases: [{query: a, qrels: {d: x}}]",
    "cases: [{query: a, question: b}]",
    "cases: [{query: a, input: [{content: b}]}]",
    "cases: [{input: [{role: user, content: [{type: file, value: x.md}]}]}]",
    "evaluators: [{type: code_judge}]\n" + CASE,
    "evaluators: [{type: code_judge, script: []}]\n" + CASE,
    "evaluators: [{type: code_judge, script: [python3, {a: 1}]}]\n" + CASE,
    "evaluators: [{type: code_judge, script: a.py, cwd: [b]}]\n" + CASE,
    "evaluators: [{type: composite, evaluators: [{type: contains, value: a}], aggregator: {type: code_judge, path: a.py, cwd: {}}}]\n"
    + CASE,
    "evaluators: [{type: code_judge, script: run, timeout: -1}]\n" + CASE,
    "evaluators: [{type: llm_judge, prompt: file://none.md}]\n" + CASE,
    "evaluators: [{type: rubrics, rubrics: [{id: a}]}]\n" + CASE,
    "evaluators: [{type: field_accuracy, fields: []}]\n" + CASE,
    "evaluators: [{type: field_accuracy, fields: [{path: a, match: near}]}]\n" + CASE,
    "evaluators: [{type: tool_trajectory, mode: sometimes}]\n" + CASE,
    "evaluators: [{type: latency}, {type: cost, budget: free}, {type: token_usage}]\n" + CASE,
    "evaluators: [{type: composite, evaluators: []}]\n" + CASE,
    "evaluators: [{type: composite, aggregator: vote, evaluators: [{type: latency, threshold: 1}]}]\n" + CASE,
    "assertions: [{type: contains}, {type: regex, value: '['}]\n" + CASE,
    "execution: {target: 5, trials: none, evaluators: [[]]}\n" + CASE,
    "execution: 7\n" + CASE,
    "tests:\n\t- id: a",
    "cases: !!python/object:os.system [a]",
    "cases: [{query: a}]\n---\ncases: [{query: b}]",
    "judgeModel: x\ncases: [{query: a, expected_relevant: 1, contexts: [{txt: a}]}]",
    "cases: [{query: a, qrels: {d: .nan}}]",
    "cases: [{id: a, query: [b], target: [x], metadata: 5, contexts: 7, tags: 5},\n  {id: a, query: c, qrels: [1, {}]}, {id: a, query: ''}]",
    "data: [none.jsonl, gone.csv]\ntarget: nowhere\ncases: [{query: a, target: gone}]",
    "evaluators: [{type: code_judge, script: run, cwd: 5, env: {A: 1}, target: {max_calls: many}}]\n" + CASE,
    "judge: [[a]]\nmeasures: [nope]\ngates: ['x']\ntarget: none\ncases: [{id: a}, {query: b, rubrics: [{weight: 1}]}]",
]


def test_malformed_files(tmp_path: Path) -> None:
    """Each fault has its place and says what to write."""
    agree(messages(tmp_path, MALFORMED), SNAPSHOT)
