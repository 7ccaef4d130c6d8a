"""Keys in URLs are in no exported request and no answer."""

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, write_jsonl
from tests.cli.test_keys_in_urls import ENV, SECRET, WORDS, data, written
from tests.server import ModelServer

__all__ = ["data"]


def test_requests_for_later_hold_no_key(inside: Cli, tmp_path: Path, data: Path) -> None:
    """Answers to exported requests are stored under the key that the endpoint's own have."""
    with ModelServer() as server:
        judge = ("--judge", "openai:m", "--base-url", f"{server.url}?token={SECRET}")
        asked = inside("questions", data, *WORDS, *judge, "-o", "q.jsonl", env=ENV)
        assert asked.code == 0, asked.err
        verdict = {"choices": [{"message": {"content": '{"reasoning": "", "grade": 2}'}}]}
        rows = [json.loads(line)["custom_id"] for line in (tmp_path / "q.jsonl").read_text().splitlines()]
        answers = [{"custom_id": row, "response": {"status_code": 200, "body": verdict}} for row in rows]
        write_jsonl(tmp_path / "a.jsonl", *answers)
        read = inside("answers", "a.jsonl", "--ledger", "l.sqlite", env=ENV)
        assert read.code == 0, read.err
        ran = inside("run", data, *WORDS, *judge, env=ENV)
        assert (ran.code, server.count) == (0, 0)
    assert SECRET not in written(tmp_path, asked, read, ran)


@pytest.mark.parametrize("place", ["d.jsonl", "link.jsonl"])
def test_questions_never_overwrite_their_input(inside: Cli, tmp_path: Path, place: str) -> None:
    """Through a link neither."""
    write_jsonl(tmp_path / "d.jsonl", {"query": "q", "contexts": ["a"]})
    (tmp_path / "link.jsonl").symlink_to("d.jsonl")
    before = (tmp_path / "d.jsonl").read_bytes()
    ran = inside("questions", "d.jsonl", "--judge", "openai:m", "-m", "context_precision", "-o", place)
    assert (ran.code, "would overwrite an input file" in ran.err) == (2, True), ran.err
    assert (tmp_path / "d.jsonl").read_bytes() == before


def test_questions_never_overwrite_the_samples_of_their_report(inside: Cli, tmp_path: Path) -> None:
    """The report's folder is an input, too."""
    write_jsonl(tmp_path / "d.jsonl", {"query": "q", "contexts": ["a"]})
    assert inside("run", "d.jsonl", "-m", "context_precision", "--judge", "lexical", "-o", "report").code == 0
    ran = inside("questions", "report", "-o", "report/samples.jsonl")
    assert (ran.code, "would overwrite an input file" in ran.err) == (2, True), ran.err
