"""Answers that exist already, looked up by what was judged; nobody is asked."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from typing import Any

from germane.encoding import decode
from germane.questions.asking import Answer, answered
from germane.questions.question import AnyQuestion
from germane.questions.relevance import Passages, example_of
from germane.tables.judgements import load_judgement
from germane.tables.stored import ITEM, LinesAt, Places, StoredJudgements, row_in
from germane.types import Judgement

_SETTINGS = ("against", "scale", "rubric")
_Name = tuple[str | None, ...]
"""An item, and the settings that it was judged with."""


class StoredAnswers:
    """The judgements of a report as answers.

    A question is answered by the judgement of its item with its settings (against, scale, rubric), whatever the prompt
    that it was asked with; the first one where there are several. Members of panels, replicas and windows, which are
    merged into other judgements, are passed over. Of judgements on disk only their places in the file are remembered.

    Args:
        judgements: The judgements, those with a parent among them. Read once, or those of a report folder.
        judge: The name of the judge whose judgements count; None = all of them.
        however: True if the settings do not matter, and failures are no answers.

    Attributes:
        found: The number of questions with an answer.
        unknown: The number without one.
    """

    def __init__(
        self, judgements: Iterable[Judgement], judge: str | None = None, *, however: bool = False
    ) -> None:
        self.found = self.unknown = 0
        self._however = however
        self._stored: _AnswersOnDisk | None = None
        self._known: dict[_Name, Judgement] = {}
        if isinstance(judgements, StoredJudgements):
            self._stored = _AnswersOnDisk(judgements, judge, however=however)
            return
        for judgement in judgements:
            if (
                judgement.parent is None
                and judge in {None, judgement.judge}
                and not (however and judgement.error is not None)
            ):
                put = (judgement.kind,) if however else tuple(map(judgement.provenance.get, _SETTINGS))
                self._known.setdefault((judgement.item, *put), judgement)

    async def lookup(self, asked: Sequence[Sequence[AnyQuestion]]) -> list[Sequence[Answer | None]]:
        """The recorded answer to everything: nobody else is asked."""
        return [await self.judge(questions) for questions in asked]

    async def judge(self, questions: Sequence[AnyQuestion]) -> Sequence[Answer]:
        """The recorded answer to each question."""
        return [
            answered(example_of(questions, n), judgement)
            for n, judgement in enumerate(self.look_up(questions))
        ]

    def look_up(self, questions: Sequence[AnyQuestion]) -> list[Judgement]:
        """The recorded judgement of each question, or an error in its place."""
        return [
            _lacking(example_of(questions, n).kind, item) if judgement is None else judgement
            for n, (judgement, item) in enumerate(zip(self.find(questions), _items(questions), strict=True))
        ]

    def find(self, questions: Sequence[AnyQuestion]) -> list[Judgement | None]:
        """The recorded judgement of each question; None where there is none."""
        items = _items(questions)
        if items and isinstance(questions, Passages):
            put = self._put(questions.example)
            names: list[_Name] = [(item, *put) for item in items]
        else:
            names = [(question.item, *self._put(question)) for question in questions]
        judgements = list(map(self._known.get, names)) if self._stored is None else self._stored.find(names)
        missing = judgements.count(None)
        self.unknown += missing
        self.found += len(judgements) - missing
        return judgements

    def _put(self, question: AnyQuestion) -> tuple[str | None, ...]:
        return (question.kind,) if self._however else tuple(map(question.settings().get, _SETTINGS))


def _items(questions: Sequence[AnyQuestion]) -> Sequence[str]:
    return questions.items if isinstance(questions, Passages) else [question.item for question in questions]


def _lacking(kind: str, item: str) -> Judgement:
    return Judgement(key="", item=item, kind=kind, judge="", error="no stored judgement")


class _AnswersOnDisk:
    """The places of a report folder's judgements in their file, by item and settings: some 16 bytes each."""

    def __init__(self, judgements: StoredJudgements, judge: str | None, *, however: bool) -> None:
        self._path, self._however = judgements.path, however
        hashes, positions = array("q"), array("q")
        settings = dict[bytes, tuple[str | None, ...] | None]()
        for number, (position, line) in enumerate(judgements.lines(), 1):
            if (rest := line[_REST]) in settings:
                put, item = settings[rest], line[ITEM].decode()
            else:
                put, item = self._named(line, number, judge)
                _remember(settings, line, put)
            if put is not None:
                hashes.append(hash((item, *put)))
                positions.append(position)
        self._places = Places(hashes, positions)
        self._lines = LinesAt(self._path)

    def _named(
        self, line: bytes, number: int, judge: str | None
    ) -> tuple[tuple[str | None, ...] | None, str]:
        """The settings of a judgement, None where it answers nothing, and its item."""
        row: dict[str, Any] = row_in(self._path, number, line)
        counts = row.get("parent") is None and judge in {None, row.get("judge")}
        counts = counts and not (self._however and row.get("error") is not None)
        put = (row.get("kind"),) if self._however else tuple(map(row.get, _SETTINGS))
        return put if counts else None, str(row.get("item"))

    def find(self, names: Iterable[_Name]) -> list[Judgement | None]:
        """The judgement of each name, None where there is none."""
        positions = self._places.find(names)  # of several with one name the first counts
        lines = self._lines.find(position for position in positions if position >= 0)
        return [None if position < 0 else load_judgement(decode(next(lines))) for position in positions]


_REST = slice(82, None)
"""The rest of a line after the key and the item: the same for many passages with one label."""
_REMEMBERED = 10_000


def _remember(known: dict[bytes, Any], line: bytes, value: object) -> None:
    """Remember what the rest of a line says, where its key and its item stand at their usual places."""
    if len(known) >= _REMEMBERED:  # the reasons of a model are another each time
        known.clear()
    if line[40:50] == b'","item":"' and line[82:84] == b'",':
        known[line[_REST]] = value
