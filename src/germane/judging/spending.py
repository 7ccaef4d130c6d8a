"""What judging costs: counted as answers come, and held under the limits that the user set."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from germane.errors import InputError, LimitReached
from germane.judging.judge import AnyQuestion, Judge
from germane.types import Usage

__all__ = ["Budget", "Spent", "check_price"]


@dataclass(slots=True)
class Spent:
    """What judging has cost so far. `calls` are questions put to a judge, `cached` those answered before."""

    calls: int = 0
    cached: int = 0
    errors: int = 0
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0

    def add(self, usage: Usage) -> None:
        """Count one reply's usage."""
        self.requests += usage.requests
        self.input_tokens += usage.input_tokens
        self.output_tokens += usage.output_tokens
        self.cost_usd += usage.cost_usd or 0.0
        self.unpriced += usage.requests if usage.cost_usd is None else 0

    @property
    def cost(self) -> float | None:
        """US dollars, or None as soon as one request's price is not known."""
        return None if self.unpriced else self.cost_usd


class Budget:
    """Limits of what one evaluation may spend: what is in flight counts with what it is likely to cost.

    Args:
        max_cost: US dollars at most.
        max_calls: Questions put to a judge at most: the report's `calls`. Answers that are known do not count.
    """

    def __init__(self, max_cost: float | None = None, max_calls: int | None = None) -> None:
        self._max_cost, self._max_calls = max_cost, max_calls
        self._cost, self._calls = 0.0, 0

    def reserve(self, judge: Judge, questions: Sequence[AnyQuestion]) -> float | None:
        """Set aside what these questions are likely to cost; None where that would exceed a limit."""
        if not judge.stored or (self._max_cost is None and self._max_calls is None):
            return 0.0
        cost = 0.0 if self._max_cost is None else _likely(judge, questions)
        if self._max_cost is not None and self._cost + cost > self._max_cost:
            return None
        if self._max_calls is not None and self._calls + len(questions) > self._max_calls:
            return None
        self._cost += cost
        self._calls += len(questions)
        return cost

    def settle(self, reserved: float, usages: Iterable[Usage]) -> None:
        """Put what was paid in the place of what was set aside, as far as it is known."""
        paid = [usage.cost_usd for usage in usages if usage.requests or usage.cost_usd is not None]
        known = [cost for cost in paid if cost is not None]
        if len(known) == len(paid):
            self._cost += sum(known) - reserved

    def reached(self, calls: int) -> LimitReached:
        """Why nothing more is asked."""
        if self._max_calls is not None and self._calls >= self._max_calls:
            return LimitReached(f"stopped at --max-calls {self._max_calls}: {calls} calls were made")
        if self._max_cost is None:
            rest = f"{calls} calls were made, and the next request asks more than the rest allows"
            return LimitReached(f"stopped at --max-calls {self._max_calls}: {rest}")
        rest = f"${self._cost:.4f} was spent, and the next request would exceed it"
        return LimitReached(f"stopped at --max-cost {self._max_cost:g}: {rest}")


def _likely(judge: Judge, questions: Sequence[AnyQuestion]) -> float:
    estimate = getattr(judge, "forecast", None)
    usage: Usage = Usage() if estimate is None else estimate(tuple(questions))
    return usage.cost_usd or 0.0


def check_price(judge: Judge | None, max_cost: float | None) -> None:
    """InputError where a limit in dollars is set and nobody knows what the judge costs."""
    members: Sequence[Judge] = getattr(judge, "members", (judge,)) if judge is not None else ()
    for member in members if max_cost is not None else ():
        if hasattr(member, "forecast") and getattr(member, "price", None) is None:
            raise InputError(
                f"--max-cost: the price of {member.name} is not known",
                fix="give it, as in --price 0.15/0.60 (US dollars for a million tokens in/out), or limit --max-calls",
            )
