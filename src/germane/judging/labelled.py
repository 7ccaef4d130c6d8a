"""What the judge of labels answers about passages whose labels are known: the pool's rows, many at a time."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, Protocol

from germane.encoding import canonical, encode
from germane.judges.labels import LabelsJudge
from germane.judging.queue import judgement_of
from germane.questions.question import ending
from germane.questions.relevance import Relevance
from germane.tables.judgements import dump_judgement
from germane.tables.part import JudgementLines
from germane.types import Context, FrozenDict, Judgement

__all__ = ["AnsweredRows", "AskedRow", "LabelledRows", "RowAnswers"]

_NAME = "0" * 32
_HEAD = b'{"key":"%b","item":"%b%b'
_BEGIN = len(_HEAD % (_NAME.encode(), _NAME.encode(), b""))


class AskedRow(NamedTuple):
    """The passages of one row that are asked about, which are none for a row without any.

    `items` name the passages, `grades` are people's labels of them (0 to 3, or True and False), where there are any;
    `beside` is what is shown beside the query: the sample's reference or criterion.
    """

    items: Sequence[str] = ()
    grades: Sequence[int] | None = None
    beside: Mapping[str, str] = FrozenDict()


class AnsweredRows(NamedTuple):
    """The verdicts on the passages of each row, and the lines of judgements.jsonl that they stand in."""

    labels: list[Sequence[int]]
    rows: JudgementLines


class RowAnswers(Protocol):
    """Whoever knows the verdicts on the passages of plain rows."""

    prompts: dict[str, str]

    def count(self, questions: int) -> None:
        """So many questions were answered."""

    def of(self, asked: Sequence[AskedRow]) -> AnsweredRows | None:
        """The verdicts on the passages of these rows; None where one of them is not of a plain kind."""


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
        self._examples: dict[str, Judgement] = {}
        self.prompts: dict[str, str] = {}  # labels are read without one

    def count(self, questions: int) -> None:
        """Labels are free."""

    def of(self, asked: Sequence[AskedRow]) -> AnsweredRows | None:
        """The labels as verdicts; None where a passage has none."""
        self._tails.clear()  # they hold the time
        found = AnsweredRows([], JudgementLines())
        keys, lines, examples = found.rows.keys, found.rows.lines, found.rows.examples
        for items, grades, beside in asked:
            if items and grades is None:
                return None
            found.labels.append(grades or ())
            if not grades:
                continue
            question = self._question(beside) if beside else self._plain
            put = question.settings()
            begun = canonical({"as": put, "beside": question.shown_beside(), "item": ""})[:-2]
            binary = type(grades[0]) is bool
            tails = self._tails.setdefault((put["against"], binary), {})
            for item, label in zip(items, grades, strict=True):
                if label not in tails:
                    tails[label] = self._tail(question, label, binary=binary)
                ending, tail = tails[label]
                name = item.encode()
                key = hashlib.sha256(begun + name + ending).hexdigest()[:32]
                keys.append(key)
                lines.append(_HEAD % (key.encode(), name, tail))
            examples += [self._examples[put["against"]]] * len(items)
        return found

    def _question(self, beside: Mapping[str, Any]) -> Relevance:
        return Relevance(query="?", passage="?", **self._asked, **beside)

    def _tail(self, question: Relevance, label: int, *, binary: bool) -> tuple[bytes, bytes]:
        """What follows the item in the JSON that a key is the digest of, and in the line of the judgement."""
        context = Context(text="?", relevant=bool(label)) if binary else Context(text="?", grade=label)
        labelled = replace(question, context=context)
        made = judgement_of(_NAME, labelled, self._judge, self._judge.read(labelled))
        self._examples.setdefault(question.settings()["against"], made)
        line = encode(dump_judgement(replace(made, item=_NAME)))
        end = b'"' + ending(self._judge.identity, "", {"label": label})
        return end, line[_BEGIN:] + b"\n"
