"""The model server itself: what it does with broken scripts, odd requests and ports that are taken."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from itertools import product
from time import monotonic, sleep
from typing import Any
from unittest.mock import ANY

import pytest

from germane import evaluate
from germane.errors import InputError
from germane.judges import LLMJudge, RetryPolicy
from tests.server import Act, Asked, ModelServer

SAMPLES = [
    {
        "id": "a",
        "query": "tall tower",
        "reference": "The tall tower stands in Paris. It is made of iron.",
        "contexts": ["the tall tower stands", "cats sleep"],
    }
]
SUITE = "context_precision@5 context_recall context_relevancy context_entity_recall context_sufficiency"
CHAT = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hello"}]}).encode()
HEAD = b"POST /v1/chat/completions HTTP/1.1\r\nhost: x\r\n"


def talk(server: ModelServer, *pieces: bytes) -> tuple[int, Any]:
    """What comes back on a plain socket: the status and the body."""
    port = int(server.url.split(":")[2].split("/")[0])
    with closing(socket.create_connection(("127.0.0.1", port), timeout=5)) as connection:
        for piece in pieces:
            connection.sendall(piece)
        return read(connection)


def read(connection: socket.socket) -> tuple[int, Any]:
    data = b""
    while b"\r\n\r\n" not in data:
        data += received(connection)
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(
        int(line[15:]) for line in head.decode().split("\r\n") if line.startswith("content-length:")
    )
    while len(body) < length:
        body += received(connection)
    return int(head.split()[1]), json.loads(body)


def received(connection: socket.socket) -> bytes:
    data = connection.recv(65536)
    assert data, "the connection was closed before the response was whole"
    return data


def judged(server: ModelServer, measures: str = "context_precision@5", samples: Any = SAMPLES, **more) -> Any:
    judge = LLMJudge("openai:m", base_url=server.url, api_key="k", **more)
    return evaluate(samples, measures, judge=judge)


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as running:
        yield running


class TestTheUsersOwnMistakes:
    """A test's script is code too: what it raises is said where it can be seen."""

    def test_what_a_script_raises_comes_out_where_the_server_is_left(self) -> None:
        """Meanwhile it is a 500 with the text, so that nothing hangs."""

        def boom(_: Asked) -> Act:
            raise RuntimeError("a bug in the script")

        def inside() -> None:
            with ModelServer(boom) as server:
                status, body = talk(server, HEAD + b"content-length: %d\r\n\r\n" % len(CHAT) + CHAT)
                assert status == 500
                assert "a bug in the script" in body["error"]["message"]

        with pytest.raises(RuntimeError, match="a bug in the script"):
            inside()

    @pytest.mark.parametrize("rule", [lambda *_: 1 / 0, lambda *_: object()])
    def test_what_a_rule_raises_comes_out_too(self, rule: Any) -> None:
        """Also an answer that JSON cannot say; the evaluation ends meanwhile, with the reason on its scores."""

        def inside() -> None:
            begun = monotonic()
            with ModelServer(answer=rule) as server:
                (score,) = judged(server).scores()
                assert score.status == "error"
                assert "the test's own script or rule raised" in score.why
                assert monotonic() - begun < 20

        with pytest.raises((ZeroDivisionError, TypeError)):
            inside()

    def test_a_script_that_gives_no_act_is_told_what_to_give(self) -> None:
        """A text is not an Act."""

        def inside() -> None:
            with ModelServer(lambda _: "fine") as server:  # type: ignore[arg-type, return-value]
                judged(server)

        with pytest.raises(TypeError, match="a script gives an Act or None, not 'fine'"):
            inside()

    @pytest.mark.parametrize(
        ("wrong", "said"),
        [
            ({"status": "429"}, "Act(status='429') is not possible; write a whole number from 200 to 599"),
            ({"status": 0}, "write a whole number from 200 to 599"),
            ({"error": "x"}, "an Act with an error needs a status; write Act(status=500, error=...)"),
            ({"text": "x", "body": "y"}, "an Act cannot have both body and text; give one of them"),
            ({"status": 500, "refusal": "x"}, "an Act with status 500 gives no answer"),
        ],
    )
    def test_an_act_that_cannot_be_is_an_error_where_it_is_written(
        self, wrong: dict[str, Any], said: str
    ) -> None:
        """With what to write instead: nothing is left for the wire to trip over."""
        with pytest.raises(InputError, match=re.escape(said)):
            Act(**wrong)

    @pytest.mark.parametrize("wrong", [{"headers": 5}, {"body": {"a": 1}}, {"usage": 7}])
    def test_an_act_of_a_wrong_type_is_raised_where_the_server_is_left(self, wrong: dict[str, Any]) -> None:
        """Nothing hangs meanwhile."""

        def inside() -> None:
            with ModelServer([Act(**wrong)]) as server:
                judged(server)

        with pytest.raises((TypeError, AttributeError)):
            inside()

    def test_a_kind_of_question_that_there_is_not_is_named(self) -> None:
        """Before it listens, with those that there are."""
        with pytest.raises(
            InputError, match="no kind of question 'grade' to answer; write citations, claims,"
        ):
            ModelServer(answer={"grade": 3})

    def test_an_act_is_shown_as_it_was_written(self) -> None:
        """So that a message or a failed assertion can be read."""
        assert (
            repr(Act(status=429, headers={"retry-after": 1})) == "Act(status=429, headers={'retry-after': 1})"
        )
        assert repr(Act()) == "Act()"

    def test_a_rule_that_forgets_to_answer_is_told(self) -> None:
        """None is what a function without a return gives."""

        def inside() -> None:
            with ModelServer(answer=lambda *_: None) as server:
                judged(server)

        with pytest.raises(TypeError, match="the rule gives no answer to a question of kind 'relevance'"):
            inside()

    def test_a_server_runs_once_at_a_time(self, server: ModelServer) -> None:
        """And has no URL before it does."""
        with pytest.raises(InputError, match="the model server runs already"):
            server.start()
        with pytest.raises(InputError, match="the model server has no port yet"):
            _ = ModelServer().url

    def test_a_port_that_is_taken_is_an_error_at_once(self, server: ModelServer) -> None:
        """Nothing hangs, and the message names the port."""
        taken = int(server.url.split(":")[2].split("/")[0])
        with pytest.raises(InputError, match=f"port {taken} cannot be listened on"):
            ModelServer(port=taken).start()

    def test_a_server_of_its_own_process_says_so_too(self, server: ModelServer) -> None:
        """As a command's mistake, without a traceback."""
        taken = server.url.split(":")[2].split("/")[0]
        ran = subprocess.run(
            [sys.executable, "-m", "tests.server", "--port", taken],
            capture_output=True,
            check=False,
        )
        assert ran.returncode == 2
        assert f"port {taken} cannot be listened on".encode() in ran.stderr
        assert b"Traceback" not in ran.stderr

    def test_a_server_can_be_started_again(self) -> None:
        """On the port that it had; stopping one that does not run does nothing."""
        server = ModelServer()
        server.stop()
        urls = set()
        for _ in range(2):
            with server:
                urls.add(server.url)
                assert judged(server)["context_precision@5"].n == 1
        assert len(urls) == 1


