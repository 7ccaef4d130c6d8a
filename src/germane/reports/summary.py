"""One line per measure: the mean, what it rests on, whose labels these are, and what it could still become."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from math import floor, fsum, isfinite
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from germane.errors import InputError
from germane.measures.measure import Measure
from germane.reports.schema import BasisLine, CorrectedLine, MeasureLine
from germane.statistics.correction import CorrectedMean
from germane.tables.folder import Tables
from germane.tables.scores import STATUSES, ScoreTable
from germane.types import FrozenDict, Json, Score

__all__ = ["Bases", "Basis", "MeasureSummary", "summarise"]

Source: TypeAlias = Literal["gold", "judge", "human", "best"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Basis:
    """What the values of one measure rest on.

    `source` of the labels: gold, judge, human, or best (people's where there are any, else the judge's; `mixed` is then
    the share of people's). `calibrated`: whether what a judge says was corrected by people's labels; gold and people's
    labels need no correction. `models`, `modes` and `fused` count the judgements by the model that answered, by output
    mode, and those that shared their request; `with_reference` and `without_reference` count the relevance verdicts that
    were given with and without a reference (None = not known). `labels` counts people's labels; `stand_in` = the judge
    stands in for a model and says little about quality.
    """

    source: Source = "gold"
    calibrated: bool = True
    models: Mapping[str, int] = field(default_factory=FrozenDict)
    modes: Mapping[str, int] = field(default_factory=FrozenDict)
    fused: int = 0
    with_reference: int | None = None
    without_reference: int | None = None
    mixed: float | None = None
    labels: int = 0
    stand_in: bool = False

    @property
    def references_mixed(self) -> bool:
        """Whether some verdicts were given with a reference and others without."""
        return bool(self.with_reference and self.without_reference)

    def remarks(self) -> Iterator[str]:
        """What must be said wherever the mean is printed."""
        if self.source == "best":
            share = "" if self.mixed is None else f"{self.mixed:.0%} human, "
            yield f"mixed: {share}not a corrected estimate"
        elif self.source == "judge" and not self.calibrated:
            labels = f"{self.labels} human labels, not compared" if self.labels else "no human labels"
            yield f"uncalibrated: {labels}"
        if self.references_mixed:
            yield f"{self.with_reference} with reference, {self.without_reference} without"

    def as_json(self) -> BasisLine:
        """The basis as scripts read it."""
        return {
            "source": self.source,
            "calibrated": self.calibrated,
            "models": dict(self.models),
            "modes": dict(self.modes),
            "fused": self.fused,
            "with_reference": self.with_reference,
            "without_reference": self.without_reference,
            "mixed": self.mixed,
        }


class Bases:
    """The basis of each measure of an evaluation, from its manifest's counts."""

    def __init__(self, manifest: Mapping[str, Json], tables: Tables) -> None:
        self._judge: Mapping[str, Any] = manifest.get("judge") or {}
        self._asked: Mapping[str, Any] = manifest.get("asked") or {}
        self._reads: Mapping[str, Any] = manifest.get("reads") or {}
        self._tables = tables

    def of(self, canonical: str) -> Basis:
        """The basis of a measure by its canonical name."""
        source = self._source(canonical)
        if source in {"gold", "human"}:
            return Basis(source=source)
        kinds = self._reads.get(canonical) or (["relevance"] if source == "best" else list(self._asked))
        counts = [self._asked[kind] for kind in kinds if kind in self._asked]
        return Basis(
            source=source,
            calibrated=False,
            models=_sum(counts, "model"),
            modes=_sum(counts, "mode"),
            fused=sum(count.get("fused", 0) for count in counts),
            with_reference=_total(counts, "with_reference"),
            without_reference=_total(counts, "without_reference"),
            mixed=self._mixed if source == "best" else None,
            labels=self._labelled,
            stand_in=bool(self._judge.get("stand_in")),
        )

    def _source(self, canonical: str) -> Source:
        try:
            measure = Measure.parse(canonical)
        except InputError:
            return "judge"
        if measure.definition.family == "ranked":
            source: Source = measure.labels
        else:
            source = "judge" if measure.definition.asks else "gold"
        if source == "judge" and self._judge.get("source") in {"labels", "gold"}:
            return "human" if self._judge["source"] == "labels" else "gold"
        return source

    @cached_property
    def _labelled(self) -> int:
        """How many labels people gave, without those that were taken back."""
        rows = self._tables.labels
        if not any(answer is None for answer in rows.column("answer")):
            return len(rows)
        people = dict(
            zip(zip(rows.column("item"), rows.column("who"), strict=True), rows.column("answer"), strict=True)
        )
        return sum(answer is not None for answer in people.values())

    @cached_property
    def _mixed(self) -> float | None:
        """The share of the places with a label whose label is a person's."""
        labels = [label for label in self._tables.labels if label.kind == "relevance"]
        people = len({(label.sample, label.system, label.call, label.rank) for label in labels})
        labelled = {label.item for label in labels}
        judged = sum(row.kind == "relevance" and row.item not in labelled for row in self._tables.items)
        return people / (people + judged) if people + judged else None


def _sum(counts: list[Mapping[str, Any]], field: str) -> FrozenDict:
    total: Counter[str] = Counter()
    for count in counts:
        total.update(count.get(field, {}))
    return FrozenDict(total)


def _total(counts: list[Mapping[str, Any]], field: str) -> int | None:
    known = [count for count in counts if "with_reference" in count or "without_reference" in count]
    return sum(count.get(field, 0) for count in known) if known else None


_OK, _SKIPPED, _INCOMPLETE, _ERROR = range(len(STATUSES))
_REASONS = 100
"""How many distinct reasons of one measure are kept."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureSummary:
    """One measure over one system's cases.

    `mean` is over the `n` cases that could be measured (None where n = 0), of `due` that should have been;
    `mean_bounds` puts every incomplete score at its own bounds and every error anywhere in the measure's range, so that
    failures cannot flatter. `low` and `high` are the smallest and largest value, `edges` what these could be under the same
    rule. `total` counts scores, of which `skipped`, `incomplete` and `errors` have no value, for the reasons in `why`.

    `interval` is the interval of the mean at `level` by `interval_method` over `units`; None where there is none.
    `basis` says whose labels the numbers rest on. `corrected` is a judged mean corrected with people's labels; None where
    there is none, and why in `corrected_why`.
    """

    measure: str
    type: str
    system: str = ""
    mean: float | None
    mean_bounds: tuple[float, float] | None
    interval: tuple[float, float] | None = None
    interval_method: str | None = None
    level: float | None = None
    units: int | None = None
    low: float | None = None
    high: float | None = None
    edges: tuple[tuple[float, float], tuple[float, float]] | None = None
    n: int
    due: int
    total: int
    skipped: int
    incomplete: int
    errors: int
    why: tuple[tuple[str, int], ...] = ()
    basis: Basis = field(default_factory=Basis)
    corrected: CorrectedMean | None = None
    corrected_why: str = ""

    def in_words(self) -> str:
        """The mean, and where failures took cases out of it, over how many it is and what it would be over all."""
        if self.mean is None:
            return "-"
        if self.incomplete + self.errors == 0 or self.mean_bounds is None:
            return f"{self.mean:.4f}"
        low, high = self.mean_bounds
        least, most = floor(low * 100) / 100, -floor(-high * 100) / 100 if isfinite(high) else None
        could = f"{least:.2f} or more" if most is None else f"{least:.2f} to {most:.2f}"
        return f"{self.mean:.4f} over {self.n} of {self.due} ({could} over all)"

    def as_json(self) -> MeasureLine:
        """The summary as scripts read it; bounds without an end (a count that could not be taken) are null."""
        bounds = self.mean_bounds if self.mean_bounds and isfinite(self.mean_bounds[1]) else None
        return {
            "mean": self.mean,
            "interval": list(self.interval) if self.interval else None,
            "interval_method": self.interval_method,
            "level": self.level,
            "units": self.units,
            "mean_bounds": list(bounds) if bounds else None,
            "n": self.n,
            "total": self.total,
            "skipped": self.skipped,
            "incomplete": self.incomplete,
            "errors": self.errors,
            "basis": self.basis.as_json(),
            "corrected": _corrected_line(self.corrected),
            "corrected_why": self.corrected_why or None,
        }


def _corrected_line(found: CorrectedMean | None) -> CorrectedLine | None:
    if found is None or found.mean is None or found.ends is None:
        return None
    return {
        "mean": found.mean,
        "interval": list(found.ends),
        "method": found.method,
        "labels": found.labels,
        "queries": found.queries,
        "ess": found.ess,
    }


def _unit_range(_: str) -> tuple[float, float]:
    return 0.0, 1.0


def summarise(
    scores: ScoreTable | Iterable[Score], range_of: Callable[[str], tuple[float, float]] = _unit_range
) -> list[MeasureSummary]:
    """One summary per (system, measure), in order of first appearance; `range_of` gives a canonical measure's range."""
    table = scores if isinstance(scores, ScoreTable) else ScoreTable(scores)
    samples, measures, whys = table.samples, table.measures, table.whys
    systems = {system: number for number, system in enumerate(dict.fromkeys(key[1] for key in samples))}
    system = np.array([systems[key[1]] for key in samples], dtype=np.int64)
    names = list(systems)
    rows = _Rows(table)
    if any(trial for _, _, trial in samples):
        cases: dict[str, int] = {}
        case = np.array([cases.setdefault(key[0], len(cases)) for key in samples], dtype=np.int64)
        rows.case = case[table.sample]
    summaries = []
    for group, mine in _groups(system[table.sample] * len(measures) + table.measure):
        number, at = divmod(group, len(measures))
        measure, canonical = measures[at]
        values, lows, highs = rows.units(mine, range_of(canonical))
        counts = np.bincount(rows.status[mine], minlength=len(STATUSES)).tolist()
        n = len(values)
        summaries.append(
            MeasureSummary(
                measure=measure,
                type=canonical,
                system=names[number],
                mean=fsum(values) / n if n else None,
                mean_bounds=(fsum(lows) / len(lows), fsum(highs) / len(highs)) if lows else None,
                low=min(values, default=None),
                high=max(values, default=None),
                edges=((min(lows), min(highs)), (max(lows), max(highs))) if lows else None,
                n=n,
                due=len(lows),
                total=len(mine),
                skipped=counts[_SKIPPED],
                incomplete=counts[_INCOMPLETE],
                errors=counts[_ERROR],
                why=_reasons(rows.why[mine], whys),
            )
        )
    return summaries


def _groups(keys: NDArray[np.int64]) -> Iterator[tuple[int, NDArray[np.int64]]]:
    """The rows of each key, in order of the keys' first appearance."""
    order = np.argsort(keys, kind="stable")
    distinct, firsts = np.unique(keys[order], return_index=True)
    split = np.split(order, firsts[1:]) if len(distinct) else []
    yield from sorted(zip(distinct.tolist(), split, strict=True), key=lambda one: int(one[1][0]))


class _Rows:
    """The columns that a summary reads."""

    def __init__(self, table: ScoreTable) -> None:
        self.value, self.status, self.why = table.value, table.status, table.why
        self.low, self.high = table.low, table.high
        self.case: NDArray[np.int64] | None = None
        """The case of each row, where cases have several trials."""

    def units(
        self, rows: NDArray[np.int64], span: tuple[float, float]
    ) -> tuple[list[float], list[float], list[float]]:
        """The values of the cases, and the least and most that every case to be measured could have."""
        due = rows[self.status[rows] != _SKIPPED]
        ok = self.status[due] == _OK
        value, low, high = self.value[due], self.low[due], self.high[due]
        low = np.where(ok, value, np.where(np.isnan(low), span[0], low))
        high = np.where(ok, value, np.where(np.isnan(high), span[1], high))
        if self.case is None:
            return value[ok].tolist(), low.tolist(), high.tolist()
        found: tuple[list[float], list[float], list[float]] = ([], [], [])
        for _, mine in _groups(self.case[due]):
            measured = mine[ok[mine]]
            for means, of in zip(found, (value[measured], low[mine], high[mine]), strict=True):
                if len(of):
                    means.append(fsum(of.tolist()) / len(of))
        return found


def _reasons(codes: NDArray[np.int32], whys: list[str | None]) -> tuple[tuple[str, int], ...]:
    """The reasons with how many scores have them, the most frequent first."""
    found, counts = np.unique(codes[codes > 0], return_counts=True)
    reasons = zip((whys[code] or "" for code in found.tolist()), counts.tolist(), strict=True)
    return tuple(sorted(reasons, key=lambda reason: (-reason[1], reason[0]))[:_REASONS])
