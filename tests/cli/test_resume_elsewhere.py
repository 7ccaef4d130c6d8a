"""A run goes on where its folder, its terminal or the place it is called from are not what one would expect."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from germane import evaluate
from germane.types import Json
from tests.cli.conftest import Cli, committed, started, wait_for, write_jsonl
from tests.server import ModelServer, by_overlap

KEY = {"OPENAI_API_KEY": "test"}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rows = [
        {"id": f"q{n}", "query": f"thing {n}", "contexts": [{"text": f"thing {n} in passage {k}"}]}
        for n in range(12)
        for k in range(1)
    ]
    return write_jsonl(tmp_path / "data.jsonl", *rows)


def words(data: Path, server: ModelServer, *more: str) -> list[str]:
    asked = ["-m", "context_precision@5", "--judge", "openai:test", "--base-url", server.url]
    return ["run", str(data), *asked, "-o", "r", "-j", "2", "-q", *more]


def test_another_judge_is_taken_only_when_it_is_said(inside: Cli, data: Path, tmp_path: Path) -> None:
    """At another URL every verdict would be asked again: nothing is asked without --reask, and a dry run says it too."""
    with ModelServer() as first, ModelServer() as second:
        assert inside(*words(data, first), env=KEY).code == 0
        asked = first.count
        other = ["run", "--resume", "r", "--base-url", second.url, "-q"]
        for flags in ([], ["--dry-run"]):
            ran = inside(*other, *flags, env=KEY)
            assert ran.code == 2
            assert f"url was {first.url} and is now {second.url}" in ran.err
            assert "; give the same judge as before, or --reask" in ran.err
        model = inside("run", "--resume", "r", "--judge", "openai:other", "--base-url", first.url, env=KEY)
        assert (model.code, second.count) == (2, 0)
        assert "model was test and is now other" in model.err
        again = inside(*other, "--reask", env=KEY)
        assert (again.code, second.count) == (0, asked), again.err
        assert inside("run", "--resume", "r", "--base-url", second.url, "-q", env=KEY).code == 0
        assert (first.count, second.count) == (asked, asked)


def test_reask_is_for_a_report_that_is_continued(inside: Cli, data: Path, tmp_path: Path) -> None:
    """Without --resume there is no other judge that it could be about: nothing is asked or written."""
    with ModelServer() as server:
        for more in ((), ("--dry-run",)):
            ran = inside(*words(data, server, "--reask", *more), env=KEY)
            assert (ran.code, "--resume REPORT" in ran.err, (tmp_path / "r").exists()) == (2, True, False)
    assert server.count == 0


def test_a_run_is_continued_from_another_folder_with_its_own_ledger(
    inside: Cli, data: Path, tmp_path: Path
) -> None:
    """The manifest knows where the ledger is: what was committed is asked nobody again."""
    (tmp_path / "elsewhere").mkdir()
    with ModelServer(latency=0.1) as server:
        with started(words(data, server), tmp_path) as process:
            wait_for(server, 6)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)
        before = server.count
        assert before == committed(tmp_path / ".germane" / "ledger.sqlite") < 12
        resume = ["run", "--resume", "../r", "--base-url", server.url, "-q"]
        ran = inside(*resume, env=KEY, cwd=tmp_path / "elsewhere")
        assert ran.code == 0, ran.err
        assert server.count == 12
        assert not (tmp_path / "elsewhere" / ".germane").exists()


def test_a_run_is_continued_where_its_ledger_is_gone(inside: Cli, data: Path, tmp_path: Path) -> None:
    """A report folder that was carried to another machine: the usual ledger there is used."""
    with ModelServer() as server:
        assert inside(*words(data, server), "--ledger", "own/l.sqlite", env=KEY).code == 0
        for file in (tmp_path / "own").iterdir():
            file.unlink()
        (tmp_path / "own").rmdir()
        ran = inside("run", "--resume", "r", "--base-url", server.url, "-q", env=KEY)
        assert ran.code == 0, ran.err
        assert server.count == 12
        assert not (tmp_path / "own").exists()


@pytest.mark.parametrize("again", [1, 2])
def test_a_copy_of_a_killed_run_needs_no_ledger(inside: Cli, data: Path, tmp_path: Path, again: int) -> None:
    """What was paid stands in the folder before a block is written, however often the run is killed and its ledger lost."""
    with ModelServer(latency=0.1) as server:
        command = words(data, server)
        for asked in range(4, 4 * again + 1, 4):
            with started(command, tmp_path) as process:
                wait_for(server, asked)
                process.send_signal(signal.SIGKILL)
                process.wait()
            shutil.rmtree(tmp_path / ".germane")
            command = ["run", "--resume", "r", "--base-url", server.url, "-q", "-j", "2"]
        ran = inside(*command, "--json", env=KEY)
        assert ran.code == 0, ran.err
        assert server.count <= 12 + 2 * again  # what was in flight
        assert (ran.json["judge"]["calls"], ran.json["judge"]["cached"]) == (12, 0)
    assert not list((tmp_path / "r").glob("*.part")) + list((tmp_path / "r").glob("*.earlier"))


@pytest.mark.parametrize("cache", [(), ("--no-cache",)])
def test_an_older_report_in_the_folder_is_not_continued(
    inside: Cli, data: Path, tmp_path: Path, cache: tuple[str, ...]
) -> None:
    """A run replaces a report with failures, is killed and resumed: neither failures nor verdicts of the old one."""
    ill = [True]

    def answer(kind: str, sections: Mapping[str, str], schema: Mapping[str, Json]) -> Json:
        if ill[0]:
            return {"no": "such"} if "thing 3" in sections["passage"] else {"grade": 0, "reasoning": "old"}
        return by_overlap(kind, sections, schema)

    with ModelServer(answer=answer, latency=0.05) as server:
        flags = [*cache, *(() if cache else ("--ledger", "one.sqlite"))]
        assert inside(*words(data, server, *flags), env=KEY).code == 3
        ill[0] = False
        flags = [*cache, "--force", *(() if cache else ("--ledger", "two.sqlite"))]
        before = server.count
        with started(words(data, server, *flags), tmp_path) as process:
            wait_for(server, before + 6)
            process.send_signal(signal.SIGKILL)
            process.wait()
        ran = inside("run", "--resume", "r", "--base-url", server.url, "--json", env=KEY)
        assert ran.code == 0, ran.err
    rows = [json.loads(line) for line in (tmp_path / "r" / "judgements.jsonl").read_text().splitlines()]
    assert len(rows) == 12
    assert not [row for row in rows if row.get("error") or row["answer"]["reasoning"] == "old"]


def test_ctrl_c_stops_a_run_whose_stderr_is_gone(inside: Cli, data: Path, tmp_path: Path) -> None:
    """`germane run 2>&1 | tee log`: the same Ctrl-C ends tee first. The run stops all the same, as it would."""
    with ModelServer(latency=0.1) as server:
        read, write = os.pipe()
        process = subprocess.Popen(
            [sys.executable, "-m", "germane", *words(data, server)],
            cwd=tmp_path,
            env={**os.environ, **KEY},
            stdout=write,
            stderr=write,
        )
        os.close(write)
        wait_for(server, 4)
        os.close(read)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert server.count < 12
        ran = inside("run", "--resume", "r", "--base-url", server.url, "--json", env=KEY)
        assert (ran.code, server.count) == (0, 12)


def test_a_report_of_another_command_is_not_continued(inside: Cli, data: Path, tmp_path: Path) -> None:
    """It is named, with what continues it; data that is named too does not change that."""
    evaluate(data, "context_precision@5", judge="lexical", folder=tmp_path / "python")
    assert inside("score", "python", "-m", "context_precision@1", "-o", "scored").code == 0
    for name, more in (("python", ()), ("scored", ()), ("python", (str(data),)), ("python", ("--dry-run",))):
        ran = inside("run", "--resume", name, *more)
        assert ran.code == 2
        assert (
            f"{name} was not written by `germane run`, so it cannot be resumed; repeat the call that wrote it"
            in ran.err
        )


def test_what_an_older_germane_paid_for_is_not_cached(inside: Cli, data: Path, tmp_path: Path) -> None:
    """Its sessions have no id, and its judgements name none: they are the report's own."""
    with ModelServer() as server:
        assert inside(*words(data, server), env=KEY).code == 0
        manifest, lines = tmp_path / "r/manifest.json", tmp_path / "r/judgements.jsonl"
        stored = json.loads(manifest.read_text())
        del stored["sessions"][0]["id"], stored["files"]["judgements.jsonl"]
        manifest.write_text(json.dumps(stored))
        rows = [json.loads(line) for line in lines.read_text().splitlines()]
        for row in rows:
            del row["session"]
        write_jsonl(lines, *rows)
        for more in (("--no-cache",), ()):
            ran = inside("run", "--resume", "r", "--base-url", server.url, "--json", "-q", *more, env=KEY)
            assert (ran.json["judge"]["calls"], ran.json["judge"]["cached"], server.count) == (12, 0, 12)


