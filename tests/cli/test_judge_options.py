"""How a model judge is asked, by flag: what is sent, what is written down, what is not."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Cli, write_jsonl
from tests.server import Act, ModelServer

SECRET = "sk-very-secret-0123"


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    rows = ({"id": f"q{n}", "query": "what is it", "contexts": [f"it is {n}"]} for n in range(3))
    return write_jsonl(tmp_path / "data.jsonl", *rows)


def words(data: Path, server: ModelServer, *more: str) -> list[str]:
    judge = ["--judge", "openai:test", "--base-url", server.url, "-j", "1", "--ledger", "l.sqlite"]
    return ["run", str(data), "-m", "context_precision@5", *judge, "-o", "out", "-q", *more]


def test_they_reach_the_model(inside: Cli, data: Path) -> None:
    """Temperature, parameters (JSON where they are JSON, else text) and headers."""
    said = ["--temperature", "0.5", "--model-parameter", "seed=7", "--model-parameter", "user=me=you, too"]
    with ModelServer() as server:
        result = inside(*words(data, server, *said, "--header", f"X-Team=a={SECRET}", "--header", "x-b=c, d"))
    assert result.code == 0
    asked = server.asked[0]
    assert (asked.json["temperature"], asked.json["seed"], asked.json["user"]) == (0.5, 7, "me=you, too")
    assert (asked.headers["x-team"], asked.headers["x-b"]) == (f"a={SECRET}", "c, d")


def test_a_header_is_written_down_nowhere(inside: Cli, data: Path, tmp_path: Path) -> None:
    """Not in the manifest, the ledger, an error or the command that continues, where its name stands."""
    refused = Act(status=401, error=f"bad key {SECRET}")
    with ModelServer([None, refused]) as server:
        result = inside(*words(data, server, "--header", f"authorization=Bearer {SECRET}", "--rpm", "6000"))
    assert result.code == 2
    assert "--header authorization=..." in result.err.replace("'", "")
    assert SECRET not in result.out + result.err
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert any(path.name == "manifest.json" for path in files)
    assert not [path for path in files if SECRET.encode() in path.read_bytes()]
    manifest = json.loads((tmp_path / "out" / "manifest.json").read_text("utf-8"))
    assert manifest["options"]["rpm"] == 6000
    assert "headers" not in manifest["options"]


def test_a_resumed_run_is_asked_as_before(inside: Cli, data: Path) -> None:
    """Temperature and parameters are in the key of an answer: they hold until others are given."""
    with ModelServer([None, Act(status=401)]) as server:
        inside(*words(data, server, "--temperature", "0.5", "--model-parameter", "seed=7"))
        stopped = server.count
        result = inside("run", "--resume", "out", "--base-url", server.url, "--judge", "openai:test", "-q")
    assert server.count > stopped
    assert result.code == 0
    assert {asked.json["seed"] for asked in server.asked} == {7}
    assert {asked.json["temperature"] for asked in server.asked} == {0.5}


def test_limits_and_timeout(inside: Cli, data: Path) -> None:
    """Requests per minute, tokens per minute; an answer that takes too long is asked for again."""
    with ModelServer([Act(hang=True)]) as server:
        result = inside(*words(data, server, "--timeout", "0.3", "--rpm", "60000", "--tpm", "1000000"))
    assert result.code == 0
    assert server.count == 4


@pytest.mark.parametrize(
    ("flag", "value", "said"),
    [
        ("--header", SECRET, "--header is not NAME=VALUE"),
        ("--header", f"a b={SECRET}", "--header is not NAME=VALUE"),
        ("--header", f"a=b\n{SECRET}", "the value of --header a holds control characters"),
        ("--model-parameter", "seed", "'seed' is not NAME=VALUE"),
        ("--model-parameter", "messages=[]", "include messages, which germane sets"),
        ("--model-parameter", "stream=true", "include stream, which germane sets"),
        ("--model-parameter", "temperature=hot", "invalid temperature='hot'"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_sent(
    inside: Cli, data: Path, flag: str, value: str, said: str
) -> None:
    """And a value that may be a key is not repeated."""
    with ModelServer() as server:
        result = inside(*words(data, server, flag, value))
    assert (result.code, server.count) == (2, 0)
    assert said in result.err
    assert SECRET not in result.err


def test_no_header_goes_to_a_url_in_a_file(inside: Cli, data: Path, tmp_path: Path) -> None:
    """As with a key."""
    with ModelServer() as server:
        (tmp_path / "germane.toml").write_text(f'judge = "openai:test@{server.url}"\n', "utf-8")
        result = inside("run", str(data), "-m", "context_precision@5", "--header", f"x={SECRET}", "-o", "out")
    assert (result.code, server.count) == (2, 0)
    assert "headers are not sent to the URL of a judge" in result.err
