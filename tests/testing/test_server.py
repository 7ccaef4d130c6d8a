"""The model server itself: what it does with broken scripts, odd requests and ports that are taken."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from time import monotonic
from typing import Any

import pytest

from germane import evaluate
from germane.errors import InputError
from germane.judges import LLMJudge
from germane.testing import Act, Asked, ModelServer

SAMPLES = [{"id": "a", "query": "tall tower", "contexts": ["the tall tower stands", "cats sleep"]}]
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
        data += connection.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    length = next(
        int(line[15:]) for line in head.decode().split("\r\n") if line.startswith("content-length:")
    )
    while len(body) < length:
        body += connection.recv(65536)
    return int(head.split()[1]), json.loads(body)


def judged(server: ModelServer) -> Any:
    judge = LLMJudge("openai:m", base_url=server.url, api_key="k")
    return evaluate(SAMPLES, "context_precision@5", judge=judge)


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

    def test_a_port_that_is_taken_is_an_error_at_once(self, server: ModelServer) -> None:
        """Nothing hangs, and the message names the port."""
        taken = int(server.url.split(":")[2].split("/")[0])
        with pytest.raises(InputError, match=f"port {taken} cannot be listened on"):
            ModelServer(port=taken).start()

    def test_a_server_of_its_own_process_says_so_too(self, server: ModelServer) -> None:
        """As a command's mistake, without a traceback."""
        taken = server.url.split(":")[2].split("/")[0]
        ran = subprocess.run(
            [sys.executable, "-m", "germane.testing.server", "--port", taken],
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


class TestTheWire:
    """Requests as other clients send them, and as none should."""

    def test_a_chunked_body_is_a_body(self, server: ModelServer) -> None:
        """In whatever pieces it comes."""
        half = len(CHAT) // 2
        sent = b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in (CHAT[:half], CHAT[half:]))
        whole = HEAD + b"transfer-encoding: chunked\r\n\r\n" + sent + b"0\r\n\r\n"
        assert talk(server, whole)[0] == 200
        assert talk(server, *(whole[at : at + 7] for at in range(0, len(whole), 7)))[0] == 200
        assert [asked.raw for asked in server.asked] == [CHAT, CHAT]

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
