"""`compatibility="agentv"` gives the values of the original (agentv 2.1.0 of January 2026), row by row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from germane.graders import Cost, FieldAccuracy, TokenUsage, ToolTrajectory
from germane.graders.grader import GraderResult
from germane.samples.cases import Case
from germane.types import FrozenDict, Message, Sample, ToolCall
from tests.graders.running import graded

ROWS: list[dict[str, Any]] = json.loads(Path(__file__).with_name("agentv.json").read_text("utf-8"))["rows"]


def rows(kind: str) -> list[Any]:
    found = [pytest.param(row, id=row["name"]) for row in ROWS if row["kind"] == kind]
    assert found
    return found


def check(result: GraderResult, row: dict[str, Any]) -> None:
    """Every value that the row has."""
    got = result.as_json()
    names = [name for name in ("verdict", "hits", "misses", "reasoning") if name in row]
    assert result.score == pytest.approx(row["score"], abs=1e-12)
    assert {name: got[name] for name in names} == {name: row[name] for name in names}


def case_of(**given: Any) -> Case:
    return Case(sample=Sample(id="1", query="?", **given))


@pytest.mark.parametrize("row", rows("field_accuracy"))
def test_field_accuracy(row: dict[str, Any]) -> None:
    """Fields of the answer against those of the expected message."""
    given = row["input"]
    answer = given["candidate"] if isinstance(given["candidate"], str) else json.dumps(given["candidate"])
    case = Case(
        sample=Sample(id="1", query="?", response=answer),
        expected_messages=(Message(role="assistant", content=given["expected"]),),
    )
    options = {key: given[key] for key in ("fields", "aggregation") if key in given}
    check(graded(FieldAccuracy(**options, compatibility="agentv"), case), row)


@pytest.mark.parametrize("row", rows("tool_trajectory"))
def test_tool_trajectory(row: dict[str, Any]) -> None:
    """Tool calls against those that are expected."""
    calls = [{"tool": call} if isinstance(call, str) else call for call in row["input"]["calls"]]
    message = Message(role="assistant", content="ok", tool_calls=tuple(ToolCall(**call) for call in calls))
    grader = ToolTrajectory(**row["input"]["cfg"], compatibility="agentv")
    check(graded(grader, case_of(messages=(message,))), row)


@pytest.mark.parametrize("row", rows("cost"))
def test_cost(row: dict[str, Any]) -> None:
    """A cost that nobody reported."""
    check(graded(Cost(**row["input"], compatibility="agentv"), case_of()), row)


@pytest.mark.parametrize("row", rows("token_usage"))
def test_token_usage(row: dict[str, Any]) -> None:
    """Tokens against their limits."""
    case = case_of(metadata=FrozenDict({"token_usage": row["input"]["u"]}))
    check(graded(TokenUsage(**row["input"]["c"], compatibility="agentv"), case), row)
