"""Limits and panels on the command line, against a real model server."""

import json
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

import jsonschema
import pytest
from scripts.reference_pages import schema_of

from germane.ledger.sqlite import SQLiteLedger
from germane.reports.formats import Document
from germane.types import Json
from tests.cli.conftest import Cli, write_jsonl
from tests.server import Act, ModelServer, by_overlap

KEY = {"OPENAI_API_KEY": "test"}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rows = [
        {
            "id": f"q{n}",
            "query": f"what is thing {n}",
            "contexts": [{"text": f"thing {n} is {k}"} for k in range(5)],
        }
        for n in range(6)
    ]
    return write_jsonl(tmp_path / "data.jsonl", *rows)


def words(data: Path, server: ModelServer, *more: object) -> list[object]:
    asked = ["-m", "context_precision@5", "--judge", "openai:test", "--base-url", server.url]
    return ["run", data, *asked, "--ledger", "l.sqlite", *more]


def test_max_calls_stops_and_is_continued(inside: Cli, data: Path, tmp_path: Path) -> None:
    """Exit 3, the reason and the command on stderr; the folder is not finished; continued, nothing is asked twice."""
    with ModelServer() as server:
        ran = inside(*words(data, server, "--max-calls", 12, "-o", "r"), env=KEY)
        assert ran.code == 3
        assert (
            "stopped at --max-calls 12: 12 calls were made; continue with: germane run --resume r" in ran.err
        )
        assert json.loads((tmp_path / "r" / "manifest.json").read_text())["status"] == "interrupted"
        shown = inside("report", "r")
        assert shown.code == 0
        assert "interrupted" in shown.out
        assert server.count == 12
        ran = inside("run", "--resume", "r", "--base-url", server.url, env=KEY)
        assert ran.code == 3  # the limit is the start's, of each session
        assert (
            "stopped at --max-calls 12: 12 calls were made; continue with: germane run --resume r" in ran.err
        )
        assert "\nspent so far, in all sessions: 24 calls, " in ran.err
        ran = inside("run", "--resume", "r", "--base-url", server.url, "--max-calls", "99", "--json", env=KEY)
        assert ran.code == 0, ran.err
        assert server.count == 30
    sessions = json.loads((tmp_path / "r" / "manifest.json").read_text())["sessions"]
    assert [(row["calls"], row["requests"]) for row in sessions] == [(12, 12), (12, 12), (6, 6)]
    assert sum(row["input_tokens"] for row in sessions) == ran.json["judge"]["tokens"]["input"]


def test_max_cost_stops_below_the_limit(inside: Cli, data: Path, tmp_path: Path) -> None:
    """With a price given, what was paid stays below the limit, and near it."""
    with ModelServer() as server:
        priced = words(data, server, "--price", "1000/1000", "--json")
        full = inside(*priced, "--no-cache", env=KEY).json["judge"]["cost_usd"]
        limit = full / 2
        ran = inside(*priced, "--max-cost", limit, "-o", "r", env=KEY)
        assert ran.code == 3
        assert "stopped at --max-cost" in ran.err
    with SQLiteLedger(tmp_path / "l.sqlite") as ledger:
        paid = ledger.db.execute("SELECT sum(cost_usd), max(cost_usd) FROM judgements").fetchone()
    assert limit - 3 * paid[1] < paid[0] <= limit * (1 + 1e-9)


@pytest.mark.parametrize(
    "refusal", [Act(status=402, error="no credit"), Act(status=429, headers={"Retry-After": 7200})]
)
def test_a_refusal_between_two_requests_of_a_group(inside: Cli, tmp_path: Path, refusal: Act) -> None:
    """The usable answers of the first request are stored and counted; only the others are asked again."""
    contexts = [{"text": f"a {n}"} for n in range(4)]
    data = write_jsonl(tmp_path / "data.jsonl", {"id": "q", "query": "what", "contexts": contexts})
    spoilt = Act(
        change=lambda payload: {"items": [{**payload["items"][0], "grade": 9}, *payload["items"][1:]]}
    )
    with ModelServer([spoilt, refusal]) as server:
        ran = inside(*words(data, server, "--batch", 4, "-o", "r"), env=KEY)
        assert "spent so far, in all sessions: 3 calls, 0 cached, 2 requests" in ran.err
        inside("run", "--resume", "r", "--base-url", server.url, env=KEY)
        assert server.count == 3
        assert not server.asked[-1].named[0].endswith("_list")


