"""Limits on what an answer took: time, money, tokens, calls. Each reads what the target reported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import ClassVar, Self

from pydantic import model_validator

from germane.errors import InputError
from germane.graders.grader import Checks, DirectGrader, GraderResult, Number
from germane.graders.transcript import (
    cost_of,
    duration_of,
    plain_number,
    tokens_of,
    tool_calls,
    trace_summary,
)
from germane.samples.evalfile import Case


def _dollars(value: float) -> str:
    return f"${value:.4f}"


def _ms(value: float) -> str:
    return f"{plain_number(value)}ms"


def _limit_check(
    name: str, value: float, most: float, show: Callable[[float], str] = plain_number, limit: str = ""
) -> tuple[bool, str]:
    """A check of a value against its limit, and both in words."""
    message = f"{name} {show(value)} {'<=' if value <= most else '>'} {show(most)} {limit}"
    return value <= most, message.rstrip()


def _within(checks: Checks, reasoning: str) -> GraderResult:
    """1 where every limit is kept, else 0."""
    result = GraderResult.of_checks(checks)
    return replace(result, score=float(not result.misses), reasoning=reasoning)


class Latency(DirectGrader):
    """1 where the answer took at most `threshold` milliseconds, else 0; skipped where its duration is not known."""

    type: ClassVar[str] = "latency"
    aliases: ClassVar = {"threshold": ("max_ms",)}

    threshold: Number

    def check(self, case: Case) -> GraderResult:
        """Compare the duration (ms) with the threshold; skipped where it was not reported."""
        duration = duration_of(case)
        if duration is None:
            reasoning = "Execution duration not reported by provider"
            return self.absent("No duration data available in trace", reasoning)
        reasoning = f"Execution took {_ms(duration)} (threshold: {_ms(self.threshold)})"
        return _within([_limit_check("Duration", duration, self.threshold, _ms, "threshold")], reasoning)


class Cost(DirectGrader):
    """1 where the answer cost at most `budget` US dollars, else 0; skipped where its cost is not known."""

    type: ClassVar[str] = "cost"
    aliases: ClassVar = {"budget": ("threshold", "max_usd")}

    budget: Number

    def check(self, case: Case) -> GraderResult:
        """Compare the cost (USD) with the budget; skipped where it was not reported."""
        cost = cost_of(case)
        if cost is None:
            return self.absent("No cost data available in trace", "Execution cost not reported by provider")
        reasoning = f"Execution cost {_dollars(cost)} (budget: {_dollars(self.budget)})"
        return _within([_limit_check("Cost", cost, self.budget, _dollars, "budget")], reasoning)


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
        """Each kind of token against its limit."""
        used = tokens_of(case)
        if used is None:
            miss = "No token usage data available in trace"
            return self.absent(miss, "Token usage not reported by provider")
        counts = {"input": used.input, "output": used.output, "cached": used.cached, "total": sum(used)}
        most = {"input": self.max_input, "output": self.max_output, "total": self.max_total}
        limits = [(name, limit) for name, limit in most.items() if limit is not None]
        checks = [_limit_check(f"{name.capitalize()} tokens", counts[name], limit) for name, limit in limits]
        message = ", ".join(f"{name}={plain_number(count)}" for name, count in counts.items())
        return _within(checks, f"token_usage {message}")


EXPLORING = frozenset(
    ["read", "grep", "glob", "search", "list", "Read", "Grep", "Glob", "WebSearch", "WebFetch"]
)
"""Tools that look at things and change nothing."""


class ExecutionMetrics(DirectGrader):
    """Share of the limits that an answer keeps to: calls, tokens, dollars, milliseconds, and how much it explored.

    The exploration ratio (calls of tools that only read, of all calls) must lie within `exploration_tolerance` of
    `target_exploration_ratio`. What was not reported is left out; skipped where nothing was.
    """

    type: ClassVar[str] = "execution_metrics"

    max_tool_calls: Number | None = None
    max_llm_calls: Number | None = None
    max_tokens: Number | None = None
    max_cost_usd: Number | None = None
    max_duration_ms: Number | None = None
    target_exploration_ratio: Number | None = None
    exploration_tolerance: Number = 0.2

    @model_validator(mode="after")
    def _limited(self) -> Self:
        if not self.model_fields_set - {"exploration_tolerance"} & set(_LIMITS):
            raise InputError("execution_metrics has no limit", fix="write one at least: max_tool_calls: 10")
        return self

    def check(self, case: Case) -> GraderResult:
        """Each limit against what was reported."""
        results = [*self._checks(case)]
        if self.agentv:  # what is not known is not kept
            return GraderResult.of_checks([(bool(kept), message) for kept, message in results], "limits kept")
        reported = [(kept, message) for kept, message in results if kept is not None]
        unknown = [message for kept, message in results if kept is None]
        if not reported:
            return GraderResult.skipped("; ".join(unknown))
        return GraderResult.of_checks(reported, "; ".join(["limits kept", *unknown]))

    def _checks(self, case: Case) -> Checks:
        """A check of each limit (None = not known), in words."""
        summary, used = trace_summary(case) or {}, tokens_of(case)
        tokens = None if used is None else used.input + used.output
        counts: tuple[float | None, ...] = (summary.get("event_count"), summary.get("llm_call_count"))
        values = (*counts, tokens, cost_of(case), duration_of(case))
        for value, (field, (name, absent, show)) in zip(values, _LIMITS.items(), strict=False):
            most: float | None = getattr(self, field)
            if most is None:
                continue
            if value is None:
                yield None, absent
            else:
                yield _limit_check(name, value, most, show, "max")
        if self.target_exploration_ratio is not None:
            yield self._explored(case, self.target_exploration_ratio)

    def _explored(self, case: Case, target: float) -> tuple[bool | None, str]:
        calls = tool_calls(case)
        if not calls:
            return None, "Exploration ratio not available (no tool calls)"
        ratio = sum(call.tool in EXPLORING for call in calls) / len(calls)
        off, goal = abs(ratio - target), plain_number(target)
        if off <= self.exploration_tolerance:
            return True, f"Exploration ratio {ratio:.2f} within tolerance of target {goal}"
        detail = f"diff: {off:.2f}, tolerance: {plain_number(self.exploration_tolerance)}"
        return False, f"Exploration ratio {ratio:.2f} outside tolerance of target {goal} ({detail})"


_LIMITS: dict[str, tuple[str, str, Callable[[float], str]]] = {
    "max_tool_calls": ("Tool calls", "No trace summary available", plain_number),
    "max_llm_calls": ("LLM calls", "LLM call count data not available", plain_number),
    "max_tokens": ("Total tokens", "Token usage data not available", plain_number),
    "max_cost_usd": ("Cost", "Cost data not available", _dollars),
    "max_duration_ms": ("Duration", "Duration data not available", _ms),
    "target_exploration_ratio": ("Exploration ratio", "", plain_number),
}
"""For each limit: what it is called, what is said where nothing was reported, and how a value is shown."""