@pytest.mark.parametrize("manifest", ["[1]", "", '{"options": 5}'])
def test_a_damaged_manifest_is_one_message(inside: Cli, data: Path, tmp_path: Path, manifest: str) -> None:
    """No traceback, nothing asked."""
    with ModelServer() as server:
        assert inside(*words(data, server), env=KEY).code == 0
        (tmp_path / "r" / "manifest.json").write_text(manifest)
        ran = inside("run", "--resume", "r", env=KEY)
        assert ran.code == 2
        assert "again" in ran.err


def test_a_run_is_continued_into_another_ledger(inside: Cli, data: Path, tmp_path: Path) -> None:
    """The one that is named now is used for what is asked now; the report folder has the answers of the first session."""
    with ModelServer() as server:
        begun = inside(*words(data, server, "--ledger", "first.sqlite", "--max-calls", "5"), env=KEY)
        assert begun.code == 3
        resume = [
            "run",
            "--resume",
            "r",
            "--base-url",
            server.url,
            "--ledger",
            "new.sqlite",
            "--max-calls",
            "99",
        ]
        dry = inside(*resume, "--dry-run", "--json", env=KEY)
        assert (dry.code, dry.json["requests"]) == (0, 7), dry.err
        assert not (tmp_path / "new.sqlite").exists()
        assert inside(*resume, "-q", env=KEY).code == 0
        assert server.count == 12
    assert committed(tmp_path / "new.sqlite") == 7
    assert not (tmp_path / ".germane").exists()


