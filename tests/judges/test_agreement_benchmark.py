"""The benchmark that measures a judge against people runs with every way to ask."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.judge_agreement import ARMS
from tests.server.models import ModelServer

ROOT = Path(__file__).parents[2]


def test_every_arm_has_a_grade_for_every_pair(tmp_path: Path) -> None:
    """Pairs without references leave out the arm that needs one."""
    pairs = [
        {"qid": f"q{n % 2}", "query": "high tide", "passage": f"tide {n}", "human": n % 4, "judges": {}}
        for n in range(4)
    ]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(pair) + "\n" for pair in pairs))
    with ModelServer() as server:
        words = ["--judge", "openai:test", "--base-url", server.url, "--arms", ",".join(ARMS)]
        done = subprocess.run(
            [sys.executable, "-m", "benchmarks.judge_agreement", "pairs.jsonl", *words],
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert "reference: left out: 4 of 4 pairs have no reference" in done.stdout
    assert "4 of 4 pairs have a grade in every arm" in done.stdout
