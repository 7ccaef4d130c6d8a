"""Eval files: our own shape and both generations of the AgentV shape, and what is said of what is wrong."""

import pytest

from germane.addons.agentv.evalfile import CaseEntry, Execution
from germane.errors import InputError, SourceLocation
from germane.evalfiles import EvalFile, read_eval_file
from germane.evalfiles.model import read_model
from germane.samples import Notices
from germane.types import Context, Message
from germane.yamltext import node_of

OLDER = """
description: Retrieval quality
dataset: rag
execution:
  target: default
  evaluators:
    - name: contextual_precision
      type: code_judge
      script: [python3, ../judge.py]
      cwd: scripts
      timeout: 5
      env: [OPENAI_API_KEY]
      target: {max_calls: 10}
      judge: labels
    - {name: style, type: llm_judge, prompt: Is it kind?, weight: 2, required: true}
evalcases:
  - id: no
    expected_outcome: It says why.
    input_messages:
      - {role: system, content: Be brief.}
      - {role: user, content: Hello}
      - {role: assistant, content: Hi}
      - role: user
        content:
          - {type: text, value: Why?}
          - {type: file, value: notes.md}
          - {type: file, value: /prompts/rules.md}
    expected_messages:
      - role: assistant
        tool_calls: [{tool: search, output: {results: [gold]}}]
      - {role: assistant, content: {answer: 42}}
    execution: {target: other}
    conversation_id: c1
  - id: two
    question: How?
    outcome: It says how.
    execution:
      evaluators: [{type: latency, threshold: 100}]
    rubrics:
      - Mentions steam
      - {id: r2, description: Is short, weight: 2, required: false}
"""


@pytest.fixture
def read(tmp_path):
    def reading(text: str, warn=None, faults=None) -> EvalFile:
        path = tmp_path / "evals" / "e.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return read_eval_file(path, warn=warn, faults=faults)

    (tmp_path / ".git").mkdir()
    (tmp_path / "prompts").mkdir()
    (tmp_path / "prompts" / "rules.md").write_text("Be kind.")
    (tmp_path / "evals").mkdir()
    (tmp_path / "evals" / "notes.md").write_text("Steam rises.")
    return reading


def fault(read, text: str) -> InputError:
    with pytest.raises(InputError) as caught:
        read(text)
    assert caught.value.fix
    return caught.value


def test_the_older_generation(read, tmp_path):
    """Every key of a case and of an evaluator is where it belongs."""
    file = read(OLDER)
    assert (file.description, file.dataset, file.target) == ("Retrieval quality", "rag", "default")
    script, style = file.measures
    assert script.spec == {
        "name": "contextual_precision",
        "type": "code_judge",
        "script": ("python3", "../judge.py"),
        "cwd": "scripts",
        "timeout": 5,
        "env": ("OPENAI_API_KEY",),
        "target": {"max_calls": 10},
        "judge": "labels",
    }
    assert (style.spec["weight"], style.spec["required"], style.spec["prompt"]) == (2, True, "Is it kind?")
    assert style.node.at(["prompt"]) == SourceLocation(str(file.path), 15, 38)
    first, second = file.cases
    assert (first.sample.id, first.target, first.conversation_id) == ("no", "other", "c1")
    assert first.sample.query == first.question == "Why?\n\nSteam rises."
    assert first.sample.history == (
        Message(role="user", content="Hello"),
        Message(role="assistant", content="Hi"),
    )
    assert first.sample.reference == first.reference_answer == '{"answer": 42}'
    assert first.expected_outcome == "It says why."
    assert first.guideline_files == (str(tmp_path / "prompts" / "rules.md"),)
    assert first.input_files == (str(tmp_path / "evals" / "notes.md"),)
    assert first.expected_messages[0].tool_calls[0].output == {"results": ("gold",)}
    assert first.sample.contexts is None
    assert (second.sample.query, second.sample.reference, second.reference_answer) == (
        "How?",
        None,
        "",
    )
    assert (first.sample.criterion, second.sample.criterion) == ("It says why.", "It says how.")


def test_a_case_keeps_the_files_graders_unless_it_has_its_own(read):
    """`execution:` without evaluators changes the target only; with evaluators it replaces the file's."""
    first, second = read(OLDER).cases
    assert [g.name for g in first.graders] == ["contextual_precision", "style"]
    assert [g.name for g in second.graders] == ["latency", "rubrics"]
    assert second.graders[1].spec["rubrics"] == (
        "Mentions steam",
        {"id": "r2", "description": "Is short", "weight": 2, "required": False},
    )
    assert second.graders[1].node.at(["rubrics", 1, "weight"]).line == 41


NEWER = """
target: rag
assertions:
  - {name: precision, type: code-grader, command: python3 judge.py}
tests:
  - id: a
    criteria: It says why.
    input: Why?
    expected_output: Because.
    assertions:
      - Mentions steam
      - {type: contains, value: steam, metric: has-steam}
  - id: b
    criteria: c
    input: [{role: user, content: How?}]
    assertions: [{type: latency, threshold: 5}]
"""


