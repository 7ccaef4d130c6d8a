"""The targets file: found upwards, its entries checked, its variables taken from the environment."""

import asyncio
from pathlib import Path

import pytest

from germane.errors import InputError, SourceLocation, TargetError
from germane.samples import Notices
from germane.targets import find_targets_file, open_target
from germane.targets.targetsfile import check_target
from germane.types import Context, Sample

QUERY = Sample(id="q1", query="why?", reference="r", contexts=None)


def write(folder: Path, text: str, name: str = "targets.yaml") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
    return path


def answer(target, asked=QUERY):
    return asyncio.run(target.answer(asked))


@pytest.mark.parametrize("name", ["targets.yaml", ".agentv/targets.yaml"])
def test_the_file_is_searched_upwards(tmp_path, name):
    """From the eval file's folder to the repository's root: the nearest one is meant."""
    (tmp_path / ".git").mkdir()
    path = write(tmp_path, "targets: [{name: a, provider: mock, response: x}]", name)
    below = tmp_path / "evals" / "deep"
    below.mkdir(parents=True)
    assert find_targets_file(below) == path
    assert answer(open_target("a", below)).response == "x"
    assert answer(open_target("a", path)).response == "x"


def test_the_search_ends_at_the_repositorys_root(tmp_path):
    """A file above the repository is somebody else's."""
    write(tmp_path, "targets: []")
    (tmp_path / "repo" / ".git").mkdir(parents=True)
    with pytest.raises(InputError, match="no targets file"):
        find_targets_file(tmp_path / "repo")


def test_variables_come_from_the_environment(tmp_path, monkeypatch):
    """${{ NAME }} anywhere in the entry that is opened; other entries need not be complete."""
    path = write(
        tmp_path,
        "targets: [{name: a, provider: mock, response: '${{ WORD }}!'}, {name: b, response: '${{ NO }}'}]",
    )
    monkeypatch.setenv("WORD", "${{ WORD }}")
    assert answer(open_target("a", path)).response == "${{ WORD }}!"
    monkeypatch.delenv("WORD")
    with pytest.raises(InputError, match="variable WORD is not set") as caught:
        open_target("a", path)
    assert caught.value.place == SourceLocation(str(path), 1, 47)


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        ("targets: [{name: a, provider: http2}]", (1, 31), "unknown provider 'http2'"),
        ("targets: [{name: a}]", (1, 11), "has no provider"),
        ("targets: [{name: ab, provider: mock}]", (0, 0), "unknown target 'a'"),
        ("targets: [{provider: mock}]", (1, 11), "has no name"),
        ("targets: [{name: a}, {name: a}]", (1, 22), "target names must be unique; 'a' occurs twice"),
        ("goals: []", (1, 1), "has no list of targets"),
        ("targets: [{name: a, provider: mock}]", (1, 11), "has no response"),
        ("targets: [{name: a, provider: cli}]", (1, 11), "no command_template"),
        ("targets: [{name: a, provider: cli, command: ls}]", (1, 45), "command does not use the query"),
        (
            "targets: [{name: a, provider: cli, command: 'ls {PROMPT}', cwd: nowhere}]",
            (1, 11),
            "is not a folder",
        ),
        (
            "targets: [{name: a, provider: python, function: f}]",
            (1, 49),
            "function is the string 'f', not of the form module:name; write module:name",
        ),
        (
            "targets: [{name: a, provider: python, function: 'no_such_module_at_all:f'}]",
            (1, 11),
            "cannot be imported",
        ),
        ("targets: [{name: a, provider: python, function: 'json:f'}]", (1, 11), "no function 'f'"),
        ("targets: [{name: a, provider: recorded}]", (1, 11), "has no path; write path: answers.jsonl"),
        (
            "targets: [{name: a, provider: mock, response: x, workers: many}]",
            (1, 59),
            "workers is the string",
        ),
    ],
)
def test_faults_have_their_place(tmp_path, text, place, problem):
    """An entry that cannot work is an error when it is opened, not when it is asked."""
    path = write(tmp_path, text)
    with pytest.raises(InputError) as caught:
        open_target("a", path)
    assert problem in str(caught.value)
    assert caught.value.fix
    assert caught.value.place == SourceLocation(str(path), *place)


def test_an_unknown_provider_is_told_the_known_ones(tmp_path):
    """All of them, by name."""
    path = write(tmp_path, "targets: [{name: a, provider: gpt}]")
    with pytest.raises(InputError, match="mock or cli or http or python or recorded"):
        open_target("a", path)


def test_unknown_keys(tmp_path):
    """One that is close to a known key is an error, any other (also the `model` of AgentV's targets) a warning."""
    entry = "targets:\n  - name: a\n    provider: mock\n    response: y\n"
    with pytest.raises(
        InputError, match=r":5:5: a target has the unknown key 'respons'; did you mean 'response'\?"
    ):
        open_target("a", write(tmp_path, f"{entry}    respons: x\n"))
    notices = Notices()
    check_target("a", write(tmp_path, f"{entry}    colour: red\n    model: m\n"), warn=notices)
    assert [str(n.place) for n in notices] == [f"{tmp_path}/targets.yaml:{at}" for at in ("5:5", "6:5")]


