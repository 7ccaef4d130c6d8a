"""Rows of a report folder's files that are found where they stand, without holding them in memory."""

from __future__ import annotations

import logging
from array import array
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache, partial
from io import BytesIO
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec
import numpy as np

from germane.encoding import decode, encode
from germane.errors import AnswerError, InputError, SourceLocation
from germane.tables.columns import batched
from germane.tables.judgements import ItemAnswer, load_judgement
from germane.tables.labels import Label, decode_labels, load_label
from germane.types import ItemRow, Judgement

UNFINISHED = ".part"
"""The end of the name of a file that is being written, or was when its process was killed."""

LABELS = "labels.jsonl"
"""The file that people's answers are appended to."""

KEY, ITEM, _BETWEEN = slice(8, 40), slice(50, 82), b'","item":"'
"""The places of the key and the item in a line of judgements.jsonl, and the text between them."""

_log = logging.getLogger("germane")

_BLOCK = 1 << 20
"""Bytes of a file that are looked at together."""
_NULL = msgspec.Raw(b"null")
S = TypeVar("S", bound=msgspec.Struct)


def records_in(path: Path, kind: type[S], keep: Callable[[bytes], bool] | None = None) -> Iterator[S]:
    """The records in the lines of a table that are kept; none where there is no file. InputError names a damaged line."""
    read_one = partial(record_in, path, kind=kind)
    return _read_blocks(blocks(path), msgspec.json.Decoder(kind).decode_lines, read_one, keep)


def record_in(path: Path, number: int, line: bytes, kind: type[S]) -> S:
    """The record of a line, read by itself; InputError where it is damaged."""
    try:
        return msgspec.convert(row_in(path, number, line), kind)
    except msgspec.ValidationError:
        raise _damaged(path, number) from None


def _read_blocks(
    blocks: Iterable[tuple[int, list[bytes]]],
    read: Callable[[bytes], list[S]],
    read_one: Callable[[int, bytes], S],
    keep: Callable[[bytes], bool] | None = None,
) -> Iterator[S]:
    """The records in the lines that are kept: those of a block are read together, and one by one where one of them is refused."""
    for first, lines in blocks:
        some = lines if keep is None else list(filter(keep, lines))
        try:
            records = read(b"".join(some))
        except (ValueError, RecursionError, InputError):
            records = []
        if len(records) == len(some):
            yield from records
        else:
            numbered = enumerate(lines, first)
            yield from (read_one(number, line) for number, line in numbered if keep is None or keep(line))


def lines_of(path: Path) -> Iterator[tuple[int, bytes]]:
    """Each line of a table with its offset in the file; without one that was cut off while it was written."""
    offset = 0
    for _, lines in blocks(path):
        for line in lines:
            yield offset, line
            offset += len(line)


def blocks(file: Path, keep: Callable[[bytes], bool] = lambda _: True) -> Iterator[tuple[int, list[bytes]]]:
    """The lines of the blocks of a file that are kept, each with the number of its first line.

    There are none where there is no file, and a line is left out that was cut off while it was written. InputError where
    the file is a device or a pipe.
    """
    if not file.exists():
        return
    if not file.is_file():
        problem = "this is not a regular file"
        raise InputError(problem, fix="put the report's own file there", place=SourceLocation(str(file)))
    first = 1
    with file.open("rb") as content:
        while block := content.read(_BLOCK) + content.readline():
            if keep(block):
                lines = BytesIO(block).readlines()
                torn = not block.endswith(b"\n") and _is_torn(file, first + len(lines) - 1, lines[-1])
                yield first, lines[:-1] if torn else lines
            first += block.count(b"\n")


def _is_torn(file: Path, number: int, line: bytes) -> bool:
    """True if a last line without its end was cut off: in a file that is being written, or that answers are appended to."""
    if file.name != LABELS:
        return file.suffix == UNFINISHED
    if is_torn := torn_bytes(line) > 0:
        note_torn(file, number)
    return is_torn


