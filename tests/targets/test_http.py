"""Systems behind HTTP: what is sent, what is read, and what is tried again."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
import json
import socket
import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from germane.errors import InputError, TargetError
from germane.targets import open_target
from germane.types import Json, Message, Sample

Reply = tuple[int, dict[str, str], str]


class System:
    """A small system under test; `replies` are given one after the other, the last one for ever."""

    def __init__(self) -> None:
        self.replies: list[Reply] = [(200, {}, "{}")]
        self.asked: list[dict[str, Any]] = []
        system = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
                asked = {
                    "method": self.command,
                    "path": self.path,
                    "headers": dict(self.headers),
                    "body": body,
                }
                system.asked.append(asked)
                status, headers, text = (
                    system.replies.pop(0) if len(system.replies) > 1 else system.replies[0]
                )
                self.send_response(status)
                for name, value in {**headers, "Content-Length": str(len(text.encode()))}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text.encode())

            do_GET = do_PUT = do_POST  # noqa: N815 - as the base class has it

            def log_message(self, *_: object) -> None:
                """Nothing."""

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"


@pytest.fixture
def system(monkeypatch: pytest.MonkeyPatch) -> Iterator[System]:
    monkeypatch.setattr("germane.targets.http._PAUSE", 0.0)
    made = System()
    threading.Thread(target=made.server.serve_forever, args=(0.01,), daemon=True).start()
    yield made
    made.server.shutdown()
    made.server.server_close()


@pytest.fixture
def ask(tmp_path: Path, system: System, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, Sample], Sample]:
    monkeypatch.setenv("KEY", "secret")

    def asking(settings: str, sample: Sample) -> Sample:
        path = tmp_path / "targets.yaml"
        path.write_text("targets:\n  - name: rag\n    provider: http\n" + settings.replace("URL", system.url))
        target = open_target("rag", path)

        async def work() -> Sample:
            try:
                return await target.answer(sample)
            finally:
                await target.close()

        return asyncio.run(work())

    return asking


SAMPLE = Sample(id="q1", query='Why "steam"? {{id}}', history=(Message(role="user", content="Hi"),))


def test_the_request_is_as_the_file_says_and_the_answer_is_where_it_says(system: System, ask: Any) -> None:
    """Slots and variables are filled once; pointers find answer, contexts and their fields."""
    system.replies = [(200, {}, json.dumps({"out": {"a/b": "Heat."}, "hits": [
        {"page": {"content": "Steam."}, "key": 7, "sim": 0.5}, {"page": {"content": "Tea."}}]}))]  # fmt: skip
    found = ask(
        """    url: URL/{{id}}
    method: put
    headers: {Authorization: "Bearer ${{ KEY }}", X-Trial: "{{trial}}"}
    body: {question: "{{query}}", top: 5, turns: "{{ history }}", note: "id {{id}}"}
    answer: /out/a~1b
    contexts: /hits
    context: {text: /page/content, id: /key, score: /sim}
""",
        SAMPLE,
    )
    (asked,) = system.asked
    assert (asked["method"], asked["path"]) == ("PUT", "/q1")
    assert (asked["headers"]["Authorization"], asked["headers"]["X-Trial"]) == ("Bearer secret", "0")
    assert json.loads(asked["body"]) == {
        "question": 'Why "steam"? {{id}}', "top": 5, "turns": [{"role": "user", "content": "Hi"}], "note": "id q1",
    }  # fmt: skip
    assert found.response == "Heat."
    assert [(c.text, c.id, c.score) for c in found.contexts or ()] == [
        ("Steam.", "7", 0.5),
        ("Tea.", None, None),
    ]
    assert found.metadata["ms"] >= 0


@pytest.mark.parametrize(("answer", "response"), [(None, None), ("", ""), (0, "0"), (["a"], '["a"]')])
def test_no_answer_is_not_the_word_null(system: System, ask: Any, answer: Json, response: str | None) -> None:
    """Where the answer should be stands null: the system gave none. Other values are texts."""
    system.replies = [(200, {}, json.dumps({"text": answer, "hits": []}))]
    found = ask("    url: 'URL/?q={{query}}'\n    answer: /text\n    contexts: /hits\n", SAMPLE)
    assert (found.response, found.contexts) == (response, ())


def test_a_get_request_puts_the_question_into_the_url(system: System, ask: Any) -> None:
    """Percent-encoded; without pointers the response is a sample's answer."""
    system.replies = [(200, {}, '{"response": "x", "contexts": ["a"]}')]
    found = ask("    url: 'URL/?q={{query}}'\n", Sample(id="q", query="a&b c"))
    assert (system.asked[0]["method"], system.asked[0]["path"]) == ("GET", "/?q=a%26b%20c")
    assert (found.response, [c.text for c in found.contexts or ()]) == ("x", ["a"])


@pytest.mark.parametrize("pointers", ["", "    contexts: /hits\n"])
def test_a_body_that_says_error_is_an_error(pointers: str, system: System, ask: Any) -> None:
    """Whatever its list holds, and with a status of success."""
    system.replies = [
        (200, {}, '{"hits": [], "contexts": [], "error": {"code": 429, "message": "too many"}}')
    ]
    if pointers:
        with pytest.raises(TargetError, match=r"^too many$"):
            ask(f"    url: 'URL/{{{{id}}}}'\n{pointers}", SAMPLE)
    else:
        assert ask("    url: 'URL/{{id}}'\n", SAMPLE).error == "too many"


def test_what_may_pass_is_tried_again(system: System, ask: Any) -> None:
    """5xx and 429 so often as `retries` says; then it is the sample's error."""
    system.replies = [(503, {}, ""), (429, {"Retry-After": "0"}, ""), (200, {}, '{"contexts": []}')]
    assert ask("    url: 'URL/{{id}}'\n", SAMPLE).contexts == ()
    system.replies = [(500, {}, "broken")]
    with pytest.raises(TargetError, match=r"\(2 attempts\): HTTP 500: broken"):
        ask("    url: 'URL/{{id}}'\n    retries: 1\n", SAMPLE)


