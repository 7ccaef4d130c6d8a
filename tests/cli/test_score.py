"""`germane score`: a stored report scored again is never the worse for it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, write_jsonl

ROWS = [
    {"id": f"q{n}", "query": "a", "contexts": [{"text": f"a {n} {k}"} for k in range(3)]} for n in range(4)
]


@pytest.mark.parametrize(
    "words", [["-o", "r"], ["-o", "./sub/../r"], ["-o", "link"], ["-o", "r/scores.jsonl"]]
)
@pytest.mark.parametrize("measure", [[], ["-m", "context_precision@1"]])
def test_a_report_is_not_scored_onto_itself(
    inside: Cli, tmp_path: Path, words: list[str], measure: list[str]
) -> None:
    """Under whatever name: exit 2, and the report stays as it is. Another folder is written."""
    data = write_jsonl(tmp_path / "data.jsonl", *ROWS)
    inside("run", data, "-m", "context_precision@3", "--judge", "lexical", "--no-cache", "-o", "r")
    (tmp_path / "sub").mkdir()
    (tmp_path / "link").symlink_to("r")
    before = {path.name: path.read_bytes() for path in (tmp_path / "r").iterdir()}
    ran = inside("score", "r", *measure, *words)
    assert ran.code == 2
    assert "would overwrite an input file" in ran.err
    assert {path.name: path.read_bytes() for path in (tmp_path / "r").iterdir()} == before
    assert inside("score", "r", *measure, "-o", "other").code == 0
    assert inside("report", "other").code == 0


@pytest.mark.parametrize("name", ["scores.jsonl", "manifest.json"])
def test_a_report_is_not_written_over_its_own_rows(inside: Cli, tmp_path: Path, name: str) -> None:
    """`germane report` and `germane run` write no file under the name of one of the report's own."""
    data = write_jsonl(tmp_path / "data.jsonl", *ROWS)
    inside("run", data, "-m", "context_precision@3", "--judge", "lexical", "--no-cache", "-o", "r")
    before = (tmp_path / "r" / name).read_bytes()
    ran = inside("report", "r", "-o", f"r/{name}")
    assert ran.code == 2
    assert "is a file of the report folder itself" in ran.err
    assert (tmp_path / "r" / name).read_bytes() == before
    assert inside("report", "r", "-o", "r/scores.csv").code == 0


def test_a_report_is_no_samples(inside: Cli, tmp_path: Path) -> None:
    """`run` and `validate` of a report's folder name the command that computes measures from it."""
    data = write_jsonl(tmp_path / "data.jsonl", *ROWS)
    inside("run", data, "-m", "context_precision@3", "--judge", "lexical", "-o", "r")
    for verb in ("run", "validate"):
        ran = inside(verb, "r")
        assert ran.code == 2
        assert "this folder is a report, not samples" in ran.out + ran.err
        assert "germane score r -m MEASURES" in ran.out + ran.err


def test_a_stored_report_is_held_against_a_baseline_and_sliced(inside: Cli, tmp_path: Path) -> None:
    """`score` knows --baseline, --fail-on-regression and --by as `run` does, and decides a report's own gates anew."""
    common = {"query": "q", "qrels": {"d": 1}}
    for name, ids in (("good", ["d", "e"]), ("bad", ["e", "d"])):
        rows = [
            {**common, "id": f"q{n}", "tags": ["lang:de"], "contexts": [{"id": one} for one in ids]}
            for n in range(20)
        ]
        write_jsonl(tmp_path / f"{name}.jsonl", *rows)
        assert inside("run", tmp_path / f"{name}.jsonl", "-m", "RR", "-o", name).code == 0
    gate = ("--fail-under", "change(RR) > -0.02")
    assert inside("score", "good", *gate, "--baseline", "bad").code == 0
    assert inside("score", "bad", *gate, "--baseline", "good").code == 1
    assert inside("score", "bad", *gate).code == 3
    assert inside("score", "bad", "--fail-on-regression", "--baseline", "good").code == 1
    assert inside("score", "bad", "--fail-on-regression").code == 2
    ran = inside("score", "good", "-m", "P@1", "--by", "lang", "--json", "-o", "scored")
    assert ran.json["slices"][0]["slice"] == "lang=de"
    assert "lang=de" in inside("report", "scored").out
    assert inside("score", "good", "--by", "nothing").code == 2
    assert (
        inside("run", tmp_path / "good.jsonl", "-m", "RR", "-o", "gated", "--fail-under", "RR>=0.9").code == 0
    )
    assert inside("score", "gated", "--json").json["gates"][0]["outcome"] == "passed"


