"""What the judge of labels answers about passages whose labels are known: the pool's rows, many at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from germane.encoding import canonical, encode
from germane.judges.labels import LabelsJudge
from germane.judging.queue import judgement_of
from germane.questions.question import ending
from germane.questions.relevance import Relevance
from germane.tables.judgements import dump_judgement
from germane.tables.part import JudgementLines
from germane.types import Context, Judgement

__all__ = ["LabelledRows"]

_NAME = "0" * 32
_HEAD = b'{"key":"%b","item":"%b%b'
_BEGIN = len(_HEAD % (_NAME.encode(), _NAME.encode(), b""))


class LabelledRows:
    """The rows of judgements.jsonl that follow from labels, as the pool makes them of a question each.

    Args:
        judge: The judge that reads the labels.
        asked: How relevance is asked: scale and rubric.
    """

    def __init__(self, judge: LabelsJudge, asked: Mapping[str, Any]) -> None:
        self._judge, self._asked = judge, asked
        self._plain = self._question({})
        self._tails: dict[tuple[str, bool], dict[int, tuple[bytes, bytes]]] = {}
        self.examples: dict[str, Judgement] = {}
        """A judgement of those that were held against the same."""

    def renew(self) -> None:
        """What follows is answered now."""
        self._tails.clear()

    def of(self, items: Sequence[str], labels: Sequence[int], beside: Mapping[str, str]) -> JudgementLines:
        """The rows of one sample's passages: of each its item and its label (0 to 3, or True or False).

        `beside` is what is shown beside the query: the sample's reference or criterion.
        """
        question = self._question(beside) if beside else self._plain
        put = question.settings()
        begun = canonical({"as": put, "beside": question.shown_beside(), "item": ""})[:-2]
        binary = type(labels[0]) is bool
        tails = self._tails.setdefault((put["against"], binary), {})
        keys, lines = list[str](), list[bytes]()
        for item, label in zip(items, labels, strict=True):
            if label not in tails:
                tails[label] = self._tail(question, label, binary=binary)
            ending, tail = tails[label]
            name = item.encode()
            key = hashlib.sha256(begun + name + ending).hexdigest()[:32]
            keys.append(key)
            lines.append(_HEAD % (key.encode(), name, tail))
        return JudgementLines(self.examples[put["against"]], keys, lines)

    def _question(self, beside: Mapping[str, Any]) -> Relevance:
        return Relevance(query="?", passage="?", **self._asked, **beside)

    def _tail(self, question: Relevance, label: int, *, binary: bool) -> tuple[bytes, bytes]:
        """What follows the item in the JSON that a key is the digest of, and in the line of the judgement."""
        context = Context(text="?", relevant=bool(label)) if binary else Context(text="?", grade=label)
        labelled = replace(question, context=context)
        made = judgement_of(_NAME, labelled, self._judge, self._judge.read(labelled))
        self.examples.setdefault(question.settings()["against"], made)
        line = encode(dump_judgement(replace(made, item=_NAME)))
        end = b'"' + ending(self._judge.identity, "", {"label": label})
        return end, line[_BEGIN:] + b"\n"
