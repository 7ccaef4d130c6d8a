"""`germane run --later`: questions in a provider's batches, round by round, and nothing paid twice."""

from __future__ import annotations

import functools
import json
import multiprocessing
import os
import signal
from codecs import BOM_UTF8
from pathlib import Path
from typing import Any

import pytest

from germane.addons.batches import rounds
from germane.addons.batches.requests import AskedTable
from germane.addons.batches.rounds import BatchClient
from germane.ledger.sqlite import SQLiteLedger
from tests.addons.batches.test_batchfile import MEASURES, SAMPLES
from tests.command import Ran, invoke
from tests.server import Act, Asked, ModelServer
from tests.server.batches import BatchServer, OpenAIBatchServer


@pytest.fixture(autouse=True)
def _folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test-0123")
    monkeypatch.setattr(rounds, "GRACE", 0.0)
    Path("samples.jsonl").write_text("".join(json.dumps(one) + "\n" for one in SAMPLES))


def start(server: BatchServer, *more: str) -> Ran:
    words = (
        "samples.jsonl",
        "-m",
        MEASURES,
        "--judge",
        server.judge,
        "--base-url",
        server.base,
        "-o",
        "report",
    )
    return invoke("run", *words, "--json", "--price", "1/2", *more)


def resume(server: BatchServer, *more: str) -> Ran:
    return invoke("run", "--resume", "report", "--base-url", server.base, "--json", *more)


def finish(server: BatchServer) -> Ran:
    """Fetch and send until all rounds are done."""
    for _ in range(9):
        if (done := resume(server, "--later")).code == 0:
            break
    return done


def values(done: Ran) -> dict[Any, Any]:
    assert done.code == 0, done.err
    return {(one["sample"], one["measure"]): one["value"] for one in done.json["scores"]}


def paid_once(server: BatchServer) -> bool:
    return set(server.paid.values()) == {1}


def open_batches() -> list[Any]:
    with SQLiteLedger(".germane/ledger.sqlite") as ledger:
        return AskedTable(ledger).batches(opened=True)


@functools.cache
def live() -> tuple[dict[Any, Any], int, float]:
    """What a run without batches comes to: its scores, its requests and its price."""
    with OpenAIBatchServer() as server:
        done = start(server, "--no-cache", "--force", "-o", "live")
        spent = done.json["judge"]
        return values(done), spent["requests"], spent["cost_usd"]


def test_rounds_come_to_what_a_run_would_at_half_the_price() -> None:
    """Sent, fetched, what follows sent, fetched: the same scores for as many requests, half the price, nothing live."""
    with OpenAIBatchServer() as server:
        done = start(server, "--later")
        assert done.code == 3, done.err
        assert "germane run --resume report --later" in done.err
        assert (len(server.batches), server.count) == (1, 0)
        assert resume(server, "--later").code == 3
        assert len(server.batches) == 2
        last = resume(server, "--later")
        found, judge = values(last), last.json["judge"]
        assert len(server.batches) == 2
        assert paid_once(server)
        assert open_batches() == []
        first = json.loads(Path("report/judgements.jsonl").read_text().splitlines()[0])
        assert first["from"] == "batch"
        expected, requests, cost = live()
        assert (found, judge["requests"]) == (expected, requests)
        assert judge["cost_usd"] == pytest.approx(cost / 2)


def test_what_is_under_way_is_not_sent_again() -> None:
    """Neither by the same run, nor by another with the same ledger, nor in a file."""
    with OpenAIBatchServer(looks=99) as server:
        start(server, "--later")
        assert resume(server, "--later").code == 3
        words = ("samples.jsonl", "-m", MEASURES, "--judge", "openai:Q", "--base-url", server.url)
        assert invoke("run", *words, "-o", "other", "--later").code == 3
        done = invoke("questions", *words, "-o", "q.jsonl", "--json")
        assert done.json["requests"] == 0
        told = invoke("questions", *words, "-o", "q.jsonl").err
        assert (
            "are in batches or in an earlier file of questions; germane run --resume REPORT --later" in told
        )
        assert "every question is answered" not in told
        assert len(server.batches) == 1


