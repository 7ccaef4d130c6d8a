"""Several eval files that cannot be one evaluation: each has its own judge, its own report, and one command runs them all."""

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.cli.conftest import Cli
from tests.server import ModelServer

PASSAGES = [{"text": "the tide is high at noon", "grade": 3}, {"text": "bread", "grade": 0}]
ROW = {"id": "q1", "query": "high tide", "reference": "The tide is high at noon.", "contexts": PASSAGES}


@pytest.fixture
def evals(tmp_path: Path) -> Path:
    """Two files with the same data: one judged by people's labels, one by word overlap."""
    folder = tmp_path / "evals"
    folder.mkdir()
    (folder / "data.jsonl").write_text(json.dumps(ROW), "utf-8")
    (folder / "people.yaml").write_text(
        'data: data.jsonl\njudge: labels\nmeasures: [context_precision]\ngates: ["mean(context_precision)>=1"]\n'
    )
    (folder / "words.yaml").write_text(
        'data: data.jsonl\njudge: lexical\nmeasures: [context_recall]\ngates: ["mean(context_recall)>=1"]\n'
    )
    return folder


def test_each_file_has_its_own_judge_and_report(inside: Cli, evals: Path, tmp_path: Path) -> None:
    """A table, gates and a report folder per file, then a line for each."""
    done = inside("run", "evals", "--allow-stand-in", "-o", "all")
    assert done.code == 0, done.err
    assert "judge    labels" in done.out
    assert "judge    lexical" in done.out
    assert "2 evaluations" in done.out
    for name, judge in (("people", "labels"), ("words", "lexical")):
        manifest = json.loads((tmp_path / "all" / name / "manifest.json").read_text("utf-8"))
        assert manifest["judge"]["source"] == judge
        assert len(manifest["gates"]) == 1
    assert inside("report", "all/words").code == 0


def test_the_worst_ending_is_the_exit_code(inside: Cli, evals: Path) -> None:
    """One gate that fails is 1, whatever the others do; the documents hold all."""
    (evals / "words.yaml").write_text(
        'data: data.jsonl\njudge: lexical\nmeasures: [context_recall]\ngates: ["mean(context_recall)<0.5"]\n'
    )
    done = inside(
        "run",
        "evals",
        "--allow-stand-in",
        "--json",
        *(word for name in ("r.xml", "r.json", "r.md", "r.csv") for word in ("-o", name)),
    )
    assert done.code == 1
    document = done.json
    assert (document["passed"], document["exit_code"]) == (False, 1)
    assert {name: one["exit_code"] for name, one in document["reports"].items()} == {
        "evals/people.yaml": 0,
        "evals/words.yaml": 1,
    }
    place = evals.parent
    suites = ElementTree.parse(place / "r.xml").getroot()
    assert (suites.get("tests"), suites.get("failures")) == ("4", "1")
    assert json.loads((place / "r.json").read_text("utf-8"))["reports"].keys() == document["reports"].keys()
    index, *folded = (place / "r.md").read_text("utf-8").split("\n<details")
    assert [line.split("|")[1].strip() for line in index.splitlines()[2:]] == [
        "evals/people.yaml",
        "evals/words.yaml",
    ]
    whole = [part for part in folded if "evals/" in part.partition("</summary>")[0]]
    assert [part.partition("</summary>")[0] for part in whole] == [
        "><summary>evals/people.yaml: passed",
        " open><summary>evals/words.yaml: failed",
    ]
    assert (place / "r-words.csv").exists()
    refused = inside("compare", "r.json", "r.json")
    assert refused.code == 2
    assert "holds 2 reports" in refused.err


def test_the_flag_replaces_the_judge_of_every_file(inside: Cli, evals: Path) -> None:
    """--judge holds for all files; the same data in two of them keeps them apart."""
    found = inside(
        "run", "evals", "--judge", "labels", "--fail-under", "mean(context_precision)>=0.1", "--json"
    )
    assert {one["judge"]["source"] for one in found.json["reports"].values()} == {"labels"}
    gates = {name: len(one["gates"]) for name, one in found.json["reports"].items()}
    assert gates == {"evals/people.yaml": 2, "evals/words.yaml": 1}


def test_files_that_agree_are_one_evaluation(inside: Cli, evals: Path) -> None:
    """One judge and different cases: one report, with a table per file."""
    (evals / "other.jsonl").write_text(json.dumps({**ROW, "id": "q2"}), "utf-8")
    (evals / "words.yaml").write_text("data: other.jsonl\njudge: labels\nmeasures: [context_precision]\n")
    assert len(inside("run", "evals", "--json").json["files"]) == 2


def test_what_is_wrong_in_the_last_file_costs_nothing(inside: Cli, evals: Path) -> None:
    """A gate that nothing measures, a filter that leaves nothing, a judge that there is not: nothing was evaluated."""
    wanted = inside("run", "evals", "--filter", "nothing")
    assert (wanted.code, "leaves no case" in wanted.err) == (2, True)
    data = inside("run", "evals/data.jsonl", "--filter", "nothing")
    assert (data.code, "leaves no case" in data.err) == (2, True)
    gate = inside("run", "evals", "--fail-under", "mean(AP)>=0.5")
    assert (gate.code, "which is not measured" in gate.err) == (2, True)
    (evals / "words.yaml").write_text("data: data.jsonl\njudge: lexicl\nmeasures: [context_recall]\n")
    judge = inside("run", "evals")
    assert (judge.code, "lexical" in judge.err) == (2, True)
    assert not (evals.parent / "germane-reports").exists()


def test_limits_hold_for_all_files_together(
    inside: Cli, evals: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """--max-calls counts the calls of every evaluation; what was finished before is shown."""
    with ModelServer() as server:
        for name, model, measure in (
            ("people", "one", "context_precision"),
            ("words", "two", "context_recall"),
        ):
            (evals / f"{name}.yaml").write_text(
                f"data: data.jsonl\njudge: openai:{model}\nmeasures: [{measure}]\n"
            )
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        monkeypatch.setenv("OPENAI_API_KEY", "k")
        done = inside("run", "evals", "--max-calls", "2")
        assert (done.code, server.count) == (3, 2)
    assert "context_precision" in done.out
    assert "--resume" in done.err


def test_a_dry_run_forecasts_each(inside: Cli, evals: Path) -> None:
    """A forecast per file, in text and in JSON."""
    assert inside("run", "evals", "--dry-run").out.count("dry run:") == 2
    found = inside("run", "evals", "--dry-run", "--json").json["reports"]
    assert {one["judge"] for one in found.values()} == {"labels", "lexical"}
