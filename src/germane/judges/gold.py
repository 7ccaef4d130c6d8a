"""The judge that reads the gold document ids (qrels)."""

from __future__ import annotations

from typing import ClassVar

from germane.judges.judge import Reply
from germane.judges.labels import LabelsJudge
from germane.questions import Relevance
from germane.types import FrozenDict

__all__ = ["GoldJudge"]


class GoldJudge(LabelsJudge):
    """Answers relevance with the qrels: a document of grade 1 or more is relevant.

    Gold grades are on the collection's own scale, so the answer is yes or no and the grade is named in the
    reasoning. A document that the qrels do not list reaches the judge as grade 0, as trec_eval has it; a
    passage that cannot be looked up at all (no document id, or a sample without qrels) is an error.
    """

    name = "gold"
    identity = FrozenDict(judge="gold", reads="gold")

    source: ClassVar[str] = "gold labels"

    def read(self, question: Relevance) -> Reply:
        """Yes or no with the gold grade, or why there is none."""
        grade = question.label("gold")
        if grade is None:
            return Reply(error=_why_none(question))
        return Reply(payload={"relevant": grade >= 1, "reasoning": f"gold grade {grade}"})


def _why_none(question: Relevance) -> str:
    if question.context is not None and question.context.id is None:
        return "no gold label: the passage has no document id"
    return "no gold label: the sample has no qrels"
