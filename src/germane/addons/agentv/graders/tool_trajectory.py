"""A grader that compares an agent's tool calls with expected ones: tools, number, order and arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from germane.addons.agentv.graders.transcript import plain_number, same, tool_calls, trace_summary
from germane.errors import InputError
from germane.evalfiles import Case
from germane.graders import Checks, DirectGrader, GraderResult, Numbers
from germane.types import Json, ToolCall
from germane.yamltext import JsonMapping, YamlModel

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
