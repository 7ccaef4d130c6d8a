"""Read a manifest's entries: the judge and its cost, and whose labels each mean is computed from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

from germane.folder.tables import Tables
from germane.measures.measure import Measure
from germane.measures.ranked import belonging_to
from germane.places.table import Source
from germane.reports.summary import Basis, known_measure
from germane.tables.judgements import JUDGE_COUNTS, JudgeLine
from germane.types import FrozenDict, Json

__all__ = ["judge_in_all", "models_in"]


def judge_in_all(entries: Sequence[Mapping[str, Json]]) -> dict[str, Json]:
    """Join entries on the judge: counts and costs are summed (None if unknown), the rest is the first's."""
    counts = {name: sum(of[name] for of in entries) for name in JUDGE_COUNTS}
    tokens = {name: sum(of["tokens"][name] for of in entries) for name in ("input", "output")}
    costs = [of["cost_usd"] for of in entries]
    return {
        **entries[0],
        **counts,
        "tokens": tokens,
        "estimated": any(of["estimated"] for of in entries),
        "cost_usd": None if None in costs else sum(costs),
    }


class Bases:
    """Determines the `Basis` of each measure, that is, whose labels it is computed from."""

    def __init__(self, manifest: Mapping[str, Json], tables: Tables) -> None:
        self._manifest, self._tables = manifest, tables
        self._judge = JudgeLine.stored(manifest.get("judge"))
        self._asked: Mapping[str, Any] = manifest.get("asked") or {}
        self._reads: Mapping[str, Any] = manifest.get("reads") or {}

    def of(self, canonical: str, system: str = "") -> Basis:
        """Return the basis of a measure, given by its canonical name, for one system."""
        measure = known_measure(canonical)
        source = self._source(measure, canonical)
        outdated = self._tables.labels_added() and Measure.remembered(canonical).labels in {"human", "best"}
        if source in {"gold", "human"}:
            means = (self._manifest.get("beside") or {}).get(system) or {}
            asked = {name for _, name in self._tables.scores.measures} if means else set()
            names = [str(measure) for measure in belonging_to([Measure.parse(canonical)])] if means else ()
            beside = {name: means[name] for name in names if name in means and name not in asked}
            return Basis(source=source, beside=FrozenDict(beside), outdated=outdated)
        kinds = self._reads.get(canonical) or (["relevance"] if source == "best" else list(self._asked))
        counts = [self._asked[kind] for kind in kinds if kind in self._asked]
        models, modes = (
            FrozenDict(sum((Counter(count.get(name, {})) for count in counts), Counter[str]()))
            for name in ("model", "mode")
        )
        references = {"with_reference", "without_reference"}
        own = (self._manifest.get("references") or {}).get(canonical)
        with_counts = [own] if own else [count for count in counts if references & count.keys()]
        return Basis(
            source=source,
            calibrated=False,
            models=models,
            modes=modes,
            fused=sum(count.get("fused", 0) for count in counts),
            **{name: sum(count.get(name, 0) for count in with_counts) for name in references if with_counts},
            mixed=self._mixed if source == "best" else None,
            labels=self._labelled,
            stand_in=bool(self._judge.stand_in) and set(kinds) != {"script"},
            outdated=outdated,
        )

    def _source(self, measure: Measure | None, canonical: str) -> Source:
        """Return whose labels a measure uses; the judges `labels` and `gold` repeat people's and gold's."""
        if measure is None:
            return "judge"
        source: Source = "judge" if measure.definition.asks else "gold"
        if measure.definition.family == "ranked":
            source = measure.labels
        elif measure.definition.family == "graded" and self._reads.get(canonical):
            source = "judge"
        answered: dict[str, Source] = {"labels": "human", "gold": "gold"}
        kind = self._judge.identity.get("judge") or self._judge.source
        return answered.get(str(kind or ""), source) if source == "judge" else source

    @cached_property
    def _labelled(self) -> int:
        """The number of people's labels; labels without an answer are not counted."""
        people = {(label.item, label.who): label.answer for label in self._tables.labels}
        return sum(answer is not None for answer in people.values())

    @cached_property
    def _mixed(self) -> float | None:
        """The proportion of passages labelled by people among all labelled or judged ones, or None."""
        labels = [label for label in self._tables.labels if label.kind == "relevance"]
        people = len({(label.sample, label.system, label.call, label.rank) for label in labels})
        labelled = {label.item for label in labels}
        judged = sum(row.kind == "relevance" and row.item not in labelled for row in self._tables.places)
        return people / (people + judged) if people + judged else None


def models_in(identity: Mapping[str, Json]) -> Iterator[str]:
    """Yield the models that a judge asks, or that a panel's members ask, given its identity."""
    if identity.get("model"):
        yield str(identity["model"])
    for member in identity.get("panel") or ():
        yield from models_in(member)
