"""The Markdown of a report, as a pull request shows it: short, the rest folded."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from germane import evaluate
from germane.comparison.compare import comparison_of
from germane.reports.formats import write
from tests.cli.conftest import Cli, write_jsonl

TEXT = "A passage of some length that nobody wants to read in a pull request. " * 8


def samples(count: int, systems: tuple[str, ...] = ("",), late: int = 0) -> list[dict[str, Any]]:
    """Queries whose relevant passage comes later the higher their number is, `late` ranks later still."""
    return [
        {
            "id": f"query-{number}",
            "query": f"{number}? {TEXT}",
            "qrels": {"hit": 1},
            "contexts": [
                {"id": "hit" if rank == number % 9 + late + at else f"d{rank}", "text": TEXT}
                for rank in range(12)
            ],
            **({"system": system} if system else {}),
        }
        for at, system in enumerate(systems)
        for number in range(count)
    ]


def unfolded(text: str) -> list[str]:
    """The lines outside <details>, blank ones too."""
    return re.sub(r"<details>.*?</details>\n", "", text, flags=re.DOTALL).splitlines()


def worst_rows(lines: list[str]) -> list[str]:
    """The rows of the table of the worst queries."""
    return [line for line in lines[lines.index("| query | score | details |") + 2 :] if line.startswith("|")]


def test_fifty_queries(tmp_path: Path) -> None:
    """Verdict, gates, means and the ten worst are within 60 lines, and the whole file below 30 KB."""
    report = evaluate(samples(50), "RR nDCG@10", gates=["mean(RR)>=0.9", "min(RR)>=0"])
    path = tmp_path / "ci.md"
    write(report, path)
    text = path.read_text("utf-8")
    lines = unfolded(text)
    assert len(lines) <= 60
    assert len(text.encode()) < 30_000
    assert lines[0].startswith("**Failed** (exit code 1)")
    assert [line[:8] for line in lines if line.startswith("- ")] == ["- failed", "- passed"]
    assert any(line.startswith("| RR | ") for line in lines)
    rows = worst_rows(lines)
    assert len(rows) == 10
    assert all("| 0.1" in row and len(row) < 250 for row in rows)
    assert [file.name for file in tmp_path.iterdir()] == ["ci.md"]


def test_several_systems_and_a_baseline(tmp_path: Path) -> None:
    """With more gates, measures and systems than fit, too; what changed is there, in the order of the means."""
    measures = "RR nDCG@10 P@1 P@3 P@5 P@10 R@3 R@5 R@10 AP"
    gates = [f"mean({one})>=0.1" for one in measures.split()]
    systems = ("bm25", "dense", "hybrid")
    before, report = (
        evaluate(samples(50, systems), measures),
        evaluate(samples(50, systems, 1), measures, gates=gates),
    )
    write(report, tmp_path / "ci.md", baseline=before, comparison=comparison_of(before, report))
    text = (tmp_path / "ci.md").read_text("utf-8")
    lines = unfolded(text)
    assert len(lines) <= 60
    assert len(text.encode()) < 30_000
    assert len(worst_rows(lines)) == 10


def test_the_step_s_summary_says_what_changed(
    inside: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a baseline, without any -o."""
    (tmp_path / "s.jsonl").write_text("".join(json.dumps(row) + "\n" for row in samples(8)))
    assert inside("run", "s.jsonl", "-m", "RR", "-o", "before").code == 0
    summary = tmp_path / "summary.md"
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    assert inside("run", "s.jsonl", "-m", "RR", "-o", "after", "--baseline", "before").code == 0
    assert "no difference shown in RR" in summary.read_text("utf-8")


def test_no_gates_is_neutral(tmp_path: Path) -> None:
    """Without gates the Markdown neither passes nor fails."""
    write(evaluate(samples(3), "RR"), tmp_path / "ci.md")
    text = (tmp_path / "ci.md").read_text("utf-8")
    assert text.startswith("**No gates** (exit code 0)")
    assert "assed" not in "".join(unfolded(text))


def test_graders_of_fifty_cases(inside: Cli, tmp_path: Path) -> None:
    """Failed cases come first among the ten worst, with what was missed; the others' texts are left out."""
    row = {"query": "q", "qrels": {"d": 1}, "contexts": [{"id": "x", "text": TEXT}]}
    write_jsonl(tmp_path / "s.jsonl", *({**row, "id": f"case-{n}"} for n in range(50)))
    graders = "".join(f"  - {{type: R@{n}, name: has{n}}}\n" for n in range(1, 5))
    (tmp_path / "e.yaml").write_text(f"data: s.jsonl\nmeasures:\n{graders}")
    inside("run", "e.yaml", "-o", "ci.md")
    text = (tmp_path / "ci.md").read_text("utf-8")
    lines = unfolded(text)
    assert len(lines) <= 60
    assert len(text.encode()) < 30_000
    assert "50 failed cases:" in lines
    assert len(worst_rows(lines)) == 10
    assert text.count("case-") <= 10 + 24
