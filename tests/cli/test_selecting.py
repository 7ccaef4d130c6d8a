"""Which data a run evaluates: stdin, folders, Parquet and several eval files, each with means of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tracemalloc
from pathlib import Path

import polars
import pytest

from germane import Report
from germane.evaluation.plan import Plan
from germane.evaluation.spec import Spec
from tests.server import ModelServer

from .conftest import Cli, write_jsonl

WORDS = ("-m", "context_precision@5", "--judge", "labels")


def context(grade: int) -> dict[str, object]:
    """A passage with a person's grade."""
    return {"text": f"passage of grade {grade}", "grade": grade}


def row(name: str | None, *grades: int) -> dict[str, object]:
    """A sample with graded passages; None = without an id."""
    made: dict[str, object] = {"query": f"question {name}", "contexts": [context(grade) for grade in grades]}
    return made if name is None else {"id": name, **made}


def test_samples_come_from_stdin(cli: Cli) -> None:
    """`germane run -` reads JSON Lines; a fault in them names <stdin> and its line, before anything is judged."""
    lines = json.dumps(row(None, 3, 0)) + "\n" + json.dumps(row(None, 0, 3)) + "\n"
    found = cli("run", "-", *WORDS, "--json", stdin=lines).json
    assert found["measures"]["context_precision@5"]["mean"] == 0.75
    assert [case["sample"] for case in found["cases"]] == ["1", "2"]
    assert found["report"].startswith("germane-reports/stdin-")
    wrong = cli("run", "-", *WORDS, stdin=lines + "{]\n")
    assert wrong.code == 2
    assert "<stdin>:3:2" in wrong.err


def test_a_folder_of_data(inside: Cli, tmp_path: Path) -> None:
    """Every file of samples in a folder counts, a report's own and hidden ones do not; lines without an id differ."""
    folder = tmp_path / "data"
    for name in ("", ".hidden", "old"):
        (folder / name).mkdir(exist_ok=True)
    write_jsonl(folder / "a.jsonl", row(None, 3), row(None, 0))
    write_jsonl(folder / "b.jsonl", row(None, 3))
    write_jsonl(folder / ".hidden" / "c.jsonl", row("hidden", 0))
    write_jsonl(folder / "old" / "samples.jsonl", row("old", 0))
    (folder / "old" / "manifest.json").write_text("{}")
    found = inside("run", "data", *WORDS, "--json").json
    assert [case["sample"] for case in found["cases"]] == ["a-1", "a-2", "b-1"]
    (tmp_path / "e.yaml").write_text(
        "judge: labels\nmeasures: [context_precision@5]\ndata: file://data\n", "utf-8"
    )
    assert inside("run", "e.yaml", "--json").json["cases"] == found["cases"]
    assert inside("run", "file://data", *WORDS, "--json").json["cases"] == found["cases"]
    write_jsonl(folder / "b.jsonl", row("a-1", 3))
    assert "'a-1' is in data/a.jsonl and in data/b.jsonl" in inside("run", "data", *WORDS).err


@pytest.mark.parametrize("as_text", [False, True])
def test_samples_in_parquet(inside: Cli, tmp_path: Path, *, as_text: bool) -> None:
    """Lists and objects are columns of such types, or JSON in texts; null and NaN are absent."""
    lists = [[context(3), context(0)], []]
    frame = polars.DataFrame(
        {
            "question": ["one", "two"],
            "contexts": [json.dumps(one) for one in lists] if as_text else lists,
            "ground_truth": ["known", None],
            "score": [float("nan"), 1.0],
        }
    )
    frame.write_parquet(tmp_path / "p.parquet")
    found = inside("run", "p.parquet", *WORDS, "--json").json
    assert [score["value"] for score in found["scores"]] == [1.0, 0.0]
    frame.with_columns(contexts=polars.lit("[broken")).write_parquet(tmp_path / "p.parquet")
    assert "p.parquet, row 1: contexts" in inside("run", "p.parquet", *WORDS).err


ONE = """judge: labels
measures: [context_precision@5]
gates: ["mean(context_precision@5)>=0.9", "share(context_precision@5>=0.9)>=0.9"]
data: one.jsonl
"""
TWO = """judge: labels
measures: [context_precision@5, "P(labels=human)@5"]
gates: ["mean(context_precision@5)<=0.1"]
data: two.jsonl
"""


@pytest.fixture
def suites(tmp_path: Path) -> Path:
    """Two eval files, each with data of its own; their folder."""
    (tmp_path / "one.yaml").write_text(ONE, "utf-8")
    (tmp_path / "two.yaml").write_text(TWO, "utf-8")
    write_jsonl(tmp_path / "one.jsonl", row("q1", 3), row("q2", 3))
    write_jsonl(tmp_path / "two.jsonl", row("q3", 0))
    return tmp_path


