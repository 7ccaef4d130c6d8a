"""What judges that read are not asked: empty texts say nothing, and of an id without a text nobody can tell."""

from __future__ import annotations

from collections.abc import Sequence

from germane.errors import AnswerError
from germane.judging.judge import AnyQuestion, Reply
from germane.types import FrozenDict

__all__ = ["apart", "without_asking"]

_HOW = FrozenDict(unasked=True)


def without_asking(question: AnyQuestion) -> Reply | None:
    """The reply to a question about nothing; None where the judge has to read."""
    known = question.unasked()
    if isinstance(known, AnswerError):
        return Reply(error=str(known))
    return None if known is None else Reply(payload=known, provenance=_HOW)


def apart(questions: Sequence[AnyQuestion]) -> tuple[list[AnyQuestion], list[tuple[AnyQuestion, ...]]]:
    """The questions that are to be asked, and the others, each a group of its own."""
    asked: list[AnyQuestion] = []
    others: list[tuple[AnyQuestion, ...]] = []
    for question in questions:
        if question.unasked() is None:
            asked.append(question)
        else:
            others.append((question,))
    return asked, others
