"""The table of scores: one row per (sample, system, trial, measure), as columns."""

from __future__ import annotations

import math
from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import attrgetter
from typing import NamedTuple, Self, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from germane.encoding import decode, encode
from germane.errors import InputError, Place
from germane.numberset import NumberSet
from germane.types import Json, Score, Status

SampleKey: TypeAlias = tuple[str, str, int]
"""What names a sample within an evaluation: its id, system and trial."""

STATUSES: tuple[Status, ...] = get_args(Status)
"""The status that each status code stands for: ok, skipped, incomplete, error."""
_STATUS = {name: code for code, name in enumerate(STATUSES)}
_NAN = math.nan
_WRITTEN = ("sample", "system", "trial", "measure", "type", "value", "status", "why")
_written = attrgetter(*_WRITTEN)


class _Runs:
    """Whole numbers from 0, of which equal ones mostly follow each other: one entry per run of them."""

    __slots__ = ("_ends", "_values")

    def __init__(self) -> None:
        self._values, self._ends = array("i"), array("q")

    def append(self, value: int, times: int = 1) -> None:
        """Add a value so many times."""
        if self._values and self._values[-1] == value:
            self._ends[-1] += times
        elif times:
            self._ends.append(len(self) + times)
            self._values.append(value)

    def extend(self, runs: Iterable[tuple[int, int]]) -> None:
        """Add runs: each a value and how many times it stands there."""
        for value, times in runs:
            self.append(value, times)

    def runs(self) -> Iterator[tuple[int, int]]:
        """Each value with how many times it stands there."""
        start = 0
        for value, end in zip(self._values, self._ends, strict=True):
            yield value, end - start
            start = end

    def at(self, places: NDArray[np.int64]) -> NDArray[np.int32]:
        """The values in these places."""
        values = np.array(self._values, dtype=np.int32)
        if len(values) == 1:
            return np.full(len(places), values[0], dtype=np.int32)
        found: NDArray[np.int32] = values[np.searchsorted(np.array(self._ends), places, side="right")]
        return found

    def column(self) -> NDArray[np.int32]:
        """All values."""
        times = np.diff(np.array(self._ends), prepend=0)
        return np.repeat(np.array(self._values, dtype=np.int32), times)

    def __getitem__(self, place: int) -> int:
        return self._values[bisect_right(self._ends, place)]

    def __len__(self) -> int:
        return self._ends[-1] if self._ends else 0


class Ids(NamedTuple):
    """Samples of one system: their ids one after another as UTF-8, and where each ends; no sample has further trials."""

    text: bytes
    ends: NDArray[np.int64]
    system: str = ""


