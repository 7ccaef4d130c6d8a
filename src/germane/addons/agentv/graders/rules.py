"""Graders that apply a rule: tests of a text, limits on duration, cost and tokens, expected tool calls."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, ClassVar, Literal, Self, TypeAlias

import regex
from pydantic import Field, model_validator

from germane.addons.agentv.graders.transcript import (
    answer_of,
    cost_of,
    duration_of,
    plain_number,
    same,
    tokens_of,
    tool_calls,
    trace_summary,
)
from germane.errors import InputError
from germane.evalfiles import Case
from germane.evalfiles.model import JsonMapping, YamlModel
from germane.graders import Checks, DirectGrader, GraderResult, Number, Numbers
from germane.samples import PATTERN_SECONDS
from germane.types import Json, ToolCall

_TESTS: Mapping[str, tuple[Callable[[str, str], bool], str, str]] = {
    "contains": (lambda text, value: value in text, "contains", "does not contain"),
    "icontains": (lambda text, value: value.lower() in text.lower(), "contains", "does not contain"),
    "starts_with": (
        lambda text, value: text.strip().startswith(value.strip()), "starts with", "does not start with"
    ),
    "ends_with": (lambda text, value: text.strip().endswith(value.strip()), "ends with", "does not end with"),
    "equals": (lambda text, value: text.strip() == value.strip(), "equals", "does not equal"),
    "regex": (
        lambda text, value: regex.search(value, text, timeout=PATTERN_SECONDS) is not None,
        "matches",
        "does not match",
    ),
}  # fmt: skip
"""For each test: a function of a text and a value, and the verbs for a passed and a failed test."""

Test: TypeAlias = Literal["contains", "icontains", "starts_with", "ends_with", "equals", "regex", "is_json"]
"""The tests of an answer's text."""


class TextAssertion(DirectGrader):
    """Tests the text of the answer: the score is 1 if the test passes, else 0.

    Attributes:
        test: `contains`, `icontains` (ignores case), `starts_with`, `ends_with`, `equals`, `regex` or
            `is_json`. White space around both texts is ignored by `starts_with`, `ends_with` and `equals`.
        value: The text to look for; `is_json` takes no value. A regular expression is Python's; if its search
            takes more than 2 s, the result is an error.
    """

    type: ClassVar[str] = "text"
    named_by_value: ClassVar[bool] = True
    computed: ClassVar = ("compatibility", "test")
    refused: ClassVar = DirectGrader.refused | {"flags", "values"}

    test: Test
    value: str = ""

    @property
    def label(self) -> str:
        """The grader's name; by default, the test and its value."""
        return self.name or "-".join(filter(None, [self.test.replace("_", "-"), self.value]))

    @property
    def stored_type(self) -> str:
        """The name of the test, which is the type under which the scores are stored."""
        return self.test

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if (self.test == "is_json") == bool(self.value):
            fix = "remove its value" if self.value else 'write value: "the text"'
            raise InputError(f"the test {self.test} {'takes no' if self.value else 'needs a'} value", fix=fix)
        if self.test == "regex":
            try:
                regex.compile(self.value)
            except (regex.error, RecursionError) as wrong:
                problem = f"the regular expression is invalid: {wrong}"
                raise InputError(problem, fix="check its brackets") from None
        return self

    def check(self, case: Case) -> GraderResult:
        """Return the result of the test; it is skipped if the case has no answer.

        It is an error if the search for a regular expression takes too long.
        """
        if unknown := self.unanswered(case):
            return unknown
        text = answer_of(case)
        if self.test == "is_json":
            passed = True
            try:
                json.loads(text)
            except (ValueError, RecursionError):
                passed = False
            return GraderResult.of_checks([(passed, f"Output is {'' if passed else 'not '}valid JSON")])
        compare, does, does_not = _TESTS[self.test]
        try:
            passed = compare(text, self.value)
        except TimeoutError:
            why = f"the regular expression {self.value!r} was stopped after {PATTERN_SECONDS:g} s on this answer"
            return GraderResult.failed(why)
        return GraderResult.of_checks([(passed, f'Output {does if passed else does_not} "{self.value}"')])


def _within(checks: Checks, reasoning: str) -> GraderResult:
    """Return the result of checks, which are pairs (passed, text): the score is 1 if all passed, else 0."""
    result = GraderResult.of_checks(checks)
    return replace(result, score=float(not result.misses), reasoning=reasoning)


