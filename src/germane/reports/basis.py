"""Whose labels a mean rests on, how a judge was asked for them, and what may be said of it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeAlias

from germane.errors import InputError
from germane.measures.measure import Measure
from germane.reports.schema import BasisLine
from germane.tables import Tables
from germane.types import FrozenDict, Json

__all__ = ["Bases", "Basis"]

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
            labels=len(self._tables.labels),
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
