"""What an agent's tool calls were: which, how often, in which order, with which arguments; and which skill they used."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, model_validator

from germane.graders.evidence import plain_number, same, tool_calls, trace_summary
from germane.graders.grader import DirectGrader, Flag, FrozenMap, GraderResult, Number
from germane.samples.evalfile import Case
from germane.samples.messages import plain
from germane.types import Json, ToolCall

ArgsMatch: TypeAlias = Literal["exact", "superset", "subset", "ignore"] | tuple[str, ...]


class ExpectedCall(BaseModel):
    """A tool call that is expected.

    Attributes:
        tool: The tool's name.
        args: Arguments that it must have; absent or "any": whatever they are.
        args_match: How they are compared, where this call differs from the others.
        max_duration_ms: Milliseconds that it may take (`in_order` and `exact`): a check of its own, left out where the
            call's duration is not known.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)

    tool: Annotated[str, Field(min_length=1)]
    args: Literal["any"] | FrozenMap | None = None
    args_match: ArgsMatch | None = None
    max_duration_ms: Number | None = None


class ToolTrajectory(DirectGrader):
    """Share of the expected tool calls that were made.

    - `any_order`: of the tools in `minimums`, the share that was called at least that often.
    - `in_order`: of the `expected` calls, the share found one after the other; other calls in between are allowed.
    - `exact`: position by position, over the longer of both lists: a call too many is a miss.
    - `superset`: of the `expected` calls, the share that was made, in any order. `subset`: of the calls that were made,
      the share that is among the `expected`.

    Arguments match where each given key is equal (`args_match: superset`, the default); `exact` allows no other key,
    `subset` no key that is not given, `ignore` anything, and a list of paths compares these alone.
    """

    type: ClassVar[str] = "tool_trajectory"

    mode: Literal["any_order", "in_order", "exact", "superset", "subset"]
    minimums: FrozenMap | None = None
    expected: tuple[ExpectedCall, ...] | None = None
    args_match: ArgsMatch = "superset"

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.mode == "any_order" and self.minimums is None:
            raise ValueError("write minimums: {search: 1}")
        if self.mode != "any_order" and self.expected is None:
            raise ValueError("write expected: [{tool: search}]")
        for tool, count in (self.minimums or {}).items():
            if isinstance(count, bool) or not isinstance(count, int | float) or count < 0:
                raise ValueError(f"write a number of calls: {tool}: 1")
        return self

    def check(self, case: Case) -> GraderResult:
        """The calls that were made against those that are expected."""
        calls = tool_calls(case)
        summary = trace_summary(case)
        silent = not case.sample.messages and not self.agentv and self.mode != "any_order"
        if summary is None or silent:
            miss = "No trace available for evaluation"
            return self.absent(miss, "the answer came without messages, so no tool calls are known")
        if self.mode == "any_order":
            return self._any_order(summary["tool_calls_by_name"])
        expected = self.expected or ()
        if not expected and (self.agentv or not calls):
            return GraderResult(score=1.0, hits=("No tool sequence specified",))
        judge = {
            "in_order": self._in_order,
            "exact": self._exact,
            "superset": self._superset,
            "subset": self._subset,
        }
        return judge[self.mode](expected, calls)

    def _any_order(self, made: Mapping[str, float]) -> GraderResult:
        if not self.minimums:
            return GraderResult(score=1.0, hits=("No tool requirements specified",))
        met: list[str] = []
        unmet: list[str] = []
        for tool, least in self.minimums.items():
            count = made.get(tool, 0)
            said = f"{tool}: called {plain_number(count)} times (required ≥{plain_number(least)})"
            (met if count >= least else unmet).append(said)
        return self._share(met, unmet, len(self.minimums))

    def _in_order(self, expected: Sequence[ExpectedCall], calls: Sequence[ToolCall]) -> GraderResult:
        met: list[str] = []
        unmet: list[str] = []
        at, total = 0, len(expected) + _limits(expected)
        for place, one in enumerate(expected):
            while at < len(calls) and calls[at].tool != one.tool:
                at += 1
            if at == len(calls):
                unmet.append(f"Expected {one.tool} at position {place}, not found in remaining trace")
                continue
            if self._matches(one, calls[at]):
                met.append(f"Found {one.tool} at position {at}")
                total -= _untimed(one, calls[at], met, unmet)
            else:
                unmet.append(f"Expected {one.tool} at position {place}: tool found at {at} but args mismatch")
            at += 1
        return self._share(met, unmet, total)

    def _exact(self, expected: Sequence[ExpectedCall], calls: Sequence[ToolCall]) -> GraderResult:
        met: list[str] = []
        unmet: list[str] = []
        total = _limits(expected) + (len(expected) if self.agentv else max(len(expected), len(calls)))
        if len(calls) != len(expected):
            unmet.append(f"Expected {len(expected)} tool calls, got {len(calls)}")
        for place, (one, call) in enumerate(zip(expected, calls, strict=False)):
            if one.tool != call.tool:
                unmet.append(f"Position {place}: expected {one.tool}, got {call.tool}")
            elif self._matches(one, call):
                met.append(f"Position {place}: {one.tool}")
                total -= _untimed(one, call, met, unmet)
            else:
                unmet.append(f"Position {place}: {one.tool} args mismatch")
        absent = enumerate(expected[len(calls) :], len(calls))
        unmet += [f"Position {place}: expected {one.tool}, got nothing" for place, one in absent]
        return self._share(met, unmet, total)

    def _superset(self, expected: Sequence[ExpectedCall], calls: Sequence[ToolCall]) -> GraderResult:
        met: list[str] = []
        unmet: list[str] = []
        left = dict(enumerate(calls))
        for one in expected:
            at = next(
                (n for n, call in left.items() if call.tool == one.tool and self._matches(one, call)), None
            )
            if at is None:
                unmet.append(f"Expected {one.tool} not found in actual trajectory")
            else:
                met.append(f"Found {one.tool} at position {at}")
                del left[at]
        return self._share(met, unmet, len(expected))

    def _subset(self, expected: Sequence[ExpectedCall], calls: Sequence[ToolCall]) -> GraderResult:
        met: list[str] = []
        unmet: list[str] = []
        for place, call in enumerate(calls):
            allowed = any(one.tool == call.tool and self._matches(one, call) for one in expected)
            said = f"Position {place}: {call.tool} is {'' if allowed else 'not '}in allowed set"
            (met if allowed else unmet).append(said)
        if not calls:
            return GraderResult(score=1.0, hits=("No actual tool calls (trivially a subset)",))
        return self._share(met, unmet, len(calls))

    def _share(self, met: Sequence[str], unmet: Sequence[str], total: int) -> GraderResult:
        return GraderResult(
            score=len(met) / total,
            hits=tuple(met),
            misses=tuple(unmet),
            reasoning=f"{len(met)}/{total} tool calls as expected",
        )

    def _matches(self, one: ExpectedCall, call: ToolCall) -> bool:
        how = self.args_match if one.args_match is None else one.args_match
        if one.args is None or one.args == "any" or how == "ignore":
            return True
        given: Mapping[str, Json] = one.args
        made = call.input
        if not isinstance(made, Mapping):
            return False
        if how == "exact":
            return same(given, made)
        if how == "superset":
            return all(key in made and same(value, made[key]) for key, value in given.items())
        if how == "subset":
            return all(key in given and same(value, given[key]) for key, value in made.items())
        wanted = {path: value for path in how if (value := _at(given, path)) is not _ABSENT}
        return all(same(value, _at(made, path)) for path, value in wanted.items())


