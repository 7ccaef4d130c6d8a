"""Graders of an eval file: every type and spelling, warnings for what is not understood, errors with their place."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import pytest

from germane import addons
from germane.addons.agentv.graders import (
    CodeGrader,
    Composite,
    Cost,
    FieldAccuracy,
    Latency,
    LLMGrader,
    TextAssertion,
    TokenUsage,
    ToolTrajectory,
)
from germane.addons.agentv.graders.llm_grader import VARIABLES, FreeForm
from germane.addons.agentv.graders.rules import Test
from germane.errors import InputError
from germane.evalfiles import Case
from germane.graders import CaseGrader, MeasureGrader, Where, grader_of
from germane.samples.files import Notice
from germane.types import Sample
from germane.yamltext import parse_yaml


def read(text: str, folder: Path = Path()) -> tuple[CaseGrader, list[Notice]]:
    """The grader of a YAML text, and the warnings."""
    warned = list[Notice]()
    where = Where(folder=folder, warn=warned.append)
    return grader_of(parse_yaml(text, "e.yaml"), where), warned


FIELD = "fields: [{path: a}]"
TYPES = [
    ("type: context_precision@5", MeasureGrader),
    ("type: llm_judge", LLMGrader),
    ("type: llm-grader", LLMGrader),
    ("type: rubrics\ncriteria: [is polite]", LLMGrader),
    ("type: rubric\nrubrics: [{description: is polite}]", LLMGrader),
    ("type: code_judge\nscript: [cat]", CodeGrader),
    ("type: code-grader\ncommand: cat", CodeGrader),
    ("name: mine\nscript: cat", CodeGrader),
    (f"type: field_accuracy\n{FIELD}", FieldAccuracy),
    (f"type: fieldAccuracy\n{FIELD}", FieldAccuracy),
    ("type: tool-trajectory\nmode: any_order\nminimums: {a: 1}", ToolTrajectory),
    ("type: latency\nthreshold: 5", Latency),
    ("type: cost\nbudget: 0.1", Cost),
    ("type: token_usage\nmaxTotal: 5", TokenUsage),
    ("type: composite\nevaluators: [{type: latency, threshold: 5}]", Composite),
    ("type: assert-set\nassert: [{type: latency, threshold: 5}]", Composite),
    ("type: is-json", TextAssertion),
]


def test_every_type_that_is_declared_is_a_grader() -> None:
    """Under its own name; its tests are those that the assertion on texts knows."""
    kinds = addons.own()["agentv"].graders
    made = {name: addons.load(kind.make) for name, kind in kinds.items() if kind.make}
    assert {name for name, kind in made.items() if kind is TextAssertion} == {*get_args(Test)}
    assert all(kind.type == name for name, kind in made.items() if not kinds[name].fixed)


@pytest.mark.parametrize(("text", "kind"), TYPES)
def test_every_type_is_read_without_a_warning(text: str, kind: type[CaseGrader]) -> None:
    """In the words of both generations."""
    grader, warned = read(text)
    assert type(grader) is kind
    assert not warned


@pytest.mark.parametrize(("text", "_"), TYPES)
def test_what_every_grader_has(text: str, _: object) -> None:
    """Weight, gate and name, whatever the type; a key of nobody's is a warning with its place."""
    grader, warned = read(f"{text}\nweight: 2\nrequired: 0.5\nmin_score: 0.4\nzzz: 1")
    assert (grader.weight, grader.gate, grader.min_score) == (2, 0.5, 0.4)
    if isinstance(grader, CodeGrader):
        assert grader.config == {"zzz": 1}
    else:
        (one,) = warned
        assert "'zzz'" in one.problem
        assert one.place is not None
        assert one.place.line == text.count("\n") + 5


@pytest.mark.parametrize("strict", ["strict", "strictMode", "strict_mode", "strict-mode"])
@pytest.mark.parametrize("count", ["expectedRelevantCount", "expected_relevant_count"])
@pytest.mark.parametrize("nested", [False, True])
def test_options_of_a_measure_in_every_spelling(strict: str, count: str, nested: bool) -> None:
    """On the top level or under config."""
    options = {strict: True, count: 2, "retrievalContext": ["a"], "k": 3, "threshold": 0.5}
    spec: dict[str, Any] = {"type": "context_precision", **({"config": options} if nested else options)}
    warned: list[Notice] = []
    grader = grader_of(spec, Where(warn=warned.append))
    assert isinstance(grader, MeasureGrader)
    assert str(grader.measure) == "context_precision@3"
    assert (grader.strict, grader.expected_relevant_count, grader.contexts) == (True, 2, ("a",))
    assert grader.min_score == 0.5
    assert not warned


def test_parameters_of_a_measure_stand_beside_it() -> None:
    """With the cut-off as `k`."""
    assert grader_of({"type": "P", "rel": 2, "k": 5}).label == "P(rel=2)@5"


