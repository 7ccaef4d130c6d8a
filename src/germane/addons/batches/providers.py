"""Which batches a judge has, and at what price."""

from __future__ import annotations

from germane.addons.batches.api import BatchAPI
from germane.judges import Judge, LLMJudge, Price
from germane.judges.llm import model_of

LATER = 0.5
"""The part of the usual price that every provider's batches cost."""
_OWN_PROTOCOL = ("anthropic", "google")
"""Providers with a protocol of their own whose batches are spoken."""


def has_batches(model: LLMJudge) -> bool:
    """Return whether the provider may have batches; any server of OpenAI's protocol may."""
    traits = model.service.traits
    return model.service.provider in _OWN_PROTOCOL if traits.extra else not traits.local


def price_later(judge: Judge) -> Price | None:
    """Return the price of a judge's tokens in batches, which have no tiers; None if unknown or without batches."""
    model = model_of(judge)
    if model is None or model.price is None or not has_batches(model):
        return None
    return model.price if "service_tier" in model.capabilities.parameters else model.price.times(LATER)


def open_batches(model: LLMJudge) -> BatchAPI:
    """Open the batches of a model's provider; JudgeError where the key is missing."""
    if not model.service.traits.extra:
        # not at the top: a forecast asks for prices alone
        from germane.addons.batches.openai import OpenAIBatches

        return OpenAIBatches(model)
    transport = model.foreign()  # or the error that names what is to be installed
    from germane.addons.batches.foreign import AnthropicBatches, GeminiBatches

    own = AnthropicBatches if model.service.provider == "anthropic" else GeminiBatches
    return own(model, transport)