def test_each_eval_file_has_its_own_means_and_gates(inside: Cli, suites: Path) -> None:
    """Two files are not one mean: each has a table of its measures, and its gates read its own cases."""
    ran = inside("run", "one.yaml", "two.yaml", "--json", "-o", "r.md", "-o", "report")
    assert ran.code == 0, ran.err
    found = {line["file"]: line["measures"] for line in ran.json["files"]}
    assert found["one.yaml"].keys() == {"context_precision@5"}
    assert found["one.yaml"]["context_precision@5"]["mean"] == 1.0
    assert found["two.yaml"]["context_precision@5"]["mean"] == 0.0
    gates = [gate["gate"] for gate in ran.json["gates"]]
    assert gates == [
        "mean(context_precision@5)>=0.9 in one.yaml",
        "share(context_precision@5>=0.9)>=0.9 in one.yaml",
        "mean(context_precision@5)<=0.1 in two.yaml",
    ]
    text = str(Report.open(suites / "report")).partition("\none.yaml")[2]  # as stored: the tables come last
    assert text.index("1.0000") < text.index("two.yaml") < text.index("0.0000")
    assert Report.open(suites / "report").verdict.passed


def test_a_gate_of_a_file_without_cases_is_undecided(inside: Cli, suites: Path) -> None:
    """`--filter` may leave a file none of its cases: its gates then say so; and a gate names measures of its own file."""
    ran = inside("run", "one.yaml", "two.yaml", "--filter", "q3", "--json")
    assert ran.code == 3
    assert [gate["detail"] for gate in ran.json["gates"][:1]] == [
        "no case of one.yaml was evaluated: the selection leaves all of them out; --filter left out 2 of the cases"
    ]
    (suites / "one.yaml").write_text(
        ONE.replace("share(context_precision@5", "share(P(labels=human)@5"), "utf-8"
    )
    wrong = inside("run", "one.yaml", "two.yaml")
    assert wrong.code == 2
    assert "one.yaml:3" in wrong.err
    assert "name one of the measures " in wrong.err


@pytest.mark.parametrize(
    ("gate", "said"),
    [
        (
            "min(mean(context_precision@5) by language)>=0.6",
            "no case has a tag or a metadata field 'language'",
        ),
        ("share(context_precision@5)>=0.9", "share(context_precision@5), which is not measured"),
    ],
)
def test_a_gate_that_can_never_be_decided_costs_nothing(
    inside: Cli, suites: Path, gate: str, said: str
) -> None:
    """It is refused before anybody is asked, and no report is left behind."""
    (suites / "one.yaml").write_text(ONE.replace("labels", "lexical"), "utf-8")
    ran = inside("run", "one.yaml", "--fail-under", gate, "--ledger", "l.sqlite", "-o", "report")
    assert (ran.code, said in ran.err) == (2, True), ran.err
    assert not (suites / "report" / "judgements.jsonl").exists()


def test_an_untrusted_report_names_no_outputs(inside: Cli, suites: Path) -> None:
    """A continued report says which files its start wrote: outside of its folder only those that a flag names again."""
    outside = str(suites / "out.md")
    assert inside("run", "one.yaml", "-o", "report", "-o", outside).code == 0
    ran = inside("run", "--resume", "report", "--untrusted")
    assert (ran.code, "a file outside of it" in ran.err) == (2, True)
    assert inside("run", "--resume", "report", "--untrusted", "-o", outside).code == 0