def test_a_report_states_what_all_sessions_cost(inside: Cli, data: Path, tmp_path: Path) -> None:
    """Stopped: what was spent is printed and in the manifest. Continued: the sum of all sessions, and nothing cached."""
    with ModelServer() as server:
        priced = words(data, server, "--price", "1000/1000")
        full = inside(*priced, "--no-cache", "--json", env=KEY).json["judge"]
        ran = inside(*priced, "--max-calls", 12, "-o", "r", env=KEY)
        assert "\nspent so far, in all sessions: 12 calls, 0 cached, 12 requests, " in ran.err
        stopped = json.loads((tmp_path / "r" / "manifest.json").read_text())["judge"]
        assert (stopped["calls"], stopped["requests"]) == (12, 12)
        assert f"${stopped['cost_usd']:.4f}" in ran.err
        ran = inside("run", "--resume", "r", "--base-url", server.url, "--max-calls", 99, "--json", env=KEY)
        assert ran.json["judge"] == {**full, "cost_usd": pytest.approx(full["cost_usd"])}


def test_without_the_ledger_a_stopped_run_loses_nothing(inside: Cli, data: Path, tmp_path: Path) -> None:
    """--no-cache keeps answers in the report folder until the report is complete; the shared ledger is untouched."""
    with ModelServer() as server:
        asked = words(data, server, "--no-cache", "-o", "r")
        assert inside(*asked, "--max-calls", 12, env=KEY).code == 3
        ran = inside("run", "--resume", "r", "--base-url", server.url, "--max-calls", 99, "--json", env=KEY)
        assert (ran.json["judge"]["calls"], ran.json["judge"]["cached"], server.count) == (30, 0, 30)
        assert not [file.name for file in (tmp_path / "r").iterdir() if "sqlite" in file.name]
        assert "--force" in inside(*asked, env=KEY).err  # what was paid for is not replaced by accident
        assert inside(*asked, "--force", "--max-calls", 12, env=KEY).code == 3
        assert inside(*asked, "--force", env=KEY).code == 0  # not continued but begun anew: nothing is known
        assert server.count == 30 + 12 + 30
    assert not (tmp_path / "l.sqlite").exists()


def test_a_run_that_stops_prints_its_document(inside: Cli, data: Path) -> None:
    """--json: the exit code, what was spent so far, and why and how to go on; by a limit and by a judge that is none."""
    with ModelServer() as server:
        ran = inside(*words(data, server, "--max-calls", 12, "-o", "r", "--json"), env=KEY)
        found = ran.json
        jsonschema.validate(found, schema_of(Document))
        assert (ran.code, found["exit_code"], found["passed"], found["report"]) == (3, 3, False, "r")
        assert found["judge"]["calls"] == 12
        assert found["verdict"] == ["stopped at --max-calls 12: 12 calls were made"]
        assert "germane run --resume r" in found["stopped"]
    with ModelServer(lambda _: Act(status=401)) as server:
        ran = inside(*words(data, server, "-o", "s", "--json"), env=KEY)
        assert (ran.code, ran.json["exit_code"], ran.json["scores"]) == (2, 2, [])
        assert "HTTP 401" in ran.json["stopped"]


def test_continuing_makes_headway_under_any_limit(inside: Cli, data: Path) -> None:
    """A limit below one request of several questions asks fewer of them; one of nothing names the flag to raise."""
    with ModelServer() as server:
        asked = words(data, server, "--batch", 5, "-o", "r")
        assert "1 call was made" in inside(*asked, "--max-calls", 1, env=KEY).err
        again = inside("run", "--resume", "r", "--base-url", server.url, env=KEY).err
        assert "in all sessions: 2 calls, 0 cached, 2 requests" in again
        ran = inside(*asked, "--force", "--max-calls", 0, "--filter", "q5", env=KEY)
        assert ran.code == 3
        assert "germane run --resume r --max-calls ..." in ran.err


