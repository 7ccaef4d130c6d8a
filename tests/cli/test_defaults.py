"""What `germane run` does where nobody names a path or a measure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from germane.reports.report import Report
from tests.cli.conftest import Cli
from tests.command import invoke

CONTEXTS = [{"id": "d1", "text": "the moon pulls the sea"}, {"id": "d2", "text": "coffee is roasted"}]


@pytest.fixture(autouse=True)
def _inside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GERMANE_JUDGE", raising=False)


def write(path: str, **more: Any) -> str:
    """Two samples with these fields as well."""
    rows = [{"id": name, "query": "why are there tides", "contexts": CONTEXTS} | more for name in "ab"]
    Path(path).parent.mkdir(exist_ok=True)
    Path(path).write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    return path


GOLD, JUDGED = ["nDCG@10", "R@10", "RR"], ["context_precision", "context_relevancy(unit=context)"]


def measured(*words: str) -> list[str]:
    """The measures of a run without -m."""
    ran = invoke("run", *words, "--json")
    assert ran.code == 0, ran.err
    assert "choose others with -m" in ran.err
    return list(ran.json["measures"])


def test_data_with_gold_get_the_measures_of_gold() -> None:
    """nDCG@10, R@10 and RR, and the message says that gold is why."""
    assert measured(write("x.jsonl", qrels={"d1": 1})) == GOLD
    assert "from gold labels" in invoke("run", "x.jsonl", "--json").err


@pytest.mark.parametrize("named", ["flag", "config"])
def test_a_judge_that_is_named_gets_its_measures_too(named: str) -> None:
    """By a flag or in the config; with references context_recall is one of them."""
    write("x.jsonl", qrels={"d1": 1}, reference="the moon pulls the sea")
    Path("germane.toml").write_text('judge = "lexical"\n' if named == "config" else "")
    words = ["--judge", "lexical"] if named == "flag" else []
    assert measured("x.jsonl", *words) == [*GOLD, *JUDGED, "context_recall"]
    assert measured(write("y.jsonl"), *words) == JUDGED


def test_a_judge_that_the_environment_alone_names_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    """Defaults never become paid calls: gold is measured, and without it it is an error."""
    monkeypatch.setenv("GERMANE_JUDGE", "openai:gpt-4o-mini@http://127.0.0.1:9/v1")
    assert measured(write("x.jsonl", qrels={"d1": 1}, reference="the moon")) == GOLD
    ran = invoke("run", write("x.jsonl", reference="the moon"))
    assert ran.code == 2
    assert "GERMANE_JUDGE alone is not enough" in ran.err
    assert not Path("x.jsonl").with_name(".germane").exists()


def test_data_that_allow_nothing_are_an_error_that_says_what_to_give() -> None:
    """Neither gold nor labels nor a judge; or nothing that was retrieved."""
    for row in ({}, {"qrels": {"d1": 1}, "contexts": ["no id"]}, {"qrels": {"d1": 0}}):
        ran = invoke("run", write("x.jsonl", **row))
        assert ran.code == 2
        assert "no judge is named, and no sample has gold labels and contexts with ids" in ran.err
        assert "-m" in ran.err
    Path("y.jsonl").write_text('{"query": "why"}\n')
    assert "need retrieved contexts" in invoke("run", "y.jsonl").err


def test_stdin_gets_the_measures_that_it_allows(cli: Cli) -> None:
    """It can be read once, and is looked at before it is evaluated."""
    text = Path(write("x.jsonl", qrels={"d1": 1})).read_text()
    assert list(cli("run", "-", "--json", stdin=text).json["measures"]) == GOLD


def test_without_paths_run_takes_the_folder_evals() -> None:
    """Data in it count as well; where there is none the message says so."""
    ran = invoke("run")
    assert ran.code == 2
    assert "no folder evals/" in ran.err
    write("evals/x.jsonl", qrels={"d1": 1})
    assert measured() == GOLD


def test_the_latest_report_is_that_of_the_latest_time() -> None:
    """Another evaluation later is alone, whatever its folder is called; a folder of reports is looked into."""
    write("a.jsonl", qrels={"d1": 1})
    assert invoke("run", "a.jsonl", "-o", "germane-reports/aaa").code == 0
    manifest = Path("germane-reports/aaa/manifest.json")
    manifest.write_text(manifest.read_text().replace('"created": "20', '"created": "21'))
    ran = invoke("report")
    assert "germane-reports/aaa" in ran.err
    assert "evaluations" not in ran.out
    assert Report.open("germane-reports/aaa").measures == tuple(GOLD)
    assert "germane-reports/aaa" in invoke("report", "germane-reports").err


@pytest.mark.parametrize(
    ("flag", "code"), [((), 0), (("--max-unmeasured", "0.05"), 3), (("--max-unmeasured", "0.0501"), 3)]
)
def test_a_flag_at_its_default_goes_before_the_run_that_is_continued(
    tmp_path: Path, flag: tuple[str, ...], code: int
) -> None:
    """What is given counts, also where it is the default."""
    rows = [{"id": f"q{k}", "query": f"q{k}", "qrels": {"d": 1}, "contexts": [{"id": "d"}]} for k in range(2)]
    (tmp_path / "s.jsonl").write_text(
        "\n".join(map(json.dumps, [rows[0], rows[1] | {"error": "failed"}])), "utf-8"
    )
    first = invoke("run", tmp_path / "s.jsonl", "-m", "RR", "--max-unmeasured", "0.9", "-o", tmp_path / "r")
    assert first.code == 0
    assert invoke("run", "--resume", tmp_path / "r", *flag).code == code


def test_answers_with_line_separators_are_kept(tmp_path: Path) -> None:
    """U+2028, U+0085 and U+000B within an answer do not end its line."""
    (tmp_path / "t.py").write_text(
        "import pathlib\n"
        "def answer(query):\n"
        "    with pathlib.Path(__file__).with_name('log').open('a') as log: log.write('x')\n"
        "    return {'contexts': [{'id': 'd', 'text': 'a\\u2028b\\u0085c\\u000bd'}]}\n",
        "utf-8",
    )
    (tmp_path / "targets.yaml").write_text(
        "targets: [{name: t, provider: python, function: 't:answer', path: .}]\n", "utf-8"
    )
    (tmp_path / "s.jsonl").write_text(json.dumps({"id": "q", "query": "q", "qrels": {"d": 1}}), "utf-8")
    command = (
        "run",
        tmp_path / "s.jsonl",
        "--target",
        "t",
        "--targets",
        tmp_path / "targets.yaml",
        "-m",
        "RR",
    )
    first = invoke(*command, "-o", tmp_path / "r")
    assert first.code == 0, first.err
    assert invoke("run", "--resume", tmp_path / "r").code == 0
    assert (tmp_path / "log").read_text() == "x"


@pytest.mark.parametrize(
    ("row", "place"),
    [('{"id": "b", "query":', "x.jsonl:3:21: the JSON ends"), ('{"id": "b"}', "x.jsonl:3: this sample")],
)
def test_an_error_in_the_data_keeps_its_place(row: str, place: str) -> None:
    """Line and column, whether or not the measures follow from the data."""
    path = Path(write("x.jsonl", qrels={"d1": 1}))
    path.write_text(f"{path.read_text()}{row}\n")
    for words in ([], ["-m", "RR"], ["--dry-run"]):
        ran = invoke("run", path, *words)
        assert (ran.code, ran.err.startswith(f"germane: {place}")) == (2, True), ran.err
