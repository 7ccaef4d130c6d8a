"""Answers that exist already, looked up by question; nobody is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from germane.judges.judge import Judge
from germane.questions import AnyQuestion, key_of
from germane.questions.asking import Answer, answered
from germane.types import Judgement

__all__ = ["Recorded"]

Fetch = Callable[[set[str]], Iterable[Judgement]]


class Recorded:
    """Stored judgements as answers.

    Args:
        route: Who would answer a question: its judge's identity is part of the key.
        fetch: The stored judgements under some keys; asked once for what a program wants together.
    """

    def __init__(self, route: Callable[[AnyQuestion], Judge], fetch: Fetch) -> None:
        self._route, self._fetch = route, fetch
        self._known: dict[str, Judgement] = {}
        self.found = self.unknown = 0

    async def known(self, asked: Sequence[Sequence[AnyQuestion]]) -> list[Sequence[Answer] | None]:
        """What is stored says to everything: nobody else is asked."""
        return [await self.judge(questions) for questions in asked]

    async def judge(self, questions: Sequence[AnyQuestion]) -> Sequence[Answer]:
        """What is stored says to each question."""
        return list(map(answered, questions, self.look_up(questions)))

    def look_up(self, questions: Sequence[AnyQuestion]) -> list[Judgement]:
        """The stored judgement of each question, or an error that says that there is none."""
        judges = [self._route(question) for question in questions]
        keys = [
            key_of(question, judge.identity, judge.prompt_hash(question))
            for question, judge in zip(questions, judges, strict=True)
        ]
        if missing := set(keys) - self._known.keys():
            self._known.update((judgement.key, judgement) for judgement in self._fetch(missing))
        found = [
            self._known.get(key) or _none(key, question, judge)
            for key, question, judge in zip(keys, questions, judges, strict=True)
        ]
        known = sum(key in self._known for key in keys)
        self.found += known
        self.unknown += len(keys) - known
        return found


def _none(key: str, question: AnyQuestion, judge: Judge) -> Judgement:
    return Judgement(key=key, kind=question.kind, judge=judge.name, error="no stored judgement")
