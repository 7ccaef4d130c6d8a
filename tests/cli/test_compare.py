"""`germane compare` as it is typed."""

import json
from pathlib import Path

import pytest

from germane import evaluate
from tests.command import invoke


@pytest.fixture
def reports(tmp_path: Path) -> Path:
    """Two reports on twenty queries: b has half of the first places that a has."""
    for name, every in (("a", 1), ("b", 2)):
        rows = [
            {
                "id": f"q{n}",
                "query": "q",
                "qrels": {"good": 1},
                "contexts": [
                    {"id": i, "text": i} for i in (("good", "bad") if n % every == 0 else ("bad", "good"))
                ],
            }
            for n in range(20)
        ]
        evaluate(rows, "RR P@1").save(tmp_path / name)
    return tmp_path


def test_compare_prints_writes_and_decides(reports: Path) -> None:
    """Exit 1 where the change is worse than the margin; files by their extension."""
    out = reports / "out"
    files = [out / f"c.{end}" for end in ("json", "md", "tex", "csv", "txt")]
    words = [word for file in files for word in ("-o", file)]
    done = invoke("compare", reports / "a", reports / "b", "--margin", "RR: 0.02", *words)
    assert done.code == 1
    assert "verdict  failed (exit code 1)" in done.out
    assert json.loads((out / "c.json").read_text())["verdict"] == "fail"
    assert all(file.stat().st_size for file in files)
    (reports / "b").rename(reports / "<b|")
    invoke("compare", reports / "a", reports / "<b|", "-o", out / "c.tex")
    assert r"\textless{}b\textbar{}" in (out / "c.tex").read_text()


def test_gates_are_annotations_of_a_workflow(reports: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed one an error, an undecided one a warning; the step's summary ends with a blank line."""
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(reports / "summary.md"))
    failed = invoke("compare", reports / "a", reports / "b", "--margin", "RR: 0.02", "--json")
    undecided = invoke("compare", reports / "a", reports / "a", "--margin", "RR: 0.02")
    assert (failed.code, undecided.code) == (1, 3)
    assert failed.err.startswith("::error title=germane::RR got worse")
    assert undecided.err.startswith("::warning title=germane::RR, margin 0.02")
    assert (reports / "summary.md").read_text("utf-8").count("queries\n\n") == 2


def test_long_names_of_reports_stand_above_the_table(reports: Path) -> None:
    """Two names that only differ at their end must not be cut to the same heading."""
    a, b = "retrieval-set-20260101-000000", "retrieval-set-20260102-000000"
    for old, new in (("a", a), ("b", b)):
        (reports / old).rename(reports / new)
    lines = invoke("compare", reports / a, reports / b).out.splitlines()
    assert f"new {b} against baseline {a}" in lines
    assert any(line.split()[:3] == ["measure", "baseline", "new"] for line in lines)


def test_compare_has_a_document_of_a_pinned_shape(reports: Path) -> None:
    """The keys that scripts rely on; the difference is B minus A."""
    done = invoke("compare", reports / "a", reports / "b", "--json", "-m", "RR")
    found = json.loads(done.out)
    assert {"schema_version", "passed", "exit_code", "systems", "comparisons", "only_in"} <= found.keys()
    assert (found["schema_version"], found["systems"]) == (1, ["a", "b"])
    (row,) = found["comparisons"]
    pinned = "a b measure n difference interval interval_method p p_holm wins ties losses mde decision parts"
    assert set(pinned.split()) <= row.keys()
    assert set(row["parts"]) >= {"retrieval", "labels"}
    assert (row["difference"], row["wins"], row["ties"], row["losses"]) == (-0.25, 0, 10, 10)
    assert row["decision"] is None
