"""The judges that read labels: people's grades on the contexts, and gold document ids (qrels)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from germane.judges.judge import LocalJudge, Reply
from germane.questions.question import AnyQuestion
from germane.questions.relevance import HELPS, Relevance
from germane.types import FrozenDict, Json


class LabelsJudge(LocalJudge):
    """Answers relevance with people's labels; nothing else.

    A label stands in `labels` under the item that was judged, else on the context of the question. A context without a label is an error, not "irrelevant": the sample's score is then incomplete. A yes or
    no stays a yes or no (the binary scale); a grade becomes one where the question asks for no more.

    Args:
        labels: By item: a grade, or True or False.
    """

    name = "labels"
    identity = FrozenDict(judge="labels", reads="labels")

    source: ClassVar[str] = "people's labels"

    def __init__(self, labels: Mapping[str, Json] | None = None) -> None:
        self._labels = labels or {}

    def reply(self, question: AnyQuestion) -> Reply:
        """The label on the context, or an error where there is none."""
        if not isinstance(question, Relevance):
            return Reply(
                error=f"{self.source} cannot answer a question of kind {question.kind}, only relevance"
            )
        return self.read(question)

    def read(self, question: Relevance) -> Reply:
        """The label as an answer on the scale of the question, or "no label"."""
        label = self._labels.get(question.item) if self._labels else None
        label = question.label("labels") if label is None else label
        if label is None:
            return Reply(error="no label")
        if isinstance(label, bool):
            return Reply(payload={"relevant": label, "reasoning": ""})
        if question.scale == "binary":
            why = f"a person's grade is {label} of 3"
            return Reply(payload={"relevant": label >= HELPS, "reasoning": why})
        return Reply(payload={"grade": label, "reasoning": ""})


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
            unnamed = question.context is not None and question.context.id is None
            lacking = "the passage has no document id" if unnamed else "the sample has no qrels"
            return Reply(error=f"no gold label: {lacking}")
        return Reply(payload={"relevant": grade >= 1, "reasoning": f"gold grade {grade}"})