@pytest.mark.parametrize(
    ("reply", "pointer", "why"),
    [
        ((404, {}, "no such index"), "/a", "HTTP 404: no such index"),
        ((200, {}, "<html>"), "/a", "not JSON"),
        ((200, {}, '{"b": 1}'), "/a", "no value at /a"),
        ((200, {}, '{"a": 1}'), "/a", "the response has no list at /a"),
    ],
)
def test_a_useless_response_says_what_was_wrong(
    system: System, ask: Any, reply: Reply, pointer: str, why: str
) -> None:
    """And is not asked for again."""
    system.replies = [reply]
    with pytest.raises(TargetError, match=why):
        ask(f"    url: 'URL/{{{{id}}}}'\n    contexts: {pointer}\n", SAMPLE)
    assert len(system.asked) == 1


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ("    body: {q: '{{query}}'}\n", "a target has no url; write url: https://host/search"),
        ("    url: URL/search\n", "does not send the query"),
        ('    url: URL/search\n    body: {q: "{PROMPT}"}\n', "does not send the query"),
        ('    url: URL/search\n    body: {q: "{{question}}", n: "{{trial}}"}\n', "does not send the query"),
        (
            "    url: 'URL/{{id}}'\n    contexts: hits.0\n",
            "contexts is 'hits.0', not a JSON pointer; write /hits/0",
        ),
    ],
)
def test_what_cannot_work_is_said_before_anything_is_asked(ask: Any, settings: str, problem: str) -> None:
    """With what to write instead."""
    with pytest.raises(InputError, match=problem):
        ask(settings, SAMPLE)


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        (
            "    url: URL\n    headers: {x-query: '{{query}}'}\n    body: '{{query}}'",
            "the header x-query would have characters",
        ),
        ("    url: http://127.0.0.1:99999\n    body: '{{query}}'", "port must be 0-65535"),
        ("    url: URL\n    headers: {content-length: '1'}\n    body: '{{query}}'", "Too much data"),
    ],
)
def test_a_request_that_cannot_be_sent_is_an_error_of_the_sample(
    ask: Any, settings: str, problem: str
) -> None:
    """The other samples are still asked."""
    with pytest.raises(TargetError, match=problem):
        ask(f"{settings}\n    retries: 0\n", Sample(id="a", query="über?"))


class Raw:
    """A server that answers each request with these bytes, a part every `pause` seconds."""

    def __init__(self, parts: list[bytes], pause: float = 0.0) -> None:
        self.parts, self.pause = parts, pause
        self.asked: list[bytes] = []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.socket.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                asked, _ = self.socket.accept()
                threading.Thread(target=self._answer, args=(asked,), daemon=True).start()

    def _answer(self, asked: socket.socket) -> None:
        with asked, contextlib.suppress(OSError):
            self.asked.append(asked.recv(65536))
            for part in self.parts:
                asked.sendall(part)
                time.sleep(self.pause)


OK = b"HTTP/1.1 200 OK\r\nConnection: close\r\n"


@pytest.mark.parametrize(
    "parts",
    [
        [OK + b"\r\n", *[b" "] * 300],
        [b"HTTP/1.1 200 OK\r\n", *[b"X-A: b\r\n"] * 300],
        [b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\nConnection: close\r\nRetry-After: 30\r\n\r\n"],
    ],
    ids=["body", "headers", "pause"],
)
def test_one_deadline_holds_for_the_whole_call(ask: Any, parts: list[bytes]) -> None:
    """However slowly a server drips, and however long it asks to wait."""
    server, started = Raw(parts, 0.1), time.monotonic()
    with pytest.raises(TargetError, match=r"0\.5 s"):
        ask(f"    url: '{server.url}/{{{{id}}}}'\n    timeout: 0.5\n", SAMPLE)
    assert time.monotonic() - started < 3
    server.socket.close()


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (b"", b"x" * 20_000_000),
        (b"Content-Encoding: gzip\r\n", gzip.compress(b"x" * 60_000_000, 1)),
    ],
    ids=["plain", "bomb"],
)
def test_a_body_has_a_limit_unpacked(ask: Any, headers: bytes, body: bytes) -> None:
    """No response fills the memory."""
    server = Raw([OK + headers + b"\r\n", body])
    tracemalloc.start()
    with pytest.raises(TargetError, match="longer than 16 MB"):
        ask(f"    url: '{server.url}/{{{{id}}}}'\n    retries: 0\n", SAMPLE)
    assert tracemalloc.get_traced_memory()[1] < 60_000_000
    tracemalloc.stop()
    server.socket.close()


def test_a_packed_body_is_unpacked(ask: Any) -> None:
    """As gzip."""
    packed = gzip.compress('{"response": "bücher"}'.encode())
    server = Raw([OK + b"Content-Encoding: gzip\r\n\r\n", packed])
    assert ask(f"    url: '{server.url}/{{{{id}}}}'\n", SAMPLE).response == "bücher"
    server.socket.close()


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect_is_an_error_that_names_the_new_url(system: System, ask: Any, status: int) -> None:
    """Nothing is sent there: headers may hold keys."""
    other = Raw([OK + b'\r\n{"response": "there"}'])
    system.replies = [(status, {"Location": f"{other.url}/"}, "")]
    with pytest.raises(TargetError, match=f"redirects to {other.url}/"):
        ask("    url: 'URL/{{id}}'\n    headers: {X-Api-Key: secret}\n", SAMPLE)
    assert not other.asked
    other.socket.close()