class _Keys:
    """The keys of samples: each distinct one has a number, from 0 in order of first appearance."""

    def __init__(self) -> None:
        self._ids, self._ends = bytearray(), array("q")
        self._systems: dict[str, int] = {}
        self._system, self._trial = _Runs(), _Runs()
        self._hashes: NumberSet | None = None  # of all keys, once one may come again
        self._numbers: dict[SampleKey, int] | None = None
        self._newest: SampleKey | None = None

    def number(self, key: SampleKey) -> int:
        """The number of a key, which is added where it is new."""
        if key == self._newest:
            return len(self) - 1
        if self._hashes is None:
            self._hashes = NumberSet()
            for known in self:
                self._hashes.add(hash(known))
        if not self._hashes.add(hash(key)) and (number := self.find(key)) is not None:
            return number
        if self._numbers is not None:
            self._numbers[key] = len(self)
        self.extend([key])
        return len(self) - 1

    def extend(self, keys: Iterable[SampleKey]) -> None:
        """Add keys that are all new, and of which none will come again."""
        for key in keys:
            self._newest = key
            self._ids += key[0].encode(errors="surrogatepass")
            self._ends.append(len(self._ids))
            self._system.append(self._systems.setdefault(key[1], len(self._systems)))
            self._trial.append(key[2])

    def extend_ids(self, ids: Ids) -> None:
        """Add samples that are all new, and of which none will come again."""
        start = len(self._ids)
        self._ids += ids.text
        self._ends.frombytes((ids.ends + start).tobytes())
        self._system.append(self._systems.setdefault(ids.system, len(self._systems)), len(ids.ends))
        self._trial.append(0, len(ids.ends))

    def join(self, other: _Keys) -> None:
        """Add the keys of another table, which are all new, and of which none will come again."""
        start = len(self._ids)
        self._ids += other._ids
        self._ends.extend([start + end for end in other._ends])
        systems = list(other._systems)
        for system, times in other._system.runs():
            self._system.append(self._systems.setdefault(systems[system], len(self._systems)), times)
        self._trial.extend(other._trial.runs())
        self._newest = other._newest or self._newest

    def find(self, key: SampleKey) -> int | None:
        """The number of a key; None where there is none."""
        if self._numbers is None:
            self._numbers = {key: number for number, key in enumerate(self)}
        return self._numbers.get(key)

    def ids(self) -> Iterator[str]:
        """The ids, by number."""
        start = 0
        for end in self._ends:
            yield self._ids[start:end].decode(errors="surrogatepass")
            start = end

    def systems(self) -> tuple[list[str], NDArray[np.int32]]:
        """The distinct systems, and the place among them of each key's."""
        return list(self._systems), self._system.column()

    @property
    def trials(self) -> bool:
        """Whether any key has a trial other than 0."""
        return any(trial for trial, _ in self._trial.runs())

    def __len__(self) -> int:
        return len(self._ends)

    def __iter__(self) -> Iterator[SampleKey]:
        systems = list(self._systems)
        numbers = (number for number, times in self._system.runs() for _ in range(times))
        trials = (trial for trial, times in self._trial.runs() for _ in range(times))
        for name, system, trial in zip(self.ids(), numbers, trials, strict=True):
            yield name, systems[system], trial


class ScoreRows(NamedTuple):
    """Some rows of a table of scores, as arrays of shape (rows,)."""

    value: NDArray[np.float64]
    status: NDArray[np.uint8]
    why: NDArray[np.int32]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


