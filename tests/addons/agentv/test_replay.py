"""`germane grade --replay`."""

from __future__ import annotations

import json

from tests.cli.conftest import Cli
from tests.cli.test_replay import ROWS
from tests.command import Ran


def test_grade_replays_too(cli: Cli, recorded: tuple[list[str], Ran]) -> None:
    """One case as it was judged; another one is exit 3 with nothing on stdout."""
    words, _ = recorded
    grade = ["grade", "context_precision@5", "--judge", words[5], "--replay", "answers.jsonl"]
    ran = cli(*grade, stdin=json.dumps(ROWS[0]))
    assert ran.code == 0, ran.err
    assert 0 <= ran.json["score"] <= 1
    ran = cli(*grade, stdin=json.dumps({**ROWS[0], "query": "something else"}))
    assert (ran.code, ran.out) == (3, "")
    assert "2 answers are not in answers.jsonl: relevance of q0 at rank 1" in ran.err
