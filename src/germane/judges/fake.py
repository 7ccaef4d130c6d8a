"""A judge with scripted answers, for tests."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from germane.errors import AnswerError
from germane.judges.judge import LocalJudge, Reply
from germane.questions.question import AnyQuestion
from germane.types import Json

Answer: TypeAlias = Callable[[AnyQuestion], Json | Reply | Exception]


class FakeJudge(LocalJudge):
    """Answers from a function or a dict, and records the questions (`asked`).

    A function gets the question and returns a payload, a Reply, or an exception to raise or to report
    (AnswerError becomes an error reply, any other is raised). A dict maps a kind (`"relevance"`) or the text
    that a question is about to a payload or such a function; the text goes before the kind. Without either
    every question gets its own typical answer. Up to `together` questions are handed over at a time.
    """

    def __init__(
        self,
        answers: Answer | Mapping[str, Json | Answer] | None = None,
        *,
        name: str = "fake",
        stored: bool = False,
        seconds: float = 0.0,
        concurrency: int = 64,
        together: int = 1,
    ) -> None:
        self.name, self.stored, self.concurrency = name, stored, concurrency
        self.asked: list[AnyQuestion] = []
        self.calls = 0
        self._answers, self._seconds, self._together = answers, seconds, max(1, together)

    async def answer(self, questions: tuple[AnyQuestion, ...]) -> Sequence[Reply]:
        """Return one reply per question, after `seconds`."""
        self.calls += 1
        self.asked += questions
        if self._seconds:
            await asyncio.sleep(self._seconds)
        return await super().answer(questions)

    def reply(self, question: AnyQuestion) -> Reply:
        """Return the scripted answer to this question, else a typical one."""
        result: Json | Answer = self._answers
        if isinstance(result, Mapping):
            absent = AnswerError(f"the fake judge has no answer to a question of kind {question.kind}")
            result = result.get(question.about, result.get(question.kind, absent))
        try:
            result = (
                question.typical() if result is None else result(question) if callable(result) else result
            )
        except AnswerError as error:
            result = error
        if isinstance(result, AnswerError):
            return Reply(error=str(result))
        if isinstance(result, Exception):
            raise result
        return result if isinstance(result, Reply) else Reply(payload=result)
