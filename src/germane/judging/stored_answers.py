"""Answer questions from the stored judgements of a report, found by item, without asking a judge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from itertools import repeat
from typing import Any, TypeAlias, TypeVar

import msgspec
from msgspec import Struct

from germane.encoding import short_name
from germane.folder.files import TableFile, judgement_in
from germane.places.lists import Settings
from germane.places.places import Places
from germane.places.table import LabelChoice
from germane.questions.asking import Answer, answered, value_of
from germane.questions.question import AnyQuestion, asked_as
from germane.questions.relevance import Passages, examples_of
from germane.types import Judgement, Sample

R = TypeVar("R")
PlacesReader: TypeAlias = Callable[[LabelChoice, int | None], Places]
"""Returns the ranked passages of a set of samples, down to a given rank (None: all), with their labels."""
_SETTINGS = ("against", "scale", "rubric")
BLOCK = 500
"""The number of samples whose answers are read together."""
_MISSING = "no stored judgement"
_LACKING = Judgement(key="", kind="", judge="", error=_MISSING)


class StoredAnswers:
    """An index of the judgements of a report, in which questions are looked up.

    A question is answered by the judgement with the same item and the same settings (against, scale, rubric);
    the prompt may differ. If several judgements match, the one with the same reference, response and
    criterion is used, because one passage may be judged against the references of two samples. If there is no
    such judgement, the first match is used. Judgements that were merged into others (of a panel's members,
    replicas, windows) are ignored. A TableFile is not loaded: the index contains positions in the file.

    With `however`, the settings may differ too, and judgements that are errors are ignored. `answered` counts
    the questions for which a judgement was found, `unknown` the questions for which none was found.
    """

    def __init__(self, judgements: Iterable[Judgement], *, however: bool = False) -> None:
        self.answered, self.unknown, self._however = 0, 0, however
        self._index, self._rows = dict[bytes, int](), list[Judgement]()
        self._file: TableFile | None = None
        if isinstance(judgements, TableFile):
            self._file = TableFile(judgements.path)
            for number, offset, line in self._file.lines():
                row = self._file.decoded(number, line)
                self._add(offset, row, row.get("parent"), row.get("error"))
            return
        self._rows = list(judgements)
        for number, judgement in enumerate(self._rows):
            fields = {**judgement.provenance, "kind": judgement.kind, "item": judgement.item}
            self._add(number, fields, judgement.parent, judgement.error)

    def _add(self, position: int, fields: Mapping[str, Any], parent: str | None, error: str | None) -> None:
        """Index a judgement; the first one with its item and settings stays in the index."""
        if parent is None and not (self._however and error is not None):
            for name in _names(str(fields.get("item")).encode(), self._settings(fields)):
                self._index.setdefault(name, position)

    def _settings(self, fields: Mapping[str, Any]) -> Sequence[bytes]:
        """Return the settings in a judgement as bytes: without its `beside` inputs and, if it has any, with them."""
        values = map(fields.get, ("kind",) if self._however else _SETTINGS)
        settings = "\0".join(["\0" if value is None else str(value) for value in values]).encode()
        beside = None if self._however else fields.get("beside")
        return (settings,) if beside is None else (settings, settings + str(beside).encode())

    async def lookup(self, asked: Sequence[Sequence[AnyQuestion]]) -> list[list[Answer]]:
        """Return, for each list of questions, the stored answers; an error for a question without one."""
        found = self._find(asked, judgement_in)
        return [
            [answered(example, next(found) or _LACKING) for example in examples_of(questions)]
            for questions in asked
        ]

    def values(self, asked: Sequence[Sequence[AnyQuestion]]) -> list[list[Any]]:
        """Return, for each list of questions, the typed answers; Unanswered for a question without one."""
        answers = (answer or _Answer(error=_MISSING) for answer in self._find(asked, _decode_answer))
        values = list[list[Any]]()
        for questions in asked:
            both = zip(examples_of(questions), answers, strict=False)
            values.append([value_of(question, answer.answer, answer.error) for question, answer in both])
        return values

    def places_reader(self, samples: Sequence[Sample], settings: Settings) -> PlacesReader:
        """Return a cached function: from a source of labels and a rank to the Places down to that rank."""

        @cache
        def read(choice: LabelChoice, depth: int | None) -> Places:
            places = Places(choice, settings)
            places.add(samples, repeat(depth))
            self.label(places)
            return places

        return read

    def label(self, places: Places) -> None:
        """Set each ranked passage's verdict in `places` to the stored verdict, or to an error without one."""
        asked = [number for number in range(len(places.samples)) if places.asks(number)]
        verdicts = self.values([places.questions(number) for number in asked])
        for number, values in zip(asked, verdicts, strict=True):
            places.take(number, values)

    def _find(
        self, asked: Sequence[Sequence[AnyQuestion]], read: Callable[[bytes], R]
    ) -> Iterator[Judgement | R | None]:
        """Yield each question's judgement, or None if none is stored; `read` parses it if it is in a file."""
        names: list[Sequence[bytes]] = []
        for questions in asked:
            if isinstance(questions, Passages) and questions:  # all have the settings of the first
                settings = self._settings({**asked_as(questions.example), "kind": questions.example.kind})
                names += [_names(item.encode(), settings) for item in questions.items]
                continue
            for question in questions:
                settings = self._settings({**asked_as(question), "kind": question.kind})
                names.append(_names(question.item.encode(), settings))
        if not names:
            return
        index = self._index
        positions = [index.get(pair[-1], index.get(pair[0])) for pair in names]
        known = [position for position in positions if position is not None]
        records: Iterator[Judgement | R] = map(self._rows.__getitem__, known)
        if self._file is not None:
            records = map(read, self._file.at(known))
        for position in positions:
            self.unknown += position is None
            self.answered += position is not None
            yield None if position is None else next(records)


class _Answer(Struct, gc=False):
    """The fields of a stored judgement that are parsed if no others are needed."""

    answer: Any = None
    error: str | None = None


_decode_answer = msgspec.json.Decoder(_Answer).decode


def _names(item: bytes, several: Sequence[bytes]) -> Sequence[bytes]:
    return [short_name(item + settings) for settings in several]