def test_an_untrusted_file_reads_no_variable(
    inside: Cli, suites: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is in the environment goes to nobody."""
    monkeypatch.setenv("TOKEN", "secret")
    (suites / "one.yaml").write_text(ONE.replace("judge:", "description: 'x ${{ TOKEN }}'\njudge:"), "utf-8")
    assert inside("run", "one.yaml").code == 0
    ran = inside("run", "one.yaml", "--untrusted")
    assert (
        ran.code,
        "variable TOKEN would be read, but the file that asks for this is not trusted" in ran.err,
    ) == (2, True)


def test_an_untrusted_file_sends_no_text_to_a_url_of_its_own(inside: Cli, suites: Path) -> None:
    """Named by a flag it may; a judge without a URL stays the file's to name."""
    with ModelServer() as server:
        judge = f"openai:test@{server.url}"
        (suites / "one.yaml").write_text(ONE.replace("labels", judge), "utf-8")
        ran = inside("run", "one.yaml", "--untrusted")
        assert (ran.code, f"--judge {judge}" in ran.err) == (2, True), ran.err
        assert server.count == 0
        inside("run", "one.yaml", "--untrusted", "--judge", judge)
        assert server.count > 0
    (suites / "one.yaml").write_text(ONE, "utf-8")
    assert inside("run", "one.yaml", "--untrusted").code == 0


def test_a_drawn_sample_says_how_many_of_how_many(inside: Cli, tmp_path: Path) -> None:
    """`--sample` draws by row number, in input order; output and manifest say of how many, and with which seed."""
    write_jsonl(tmp_path / "s.jsonl", *(row(f"q{n}", n % 4) for n in range(1500)))
    words = ("run", "s.jsonl", *WORDS, "--seed", "1", "--sample")
    ran = inside(*words, "20", "-o", "report", "--json")
    assert "a random sample of 20 of 1,500 cases, seed 1" in ran.json["notes"]
    drawn = [case["sample"] for case in ran.json["cases"]]
    assert len(drawn) == 20
    assert drawn == sorted(drawn, key=lambda name: int(name[1:]))
    assert Report.open(tmp_path / "report").manifest["sampled"] == {"n": 20, "of": 1500, "seed": 1}
    assert "a random sample of 20 of 1,500 cases, seed 1" in inside("report", "report").out
    assert [case["sample"] for case in inside(*words, "20", "--json").json["cases"]] == drawn
    assert "a random sample of 1,500 of 1,500 cases, seed 1" in inside(*words, "9000", "--json").json["notes"]
    limited = inside(*words, "20", "--limit", "4", "--json").json
    assert "a random sample of 4 of 1,500 cases, seed 1" in limited["notes"]
    assert len(limited["cases"]) == 4


def test_standard_input_is_sampled_like_a_file_and_leaves_nothing_behind(
    inside: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is copied to disk, since it is read several times and may be larger than memory."""
    copies = tmp_path / "copies"
    copies.mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(copies))
    text = "".join(
        f'{{"id": "s{n}", "query": "q{n}", "contexts": [], "qrels": {{"d": 1}}}}\n' for n in range(99)
    )
    (tmp_path / "all.jsonl").write_text(text)
    words = ("-m", "RR", "--sample", "5", "--seed", "4", "--json")
    piped, read = inside("run", "-", *words, stdin=text).json, inside("run", "all.jsonl", *words).json
    assert [score["sample"] for score in piped["scores"]] == [score["sample"] for score in read["scores"]]
    assert "a random sample of 5 of 99 cases, seed 4" in piped["notes"]
    assert not list(copies.glob("germane-*"))
    command, env = (
        [sys.executable, "-m", "germane", "run", "-", *words],
        {**os.environ, "TMPDIR": str(copies)},
    )
    wrong = text.splitlines()[0] + "\n{}\n"
    ended = subprocess.run(command, input=wrong, env=env, capture_output=True, text=True, check=False)
    assert "<stdin>:2:" in ended.stderr
    assert not list(copies.glob("germane-*"))


def test_a_drawn_sample_holds_only_its_own_cases(tmp_path: Path) -> None:
    """Drawing from many cases holds their numbers, not the cases."""
    write_jsonl(tmp_path / "s.jsonl", *({**row(f"q{n}", 3), "query": "long " * 2000} for n in range(3000)))
    options = Spec.of(paths=(str(tmp_path / "s.jsonl"),), measures=("P(labels=human)@5",), sample=5)
    plan = Plan.of(options, lambda _: None)
    tracemalloc.start()
    try:
        assert len(list(plan.chosen())) == 5
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 5_000_000  # of 30 MB


def test_several_ids_in_one_cell_are_said(inside: Cli, tmp_path: Path) -> None:
    """`d1;d2` is read as one id, once said for each column; one id, and lists of ids, are not."""
    (tmp_path / "a.csv").write_text("query,doc_ids,gold_ids\na,d1;d2,d2\nb,d1|d2,d1\n" * 300)
    (tmp_path / "b.csv").write_text('query,doc_ids,gold_ids\na,"[""d1"", ""d;2""]",d2\nb,d1,\n')
    ran = inside("run", "a.csv", "-m", "RR")
    assert ran.err.count("but was read as one") == 1
    assert "a.csv:2: the field 'doc_ids' looks like several ids joined by" in ran.err
    assert "but was read as one" not in inside("run", "b.csv", "-m", "RR").err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--trials", "2"), "needs a target to query"),
    ],
)
def test_what_would_do_nothing_is_refused(
    inside: Cli, tmp_path: Path, words: tuple[str, ...], problem: str
) -> None:
    """Not passed over: a variable that is not set would run the whole in every job."""
    write_jsonl(tmp_path / "s.jsonl", row("a", 3))
    ran = inside("run", "s.jsonl", *WORDS, *words)
    assert (ran.code, problem in ran.err) == (2, True)
    assert inside("run", "s.jsonl", *WORDS, "--trials", "1").code == 0
