"""Random label tables and plain Python formulas for the tests of the ranked measures."""

from __future__ import annotations

from hypothesis import strategies as st

from germane.measures import Measure
from germane.measures.measure import definitions
from germane.places.table import RankedLabels

Row = tuple[list[int | None], list[int]]

grades = st.integers(-1, 3)
rows: st.SearchStrategy[Row] = st.tuples(
    st.lists(st.none() | grades, max_size=12), st.lists(grades, max_size=6)
)
"""The grade at each rank (None = unjudged), and the grades of gold documents that did not come back."""


def table(*given: Row, rel: int = 1) -> RankedLabels:
    judged = [[g for g in ranked if g is not None] + rest for ranked, rest in given]
    return RankedLabels.of_lists([ranked for ranked, _ in given], judged, rel=rel)


def every_ranked_measure() -> list[Measure]:
    """Each ranked measure with and without a cut-off, on both gains and hole policies, over gold labels."""
    found: list[Measure] = []
    for known in definitions():
        if known.family != "ranked":
            continue
        plain = Measure.parse(known.title + {"required": "@3", "recall": "@0.3"}.get(known.cutoff, ""))
        variants = [plain, *([plain @ 3] if known.cutoff == "optional" else [])]
        others: dict[str, str | float] = {"dcg": "exp-log2", "holes": "condensed", "p": 0.5}
        found += variants
        found += [
            one(**{name: value}) for name, value in others.items() if name in known.params for one in variants
        ]
    return found
