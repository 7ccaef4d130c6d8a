"""Measures that ask no judge: retrieved ids compared with gold, forbidden documents, repeated passages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from math import fsum, inf

from germane.measures.declaration import MeasureOptions, measure
from germane.measures.measure import Param, one_of
from germane.measures.outcome import NO_IDS, Item, Outcome, ok, proportion, skipped
from germane.places.lists import documents, passage_key, rankings, relevant
from germane.questions.text import words
from germane.types import Sample

TOGETHER = one_of("several searches: all of them together, or the final list alone", "union", "final")
_REL = Param(int, 1, "the lowest gold grade that counts as relevant", low=1)
NO_GOLD = "the sample's qrels have no relevant document"
_OF_SETS: MeasureOptions = {
    "needs": ("contexts", "qrels"),
    "reference": "LiveRAG; trec_eval set_recall, set_P, set_F",
    "nothing": "no relevant document known, or contexts without ids: skipped; nothing retrieved: 0",
    "params": {"rel": _REL, "over": TOGETHER},
    "answerable": True,
}
_OF_GROUPS: MeasureOptions = {
    "needs": ("contexts", "gold"),
    "nothing": "no gold groups, or contexts without ids: skipped; nothing retrieved: 0",
    "params": {"over": TOGETHER},
    "answerable": True,
}


def _over_lists(sample: Sample, over: str, k: int | None, value: Callable[[list[str]], Outcome]) -> Outcome:
    """Return the outcome that `value` computes from the ids of the retrieved documents.

    Only the first `k` contexts of each list are read. `over` says which lists are read: "union" or "final".
    The outcome is skipped if no context has an id.
    """
    lists = documents(sample, over, k)
    return skipped(NO_IDS) if lists is None else value(lists[0] if lists else [])


def _of_sets(
    sample: Sample, rel: int, over: str, value: Callable[[list[str], list[str]], Outcome]
) -> Outcome:
    gold = relevant(sample, rel)
    return _over_lists(sample, over, None, lambda ids: value(gold, ids)) if gold else skipped(NO_GOLD)


def _retrieved(gold: Sequence[str], ids: Sequence[str]) -> Outcome:
    retrieved = set(ids)
    return proportion([Item(name, name in retrieved) for name in gold], what="gold documents retrieved")


def _good(gold: Sequence[str], ids: Sequence[str]) -> Outcome:
    items = [Item(name.lstrip("\0")[:100], name in gold) for name in ids]
    return proportion(items, what="retrieved documents in the gold") if items else ok(0.0)


def _both(gold: Sequence[str], ids: Sequence[str]) -> Outcome:
    """Return the F1 of the retrieved documents `ids`: 2 * hits / (gold documents + retrieved documents)."""
    outcome = _retrieved(gold, ids)
    hits = sum(item.held is True for item in outcome.items)
    return ok(2 * hits / (len(gold) + len(ids)), items=outcome.items, what=outcome.what)


@measure(**_OF_SETS, formula="gold documents retrieved / gold documents")
def id_recall(sample: Sample, *, rel: int, over: str) -> Outcome:
    """Share of the gold documents that are retrieved, at any rank.

    With over=union, a document counts if any search retrieved it; with over=final, only the last list counts.
    """
    return _of_sets(sample, rel, over, _retrieved)


@measure(**_OF_SETS, formula="gold documents retrieved / distinct documents retrieved")
def id_precision(sample: Sample, *, rel: int, over: str) -> Outcome:
    """Share of the distinct retrieved documents that are gold. Chunks of a document count once."""
    return _of_sets(sample, rel, over, _good)


@measure(**_OF_SETS, formula="2 id_recall id_precision / (id_recall + id_precision)")
def id_f1(sample: Sample, *, rel: int, over: str) -> Outcome:
    """Harmonic mean of id_recall and id_precision."""
    return _of_sets(sample, rel, over, _both)


def _groups_hit(sample: Sample, ids: Sequence[str]) -> Outcome:
    """Return the share of the gold groups of which at least one document is in `ids`."""
    hits = ((group, [document for document in group if document in ids]) for group in sample.gold or ())
    items = [Item(" or ".join(group), bool(hit), f"by {hit[0]}" if hit else "") for group, hit in hits]
    return proportion(items, what="gold groups hit")


@measure(
    **_OF_GROUPS,
    formula="gold groups with a document in the top k / gold groups",
    reference="germane; gold as AND of ORs",
)
def group_recall(sample: Sample, *, over: str, k: int | None) -> Outcome:
    """Share of the gold groups from which at least one document is retrieved.

    Each group lists the documents that contain one needed fact.
    """
    return _over_lists(sample, over, k, lambda ids: _groups_hit(sample, ids))


@measure(
    **_OF_GROUPS,
    formula="1 if every gold group has a document in the top k, else 0",
    reference="germane; for multi-hop questions, of which half the evidence answers nothing",
)
def full_recall(sample: Sample, *, over: str, k: int | None) -> Outcome:
    """1 if at least one document of every gold group is retrieved, else 0."""
    hit: Outcome = group_recall.definition.compute(sample, over=over, k=k)
    return hit if hit.value is None else replace(hit, value=float(hit.value == 1.0))


@measure(
    needs=("contexts",),
    formula="contexts of the second and later searches that an earlier search brought / contexts of these searches",
    reference="germane",
    nothing="one search only, or nothing came back after the first: skipped",
    better="lower",
)
def repeat_rate(sample: Sample) -> Outcome:
    """Share of the contexts from later searches that an earlier search had already returned. Lower is better.

    Two contexts are the same if their texts are equal or, without texts, their ids.
    """
    lists = [contexts for _, contexts in rankings(sample)]
    if len(lists) < 2:
        return skipped("the sample has one search only")
    items: list[Item] = []
    seen = set(map(passage_key, lists[0]))
    for number, contexts in enumerate(lists[1:], 2):
        for position, context in enumerate(contexts, 1):
            name = f"Call {number}, position {position}: {context.id or context.text[:100]}"
            items.append(Item(name, passage_key(context) not in seen))
        seen.update(map(passage_key, contexts))
    if not items:
        return skipped("no later search returned a context")
    repeated = sum(item.held is False for item in items)
    return ok(repeated / len(items), items=items, what="contexts of later searches new")


@measure(
    needs=("contexts", "forbidden"),
    formula="number of distinct forbidden documents in the top k",
    reference="germane; gate: max(leaks)=0",
    nothing="no forbidden ids, or contexts without ids: skipped; nothing retrieved: 0",
    params={"over": TOGETHER},
    range=(0.0, inf),
    better="lower",
)
def leaks(sample: Sample, *, over: str, k: int | None) -> Outcome:
    """Number of forbidden documents (withdrawn, secret, another tenant's) retrieved. Lower is better."""
    lists = documents(sample, over, k)
    if lists is None:
        return skipped(NO_IDS)
    results = {document for ids in lists for document in ids}
    items = [Item(document, document not in results) for document in dict.fromkeys(sample.forbidden)]
    return ok(sum(item.held is False for item in items), items=items, what="forbidden documents kept out")


@measure(
    formula="1 if no context came back with a score above the floor, else 0; over unanswerable questions alone",
    reference="germane",
    nothing="the question is not marked answerable: false: skipped",
    params={"floor": Param(float, None, "contexts that score this or less do not count as retrieved")},
)
def abstained(sample: Sample, *, floor: float | None) -> Outcome:
    """1 if nothing is retrieved for a question that the corpus cannot answer, else 0.

    A context without a score counts as retrieved.
    """
    if sample.answerable is not False:
        return skipped("the sample is not marked as unanswerable (answerable: false)")
    retrieved = [context for _, contexts in rankings(sample) for context in contexts]
    kept = [c for c in retrieved if floor is None or c.score is None or c.score > floor]
    items = [Item(f"Position {n}: {c.id or c.text[:100]}", held=False) for n, c in enumerate(kept, 1)]
    return ok(
        float(not kept), items=items, what="contexts that should have come back for an unanswerable question"
    )


@measure(
    formula="mean over the contexts below the first: word n-grams also in a context above / its word n-grams",
    reference="germane; shingles as in Broder 1997",
    nothing="fewer than two contexts with text: skipped",
    params={"n": Param(int, 3, "how many words in a row must be the same", low=1), "over": TOGETHER},
    better="lower",
)
def context_redundancy(sample: Sample, *, n: int, over: str, k: int | None) -> Outcome:
    """Mean share of a context's word n-grams that also occur in a higher-ranked context. Lower is better.

    0 means that no n-gram is repeated, 1 that every context only repeats others. A context of fewer than n
    words is one n-gram. The first context is not counted.
    """
    lists = rankings(sample, final=over == "final")
    texts = [words(context.text) for _, contexts in lists for context in contexts[:k]]
    shingled = [
        {tuple(text[at : at + n]) for at in range(max(1, len(text) - n + 1))} for text in texts if text
    ]
    if len(shingled) < 2:
        return skipped("the sample has fewer than two contexts with text")
    seen = set(shingled[0])
    items = []
    for position, grams in enumerate(shingled[1:], 2):
        repeated = len(grams & seen) / len(grams)
        items.append(Item(f"Context {position}", repeated < 0.5, f"{repeated:.0%} repeated", worth=repeated))
        seen |= grams
    value = fsum(item.gained for item in items) / len(items)
    return ok(value, items=items, what="contexts mostly new")
