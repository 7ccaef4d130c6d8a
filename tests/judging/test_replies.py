"""A judge that somebody wrote may say anything: what cannot be used fails its questions alone."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from germane import JudgeError, evaluate
from germane.judges import LLMJudge
from germane.judges.judge import Judge, LocalJudge, Reply
from germane.questions import AnyQuestion
from germane.types import Usage
from tests.server import Act, ModelServer

ROWS = [{"id": f"q{n}", "query": f"what is {n}", "contexts": [{"text": f"text {n}"}]} for n in range(6)]
GOOD: dict[str, Any] = {"grade": 3, "reasoning": "it says so"}


class Own(LocalJudge):
    """Says something odd of one passage."""

    name = "own"
    stored = True

    def __init__(self, odd: Reply, *, closing: Exception | None = None) -> None:
        self._odd, self._closing = odd, closing

    def group(self, questions: Sequence[AnyQuestion]) -> list[tuple[AnyQuestion, ...]]:
        return [(question,) for question in questions]

    def reply(self, question: AnyQuestion) -> Reply:
        return self._odd if question.about == "text 3" else Reply(payload=GOOD, usage=Usage(requests=1))

    async def close(self) -> None:
        if self._closing is not None:
            raise self._closing


@pytest.mark.parametrize(
    "odd",
    [
        Reply(payload={**GOOD, "more": object()}),
        Reply(payload=GOOD, provenance={"seen": object()}),  # type: ignore[arg-type]
        Reply(payload=GOOD, provenance=None),  # type: ignore[arg-type]
        Reply(payload=GOOD, usage=Usage(input_tokens=2**70)),
        Reply(payload=GOOD, usage=Usage(requests="one")),  # type: ignore[arg-type]
    ],
)
@pytest.mark.parametrize("kept", [True, False])
def test_what_cannot_be_written_down_fails_its_own_question(odd: Reply, kept: bool, tmp_path: Path) -> None:
    """With a ledger or without: one error that names the judge, and five scores."""
    report = evaluate(
        ROWS, "context_precision@1", judge=Own(odd), ledger=tmp_path / "l.sqlite" if kept else None
    )
    found = report["context_precision@1"]
    assert (found.n, found.errors) == (5, 1)
    assert "own" in found.why[0][0]
    report.save(tmp_path / "r")


def test_a_judge_that_fails_to_close_loses_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The report is there; a warning says it."""
    judge = Own(Reply(payload=GOOD), closing=ValueError("boom"))
    report = evaluate(ROWS, "context_precision@1", judge=judge, ledger=tmp_path / "l.sqlite")
    assert report["context_precision@1"].n == 6
    assert "close() of the judge own failed, its answers are stored: ValueError: boom" in caplog.text


class Zero(Judge):
    """Replies 0 whatever a model replies."""

    name = "zero"

    def __init__(self, url: str) -> None:
        self.model = LLMJudge("openai:test", base_url=url, api_key="k", batch=4)

    def group(self, questions: Sequence[AnyQuestion]) -> list[tuple[AnyQuestion, ...]]:
        return self.model.group(questions)

    async def answer(self, questions: tuple[AnyQuestion, ...]) -> Sequence[Reply]:
        return [Reply(payload={**GOOD, "grade": 0}) for _ in await self.model.answer(questions)]

    async def close(self) -> None:
        await self.model.close()


def test_replies_of_another_judge_are_not_stored_where_the_run_ends(tmp_path: Path) -> None:
    """A judge that changes what a model replies had no chance to."""
    row, ledger = {"query": "what", "contexts": [f"what {n}" for n in range(4)]}, tmp_path / "l.sqlite"
    spoilt = Act(change=lambda reply: {"items": [*reply["items"][1:], {**reply["items"][0], "grade": 9}]})
    with ModelServer([spoilt, Act(status=402, error="no credit")]) as server, pytest.raises(JudgeError):
        evaluate([row], "context_precision", judge=Zero(server.url), ledger=ledger)
    with ModelServer() as server:
        report = evaluate([row], "context_precision", judge=Zero(server.url), ledger=ledger)
    assert report["context_precision"].mean == 0
