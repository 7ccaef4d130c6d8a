"""`germane validate`: every fault at once, in the words that a user reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from germane.cli.validate import faults_of, validate

SNAPSHOT = Path(__file__).with_name("malformed.txt")
CASE = "cases: [{query: a}]"
MALFORMED = [
    "",
    "- a",
    "a: [",
    "a: b: c",
    "judge: a\njudge: b\n" + CASE,
    "judge: [[a]]\n" + CASE,
    "against: all\nrepeat: 0\nbatch: many\n" + CASE,
    "data: none.jsonl",
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
    "trials: 0\n" + CASE,
    "gates: [[a]]\n" + CASE,
    "gates: ['mean(R@5)']\nmeasures: [R@5]\n" + CASE,
    "gates: ['mean(P@5)>=1']\nmeasures: [R@5]\n" + CASE,
    "columns: {quer: a}\n" + CASE,
    "measures: [nDCGG@10]\n" + CASE,
    "measures: [P]\n" + CASE,
    "measures: ['P(rel=x)@5']\n" + CASE,
    "measures: [{weight: 2}]\n" + CASE,
    "measures: [[P@5]]\n" + CASE,
    "measures: [{type: P@5, weight: -1}, {type: R@5, required: 2}, {type: AP, strict: yes}]\n" + CASE,
    "measures: [{name: a, type: P@5}, {name: a, type: R@5}]\n" + CASE,
    "evaluators: [{type: code_judge}]\n" + CASE,
    "evaluators: [{type: code_judge, script: []}]\n" + CASE,
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
    "target: none\n" + CASE,
    "repeat: yes\ndoc_id: [a]\ncontexts_from: json\nreading: slow\ncompatibility: promptfoo\n" + CASE,
    "gates: ['foo(R@5)>=1', 'mean(R@5)=>1', 'share(R@5)>=.9']\nmeasures: [R@5]\n" + CASE,
    "execution: {target: 5, trials: none, evaluators: [[]]}\n" + CASE,
    "execution: 7\n" + CASE,
    "tests:\n\t- id: a",
    "description: 'open\n" + CASE,
    "judge: &a lexical\nreading: *b\n" + CASE,
    "cases: !!python/object:os.system [a]",
    "cases: [{query: a}]\n---\ncases: [{query: b}]",
    "judgeModel: x\ncases: [{query: a, expected_relevant: 1, contexts: [{txt: a}]}]",
    "cases: [{query: a, qrels: {d: .nan}}]",
    "cases: [{id: a, query: [b], target: [x], metadata: 5, contexts: 7, tags: 5},\n  {id: a, query: c, qrels: [1, {}]}, {id: a, query: ''}]",
    "data: [none.jsonl, gone.csv]\ntarget: nowhere\ncases: [{query: a, target: gone}]",
    "evaluators: [{type: code_judge, script: run, cwd: 5, env: {A: 1}, target: {max_calls: many}}]\n" + CASE,
    "judge: [[a]]\nmeasures: [nope]\ngates: ['x']\ntarget: none\ncases: [{id: a}, {query: b, rubrics: [{weight: 1}]}]",
]


def test_forty_malformed_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each fault has its place and says what to write; the messages are those of the snapshot.

    After a change that is meant: run this with the snapshot deleted, and read what it has written.
    """
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".git").mkdir()
    (tmp_path / "targets.yaml").write_text("targets: [{name: rag, provider: mock, response: x}]")
    lines = []
    for text in MALFORMED:
        Path("e.yaml").write_text(text)
        faults = [str(fault) for fault in faults_of(Path("e.yaml"), lambda _: None)]
        assert faults, text
        lines += [f"## {text}", *(fault.replace(str(tmp_path), "") for fault in faults), ""]
    said = "\n".join(lines)
    if not SNAPSHOT.exists():
        SNAPSHOT.write_text(said, "utf-8")
    assert said == SNAPSHOT.read_text("utf-8")
    assert len(MALFORMED) > 40


def test_every_line_of_the_data_and_every_key_of_a_grader(tmp_path: Path) -> None:
    """Not the first fault of a file of samples alone, nor of a grader, nor of a target."""
    (tmp_path / ".git").mkdir()
    (tmp_path / "d.jsonl").write_text(
        '{"query": 5, "tags": 3}\nno json\n{"query": "x", "contexts": 7, "evidence": 1}\n[]\n{"query": "x"}\n'
    )
    (tmp_path / "targets.yaml").write_text(
        "targets:\n  - {name: a, provider: http, url: [x], retries: -1, timeout: no}\n"
    )
    (tmp_path / "e.yaml").write_text(
        "data: d.jsonl\ntarget: a\nmeasures: [{type: latency, threshold: a, weight: b, required: 3}]\n"
    )
    found = [
        str(fault).replace(f"{tmp_path}/", "") for fault in faults_of(tmp_path / "e.yaml", lambda _: None)
    ]
    places = [fault.partition(": ")[0] for fault in found]
    assert sorted(places) == [
        "d.jsonl:1:11", "d.jsonl:1:22", "d.jsonl:2:1", "d.jsonl:3:28", "d.jsonl:3:43", "d.jsonl:4",
        "e.yaml:3:39", "e.yaml:3:50", "e.yaml:3:63",
        "targets.yaml:2:36", "targets.yaml:2:50", "targets.yaml:2:63",
    ]  # fmt: skip
    assert any("evidence is the number 1; write" in fault for fault in found)


def test_targets_and_samples_are_looked_at_by_themselves(tmp_path: Path) -> None:
    """A targets file and a file of samples are no eval files."""
    (tmp_path / "targets.yaml").write_text(
        "targets: [{name: a, provider: mock, response: x}, {name: b, provider: no}]"
    )
    (tmp_path / "d.jsonl").write_text('{"query": "x", "id": "a"}\n{"query": "y", "id": "a"}\n')
    (wrong,) = faults_of(tmp_path / "targets.yaml", lambda _: None)
    assert "unknown provider 'no'" in str(wrong)
    (wrong,) = faults_of(tmp_path / "d.jsonl", lambda _: None)
    assert "is there already, on line 1" in str(wrong)


def test_a_folder_may_be_named_from_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """`../evals` is not hidden, a folder within it whose name begins with a dot is."""
    for folder in ("evals/.old", "work"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "evals/a.yaml").write_text(f"measures: [R@5]\n{CASE}")
    (tmp_path / "evals/.old/b.yaml").write_text("a: [")
    monkeypatch.chdir(tmp_path / "work")
    assert validate([Path("../evals")], schema=False) == 2
    assert capsys.readouterr().out.startswith("R@5 cannot be computed")