class TestWhatItIsAsked:
    """A request, read as the model that it plays would read it."""

    @pytest.mark.parametrize("takes", list(product((True, False), repeat=3)))
    def test_verdicts_do_not_hang_on_what_a_model_takes(self, takes: tuple[bool, bool, bool]) -> None:
        """Schema, tools, a system message, or none of them: every question is understood."""
        with ModelServer() as plain:
            wanted = [score.value for score in judged(plain, SUITE).scores()]
        schema, tools, system = takes
        with ModelServer(schema=schema, tools=tools, system=system) as server:
            assert [score.value for score in judged(server, SUITE).scores()] == wanted
        assert None not in wanted

    def test_a_schema_in_a_passage_is_not_what_is_asked_for(self) -> None:
        """The first that stands there whole is."""
        text = 'set {"title": or {"title": "x", "properties": {}} here'
        samples = [{"id": "a", "query": 'what is {"title": "y"}', "contexts": [text]}]
        for system in (True, False):
            with ModelServer(schema=False, tools=False, system=system) as server:
                assert judged(server, samples=samples)["context_precision@5"].n == 1
            assert server.asked[-1].kinds == ["relevance"]

    def test_it_shows_itself_where_an_assertion_fails(self, server: ModelServer) -> None:
        """What was asked, of which model, how, and the first words."""
        judged(server)
        shown = repr(server.asked[0])
        begun = "<Asked 0: relevance; model='m', mode='schema', messages=2, user='<query>"
        assert shown.startswith(begun)
        assert len(shown) < 200

    @pytest.mark.parametrize(
        "raw", [b"\xff{", b"[]", b"{}", b'{"model": "m", "messages": [{"role": "user"}]}', b'{"messages": 3}']
    )
    def test_it_shows_itself_whatever_it_is(self, raw: bytes) -> None:
        """Also what is no chat completion."""
        assert repr(Asked(3, "/v1/x", {}, raw)).startswith("<Asked 3: ")

    def test_an_answer_for_each_kind_of_question(self) -> None:
        """In a fused request of several and in a list too; kinds without one are answered as ever."""
        for batch in (1, 2):
            with ModelServer(answer={"relevance": {"grade": 3, "reasoning": "always"}}) as server:
                report = judged(server, SUITE, batch=batch)
            assert report["context_precision@5"].mean == 1.0
            assert report["context_recall"].n == 1

    def test_counts_of_tokens_are_given_or_added(self) -> None:
        """What is not given is counted as ever."""
        cached = {"prompt_tokens_details": {"cached_tokens": 600}}
        with ModelServer(lambda _: Act(usage={"prompt_tokens": 1000, **cached})) as server:
            _, body = talk(server, HEAD + b"content-length: %d\r\n\r\n" % len(CHAT) + CHAT)
        assert body["usage"] == {"prompt_tokens": 1000, "completion_tokens": ANY, **cached}