def _limits(expected: Sequence[ExpectedCall]) -> int:
    """How many calls have a longest duration: each is one more thing to keep."""
    return sum(one.max_duration_ms is not None for one in expected)


def _untimed(one: ExpectedCall, call: ToolCall, met: list[str], unmet: list[str]) -> int:
    """1 where a limit cannot be checked, for the call's duration is not known; else the outcome is added."""
    most = one.max_duration_ms
    if most is None or call.ms is None:
        return int(most is not None)
    took, most_ms = plain_number(call.ms), plain_number(most)
    if call.ms <= most:
        met.append(f"{one.tool} completed in {took}ms (max: {most_ms}ms)")
    else:
        unmet.append(f"{one.tool} took {took}ms (max: {most_ms}ms)")
    return 0


class SkillTrigger(DirectGrader):
    """1 where an agent used a skill (or, with `should_trigger: false`, did not), else 0.

    A skill is used by a call of the tool Skill whose `skill` names it, by reading a file under `skills/NAME/`, or by a
    tool whose output names such a file. Skipped where no message of the system is known.

    Attributes:
        skill: The skill's name.
        should_trigger: Whether it should be used.
    """

    type: ClassVar[str] = "skill_trigger"

    skill: Annotated[str, Field(min_length=1)]
    should_trigger: Flag = True

    def check(self, case: Case) -> GraderResult:
        """The tool calls, searched for the skill."""
        calls = tool_calls(case)
        if not case.sample.messages and not self.agentv:
            return GraderResult.skipped("the answer came without messages, so no tool calls are known")
        used = next(filter(None, map(self._used_by, calls)), "")
        passed, name = bool(used) == self.should_trigger, f'Skill "{self.skill}"'
        if self.should_trigger:
            absent = f"{name} not found in {len(calls)} tool call(s)" if calls else "No tool calls recorded"
            said = used or absent
        else:
            said = used or f"{name} correctly did not trigger"
        return GraderResult(score=float(passed), hits=(said,) * passed, misses=(said,) * (not passed))

    def _used_by(self, call: ToolCall) -> str:
        """How a call uses the skill; "" where it does not."""
        given: Mapping[str, Json] = call.input if isinstance(call.input, Mapping) else {}
        file, tool = f"skills/{self.skill}/", call.tool.lower()
        named, path = str(given.get("skill") or ""), str(given.get("file_path") or given.get("path") or "")
        if tool == "skill" and self.skill in named:
            return f'Skill tool invoked with skill="{named}"'
        if tool == "read" and file in path:
            return f"Read tool loaded skill file: {path}"
        output = call.output if isinstance(call.output, str) else json.dumps(plain(call.output))
        return f'Tool "{call.tool}" output referenced skill file for "{self.skill}"' if file in output else ""


_ABSENT = object()


def _at(value: Any, path: str) -> Any:
    for step in path.split("."):
        value = value.get(step, _ABSENT) if isinstance(value, Mapping) else _ABSENT
    return value
