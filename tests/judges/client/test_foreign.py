"""Anthropic as the example of a provider with a protocol of its own: its real library against a local server."""

from __future__ import annotations

import asyncio
import builtins
import os
import sys
from collections.abc import Sequence

import pytest

from germane.errors import InputError, JudgeError, MissingPart
from germane.judges.client.retry import RetryPolicy
from germane.judges.judge import Reply
from germane.judges.llm import LLMJudge
from germane.questions.kinds import Claims, Support
from germane.questions.question import AnyQuestion
from germane.questions.relevance import Relevance
from tests.server import Act
from tests.server.foreign import AnthropicServer

QUICK = RetryPolicy(connect=5, read=2, deadline=30, backoff=0.01)
SKY = Relevance(query="why is the sky blue", passage="the sky is blue")
NEW, OLD = "claude-haiku-4-5", "claude-3-haiku-20240307"
"""A model that takes a schema, and one that takes tools only."""


@pytest.fixture(autouse=True)
def _no_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith(("ANTHROPIC_", "AWS_", "CO_", "GOOGLE_"))]:
        monkeypatch.delenv(name)


def judge_of(server: AnthropicServer, model: str = NEW, **more) -> LLMJudge:
    given = {
        "base_url": server.base,
        "api_key": "sk-secret-0123",
        "retry": QUICK,
        "concurrency": 2,
        **more,
    }
    return LLMJudge(f"anthropic:{model}", **given)


def ask(judge: LLMJudge, questions: Sequence[AnyQuestion]) -> list[Reply]:
    async def main() -> list[Reply]:
        try:
            return [reply for group in judge.group(questions) for reply in await judge.answer(group)]
        finally:
            await judge.close()

    return asyncio.run(main())


@pytest.mark.parametrize(("model", "mode"), [(NEW, "schema"), (OLD, "tool")])
@pytest.mark.parametrize("question", [SKY, Claims("q", "One. Two."), Support(("a", "b"), ("x", "y"))])
def test_every_kind_is_asked_and_read(question: AnyQuestion, model: str, mode: str) -> None:
    """One request, by schema where the model takes one, else by tool; tokens and cached tokens are counted."""
    with AnthropicServer() as server:
        (reply,) = ask(judge_of(server, model), [question])
    assert reply.error is None
    question.parse(reply.payload)
    assert server.count == 1
    assert reply.usage.input_tokens == len(server.asked[0].raw) // 4
    assert reply.provenance == {"mode": mode, "model": model}


def test_the_request_is_anthropics_own() -> None:
    """Path, key and headers; instructions as the system prompt, the text last; no retries but ours."""
    with AnthropicServer() as server:
        ask(
            judge_of(server, headers={"x-team": "search"}, parameters={"top_k": 5, "service_tier": "auto"}),
            [SKY],
        )
    (heard,), (headers,) = server.heard, server.sent
    assert headers["x-team"] == "search"
    assert "sk-secret-0123" in headers.get("x-api-key", headers.get("authorization", ""))
    assert "Grade the passage's relevance" in heard["system"]
    assert heard["messages"][0]["content"][0]["text"].rpartition("</")[0].endswith(">the sky is blue")
    assert (heard["temperature"], heard["max_tokens"], heard["top_k"]) == (0.1, 4096, 5)


@pytest.mark.parametrize(
    ("acts", "counted"),
    [
        ([Act(status=429, headers={"retry-after": "0.05"})] * 4, "waits"),
        ([Act(status=529, error="Overloaded")] * 2, "waits"),
        ([Act(status=500)] * 2, "faults"),
        ([Act(hang=True)], "faults"),
        ([Act(reset=True)], "faults"),
        ([Act(body="<html>")], "faults"),
        ([Act(text="It is relevant.")], "reasked"),
        ([Act(change=lambda payload: {**payload, "grade": 7})] * 2, "reasked"),
    ],
    ids=["429", "529", "500", "hang", "reset", "no json", "prose", "out of range"],
)
def test_the_same_budgets_hold(acts: list[Act], counted: str) -> None:
    """Waiting spends no attempt, faults and unusable answers have three; each request is counted once."""
    with AnthropicServer(acts) as server:
        (reply,) = ask(judge_of(server), [SKY])
    assert reply.error is None
    assert reply.provenance[counted] == len(acts)
    assert reply.usage.requests == server.count == len(acts) + 1


