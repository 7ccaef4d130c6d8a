"""Limits on what an answer took: time, money, tokens, calls. Each reads what the target reported."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, NamedTuple, Self

from pydantic import model_validator

from germane.graders.evidence import (
    cost_of,
    duration_of,
    plain_number,
    tokens_of,
    tool_calls,
    trace_summary,
)
from germane.graders.grader import DirectGrader, GraderResult, Number
from germane.samples.evalfile import Case

__all__ = ["Cost", "ExecutionMetrics", "Latency", "TokenUsage"]


class Latency(DirectGrader):
    """1 where the answer took at most `threshold` milliseconds, else 0; skipped where its duration is not known."""

    type: ClassVar[str] = "latency"

    threshold: Number

    def check(self, case: Case) -> GraderResult:
        """The duration against the threshold."""
        took = duration_of(case)
        if took is None:
            return self.absent(
                "No duration data available in trace", "Execution duration not reported by provider"
            )
        shown, most = plain_number(took), plain_number(self.threshold)
        said = f"Duration {shown}ms {_sign(took, self.threshold)} {most}ms threshold"
        return _within(took <= self.threshold, said, f"Execution took {shown}ms (threshold: {most}ms)")


class Cost(DirectGrader):
    """1 where the answer cost at most `budget` US dollars, else 0; skipped where its cost is not known."""

    type: ClassVar[str] = "cost"

    budget: Number

    def check(self, case: Case) -> GraderResult:
        """The cost against the budget."""
        cost = cost_of(case)
        if cost is None:
            return self.absent("No cost data available in trace", "Execution cost not reported by provider")
        said = f"Cost ${cost:.4f} {_sign(cost, self.budget)} ${self.budget:.4f} budget"
        return _within(cost <= self.budget, said, f"Execution cost ${cost:.4f} (budget: ${self.budget:.4f})")


class TokenUsage(DirectGrader):
    """1 where the answer took at most that many tokens, else 0: total = input + output + cached.

    Skipped where no usage is known. At least one of `max_total`, `max_input` and `max_output` must be given.
    """

    type: ClassVar[str] = "token_usage"

    max_total: Number | None = None
    max_input: Number | None = None
    max_output: Number | None = None

    @model_validator(mode="after")
    def _limited(self) -> Self:
        if self.max_total is self.max_input is self.max_output is None:
            raise ValueError("write max_total: 2000 (or max_input, max_output)")
        return self

    def check(self, case: Case) -> GraderResult:
        """Each kind of token against its limit."""
        used = tokens_of(case)
        if used is None:
            miss = "No token usage data available in trace"
            return self.absent(miss, "Token usage not reported by provider")
        total = used.input + used.output + used.cached
        limits = (
            ("Input", used.input, self.max_input),
            ("Output", used.output, self.max_output),
            ("Total", total, self.max_total),
        )
        hits, misses = [], []
        for name, count, most in limits:
            if most is not None:
                said = f"{name} tokens {plain_number(count)} {_sign(count, most)} {plain_number(most)}"
                (hits if count <= most else misses).append(said)
        parts = {"input": used.input, "output": used.output, "cached": used.cached, "total": total}
        reasoning = ", ".join(f"{name}={plain_number(count)}" for name, count in parts.items())
        return GraderResult(
            score=float(not misses),
            verdict="fail" if misses else "pass",
            hits=tuple(hits),
            misses=tuple(misses),
            reasoning=f"token_usage {reasoning}",
        )


class _Limit(NamedTuple):
    """A limit, what there was, and how both are said."""

    name: str
    unit: str
    value: float | None
    most: float | None
    absent: str


EXPLORING = frozenset(
    {"read", "grep", "glob", "search", "list", "Read", "Grep", "Glob", "WebSearch", "WebFetch"}
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
        if (
            not any(limit.most is not None for limit in self._limits(None))
            and self.target_exploration_ratio is None
        ):
            raise ValueError("write at least one limit: max_tool_calls: 10")
        return self

    def check(self, case: Case) -> GraderResult:
        """Each limit against what was reported."""
        found = [*self._checked(case)]
        known = [one for one in found if one[0] is not None]
        if not known and not self.agentv:
            return GraderResult.skipped("; ".join(said for _, said in found))
        counted = found if self.agentv else known
        hits = tuple(said for kept, said in counted if kept)
        misses = tuple(said for kept, said in counted if not kept)
        unknown = [] if self.agentv else [said for kept, said in found if kept is None]
        reasoning = "; ".join([f"{len(hits)}/{len(counted)} limits kept", *unknown])
        return GraderResult(score=len(hits) / len(counted), hits=hits, misses=misses, reasoning=reasoning)

    def _limits(self, case: Case | None) -> tuple[_Limit, ...]:
        summary = (trace_summary(case) if case else None) or {}
        used = tokens_of(case) if case else None
        tokens = None if used is None else used.input + used.output
        calls = summary.get("event_count"), summary.get("llm_call_count")
        return (
            _Limit("Tool calls", "", calls[0], self.max_tool_calls, "No trace summary available"),
            _Limit("LLM calls", "", calls[1], self.max_llm_calls, "LLM call count data not available"),
            _Limit("Total tokens", "", tokens, self.max_tokens, "Token usage data not available"),
            _Limit(
                "Cost", "$", cost_of(case) if case else None, self.max_cost_usd, "Cost data not available"
            ),
            _Limit(
                "Duration",
                "ms",
                duration_of(case) if case else None,
                self.max_duration_ms,
                "Duration data not available",
            ),
        )

    def _checked(self, case: Case) -> Iterator[tuple[bool | None, str]]:
        """Whether each limit is kept (None = not known), in words."""
        for name, unit, value, most, absent in self._limits(case):
            if most is None:
                continue
            if value is None:
                yield None, absent
                continue
            shown = [f"${n:.4f}" if unit == "$" else f"{plain_number(n)}{unit}" for n in (value, most)]
            yield value <= most, f"{name} {shown[0]} {_sign(value, most)} {shown[1]} max"
        if (target := self.target_exploration_ratio) is None:
            return
        calls = tool_calls(case)
        if not calls:
            yield None, "Exploration ratio not available (no tool calls)"
            return
        ratio = sum(call.tool in EXPLORING for call in calls) / len(calls)
        off, wanted = abs(ratio - target), plain_number(target)
        if off <= self.exploration_tolerance:
            yield True, f"Exploration ratio {ratio:.2f} within tolerance of target {wanted}"
        else:
            detail = f"diff: {off:.2f}, tolerance: {plain_number(self.exploration_tolerance)}"
            yield False, f"Exploration ratio {ratio:.2f} outside tolerance of target {wanted} ({detail})"


def _sign(value: float, most: float) -> str:
    return "<=" if value <= most else ">"


def _within(kept: bool, said: str, reasoning: str) -> GraderResult:
    """The result of one limit."""
    return GraderResult(
        score=float(kept),
        verdict="pass" if kept else "fail",
        hits=(said,) if kept else (),
        misses=() if kept else (said,),
        reasoning=reasoning,
    )