def torn_bytes(line: bytes) -> int:
    """The length of the half line of labels.jsonl at the end of these bytes; 0 where the last line is whole."""
    last = line[line.rfind(b"\n") + 1 :]
    try:
        whole = not last or isinstance(decode(last), dict)
    except (ValueError, RecursionError):
        whole = False
    return 0 if whole else len(last)


@cache
def note_torn(file: Path, number: int) -> None:
    """Warn, once, that the last line of labels.jsonl was cut off."""
    _log.warning("%s:%d: the last line was cut off; its answer is lost, the others count", file, number)


def samples_with(path: Path, field: str) -> Iterator[tuple[int, bytes]]:
    """The lines of the samples that may have a field, with their numbers."""
    word = encode(field) + b":"
    for first, lines in blocks(path, lambda block: word in block):
        yield from ((number, line) for number, line in enumerate(lines, first) if word in line)


def row_in(path: Path, number: int, line: bytes) -> Any:
    """The JSON object of a line; InputError where it is damaged."""
    try:
        row = decode(line)
    except (ValueError, RecursionError):
        row = None
    if not isinstance(row, dict):
        raise _damaged(path, number)
    return row


def _damaged(path: Path, number: int) -> InputError:
    fix = (
        "run again with --resume"
        if path.suffix == UNFINISHED
        else "restore the file, or run the evaluation again"
    )
    fix = "remove it: its answer is lost" if path.name == LABELS else fix
    return InputError("this line is damaged", fix=fix, place=SourceLocation(str(path), number))


def labels_in(path: Path, lines: Iterable[tuple[int, list[bytes]]] | None = None) -> Iterator[Label]:
    """The labels of a file, or of these blocks of its lines; none where there is no file. InputError names a damaged line."""
    return _read_blocks(blocks(path) if lines is None else lines, decode_labels, partial(label_in, path))


def label_in(path: Path, number: int, line: bytes) -> Label:
    """The label of a line; InputError where it is damaged."""
    return load_label(row_in(path, number, line), SourceLocation(str(path), number))


def lines_at(path: Path, offsets: Iterable[int]) -> Iterator[bytes]:
    """The lines that begin at these offsets of a file."""
    with path.open("rb") as file:
        for offset in offsets:
            file.seek(offset)
            yield file.readline()


class LineIndex:
    """The offsets of lines in a file, by the 64-bit hash of a name: 16 bytes each."""

    def __init__(self, hashes: array[int], offsets: array[int]) -> None:
        values = np.array(hashes, dtype=np.int64)
        order = np.argsort(values, kind="stable")
        self._hashes, self._offsets = values[order], np.array(offsets, dtype=np.int64)[order]

    def find(self, names: Iterable[object], *, newest: bool = False) -> list[int]:
        """The offset of the first line of each of these names, or of the last one; -1 where there is none."""
        hashes = np.array(list(map(hash, names)), dtype=np.int64)
        if not len(self):
            return [-1] * len(hashes)
        at = np.searchsorted(self._hashes, hashes, side="right" if newest else "left") - newest
        at[at == len(self)] = 0
        result: list[int] = np.where(self._hashes[at] == hashes, self._offsets[at], -1).tolist()
        return result

    def every(self, name: object) -> list[int]:
        """The offsets of all lines of a name."""
        start, end = (np.searchsorted(self._hashes, hash(name), side=side) for side in ("left", "right"))
        result: list[int] = self._offsets[start:end].tolist()
        return result

    def __len__(self) -> int:
        return len(self._hashes)


class _AnswerLine(msgspec.Struct, gc=False):
    """The fields of a line of judgements.jsonl that are read where only the answer is of interest."""

    item: str = ""
    kind: str = ""
    answer: msgspec.Raw = _NULL
    error: Any = None
    parent: str | None = None


