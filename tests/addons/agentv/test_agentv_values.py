"""`compatibility="agentv"` gives the values of the original (agentv 2.1.0 of January 2026), row by row."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import pytest

from germane.addons.agentv.graders import (
    CodeGrader,
    Composite,
    Cost,
    FieldAccuracy,
    LLMGrader,
    RubricItem,
    TokenUsage,
    ToolTrajectory,
)
from germane.evalfiles import Case
from germane.graders import GraderResult
from germane.graders.grader import DirectGrader
from germane.types import FrozenDict, Message, Sample, ToolCall
from tests.addons.agentv.running import graded, judge_of
from tests.server import Act, ModelServer

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


@pytest.mark.equals("AgentV 4.42.4", what="`field_accuracy` with `compatibility: agentv`", within="exact")
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


@pytest.mark.equals("AgentV 4.42.4", what="`tool_trajectory` with `compatibility: agentv`", within="exact")
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


class Fixed(DirectGrader):
    """A member of a composite with a score of its own."""

    type: ClassVar[str] = "fixed"
    score: float

    def check(self, _: Case) -> GraderResult:
        return GraderResult(score=self.score, hits=("h",), reasoning="r")


@pytest.mark.equals(
    "AgentV 4.42.4", what="weighted and threshold composites with `compatibility: agentv`", within="exact"
)
@pytest.mark.parametrize("row", rows("composite"))
def test_composite(row: dict[str, Any]) -> None:
    """The aggregators that the original has."""
    members = tuple(
        Fixed(name=one["n"], score=one["s"], compatibility="agentv") for one in row["input"]["members"]
    )
    grader = Composite(graders=members, aggregator=row["input"]["agg"], compatibility="agentv")
    check(graded(grader, case_of()), row)


@pytest.mark.parametrize("row", rows("code_judge"))
def test_code_judge(row: dict[str, Any]) -> None:
    """What a script prints, and how it ends."""
    grader = CodeGrader(script=row["input"]["script"], compatibility="agentv")
    check(graded(grader, case_of(response="x")), row)


@pytest.mark.equals(
    "AgentV 4.42.4", what="`llm_judge`, free form and rubric, with `compatibility: agentv`", within="exact"
)
@pytest.mark.parametrize("row", [row for row in rows("llm_judge") if "input" in row.values[0]])
def test_llm_judge(row: dict[str, Any]) -> None:
    """What a model answers, in free form and to a rubric."""
    texts = row["input"]["txts"]
    with ModelServer([Act(text=text) for text in texts]) as server:
        grader = LLMGrader(
            prompt="Good? {{candidate_answer}}",
            rubrics=row["input"].get("rubrics", ()),
            compatibility="agentv",
        )
        result = graded(grader, case_of(response="x"), judge_of(server))
        assert server.count == len(texts)
    check(result, row)


def test_garbage_for_a_rubric_is_an_error() -> None:
    """The original raises after three attempts, where free form scores 0."""
    (row,) = [row for row in ROWS if row["kind"] == "llm_judge" and "error" in row]
    with ModelServer([Act(text="x")] * row["calls"]) as server:
        grader = LLMGrader(rubrics=(RubricItem(description="it is so"),), compatibility="agentv")
        result = graded(grader, case_of(response="x"), judge_of(server))
        assert server.count == row["calls"]
    assert (result.score, result.status) == (None, "error")
    assert "3 attempts" in str(result.why)