class TestInFlight:
    """How many requests somebody waits for."""

    def test_who_has_gone_waits_for_nothing(self) -> None:
        """Neither after a hang nor after an answer that came too late."""
        acts = [Act(hang=True), Act(latency=3)]
        with ModelServer(acts) as server:
            patience = RetryPolicy(read=1, backoff=0.01)
            judge = LLMJudge("openai:m", base_url=server.url, retry=patience, concurrency=1)
            report = evaluate(SAMPLES, "context_precision@5", judge=judge)
        assert report["context_precision@5"].n == 1
        assert (server.count, server.in_flight, server.most_in_flight) == (4, 0, 1)

    def test_who_has_gone_gets_nothing(self) -> None:
        """An answer that is due after the client has left is dropped, and counted down once."""
        with ModelServer(latency=0.1) as server:
            port = int(server.url.split(":")[2].split("/")[0])
            with closing(socket.create_connection(("127.0.0.1", port))) as connection:
                connection.sendall(HEAD + b"content-length: %d\r\n\r\n" % len(CHAT) + CHAT)
                while not server.count:
                    sleep(0.001)
            assert judged(server)["context_precision@5"].n == 1
        assert server.in_flight == 0


class TestTheWire:
    """Requests as other clients send them, and as none should."""

    @pytest.mark.parametrize(
        "request_",
        [
            b"\r\n\r\n",
            b"hello\r\n\r\n",
            HEAD + b"content-length: many\r\n\r\n",
            HEAD + b"content-length: -3\r\n\r\n",
            HEAD + b"transfer-encoding: chunked\r\n\r\nxyz\r\n",
            HEAD + b"transfer-encoding: chunked\r\n\r\n2\r\n{}{}\r\n0\r\n\r\n",
            HEAD + b"content-length: 3\r\n\r\n{x}",
            HEAD + b"content-length: 2\r\n\r\n{}",
            HEAD + b"content-length: 18\r\n\r\n" + b'{"messages": ["x"]}'[:18],
            HEAD + b"\r\n",
        ],
    )
    def test_what_is_no_request_gets_a_400(self, server: ModelServer, request_: bytes) -> None:
        """With a sentence that says why, never a dropped connection."""
        status, body = talk(server, request_)
        assert status == 400
        assert body["error"]["message"].startswith("not a ")

    def test_a_reset_is_one(self) -> None:
        """The system says so; it is not the end of a body that is too short."""
        with ModelServer([Act(reset=True)]) as server, pytest.raises(ConnectionResetError):
            talk(server, HEAD + b"content-length: %d\r\n\r\n" % len(CHAT) + CHAT)

    def test_half_of_nothing_is_nothing(self) -> None:
        """The head comes whole."""
        with ModelServer([Act(truncate=True, body="")]) as server:
            port = int(server.url.split(":")[2].split("/")[0])
            with closing(socket.create_connection(("127.0.0.1", port), timeout=5)) as connection:
                connection.sendall(HEAD + b"content-length: %d\r\n\r\n" % len(CHAT) + CHAT)
                assert connection.recv(65536).startswith(b"HTTP/1.1 200 OK\r\n")

    def test_other_paths_are_not_there(self, server: ModelServer) -> None:
        """Only chat completions are."""
        status, body = talk(server, b"GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n")
        assert (status, body["error"]["message"]) == (404, "there is no /v1/models here")

    def test_an_answer_can_trickle_in(self) -> None:
        """Byte by byte, whole in the end."""
        with ModelServer([Act(drip=0.001, body="[1, 2, 3]")]) as server:
            begun = monotonic()
            request = urllib.request.Request(f"{server.url}/chat/completions", CHAT)
            with urllib.request.urlopen(request) as response:
                assert json.load(response) == [1, 2, 3]
            assert monotonic() - begun > 0.05
