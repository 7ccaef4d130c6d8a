"""Answers that exist already, looked up by what was judged; nobody is asked."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from germane.encoding import decode, short_name
from germane.folder.index import LineIndex, lines_at
from germane.folder.judgements import ITEM, StoredJudgements, has_usual_start
from germane.places.places import Places
from germane.questions.asking import Answer, answered, value_of
from germane.questions.question import AnyQuestion, asked_as
from germane.questions.relevance import Passages, examples_of
from germane.tables.judgements import load_judgement
from germane.types import Judgement

R = TypeVar("R")
_SETTINGS = ("against", "scale", "rubric")
_Names: TypeAlias = Sequence[bytes]
"""Short names of an item with the settings that it was judged with, without and with the digest of texts beside it."""


class StoredAnswers:
    """The judgements of a report as answers.

    A question is answered by the judgement of its item with its settings (against, scale, rubric), whatever the prompt
    that it was asked with. Where there are several it is the one that was shown the same texts beside the item (one passage
    may be judged against the references of two samples), else the first. Members of panels, replicas and windows, which are
    merged into other judgements, are passed over. Of judgements on disk only their places in the file are remembered,
    24 bytes each.

    Args:
        judgements: The judgements, those with a parent among them. Read once, or those of a report folder.
        however: True if the settings do not matter, and failures are not answers.

    Attributes:
        answered: The number of questions with an answer.
        unknown: The number without one.
    """

    def __init__(self, judgements: Iterable[Judgement], *, however: bool = False) -> None:
        self.answered = self.unknown = 0
        self._however = however
        self._by_name: dict[bytes, Judgement] = {}
        self._keyed: LineIndex | None = None
        if isinstance(judgements, StoredJudgements):
            self._index(judgements)
            return
        for judgement in judgements:
            if self._counts(judgement.parent, judgement.error):
                settings = self._settings({**judgement.provenance, "kind": judgement.kind})
                for name in _named(judgement.item.encode(), settings):
                    self._by_name.setdefault(name, judgement)

    def _counts(self, parent: str | None, error: str | None) -> bool:
        return parent is None and not (self._however and error is not None)

    def _settings(self, fields: Mapping[str, Any]) -> Sequence[bytes]:
        """Return the settings under which a judgement is looked up, the most specific last."""
        values = map(fields.get, ("kind",) if self._however else _SETTINGS)
        settings = "\0".join(["\0" if value is None else str(value) for value in values]).encode()
        beside = None if self._however else fields.get("beside")
        return (settings,) if beside is None else (settings, settings + str(beside).encode())

    def _index(self, judgements: StoredJudgements) -> None:
        """Remember the places of judgements in their file, by item and settings."""
        index = LineIndex()
        # the settings in the rest of a line, after its key and its item
        settings_of = dict[bytes, Sequence[bytes]]()
        for number, position, line in judgements.file.lines():
            if (rest := line[_REST]) in settings_of:
                several, item = settings_of[rest], line[ITEM]
            else:
                row = judgements.file.row(number, line)
                item = str(row.get("item")).encode()
                counts = self._counts(row.get("parent"), row.get("error"))
                several = self._settings(row) if counts else ()
                if len(settings_of) >= _REMEMBERED:  # the reasons of a model are another each time
                    settings_of.clear()
                if has_usual_start(line):
                    settings_of[rest] = several
            for name in _named(item, several):
                index.add(name, position)
        self._keyed, self._path = index, judgements.file.path

    async def lookup(self, asked: Sequence[Sequence[AnyQuestion]]) -> list[list[Answer]]:
        """Return the recorded answer to each question of these lists, or a failure."""
        judgements = self._find(asked, _judgement_in)
        return [
            [
                answered(question, judgement or _lacking(questions, n))
                for n, (question, judgement) in enumerate(
                    zip(examples_of(questions), judgements, strict=False)
                )
            ]
            for questions in asked
        ]

    async def judge(self, questions: Sequence[AnyQuestion]) -> list[Answer]:
        """Return the recorded answer to each question."""
        return (await self.lookup([questions]))[0]

    def look_up(self, questions: Sequence[AnyQuestion]) -> list[Judgement]:
        """Return the recorded judgement of each question, or an error in its place."""
        return [judgement or _lacking(questions, n) for n, judgement in enumerate(self.find(questions))]

    def values(self, asked: Sequence[Sequence[AnyQuestion]]) -> list[list[Any]]:
        """Return the typed answer to each question of these lists, Unanswered in place of one that is not there."""
        answers = (answer or _NONE for answer in self._find(asked, _decode_answer))
        return [
            [
                value_of(question, answer.answer, answer.error)
                for question, answer in zip(examples_of(questions), answers, strict=False)
            ]
            for questions in asked
        ]

    def label(self, places: Places) -> None:
        """Give places the verdicts on all that is asked about them; a missing one is a failure."""
        asked = [number for number in range(len(places.samples)) if places.asks(number)]
        verdicts = self.values([places.questions(number) for number in asked])
        for number, values in zip(asked, verdicts, strict=True):
            places.take(number, values)

    def find(self, questions: Sequence[AnyQuestion]) -> list[Judgement | None]:
        """Return the recorded judgement of each question; None where there is none."""
        return list(self._find([questions], _judgement_in))

    def _find(
        self, asked: Sequence[Sequence[AnyQuestion]], read: Callable[[bytes], R]
    ) -> Iterator[Judgement | R | None]:
        """Yield the record of each question of these lists, looked up together; None = none. `read` parses a line on disk."""
        names = [of for questions in asked for of in self._names(questions)]
        for judgement in map(self._first_known, names) if self._keyed is None else self._read(names, read):
            self.unknown += judgement is None
            self.answered += judgement is not None
            yield judgement

    def _first_known(self, names: _Names) -> Judgement | None:
        return next((self._by_name[name] for name in reversed(names) if name in self._by_name), None)

    def _names(self, questions: Sequence[AnyQuestion]) -> list[_Names]:
        """Return the names of each question, the most specific last."""
        if isinstance(questions, Passages) and questions:
            several = self._settings({**asked_as(questions.example), "kind": questions.example.kind})
            return [_named(item.encode(), several) for item in questions.items]
        return [
            _named(question.item.encode(), self._settings({**asked_as(question), "kind": question.kind}))
            for question in questions
        ]

    def _read(self, names: Sequence[_Names], read: Callable[[bytes], R]) -> Iterator[R | None]:
        assert self._keyed is not None
        positions = self._keyed.find(of[-1] for of in names)  # of several with one name the first counts
        if any(len(of) > 1 for of in names):
            usual = self._keyed.find(of[0] for of in names)
            positions = [at if at >= 0 else other for at, other in zip(positions, usual, strict=True)]
        lines = lines_at(self._path, (position for position in positions if position >= 0))
        return (None if position < 0 else read(next(lines)) for position in positions)


class _Answer(Struct, gc=False):
    """The fields of a line of judgements.jsonl that are read where only the answer is of interest."""

    answer: Any = None
    error: str | None = None


_decode_answer = msgspec.json.Decoder(_Answer).decode
_MISSING = "no stored judgement"
_NONE = _Answer(error=_MISSING)


def _named(item: bytes, several: Sequence[bytes]) -> _Names:
    """Return the names of an item with each of several settings."""
    return [short_name(item + settings) for settings in several]


def _judgement_in(line: bytes) -> Judgement:
    return load_judgement(decode(line))


def _lacking(questions: Sequence[AnyQuestion], number: int) -> Judgement:
    question = questions[number]
    return Judgement(key="", item=question.item, kind=question.kind, judge="", error=_MISSING)


_REST = slice(82, None)
"""The rest of a line after the key and the item: the same for many passages with one label."""
_REMEMBERED = 10_000