@pytest.mark.parametrize(
    ("content", "is_reference"),
    [
        ('{"retrieved_context": ["a", "b"]}', False),
        ('["a", {"text": "b"}]', False),
        ("{contexts: [a]}", False),
        ('{"retrieved_context": ["a"], "answer": "b"}', True),
        ("a text", True),
        ("[1971]", True),
    ],
)
def test_an_expected_list_of_contexts_is_no_reference(read, content, is_reference):
    """The script still gets it as the reference answer; measures that need a reference do not."""
    quoted = content if content.startswith("{c") else "'" + content + "'"
    (case,) = read(f"""
evalcases:
  - id: a
    question: Why?
    expected_outcome: It finds both.
    expected_messages: [{{role: assistant, content: {quoted}}}]
""").cases
    assert case.reference_answer
    assert (case.sample.reference is not None) is is_reference
    assert case.sample.criterion == "It finds both."


def test_graders_without_a_name_are_told_apart_by_what_they_look_for(read):
    """Equal ones are one; others of the same type are numbered."""
    names = read("""
assertions: [{type: contains, value: a}, {type: contains, value: b}, {type: contains, value: a}]
cases: [{query: a}]
""").measures
    assert [grader.name for grader in names] == ["contains-a", "contains-b"]


def test_the_newer_generation(read):
    """A test's assertions add to the file's; a text among them is something that must be true."""
    a, b = read(NEWER).cases
    assert (a.sample.query, a.sample.reference, a.expected_outcome) == ("Why?", "Because.", "It says why.")
    assert [(g.name, g.spec["type"]) for g in a.graders] == [
        ("precision", "code-grader"),
        ("rubrics", "rubrics"),
        ("has-steam", "contains"),
    ]
    assert a.graders[0].spec["command"] == "python3 judge.py"
    assert (b.sample.query, [g.name for g in b.graders]) == ("How?", ["precision", "latency"])


def test_our_own_shape(read, tmp_path):
    """Measures by name, gates with their places, data and cases of our own fields."""
    (tmp_path / "evals" / "samples.jsonl").write_text('{"query": "a"}')
    file = read("""
judge: [lexical, openai:gpt-4o-mini]
repeat: 2
batch: 10
reading: single
against: query
measures:
  - nDCG@10 R@10
  - {measure: context_precision@5, required: 0.7, weight: 2, strict: true, expectedRelevantCount: 2, rel: 3}
gates: ["mean(nDCG@10)>=0.7"]
data: samples.jsonl
target: bm25
targets: ../targets.yaml
compatibility: agentv
contexts_from: text
doc-id: "<(.*)>"
columns: {query: Frage}
cases:
  - {id: q1, query: why?, reference: r, qrels: {d1: 2}, tags: [no], contexts: [t, {id: d1, text: u, grade: 3}]}
""")
    assert (file.judge, file.against) == ("lexical openai:gpt-4o-mini", "query")
    assert (file.repeat, file.batch, file.reading) == (2, 10, "single")
    assert [g.name for g in file.measures] == ["nDCG@10", "R@10", "context_precision@5"]
    assert file.measures[2].spec["rel"] == 3
    assert file.gates == (("mean(nDCG@10)>=0.7", SourceLocation(str(file.path), 10, 9)),)
    assert file.data == (tmp_path / "evals" / "samples.jsonl",)
    assert (file.target, file.targets_file) == ("bm25", tmp_path / "targets.yaml")
    assert (file.contexts_from, file.doc_id, file.columns) == ("text", "<(.*)>", {"query": "Frage"})
    (case,) = file.cases
    assert case.sample.contexts == (Context(text="t"), Context(id="d1", text="u", grade=3))
    assert (case.sample.tags, case.sample.qrels) == (("no",), {"d1": 2})
    assert case.graders == file.measures


def test_metrics_is_another_word_for_measures(read):
    """And both together are a mistake."""
    assert read("metrics: [R@5]\ncases: [{query: a}]").measures[0].name == "R@5"
    error = fault(read, "metrics: [R@5]\nmeasures: [P@5]\ncases: [{query: a}]")
    assert "are two names of the key" in str(error)


def test_unknown_keys(read):
    """A key close to a known one is an error with its line and the known one; any other is a warning."""
    text = "descripton: d\ncases:\n  - query: a\n    referense: r\n    note: n\n    x_y: 1\nthing: 1\n"
    notices, faults = Notices(), list[InputError]()
    read(text, warn=notices, faults=faults)
    assert [(str(f.place).rpartition("e.yaml:")[2], f.fix) for f in faults] == [
        ("1:1", "did you mean 'description'?"),
        ("4:5", "did you mean 'reference'?"),
    ]
    assert [(n.place.line, n.place.column, n.fix) for n in notices] == [  # type: ignore[union-attr]
        (7, 1, "remove it"),
        (6, 5, "put it under metadata:"),
    ]
    with pytest.raises(
        InputError, match=r"1:1: an eval file has the unknown key 'descripton'; did you mean 'descr"
    ):
        read(text)


