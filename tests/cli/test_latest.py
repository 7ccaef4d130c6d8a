"""Without a report the latest counts; an argument that is no report is a query; `evaluate` chooses measures as `run` does."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import germane
from germane.errors import InputError
from tests.command import invoke


def write(path: Path, prefix: str = "", turn: bool = False) -> None:
    contexts = [{"id": name, "text": f"text of {name}"} for name in ("d1", "d2")]
    rows = [
        {
            "id": f"q{n}",
            "query": f"{prefix}what of {n}?",
            "qrels": {"d1": 1},
            "contexts": contexts[:: -1 if turn else 1],
        }
        for n in range(8)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two reports over the same queries, the second one the latest."""
    monkeypatch.chdir(tmp_path)
    for name, turn in (("plain", False), ("stem", True)):
        write(tmp_path / f"{name}.jsonl", turn=turn)
        assert invoke("run", f"{name}.jsonl", "-o", f"germane-reports/{name}").code == 0
    return tmp_path


@pytest.mark.parametrize(
    "words",
    [("explain", "q5"), ("explain", "what of 5?", "RR"), ("score",), ("diagnose",), ("audit", "--json")],
)
def test_the_latest_report_is_taken(folder: Path, words: tuple[str, ...]) -> None:
    """Where none is named, and its name is said on stderr."""
    done = invoke(*words)
    assert done.code in {0, 3}, done.err
    assert "the latest report: germane-reports/stem" in done.err
    assert "germane-reports" not in done.out.splitlines()[0]


def test_a_label_goes_into_the_latest_report(folder: Path) -> None:
    """From a file, which names no report either."""
    done = invoke("label", "--export", "labels.jsonl")
    assert (done.code, "the latest report: germane-reports/stem" in done.err) == (0, True)


def test_an_argument_is_the_report_or_the_query(folder: Path) -> None:
    """A report folder is the report; else the query; three arguments begin with a report."""
    named = invoke("explain", "germane-reports/plain", "q5", "RR")
    assert (named.code, named.err) == (0, "")
    assert "q5" in invoke("explain", "q5", "RR").out
    done = invoke("explain", "nowhere", "q5", "RR")
    assert (done.code, "no report nowhere" in done.err) == (2, True)
    assert invoke("explain", "q99").code == 2
    done = invoke("explain", "what of https://x.y/5?")
    assert (done.code, "'what of https://x.y/5?'" in done.err) == (2, True)


def test_an_argument_that_is_neither_is_named_with_the_reports_that_there_are(folder: Path) -> None:
    """Those of germane-reports, or of the working directory if there are none; other commands show them too."""
    there = "(reports here: germane-reports/stem, germane-reports/plain)"
    err = invoke("explain", "tody", "q5").err
    assert "there is no report tody, and no sample has the id or query 'tody'" in err
    assert there in err
    assert "there is no report" not in invoke("explain", "q5", "AP").err  # a sample
    (folder / "germane-reports" / "plain").rename("today")
    (folder / "germane-reports").rename("older")
    assert "no report tody, and no report in germane-reports" in (err := invoke("explain", "tody").err)
    assert "(reports here: today)" in err
    assert "germane score REPORT (reports here: today)" in invoke("score").err


def test_the_two_latest_are_compared(folder: Path) -> None:
    """The older one is the baseline; of different data they are refused, with both names."""
    done = invoke("compare")
    assert done.out.startswith("stem is worse than plain in nDCG@10: ")
    assert (
        "the 2 latest reports, the older one first: germane-reports/plain, germane-reports/stem" in done.err
    )
    write(folder / "other.jsonl", "something else: ")
    assert invoke("run", "other.jsonl", "-o", "germane-reports/other").code == 0
    done = invoke("compare")
    assert done.code == 2
    assert "different queries: germane-reports/stem and germane-reports/other" in done.err


@pytest.mark.parametrize(
    "words", [("explain", "q1"), ("compare",), ("score",), ("label",), ("audit",), ("diagnose",)]
)
def test_without_a_report_there_is_an_error(
    words: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says how to name one."""
    monkeypatch.chdir(tmp_path)
    done = invoke(*words)
    assert done.code == 2
    assert f"germane {words[0]}" in done.err


def test_evaluate_has_the_measures_of_the_shell(folder: Path) -> None:
    """Gold labels give nDCG@10, R@10 and RR, a named judge the measures of relevance; else the error says what to give."""
    report = germane.evaluate("plain.jsonl")
    assert list(report) == list(germane.Report.open("germane-reports/plain")) == ["nDCG@10", "R@10", "RR"]
    assert report.to_json()["scores"] == germane.Report.open("germane-reports/plain").to_json()["scores"]
    labelled = [{"query": "q", "contexts": [{"text": "t", "grade": 3}]}]
    assert "context_precision" in germane.evaluate(labelled, judge="labels")
    asked = germane.evaluate([{"query": "a", "qrels": {"d": 1}}], target=lambda _: [{"id": "d", "text": "t"}])
    assert asked["RR"].mean == 1.0
    with pytest.raises(InputError, match=r"no measure and no judge is named"):
        germane.evaluate([{"query": "q", "contexts": ["t"]}])
