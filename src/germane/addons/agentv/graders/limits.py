"""Limits on the time, money and tokens of an answer, as the target reported them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, Self

from pydantic import model_validator

from germane.addons.agentv.graders.transcript import cost_of, duration_of, plain_number, tokens_of
from germane.errors import InputError
from germane.evalfiles import Case
from germane.graders import Checks, DirectGrader, GraderResult, Number


def _within(checks: Checks, reasoning: str) -> GraderResult:
    """Return the result of these checks against limits: 1 where all are kept, else 0."""
    result = GraderResult.of_checks(checks)
    return replace(result, score=float(not result.misses), reasoning=reasoning)


def _check(name: str, value: float, most: float, show: Callable[[float], str]) -> tuple[bool, str]:
    """Return whether a value is within its limit, and a text for each."""
    return value <= most, f"{name} {show(value)} {'<=' if value <= most else '>'} {show(most)}"


class Latency(DirectGrader):
    """1 where the answer took at most `threshold` milliseconds, else 0; skipped where its duration is not known."""

    type: ClassVar[str] = "latency"
    aliases: ClassVar = {"threshold": ("max_ms",)}

    threshold: Number

    def check(self, case: Case) -> GraderResult:
        """Compare the duration (ms) with the threshold; skipped where it was not reported."""
        if (took := duration_of(case)) is None:
            reasoning = "Execution duration not reported by provider"
            return self.absent("No duration data available in trace", reasoning)
        met, text = _check("Duration", took, self.threshold, lambda ms: f"{plain_number(ms)}ms")
        limit = f"{plain_number(self.threshold)}ms"
        reasoning = f"Execution took {plain_number(took)}ms (threshold: {limit})"
        return _within([(met, f"{text} threshold")], reasoning)


class Cost(DirectGrader):
    """1 where the answer cost at most `budget` US dollars, else 0; skipped where its cost is not known."""

    type: ClassVar[str] = "cost"
    aliases: ClassVar = {"budget": ("threshold", "max_usd")}

    budget: Number

    def check(self, case: Case) -> GraderResult:
        """Compare the cost (USD) with the budget; skipped where it was not reported."""
        if (cost := cost_of(case)) is None:
            return self.absent("No cost data available in trace", "Execution cost not reported by provider")
        met, text = _check("Cost", cost, self.budget, "${:.4f}".format)
        return _within([(met, f"{text} budget")], f"Execution cost ${cost:.4f} (budget: ${self.budget:.4f})")


class TokenUsage(DirectGrader):
    """1 where the answer took at most that many tokens, else 0: total = input + output + cached.

    Skipped where no usage is known. At least one of `max_total`, `max_input` and `max_output` must be given.
    """

    type: ClassVar[str] = "token_usage"
    aliases: ClassVar = {"max_total": ("max_total_tokens",)}

    max_total: Number | None = None
    max_input: Number | None = None
    max_output: Number | None = None

    @model_validator(mode="after")
    def _limited(self) -> Self:
        if self.max_total is self.max_input is self.max_output is None:
            fix = "write max_total: 2000 (or max_input, max_output)"
            raise InputError("token_usage has no limit", fix=fix)
        return self

    def check(self, case: Case) -> GraderResult:
        """Compare each kind of token with its limit."""
        if (used := tokens_of(case)) is None:
            miss = "No token usage data available in trace"
            return self.absent(miss, "Token usage not reported by provider")
        counts = {**used, "total": sum(used.values())}
        limits = {"input": self.max_input, "output": self.max_output, "total": self.max_total}
        checks = [
            _check(f"{name.capitalize()} tokens", counts[name], most, plain_number)
            for name, most in limits.items()
            if most is not None
        ]
        message = ", ".join(f"{name}={plain_number(count)}" for name, count in counts.items())
        return _within(checks, f"token_usage {message}")
