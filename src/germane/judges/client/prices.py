"""What tokens of a model cost: as the user says, or as genai-prices knows, or unknown (never 0)."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf

from germane.errors import InputError

MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """US dollars for a million tokens; `cached` is what input from the provider's prompt cache costs (None = as any).

    InputError where one is no number from 0.
    """

    input: float
    output: float
    cached: float | None = None

    def __post_init__(self) -> None:
        """A price that is no number would be noticed only after the first paid answer."""
        for name in ("input", "output", "cached"):
            rate = getattr(self, name)
            if rate is None and name == "cached":
                continue
            if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 <= rate < inf:
                raise InputError(
                    f"Price({name}={rate!r}) is not possible",
                    fix="write dollars for a million tokens, from 0",
                )

    def cost(self, input_tokens: int, output_tokens: int, cached_tokens: int = 0) -> float:
        """US dollars; `cached_tokens` are among the input tokens."""
        cached = self.input if self.cached is None else self.cached
        fresh = input_tokens - cached_tokens
        return (fresh * self.input + cached_tokens * cached + output_tokens * self.output) / MILLION


def price_of(provider: str, model: str) -> Price | None:
    """The price of a provider's model as genai-prices knows it; None = unknown. Offline.

    Its import takes half a second of CPU: call it where somebody waits for the network.
    """
    from genai_prices import Usage, calc_price

    def rate(**tokens: int) -> float:
        found = calc_price(Usage(**tokens), model, provider_id=provider)
        return round(float(found.total_price) * (MILLION / 1000), 9)

    try:
        paid, answer = rate(input_tokens=1000), rate(output_tokens=1000)
        cached = rate(input_tokens=1000, cache_read_tokens=1000)
    except (LookupError, ValueError, NotImplementedError):
        return None
    return Price(input=paid, output=answer, cached=cached)
