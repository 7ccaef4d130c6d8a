"""A key in the query of a URL is sent, and hashed into the keys of answers, but written nowhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from germane.clean import mask_urls
from germane.judges import LLMJudge
from tests.cli.conftest import Cli, write_jsonl
from tests.command import Ran
from tests.server import Act, ModelServer

SECRET = "SECRET123456"
ENV = {"OPENAI_API_KEY": "none"}
WORDS = ("-m", "context_precision@5", "--ledger", "l.sqlite")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rows = [
        {"id": f"q{n}", "query": f"what is {n}?", "contexts": [f"it is {n}", "no", "yes"]} for n in range(2)
    ]
    return write_jsonl(tmp_path / "s.jsonl", *rows)


def written(tmp_path: Path, *ran: Ran) -> str:
    """All that commands wrote, to files and streams."""
    files = [path for path in tmp_path.rglob("*") if path.is_file() and path.name != "germane.toml"]
    return "".join(
        [path.read_bytes().decode(errors="replace") for path in files] + [r.out + r.err for r in ran]
    )


@pytest.mark.parametrize(
    "name", ["api-key", "key", "api_key", "token", "sig", "subscription-key", "other", ""]
)
def test_the_key_is_sent_and_not_written(inside: Cli, tmp_path: Path, data: Path, name: str) -> None:
    """It is in each request, in what is hashed, and in no file, document or message; the parameter's name and version are."""
    with ModelServer() as server:
        query = f"{name}={SECRET}".removeprefix("=") + "&api-version=2024-01"
        words = ("run", data, *WORDS, "--judge", "openai:m", "--base-url", f"{server.url}?{query}", "-v")
        outputs = [word for kind in ("html", "md", "json", "csv") for word in ("-o", f"r.{kind}")]
        ran = inside(*words, "-o", "r", *outputs, "--json", env=ENV)
        assert ran.code == 0, ran.err
        assert server.count == 6
        assert all(asked.path.endswith(f"?{query}") for asked in server.asked)
        again = inside(*words, "-o", "again", env=ENV)
        dry = inside(*words, "--dry-run", "--json", env=ENV)
        assert server.count == 6
        shown = f"{server.url}?{name}{'=' * bool(name)}***&api-version=2024-01"
        assert (
            json.loads((tmp_path / "r/manifest.json").read_text())["judge"]["identity"]["base_url"] == shown
        )
        assert LLMJudge("openai:m", base_url=f"{server.url}?{query}").identity["base_url"].endswith(query)
    assert SECRET not in written(tmp_path, ran, again, dry)


@pytest.mark.parametrize("where", ["flag", "judge", "OPENAI_BASE_URL", "GERMANE_JUDGE", "config", "file"])
def test_errors_do_not_show_it(inside: Cli, tmp_path: Path, data: Path, where: str) -> None:
    """Neither what the server repeats, nor the command that continues; continued as it was, or with the URL, the run ends."""
    broken = [True]
    with ModelServer(lambda asked: Act(status=404, error=f"no {asked.path}") if broken else None) as server:
        url = f"{server.url}?api-key={SECRET}"
        named = f"openai:m@{url}"
        env, flags, file = dict(ENV), list[str](), data
        if where == "config":
            (tmp_path / "germane.toml").write_text(f'judge = ["{named}"]')
        elif where == "file":
            file = tmp_path / "germane.toml.eval.yaml"
            file.write_text(f'judge: "{named}"\ndata: s.jsonl\nmeasures: [context_precision@5]\n')
        elif where.isupper():
            env[where] = url if where.startswith("OPENAI") else named
        flags += ["--base-url", url] if where == "flag" else ["--judge", named] if where == "judge" else []
        flags += ["--judge", "openai:m"] if where in {"flag", "OPENAI_BASE_URL"} else []
        ran = inside("run", file, *WORDS, *flags, "-o", "r", "-v", "--json", env=env)
        assert ran.code == 2
        broken.clear()
        continued = inside("run", "--resume", "r", *flags, env=env)
        assert continued.code == 0, continued.err
    written_by_us = written(tmp_path, ran, continued).replace(
        file.read_text() if where == "file" else "-", ""
    )
    assert SECRET not in written_by_us


def test_a_run_is_not_continued_with_a_masked_key(inside: Cli, tmp_path: Path, data: Path) -> None:
    """What the manifest lacks is asked for."""
    with ModelServer() as server:
        url = ("--base-url", f"{server.url}?key={SECRET}")
        inside("run", data, *WORDS, "--judge", "openai:m", *url, "-o", "r", "--max-calls", 1, env=ENV)
        for more in ((), ("--base-url", f"{server.url}?key=***")):
            ran = inside("run", "--resume", "r", *more, env=ENV)
            assert ran.code == 2
            assert (
                "?key=*** lacks its key, which reports do not store; give the URL again, with the key"
                in ran.err
            )
        assert inside("run", "--resume", "r", *url, "--max-calls", 9, env=ENV).code == 0
        assert server.count == 6


@pytest.mark.parametrize(
    "spec",
    [
        "openai:m@http://h:99999999/v1?key={}",
        "openai:m@http://u:{}@h/v1",
        "openai:m@http://u:{}@h:9x/v1",
        "openai:m@ftp://u:{}@h/v1?k={}",
        "openai:m@localhost:80/v1?k={}",
        "openai:m@u:{}@h/v1",
        "openai:m@http:/h/v1?k={}",
        "opnai:m@http://h/v1?k={}",
    ],
)
def test_a_url_that_is_refused(inside: Cli, tmp_path: Path, data: Path, spec: str) -> None:
    """The message shows neither a key nor a password."""
    ran = inside("run", data, *WORDS, "--judge", spec.replace("{}", SECRET), env=ENV)
    assert ran.code == 2
    assert SECRET not in written(tmp_path, ran)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("http://h/v1?api-key=S&api-version=1", "http://h/v1?api-key=***&api-version=1"),
        (
            "openai:a@http://h?k=S openai:b@https://i?key=S#x",
            "openai:a@http://h?k=*** openai:b@https://i?key=***#x",
        ),
        ("https://u:p@h/x", "https://u:***@h/x"),
        ("https://h/search?q={{query}}&code=S", "https://h/search?q={{query}}&code=***"),
        ("h:1/v1?key=S", "h:1/v1?key=***"),
        ("data/a?.jsonl", "data/a?.jsonl"),
        ({"panel": [{"base_url": "http://h?k=S"}]}, {"panel": [{"base_url": "http://h?k=***"}]}),
    ],
)
def test_what_is_masked(text: object, shown: object) -> None:
    assert mask_urls(text) == shown
