"""Runs graders as an evaluation does: through the asker, with the script judge, and a model's over real HTTP."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from germane.evalfiles import Case
from germane.graders import CaseGrader, GraderResult
from germane.judges.judge import Judge
from germane.judges.llm import LLMJudge
from germane.judging.asker import Asker
from germane.judging.spending import Budget
from germane.ledger.store import Ledger
from germane.questions.asking import Running
from tests.server import ModelServer


def graded(
    grader: CaseGrader,
    case: Case,
    judge: Judge | None = None,
    *,
    ledger: Ledger | None = None,
    budget: Budget | None = None,
) -> GraderResult:
    """The result of one grader on one case."""
    return asyncio.run(_graded(grader, case, judge, ledger, budget))


async def _graded(
    grader: CaseGrader, case: Case, judge: Judge | None, ledger: Ledger | None, budget: Budget | None
) -> GraderResult:
    async with Asker(judge, ledger, budget=budget) as asker:
        program = Running(grader.grade(case))
        await program.finish(asker.judge)
        return program.result


def judge_of(server: ModelServer) -> LLMJudge:
    """A model behind real HTTP."""
    return LLMJudge("openai:test", base_url=server.url, api_key="test")


def told(result: GraderResult) -> dict[str, Any]:
    """The details of a result as JSON reads them."""
    assert result.status == "ok", result.why
    found: dict[str, Any] = json.loads(json.dumps(result.details))
    return found