class ScoreTable:
    """Scores in the order in which they were appended: input order, then measure order.

    `samples`, `measures` and `whys` hold what the codes of `sample`, `measure` and `why` stand for. `value`, `low` and
    `high` are NaN where there is no value and there are no bounds. The columns are copies: changing one changes no table.

    A row takes the 8 bytes of its value, and more only where it is not like its neighbours: samples with the same measures
    in the same order share one entry, so do rows with the same status and reason, and only rows with bounds have any.
    """

    def __init__(self, scores: Iterable[Score] = ()) -> None:
        self.keys = _Keys()
        self._measures: dict[tuple[str, str], int] = {}
        self._whys: dict[str | None, int] = {None: 0}
        self._sets: dict[tuple[int, ...], int] = {}
        self._set = _Runs()  # of each group of rows of one sample: which measures it has
        self._group: array[int] | None = None  # and which sample it is; None = group n is sample n
        self._open: tuple[int, list[int]] | None = None  # the last group, to which rows may be added
        self._value = array("d")
        self._outcome = _Runs()  # reason * number of statuses + status
        self._bounded, self._low, self._high = array("q"), array("d"), array("d")
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
            value = _NAN
        elif status != "ok" or not math.isfinite(value):
            raise ValueError(f"a score has a finite value exactly when it is ok: {value!r}, {status!r}")
        number = self._measures.setdefault((measure, type), len(self._measures))
        self._append(self.keys.number(sample), number, value, _STATUS[status], why, bounds)

    def _append(
        self,
        sample: int,
        measure: int,
        value: float,
        status: int,
        why: str | None,
        bounds: Sequence[float] | None,
    ) -> None:
        if self._open is None or self._open[0] != sample:
            self._close()
            self._open = (sample, [])
        self._open[1].append(measure)
        reason = 0 if why is None else self._whys.setdefault(why, len(self._whys))
        self._outcome.append(reason * len(STATUSES) + status)
        if bounds is not None:
            self._bounded.append(len(self._value))
            self._low.append(bounds[0])
            self._high.append(bounds[1])
        self._value.append(value)

    def _close(self) -> None:
        """The last group is complete."""
        if self._open is not None:
            sample, measures = self._open
            self._open = None
            self._add_groups([sample], tuple(measures))

    def _add_groups(self, samples: Sequence[int], measures: tuple[int, ...]) -> None:
        """Groups of one set of measures; their rows are there."""
        groups = len(self._set)
        following = range(groups, groups + len(samples))
        if self._group is None and samples != following and list(samples) != list(following):
            self._group = array("i", range(groups))
        if self._group is not None:
            self._group.extend(samples)
        self._set.append(self._sets.setdefault(measures, len(self._sets)), len(samples))

    def add(self, score: Score) -> None:
        """Append a score."""
        key = (score.sample, score.system, score.trial)
        self.append(key, score.measure, score.type, score.value, score.status, score.why, score.bounds)

    def extend(self, other: ScoreTable, *, distinct: bool = False) -> Self:
        """Append all rows of another table. `distinct`: no sample of it is or will be in any other."""
        self._close()
        other._close()
        numbers = [self._measures.setdefault(one, len(self._measures)) for one in other._measures]
        whys = [self._whys.setdefault(why, len(self._whys)) for why in other._whys]
        if distinct:
            samples = list(range(len(self.keys), len(self.keys) + len(other.keys)))
            self.keys.join(other.keys)
        else:
            samples = [self.keys.number(key) for key in other.keys]
        groups = samples if other._group is None else [samples[group] for group in other._group]
        start = 0
        sets = list(other._sets)
        for number, times in other._set.runs():
            mine = tuple([numbers[measure] for measure in sets[number]])
            some = groups[start : start + times]
            self._add_groups(some, mine)
            start += times
        rows = len(self._value)
        self._value.extend(other._value)
        for outcome, times in other._outcome.runs():
            why, status = divmod(outcome, len(STATUSES))
            self._outcome.append(whys[why] * len(STATUSES) + status, times)
        self._bounded.extend([rows + row for row in other._bounded])
        self._low.extend(other._low)
        self._high.extend(other._high)
        return self

    @classmethod
    def of_values(
        cls,
        samples: Sequence[SampleKey] | Ids,
        values: Mapping[str, NDArray[np.float64]],
        *,
        counted: NDArray[np.bool_] | None = None,
        why: str = "",
        types: Mapping[str, str] | None = None,
        refused: Mapping[str, Mapping[int, str]] | None = None,
    ) -> ScoreTable:
        """A table of measures that were computed as arrays, one value per sample, all samples distinct.

        `values` are by the name that a measure is reported under, `types` give its canonical name where that is another.
        What is not `counted`, shape (samples,), is skipped, and `why`. `refused` says for each measure which samples are
        skipped besides, and why.
        """
        table = cls()
        if isinstance(samples, Ids):
            table.keys.extend_ids(samples)
        else:
            table.keys.extend(samples)
        table._measures = {(name, (types or {}).get(name, name)): at for at, name in enumerate(values)}
        shape = (len(table.keys), len(values))
        found = np.stack(list(values.values()), axis=1) if values else np.empty(shape)
        outcomes = np.zeros(shape, dtype=np.int64)
        skipped = _STATUS["skipped"]
        if counted is not None and not counted.all():
            table._whys[why] = 1
            outcomes[~counted] = len(STATUSES) + skipped
        for column, name in enumerate(values):
            for row, reason in (refused or {}).get(name, {}).items():
                code = table._whys.setdefault(reason, len(table._whys))
                outcomes[row, column] = code * len(STATUSES) + skipped
        if outcomes.any():
            found = np.where(outcomes == 0, found, _NAN)
        table._value.frombytes(np.ascontiguousarray(found, dtype=np.float64).tobytes())
        flat = outcomes.ravel()
        starts = np.flatnonzero(np.diff(flat, prepend=-1))
        table._outcome.extend(
            zip(flat[starts].tolist(), np.diff(starts, append=len(flat)).tolist(), strict=True)
        )
        if len(values):
            table._add_groups(range(len(table.keys)), tuple(range(len(values))))
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

    @property
    def whys(self) -> list[str | None]:
        """The distinct reasons and notes; the first is None."""
        return list(self._whys)

    @property
    def width(self) -> int | None:
        """How many measures each sample has where all have the same in their order, once each; else None."""
        self._close()
        if self._group is not None or len(self._sets) != 1:
            return None
        (only,) = self._sets
        return len(only) if only == tuple(range(len(self._measures))) else None

    @property
    def sample(self) -> NDArray[np.int32]:
        """The number of each row's sample in `samples`."""
        self._close()
        widths = np.array([len(one) for one in self._sets], dtype=np.int64)
        groups = np.arange(len(self._set), dtype=np.int32) if self._group is None else np.array(self._group)
        return np.repeat(groups.astype(np.int32), widths[self._set.column()] if len(widths) else 0)

    @property
    def measure(self) -> NDArray[np.int32]:
        """The number of each row's measure in `measures`."""
        self._close()
        sets = list(self._sets)
        parts = [np.tile(np.array(sets[number], np.int32), times) for number, times in self._set.runs()]
        return np.concatenate(parts) if parts else np.empty(0, np.int32)

    @property
    def value(self) -> NDArray[np.float64]:
        """The values; NaN where the status is not ok."""
        return np.array(self._value, dtype=np.float64)

    @property
    def status(self) -> NDArray[np.uint8]:
        """The place of each row's status in `STATUSES`."""
        return (self._outcome.column() % len(STATUSES)).astype(np.uint8)

    @property
    def why(self) -> NDArray[np.int32]:
        """The number of each row's reason in `whys`."""
        return self._outcome.column() // len(STATUSES)

    @property
    def low(self) -> NDArray[np.float64]:
        """The lower bounds; NaN where there are none."""
        return self._ends(self._low)

    @property
    def high(self) -> NDArray[np.float64]:
        """The upper bounds; NaN where there are none."""
        return self._ends(self._high)

    def _ends(self, ends: array[float]) -> NDArray[np.float64]:
        column = np.full(len(self), _NAN)
        column[np.array(self._bounded, dtype=np.int64)] = ends
        return column

    def taken(self, rows: NDArray[np.int64]) -> ScoreRows:
        """What these rows hold, without the columns of the others."""
        value = np.frombuffer(self._value, dtype=np.float64)[rows] if len(self) else np.empty(0)
        outcome = self._outcome.at(rows)
        low = high = np.broadcast_to(np.float64(_NAN), len(rows))
        if self._bounded:
            low, high = np.full((2, len(rows)), _NAN)
            bounded = np.array(self._bounded)
            at = np.searchsorted(bounded, rows)
            at[at == len(bounded)] = 0
            mine = bounded[at] == rows
            low[mine], high[mine] = np.array(self._low)[at[mine]], np.array(self._high)[at[mine]]
        status = (outcome % len(STATUSES)).astype(np.uint8)
        return ScoreRows(value, status, outcome // len(STATUSES), low, high)

    # the rows

    def __len__(self) -> int:
        return len(self._value)

    def __iter__(self) -> Iterator[Score]:
        return self.rows(range(len(self)))

    def rows(self, numbers: Iterable[int]) -> Iterator[Score]:
        """The scores in these rows."""
        places = np.fromiter(numbers, dtype=np.int64)
        sample, measure = self.sample[places].tolist(), self.measure[places].tolist()
        samples, measures, whys = self.samples, self.measures, self.whys
        value_of, *others = (column.tolist() for column in self.taken(places))
        columns = zip(sample, measure, value_of, *others, strict=True)
        for key, number, value, code, why, low, high in columns:
            (name, system, trial), (reported, canonical) = samples[key], measures[number]
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
        return self.rows(() if number is None else np.flatnonzero(self.sample == number).tolist())

    def to_columns(self) -> dict[str, Sequence[Json]]:
        """The values of each field, for a DataFrame; bounds are `low` and `high`."""
        samples, measures, whys = self.samples, self.measures, self.whys
        sample, measure = self.sample.tolist(), self.measure.tolist()
        return {
            "sample": [samples[code][0] for code in sample],
            "system": [samples[code][1] for code in sample],
            "trial": [samples[code][2] for code in sample],
            "measure": [measures[code][0] for code in measure],
            "type": [measures[code][1] for code in measure],
            "value": _floats(self._value),
            "status": [STATUSES[code] for code in self.status.tolist()],
            "why": [whys[code] for code in self.why.tolist()],
            "low": _floats(self.low.tolist()),
            "high": _floats(self.high.tolist()),
        }

    # on disk

    def lines(self) -> Iterator[bytes]:
        """The rows of scores.jsonl, byte by byte the same for the same scores."""
        heads = [
            b'{"sample":%b,"system":%b,"trial":%d,' % (encode(k[0]), encode(k[1]), k[2]) for k in self.keys
        ]
        names = [b'"measure":%b,"type":%b,"value":' % (encode(one), encode(of)) for one, of in self.measures]
        ends = {
            number * len(STATUSES) + code: b',"status":%b,"why":%b,"bounds":' % (encode(status), encode(why))
            for number, why in enumerate(self._whys)
            for code, status in enumerate(STATUSES)
        }
        values = encode(self._value.tolist())[1:-1].split(b",")  # NaN is null
        outcomes = (ends[outcome] for outcome, times in self._outcome.runs() for _ in range(times))
        codes = zip(self.sample.tolist(), self.measure.tolist(), values, outcomes, strict=bool(len(self)))
        if not self._bounded:
            return (heads[key] + names[name] + value + end + b"null}\n" for key, name, value, end in codes)
        return self._bounded_lines(heads, names, codes)

    def _bounded_lines(
        self, heads: Sequence[bytes], names: Sequence[bytes], codes: Iterable[tuple[int, int, bytes, bytes]]
    ) -> Iterator[bytes]:
        bounds = dict(zip(self._bounded, zip(self._low, self._high, strict=True), strict=True))
        for row, (key, name, value, end) in enumerate(codes):
            ends = encode(bounds[row]) if row in bounds else b"null"
            yield heads[key] + names[name] + value + end + ends + b"}\n"

    @classmethod
    def read(cls, lines: Iterable[bytes], file: str = "scores.jsonl") -> ScoreTable:
        """The table in lines of scores.jsonl; InputError names a damaged line."""
        table = cls()
        number_of, measures, append = table.keys.number, table._measures, table._append
        number = 0  # of the line being read
        try:
            for line in lines:
                number += 1
                row = decode(line)
                value, bounds = row["value"], row["bounds"]
                if bounds is not None:
                    bounds = (bounds[0], math.inf if bounds[1] is None else bounds[1])
                append(
                    number_of((row["sample"], row["system"], row["trial"])),
                    measures.setdefault((row["measure"], row["type"]), len(measures)),
                    _NAN if value is None else value,
                    _STATUS[row["status"]],
                    row["why"],
                    bounds,
                )
        except (ValueError, KeyError, TypeError):
            raise InputError(
                "this line is no score", fix="run the evaluation again", place=Place(file, number)
            ) from None
        return table


def _floats(values: Iterable[float]) -> list[float | None]:
    return [None if math.isnan(value) else value for value in values]


def dump_score(score: Score) -> dict[str, Json]:
    """A score as the JSON object that scripts rely on."""
    shown = dict(zip(_WRITTEN, _written(score), strict=True))
    return {**shown, "bounds": list(score.bounds) if score.bounds else None}
