"""How much the contexts repeat each other, counted in words: no judge, no embedding."""

from __future__ import annotations

from math import fsum

from germane.measures.defining import measure
from germane.measures.measure import Param
from germane.measures.outcome import Item, Outcome, ok, skipped
from germane.measures.passages import rankings
from germane.questions.text import words
from germane.types import Sample

__all__ = ["context_redundancy"]


@measure(
    "context_redundancy",
    needs=("contexts",),
    formula="mean over the contexts below the first of: word n-grams that stand in a context above / its word n-grams",
    reference="germane; shingles as in Broder, On the Resemblance and Containment of Documents (1997)",
    nothing="fewer than two contexts with text: skipped",
    params={
        "n": Param(int, 3, "how many words in a row must be the same", low=1),
        "over": Param(
            str, "union", "several searches: one after the other, or the final list alone", ("union", "final")
        ),
    },
    cutoff="optional",
    better="lower",
)
def context_redundancy(sample: Sample, *, n: int, over: str, k: int | None) -> Outcome:
    """Share of what comes below the first context that a reader has read already. Lower is better.

    0: every passage says something else; 1: ten identical passages. A context shorter than n words is one n-gram.
    """
    texts = [c.text for _, contexts in rankings(sample, final=over == "final") for c in contexts[:k]]
    shingled = [grams for text in texts if (grams := _shingles(text, n))]
    if len(shingled) < 2:
        return skipped("fewer than two contexts with text")
    seen = set(shingled[0])
    items = []
    for position, grams in enumerate(shingled[1:], 2):
        repeated = len(grams & seen) / len(grams)
        items.append(Item(f"Context {position}", repeated < 0.5, f"{repeated:.0%} repeated", worth=repeated))
        seen |= grams
    value = fsum(item.gained for item in items) / len(items)
    return ok(value, items=items, what="contexts mostly new")


def _shingles(text: str, n: int) -> frozenset[tuple[str, ...]]:
    found = words(text)
    return (
        frozenset(tuple(found[at : at + n]) for at in range(max(1, len(found) - n + 1)))
        if found
        else frozenset()
    )
