"""Keys of many questions: what all questions of a kind to one judge share is spelt once."""

from __future__ import annotations

from germane.judging.judge import AnyQuestion, Judge
from germane.judging.questions import key_of
from germane.judging.questions.base import Ending, ending, key_under

__all__ = ["Keyring"]


class Keyring:
    """The key of a question to a judge, as `key_of` has it."""

    def __init__(self) -> None:
        self._judges: dict[int, Judge] = {}  # holds the judges, so that no id is given to another one
        self._endings: dict[tuple[int, str, str], Ending] = {}

    def __call__(self, question: AnyQuestion, judge: Judge) -> str:
        """The ledger's key."""
        prompt = judge.prompt_hash(question)
        shared = (id(judge), question.kind, prompt)
        end = self._endings.get(shared)
        if end is None:
            if "reads" in judge.identity:  # the label stands behind the inputs, and is another each time
                return key_of(question, judge.identity, prompt)
            self._judges[id(judge)] = judge
            end = self._endings[shared] = ending(question.kind, judge.identity, prompt)
        return key_under(question, end)