@pytest.mark.parametrize(
    ("text", "place", "key"),
    [
        ("gate: ['mean(RR)>=2']", "1:1", "gates"),
        ("measurs: [RR]", "1:1", "measures"),
        ("evalCase: [{query: a}]", "1:1", "evalcases"),
        ("execution: {treshold: 0.9}", "1:13", "threshold"),
    ],
)
def test_misspelt_keys(read, text, place, key):
    """On every level of the file."""
    faults: list[InputError] = []
    read(f"{text}\ncases: [{{query: a}}]\n", faults=faults)
    (found,) = (fault for fault in faults if "unknown key" in fault.problem)
    assert str(found.place).endswith(f"e.yaml:{place}")
    assert found.fix == f"did you mean {key!r}?"


AGENTV = {
    "": """$schema assertions author category description eval_cases execution input input_files license name
        preprocessors requires tags target tests version workspace""",
    "tests": """aggregation assertions conversation_id criteria depends_on evaluators execution expected_output id input
        input_files metadata mode on_dependency_failure on_turn_failure suite turns vars window_size workspace""",
    "execution": """assertions budgetUsd budget_usd cache evaluators failOnError fail_on_error skip_defaults target
        targets threshold trials workers""",
}
"""The keys of eval files in the schema of AgentV 4.42.4, by where they stand."""


@pytest.mark.parametrize(("where", "model"), [("", EvalFile), ("tests", CaseEntry), ("execution", Execution)])
def test_keys_of_agentv_are_no_misspellings(where, model):
    """What AgentV's own schema has is never taken for a misspelling of ours."""
    for key in AGENTV[where].split():
        faults: list[InputError] = []
        try:
            read_model(model, node_of({key: "x"}, SourceLocation("e.yaml", 1, 1)), faults)
        except InputError as fault:
            faults.append(fault)
        assert not [
            fault
            for fault in faults
            if "has the unknown key" in fault.problem and "support" not in fault.problem
        ], key


@pytest.mark.parametrize(
    ("text", "line", "column", "problem"),
    [
        ("- a", 1, 1, "an eval file is a list"),
        ("judge: [[a]]\ncases: [{query: a}]", 1, 9, "judge[0] is a list"),
        ("against: all\ncases: [{query: a}]", 1, 10, "against is the string 'all'"),
        ("description: d", 1, 1, "names no data"),
        ("data: none.jsonl", 1, 7, "is 'none.jsonl', a file that does not exist"),
        ("cases: {a: 1}", 1, 8, "the cases must be a list, not a mapping"),
        ("evalcases: []\ntests: []", 1, 1, "one list of cases"),
        ("cases: [a]", 1, 9, "a case is the string 'a'"),
        ("cases: [{id: a}]", 1, 9, "no query"),
        (
            "cases:\n  - {id: a, query: b}\n  - {id: a, query: c}",
            3,
            5,
            "case ids must be unique; 'a' also occurs on line 2",
        ),
        ("cases: [{query: a, contexts: [{text: t, grade: 7}]}]", 1, 41, "contexts[0].grade is the number 7"),
        ("cases: [{query: a, question: b}]", 1, 20, "'query' and 'question' are two names of the key"),
        ("cases: [{query: a, input: [{content: b}]}]", 1, 27, "a message must have a role"),
        ("cases: [{input: [{role: user, content: [{type: file, value: x.md}]}]}]", 1, 17, "no file 'x.md'"),
        (
            "measures: [{name: a, type: P@5}, {name: a, type: R@5}]\ncases: [{query: a}]",
            1,
            34,
            "graders must have different names; 'a' occurs twice",
        ),
        ("columns: {quer: a}\ncases: [{query: a}]", 1, 10, "did you mean query"),
        ("judge: a\nJudge: b\ncases: [{query: a}]", 2, 1, "are the same key"),
    ],
)
def test_faults_have_their_place(read, text, line, column, problem):
    """Whatever is wrong is said with line and column."""
    error = fault(read, text)
    assert problem in str(error)
    assert error.place is not None
    assert (error.place.line, error.place.column) == (line, column)


def test_values_keep_their_text_where_a_text_is_wanted(read):
    """`no`, numbers and dates as ids and queries are what was written."""
    cases = read("cases: [{id: no, query: yes}, {id: 012, input: 2026-11-21}]").cases
    assert [(c.sample.id, c.sample.query) for c in cases] == [("no", "yes"), ("012", "2026-11-21")]


def test_the_environment_in_an_eval_file(read, monkeypatch):
    """`${{ NAME }}` is the variable's value, a number where it stands alone and unquoted; one that is not set is a fault."""
    monkeypatch.setenv("RUNS", "3")
    file = read("trials: ${{ RUNS }}\ntarget: t\ncases: [{query: 'q${{RUNS}}', id: '${{ RUNS }}'}]")
    assert (file.trials, file.cases[0].sample.query, file.cases[0].sample.id) == (3, "q3", "3")
    monkeypatch.delenv("RUNS")
    assert "e.yaml:2:10: the environment variable RUNS is not set" in str(
        fault(read, "cases:\n- query: ${{ RUNS }}")
    )
