"""The table of scores: one row per (sample, system, trial, measure), as columns."""

from __future__ import annotations

import math
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from operator import attrgetter
from typing import Any, NamedTuple, Self, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from germane.encoding import decode, encode
from germane.errors import InputError, SourceLocation
from germane.numberset import NumberSet
from germane.types import Json, Score, Status

SampleKey: TypeAlias = tuple[str, str, int]
"""The name of a sample within an evaluation: its id, system and trial."""

Noted: TypeAlias = "tuple[Status, str | None, tuple[float, float] | None]"
"""Status, reason and bounds of a score that is not ok or has a note."""

STATUSES: tuple[Status, ...] = get_args(Status)
"""The status that each status code stands for: ok, skipped, incomplete, error."""
_STATUS = {name: code for code, name in enumerate(STATUSES)}
_NAN = math.nan
_AT_ONCE = 10_000
"""Rows that are made together."""
_Numbers: TypeAlias = "Sequence[int] | array[int] | NDArray[np.integer[Any]]"
Fields: TypeAlias = "dict[str, tuple[Any, NDArray[np.integer[Any]] | None]]"
"""The values of each field, and the place among them of each row's; None = they stand row by row. What is nested is JSON."""
_WRITTEN = ("sample", "system", "trial", "measure", "type", "value", "status", "why")
_written = attrgetter(*_WRITTEN)


class Ids(NamedTuple):
    """Samples of one system: their ids one after another as UTF-8, and where each ends; no sample has further trials."""

    text: bytes
    ends: NDArray[np.int64]
    system: str = ""


class SampleKeys:
    """The keys of samples by their numbers, which count from 0 in order of first appearance.

    Keys are told apart by their 64-bit hashes, which are computed once one may come again.
    """

    def __init__(self) -> None:
        self._ids, self._ends = bytearray(), array("q")
        self._system, self._trial = array("i"), array("i")
        self._systems: dict[str, int] = {}
        self._hashes: NumberSet | None = None
        self._newest: SampleKey | None = None

    def number(self, key: SampleKey) -> int:
        """The number of a key, which is added where it is new."""
        if key == self._newest:
            return len(self) - 1
        number_set = self._known()
        if not number_set.add(hash(key)):
            return number_set.index(hash(key))
        self._newest = key
        self._ids += key[0].encode(errors="surrogatepass")
        self._ends.append(len(self._ids))
        self._system.append(self._systems.setdefault(key[1], len(self._systems)))
        self._trial.append(key[2])
        return len(self) - 1

    def find(self, key: SampleKey) -> int | None:
        """The number of a key; None where there is none."""
        number = self._known().index(hash(key))
        return None if number < 0 else number

    def _known(self) -> NumberSet:
        if self._hashes is None:
            self._hashes = NumberSet()
            self._hashes.add_all(np.array(list(map(hash, self)), dtype=np.int64))
        return self._hashes

    def extend(self, keys: Sequence[SampleKey]) -> None:
        """Add keys that are all new."""
        ids = [key[0].encode(errors="surrogatepass") for key in keys]
        systems = [self._systems.setdefault(key[1], len(self._systems)) for key in keys]
        self._extend(b"".join(ids), np.cumsum(list(map(len, ids))), systems, [key[2] for key in keys])

    def extend_ids(self, ids: Ids) -> None:
        """Add samples that are all new."""
        system = self._systems.setdefault(ids.system, len(self._systems))
        codes = np.full(len(ids.ends), system)
        self._extend(ids.text, ids.ends, codes, np.zeros_like(codes))

    def join(self, other: SampleKeys) -> None:
        """Add the keys of another table, which are all new."""
        systems = np.array(
            [self._systems.setdefault(system, len(self._systems)) for system in other._systems]
        )
        self._extend(other._ids, np.array(other._ends), systems[other._system], other._trial)

    def _extend(
        self, ids: bytes | bytearray, ends: NDArray[np.int64], systems: _Numbers, trials: _Numbers
    ) -> None:
        self._hashes = self._newest = None
        self._ends.frombytes((ends.astype(np.int64) + len(self._ids)).tobytes())
        self._ids += ids
        self._system.frombytes(np.asarray(systems, dtype=np.int32).tobytes())
        self._trial.frombytes(np.asarray(trials, dtype=np.int32).tobytes())

    def ids(self) -> Iterator[str]:
        """The ids, by number."""
        start = 0
        for end in self._ends:
            yield self._ids[start:end].decode(errors="surrogatepass")
            start = end

    def systems(self) -> tuple[list[str], NDArray[np.int32]]:
        """The distinct systems, and the place among them of each key's."""
        return list(self._systems), np.array(self._system, dtype=np.int32)

    @property
    def trials(self) -> bool:
        """True if any key has a trial other than 0."""
        return any(self._trial)

    def __len__(self) -> int:
        return len(self._ends)

    def __iter__(self) -> Iterator[SampleKey]:
        systems = list(self._systems)
        for name, system, trial in zip(self.ids(), self._system, self._trial, strict=True):
            yield name, systems[system], trial

    def __getitem__(self, number: int) -> SampleKey:
        return self.taken([number])[0]

    def taken(self, numbers: Iterable[int]) -> list[SampleKey]:
        """The keys of these numbers."""
        systems, ids, ends = list(self._systems), self._ids, self._ends
        return [
            (
                ids[ends[number - 1] if number else 0 : ends[number]].decode(errors="surrogatepass"),
                systems[self._system[number]],
                self._trial[number],
            )
            for number in numbers
        ]