def test_a_model_without_temperature_is_sent_none() -> None:
    """And nobody is warned: it is ours to send it only where it is taken."""
    with AnthropicServer() as server:
        (reply,) = ask(judge_of(server, "claude-haiku-5-5"), [SKY])
    assert reply.error is None
    assert "temperature" not in server.heard[0]


def test_a_cut_answer_is_asked_again_with_more_room() -> None:
    """Seen by Anthropic's stop reason."""
    with AnthropicServer([Act(cut=True)]) as server:
        (reply,) = ask(judge_of(server), [SKY])
    assert reply.error is None
    assert [heard["max_tokens"] for heard in server.heard] == [4096, 8192]


def test_a_wrong_key_ends_it_and_is_not_shown() -> None:
    """JudgeError with what Anthropic said, after one request."""
    with (
        AnthropicServer(lambda _: Act(status=401, error="invalid x-api-key sk-secret-0123")) as server,
        pytest.raises(JudgeError, match=r"HTTP 401: invalid x-api-key \*\*\*"),
    ):
        ask(judge_of(server), [SKY])
    assert server.count == 1


def test_one_judge_serves_several_loops() -> None:
    """As a notebook does."""
    with AnthropicServer() as server:
        judge = judge_of(server)
        for _ in range(2):
            assert ask(judge, [SKY])[0].error is None


def test_the_users_own_limit_is_anthropics() -> None:
    """Whichever of its two names it was given."""
    for name in ("max_tokens", "max_completion_tokens"):
        with AnthropicServer([Act(cut=True)]) as server:
            (reply,) = ask(judge_of(server, parameters={name: 50}), [SKY])
        assert reply.error is None
        assert [asked.json["max_tokens"] for asked in server.asked] == [50, 4096]


class TestKeys:
    def test_a_missing_one_names_its_variable(self) -> None:
        """Before anything is sent."""
        with pytest.raises(JudgeError, match="set ANTHROPIC_API_KEY"):
            LLMJudge(f"anthropic:{NEW}").ready()

    def test_a_url_from_a_file_gets_none(self) -> None:
        """The provider's library would read the environment for it, for a key and for headers."""
        spec = f"anthropic:{NEW}@http://example.org"
        assert LLMJudge(spec).service.custom == "http://example.org"
        with pytest.raises(
            InputError,
            match="the judge anthropic has a URL from a file, to which your API key would be sent; set ANTHROPIC_BASE_URL",
        ):
            LLMJudge(spec, trusted=False)


class TestExtras:
    @pytest.mark.parametrize("provider", ["anthropic", "google", "bedrock"])
    def test_a_missing_one_is_named(self, provider: str, monkeypatch: pytest.MonkeyPatch) -> None:
        """With the line to type; stored answers need none."""
        judge = LLMJudge(f"{provider}:some-model", api_key="k")

        def no(name: str, *args: object, **more: object) -> object:
            if name.startswith("pydantic_ai"):
                raise ModuleNotFoundError(f"No module named {name!r}")
            return found(name, *args, **more)  # type: ignore[arg-type]

        found = builtins.__import__
        for name in [name for name in sys.modules if name.startswith("pydantic_ai")]:
            monkeypatch.setitem(sys.modules, name, None)
        monkeypatch.setattr(builtins, "__import__", no)
        with pytest.raises(MissingPart, match=rf"pip install '\.\[{provider}\]'"):
            judge.ready()

    def test_their_keys_are_those_of_any_judge(self) -> None:
        """Provider, model and parameters: what changes an answer."""
        judge = LLMJudge(f"anthropic:{NEW}")
        assert judge.identity == {"provider": "anthropic", "model": NEW, "temperature": 0.1}

    def test_a_model_must_be_named(self) -> None:
        """No default where none is obvious."""
        with pytest.raises(InputError, match="anthropic has no default model"):
            LLMJudge("anthropic")