def judgement_in(path: Path, number: int, line: bytes) -> Judgement:
    """The judgement of a line; InputError where it is damaged, or its answer is none that its kind of question has."""
    row, place = row_in(path, number, line), SourceLocation(str(path), number)
    try:
        msgspec.convert({**row, "answer": _NULL}, _JudgementLine)
        judgement = load_judgement(row)
    except (TypeError, ValueError, AttributeError):
        raise _damaged(path, number) from None
    fix = "restore the file, or run the evaluation again"
    if isinstance(judgement.answer, Mapping) and isinstance(judgement.answer.get("grade"), str):
        problem = f"the grade of this answer is the text {judgement.answer['grade'][:20]!r}"
        raise InputError(problem, fix=fix, place=place)
    try:
        if judgement.error is None:
            check_answer(judgement.kind, judgement.answer)
    except AnswerError as error:
        raise InputError(f"this answer is none that a judge gives: {error}", fix=fix, place=place) from None
    return judgement


def check_answer(kind: str, answer: Any) -> None:
    """AnswerError where an answer is not of the form, or a number in it not in the range, of germane's own kind of question."""
    if (read := _reader_of(kind)) is not None:
        read(answer)


@cache
def _reader_of(kind: str) -> Callable[[Any], object] | None:
    from germane.questions.question import (
        Question,
        known_kinds,
    )  # not at the top: pydantic takes time to load
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


class _JudgementLine(msgspec.Struct, gc=False):
    key: str
    kind: str
    judge: str
    item: str = ""
    error: str | None = None
    parent: str | None = None
    beside: str | None = None
    of: tuple[str, ...] | None = None
    answer: msgspec.Raw = _NULL


_judgement_lines = msgspec.json.Decoder(_JudgementLine).decode_lines
_verdicts = msgspec.json.Decoder(list[_Verdict]).decode


def check_judgements(path: Path) -> None:
    """InputError at the first row of judgements.jsonl that is damaged, whose answer no judge gives, or that is there twice."""
    seen = set[int]()
    for first, lines in blocks(path):
        keys = _keys_in(lines)
        if keys is None:
            keys = [judgement_in(path, number, line).key for number, line in enumerate(lines, first)]
        refuse_repeated(seen, map(hash, keys), path, first, "judgement")


def _keys_in(lines: Sequence[bytes]) -> list[str] | None:
    """The keys of these lines; None where one of them is not as it should be."""
    try:
        rows = _judgement_lines(b"".join(lines))
        answered = [row for row in rows if row.error is None]
        verdicts = _verdicts(b"[%b]" % b",".join(row.answer for row in answered if row.kind == "relevance"))
        for row in answered:
            if row.kind != "relevance":
                check_answer(row.kind, decode(bytes(row.answer)))
    except (ValueError, RecursionError, AnswerError):
        return None
    sound = len(rows) == len(lines)
    sound &= all((verdict.grade is None) is not (verdict.relevant is None) for verdict in verdicts)
    return [row.key for row in rows] if sound else None


def check_items(path: Path) -> None:
    """InputError at the first row of items.jsonl that is damaged or is there twice."""
    seen = set[int]()
    for rows in batched(records_in(path, ItemRow)):
        refuse_repeated(seen, map(hash, rows), path, len(seen) + 1, "item")


def refuse_repeated(seen: set[int], hashes: Iterable[int], path: Path, first: int, what: str) -> None:
    """Add the hashes of the rows from line `first` on; InputError at the first of them that is known."""
    for number, key in enumerate(hashes, first):
        if key in seen:
            raise repeated(path, number, what)
        seen.add(key)


def repeated(path: Path, number: int, what: str) -> InputError:
    """The error of a row that stands in a table twice."""
    fix = "remove one, or run the evaluation again"
    return InputError(f"this {what} stands here twice", fix=fix, place=SourceLocation(str(path), number))


