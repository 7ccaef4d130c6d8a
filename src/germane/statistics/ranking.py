"""Measure how similar two ranked lists are."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from math import fsum

from germane.clean import counted
from germane.encoding import Line
from germane.errors import InputError


def rank_biased_overlap(a: Sequence[Hashable], b: Sequence[Hashable], p: float = 0.9) -> float:
    """Return the extrapolated rank-biased overlap (RBO_EXT) of two ranked lists, from 0 to 1.

    It is the expected agreement for a reader who continues to the next rank with probability p, assuming that
    the agreement at the end of the lists continues beyond them (Webber, Moffat and Zobel 2010, ACM TOIS 28,
    formula 32). The lists may differ in length; of a repeated item only the first place counts. Two empty
    lists have overlap 1.

    Raises:
        InputError: p is not strictly between 0 and 1.
    """
    if not 0 < p < 1:
        raise InputError(f"the persistence p={p} is not between 0 and 1", fix="write a number such as p=0.9")
    short, long_ = sorted((list(dict.fromkeys(a)), list(dict.fromkeys(b))), key=len)
    s, l = len(short), len(long_)  # noqa: E741 - the paper's letters
    if not s:
        return float(not l)
    seen_short, seen_long = set[Hashable](), set[Hashable]()
    overlap, overlap_at_s, total = 0, 0, 0.0
    for depth, item in enumerate(long_, 1):
        overlap += item in seen_short
        seen_long.add(item)
        if depth <= s:
            other = short[depth - 1]
            overlap += other in seen_long
            seen_short.add(other)
            overlap_at_s = overlap
        total += overlap / depth * p**depth
        if depth > s:
            total += overlap_at_s * (depth - s) / (s * depth) * p**depth
    return (1 - p) / p * total + ((overlap - overlap_at_s) / l + overlap_at_s / s) * p**l


class Overlap(Line):
    """The mean rank-biased overlap (p = 0.9) of a system's lists with those of another, over `n` queries."""

    mean: float
    n: int

    def __str__(self) -> str:
        return f"{self.mean:.4f} over {counted(self.n, 'query')} (p = 0.9; 1 = the same lists)"


def mean_overlap(overlaps: Iterable[float]) -> Overlap | None:
    """Return the mean of the overlaps, one per query; None if there are none."""
    values = list(overlaps)
    return Overlap(fsum(values) / len(values), len(values)) if values else None
