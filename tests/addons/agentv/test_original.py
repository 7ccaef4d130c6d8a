"""AgentV's own: its eval file with the original TypeScript evaluator, and one file under both programs."""

from __future__ import annotations

import json
import runpy
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from germane import Report
from tests.server import ModelServer

from .conftest import Cli

FIXTURES = Path(__file__).parent
answered = runpy.run_path(str(Path(__file__).parents[3] / "scripts" / "beside_agentv.py"))["answered"]

ORIGINAL = {
    "medical-query-retrieval": (5 / 6, "2/3 chunks relevant, precision score: 0.83"),
    "perfect": (1.0, "2/3 chunks relevant, precision score: 1.00"),
    "late": (1 / 3, "1/3 chunks relevant, precision score: 0.33"),
    "irrelevant": (0.0, "0/2 chunks relevant, precision score: 0.00"),
    "nothing": (0.0, "Cannot evaluate contextual precision without retrieved chunks"),
}


def relevance(kind: str, sections: Mapping[str, str], schema: Mapping[str, Any]) -> dict[str, object]:
    """The same verdicts as those of the model when the original was recorded."""
    del kind, schema
    relevant = "Aspirin" in sections["passage"]
    return {"grade": 3 * relevant, "reasoning": "names aspirin" if relevant else "is about a city"}


def test_the_documents_eval_file_with_the_original_evaluator(cli: Cli, tmp_path: Path) -> None:
    """It reads our document, and its score, hits, misses and reasoning come back word for word; our measure says the same.

    What the original printed is recorded (scripts/record_original.py): of its imports `@agentv/eval` is not on npm, and tests
    install nothing.
    """
    shutil.copytree(FIXTURES / "original", tmp_path, dirs_exist_ok=True)
    (tmp_path / ".profile").write_text(f'PATH="{tmp_path}:$PATH"\n')  # `sh -lc` makes its PATH anew
    text = (tmp_path / "retrieval-quality.yaml").read_text("utf-8")
    text = text.replace("  evaluators:\n", "  evaluators:\n    - {name: ours, type: context_precision}\n", 1)
    (tmp_path / "retrieval-quality.yaml").write_text(text, "utf-8")
    with ModelServer(answer=relevance) as server:
        words = ("--judge", "openai:test", "--base-url", server.url, "--json")
        env = {"HOME": str(tmp_path), "OPENAI_API_KEY": "test"}
        ran = cli("run", "retrieval-quality.yaml", *words, env=env)
    assert ran.code == 0, ran.err
    report = Report.open(tmp_path / ran.json["report"])
    found = {(score["sample"], score["measure"]): score for score in ran.json["scores"]}
    assert {name for name, _ in found} == ORIGINAL.keys()
    grader = next(measure for _, measure in found if measure != "ours")
    for name, (score, reasoning) in ORIGINAL.items():
        original, explained = found[name, grader], report.explain(name, grader)
        assert (original["status"], original["value"]) == ("ok", pytest.approx(score))
        assert explained.reasoning == reasoning
        assert found[name, "ours"]["value"] == original["value"]
        if name != "nothing":
            ours = report.explain(name, "ours")
            assert ours.hits == explained.hits
            assert tuple(m for m in ours.misses if "ranked below" not in m) == explained.misses
            assert ours.reasoning == explained.reasoning


@pytest.mark.equals("AgentV 4.42.4", what="one eval file with every grader, run by both", within="exact")
def test_one_file_under_agentv_and_under_germane(cli: Cli, tmp_path: Path) -> None:
    """Every grader of AgentV 4.42.4 scores the same here, and so does each case (scripts/beside_agentv.py records them)."""
    shutil.copytree(FIXTURES / "recorded", tmp_path, dirs_exist_ok=True)
    record = json.loads((tmp_path / "recorded.json").read_text("utf-8"))
    with ModelServer(answered) as server:
        words = ("--judge", "openai:test", "--base-url", server.url, "--json")
        env = {"OPENAI_API_KEY": "test", "JUDGE_URL": server.url, "JUDGE_MODEL": "test"}
        ran = cli("run", "beside.eval.yaml", *words, env=env)
    assert ran.code == 0, ran.err
    assert record["agentv"] == "4.42.4"
    for case in ran.json["cases"]:
        theirs = record["cases"][case["sample"]]
        scores = [score["value"] for score in ran.json["scores"] if score["sample"] == case["sample"]]
        assert scores == [pytest.approx(score) for _, score in theirs["graders"]]
        assert len(scores) == 23
        assert case["score"] == pytest.approx(theirs["score"])
