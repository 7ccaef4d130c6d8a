from __future__ import annotations

import socket

import pytest

from germane.judges.client.providers import Price, price_of
from germane.judges.llm import LLMJudge
from germane.questions.relevance import Relevance


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch) -> None:
    def no(*_: object, **__: object) -> None:
        raise AssertionError("a price is looked up without a network")

    monkeypatch.setattr(socket.socket, "connect", no)


def test_a_known_models_price() -> None:
    """In US dollars a million tokens, with what cached input costs."""
    assert price_of("openai", "gpt-4o-mini") == Price(input=0.15, output=0.6, cached=0.075)


@pytest.mark.parametrize("provider", ["anthropic", "google", "bedrock", "mistral", "groq", "azure"])
def test_providers_are_known_by_our_names(provider: str) -> None:
    """A model of each."""
    models = {
        "anthropic": "claude-haiku-4-5",
        "google": "gemini-2.5-flash",
        "bedrock": "anthropic.claude-haiku-4-5-20251001-v1:0",
        "mistral": "mistral-small-latest",
        "groq": "llama-3.3-70b-versatile",
        "azure": "gpt-4o-mini",
    }
    price = price_of(provider, models[provider])
    assert price is not None
    assert 0 < price.input < price.output


@pytest.mark.parametrize(("provider", "model"), [("openai", "no-such"), ("ollama", "llama3"), ("no", "such")])
def test_an_unknown_one_is_unknown(provider: str, model: str) -> None:
    """Never nothing."""
    assert price_of(provider, model) is None


def test_a_forecast_is_priced() -> None:
    """By default, for a provider's own host; another host's price nobody knows."""
    question = Relevance(query="q", passage="p")
    assert (LLMJudge("openai").forecast((question,)).cost_usd or 0) > 0
    assert LLMJudge("openai:gpt-4o-mini@http://localhost:1/v1").forecast((question,)).cost_usd is None


def test_a_service_tier_is_in_no_key_and_has_no_known_price():
    """The same verdict from a slower queue is the same verdict."""
    judges = {
        tier: LLMJudge(
            "openai:gpt-4o-mini", parameters={"seed": 7} | ({"service_tier": tier} if tier else {})
        )
        for tier in ("", "default", "flex")
    }
    assert len({str(judge.identity) for judge in judges.values()}) == 1
    assert judges["flex"].capabilities.parameters["service_tier"] == "flex"
    assert judges["default"].price == judges[""].price is not None
    assert judges["flex"].price is None
