"""What goes over the wire: no compression, no body without an end, connections of the running loop."""

from __future__ import annotations

import asyncio
import gzip
import json

import pytest

from germane.judges.client.retry import RetryPolicy, TransportError
from germane.judges.client.transport import HTTPTransport
from germane.judges.judge import Reply
from germane.judges.llm import LLMJudge
from germane.questions.relevance import Relevance
from tests.server import Act, ModelServer

QUICK = RetryPolicy(connect=1, read=5, backoff=0.001)
ANSWER = json.dumps({"choices": [{"message": {"content": '{"grade": 2}'}}]}).encode()


def ask(server: ModelServer) -> Reply:
    async def main() -> Reply:
        judge = LLMJudge("openai:test", base_url=server.url, api_key="k", retry=QUICK, concurrency=1)
        try:
            await judge.answer((Relevance(query="q", passage="first"),))
            (reply,) = await judge.answer((Relevance(query="q", passage="second"),))
            return reply
        finally:
            await judge.close()

    return asyncio.run(main())


def test_no_compression_is_asked_for() -> None:
    """A small compressed body can be of any size."""
    with ModelServer() as server:
        ask(server)
    assert server.asked[0].headers["accept-encoding"] == "identity"


@pytest.mark.parametrize("encoding", ["gzip", "br", "zstd, gzip"])
def test_an_encoded_body_is_refused(encoding: str) -> None:
    """It was not asked for, and is not decompressed: the error names the encoding."""
    act = Act(headers={"content-encoding": encoding}, body=gzip.compress(ANSWER))
    with ModelServer([None, act, act, act]) as server:
        reply = ask(server)
    assert reply.payload is None
    assert f"the response is compressed ({encoding}), which the request did not allow" in str(reply.error)
    assert server.count == 4


def test_an_identity_encoding_is_read() -> None:
    """It says what was asked for."""
    with ModelServer([None, Act(headers={"content-encoding": "identity"}, body=ANSWER)]) as server:
        assert ask(server).payload == {"grade": 2}


def test_a_body_beyond_the_cap_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """While it arrives, whatever its header says."""
    monkeypatch.setattr("germane.judges.client.transport.LARGEST", 2000)
    act = Act(body=ANSWER + b" " * 4000)
    with ModelServer([None, act, act]) as server:
        reply = ask(server)
    assert reply.payload == {"reasoning": reply.payload["reasoning"], "grade": reply.payload["grade"]}
    assert reply.provenance["faults"] == 2


def test_a_refused_connection_is_a_transport_error() -> None:
    """By its name."""
    with ModelServer() as server:
        url = server.url

    async def main() -> None:
        transport = HTTPTransport(url, {}, connect=1, most=1)
        with pytest.raises(TransportError, match="ConnectError"):
            await transport.send(b"{}")
        await transport.close()

    asyncio.run(main())
