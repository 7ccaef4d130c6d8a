"""The judge that reads people's grades on the contexts."""

from __future__ import annotations

from typing import ClassVar

from germane.judges.judge import LocalJudge, Reply
from germane.questions import AnyQuestion, Relevance
from germane.questions.relevance import HELPS
from germane.types import FrozenDict, Json

__all__ = ["LabelsJudge"]


class LabelsJudge(LocalJudge):
    """Answers relevance with what a person said about the context; nothing else.

    A context without a label is an error, not "irrelevant": the sample's score is then incomplete. A yes or
    no stays a yes or no (the binary scale); a grade becomes one where the question asks for no more.
    """

    name = "labels"
    identity = FrozenDict(judge="labels", reads="labels")

    source: ClassVar[str] = "people's labels"

    def reply(self, question: AnyQuestion) -> Reply:
        """The label on the context, or an error where there is none."""
        if not isinstance(question, Relevance):
            return Reply(
                error=f"{self.source} cannot answer a question of kind {question.kind}, only relevance"
            )
        return self.read(question)

    def read(self, question: Relevance) -> Reply:
        """The label as an answer on the scale of the question, or "no label"."""
        label = question.label("labels")
        return Reply(error="no label") if label is None else Reply(payload=_payload(label, question.scale))


def _payload(label: Json, scale: str) -> dict[str, Json]:
    if isinstance(label, bool):
        return {"relevant": label, "reasoning": ""}
    if scale == "binary":
        return {"relevant": label >= HELPS, "reasoning": f"a person's grade is {label} of 3"}
    return {"grade": label, "reasoning": ""}
