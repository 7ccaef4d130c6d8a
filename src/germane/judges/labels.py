"""Judges that answer relevance questions from labels: people's grades, or gold document ids (qrels)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar, TypeAlias

from msgspec.structs import replace

from germane.encoding import relevance_items
from germane.judges.judge import LocalJudge, Reply
from germane.questions.question import AnyQuestion
from germane.questions.relevance import HELPS, Relevance
from germane.types import Context, FrozenDict, Json

Turns: TypeAlias = Sequence[tuple[str, str]]


class LabelsJudge(LocalJudge):
    """A judge that answers relevance questions with people's labels; it cannot be a member of a panel.

    If an item (a query with a passage) has no label, the reply is an error and not "irrelevant", so that the
    sample's score is incomplete. A label True or False is answered as yes or no. A grade is converted to yes
    or no if the question uses the binary scale. Ranked measures read the labels directly and do not ask this
    judge.

    `labels` maps items to labels (a grade, True or False). They override the labels of the contexts.
    """

    name = "labels"
    identity = FrozenDict(judge="labels", reads="labels")

    source: ClassVar[str] = "people's labels"
    lacking: ClassVar[str] = "no label"

    def __init__(self, labels: Mapping[str, Json] | None = None) -> None:
        self.by_item = dict(labels or {})
        self._labels = dict(self.by_item)

    def labelled(self, query: str, history: Turns, context: Context) -> Context:
        """Return the context with its label from `labels`; without such a label, return it unchanged."""
        (item,) = relevance_items([(query, context.text)], history)
        label = self.by_item.get(item)
        if label is None:
            return context
        yes = isinstance(label, bool)
        return replace(context, grade=None if yes else label, relevant=label if yes else None)

    def learn(
        self, query: str, contexts: Sequence[Context], history: Turns, qrels: Mapping[str, int] | None
    ) -> None:
        """Remember the labels of these contexts (a GoldJudge: in `qrels`), unless their items have labels."""
        items = relevance_items([(query, context.text) for context in contexts], history)
        for item, context in zip(items, contexts, strict=True):
            label = self._label(context, qrels)
            if label is not None and context.text:
                self._labels.setdefault(item, label)

    def _label(self, context: Context, _qrels: Mapping[str, int] | None) -> Json:
        return context.relevant if context.grade is None else context.grade

    def label_of(self, question: AnyQuestion) -> Json:
        """Return the label stored for the question's item (query and passage), or None."""
        return self._labels.get(question.item)

    def reply(self, question: AnyQuestion) -> Reply:
        """Return the label of the question's item as a reply, or an error reply if there is no label."""
        if not isinstance(question, Relevance):
            why = f"{self.source} can only answer questions of kind relevance, not {question.kind}"
            return Reply(error=why)
        label = self.label_of(question)
        return Reply(error=self.lacking) if label is None else self.read(question, label)

    def read(self, question: Relevance, label: Json) -> Reply:
        """Return a label as a reply on the question's scale. On the binary scale, grades 2 and 3 mean yes."""
        if isinstance(label, bool):
            return Reply(payload={"relevant": label, "reasoning": ""})
        if question.scale == "binary":
            why = f"a person's grade is {label} of 3"
            return Reply(payload={"relevant": label >= HELPS, "reasoning": why})
        return Reply(payload={"grade": label, "reasoning": ""})


class GoldJudge(LabelsJudge):
    """A judge that answers relevance questions with the qrels: a document of grade 1 or more is relevant.

    Qrels use the scale of their collection, so the answer is only yes or no, and the reasoning contains the
    grade. A document that is not in the qrels has grade 0, as in trec_eval. If a passage has no document id,
    or the sample has no qrels, the reply is an error.
    """

    name = "gold"
    identity = FrozenDict(judge="gold", reads="gold")

    source: ClassVar[str] = "gold labels"
    lacking: ClassVar[str] = "no gold label: the passage has no document id, or the sample has no qrels"

    def _label(self, context: Context, qrels: Mapping[str, int] | None) -> Json:
        return None if qrels is None or context.id is None else qrels.get(context.id, 0)

    def read(self, _question: Relevance, label: Json) -> Reply:
        """Return a grade from the qrels as a reply: yes if the grade is 1 or more."""
        return Reply(payload={"relevant": label >= 1, "reasoning": f"gold grade {label}"})