def test_a_script_s_options(tmp_path: Path) -> None:
    """Its folder, its judge's limit, its variables; what has no meaning is its config."""
    (tmp_path / "sub").mkdir()
    text = """
type: code_judge
script: [python3, grade.py]
cwd: sub
timeout_seconds: 5
env: KEY
target: {max_calls: 3}
threshold: 0.7
config: {strict: true}
"""
    grader, warned = read(text, tmp_path)
    assert isinstance(grader, CodeGrader)
    assert (grader.cwd, grader.timeout, grader.env) == (str(tmp_path / "sub"), 5, ("KEY",))
    assert (grader.max_calls, grader.asks) == (3, True)
    assert grader.config == {"threshold": 0.7, "strict": True}
    assert not warned
    assert grader_of({"script": "cat", "target": "gpt"}).model_dump()["config"] == {"target": "gpt"}


@pytest.mark.parametrize("script", ["npx --yes tsx ./evaluators/grade.ts", "[node, ./evaluators/grade.ts]"])
def test_a_script_beside_the_eval_files_folder_is_found(tmp_path: Path, script: str) -> None:
    """It starts where its file stands, in the folder of the eval file first; a `cwd` that is given counts."""
    evals = tmp_path / "evals"
    for folder in (evals, tmp_path / "evaluators"):
        folder.mkdir()
    (tmp_path / "evaluators" / "grade.ts").write_text("")
    grader, warned = read(f"script: {script}", evals)
    assert isinstance(grader, CodeGrader)
    assert grader.cwd == str(tmp_path)
    assert not warned
    (evals / "evaluators").mkdir()
    (evals / "evaluators" / "grade.ts").write_text("")
    grader, _ = read(f"script: {script}", evals)
    assert isinstance(grader, CodeGrader)
    assert grader.cwd == str(evals)


def test_a_misspelt_key_of_a_script() -> None:
    """It is an error beside the script; under config any key stands, and beside it one that is close to none."""
    with pytest.raises(
        InputError, match=r"e\.yaml:2:1: code_judge has the unknown key 'timout'; did you mean 'timeout'\?"
    ):
        read("script: cat\ntimout: 5")
    grader, notices = read("script: cat\ncolour: red\nconfig: {timout: 5, requird: true}")
    assert isinstance(grader, CodeGrader)
    assert grader.config == {"timout": 5, "requird": True, "colour": "red"}
    assert not notices


@pytest.mark.parametrize(
    "text",
    [
        "type: llm_judge\nprompt: Is {{anwser}} good?",
        "type: llm_judge\nprompt: It names {{ Question }}\nrubrics: [a]",
        "type: composite\nevaluators: [is-json]\naggregator: {type: llm_judge, prompt: '{{RESULTS}}'}",
    ],
)
def test_a_variable_that_does_not_exist_is_an_error(text: str, tmp_path: Path) -> None:
    """When the file is read, with the place of the prompt and the variables that there are."""
    with pytest.raises(
        InputError, match=r"e.yaml:[23]:\d+: .*prompt uses the unknown variable \{\{"
    ) as caught:
        read(text, tmp_path)
    listed = "EVALUATOR_RESULTS_JSON" if "composite" in text else "candidate_answer, question"
    assert f"the variables are {listed}" in str(caught.value)


def test_a_variable_of_a_prompt_file_is_looked_at_too(tmp_path: Path) -> None:
    """The message names the file."""
    (tmp_path / "p.md").write_text("Grade {{output}} by {{criterion}}")
    with pytest.raises(InputError, match=r"prompt p.md uses the unknown variable \{\{criterion\}\}"):
        read("type: llm_judge\nprompt: p.md", tmp_path)


def test_every_variable_has_a_value() -> None:
    """What the documentation lists is what a template is filled with."""
    asked = next(iter(LLMGrader().compute(Case(sample=Sample(id="1", query="q", response="r")))))
    (question,) = asked
    assert isinstance(question, FreeForm)
    assert set(question.values) == set(VARIABLES)


def test_a_prompt_may_be_a_file(tmp_path: Path) -> None:
    """By file://, or by a name that ends like one."""
    (tmp_path / "p.md").write_text("Grade {{output}}", "utf-8")
    for name in ("file://p.md", "p.md"):
        grader, _ = read(f"type: llm_judge\nprompt: {name}", tmp_path)
        assert isinstance(grader, LLMGrader)
        assert grader.prompt == "Grade {{output}}"
    with pytest.raises(InputError, match=r"e.yaml:2:9: prompt q.md in .* cannot be read"):
        read("type: llm_judge\nprompt: file://q.md", tmp_path)


def test_statements_of_a_list_become_one_rubric() -> None:
    """It stands in the place of the first, and weighs as much as they are many."""
    grader = grader_of({"type": "composite", "assertions": ["is nice", {"type": "is-json"}, "is short"]})
    assert isinstance(grader, Composite)
    found = grader.graders
    assert [type(one) for one in found] == [LLMGrader, TextAssertion]
    rubric = found[0]
    assert isinstance(rubric, LLMGrader)
    assert [item.description for item in rubric.rubrics] == ["is nice", "is short"]
    assert rubric.weight == 2
    assert grader_of("nDCG@10").label == "nDCG@10"


