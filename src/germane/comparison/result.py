"""What a comparison says: a row per measure, the queries that moved, the verdict. Plain values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import numpy as np

from germane.errors import InputError
from germane.measures.measure import Measure
from germane.reports.summary import canonical_name
from germane.statistics.comparison import Decision, DifferenceParts, decide_change, holm
from germane.statistics.intervals import Interval
from germane.statistics.ranking import ListChanges, kendall_tau, top_half_tau


def higher_is_better(canonical: str) -> bool:
    """Whether more of a measure is better; so it is where nothing is known of it."""
    try:
        return Measure.parse(canonical).definition.better == "higher"
    except InputError:
        return True


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasureComparison:
    """One measure of system `b` against system `a` over the same cases; `difference` is B minus A.

    `difference`, wins, ties and losses (a win is a better score of B, also where lower is better) are over the `n` cases
    of which both were measured, of `due` that should have been; the interval covers what the others could be. `p` is None
    where any is missing. `p_holm` is adjusted over the primary measures and all systems; None for other measures.
    `mde` is the smallest difference that so many cases would have shown with probability 0.8, `needed` the number
    of cases that would show the observed one. `decision` is against a margin, None where none is given. `parts` splits the
    difference into retrieval and verdicts over `parts.n` cases, with whose verdicts these are in `verdicts`; where that
    is not possible `parts_why` says why. `slice` names the cases that were compared; "" = all.
    """

    a: str
    b: str
    measure: str
    type: str
    slice: str = ""
    n: int
    due: int
    mean_a: float | None
    mean_b: float | None
    difference: float | None
    interval: Interval
    p: float | None
    p_holm: float | None = None
    test: str | None
    wins: int
    ties: int
    losses: int
    mde: float | None
    needed: int | None
    decision: Decision | None = None
    parts: DifferenceParts | None = None
    verdicts: str = ""
    parts_why: str = ""

    @property
    def distinguishable(self) -> bool:
        """Whether the difference is at least the smallest one that so many cases could have shown."""
        return self.difference is not None and self.mde is not None and abs(self.difference) >= self.mde

    def decide(self, margin: float) -> Decision:
        """Whether B is worse than A by the margin or more."""
        better = higher_is_better(self.type)
        return decide_change(self.interval if better else self.interval.turned(), margin)


def adjusted(rows: Iterable[MeasureComparison], primary: Collection[str]) -> list[MeasureComparison]:
    """The rows with p-values adjusted by Holm over these measures of all systems."""
    found = list(rows)
    at = [number for number, one in enumerate(found) if one.measure in primary and one.p is not None]
    for number, p in zip(at, holm([found[number].p or 0.0 for number in at]), strict=True):
        found[number] = replace(found[number], p_holm=p)
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class MovedQuery:
    """A query whose score changed: the scores of A and B, and what became of A's list; None where lists are not known.

    `change` is B minus A. What is listed are the ids of the passages, or the beginnings of their texts.
    """

    sample: str
    query: str = ""
    a: float
    b: float
    lists: ListChanges[str] | None = None

    @property
    def change(self) -> float:
        """B minus A."""
        return self.b - self.a


@dataclass(frozen=True, slots=True, kw_only=True)
class ComparisonData:
    """Two or more systems over the same cases, each against the first (or against itself in another report).

    `comparisons` hold one row per system and measure, after those
    over all cases the ones per slice. `verdict` is "pass", "fail" or "undecided" against the margins, None where none was
    given. `only_in` lists the cases that another system does not have, `worst` and `best` the queries that moved
    most by `primary[0]`, by the name of the system.
    """

    systems: tuple[str, ...]
    primary: tuple[str, ...]
    comparisons: tuple[MeasureComparison, ...]
    only_in: Mapping[str, Sequence[str]]
    worst: Mapping[str, Sequence[MovedQuery]] = field(default_factory=dict)
    best: Mapping[str, Sequence[MovedQuery]] = field(default_factory=dict)
    notes: tuple[str, ...] = ()

    @property
    def held(self) -> tuple[str, ...]:
        """The systems that are held against another."""
        return tuple(dict.fromkeys(one.b for one in self.comparisons))

    @property
    def orders(self) -> dict[str, tuple[float | None, float | None]]:
        """How alike two reports of the same systems order these, by measure: Kendall's tau-b, of all and the better half."""
        found: dict[str, list[tuple[float, float]]] = {}
        if len({one.a for one in self.comparisons}) > 1:
            for one in self.comparisons:
                if not one.slice and one.mean_a is not None and one.mean_b is not None:
                    found.setdefault(one.measure, []).append((one.mean_a, one.mean_b))
        columns = {measure: np.array(means).T for measure, means in found.items()}
        return {name: (kendall_tau(a, b), top_half_tau(a, b)) for name, (a, b) in columns.items()}

    @property
    def verdict(self) -> Literal["pass", "fail", "undecided"] | None:
        """The worst of the decisions: undecided before failed, as in every verdict; None where there are none."""
        found = {one.decision.verdict for one in self.comparisons if one.decision is not None}
        words: tuple[Literal["pass", "fail", "undecided"], ...] = ("undecided", "fail", "pass")
        return next((word for word in words if word in found), None)

    @property
    def exit_code(self) -> int:
        """0 passed or no margin was given, 1 failed, 3 undecided."""
        return {"fail": 1, "undecided": 3}.get(self.verdict or "pass", 0)

    def __getitem__(self, name: str | tuple[str, str]) -> MeasureComparison:
        """The comparison of a measure over all cases, of the second system or the one named: `["nDCG@10", "B"]`."""
        measure, system = name if isinstance(name, tuple) else (name, self.held[0])
        wanted = {measure, canonical_name(measure)}
        for one in self.comparisons:
            if one.b == system and not one.slice and not wanted.isdisjoint({one.measure, one.type}):
                return one
        others = ", ".join(self.held)
        raise KeyError(
            f"{measure} was not compared for {system}; compared: {', '.join(self) or 'none'} of {others}"
        )

    def __iter__(self) -> Iterator[str]:
        return iter(dict.fromkeys(one.measure for one in self.comparisons if not one.slice))

    def __contains__(self, name: object) -> bool:
        try:
            return isinstance(name, str | tuple) and bool(self[name])
        except KeyError:
            return False
