"""The judges that read labels: people's grades on contexts, and gold document ids (qrels)."""

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
"""The conversation before a query, as (role, text)."""


class LabelsJudge(LocalJudge):
    """Answers relevance with people's labels; nothing else.

    A label stands under the item that was judged. An item without one is an error, not "irrelevant": the sample's score
    is then incomplete. A yes or no stays a yes or no (the binary scale); a grade becomes one where the question asks for
    no more.

    It is asked by measures that ask for single passages; elsewhere its labels are read where they stand. It votes on no panel.

    Args:
        labels: By item: a grade, or True or False; they stand before those on the contexts.
    """

    name = "labels"
    identity = FrozenDict(judge="labels", reads="labels")

    source: ClassVar[str] = "people's labels"
    lacking: ClassVar[str] = "no label"

    def __init__(self, labels: Mapping[str, Json] | None = None) -> None:
        self.by_item = dict(labels or {})
        self._labels = dict(self.by_item)

    def labelled(self, query: str, history: Turns, context: Context) -> Context:
        """Return the context with this judge's label for it, if there is one."""
        (item,) = relevance_items([(query, context.text)], history)
        label = self.by_item.get(item)
        if label is None:
            return context
        yes = isinstance(label, bool)
        return replace(context, grade=None if yes else label, relevant=label if yes else None)

    def learn(
        self, query: str, contexts: Sequence[Context], history: Turns, qrels: Mapping[str, int] | None
    ) -> None:
        """Add the labels of these passages of a query; the first label of an item stays."""
        labels = [self._label(context, qrels) for context in contexts]
        items = relevance_items([(query, context.text) for context in contexts], history)
        for item, label, context in zip(items, labels, contexts, strict=True):
            if label is not None and context.text:
                self._labels.setdefault(item, label)

    def _label(self, context: Context, _qrels: Mapping[str, int] | None) -> Json:
        return context.relevant if context.grade is None else context.grade

    def label_of(self, question: AnyQuestion) -> Json:
        """Return the label of the question's item, or None."""
        return self._labels.get(question.item)

    def reply(self, question: AnyQuestion) -> Reply:
        """Return the label of the item, or an error where there is none."""
        if not isinstance(question, Relevance):
            return Reply(
                error=f"{self.source} cannot answer a question of kind {question.kind}, only relevance"
            )
        label = self.label_of(question)
        return Reply(error=self.lacking) if label is None else self.read(question, label)

    def read(self, question: Relevance, label: Json) -> Reply:
        """Return the label as an answer on the scale of the question."""
        if isinstance(label, bool):
            return Reply(payload={"relevant": label, "reasoning": ""})
        if question.scale == "binary":
            why = f"a person's grade is {label} of 3"
            return Reply(payload={"relevant": label >= HELPS, "reasoning": why})
        return Reply(payload={"grade": label, "reasoning": ""})


class GoldJudge(LabelsJudge):
    """Answers relevance with the qrels: a document of grade 1 or more is relevant.

    Gold grades are on the collection's own scale, so the answer is yes or no and the grade is named in the
    reasoning. A document that the qrels do not list has grade 0, as trec_eval has it; a
    passage that cannot be looked up at all (no document id, or a sample without qrels) is an error.
    """

    name = "gold"
    identity = FrozenDict(judge="gold", reads="gold")

    source: ClassVar[str] = "gold labels"
    lacking: ClassVar[str] = "no gold label: the passage has no document id, or the sample no qrels"

    def _label(self, context: Context, qrels: Mapping[str, int] | None) -> Json:
        return None if qrels is None or context.id is None else qrels.get(context.id, 0)

    def read(self, _question: Relevance, label: Json) -> Reply:
        """Return the gold grade as a yes or no."""
        return Reply(payload={"relevant": label >= 1, "reasoning": f"gold grade {label}"})
