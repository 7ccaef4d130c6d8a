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
    """A judge with scripted answers, for tests. Its attribute `asked` lists the questions that it was asked.

    `answers` is a function or a dict. A function takes the question and returns a payload, a Reply or an
    exception. An AnswerError becomes an error reply; any other exception is raised. A dict maps the text of a
    question, or a kind of question (`"relevance"`), to a payload or such a function; the text goes first.
    Without `answers`, each question gets its `typical()` payload. Each call waits `seconds` and answers at
    most `together` questions.
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
        """Return the scripted reply to each question, after a pause of `seconds`."""
        self.calls += 1
        self.asked += questions
        if self._seconds:
            await asyncio.sleep(self._seconds)
        return await super().answer(questions)

    def reply(self, question: AnyQuestion) -> Reply:
        """Return the scripted reply to this question, or its typical answer if nothing is scripted."""
        result: Json | Answer = self._answers
        if isinstance(result, Mapping):
            absent = AnswerError(f"the fake judge has no answer to a question of kind {question.kind}")
            result = result.get(question.about, result.get(question.kind, absent))
        try:
            if result is None:
                result = question.typical()
            elif callable(result):
                result = result(question)
            if isinstance(result, Exception):
                raise result
        except AnswerError as error:
            return Reply(error=str(error))
        return result if isinstance(result, Reply) else Reply(payload=result)
