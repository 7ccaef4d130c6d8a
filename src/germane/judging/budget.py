"""Limits of what judging may cost: kept while answers are in flight whose price nobody knows yet."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

from germane.errors import InputError, LimitReached
from germane.judges.judge import Judge, members_of
from germane.questions.question import AnyQuestion
from germane.types import Usage

__all__ = ["Budget", "check_price"]

_FEW = 4
"""So many answers must have shown what they really cost before requests are in flight as their judge likes."""

_DUST = 1e-9
"""The share of a limit by which sums of floating-point numbers may miss it."""


class Budget:
    """Limits of what one evaluation may spend: what is in flight counts with what it is likely to cost.

    That is its estimate times what answers have cost so far for each estimated dollar: a model that reasons costs
    many times what a typical answer lets expect. The first request goes alone, since its price is anybody's guess;
    then one more than have shown theirs, until there are a few.

    Args:
        max_cost: US dollars at most, from 0.
        max_calls: Questions put to a judge at most, from 0: the report's `calls`. Answers that are known do not count.

    Raises:
        InputError: A limit is none.
    """

    def __init__(self, max_cost: float | None = None, max_calls: int | None = None) -> None:
        for name, limit in (("max_cost", max_cost), ("max_calls", max_calls)):
            if limit is not None and not 0 <= limit < inf:
                raise InputError(f"{name}={limit} is no limit", fix="write a number from 0, or leave it out")
        self._max_cost, self._max_calls = max_cost, max_calls
        self._calls = self._flying = self._priced = 0
        self._paid = self._open = 0.0
        self._expected = self._actual = 0.0
        self.too_low = ""
        """The flag of a limit that did not allow a single question, where there is one."""

    def reserve(self, judge: Judge, questions: Sequence[AnyQuestion]) -> float | None:
        """Set aside the estimate of these questions; None where their likely cost would exceed a limit."""
        if not judge.stored:
            return 0.0
        estimate = self._estimate(judge, questions)
        unsure = estimate > 0 and self._priced < _FEW
        if (unsure and self._flying > self._priced) or not self._allows(len(questions), estimate):
            return None
        self._calls += len(questions)
        self._flying += 1
        self._open += estimate
        return estimate

    def fitting(self, judge: Judge, questions: Sequence[AnyQuestion]) -> int:
        """How many of these questions the limits allow."""
        sizes = range(len(questions), 0, -1)
        return next((n for n in sizes if self._allows(n, self._estimate(judge, questions[:n]))), 0)

    def settle(self, judge: Judge, estimate: float, usages: Iterable[Usage], *, spared: int = 0) -> None:
        """Put what was paid in the place of what was set aside, as far as it is known; `spared` were not asked after all."""
        if not judge.stored:
            return
        paid = [usage.cost_usd for usage in usages if usage.requests or usage.cost_usd is not None]
        known = [cost for cost in paid if cost is not None]
        cost = sum(known) if len(known) == len(paid) else estimate * self._rate
        self._calls -= spared
        self._flying -= 1
        self._open = self._open - estimate if self._flying else 0.0
        self._paid += cost
        if cost and estimate:
            self._priced += 1
            self._expected += estimate
            self._actual += cost

    def reached(self, judge: Judge, questions: Sequence[AnyQuestion]) -> LimitReached:
        """Why nothing more is asked, not even the next of these questions."""
        calls = self._max_calls is not None and self._calls >= self._max_calls
        flag = f"--max-calls {self._max_calls}" if calls else f"--max-cost {self._max_cost:g}"
        if not self._calls:
            self.too_low = flag.split(maxsplit=1)[0]
            least = "" if calls else f", about {_dollars(self._estimate(judge, questions[:1]))}"
            return LimitReached(f"{flag} is too low for the next request{least}: nothing was asked")
        if calls:
            return LimitReached(f"stopped at {flag}: {self._calls} calls were made")
        why = "answers cost more than expected" if self.exceeded else "the next request would exceed it"
        return LimitReached(f"stopped at {flag}: {_dollars(self._paid)} was spent, and {why}")

    @property
    def exceeded(self) -> str:
        """That more was spent than allowed, where it was; else ""."""
        if self._max_cost is None or self._paid <= self._max_cost * (1 + _DUST):
            return ""
        return f"{_dollars(self._paid)} was spent, more than --max-cost {self._max_cost:g}: answers cost more than expected"

    @property
    def _rate(self) -> float:
        return self._actual / self._expected if self._expected else 1.0

    def _estimate(self, judge: Judge, questions: Sequence[AnyQuestion]) -> float:
        estimate = getattr(judge, "forecast", None)
        if estimate is None or self._max_cost is None:
            return 0.0
        usage: Usage = estimate(tuple(questions))
        return usage.cost_usd or 0.0

    def _allows(self, calls: int, estimate: float) -> bool:
        if self._max_calls is not None and self._calls + calls > self._max_calls:
            return False
        if self._max_cost is None or not estimate:
            return True
        likely = self._paid + (self._open + estimate) * self._rate
        return likely <= self._max_cost * (1 + _DUST)


def _dollars(cost: float) -> str:
    """US dollars, to four places or, where that is next to nothing, to two digits."""
    return f"${cost:.4f}" if cost >= 0.001 else f"${cost:.2g}"


def check_price(judge: Judge | None, max_cost: float | None) -> None:
    """InputError where a limit in dollars is set and nobody knows what the judge costs."""
    members = members_of(judge) if judge is not None else ()
    for member in members if max_cost is not None else ():
        if hasattr(member, "forecast") and getattr(member, "price", None) is None:
            raise InputError(
                f"--max-cost: the price of {member.name} is not known",
                fix="give it, as in --price 0.15/0.60 (US dollars for a million tokens in/out), or limit --max-calls",
            )
