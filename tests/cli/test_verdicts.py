"""What a run decides: gates, cases, stand-ins and the exit code, the same in every format."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from germane.types import Json
from tests.cli.conftest import Cli, write_jsonl

ROWS: list[dict[str, Any]] = [
    {"id": "a", "query": "q", "qrels": {"d": 1}, "contexts": [{"id": "d", "text": "what q is"}]},
    {"id": "b", "query": "q", "qrels": {"d": 1}, "contexts": [{"id": "x", "text": "else"}, {"id": "d", "text": "q"}]},
    {"id": "c", "query": "q", "qrels": {"d": 1}, "contexts": []},
]  # fmt: skip


CASES: dict[str, list[dict[str, Json]]] = {"half": [{"id": "x"}], "whole": [{"id": "x"}, {"id": "d"}]}
"""Lists for two cases with the gold d and, of grade 2, x: R@2 fails the first, Success@1 passes both, abstained has neither."""


def cases_file(tmp_path: Path, *graders: str) -> str:
    """An eval file of these cases, graded by these."""
    rows = (
        {"id": name, "query": name, "qrels": {"d": 1, "x": 2}, "contexts": found}
        for name, found in CASES.items()
    )
    write_jsonl(tmp_path / "cases.jsonl", *rows)
    (tmp_path / "e.yaml").write_text(f"data: cases.jsonl\nmeasures: [{', '.join(graders)}]\n")
    return "e.yaml"


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """Three samples: found first, found second, not found."""
    path = tmp_path / "s.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in ROWS))
    return path


def counted(inside: Cli, tmp_path: Path, *words: object) -> tuple[Any, list[int]]:
    """What a run prints as JSON, and the failed cases that terminal, Markdown, JUnit and page count."""
    shown = inside("run", *words, "--no-cache", "-o", "r.md", "-o", "r.xml", "-o", "r.html")
    found = [re.search(r"(\d+) failed cases?", text) for text in (shown.out, (tmp_path / "r.md").read_text())]
    suite = next(
        one for one in ElementTree.parse(tmp_path / "r.xml").iter("testsuite") if one.get("name") == "cases"
    )
    page = json.loads(
        re.findall(r'id="data">(.*?)</script>', (tmp_path / "r.html").read_text(), re.DOTALL)[0]
    )
    counts = [*(int(one[1]) if one else 0 for one in found), int(suite.get("failures") or 0)]
    document = inside("run", *words, "--no-cache", "--json")
    return document, [*counts, (page["cases"] or {"failed": 0})["failed"]]


def test_no_gates_is_no_pass(inside: Cli, data: Path) -> None:
    """The verdict says so, in every format; the exit code is 0 and `passed` is true."""
    ran = inside("run", data, "-m", "RR", "-o", "r.md", "-o", "r")
    assert ran.code == 0
    assert "verdict  no gates (exit code 0)" in ran.out
    assert "**No gates** (exit code 0)" in (data.parent / "r.md").read_text()
    document = inside("score", "r", "--json").json
    assert (document["passed"], document["exit_code"], document["gates"]) == (True, 0, [])
    assert "verdict  passed (exit code 0)" in inside("score", "r", "--fail-under", "RR>=0").out


@pytest.mark.parametrize("measures", ["RR", "RR P@1 num_ret"])
def test_plain_samples_have_no_verdict(inside: Cli, data: Path, measures: str) -> None:
    """The mean of measures of unlike things is held against no limit, and no format counts failed cases."""
    ran, counts = counted(inside, data.parent, data, "-m", measures)
    assert [case["verdict"] for case in ran.json["cases"]] == [None] * 3
    assert counts == [0, 0, 0, 0]


@pytest.mark.parametrize(
    ("graders", "verdicts", "failed"),
    [
        (["{type: R@2}"], ["fail", "pass"], 1),
        (["{type: R@2, required: true}"], ["fail", "pass"], 1),
        (["{type: P@20}", "{type: R@2}"], ["fail", "fail"], 2),
        (["{type: Success@1}"], ["pass", "pass"], 0),
        (["{type: abstained}", "{type: R@2}"], ["fail", "pass"], 1),
    ],
)
def test_failed_cases_are_counted_alike(
    inside: Cli, tmp_path: Path, graders: list[str], verdicts: list[str], failed: int
) -> None:
    """Terminal, Markdown, JUnit and page count the cases whose verdict is fail."""
    ran, counts = counted(inside, tmp_path, cases_file(tmp_path, *graders))
    assert [case["verdict"] for case in ran.json["cases"]] == verdicts
    assert counts == [failed] * 4


def test_measures_of_an_eval_file_are_no_graders(inside: Cli, data: Path) -> None:
    """Their names alone give its samples no verdict; a grader beside them does."""
    (data.parent / "e.yaml").write_text("data: s.jsonl\nmeasures: [RR, P@1]\n")
    assert {case["verdict"] for case in inside("run", "e.yaml", "--json").json["cases"]} == {None}
    (data.parent / "e.yaml").write_text("data: s.jsonl\nmeasures: [{type: RR, name: first}]\n")
    verdicts = [case["verdict"] for case in inside("run", "e.yaml", "--json").json["cases"]]
    assert verdicts == ["pass", "fail", "fail"]


@pytest.mark.parametrize(
    ("graders", "code"),
    [
        (["{type: R@2, required: true}", "{type: abstained}"], 1),
        (["{type: Success@1, required: true}", "{type: abstained}"], 2),
        (["{type: Success@1}", "{type: abstained, required: true}"], 3),
        (["{type: abstained}"], 2),
    ],
)
def test_the_exit_code(inside: Cli, tmp_path: Path, graders: list[str], code: int) -> None:
    """A gate that failed is told before a measure that no sample could have; a required grader that is skipped is 3."""
    assert inside("run", cases_file(tmp_path, *graders), "--no-cache").code == code


def test_a_required_grader_that_is_skipped_in_one_case(inside: Cli, data: Path) -> None:
    """Skipped stays skipped: its gate and the case are undecided, whatever the others score."""
    rows = [ROWS[0], {**ROWS[0], "id": "b", "qrels": None}]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    (data.parent / "e.yaml").write_text(
        "data: s.jsonl\nmeasures: [{type: RR, required: true}, {type: context_precision, labels: judge}]\njudge: lexical\n"
    )
    ran = inside("run", "e.yaml", "--json", "--allow-stand-in")
    assert ran.code == 3
    assert [(gate["gate"], gate["outcome"]) for gate in ran.json["gates"]] == [("required RR", "undecided")]
    assert [case["verdict"] for case in ran.json["cases"]] == ["pass", "undecided"]


def test_a_stand_in_decides_nothing(inside: Cli, data: Path) -> None:
    """Gates on its verdicts are undecided in run, score and compare, unless they are allowed; gold decides."""
    words = ("run", data, "--judge", "lexical", "-m", "RR context_precision")
    judged, gold = ("--fail-under", "context_precision>=0"), ("--fail-under", "RR>=0.4")
    ran = inside(*words, *judged, "-o", "a")
    assert ran.code == 3
    assert "judged by a stand-in for a model, which decides nothing" in re.sub(r"\s+", " ", ran.out)
    assert "its order of systems is not people's: tau -.61" in re.sub(r"\s+", " ", ran.out)
    assert inside(*words, *gold, "-o", "b").code == 0
    assert inside(*words, *judged, "--allow-stand-in", "-o", "c").code == 0
    assert inside("score", "a", *judged).code == 3
    assert inside("score", "a", *judged, "--allow-stand-in").code == 0
    regression = ("score", "b", "--baseline", "a", "--fail-on-regression")
    assert inside(*regression).code == 3
    assert inside(*regression, "--allow-stand-in").code == 0
    margin = ("compare", "a", "b", "--margin", "context_precision: 0.9")
    assert inside(*margin).code == 3
    assert inside(*margin, "--allow-stand-in").code == 0
    assert inside("compare", "a", "b", "--margin", "RR: 0.9").code == 0
    assert inside("compare", "a", "b", "--margin", "RR: 5").code == 2


def test_a_required_grader_that_a_stand_in_judged(inside: Cli, data: Path) -> None:
    """It is undecided, below its threshold too, and so are its cases."""
    file = data.parent / "e.yaml"
    file.write_text("data: s.jsonl\njudge: lexical\nmeasures: [{type: context_precision, required: true}]\n")
    ran = inside("run", "e.yaml", "--json")
    assert (ran.code, {case["verdict"] for case in ran.json["cases"]}) == (3, {"undecided"})
    assert inside("run", "e.yaml", "--allow-stand-in").code == 1


REFUSED = [
    "gate: ['RR>=2']\nmeasures: [RR]\ndata: s.jsonl\n",
    "gates: ['change(RR)>-5']\nmeasures: [RR]\ndata: s.jsonl\n",
    "gates: ['min(mean(RR) by team)>=0']\nmeasures: [RR]\ndata: s.jsonl\n",
    "measures: [RR]\ndoc_id: '['\ndata: s.jsonl\n",
    "judge: nonsense\nmeasures: [context_precision]\ndata: s.jsonl\n",
    "judge: lexical\nmeasures: [context_recall, context_precision]\ndata: s.jsonl\n",
    "data: s.jsonl\nmeasures: [RR]\ntarget: here\n",
    "measures: [RR]\n",
]


@pytest.mark.parametrize("text", REFUSED)
def test_validate_calls_nothing_valid_that_run_refuses(inside: Cli, data: Path, text: str) -> None:
    """Both say the same fault and end with exit code 2."""
    (data.parent / ".git").mkdir()
    (data.parent / "targets.yaml").write_text(
        "targets: [{name: here, provider: cli, command_template: 'ls {PROMPT}', cwd: nowhere}]\n"
    )
    (data.parent / "e.yaml").write_text(text)
    checked, ran = inside("validate", "e.yaml"), inside("run", "e.yaml")
    assert (checked.code, ran.code) == (2, 2)
    assert checked.out.splitlines()[0] in ran.err.replace("germane: ", "")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "description: '${{ NOT_SET }}'\nmeasures: [RR]\ndata: s.jsonl\n",
            "variable NOT_SET (it is not set)",
        ),
        (
            "data: s.jsonl\nmeasures: [RR]\ntarget: py\n",
            "the target py (it would be",
        ),
        ("measures: ['m.py:mine']\ndata: s.jsonl\n", "m.py:mine (it would be imported)"),
        (
            "measures: [RR, 'm.py:mine']\ndata: s.jsonl\ngates: [mean(mine)>=0.1]\n",
            "m.py:mine (it would be imported)",
        ),
    ],
)
def test_what_validate_cannot_check_is_named(inside: Cli, data: Path, text: str, said: str) -> None:
    """Such a file is not called valid, and has no fault."""
    (data.parent / ".git").mkdir()
    (data.parent / "targets.yaml").write_text("targets: [{name: py, provider: python, function: 'no:f'}]\n")
    (data.parent / "e.yaml").write_text(text)
    ran = inside("validate", "e.yaml")
    assert ran.code == 0
    assert "valid" not in ran.out + ran.err
    assert said in ran.err


def test_a_gate_says_how_much_it_saw(inside: Cli, tmp_path: Path) -> None:
    """N of how many, what --limit and --filter left out, and in the verdict where most samples lack the measure."""
    rows = [{"id": f"q{n}", "query": f"{n}", "qrels": {"d": 1}, "contexts": [{"id": "d"}]} for n in range(20)]
    for row in rows[1:]:
        del row["qrels"]
    (tmp_path / "s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    words = ("run", "s.jsonl", "-m", "RR", "--fail-under", "mean(RR)>=0.5")
    found = inside(*words)
    assert found.out.count("; measured on 1 of 20 samples") == 1
    assert "verdict  passed (exit code 0): mean(RR)>=0.5 was decided on only 1 of 20 samples" in found.out
    few = inside(*words, "--limit", "3", "-o", "few")
    for found in (few, inside("report", "few")):
        seen = "measured on 1 of 3 samples; --limit left out every case after the first 3"
        assert seen in " ".join(found.out.split())
    assert "left out" not in inside(*words, "--limit", "30").out
    found = inside(*words, "--filter", "q0", "--json")
    (gate,) = found.json["gates"]
    assert gate["detail"].endswith("; measured on 1 of 1 sample; --filter left out 19 of the cases")
    assert found.json["verdict"] == ["the gate passed"]


def test_a_gate_on_a_change_says_how_much_it_saw(inside: Cli, tmp_path: Path) -> None:
    """As one on a mean does, and so does a required measure: in `run`, in the report read again and in `compare`."""
    rows = [{"id": f"q{n}", "query": f"{n}", "qrels": {"d": 1}, "contexts": [{"id": "d"}]} for n in range(20)]
    for row in rows[4:]:
        del row["qrels"]
    (tmp_path / "s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (tmp_path / "e.yaml").write_text("data: s.jsonl\nmeasures: [{type: RR, required: true}]\n")
    assert inside("run", "s.jsonl", "-m", "RR", "-o", "A").code == 0
    gates = ("--baseline", "A", "--fail-under", "change(RR)>=-1", "--fail-on-regression", "--limit", "10")
    for words in (("run", "s.jsonl", "-m", "RR", *gates, "-o", "B"), ("report", "B")):
        out = " ".join(inside(*words, env={"COLUMNS": "1000"}).out.split())
        assert out.count("; measured on 4 of 20 queries") == 2
    compared = ("compare", "A", "B", "--margin", "RR:0.5", "--fail-on-regression")
    out = " ".join(inside(*compared).out.split())
    assert out.count("; measured on 4 of 20 queries") == 2
    found = inside("run", "e.yaml", "-o", "E", "--filter", "q*", env={"COLUMNS": "1000"})
    assert "required RR  not measured in q4, q5, q6 and 13 more; measured on 4 of 20 samples" in found.out


@pytest.mark.parametrize("limit", ["1e400", "-1e400", "1e999%", "1e-400", "-2e-400%"])
def test_a_limit_that_no_number_holds_is_an_error(inside: Cli, tmp_path: Path, limit: str) -> None:
    """It would never be reached, or be another limit, 0."""
    (tmp_path / "s.jsonl").write_text('{"query": "q", "qrels": {"d": 1}, "retrieved_context_ids": ["d"]}')
    found = inside("run", "s.jsonl", "-m", "RR", "--fail-under", f"mean(RR)>={limit}")
    assert found.code == 2
    assert f"the limit of the gate 'mean(RR)>={limit}' is too " in found.err