def test_open_batches_are_not_asked_live() -> None:
    """Without `--later` a run whose batches are open asks nothing, so that nothing is paid twice."""
    with OpenAIBatchServer(looks=99) as server:
        start(server, "--later")
        done = resume(server)
        assert done.code == 3
        assert "in batches" in done.err
        assert "continue with: germane run --resume report --later" in " ".join(done.err.split())
        assert not server.paid


def _faulty(asked: Asked) -> Act | None:
    acts = {0: Act(status=500, error="overloaded"), 1: Act(text="Quite relevant."), 2: Act(cut=True)}
    return acts.get(asked.number)


def test_what_failed_makes_the_next_round() -> None:
    """A line that failed, cannot be read or was cut off is sent again, and is all that is paid twice."""
    with OpenAIBatchServer(_faulty) as server:
        start(server, "--later")
        found = values(finish(server))
        assert sum(server.paid.values()) == len(server.paid) + 2  # an answer that nobody can read is paid for
        assert found == live()[0]


def test_a_batch_that_expires_half_way_is_read_and_goes_on() -> None:
    """Its answers are stored; what it did not run makes the next round."""
    with OpenAIBatchServer(answered=(2,)) as server:
        start(server, "--later")
        done = finish(server)
        assert server.batches[0].status == "expired"
        assert paid_once(server)
        assert values(done) == live()[0]


def test_a_deleted_file_of_errors_loses_no_answer_of_the_other() -> None:
    """The requests that it told of make the next round."""
    usual = OpenAIBatchServer.route

    class Deleting(OpenAIBatchServer):
        def route(self, *asked: Any) -> Any:
            gone = str(self.batches[0].called.get("files", {}).get("error_file_id")) if self.batches else ""
            return (404, {}) if gone and gone in asked[1] else usual(self, *asked)

    with Deleting(lambda asked: Act(status=429, error="busy") if asked.number == 1 else None) as server:
        start(server, "--later")
        found = values(finish(server))
        assert server.batches[0].called["files"].keys() >= {"error_file_id"}
        assert len(server.batches) == 2
        assert found == live()[0]
        assert paid_once(server)


def test_a_failed_batch_whose_file_is_deleted_keeps_its_reason() -> None:
    """The reason says what to change; that a file is missing does not."""

    class Failing(OpenAIBatchServer):
        def route(self, *asked: Any) -> Any:
            if asked[0] == "GET" and asked[1].startswith("/v1/batches/"):
                told = {"status": "failed", "errors": {"data": [{"message": "no quota left"}]}}
                return 200, {"id": "b", "error_file_id": "gone", **told}
            return (404, {}) if "gone" in asked[1] else super().route(*asked)

    with Failing() as server:
        start(server, "--later")
        assert "no quota left" in resume(server, "--later").err


def test_a_parameter_that_the_model_refuses_is_left_out_of_the_next_round() -> None:
    """As live: all lines of the first batch fail, and say why; also where another process sends."""
    with OpenAIBatchServer(temperature=False) as server:
        assert start(server, "--later").code == 3
        found = values(finish(server))
        assert len(server.batches) == 3
        assert found == live()[0]


def test_a_round_of_nothing_but_failures_is_the_last() -> None:
    """What no round mends is said, and not sent for ever."""
    with OpenAIBatchServer(lambda _: Act(status=400, error="no such deployment")) as server:
        start(server, "--later")
        done = resume(server, "--later")
        assert done.code == 3
        assert "no such deployment" in done.err
        assert len(server.batches) == 1