class StoredJudgements:
    """The rows of judgements.jsonl, read from the file each time."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def lines(self) -> Iterator[tuple[int, bytes]]:
        """Each line with its offset in the file; none where there is no file."""
        return lines_of(self.path)

    def __iter__(self) -> Iterator[Judgement]:
        return self._loaded(lambda _: True)

    def answers(self) -> Iterator[ItemAnswer]:
        """The answer about each item, without judgements that were merged into others: nothing else of a line is read."""
        for answer_line in records_in(self.path, _AnswerLine):
            if answer_line.parent is None:
                yield ItemAnswer(
                    answer_line.item,
                    answer_line.kind,
                    bytes(answer_line.answer) if answer_line.error is None else None,
                )

    def of_items(self, items: Collection[str]) -> Iterator[Judgement]:
        """The judgements of these items; other lines are passed over unread, as the item follows the key in a line."""
        return self._of(ITEM, items, "item")

    def find(self, keys: Collection[str]) -> Iterator[Judgement]:
        """The judgements under these keys; other lines are passed over unread, as the key comes first in a line."""
        return self._of(KEY, keys, "key")

    def _of(self, at: slice, names: Collection[str], field: str) -> Iterator[Judgement]:
        encoded = {name.encode() for name in names}
        rows = self._loaded(lambda line: line[at] in encoded or line[40:50] != _BETWEEN)
        return (row for row in rows if getattr(row, field) in names)

    def _loaded(self, keep: Callable[[bytes], bool]) -> Iterator[Judgement]:
        for number, (_, line) in enumerate(lines_of(self.path), 1):
            if keep(line):
                yield judgement_in(self.path, number, line)


_UNUSUAL = (b'"error":', b'"failed":', b'"parent":')
"""Fields of a line that does more than answer its question."""


class EarlierJudgements:
    """The judgements of earlier sessions of an evaluation, by key: of several rows under one key the newest.

    Only their places are held in memory. Half a line, which a killed session leaves, is passed over.

    Args:
        files: The files, oldest first; they stay as they are.
        keep: Which of the rows count.
    """

    def __init__(
        self, files: Sequence[Path] = (), keep: Callable[[Judgement], bool] = lambda _: True
    ) -> None:
        self._files, self._keep = files, keep
        self._indexes: list[tuple[Path, LineIndex, LineIndex]] | None = None

    def __iter__(self) -> Iterator[Judgement]:
        rows = (_judgement(line) for path in self._files for _, line in lines_of(path))
        return (row for row in rows if row is not None and self._keep(row))

    def __bool__(self) -> bool:
        """True if there is any file of them."""
        return any(path.exists() for path in self._files)

    def find(self, keys: Collection[str]) -> dict[str, Judgement]:
        """The judgements under these keys, without those that were merged into others."""
        judgements: dict[str, Judgement] = {}
        for path, index, _ in self._index():
            rows = _at(path, [position for position in index.find(keys, newest=True) if position >= 0])
            judgements |= {row.key: row for row in rows if row.key in keys}
        return judgements

    def children(self, keys: Collection[str]) -> list[Judgement]:
        """The judgements that were merged into those under these keys."""
        judgements: dict[str, Judgement] = {}
        for path, _, index in self._index():
            rows = _at(path, [position for key in keys for position in index.every(key)])
            judgements |= {row.key: row for row in rows if row.parent in keys}
        return list(judgements.values())

    def _index(self) -> list[tuple[Path, LineIndex, LineIndex]]:
        """The offsets of judgements by key, and those of merged ones by their parent, for each file."""
        if self._indexes is None:
            self._indexes = [(path, *self._index_of(path)) for path in self._files if path.exists()]
        return self._indexes

    def _index_of(self, path: Path) -> tuple[LineIndex, LineIndex]:
        keyed, merged = (array("q"), array("q")), (array("q"), array("q"))
        for offset, line in lines_of(path):
            key, parent = line[KEY].decode(errors="replace"), None
            if line[40:50] != _BETWEEN or any(word in line for word in _UNUSUAL):
                row = _judgement(line)
                if row is None or not self._keep(row):
                    continue
                key, parent = row.key, row.parent
            hashes, offsets = keyed if parent is None else merged
            hashes.append(hash(key if parent is None else parent))
            offsets.append(offset)
        return LineIndex(*keyed), LineIndex(*merged)


def _judgement(line: bytes) -> Judgement | None:
    with suppress(ValueError, TypeError, AttributeError):
        return load_judgement(decode(line))
    return None


def _at(path: Path, offsets: Iterable[int]) -> Iterator[Judgement]:
    """The judgements in the lines at these offsets."""
    return (row for row in map(_judgement, lines_at(path, offsets)) if row is not None)