def _check(name: str, value: float, most: float, show: Callable[[float], str]) -> tuple[bool, str]:
    """Return (whether `value` <= `most`, a text with both numbers, which `show` formats)."""
    return value <= most, f"{name} {show(value)} {'<=' if value <= most else '>'} {show(most)}"


class Latency(DirectGrader):
    """Scores 1 if the answer took at most `threshold` milliseconds, else 0; skipped if that is unknown."""

    type: ClassVar[str] = "latency"
    aliases: ClassVar = {"threshold": ("max_ms",)}

    threshold: Number

    def check(self, case: Case) -> GraderResult:
        """Compare the duration (ms) with the threshold; the result is skipped if it was not reported."""
        if (took := duration_of(case)) is None:
            reasoning = "Execution duration not reported by provider"
            return self.absent("No duration data available in trace", reasoning)
        met, text = _check("Duration", took, self.threshold, lambda ms: f"{plain_number(ms)}ms")
        limit = f"{plain_number(self.threshold)}ms"
        reasoning = f"Execution took {plain_number(took)}ms (threshold: {limit})"
        return _within([(met, f"{text} threshold")], reasoning)


class Cost(DirectGrader):
    """Scores 1 if the answer cost at most `budget` US dollars, else 0; skipped if the cost is unknown."""

    type: ClassVar[str] = "cost"
    aliases: ClassVar = {"budget": ("threshold", "max_usd")}

    budget: Number

    def check(self, case: Case) -> GraderResult:
        """Compare the cost (USD) with the budget; the result is skipped if it was not reported."""
        if (cost := cost_of(case)) is None:
            return self.absent("No cost data available in trace", "Execution cost not reported by provider")
        met, text = _check("Cost", cost, self.budget, "${:.4f}".format)
        return _within([(met, f"{text} budget")], f"Execution cost ${cost:.4f} (budget: ${self.budget:.4f})")


