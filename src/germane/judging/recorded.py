"""Answers that exist already, looked up by what was judged; nobody is asked."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from germane.questions.asking import Answer, answered
from germane.questions.question import AnyQuestion
from germane.types import Judgement

_SETTINGS = ("against", "scale", "rubric")


class Recorded:
    """The judgements of a report as answers.

    A question is answered by the judgement of its item with its settings (against, scale, rubric), whatever the prompt
    that it was asked with; the first one where there are several. Members of panels, replicas and windows, which are
    merged into other judgements, are passed over.

    Args:
        judgements: The judgements, those with a parent among them. Read once.
        judge: The name of the judge whose judgements count; None = all of them.

    Attributes:
        found: How many questions had an answer.
        unknown: How many had none.
    """

    def __init__(self, judgements: Iterable[Judgement], judge: str | None = None) -> None:
        self._known: dict[tuple[str | None, ...], Judgement] = {}
        self.found = self.unknown = 0
        for one in judgements:
            if one.parent is None and judge in {None, one.judge}:
                self._known.setdefault((one.item, *map(one.provenance.get, _SETTINGS)), one)

    async def known(self, asked: Sequence[Sequence[AnyQuestion]]) -> list[Sequence[Answer] | None]:
        """The recorded answer to everything: nobody else is asked."""
        return [await self.judge(questions) for questions in asked]

    async def judge(self, questions: Sequence[AnyQuestion]) -> Sequence[Answer]:
        """The recorded answer to each question."""
        return list(map(answered, questions, self.look_up(questions)))

    def look_up(self, questions: Sequence[AnyQuestion]) -> list[Judgement]:
        """The recorded judgement of each question, or an error in its place."""
        return [self._one(question) for question in questions]

    def _one(self, question: AnyQuestion) -> Judgement:
        settings = question.settings()
        judgement = self._known.get((question.item, *map(settings.get, _SETTINGS)))
        if judgement is None:
            self.unknown += 1
            return Judgement(
                key="", item=question.item, kind=question.kind, judge="", error="no stored judgement"
            )
        self.found += 1
        return judgement