def test_the_models_inside_a_system_are_kept(tmp_path):
    """What its answers can be grouped by later; a model of another name is a warning."""
    models = "{generator: gpt-4o, re-ranker: bge, embedder: e5}"
    path = write(tmp_path, f"targets: [{{name: a, provider: mock, response: x, models: {models}}}]")
    notices = Notices()
    check_target("a", path, warn=notices)
    found = open_target("a", path).models
    assert (found.generator, found.reranker, found.rewriter) == ("gpt-4o", "bge", None)
    assert ["embedder" in notice.problem for notice in notices] == [True]
    plain = write(tmp_path, "targets: [{name: a, provider: mock, response: x}]", "plain.yaml")
    assert open_target("a", plain).models.generator is None


def test_a_mock_answers_by_id(tmp_path):
    """`responses` by case, `response` for the others; a mapping is an answer with its parts."""
    text = """
targets:
  - name: a
    provider: mock
    responses:
      q1: {response: r1, contexts: [t, {id: d, text: u}]}
  - {name: b, provider: mock, responses: {q1: no}, response: {"contexts": ["t"]}}
"""
    path = write(tmp_path, text)
    got = answer(open_target("a", path))
    assert (got.response, got.contexts) == ("r1", (Context(text="t"), Context(id="d", text="u")))
    assert (got.id, got.reference) == ("q1", "r")
    with pytest.raises(TargetError, match="no response for the case 'q2'"):
        answer(open_target("a", path), Sample(id="q2", query="x"))
    assert answer(open_target("b", path)).response == "no"
    assert answer(open_target("b", path), Sample(id="q2", query="x")).contexts == (Context(text="t"),)


def test_a_recording_answers_by_id(tmp_path):
    """The answers of a samples file, joined by id; gold stays the asked sample's own."""
    lines = [
        '{"id": "q1", "query": "old", "response": "said", "contexts": ["t"], "reference": "other", "ms": 3}',
        '{"id": "q1", "query": "old", "response": "again", "trial": 1}',
    ]
    write(tmp_path, "\n".join(lines), "answers.jsonl")
    path = write(tmp_path, "targets: [{name: a, provider: recorded, path: answers.jsonl}]")
    target = open_target("a", path)
    got = answer(target)
    assert (got.query, got.reference, got.response) == ("why?", "r", "said")
    assert (got.contexts, got.metadata) == ((Context(text="t"),), {"ms": 3})
    assert answer(target, Sample(id="q1", query="x", trial=1)).response == "again"
    with pytest.raises(TargetError, match=r"answers\.jsonl has no answer for trial 2 of the id 'q1'"):
        answer(target, Sample(id="q1", query="x", trial=2))
    with pytest.raises(TargetError, match=r"answers\.jsonl has no answer for trial 0 of the id 'q9'"):
        answer(target, Sample(id="q9", query="x"))
    write(tmp_path, lines[0] + lines[1].replace("q1", "q2").join("\n\n"), "answers.jsonl")
    with pytest.raises(TargetError, match="has no answer for trial 1 of the id 'q1'"):
        answer(open_target("a", path), Sample(id="q1", query="x", trial=1))
    write(tmp_path, lines[0], "answers.jsonl")
    assert answer(open_target("a", path), Sample(id="q1", query="x", trial=1)).response == "said"


@pytest.mark.parametrize("named", ["a", "2"])
def test_a_recording_without_ids_answers_by_query(tmp_path, named):
    """Whether or not the case has an id; a query that it has twice, or not, has no answer."""
    rows = '{"query": "one", "response": "1"}\n{"query": "two", "response": "2"}\n{"query": "two", "response": "3"}'
    write(tmp_path, rows, "answers.jsonl")
    target = open_target(
        "r", write(tmp_path, "targets: [{name: r, provider: recorded, path: answers.jsonl}]")
    )
    assert answer(target, Sample(id=named, query="one")).response == "1"
    with pytest.raises(TargetError, match=r"answers\.jsonl has no ids, and no answers to the query 'three'"):
        answer(target, Sample(id="c", query="three"))
    with pytest.raises(TargetError, match=r"answers\.jsonl has no ids, and 2 answers to the query 'two'"):
        answer(target, Sample(id="c", query="two"))


def test_a_recording_of_several_systems_must_be_told_which(tmp_path):
    """`system:` picks one; without it nothing is guessed."""
    lines = [
        '{"id": "q1", "query": "x", "system": "s1", "response": "1"}',
        '{"id": "q1", "query": "x", "system": "s2"}',
    ]
    write(tmp_path, "\n".join(lines), "answers.jsonl")
    entry = "{{name: a, provider: recorded, path: answers.jsonl{}}}"
    path = write(tmp_path, "targets: [" + entry.format("") + "]")
    with pytest.raises(InputError, match="'s1', 's2'"):
        open_target("a", path)
    path = write(tmp_path, "targets: [" + entry.format(", system: s1") + "]")
    assert answer(open_target("a", path)).response == "1"