class TokenUsage(DirectGrader):
    """Scores 1 if the answer used at most the given numbers of tokens (total: input, output, cached), else 0.

    The case is skipped if a limited number is unknown, unless what is known exceeds a limit. At least one of
    `max_total`, `max_input` and `max_output` is required.
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
            raise InputError("token_usage needs at least one limit", fix=fix)
        return self

    def check(self, case: Case) -> GraderResult:
        """Compare the number of each kind of token with its limit; the result is skipped if it is unknown."""
        used = tokens_of(case)
        counts = {name: count or 0 for name, count in used.items()}
        counts["total"] = sum(counts.values())
        limits = {"input": self.max_input, "output": self.max_output, "total": self.max_total}
        limited = {name: most for name, most in limits.items() if most is not None}
        checks = [
            _check(f"{name.capitalize()} tokens", counts[name], most, plain_number)
            for name, most in limited.items()
        ]
        unknown = {name for name, count in used.items() if count is None}
        if unknown & ({"input", "output"} if "total" in limited else {*limited}) and all(
            met for met, _ in checks
        ):
            miss = "No token usage data available in trace"
            return self.absent(miss, f"{' and '.join(sorted(unknown))} tokens not reported by provider")
        texts = {name: plain_number(count) for name, count in counts.items()} | dict.fromkeys(
            unknown, "unknown"
        )
        message = ", ".join(f"{name}={text}" for name, text in texts.items())
        return _within(checks, f"token_usage {message}")


EXPECTED = "tool calls as expected"


class ExpectedCall(YamlModel):
    """A tool call that is expected.

    Attributes:
        tool: The tool's name.
        args: The arguments that the call must contain; if absent or "any", all arguments are accepted.
    """

    what = "an expected call"
    refused: ClassVar = frozenset({"argsmatch", "maxdurationms"})
    aliases: ClassVar = {"tool": ("name",), "args": ("input",)}

    tool: Annotated[str, Field(min_length=1)]
    args: Literal["any"] | JsonMapping | None = None


class ToolTrajectory(DirectGrader):
    """Computes the proportion of the expected tool calls that were made; `mode` says how calls are compared.

    - `any_order`: the proportion of the tools in `minimums` that were called at least as often as stated
      there.
    - `in_order`: the proportion of the `expected` calls that were made in this order; other calls may be
      between them.
    - `exact`: the proportion of the positions at which both calls match, over the longer of both lists, so
      that a call too many is a miss.
    - `superset`: the proportion of the `expected` calls that were made, in any order.
    - `subset`: the proportion of the calls made that are among the `expected` calls.

    Arguments match if the values of all expected keys are equal; other keys are allowed.
    """

    type: ClassVar[str] = "tool_trajectory"
    refused: ClassVar = DirectGrader.refused | {"argsmatch"}

    mode: Literal["any_order", "in_order", "exact", "superset", "subset"]
    minimums: Numbers | None = None
    expected: tuple[ExpectedCall, ...] | None = None

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.mode == "any_order" and self.minimums is None:
            raise InputError("mode any_order needs minimums", fix="write minimums: {search: 1}")
        if self.mode != "any_order" and self.expected is None:
            raise InputError(f"mode {self.mode} needs expected calls", fix="write expected: [{tool: search}]")
        return self

    def check(self, case: Case) -> GraderResult:
        """Compare the tool calls of the answer with the expected ones.

        If the case has no messages, its tool calls are unknown. The result is then skipped, or a score of 0
        with AgentV compatibility.
        """
        calls = tool_calls(case)
        summary = trace_summary(case)
        silent = not case.sample.messages and not self.agentv and self.mode != "any_order"
        if summary is None or silent:
            miss = "No trace available for evaluation"
            return self.absent(miss, "the answer came without messages, so no tool calls are known")
        if self.mode == "any_order":
            return self._any_order(summary["tool_calls_by_name"])
        expected = self.expected or ()
        free = self.agentv or not calls or self.mode in {"in_order", "superset"}
        if not expected and free:
            return GraderResult(score=1.0, hits=("No tool sequence specified",))
        if not calls and self.mode == "subset":
            return GraderResult(score=1.0, hits=("No actual tool calls (trivially a subset)",))
        modes = {"in_order": self._in_order, "exact": self._exact, "superset": self._superset}
        return GraderResult.of_checks(modes.get(self.mode, self._subset)(expected, calls), EXPECTED)

    def _any_order(self, made: Mapping[str, float]) -> GraderResult:
        if not self.minimums:
            return GraderResult(score=1.0, hits=("No tool requirements specified",))
        message = "{}: called {} times (required ≥{})"
        checks = []
        for tool, least in self.minimums.items():
            number = made.get(tool, 0)
            checks.append((number >= least, message.format(tool, plain_number(number), plain_number(least))))
        return GraderResult.of_checks(checks, EXPECTED)

    def _in_order(self, expected: Sequence[ExpectedCall], calls: Sequence[ToolCall]) -> Checks:
        at = 0
        for position, call in enumerate(expected):
            while at < len(calls) and calls[at].tool != call.tool:
                at += 1
            found_it = at < len(calls)
            kept = found_it and _matches(call, calls[at])
            why = f": tool found at {at} but args mismatch" if found_it else ", not found in remaining trace"
            missed = f"Expected {call.tool} at position {position}{why}"
            yield kept, f"Found {call.tool} at position {at}" if kept else missed
            at += found_it

    def _exact(self, expected: Sequence[ExpectedCall], calls: Sequence[ToolCall]) -> Checks:
        if len(calls) != len(expected):
            yield None, f"Expected {len(expected)} tool calls, got {len(calls)}"
        for position, step in enumerate(expected):
            call = calls[position] if position < len(calls) else None
            kept = call is not None and _matches(step, call)
            message = f"{step.tool}{'' if kept else ' args mismatch'}"
            if call is None or call.tool != step.tool:
                message = f"expected {step.tool}, got {call.tool if call else 'nothing'}"
            yield kept, f"Position {position}: {message}"
        for _ in () if self.agentv else calls[len(expected) :]:
            yield False, ""

    def _superset(self, expected: Sequence[ExpectedCall], calls: Sequence[ToolCall]) -> Checks:
        left = dict(enumerate(calls))
        for step in expected:
            at = next((at for at, call in left.items() if _matches(step, call)), None)
            if at is None:
                yield False, f"Expected {step.tool} not found in actual trajectory"
            else:
                yield True, f"Found {step.tool} at position {at}"
                del left[at]

    def _subset(self, expected: Sequence[ExpectedCall], calls: Sequence[ToolCall]) -> Checks:
        for position, call in enumerate(calls):
            allowed = any(_matches(step, call) for step in expected)
            yield allowed, f"Position {position}: {call.tool} is {'' if allowed else 'not '}in allowed set"


def _matches(step: ExpectedCall, call: ToolCall) -> bool:
    """Return True if a call uses the expected tool and contains the expected arguments."""
    if call.tool != step.tool or step.args is None or step.args == "any":
        return call.tool == step.tool
    expected: Mapping[str, Json] = step.args
    made = call.input
    return isinstance(made, Mapping) and all(
        key in made and same(value, made[key]) for key, value in expected.items()
    )