@pytest.mark.parametrize(("lines", "code"), [("some", 0), ("none", 3)])
def test_lines_that_are_missing_or_cannot_be_read(
    lines: str, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their requests make the next round; where none can be read, nothing is sent again."""
    odd = [b"{broken", b"[1]", b'{"custom_id": []}', b"", b"\xff"]

    class Files(dict[str, bytes]):
        def __setitem__(self, name: str, content: bytes) -> None:
            found = content.splitlines()
            if b'"response"' in content and len(server.batches) == 1:
                found = [*odd, *(found[::2] if lines == "some" else [])]
            super().__setitem__(name, b"\n".join(found) + b"\n")

    with OpenAIBatchServer() as server:
        server.files = Files()
        start(server, "--later")
        done = resume(server, "--later") if code else finish(server)
        assert done.code == code, done.err
        if code:
            assert "contain no readable line for it" in done.err
            assert len(server.batches) == 1
        else:
            assert values(done) == live()[0]


def test_batches_are_split_by_the_limits_of_the_provider(monkeypatch: pytest.MonkeyPatch) -> None:
    """By their lines and their bytes."""
    with OpenAIBatchServer() as server:
        monkeypatch.setattr(rounds, "MOST_REQUESTS", 2)
        start(server, "--later")
        first = [len(one.requests) for one in server.batches]
        assert set(first[:-1]) == {2}
        monkeypatch.setattr(rounds, "MOST_BYTES", 1)
        values(finish(server))
        assert {len(one.requests) for one in server.batches[len(first) :]} == {1}


@pytest.mark.parametrize("limit", [("--max-cost", "0.000001"), ("--max-calls", "1")])
def test_a_limit_stops_a_round_before_it_is_sent(limit: tuple[str, str]) -> None:
    """With what it would cost."""
    with OpenAIBatchServer() as server:
        done = start(server, "--later", *limit)
        assert (done.code, len(server.batches)) == (3, 0)
        assert limit[0] in done.err


def test_a_dry_run_has_the_price_of_batches() -> None:
    """Half of the usual one, in JSON and as text; a provider without batches is refused, as by the run."""
    with OpenAIBatchServer() as server:
        usual, later = (start(server, "--dry-run", *more).json for more in ((), ("--later",)))
        assert later["cost_usd"] == pytest.approx(usual["cost_usd"] / 2)
        assert later["tokens"] == usual["tokens"]
        assert not server.batches
    words = ("run", "samples.jsonl", "-m", MEASURES, "--judge", "ollama:m", "--later", "--dry-run")
    refused = invoke(*words)
    assert (refused.code, "no batch API" in refused.err) == (2, True)


def _die(*_: object, **__: object) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


KILLS = (
    (BatchClient, "create", 0),  # after the intent
    (AskedTable, "sent", 1),  # between the POST and the id
    (AskedTable, "done", 1),  # after storing and before marking
)


@pytest.mark.parametrize(("where", "method", "made"), KILLS)
def test_killed_at_any_point_nothing_is_lost_or_paid_twice(where: type[Any], method: str, made: int) -> None:
    """SIGKILL, then the run is continued: the same scores and the same price."""

    def run(server: BatchServer) -> None:
        setattr(where, method, _die)
        start(server, "--later")
        finish(server)

    with OpenAIBatchServer() as server:
        child = multiprocessing.get_context("fork").Process(target=run, args=(server,))
        child.start()
        child.join(60)
        assert child.exitcode == -signal.SIGKILL
        assert len(server.batches) == made
        last = finish(server)
        found, judge = values(last), last.json["judge"]
        assert len(server.batches) == 2
        assert paid_once(server)
        assert open_batches() == []
        expected, requests, cost = live()
        assert (found, judge["requests"]) == (expected, requests)
        assert judge["cost_usd"] == pytest.approx(cost / 2)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--later", "--until", "0.02"), "--until and --later"),
        (("--later", "--engine", "processes:2"), "--engine and --later"),
        (("--later", "--judge", "vllm:Q"), "no batch API of the provider"),
        (("--later", "--judge", "lexical"), "no batch API of the provider"),
    ],
)
def test_what_does_not_go_together_is_said_before_anything_is_sent(words: tuple[str, ...], said: str) -> None:
    """Exit code 2, and no folder is left."""
    judge = () if "--judge" in words else ("--judge", "openai:Q@http://127.0.0.1:9/v1")
    done = invoke("run", "samples.jsonl", "-m", "context_precision", "-o", "report", *judge, *words)
    assert (done.code, Path("report").exists()) == (2, False)
    assert said in done.err


def test_a_request_that_always_fails_does_not_go_out_for_ever() -> None:
    """A round of nothing but failures is the last, whatever those before have brought."""

    def filtered(asked: Asked) -> Act | None:
        bad = b"Bread rises" in asked.content and len(server.batches) < 9
        return Act(status=400, error="content filter") if bad else None

    with OpenAIBatchServer(filtered) as server:
        start(server, "--later")
        resume(server, "--later")
        done = resume(server, "--later")
        while "no batch was sent again" not in done.err:
            assert len(server.batches) < 5
            done = resume(server, "--later")
        again = done.err.partition("content filter), so no batch was sent again; ")[2].partition(
            "leave out --later; "
        )[2]
        assert "continue with: germane run --resume report" in again
        assert "--later" not in again
        assert resume(server).json["judge"]["errors"] > 0


def test_a_byte_order_mark_costs_no_answer() -> None:
    """A gateway may begin a file of answers with one: the first answer is read all the same."""

    class Marked(OpenAIBatchServer):
        def keep(self, rows: list[Any]) -> str:
            name = super().keep(rows)
            self.files[name] = BOM_UTF8 + self.files[name]
            return name

    with Marked() as server:
        start(server, "--later")
        assert finish(server).json["judge"]["errors"] == 0
        assert paid_once(server)


def _edited(lines: list[dict[str, Any]], how: str) -> bytes:
    text = "".join(json.dumps(line) + "\n" for line in lines)
    if how == "cut off":
        return text[: len(text) * 2 // 3].encode()
    if how == "doubled":
        return (text * 2).encode()
    half = lines[: len(lines) // 2]
    for number, line in enumerate(half):
        if how == "others":
            line["custom_id"] = f"other-{number}"
        else:
            line["response"] = {"status_code": 200, "body": [1]}
    return "".join(json.dumps(line) + "\n" for line in lines).encode()


@pytest.mark.parametrize("how", ["cut off", "doubled", "others", "no body"])
def test_a_damaged_output_counts_what_is_whole(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    """The rest is asked again, once; nothing whole is paid twice."""
    rows = [
        {"id": f"q{n}", "query": f"what is {n}", "contexts": [f"thing {n}{k}" for k in range(3)]}
        for n in range(4)
    ]
    Path("d.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    usual, edits = OpenAIBatchServer.route, 1

    def route(self: OpenAIBatchServer, method: str, path: str, *rest: Any) -> Any:
        nonlocal edits
        status, body, *more = usual(self, method, path, *rest)
        if path.endswith("/content") and edits:
            edits -= 1
            body = _edited([json.loads(line) for line in body.splitlines()], how)
        return status, body, *more

    monkeypatch.setattr(OpenAIBatchServer, "route", route)
    with OpenAIBatchServer() as server:
        words = ("--later", "--ledger", "d.sqlite", "--base-url", server.url)
        ran = invoke("run", "d.jsonl", "-m", "context_precision", "--judge", "openai:m", "-o", "d", *words)
        assert ran.code == 3
        errors = ""
        for _ in range(2):
            ran = invoke("run", "--resume", "d", *words)
            errors += ran.err
            if ran.code == 0:
                break
        assert ran.code == 0, errors
        assert max(server.paid.values()) <= 2
        lost = {"cut off": 4, "doubled": 0, "others": 6, "no body": 6}[how]
        assert sum(server.paid.values()) == 12 + lost


def test_a_damaged_file_of_answers_counts_what_is_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """The rest stays asked: `germane questions` writes it again."""
    Path("d.jsonl").write_text(json.dumps({"id": "q", "query": "q", "contexts": ["é one", "two"]}) + "\n")
    words = ("d.jsonl", "-m", "context_precision", "--judge", "openai:m", "--ledger", "d.sqlite")
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    assert invoke("questions", *words, "-o", "asked.jsonl").code == 0
    names = [json.loads(line)["custom_id"] for line in Path("asked.jsonl").read_text().splitlines()]
    content = json.dumps({"reasoning": "é", "grade": 3}, ensure_ascii=False)
    lines = [
        json.dumps({"custom_id": name, "response": content}, ensure_ascii=False).encode() for name in names
    ]
    Path("back.jsonl").write_bytes(
        lines[0] + b"\n" + lines[0] + b"\n" + lines[1][: lines[1].index("é".encode()) + 1]
    )
    found = invoke("answers", "back.jsonl", "--ledger", "d.sqlite")
    assert found.code == 3
    assert "1 line cut off or damaged: back.jsonl:3" in found.err
    assert "1 request without an answer" in found.err
    assert invoke("questions", *words, "-o", "rest.jsonl").code == 0
    Path("rest.back.jsonl").write_bytes(lines[1] + b"\n")
    assert invoke("answers", "rest.back.jsonl", "--ledger", "d.sqlite").code == 0


def test_a_server_that_ignores_after_is_not_asked_for_pages_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A batch that it does not list was not created, and is sent again."""
    usual, pages = OpenAIBatchServer.route, []

    def route(self: OpenAIBatchServer, method: str, path: str, *rest: Any) -> Any:
        if (method, path) != ("GET", "/v1/batches"):
            return usual(self, method, path, *rest)
        pages.append(path)
        assert len(pages) < 9
        return 200, {"data": [{"id": "another", "metadata": None}], "has_more": True}

    monkeypatch.setattr(OpenAIBatchServer, "route", route)
    with OpenAIBatchServer() as server:
        with monkeypatch.context() as killed:
            killed.setattr(AskedTable, "sent", lambda *_: None)
            start(server, "--later")
        assert [row.name for row in open_batches()] == [""]
        assert resume(server, "--later").code == 3
        assert len(pages) == 2
        assert [bool(row.name) for row in open_batches()] == [True]


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "/v1/files", {"object": "file"}),
        ("POST", "/v1/batches", {"id": None}),
        ("GET", "/v1/batches/", {"status": "failed", "errors": "no quota"}),
        ("GET", "/v1/batches/", {"status": "failed", "errors": {"data": ["no quota", None]}}),
        ("GET", "/v1/batches", {"data": {"batch": 1}}),
        ("GET", "/v1/batches", {"data": [None, 7, {"id": "x", "metadata": "y"}]}),
    ],
)
def test_another_answer_than_documented_is_no_internal_error(
    monkeypatch: pytest.MonkeyPatch, method: str, path: str, body: Any
) -> None:
    """A gateway may give any; the run can be continued once it answers as it should."""
    usual = OpenAIBatchServer.route
    with OpenAIBatchServer() as server:
        with monkeypatch.context() as odd:
            odd.setattr(AskedTable, "sent", AskedTable.sent if path.endswith("/") else lambda *_: None)
            odd.setattr(
                OpenAIBatchServer,
                "route",
                lambda self, verb, at, *rest: (
                    (200, body)
                    if verb == method and at.startswith(path) and (path.endswith("/") or at == path)
                    else usual(self, verb, at, *rest)
                ),
            )
            for ran in (start(server, "--later"), resume(server, "--later")):
                assert "internal error" not in ran.err
        assert values(finish(server)) == live()[0]


def test_another_machine_needs_the_ledger() -> None:
    """Without the ledger that records the batches nothing is sent again; with it the batch is fetched."""
    with OpenAIBatchServer() as server:
        start(server, "--later")
        Path(".germane").rename("moved")
        done = resume(server, "--later")
        assert done.code == 2
        assert (
            "records the batches of this report, is not there; give the ledger's place: --ledger" in done.err
        )
        assert resume(server, "--later", "--ledger", "moved/ledger.sqlite").code == 3
        assert resume(server, "--later").code == 0
        assert paid_once(server)


def test_a_server_without_batches_is_named() -> None:
    """The URL is right, and the model too."""
    with ModelServer() as server:
        words = "samples.jsonl", "-m", MEASURES, "--judge", "openai:Q", "--base-url", server.url, "--later"
        done = invoke("run", *words)
    assert (done.code, "without --later the judge is asked at once" in done.err) == (2, True), done.err
