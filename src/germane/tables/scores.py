"""The table of scores: one row per (sample, system, trial, measure), as columns."""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Self, TypeAlias, get_args

import numpy as np
from numpy.typing import NDArray

from germane.encoding import decode, encode
from germane.errors import InputError, Place
from germane.types import Json, Score, Status

__all__ = ["STATUSES", "SampleKey", "ScoreTable", "dump_score"]

SampleKey: TypeAlias = tuple[str, str, int]
"""What names a sample within an evaluation: its id, system and trial."""

STATUSES: tuple[Status, ...] = get_args(Status)
"""The status that each status code stands for: ok, skipped, incomplete, error."""
_STATUS = {name: code for code, name in enumerate(STATUSES)}
_NAN = math.nan


class ScoreTable:
    """Scores in the order in which they were appended: input order, then measure order.

    `samples`, `measures` and `whys` hold what the codes of `sample`, `measure` and `why` stand for. `value`, `low` and
    `high` are NaN where there is no value and there are no bounds. The columns are copies: changing one changes no table.
    """

    def __init__(self, scores: Iterable[Score] = ()) -> None:
        self._samples: dict[SampleKey, int] = {}
        self._measures: dict[tuple[str, str], int] = {}
        self._whys: dict[str | None, int] = {None: 0}
        self._sample, self._measure, self._why = array("i"), array("i"), array("i")
        self._status = array("B")
        self._value, self._low, self._high = array("d"), array("d"), array("d")
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
        low, high = bounds or (_NAN, _NAN)
        self._sample.append(self._samples.setdefault(sample, len(self._samples)))
        self._measure.append(self._measures.setdefault((measure, type), len(self._measures)))
        self._value.append(value)
        self._status.append(_STATUS[status])
        self._why.append(self._whys.setdefault(why, len(self._whys)))
        self._low.append(low)
        self._high.append(high)

    def add(self, score: Score) -> None:
        """Append a score."""
        key = (score.sample, score.system, score.trial)
        self.append(key, score.measure, score.type, score.value, score.status, score.why, score.bounds)

    def extend(self, other: ScoreTable) -> Self:
        """Append all rows of another table."""
        for mine, theirs, codes, added in (
            (self._samples, other._samples, self._sample, other.sample),
            (self._measures, other._measures, self._measure, other.measure),
            (self._whys, other._whys, self._why, other.why),
        ):
            _append_coded(mine, theirs, codes, added)
        self._status.extend(other._status)
        self._value.extend(other._value)
        self._low.extend(other._low)
        self._high.extend(other._high)
        return self

    @classmethod
    def of_values(
        cls,
        samples: Sequence[SampleKey],
        values: Mapping[str, NDArray[np.float64]],
        *,
        counted: NDArray[np.bool_],
        why: str,
    ) -> ScoreTable:
        """A table of measures that were computed as arrays, one value per sample; not `counted` = skipped, and `why`."""
        table = cls()
        table._samples = {sample: number for number, sample in enumerate(samples)}
        table._measures = {(name, name): number for number, name in enumerate(values)}
        table._whys[why] = 1
        shape = (len(samples), len(values))
        found = np.stack(list(values.values()), axis=1) if values else np.empty(shape)
        kept = np.broadcast_to(counted[:, None], shape)
        table._sample.frombytes(np.repeat(np.arange(shape[0], dtype=np.int32), shape[1]).tobytes())
        table._measure.frombytes(np.tile(np.arange(shape[1], dtype=np.int32), shape[0]).tobytes())
        table._value.frombytes(np.where(kept, found, _NAN).tobytes())
        table._status.frombytes((~kept).astype(np.uint8).tobytes())
        table._why.frombytes((~kept).astype(np.int32).tobytes())
        nothing = np.full(shape, _NAN).tobytes()
        table._low.frombytes(nothing)
        table._high.frombytes(nothing)
        return table

    # the columns

    @property
    def samples(self) -> list[SampleKey]:
        """The samples, in order of first appearance."""
        return list(self._samples)

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
    def status(self) -> NDArray[np.uint8]:
        """The place of each row's status in `STATUSES`."""
        return np.array(self._status, dtype=np.uint8)

    @property
    def why(self) -> NDArray[np.int32]:
        """The number of each row's reason in `whys`."""
        return np.array(self._why, dtype=np.int32)

    @property
    def low(self) -> NDArray[np.float64]:
        """The lower bounds; NaN where there are none."""
        return np.array(self._low, dtype=np.float64)

    @property
    def high(self) -> NDArray[np.float64]:
        """The upper bounds; NaN where there are none."""
        return np.array(self._high, dtype=np.float64)

    # the rows

    def __len__(self) -> int:
        return len(self._value)

    def __iter__(self) -> Iterator[Score]:
        return self.rows(range(len(self)))

    def rows(self, numbers: Iterable[int]) -> Iterator[Score]:
        """The scores in these rows."""
        samples, measures, whys = self.samples, self.measures, self.whys
        for row in numbers:
            (sample, system, trial), (measure, canonical) = (
                samples[self._sample[row]],
                measures[self._measure[row]],
            )
            value, low = self._value[row], self._low[row]
            status = STATUSES[self._status[row]]
            yield Score(
                sample=sample,
                system=system,
                trial=trial,
                measure=measure,
                type=canonical,
                value=value if status == "ok" else None,
                status=status,
                why=whys[self._why[row]],
                bounds=None if math.isnan(low) else (low, self._high[row]),
            )

    def of_sample(self, key: SampleKey) -> Iterator[Score]:
        """The scores of one sample."""
        number = self._samples.get(key, -1)
        return self.rows(np.flatnonzero(self.sample == number).tolist())

    def to_columns(self) -> dict[str, Sequence[Json]]:
        """The values of each field, for a DataFrame; bounds are `low` and `high`."""
        samples, measures, whys = self.samples, self.measures, self.whys
        return {
            "sample": [samples[code][0] for code in self._sample],
            "system": [samples[code][1] for code in self._sample],
            "trial": [samples[code][2] for code in self._sample],
            "measure": [measures[code][0] for code in self._measure],
            "type": [measures[code][1] for code in self._measure],
            "value": _floats(self._value),
            "status": [STATUSES[code] for code in self._status],
            "why": [whys[code] for code in self._why],
            "low": _floats(self._low),
            "high": _floats(self._high),
        }

    # on disk

    def lines(self) -> Iterator[bytes]:
        """The rows of scores.jsonl, byte by byte the same for the same scores."""
        samples, measures, whys = self.samples, self.measures, self.whys
        columns = (self._sample, self._measure, self._value, self._status, self._why, self._low, self._high)
        for sample, measure, value, status, why, low, high in zip(*columns, strict=True):
            (key, system, trial), (name, canonical) = samples[sample], measures[measure]
            row = _row(
                key,
                system,
                trial,
                name,
                canonical,
                value if status == 0 else None,
                STATUSES[status],
                whys[why],
                None if low != low else [low, high],  # noqa: PLR0124 - NaN
            )
            yield encode(row) + b"\n"

    @classmethod
    def read(cls, lines: Iterable[bytes], file: str = "scores.jsonl") -> ScoreTable:
        """The table in lines of scores.jsonl; InputError names a damaged line."""
        table = cls()
        samples, measures, whys = table._samples, table._measures, table._whys
        add_sample, add_measure, add_why = table._sample.append, table._measure.append, table._why.append
        add_value, add_status = table._value.append, table._status.append
        add_low, add_high = table._low.append, table._high.append
        number = 0  # of the line being read
        try:
            for line in lines:
                number += 1
                row = decode(line)
                value, why, bounds = row["value"], row["why"], row["bounds"]
                add_sample(samples.setdefault((row["sample"], row["system"], row["trial"]), len(samples)))
                add_measure(measures.setdefault((row["measure"], row["type"]), len(measures)))
                add_value(_NAN if value is None else value)
                add_status(_STATUS[row["status"]])
                add_why(0 if why is None else whys.setdefault(why, len(whys)))
                if bounds is None:
                    add_low(_NAN)
                    add_high(_NAN)
                else:
                    add_low(bounds[0])
                    add_high(math.inf if bounds[1] is None else bounds[1])
        except (ValueError, KeyError, TypeError):
            raise InputError(
                "this line is no score", fix="run the evaluation again", place=Place(file, number)
            ) from None
        return table


def _append_coded(
    mine: dict[Any, int], theirs: dict[Any, int], codes: array[int], added: NDArray[np.int32]
) -> None:
    """Append another table's codes, as the codes that the same values have here."""
    renumbered = np.array([mine.setdefault(value, len(mine)) for value in theirs], dtype=np.int32)
    if len(added):
        codes.frombytes(renumbered[added].tobytes())


def _floats(values: array[float]) -> list[float | None]:
    return [None if math.isnan(value) else value for value in values]


def dump_score(score: Score) -> dict[str, Json]:
    """A score as the JSON object that scripts rely on."""
    bounds = list(score.bounds) if score.bounds else None
    return _row(
        score.sample,
        score.system,
        score.trial,
        score.measure,
        score.type,
        score.value,
        score.status,
        score.why,
        bounds,
    )


def _row(
    sample: str,
    system: str,
    trial: int,
    measure: str,
    canonical: str,
    value: float | None,
    status: Status,
    why: str | None,
    bounds: list[float] | None,
) -> dict[str, Json]:
    return {
        "sample": sample,
        "system": system,
        "trial": trial,
        "measure": measure,
        "type": canonical,
        "value": value,
        "status": status,
        "why": why,
        "bounds": bounds,
    }
