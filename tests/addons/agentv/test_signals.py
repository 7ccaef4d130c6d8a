"""A signal ends a run whose graders search for patterns."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest


@pytest.mark.parametrize("engine", [(), ("--engine", "processes:2")])
def test_one_signal_ends_a_search_for_patterns(tmp_path: Path, engine: tuple[str, ...]) -> None:
    """Sixty graders' patterns need two seconds each: after SIGINT no more than the one that is searched for is, exit 130."""
    cases = [{"id": f"s{number}", "query": "q", "answer": "a" * 40 + "!"} for number in range(60)]
    slow = {"evalcases": cases, "measures": [{"type": "regex", "value": "(a|aa)+$"}]}
    (tmp_path / "slow.yaml").write_text(json.dumps(slow))
    words = [sys.executable, "-m", "germane", "run", "slow.yaml", "-o", "slow", *engine]
    with subprocess.Popen(words, cwd=tmp_path, stderr=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        while not (tmp_path / "slow" / "manifest.json").exists():
            time.sleep(0.05)
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)  # all of them need two minutes
    assert process.returncode == 130, err
    assert b"germane run --resume slow" in err