def test_what_samples_share_is_not_called_cached(inside: Cli, data: Path, tmp_path: Path) -> None:
    """Equal questions of two samples: the same counts in the dry run, the table, JSON and Markdown."""
    row = json.loads(data.read_text().splitlines()[0])
    write_jsonl(data, row, {**row, "id": "again"})
    with ModelServer() as server:
        asked = words(data, server)
        dry = inside(*asked, "--dry-run", "--json", env=KEY).json["measures"]["context_precision@5"]
        assert (dry["calls"], dry["shared"], dry["cached"]) == (5, 5, 0)
        ran = inside(*asked, "-o", "r", "-o", "r.md", env=KEY)
        for text in (ran.out, (tmp_path / "r.md").read_text()):
            assert "5 calls, 0 cached, 5 shared, 5 requests, " in text
        judge = inside(*asked, "--json", env=KEY).json["judge"]
        assert {name: judge[name] for name in ("calls", "shared", "cached", "requests", "errors")} == {
            "calls": 0,
            "shared": 5,
            "cached": 5,
            "requests": 0,
            "errors": 0,
        }


def test_a_cost_limit_without_a_price_is_refused(inside: Cli, data: Path, tmp_path: Path) -> None:
    """Exit 2 before anything is asked or written, with the two ways out; a bad price is refused too."""
    with ModelServer() as server:
        ran = inside(*words(data, server, "--max-cost", "1", "-o", "r"), env=KEY)
        assert ran.code == 2
        assert "--price" in ran.err
        assert "--max-calls" in ran.err
        assert inside(*words(data, server, "--price", "cheap"), env=KEY).code == 2
        assert server.count == 0
    assert not (tmp_path / "r").exists()


def test_a_bad_line_is_found_before_anything_is_asked(inside: Cli, data: Path, tmp_path: Path) -> None:
    """The last of 2,001 lines is not a sample: exit 2, no call, no folder; although the first would have been asked."""
    row = data.read_text().splitlines()[0]
    lines = [row.replace('"q0"', f'"q{n}"') for n in range(2000)]
    data.write_text("\n".join([*lines, '{"id": "bad"}']))
    with ModelServer() as server:
        ran = inside(*words(data, server, "-o", "r"), env=KEY)
        assert ran.code == 2
        assert "data.jsonl:2001" in ran.err
        assert server.count == 0
    assert not (tmp_path / "r").exists()


def test_a_panel_by_flags(inside: Cli, data: Path, tmp_path: Path) -> None:
    """Two judges, two samples each: four votes per question, a row for each and for what they became, and a second run asks nobody."""
    with ModelServer() as server:
        asked = words(data, server, "--judge", "openai:other", "--repeat", "2", "--limit", 2, "--json")
        dry = inside(*asked, "--dry-run", env=KEY)
        assert dry.json["measures"]["context_precision@5"]["calls"] == 40
        ran = inside(*asked, "-o", "r", env=KEY)
        assert ran.code == 0, ran.err
        assert ran.json["judge"]["calls"] == server.count == 40
        name = "majority of openai:test@{0} #1, openai:test@{0} #2, openai:other@{0} #1, openai:other@{0} #2"
        assert ran.json["judge"]["source"].replace(f"@{server.url}", "") == name.replace("@{0}", "")
        rows = [json.loads(line) for line in (tmp_path / "r" / "judgements.jsonl").read_text().splitlines()]
        merged = [row for row in rows if "parent" not in row]
        assert len(merged) == 10
        assert all(len(row["votes"]) == 4 for row in merged)
        assert {row["parent"] for row in rows if "parent" in row} == {row["key"] for row in merged}
        assert len(rows) == 50
        again = inside(*asked, env=KEY)
        assert again.json["judge"]["calls"] == 0
        assert again.json["scores"] == ran.json["scores"]
        assert (
            inside("score", "r", "-m", "P(labels=judge)@3", "--json").json["measures"]["P(labels=judge)@3"][
                "n"
            ]
            == 2
        )
        ran = inside("run", "--resume", "r", "--base-url", server.url, "--json", env=KEY)
        assert (ran.json["judge"]["calls"], ran.json["judge"]["cached"], server.count) == (40, 0, 40)