def test_composites_nest_and_hand_on_the_compatibility() -> None:
    """Down to the last member."""
    leaf = {"name": "leaf", "type": "latency", "threshold": 1}
    inner = {
        "name": "inner",
        "type": "composite",
        "evaluators": [leaf],
        "aggregator": {"type": "weighted_average"},
    }
    grader = grader_of({"type": "composite", "evaluators": [inner]}, Where(compatibility="agentv"))
    assert isinstance(grader, Composite)
    (member,) = grader.graders
    assert isinstance(member, Composite)
    assert member.graders[0].compatibility == "agentv"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("weight: 1", "e.yaml:1:1: this grader has no type; write type: context_precision@5"),
        (
            "type: [1]",
            "e.yaml:1:1: the type of this grader must be a string, not a list; write type: context_precision@5",
        ),
        (
            "type: llm-judg",
            "e.yaml:1:1: unknown grader or measure 'llm-judg'; did you mean 'llm_judge'?",
        ),
        ("type: nDCG@x", "e.yaml:1:1: 'nDCG@x': the cut-off 'x' is not a whole number; write nDCG@10"),
        (
            "type: latency\nthreshold: fast",
            "e.yaml:2:12: threshold is the string 'fast', not a number; write a number",
        ),
        ("type: latency", "e.yaml:1:1: latency has no threshold; write threshold: ..."),
        ("type: latency\nthreshold: 1\nweight: -1", "e.yaml:3:9: weight is the number -1; write a number"),
        (
            "type: latency\nthreshold: 1\nrequired: 2",
            "e.yaml:3:11: required is the number 2, neither true nor a number from 0 to 1; write true",
        ),
        ("type: token_usage", "write max_total: 2000"),
        (
            "type: field_accuracy\nfields:\n- path: a\n  match: fuzzy",
            "e.yaml:4:10: fields[0].match is the string 'fuzzy'; write 'exact', 'numeric_tolerance' or 'date'",
        ),
        (
            "type: field_accuracy\nfields: []",
            "e.yaml:2:9: fields is an empty list; write at least 1",
        ),
        ("type: tool_trajectory\nmode: exact", "write expected: [{tool: search}]"),
        ("type: regex\nvalue: (", "the regular expression is invalid"),
        ("type: composite", "composite has no graders; write graders: ..."),
        ("type: composite\nevaluators:\n- type: latency", "e.yaml:3:3: latency has no threshold"),
        (
            "type: composite\nevaluators: [{type: is-json}]\naggregator: {type: best}",
            "aggregator.type is the string 'best'; write 'weighted_average', 'threshold', 'code_judge' or 'llm_judge'",
        ),
        ("type: code_judge", "code_judge has no script; write script: ..."),
        (
            "type: latency\nthreshold: 1\nThreshold: 2",
            "e.yaml:3:1: 'threshold' and 'Threshold' are the same key",
        ),
        ("- 1", "this grader is neither a mapping nor the name of a measure; write type"),
    ],
)
def test_mistakes_say_where_and_what_to_write(text: str, message: str) -> None:
    """File, line, column."""
    with pytest.raises(InputError) as raised:
        read(text)
    assert message in str(raised.value)


@pytest.mark.parametrize(
    ("text", "called"),
    [
        ("name: mine\ntype: latency\nthreshold: 1", "mine"),
        ("type: latency\nthreshold: 1", "latency"),
        ("type: context_precision@5", "context_precision@5"),
        ("type: contains\nvalue: a", "contains"),
    ],
)
def test_a_warning_names_the_grader_as_the_file_does(text: str, called: str) -> None:
    """Its name, else its type as it was written: one mapping stands beside many."""
    _, (one,) = read(f"{text}\nfoo: 1")
    assert one.problem == f"{called} has the unknown key 'foo': it is ignored"


@pytest.mark.parametrize(
    ("text", "place", "problem"),
    [
        (
            "type: field_accuracy\nfields:\n- path: a\n  tolerence: 1",
            "4:3",
            "a field has the unknown key 'tolerence'",
        ),
        ("type: contains\nvalue: x\nrequird: true", "3:1", "contains has the unknown key 'requird'"),
        ("type: nDCG@5\ntreshold: 1", "2:1", "nDCG@5 has the unknown key 'treshold'"),
        ("type: token_usage\nmax_total: 1\nnmae: x", "3:1", "token_usage has the unknown key 'nmae'"),
        (
            "type: composite\ngraders: [{type: contains, value: x, wieght: 2}]",
            "2:38",
            "contains has the unknown key 'wieght'",
        ),
    ],
)
def test_misspelt_keys(text: str, place: str, problem: str) -> None:
    """They are errors on every level, with the key that is meant."""
    with pytest.raises(InputError, match=rf"e\.yaml:{place}: {problem}; did you mean"):
        read(text)
