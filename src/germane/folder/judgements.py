"""Reading judgements.jsonl: the answers of a report, and those of earlier sessions of an evaluation."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import msgspec

from germane.encoding import decode
from germane.errors import AnswerError, InputError
from germane.folder.lines import TableFile
from germane.tables.judgements import load_judgement
from germane.types import Judgement

__all__ = ["KEY"]

KEY, ITEM = slice(8, 40), slice(50, 82)
"""The places of the key and the item in a line as it is written: `{"key":"...","item":"..."`."""

_BETWEEN, _NULL = b'","item":"', msgspec.Raw(b"null")


def has_usual_start(line: bytes) -> bool:
    """Return True if the key and the item of a line are at their usual places."""
    return line[40:50] == _BETWEEN and line[82:84] == b'",'


def earlier_judgements(files: Iterable[Path]) -> Iterator[Judgement]:
    """Iterate over the judgements in files that earlier sessions left; half a line, which a killed session leaves, is passed over."""
    for file in files:
        for row in TableFile(file).whole_rows():
            with suppress(ValueError, TypeError, AttributeError):
                yield load_judgement(row)


# the check of a finished report


def check_judgements(file: TableFile) -> None:
    """Raise InputError at the first row that is damaged, has an impossible answer, or repeats a key."""
    keys = (
        key
        for first, _, lines in file.blocks()
        for key in _keys_in(lines)
        or [judgement_in(file, number, line).key for number, line in enumerate(lines, first)]
    )
    deque(file.distinct(keys, str, "judgement"), 0)


def judgements_in(file: TableFile) -> Iterator[Judgement]:
    """Iterate over the judgements of a file, in order of first use; InputError as of `judgement_in`."""
    return file.read(judgement_in)


def judgement_in(file: TableFile, number: int, line: bytes) -> Judgement:
    """Return the judgement of a line; InputError if it is damaged, or if its kind of question has no such answer."""
    row = file.row(number, line)
    try:
        msgspec.convert({**row, "answer": _NULL}, JudgementLine)
        judgement = load_judgement(row)
    except ValueError:
        raise file.damaged(number) from None
    fix = "restore the file, or run the evaluation again"
    if isinstance(judgement.answer, Mapping) and isinstance(judgement.answer.get("grade"), str):
        problem = f"the grade of this answer is the text {judgement.answer['grade'][:20]!r}"
        raise InputError(problem, fix=fix, place=file.place(number))
    try:
        if judgement.error is None:
            check_answer(judgement.kind, judgement.answer)
    except AnswerError as error:
        problem = f"invalid answer of a judge: {error}"
        raise InputError(problem, fix=fix, place=file.place(number)) from None
    return judgement


def check_answer(kind: str, answer: Any) -> None:
    """Raise AnswerError if an answer of one of germane's own kinds of question has the wrong form or a number out of range."""
    if (read := _reader_of(kind)) is not None:
        read(answer)


@cache
def _reader_of(kind: str) -> Callable[[Any], object] | None:
    from germane.questions.question import Question, known_kinds  # not at the top: pydantic takes time
    from germane.questions.relevance import Relevance

    question = known_kinds().get(kind)
    if question is Relevance:
        return Relevance(query="", passage="").parse
    ours = question is not None and question.__module__.startswith("germane.") and not question.by_program
    if question is None or not ours or question.payload_type is not Question.payload_type:
        return None
    return question.Payload.model_read


class _Verdict(msgspec.Struct, gc=False):
    grade: Annotated[int, msgspec.Meta(ge=0, le=3)] | None = None
    relevant: bool | None = None
    probabilities: list[Annotated[float, msgspec.Meta(ge=0, le=1)]] | None = None


class JudgementLine(msgspec.Struct, gc=False):
    """The fields of a judgement that are read of all lines; the answer is left as it is written."""

    key: str
    kind: str
    judge: str
    item: str = ""
    error: str | None = None
    parent: str | None = None
    beside: str | None = None
    of: tuple[str, ...] | None = None
    answer: msgspec.Raw = _NULL


_decode_lines = msgspec.json.Decoder(JudgementLine).decode_lines
_decode_verdicts = msgspec.json.Decoder(list[_Verdict]).decode


def _keys_in(lines: Sequence[bytes]) -> list[str] | None:
    """Return the keys of these lines; None if one of them may be invalid."""
    try:
        rows = _decode_lines(b"".join(lines))
        answered = [row for row in rows if row.error is None]
        answers = b",".join(row.answer for row in answered if row.kind == "relevance")
        verdicts = _decode_verdicts(b"[%b]" % answers)
        for row in answered:
            if row.kind != "relevance":
                check_answer(row.kind, decode(bytes(row.answer)))
    except (ValueError, RecursionError, AnswerError):
        return None
    sound = len(rows) == len(lines)
    sound &= all((verdict.grade is None) is not (verdict.relevant is None) for verdict in verdicts)
    return [row.key for row in rows] if sound else None