def test_a_report_is_not_written_over_its_input(inside: Cli, tmp_path: Path) -> None:
    """Whatever its ending: exit 2, and the samples stay."""
    data = write_jsonl(tmp_path / "data.jsonl", {"id": "q", "query": "a", "contexts": [], "qrels": {"d": 1}})
    before = data.read_bytes()
    ran = inside("run", data, "-m", "AP", "-o", "./data.jsonl")
    assert (ran.code, data.read_bytes()) == (2, before)
    assert "would overwrite an input file" in ran.err


def test_a_grade_that_no_column_holds_is_refused(inside: Cli, tmp_path: Path) -> None:
    """At its place, before anything is written."""
    row = {"id": "q", "query": "a", "contexts": [{"id": "d"}], "qrels": {"d": 10**20}}
    ran = inside("run", write_jsonl(tmp_path / "data.jsonl", row), "-m", "AP")
    assert ran.code == 2
    assert "data.jsonl:1:" in ran.err
    assert "write a whole number <= 9223372036854775807" in ran.err
    assert not list(tmp_path.glob("germane-reports/*"))


def test_places_that_nobody_judged_have_no_row_of_judgements(inside: Cli, tmp_path: Path) -> None:
    """Deeper down the score is incomplete; no row says so in place of a judgement, and it can be scored again."""
    contexts = [{"id": f"d{n}", "text": f"{'rain' if n % 2 else 'tide'} {n}"} for n in range(5)]
    rows = [{"id": f"q{n}", "query": "tide", "contexts": contexts[:n]} for n in (3, 5)]
    data = write_jsonl(tmp_path / "deep.jsonl", *rows)
    assert inside("run", data, "-m", "context_precision@3", "--judge", "lexical", "-o", "three").code == 0
    for words in (("three", "-o", "five"), ("five", "-o", "again"), ("three",)):
        ran = inside("score", *words, "-m", "context_precision@5", "--json")
        scores = [(score["status"], score["why"]) for score in ran.json["scores"]]
        assert scores == [("ok", None), ("incomplete", "2 of 5 verdicts missing: no stored judgement")]
    for name in ("three", "five", "again"):
        assert len((tmp_path / name / "judgements.jsonl").read_text().splitlines()) == 3


def test_a_report_that_is_not_saved_leaves_no_file(inside: Cli, tmp_path: Path) -> None:
    """Its rows are in a temporary folder while the command runs; its means are those of the run."""
    data = write_jsonl(tmp_path / "data.jsonl", *ROWS)
    words = ("-m", "context_precision@3", "--json")
    made = inside("run", data, *words, "--judge", "lexical", "--no-cache", "-o", "r").json
    before = {path.name: path.read_bytes() for path in (tmp_path / "r").iterdir()}
    (tmp_path / "temporary").mkdir()
    ran = subprocess.run(
        [sys.executable, "-m", "germane", "score", "r", *words],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path / "temporary")},
        check=True,
        capture_output=True,
    )
    scored = json.loads(ran.stdout)["measures"]
    assert {name: line["mean"] for name, line in scored.items()} == {
        name: line["mean"] for name, line in made["measures"].items()
    }
    assert list((tmp_path / "temporary").iterdir()) == []
    assert {path.name: path.read_bytes() for path in (tmp_path / "r").iterdir()} == before
