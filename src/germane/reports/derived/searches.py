"""The results of each search of systems that search several times for one question."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from germane.encoding import Line
from germane.statistics.intervals import mean_interval
from germane.types import Sample

if TYPE_CHECKING:
    pass


class SearchLine(Line):
    """The searches number `call` of a system's samples; `samples` made at least this number of searches.

    `first` is how many samples had their first relevant document from it, `recall` the mean share of the gold documents that
    had come by then, over all samples with gold (one that made fewer searches keeps what it had), with its 95% interval.
    `spare` counts those made after all gold had come. The four are null where no gold documents are known. `repeated` counts
    those that asked what the same sample had asked before.
    """

    system: str
    call: int
    samples: int
    first: int | None
    recall: float | None
    interval: Annotated[tuple[float, float], Meta(description="the lower one first")] | None
    spare: int | None
    repeated: int


def searches_of(samples: Iterable[Sample]) -> list[SearchLine]:
    """The results of each search: a line per system and number of the search."""
    from germane.places import lists  # not at the top: `germane rank` has no searches

    repeats: dict[str, list[list[bool]]] = {}
    recalls: dict[str, list[tuple[str, list[float]]]] = {}
    for sample in samples:
        if sample.error is None and (asked := lists.asked_before(sample)):
            repeats.setdefault(sample.system, []).append([before for _, before in asked])
            if (shares := lists.recall_by_search(sample)) is not None:
                recalls.setdefault(sample.system, []).append((sample.cluster or sample.id, shares))
    return [
        _search_line(system, call, rows, recalls.get(system, ()))
        for system, rows in repeats.items()
        for call in range(1, max(map(len, rows)) + 1)
    ]


def _search_line(
    system: str, call: int, repeats: Sequence[Sequence[bool]], recalls: Sequence[tuple[str, Sequence[float]]]
) -> SearchLine:
    """The searches of a system with one number, from which searches of each sample repeat, and its recall after each."""
    made = [row[call - 1] for row in repeats if len(row) >= call]
    line = SearchLine(system, call, len(made), None, None, None, None, sum(made))
    if recalls:
        before = [0.0 if call == 1 else shares[min(call - 1, len(shares)) - 1] for _, shares in recalls]
        now = [shares[min(call, len(shares)) - 1] for _, shares in recalls]
        interval = mean_interval(now, clusters=[case for case, _ in recalls], value_range=(0.0, 1.0))
        line.recall, line.interval = interval.mean, interval.ends
        line.first = sum(old == 0 < new for old, new in zip(before, now, strict=True))
        line.spare = sum(old == 1 and len(of) >= call for old, (_, of) in zip(before, recalls, strict=True))
    return line
