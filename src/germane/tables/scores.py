"""The table of scores: one row per (sample, system, trial, measure), as columns."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from itertools import chain
from operator import attrgetter
from typing import Annotated, Literal, NamedTuple, Self, TypeAlias, get_args

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from germane.encoding import Line, encode
from germane.errors import InputError, SourceLocation
from germane.tables.columns import batched
from germane.tables.keys import SampleKey, SampleKeys
from germane.types import Json, Score, Status

__all__ = ["STATUSES", "Bounds", "Noted", "SampleKey", "ScoreRow", "ScoreTable", "dump_score"]

Noted: TypeAlias = "tuple[Status, str | None, tuple[float, float] | None]"
"""Status, reason and bounds of a score that is not ok or has a note."""

STATUSES: tuple[Status, ...] = get_args(Status)
"""The status of each status code."""
_STATUS = {name: code for code, name in enumerate(STATUSES)}
_NAN = math.nan
_AT_ONCE = 10_000
"""The number of rows in a batch."""
_WRITTEN = ("sample", "system", "trial", "measure", "type", "value", "status", "why")
_written = attrgetter(*_WRITTEN)


Bounds: TypeAlias = (
    Annotated[tuple[float | None, float | None], Meta(description="the lower one first; null = without end")]
    | None
)


class ScoreRow(Line):
    """One measure of one sample. `value` is null unless `status` is ok; `why` says why, or notes something."""

    sample: str
    system: str
    trial: int
    measure: str
    type: str
    value: float | None
    status: Literal["ok", "skipped", "incomplete", "error"]
    why: str | None
    bounds: Bounds


_decode_row = msgspec.json.Decoder(ScoreRow).decode


class ScoreRows(NamedTuple):
    """Columns of some rows of a table of scores; arrays of shape (rows,)."""

    value: NDArray[np.float64]
    status: NDArray[np.uint8]
    why: NDArray[np.int32]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


class ScoreTable:
    """Scores in the order in which they were appended: by sample, then by measure.

    `samples`, `measures` and `whys` decode the numbers in `sample`, `measure` and `why`. `value`, `low` and `high` are NaN where
    there is no value and there are no bounds. Columns are copies. Status, reason and bounds are stored only of rows that are not
    ok or have a note.
    """

    def __init__(self, scores: Iterable[Score] = ()) -> None:
        self.keys = SampleKeys()
        self._measures: dict[tuple[str, str], int] = {}
        self._whys: dict[str | None, int] = {None: 0}
        self._sample, self._measure, self._value = array("i"), array("H"), array("d")
        self._exceptions = array("q")  # the rows that are not ok or have a note, and of each of these:
        self._status, self._why, self._low, self._high = array("B"), array("i"), array("d"), array("d")
        for score in scores:
            self.add(score)

    def append(
        self,
        sample: SampleKey,
        measure: str,
        type: str,  # noqa: A002 - the field's name
        value: float | None,
        status: Status = "ok",
        why: str | None = None,
        bounds: tuple[float, float] | None = None,
    ) -> None:
        """Append a row. Raises ValueError for a missing value without a reason, and for a value that is not finite or not ok."""
        if value is None:
            if status == "ok" or not why:
                raise ValueError(f"a score that is {status} has a value or says why it has none")
        elif status != "ok" or not math.isfinite(value):
            raise ValueError(f"a score has a finite value exactly when it is ok: {value!r}, {status!r}")
        if status != "ok" or why is not None or bounds is not None:
            low, high = bounds or (_NAN, _NAN)
            self._note(len(self), _STATUS[status], why, low, high)
        self._sample.append(self.keys.number(sample))
        self._measure.append(self._measures.setdefault((measure, type), len(self._measures)))
        self._value.append(_NAN if value is None else value)

    def _note(self, row: int, status: int, why: str | None, low: float = _NAN, high: float = _NAN) -> None:
        self._exceptions.append(row)
        self._status.append(status)
        self._why.append(self._whys.setdefault(why, len(self._whys)))
        self._low.append(low)
        self._high.append(high)

    def add(self, score: Score) -> None:
        """Append a score."""
        key = (score.sample, score.system, score.trial)
        self.append(key, score.measure, score.type, score.value, score.status, score.why, score.bounds)

    def extend(self, other: ScoreTable, *, distinct: bool = False) -> Self:
        """Append the rows of another table. `distinct`: this table has none of its samples."""
        measures = np.array(
            [self._measures.setdefault(measure, len(self._measures)) for measure in other._measures]
        )
        whys = np.array([self._whys.setdefault(why, len(self._whys)) for why in other._whys])
        if distinct:
            samples = np.arange(len(other.keys)) + len(self.keys)
            self.keys.join(other.keys)
        else:
            samples = np.array([self.keys.number(key) for key in other.keys], dtype=np.int64)
        self._exceptions.frombytes((np.array(other._exceptions, dtype=np.int64) + len(self)).tobytes())
        self._why.frombytes(whys[other._why].astype(np.int32).tobytes())
        self._status.extend(other._status)
        self._low.extend(other._low)
        self._high.extend(other._high)
        if len(other):
            self._number(samples[other.sample], measures[other.measure])
        self._value.extend(other._value)
        return self

    def _number(self, sample: NDArray[np.int64], measure: NDArray[np.int64]) -> None:
        """Append the numbers of the samples and measures of rows."""
        self._sample.frombytes(sample.astype(np.int32).tobytes())
        self._measure.frombytes(measure.astype(np.uint16).tobytes())

    @classmethod
    def of_columns(
        cls,
        samples: Sequence[SampleKey],
        measures: Sequence[tuple[str, str]],
        values: Sequence[NDArray[np.float64]] | NDArray[np.float64],
        noted: Mapping[int, Noted],
    ) -> ScoreTable:
        """Build a table from the values of distinct samples by measure (reported and canonical name); nan = no value.

        `values` has a column per measure, or is a matrix with a row per sample. `noted` gives status, reason and bounds of the rows
        (sample after sample) that are not ok or have a note.
        """
        table = cls()
        table.keys.extend(samples)
        codes = [table._measures.setdefault(names, len(table._measures)) for names in measures]
        for row in sorted(noted):
            status, why, bounds = noted[row]
            table._note(row, _STATUS[status], why, *(bounds or (_NAN, _NAN)))
        count = len(table.keys)
        scores = values if isinstance(values, np.ndarray) else np.stack(values, 1) if values else np.empty(0)
        table._number(
            np.repeat(np.arange(count), len(codes)), np.tile(np.array(codes, dtype=np.int64), count)
        )
        table._value.frombytes(np.ascontiguousarray(scores, dtype=np.float64).ravel().view(np.uint8).data)
        return table

    # the columns

    @property
    def samples(self) -> list[SampleKey]:
        """The samples, in order of first appearance."""
        return list(self.keys)

    @property
    def measures(self) -> list[tuple[str, str]]:
        """The measures as (reported name, canonical name), in order of first appearance."""
        return list(self._measures)

    def spell(self, canonical: Callable[[str], str]) -> None:
        """Rename the measures of a stored table to their current spelling. Raises InputError if two become one."""
        measures = {
            (canonical(of) if name == of else name, canonical(of)): at
            for (name, of), at in self._measures.items()
        }
        if len(measures) < len(self._measures):
            twice = next(name for name, at in self._measures.items() if at not in measures.values())
            problem = f"scores.jsonl names {canonical(twice[1])} in two spellings"
            raise InputError(problem, fix="run the evaluation again")
        self._measures = measures

    @property
    def whys(self) -> list[str | None]:
        """The distinct reasons and notes; the first is None."""
        return list(self._whys)

    @property
    def width(self) -> int | None:
        """The number of measures of each sample, if all samples have the same ones in the same order; else None."""
        width = len(self._measures)
        if not len(self) == len(self.keys) * width > 0:
            return None
        sample, measure = np.divmod(np.arange(len(self), dtype=np.int32), width)
        return width if (self.sample == sample).all() and (self.measure == measure).all() else None

    @property
    def sample(self) -> NDArray[np.int32]:
        """The number of each row's sample in `samples`."""
        return np.array(self._sample, dtype=np.int32)

    @property
    def measure(self) -> NDArray[np.int32]:
        """The number of each row's measure in `measures`."""
        return np.array(self._measure, dtype=np.int32)

    @property
    def value(self) -> NDArray[np.float64]:
        """The values; NaN where the status is not ok."""
        return np.array(self._value, dtype=np.float64)

    @property
    def columns(self) -> ScoreRows:
        """The values of all rows; status and reason as indices into `STATUSES` and `whys`."""
        return self.taken(np.arange(len(self)))

    def taken(self, rows: NDArray[np.int64]) -> ScoreRows:
        """Return the values of these rows."""
        return ScoreRows(np.asarray(self._value)[rows], *self.noted(rows))

    def noted(
        self, rows: NDArray[np.int64]
    ) -> tuple[NDArray[np.uint8], NDArray[np.int32], NDArray[np.float64], NDArray[np.float64]]:
        """Return status, reason and bounds of these rows."""
        noted = np.asarray(self._exceptions, dtype=np.int64)
        status, why = np.zeros(len(rows), dtype=np.uint8), np.zeros(len(rows), dtype=np.int32)
        low = high = np.broadcast_to(np.float64(_NAN), len(rows))
        if len(noted):
            low, high = np.full((2, len(rows)), _NAN)
            at = np.searchsorted(noted, rows)
            at[at == len(noted)] = 0
            mine = noted[at] == rows
            at = at[mine]
            status[mine], why[mine] = np.asarray(self._status)[at], np.asarray(self._why)[at]
            low[mine], high[mine] = np.asarray(self._low)[at], np.asarray(self._high)[at]
        return status, why, low, high

    def repeated_row(self) -> int | None:
        """Return the first row that repeats the sample and measure of an earlier one, or None."""
        if self.width is not None:
            return None
        pairs = self.sample.astype(np.int64) * max(1, len(self._measures)) + self.measure
        first = np.unique(pairs, return_index=True)[1]
        if len(first) == len(pairs):
            return None
        again = np.ones(len(pairs), dtype=np.bool_)
        again[first] = False
        return int(again.argmax())

    def rows_of(self, measure: tuple[str, str]) -> NDArray[np.int64]:
        """Return the rows of a measure, named (reported, canonical), that have a value."""
        rows = np.flatnonzero(np.asarray(self._measure) == self._measures[measure])
        result: NDArray[np.int64] = rows[~np.isnan(np.asarray(self._value)[rows])]
        return result

    # the rows

    def __len__(self) -> int:
        return len(self._value)

    def __iter__(self) -> Iterator[Score]:
        return self.rows(range(len(self)))

    def rows(self, numbers: Iterable[int]) -> Iterator[Score]:
        """Iterate over the scores in these rows as records."""
        for some in batched(numbers, _AT_ONCE):
            yield from self._scores_of(np.array(some, dtype=np.int64))

    def _scores_of(self, rows: NDArray[np.int64]) -> Iterator[Score]:
        sample, measure = np.asarray(self._sample)[rows], np.asarray(self._measure)[rows]
        samples, order = np.unique(sample, return_inverse=True)
        keys, at = self.keys.taken(samples.tolist()), iter(order.tolist())
        measures, whys = self.measures, self.whys
        columns = (column.tolist() for column in (measure, *self.taken(rows)))
        for of, value, code, why, low, high in zip(*columns, strict=True):
            (name, system, trial), (reported, canonical) = keys[next(at)], measures[of]
            status = STATUSES[code]
            yield Score(
                sample=name,
                system=system,
                trial=trial,
                measure=reported,
                type=canonical,
                value=value if status == "ok" else None,
                status=status,
                why=whys[why],
                bounds=None if math.isnan(low) else (low, high),
            )

    def of_sample(self, key: SampleKey) -> Iterator[Score]:
        """Iterate over the scores of one sample."""
        number = self.keys.find(key)
        return self.rows(() if number is None else np.flatnonzero(self.sample == number).tolist())

    def of_samples(self, keys: Iterable[SampleKey]) -> Iterator[Score]:
        """Iterate over the scores of these samples, in the table's order."""
        numbers = [number for key in keys if (number := self.keys.find(key)) is not None]
        return self.rows(np.flatnonzero(np.isin(self.sample, numbers)).tolist())

    def to_columns(self) -> dict[str, Sequence[Json]]:
        """Return the values of each field for a DataFrame; bounds are `low` and `high`."""
        samples, measures, whys, rest = self.samples, self.measures, self.whys, self.columns
        sample, measure = self.sample.tolist(), self.measure.tolist()
        return {
            "sample": [samples[code][0] for code in sample],
            "system": [samples[code][1] for code in sample],
            "trial": [samples[code][2] for code in sample],
            "measure": [measures[code][0] for code in measure],
            "type": [measures[code][1] for code in measure],
            "value": _floats(self._value),
            "status": [STATUSES[code] for code in rest.status.tolist()],
            "why": [whys[code] for code in rest.why.tolist()],
            "low": _floats(rest.low.tolist()),
            "high": _floats(rest.high.tolist()),
        }

    # on disk

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of scores.jsonl; equal scores have equal bytes."""
        return chain.from_iterable(map(BytesIO, self.texts()))

    def texts(self) -> Iterator[bytes]:
        """Iterate over the lines of scores.jsonl, many together."""
        for first in range(0, len(self), _AT_ONCE):
            yield self.text(first, min(first + _AT_ONCE, len(self)))

    def text(self, first: int, end: int) -> bytes:
        """Return the lines of rows first to end - 1."""
        sample, measure = np.asarray(self._sample[first:end]), self._measure[first:end]
        begins = np.diff(sample, prepend=-1) != 0
        keys, place = self.keys.taken(sample[begins].tolist()), np.cumsum(begins) - 1
        tails = {of: b',"system":%b,"trial":%d,' % (encode(of[0]), of[1]) for of in {key[1:] for key in keys}}
        heads = [b'{"sample":' + encode(key[0]) + tails[key[1:]] for key in keys]
        names = [
            b'"measure":%b,"type":%b,"value":' % (encode(name), encode(of)) for name, of in self._measures
        ]
        values = encode(self._value[first:end].tolist())[1:-1].split(b",")  # NaN is null
        ends = [b',"status":"ok","why":null,"bounds":null}\n'] * (end - first)
        rest, whys = self.taken(np.arange(first, end)), self.whys
        noted = np.asarray(self._exceptions, dtype=np.int64)
        for row in (noted[np.searchsorted(noted, first) : np.searchsorted(noted, end)] - first).tolist():
            low, high = float(rest.low[row]), float(rest.high[row])
            bounds = b"null" if math.isnan(low) else encode((low, high))
            status, why = STATUSES[rest.status[row]], whys[rest.why[row]]
            ends[row] = b',"status":%b,"why":%b,"bounds":%b}\n' % (encode(status), encode(why), bounds)
        begun = map(heads.__getitem__, place.tolist())
        columns = begun, map(names.__getitem__, measure.tolist()), values, ends
        return b"".join(chain.from_iterable(zip(*columns, strict=True))) if end > first else b""

    def add_row(self, row: ScoreRow) -> None:
        """Append a stored row, in which an upper bound of null is infinite. Raises ValueError for an invalid row."""
        low, high = row.bounds or (None, None)
        bounds = None if low is None else (low, math.inf if high is None else high)
        key = row.sample, row.system, row.trial
        self.append(key, row.measure, row.type, row.value, row.status, row.why, bounds)

    def read(self, lines: Iterable[bytes], file: str = "scores.jsonl") -> Self:
        """Append the lines of a file. Raises InputError for a damaged one."""
        number = 0
        try:
            for number, line in enumerate(lines, 1):  # noqa: B007 - for the error
                self.add_row(_decode_row(line))
        except (ValueError, OverflowError):
            place = SourceLocation(file, number)
            raise InputError(
                "this line is not a score", fix="run the evaluation again", place=place
            ) from None
        return self


def _floats(values: Iterable[float]) -> list[float | None]:
    return [None if math.isnan(value) else value for value in values]


def dump_score(score: Score) -> dict[str, Json]:
    """Return a score as the JSON object that scripts rely on."""
    fields = dict(zip(_WRITTEN, _written(score), strict=True))
    return {**fields, "bounds": list(score.bounds) if score.bounds else None}