class ScoreRows(NamedTuple):
    """Some rows of a table of scores, as arrays of shape (rows,)."""

    value: NDArray[np.float64]
    status: NDArray[np.uint8]
    why: NDArray[np.int32]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


class ScoreTable:
    """Scores in the order in which they were appended: input order, then measure order.

    `samples`, `measures` and `whys` hold what the codes of `sample`, `measure` and `why` stand for. Of the `columns` value,
    low and high are NaN where there is no value and there are no bounds. Columns are copies: changing one changes no table.

    A row takes 14 bytes: its value, the number of its sample and of its measure. Status, reason and bounds are stored of
    those rows only that are not ok or have a note.
    """

    def __init__(self, scores: Iterable[Score] = ()) -> None:
        self.keys = SampleKeys()
        self._measures: dict[tuple[str, str], int] = {}
        self._whys: dict[str | None, int] = {None: 0}
        self._value, self._sample, self._measure = array("d"), array("i"), array("H")
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
        """Append one row. ValueError where a score has no value and is ok, or is not finite, or does not say why."""
        if value is None:
            if status == "ok" or not why:
                raise ValueError(f"a score that is {status} has a value or says why it has none")
        elif status != "ok" or not math.isfinite(value):
            raise ValueError(f"a score has a finite value exactly when it is ok: {value!r}, {status!r}")
        if status != "ok" or why is not None or bounds is not None:
            low, high = bounds or (_NAN, _NAN)
            self._note(len(self), _STATUS[status], why, low, high)
        self._value.append(_NAN if value is None else value)
        self._sample.append(self.keys.number(sample))
        self._measure.append(self._measures.setdefault((measure, type), len(self._measures)))

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
        """Append all rows of another table. `distinct`: no sample of it is in this one."""
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
        self._value.extend(other._value)
        if len(other):
            self._sample.frombytes(samples[other._sample].astype(np.int32).tobytes())
            self._measure.frombytes(measures[other._measure].astype(np.uint16).tobytes())
        return self

    @classmethod
    def of_columns(
        cls,
        samples: Sequence[SampleKey] | Ids,
        measures: Sequence[tuple[str, str]],
        values: Sequence[NDArray[np.float64]] | NDArray[np.float64],
        noted: Mapping[int, Noted],
    ) -> ScoreTable:
        """A table of a value for each of distinct samples and measures (reported and canonical names), nan = none.

        `values` are a column for each measure, or all of them as a matrix with a row for each sample.

        `noted` holds status, reason and bounds of the rows (sample after sample) that are not ok or have a note.
        """
        table = cls()
        if isinstance(samples, Ids):
            table.keys.extend_ids(samples)
        else:
            table.keys.extend(samples)
        codes = [table._measures.setdefault(names, len(table._measures)) for names in measures]
        for row in sorted(noted):
            status, why, bounds = noted[row]
            table._note(row, _STATUS[status], why, *(bounds or (_NAN, _NAN)))
        count = len(table.keys)
        scores = values if isinstance(values, np.ndarray) else np.stack(values, 1) if values else np.empty(0)
        numbers = np.repeat(np.arange(count, dtype=np.int32), len(codes))
        table._value.frombytes(np.ascontiguousarray(scores, dtype=np.float64).ravel().view(np.uint8).data)
        table._sample.frombytes(numbers.view(np.uint8).data)
        table._measure.frombytes(np.tile(np.array(codes, dtype=np.uint16), count).view(np.uint8).data)
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
        """Name the measures as they are spelled today; a stored table may hold an older spelling."""
        self._measures = {
            (canonical(of) if name == of else name, canonical(of)): at
            for (name, of), at in self._measures.items()
        }

    @property
    def whys(self) -> list[str | None]:
        """The distinct reasons and notes; the first is None."""
        return list(self._whys)

    @property
    def width(self) -> int | None:
        """The number of measures of each sample where all have the same in their order, once each; else None."""
        count, width = len(self.keys), len(self._measures)
        if not len(self) == count * width > 0:
            return None
        sample, measure = (
            np.asarray(column).reshape(count, width) for column in (self._sample, self._measure)
        )
        plain = (measure == np.arange(width)).all() and (sample == np.arange(count)[:, None]).all()
        return width if plain else None

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
        """What all rows hold; status and reason as their places in `STATUSES` and in `whys`."""
        return self.taken(np.arange(len(self)))

    def taken(self, rows: NDArray[np.int64]) -> ScoreRows:
        """The values of these rows, without the columns of the others."""
        value = np.asarray(self._value, dtype=np.float64)[rows]
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
        return ScoreRows(value, status, why, low, high)

    def rows_of(self, measure: tuple[str, str]) -> NDArray[np.int64]:
        """The rows of a measure, by its reported and its canonical name, that have a value."""
        rows = np.flatnonzero(np.asarray(self._measure) == self._measures[measure])
        result: NDArray[np.int64] = rows[~np.isnan(np.asarray(self._value)[rows])]
        return result

    # the rows

    def __len__(self) -> int:
        return len(self._value)

    def __iter__(self) -> Iterator[Score]:
        return self.rows(range(len(self)))

    def rows(self, numbers: Iterable[int]) -> Iterator[Score]:
        """The scores in these rows."""
        remaining = iter(numbers)
        while some := list(islice(remaining, _AT_ONCE)):
            yield from self._scores_of(np.array(some, dtype=np.int64))

    def _scores_of(self, places: NDArray[np.int64]) -> Iterator[Score]:
        samples, order = np.unique(np.asarray(self._sample)[places], return_inverse=True)
        keys, at = self.keys.taken(samples.tolist()), iter(order.tolist())
        measures, whys = self.measures, self.whys
        columns = (column.tolist() for column in (places, *self.taken(places)))
        for row, value, code, why, low, high in zip(*columns, strict=True):
            (name, system, trial), (reported, canonical) = (
                keys[next(at)],
                measures[self._measure[row]],
            )
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
        """The scores of one sample."""
        number = self.keys.find(key)
        return self.rows(
            () if number is None else np.flatnonzero(np.asarray(self._sample) == number).tolist()
        )

    def of_samples(self, keys: Iterable[SampleKey]) -> Iterator[Score]:
        """The scores of these samples, in the table's order."""
        numbers = [number for key in keys if (number := self.keys.find(key)) is not None]
        return self.rows(np.flatnonzero(np.isin(np.asarray(self._sample), numbers)).tolist())

    def to_columns(self) -> dict[str, Sequence[Json]]:
        """The values of each field, for a DataFrame; bounds are `low` and `high`."""
        samples, measures, whys, rest = self.samples, self.measures, self.whys, self.columns
        return {
            "sample": [samples[code][0] for code in self._sample],
            "system": [samples[code][1] for code in self._sample],
            "trial": [samples[code][2] for code in self._sample],
            "measure": [measures[code][0] for code in self._measure],
            "type": [measures[code][1] for code in self._measure],
            "value": _floats(self._value),
            "status": [STATUSES[code] for code in rest.status.tolist()],
            "why": [whys[code] for code in rest.why.tolist()],
            "low": _floats(rest.low.tolist()),
            "high": _floats(rest.high.tolist()),
        }

    # on disk

    def fields(self, first: int, end: int) -> Fields:
        """The fields of the lines from row `first` to before `end`."""
        rest, measure = self.taken(np.arange(first, end)), np.asarray(self._measure)[first:end]
        sample = np.asarray(self._sample)[first:end]
        begins = np.diff(sample, prepend=-1) != 0
        keys, place = self.keys.taken(sample[begins].tolist()), np.cumsum(begins) - 1
        bounded, bound = np.flatnonzero(~np.isnan(rest.low)), np.zeros(end - first, dtype=np.int64)
        bound[bounded] = np.arange(1, len(bounded) + 1)
        bounds = zip(rest.low[bounded].tolist(), rest.high[bounded].tolist(), strict=True)
        return {
            "sample": ([name for name, _, _ in keys], place),
            "system": ([system for _, system, _ in keys], place),
            "trial": ([trial for _, _, trial in keys], place),
            "measure": ([reported for reported, _ in self._measures], measure),
            "type": ([canonical for _, canonical in self._measures], measure),
            "value": (rest.value, None),
            "status": (STATUSES, rest.status),
            "why": (self.whys, rest.why),
            "bounds": ([None, *(encode(pair).decode() for pair in bounds)], bound),
        }

    def lines(self) -> Iterator[bytes]:
        """The rows of scores.jsonl, byte by byte the same for the same scores."""
        systems = {system: encode(system) for system in self.keys.systems()[0]}
        heads = [
            b'{"sample":%b,"system":%b,"trial":%d,' % (encode(name), systems[system], trial)
            for name, system, trial in self.keys
        ]
        names = [
            b'"measure":%b,"type":%b,"value":' % (encode(name), encode(of)) for name, of in self._measures
        ]
        values = encode(self._value.tolist())[1:-1].split(b",")  # NaN is null
        whys, ok = [encode(why) for why in self._whys], b',"status":"ok","why":null,"bounds":null}\n'
        ends = [ok] * len(self)
        noted = zip(self._exceptions, self._status, self._why, self._low, self._high, strict=True)
        for row, code, why, low, high in noted:
            bounds = b"null" if math.isnan(low) else encode((low, high))
            lines = encode(STATUSES[code]), whys[why], bounds
            ends[row] = b',"status":%b,"why":%b,"bounds":%b}\n' % lines
        begun = map(heads.__getitem__, self._sample)
        columns = begun, map(names.__getitem__, self._measure), values, ends
        return map(b"".join, zip(*columns, strict=bool(len(self))))

    @classmethod
    def read(cls, lines: Iterable[bytes], file: str = "scores.jsonl") -> ScoreTable:
        """The table in lines of scores.jsonl; InputError names a damaged line."""
        table, number = cls(), 0
        try:
            for number, line in enumerate(lines, 1):  # noqa: B007 - for the error
                row = decode(line)
                if row["bounds"] is not None:
                    low, high = row["bounds"]
                    row["bounds"] = low, math.inf if high is None else high
                table.append(
                    (row["sample"], row["system"], row["trial"]),
                    row["measure"],
                    row["type"],
                    row["value"],
                    row["status"],
                    row["why"],
                    row["bounds"],
                )
        except (ValueError, KeyError, TypeError):
            raise InputError(
                "this line is not a score", fix="run the evaluation again", place=SourceLocation(file, number)
            ) from None
        return table


def _floats(values: Iterable[float]) -> list[float | None]:
    return [None if math.isnan(value) else value for value in values]


def dump_score(score: Score) -> dict[str, Json]:
    """A score as the JSON object that scripts rely on."""
    fields = dict(zip(_WRITTEN, _written(score), strict=True))
    return {**fields, "bounds": list(score.bounds) if score.bounds else None}
