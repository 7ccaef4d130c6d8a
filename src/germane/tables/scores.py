"""The table of scores: one row per (sample, system, trial, measure), as columns."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib import import_module
from itertools import chain, repeat
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeAlias

import msgspec
import numpy as np
from msgspec import Meta
from numpy.typing import NDArray

from germane.encoding import Line, batched, encode
from germane.errors import InputError, MissingPart, SourceLocation, install_extra
from germane.types import STATUSES, Json, Score, Status, check_score

__all__ = ["Bounds", "Noted", "SampleKey", "ScoreRow", "ScoreTable", "dump_score"]

SampleKey: TypeAlias = tuple[str, str, int]
"""Identifies a sample within an evaluation: (id, system, trial)."""
Noted: TypeAlias = "tuple[Status, str | None, tuple[float, float] | None]"
"""Status, reason and bounds of a score that is not ok or has a note."""

WITHOUT_IDS = "no context has a document id to compare with the gold ids"
"""The start of the reason of a score that is skipped, although the sample has gold; so is `NO_IDS`."""
NO_IDS = "the contexts have no document ids"
_NAN = math.nan
_PLAIN_END = b',"status":"ok","why":null,"bounds":null}\n'
Bounds: TypeAlias = (
    Annotated[tuple[float | None, float | None], Meta(description="the lower one first; null = without end")]
    | None
)


class ScoreRow(Line):
    """The score of one sample by one measure.

    If `status` is not ok, `value` is null, and `why` is the reason.
    """

    sample: str
    system: str
    trial: int
    measure: str
    type: str
    value: float | None
    status: Status
    why: str | None
    bounds: Bounds

    def __post_init__(self) -> None:
        check_score(self)


_decode_row = msgspec.json.Decoder(ScoreRow).decode


class ScoreRows(NamedTuple):
    """The columns of selected rows of the table of scores; each is an array of shape (rows,)."""

    value: NDArray[np.float64]
    status: NDArray[np.uint8]
    why: NDArray[np.int32]
    low: NDArray[np.float64]
    high: NDArray[np.float64]


class ScoreTable:
    """A table of scores, in the order in which the scores were appended.

    The columns `sample`, `measure` and `why` contain indices into the lists `samples` (the distinct sample
    keys), `measures` and `whys`, which are in order of first appearance. `value` is NaN for a row without a
    value. `low` and `high`, which `taken` returns, are NaN for a row without bounds. The columns are copies.
    To save memory, sample keys are stored as columns too, and the status, reason and bounds only for rows
    whose status is not ok or that have a note or bounds.
    """

    def __init__(self, scores: Iterable[Score] = ()) -> None:
        self.ids: Sequence[str] = []
        """The id of each sample."""
        self._systems: dict[str, int] = {}
        self._system, self._trial = array("i"), array("q")
        self._numbers: dict[SampleKey, int] | None = None
        self._measures: dict[tuple[str, str], int] = {}
        self._whys: dict[str | None, int] = {None: 0}
        self._sample, self._measure, self._value = array("i"), array("H"), array("d")
        self._noted: dict[int, tuple[int, int, float, float]] = {}
        """By row: the codes of status and reason, and the two bounds."""
        for score in scores:
            self.add(score)

    def numbers(self) -> dict[SampleKey, int]:
        """Return the index in `samples` of each sample key; the mapping is built at first use."""
        if self._numbers is None:
            self._numbers = {key: number for number, key in enumerate(self.samples)}
        return self._numbers

    def _number_of(self, sample: SampleKey) -> int:
        number = self.numbers().setdefault(sample, len(self.ids))
        if number == len(self.ids):
            name, system, trial = sample
            self._add_samples([name], [system], [trial])
        return number

    def _add_samples(self, ids: Sequence[str], systems: Iterable[str], trials: Iterable[int]) -> None:
        if not isinstance(self.ids, list):
            self.ids = list(self.ids)
        self.ids.extend(ids)
        self._system.extend([self._systems.setdefault(name, len(self._systems)) for name in systems])
        self._trial.extend(trials)

    @property
    def samples(self) -> list[SampleKey]:
        """The distinct sample keys."""
        systems = map(list(self._systems).__getitem__, self._system)
        return list(zip(self.ids, systems, self._trial, strict=True))

    def key(self, sample: int) -> SampleKey:
        """Return the key of the sample with this index."""
        return self.ids[sample], list(self._systems)[self._system[sample]], self._trial[sample]

    def systems(self) -> tuple[list[str], NDArray[np.int32]]:
        """Return the distinct systems, and for each sample the index of its system."""
        return list(self._systems), np.array(self._system, np.int32)

    @property
    def has_trials(self) -> bool:
        """True if any sample has a trial number other than 0."""
        return any(self._trial)

    def add(self, score: Score | ScoreRow) -> None:
        """Append a score; an upper bound of None counts as infinity if there is a lower bound."""
        value, status, why, bounds = score.value, score.status, score.why, score.bounds
        if status != "ok" or why is not None or bounds is not None:
            low, high = bounds or (None, None)
            known = None if low is None else (low, math.inf if high is None else high)
            self._note(len(self), (status, why, known))
        self._sample.append(self._number_of((score.sample, score.system, score.trial)))
        self._measure.append(self._measures.setdefault((score.measure, score.type), len(self._measures)))
        self._value.append(_NAN if value is None else value)

    def _note(self, row: int, noted: Noted) -> None:
        status, why, bounds = noted
        code = self._whys.setdefault(why, len(self._whys))
        self._noted[row] = STATUSES.index(status), code, *(bounds or (_NAN, _NAN))

    def extend(self, other: ScoreTable, *, distinct: bool = False) -> Self:
        """Append the rows of another table and return this table.

        With `distinct`, the tables must have no sample in common. This is faster, and it is not checked.
        """
        measures = [self._measures.setdefault(measure, len(self._measures)) for measure in other._measures]
        whys = [self._whys.setdefault(why, len(self._whys)) for why in other._whys]
        if distinct or not self.ids:
            samples = np.arange(len(other.ids), dtype=np.int32) + len(self.ids)
            systems = map(list(other._systems).__getitem__, other._system)
            self._add_samples(other.ids, systems, other._trial)
            self._numbers = None
        else:
            samples = np.array([self._number_of(key) for key in other.samples], dtype=np.int32)
        for row, (status, why, low, high) in other._noted.items():
            self._noted[row + len(self)] = status, whys[why], low, high
        if len(other):
            self._add_codes(samples[other.sample], np.array(measures, np.uint16)[other.measure])
        self._value.extend(other._value)
        return self

    def _add_codes(self, sample: NDArray[np.int32], measure: NDArray[np.uint16]) -> None:
        self._sample.frombytes(sample.view(np.uint8).data)
        self._measure.frombytes(measure.view(np.uint8).data)

    @classmethod
    def of_columns(
        cls,
        samples: tuple[Sequence[str], Iterable[str], Iterable[int]],
        measures: Sequence[tuple[str, str]],
        values: Sequence[NDArray[np.float64]] | NDArray[np.float64],
        noted: Mapping[int, Noted],
    ) -> ScoreTable:
        """Return a table made from the values of distinct samples.

        `samples` are their keys as columns: ids, which are not copied, systems and trials. `measures` are
        pairs (reported name, canonical name). `values` is a list with one array per measure, or a matrix with
        one row per sample; nan means no value. `noted` gives the status, reason and bounds of the scores that
        need them, by row number. Rows are numbered sample by sample.
        """
        table = cls()
        table._add_samples([], *samples[1:])
        table.ids = samples[0]
        codes = [table._measures.setdefault(names, len(table._measures)) for names in measures]
        for row in sorted(noted):
            table._note(row, noted[row])
        count = len(table.ids)
        scores = values if isinstance(values, np.ndarray) else np.stack(values, 1) if values else np.empty(0)
        rows = np.repeat(np.arange(count, dtype=np.int32), len(codes))
        table._add_codes(rows, np.tile(np.array(codes, np.uint16), count))
        table._value.frombytes(np.ascontiguousarray(scores, dtype=np.float64).ravel().view(np.uint8).data)
        return table

    # the columns

    @property
    def measures(self) -> list[tuple[str, str]]:
        """The measures as (reported name, canonical name), in order of first appearance."""
        return list(self._measures)

    @property
    def whys(self) -> list[str | None]:
        """The distinct reasons and notes; the first is None."""
        return list(self._whys)

    @property
    def sample(self) -> NDArray[np.int32]:
        """The index in `samples` of each row's sample."""
        return np.array(self._sample, dtype=np.int32)

    @property
    def measure(self) -> NDArray[np.int32]:
        """The index in `measures` of each row's measure."""
        return np.array(self._measure, dtype=np.int32)

    @property
    def value(self) -> NDArray[np.float64]:
        """The value of each row; NaN if its status is not ok."""
        return np.array(self._value, dtype=np.float64)

    def taken(self, rows: NDArray[np.int64] | None = None) -> ScoreRows:
        """Return the columns of the rows with the indices in `rows`; of all rows if `rows` is None."""
        rows = np.arange(len(self)) if rows is None else rows
        status, why = np.zeros(len(rows), dtype=np.uint8), np.zeros(len(rows), dtype=np.int32)
        low, high = np.full((2, len(rows)), _NAN)
        noted = np.fromiter(self._noted, np.int64, len(self._noted))
        for at in np.flatnonzero(np.isin(rows, noted)).tolist() if len(noted) else ():
            status[at], why[at], low[at], high[at] = self._noted[int(rows[at])]
        return ScoreRows(np.asarray(self._value)[rows], status, why, low, high)

    def rows_of(self, measure: tuple[str, str], system: str | None = None) -> NDArray[np.int64]:
        """Return the indices of the rows that have a value of `measure` (reported name, canonical name).

        If `system` is given, only rows of this system are returned.
        """
        chosen = np.asarray(self._measure) == self._measures[measure]
        chosen &= ~np.isnan(np.asarray(self._value))
        systems, codes = self.systems()
        if system is not None and systems != [system]:
            number = systems.index(system) if system in systems else -1
            chosen &= (codes == number)[np.asarray(self._sample)]
        return np.flatnonzero(chosen)

    # the rows

    def __len__(self) -> int:
        return len(self._value)

    def __iter__(self) -> Iterator[Score]:
        return self.rows(range(len(self)))

    def rows(self, numbers: Iterable[int]) -> Iterator[Score]:
        """Yield the rows with the indices in `numbers` as Score objects."""
        measures, whys = self.measures, self.whys
        for row in numbers:
            name, system, trial = self.key(self._sample[row])
            reported, canonical = measures[self._measure[row]]
            code, why, low, high = self._noted.get(row, (0, 0, _NAN, _NAN))
            yield Score(
                sample=name,
                system=system,
                trial=trial,
                measure=reported,
                type=canonical,
                value=None if code else self._value[row],
                status=STATUSES[code],
                why=whys[why],
                bounds=None if math.isnan(low) else (low, high),
            )

    def of_samples(self, keys: Iterable[SampleKey]) -> Iterator[Score]:
        """Yield the scores of the samples with these keys, in the table's order."""
        numbers_of = self.numbers()
        numbers = [numbers_of[key] for key in keys if key in numbers_of]
        return self.rows(np.flatnonzero(np.isin(self.sample, numbers)).tolist())

    def to_columns(self) -> dict[str, Sequence[Json]]:
        """Return all columns by name, for a DataFrame; `low` and `high` are the bounds."""
        names, whys, rest = self.measures, self.whys, self.taken()
        samples = self.samples
        keys = [samples[code] for code in self._sample]
        measures = [names[code] for code in self._measure]
        return {
            "sample": [name for name, _, _ in keys],
            "system": [system for _, system, _ in keys],
            "trial": [trial for _, _, trial in keys],
            "measure": [reported for reported, _ in measures],
            "type": [canonical for _, canonical in measures],
            "value": _floats(self._value),
            "status": [STATUSES[code] for code in rest.status.tolist()],
            "why": [whys[code] for code in rest.why.tolist()],
            "low": _floats(rest.low.tolist()),
            "high": _floats(rest.high.tolist()),
        }

    # on disk

    def lines(self) -> Iterator[bytes]:
        """Yield the lines of scores.jsonl; equal scores give equal bytes."""
        names = [(encode(name), encode(canonical)) for name, canonical in self._measures]
        parts = [b'"measure":%b,"type":%b,"value":' % both for both in names]
        sample = np.asarray(self._sample)
        starts = np.flatnonzero(np.diff(sample, prepend=-1))  # the first row of each sample
        counts = np.diff(starts, append=len(sample)).tolist()
        samples = self.samples
        keys = [samples[number] for number in sample[starts].tolist()]
        texts = [b'{"sample":%b,"system":%b,"trial":%d,' % (*map(encode, key[:2]), key[2]) for key in keys]
        heads = chain.from_iterable(map(repeat, texts, counts))
        # NaN is null
        values = chain.from_iterable(encode(batch)[1:-1].split(b",") for batch in batched(self._value))
        ends, whys = [_PLAIN_END] * len(sample), self.whys
        for row, (status, why, low, high) in self._noted.items():
            bounds = encode(None if math.isnan(low) else (low, high))
            rest = encode(STATUSES[status]), encode(whys[why]), bounds
            ends[row] = b',"status":%b,"why":%b,"bounds":%b}\n' % rest
        columns = heads, map(parts.__getitem__, self._measure), values, ends
        return map(b"".join, zip(*columns, strict=True))  # one step per row in C

    def read(self, lines: Iterable[bytes], file: str = "scores.jsonl") -> Self:
        """Append the scores in the lines of a scores.jsonl file and return the table.

        Raises InputError, which names `file` and the line, if a line is damaged.
        """
        number = 0
        try:
            for number, line in enumerate(lines, 1):  # noqa: B007 - for the error
                self.add(_decode_row(line))
        except (ValueError, OverflowError):
            place, fix = SourceLocation(file, number), "restore the file, or run the evaluation again"
            raise InputError("this line is not a score", fix=fix, place=place) from None
        return self


def _floats(values: Iterable[float]) -> list[float | None]:
    return [None if math.isnan(value) else value for value in values]


def dump_score(score: Score) -> dict[str, Json]:
    """Return a score as the JSON object of scores.jsonl and of `--json` documents."""
    fields = {name: getattr(score, name) for name in ScoreRow.__struct_fields__}
    return {**fields, "bounds": score.bounds and list(score.bounds)}


Library: TypeAlias = Literal["pandas", "polars"]
Frame: TypeAlias = Any
"""A DataFrame of pandas or polars; germane imports either library only when a frame is requested."""


def to_frame(columns: Mapping[str, Sequence[Json]], library: Library) -> Frame:
    """Return the columns as a DataFrame of `library`; nested values are written as JSON strings.

    Raises MissingPart if the library is not installed.
    """
    flat = {
        name: [
            encode(value).decode() if isinstance(value, dict | list | tuple) else value for value in values
        ]
        for name, values in columns.items()
    }
    try:
        module = import_module(library)
    except ImportError:
        fix = install_extra("tables") if library == "polars" else f"pip install {library}"
        raise MissingPart(f"{library} is not installed", fix=fix) from None
    return module.DataFrame(flat, strict=False) if library == "polars" else module.DataFrame(flat)