@pytest.mark.parametrize("options", [{"paths": 5}, {"columns": [["query"]]}, {"seed": "x"}, []])
def test_damaged_options_are_named(inside: Cli, data: Path, tmp_path: Path, options: Json) -> None:
    """A manifest that somebody has edited is an error, and no traceback."""
    assert (
        inside("run", str(data), "-m", "context_precision", "--judge", "lexical", "-o", "r", "-q").code == 0
    )
    file = tmp_path / "r/manifest.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "options": options}))
    ran = inside("run", "--resume", "r")
    assert ran.code == 2
    assert "run the evaluation again" in ran.err


@pytest.mark.parametrize("mistake", ["a bad line", "a bad line in other data", "no key"])
def test_a_mistake_leaves_a_complete_report_as_it_was(
    inside: Cli, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, mistake: str
) -> None:
    """A report that is to be continued or replaced stays readable if the data are damaged or the key lacks."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    row = {"id": "q", "query": "q", "contexts": [{"id": "d", "text": "t"}], "qrels": {"d": 1}}
    data = write_jsonl(tmp_path / "s.jsonl", row)
    assert inside("run", "s.jsonl", "-m", "RR", "-o", "r").code == 0
    before = inside("report", "r", "--json").json
    if mistake == "a bad line":
        data.write_text(f"{data.read_text()}{{\n")
        assert "s.jsonl:2:" in inside("run", "--resume", "r").err
    elif mistake == "a bad line in other data":
        (tmp_path / "t.jsonl").write_text(f"{data.read_text()}{{\n")
        assert "t.jsonl:2:" in inside("run", "t.jsonl", "-m", "nDCG@2", "-o", "r", "--force").err
    else:
        words = ("-m", "RR context_precision", "--judge", "openai:gpt-4o-mini")
        ran = inside("run", "--resume", "r", *words)
        assert (ran.code, "needs an API key" in ran.err) == (2, True)
    assert inside("report", "r", "--json").json == before
    assert inside("score", "r", "-m", "nDCG@3").code == 0
