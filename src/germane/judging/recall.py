"""What need not be asked: answers of this evaluation's own, and those in the ledger."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import TypeAlias

from germane.judges.judge import Judge, Keyring
from germane.judging.archive import Archive
from germane.judging.spending import Tally
from germane.judging.waiting import Arrived
from germane.questions import AnyQuestion
from germane.questions.asking import Answer, answered
from germane.types import Judgement

__all__ = ["Keyed", "Recall"]

Keyed: TypeAlias = tuple[str, AnyQuestion, Judge]
"""A question with its key and its judge."""


class Recall:
    """What a pool remembers, and counts as remembered.

    Args:
        archive: The ledger.
        tally: Where it is counted.
        own: Judgements by key that hold without looking further.
    """

    def __init__(self, archive: Archive, tally: Tally, own: Mapping[str, Judgement] | None) -> None:
        self._archive, self._tally = archive, tally
        self._own: dict[str, Judgement] = dict(own or {})
        self.key_of = Keyring()

    def remember(self, judgement: Judgement) -> None:
        """Nobody else remembers it, and it is asked once an evaluation."""
        self._own[judgement.key] = judgement

    async def together(
        self, asked: Sequence[tuple[Sequence[AnyQuestion], Sequence[Judge]]]
    ) -> list[list[Answer] | None]:
        """For each list of questions, to these judges: their answers where all are known, else None."""
        keyed = [self._keyed(questions, judges) for questions, judges in asked]
        found = await self.find(keyed)
        return [self._all(questions, found) for questions in keyed]

    def _keyed(self, questions: Sequence[AnyQuestion], judges: Sequence[Judge]) -> list[Keyed]:
        """Questions that may be known, with their keys; none where nobody would remember."""
        if not (self._own or judges[0].stored):
            return []
        return [(self.key_of(one, judge), one, judge) for one, judge in zip(questions, judges, strict=True)]

    def _all(self, asked: Sequence[Keyed], found: Mapping[str, Judgement]) -> list[Answer] | None:
        answers: list[Answer] = []
        for key, question, _ in asked:
            judgement = found.get(key)
            answer = None if judgement is None else answered(question, judgement)
            if answer is None or not answer.holds:
                return None
            answers.append(answer)
        for (key, question, judge), answer in zip(asked, answers, strict=True):
            self._tally.known(key, judge, question, answer)
        return answers or None

    async def find(self, asked: Iterable[Sequence[Keyed | Arrived]]) -> dict[str, Judgement]:
        """What is known of these questions, by their keys."""
        own, found, keys = self._own, dict[str, Judgement](), set[str]()
        for key, _, judge, *_ in chain.from_iterable(asked):
            if own and key in own:
                found[key] = own[key]
            elif judge.stored:
                keys.add(key)
        found.update(await self._archive.find(keys))
        return found