def test_report_files_are_written_by_the_session_that_ends_the_run(
    inside: Cli, data: Path, tmp_path: Path
) -> None:
    """Stopped, none is; the printed command continues, and what was asked for at the start appears."""
    with ModelServer() as server:
        ran = inside(
            *words(data, server, "--max-calls", 12, "-o", "r", "-o", "a b.json", "-o", "r.md"), env=KEY
        )
        assert ran.code == 3
        command = shlex.split(ran.err.partition("continue with: germane ")[2].splitlines()[0])
        assert not (tmp_path / "r.md").exists()
        ran = inside(*command, "--max-calls", 99, env=KEY)
        assert ran.code == 0, ran.err
        assert json.loads((tmp_path / "a b.json").read_text())["judge"]["calls"] == 30
        assert (tmp_path / "r.md").exists()


def test_failures_since_mended_are_not_spoken_of(inside: Cli, data: Path) -> None:
    """Five questions fail; asked again they are answered: the report says what it cost, and that nothing is missing."""
    ill = [True]

    def answer(kind: str, sections: Mapping[str, str], schema: Mapping[str, Json]) -> Json:
        if ill[0] and "thing 3 is" in sections["passage"]:
            return {"no": "such"}
        return by_overlap(kind, sections, schema)

    with ModelServer(answer=answer) as server:
        ran = inside(*words(data, server, "-o", "r"), env=KEY)
        assert ", 5 failed" in ran.out
        assert "ask the failed questions again: germane run --resume r" in ran.err
        ill[0] = False
        mended = inside("run", "--resume", "r", "--base-url", server.url, env=KEY)
        assert mended.code == 0
        assert "35 calls, 0 cached, 45 requests" in mended.out
        assert "failed" not in mended.out
        assert not mended.err


def test_a_judge_that_costs_nothing_fails_too(inside: Cli, data: Path) -> None:
    """Labels do not answer such questions: said in the first session and in a continued one."""
    asked = ["-m", "context_sufficiency", "--judge", "labels", "-o", "r"]
    assert "0 calls, 0 cached, 6 failed" in inside("run", data, *asked).out
    assert "0 calls, 0 cached, 6 failed" in inside("run", "--resume", "r").out


def test_tokens_that_nobody_told_are_called_estimates(inside: Cli, data: Path) -> None:
    """An endpoint without usage: about so many tokens and dollars, in the table and in JSON; one that tells: neither."""
    for told in (True, False):
        with ModelServer(lambda _, told=told: Act(usage=told)) as server:  # type: ignore[misc]
            asked = words(data, server, "--price", "1/2", "--no-cache")
            printed = " ".join(inside(*asked, env=KEY).out.split())  # a long port breaks the line elsewhere
            assert ("tokens, about $" in printed) is not told
            assert inside(*asked, "--json", env=KEY).json["judge"]["estimated"] is not told


@pytest.mark.parametrize("flag", ["--max-cost", "--timeout", "--rpm", "--tpm", "--temperature"])
def test_infinity_is_no_setting(inside: Cli, data: Path, flag: str) -> None:
    """One message that names the flag, exit 2, in the run and in the dry run."""
    with ModelServer() as server:
        for more in ([], ["--dry-run"]):
            ran = inside(*words(data, server, flag, "inf", *more), env=KEY)
            assert ran.code == 2
            assert f"{flag}: invalid value 'inf'" in ran.err
        assert server.count == 0


@pytest.mark.parametrize(("ending", "module"), [("png", "resvg_py"), ("parquet", "polars")])
def test_a_file_that_cannot_be_written_costs_nothing(
    inside: Cli, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ending: str, module: str
) -> None:
    """Its package is not installed: exit 2 before a call, and no report."""
    monkeypatch.setitem(sys.modules, module, None)
    with ModelServer() as server:
        ran = inside(*words(data, server, "-o", f"x.{ending}", "-o", "r"), env=KEY)
        assert (ran.code, server.count, (tmp_path / "r").exists()) == (2, 0, False)
    assert f"x.{ending}: writing a .{ending} needs the package" in ran.err
