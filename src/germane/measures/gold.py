"""Measures that ask no judge: retrieved ids and texts compared with gold, forbidden documents, repeated passages."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import fsum, inf
from typing import NamedTuple

from germane.measures.declaration import MeasureOptions, measure
from germane.measures.measure import Param, one_of
from germane.measures.outcome import NO_CONTEXT, Decided, Item, Outcome, error, ok, proportion, skipped
from germane.places.lists import distinct_contexts, documents, passage_key, rankings, relevant
from germane.questions.text import folded_with_offsets, words
from germane.tables.scores import NO_IDS
from germane.types import Context, Evidence, Sample

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


def _retrieved(sample: Sample, over: str, k: int | None = None) -> Collection[str]:
    """Return the distinct document ids among the first `k` contexts (None = all) of each list."""
    lists = documents(sample, over, k)
    if lists is None:
        raise Decided(skipped(NO_IDS))
    return dict.fromkeys(lists[0] if lists else ())


def _gold(sample: Sample, rel: int) -> list[str]:
    """Return the ids of the gold documents with a grade of at least `rel`.

    Raises Decided if there are none; the sample is then skipped.
    """
    if not (gold := relevant(sample, rel)):
        raise Decided(skipped(NO_GOLD))
    return gold


@measure(**_OF_SETS, formula="gold documents retrieved / gold documents")
def id_recall(sample: Sample, *, rel: int, over: str) -> Outcome:
    """Share of the gold documents that are retrieved, at any rank.

    With over=union, a document counts if any search retrieved it; with over=final, only the last list counts.
    """
    gold, ids = _gold(sample, rel), _retrieved(sample, over)
    return proportion([Item(name, name in ids) for name in gold], what="gold documents retrieved")


@measure(**_OF_SETS, formula="gold documents retrieved / distinct documents retrieved")
def id_precision(sample: Sample, *, rel: int, over: str) -> Outcome:
    """Share of the distinct retrieved documents that are gold. Chunks of a document count once."""
    gold, ids = _gold(sample, rel), _retrieved(sample, over)
    items = [Item(name.lstrip("\0")[:100], name in gold) for name in ids]
    what, lacking = "retrieved documents in the gold", "not in the gold"
    return proportion(items, what=what, lacking=lacking) if items else ok(0.0)


@measure(**_OF_SETS, formula="2 id_recall id_precision / (id_recall + id_precision)")
def id_f1(sample: Sample, *, rel: int, over: str) -> Outcome:
    """Harmonic mean of id_recall and id_precision."""
    gold, ids = _gold(sample, rel), _retrieved(sample, over)
    items = [Item(name, name in ids) for name in gold]
    hits = sum(item.held is True for item in items)
    return ok(2 * hits / (len(gold) + len(ids)), items=items, what="gold documents retrieved")


@measure(
    **_OF_GROUPS,
    formula="gold groups with a document in the top k / gold groups",
    reference="germane; gold as AND of ORs",
)
def group_recall(sample: Sample, *, over: str, k: int | None) -> Outcome:
    """Share of the gold groups from which at least one document is retrieved.

    Each group lists the documents that contain one needed fact.
    """
    ids = _retrieved(sample, over, k)
    hits = ((group, [document for document in group if document in ids]) for group in sample.gold or ())
    items = [Item(" or ".join(group), bool(hit), f"by {hit[0]}" if hit else "") for group, hit in hits]
    return proportion(items, what="gold groups hit")


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
    return ok(repeated / len(items), items=items, what="contexts of later searches new", lacking="repeated")


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
    ids = _retrieved(sample, over, k)
    items = [Item(document, document not in ids) for document in dict.fromkeys(sample.forbidden)]
    leaked = sum(item.held is False for item in items)
    return ok(leaked, items=items, what="forbidden documents kept out", lacking="retrieved")


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
    kept = [c for c in sample.retrieved() if floor is None or c.score is None or c.score > floor]
    items = [Item(f"Position {n}: {c.id or c.text[:100]}", held=False) for n, c in enumerate(kept, 1)]
    what = "contexts kept out, though the question is unanswerable"
    return ok(float(not kept), items=items, what=what, lacking="retrieved")


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
    return ok(value, items=items, what="contexts mostly new", lacking="mostly repeated")


# Gold text (evidence): document ids change with the chunks, and chunk precision rises with their size; the
# words of gold text do neither. A chunk and a quote overlap if the chunk holds the quote, lies within it, or
# ends or starts with a part of it; words that merely occur in both do not count.

_OF_EVIDENCE: MeasureOptions = {
    "needs": ("contexts", "evidence"),
    "reference": "Smith and Troynikov (Chroma, 2024)",
    "nothing": "no evidence: skipped; nothing retrieved: 0; an ambiguous quote: error",
    "answerable": True,
}


def _of_pieces(sample: Sample, k: int | None, value: Callable[[Coverage], float]) -> Outcome:
    """Return a sample's outcome, whose score is `value(coverage)` and whose items are the pieces of evidence."""
    result = _cover(sample, k)
    items, pieces = [], dict.fromkeys(sample.evidence or ())
    for piece, share, size in zip(pieces, result.shares, result.sizes, strict=True):
        name = piece.quote or f"{piece.doc}[{piece.start}:{piece.end}]"
        items.append(Item(name, share == 1.0, f"{share:.0%} covered", weight=size, worth=share))
    return ok(value(result), items=items, what="pieces of evidence whole", lacking="not whole")


def _cover(sample: Sample, k: int | None) -> Coverage:
    """Return how much of the evidence the first `k` contexts of each search contain."""
    contexts = distinct_contexts(sample, k)
    if not contexts:
        raise Decided(NO_CONTEXT)
    if not any(context.id for context in contexts) and any(piece.doc for piece in sample.evidence or ()):
        raise Decided(skipped(NO_IDS))
    try:
        return cover(sample.evidence or (), contexts)
    except ValueError as wrong:
        raise Decided((skipped if "has no start" in str(wrong) else error)(str(wrong))) from None


@measure(**_OF_EVIDENCE, formula="words of the gold evidence that the contexts hold / its words")
def evidence_recall(sample: Sample, *, k: int | None) -> Outcome:
    """Share of the gold evidence (quotes, or offsets in a document) that is retrieved.

    The distinct contexts among the first k of each search are read. Evidence is counted in words; in scripts
    without spaces, and for evidence with offsets but no quote, it is counted in characters. A piece of which
    a part is retrieved counts by that part. Offsets (`start`, `end`) are used if both evidence and context
    have them.
    """
    return _of_pieces(sample, k, lambda coverage: coverage.covered / fsum(coverage.sizes))


@measure(
    **_OF_EVIDENCE,
    formula="words of the contexts that are gold evidence, each piece of it once / words of the contexts",
)
def evidence_precision(sample: Sample, *, k: int | None) -> Outcome:
    """Share of the retrieved text that is gold evidence.

    Evidence that occurs in several chunks counts once. Words are counted as for evidence_recall.
    """
    result = _cover(sample, k)
    items = [
        Item(f"Context {n}", new > 0, f"{new:g} of {length:g}")
        for n, (new, length) in enumerate(zip(result.news, result.lengths, strict=True), 1)
    ]
    share = fsum(result.news) / (fsum(result.lengths) or 1.0)
    return ok(share, items=items, what="contexts hold new evidence", lacking="nothing new")


@measure(
    **_OF_EVIDENCE,
    formula="evidence held / (words of the contexts + words of the evidence that they do not hold)",
    aliases=("iou", "evidence_iou"),
)
def IoU(sample: Sample, *, k: int | None) -> Outcome:
    """Intersection over union of the retrieved text and the gold evidence.

    Words are counted as for evidence_recall.
    """

    def value(coverage: Coverage) -> float:
        union = fsum(coverage.lengths) + fsum(coverage.sizes) - coverage.covered
        return fsum(coverage.news) / union if union else 0.0

    return _of_pieces(sample, k, value)


EDGE = 3
"""The fewest words that a chunk and a quote must have in common if the chunk lacks a part of the quote."""

_TOKEN = re.compile(
    "[\u0e4d\u0ecd][\u0e32\u0eb2]|"  # one vowel of Thai and Lao, which NFKC takes apart
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff]|"
    "[^\\W_\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff]+"
)
"""A word, or one character of a script without spaces between words."""


class Token(NamedTuple):
    """One word of a string, normalised for comparison, with its character offsets in the string."""

    word: str
    start: int
    end: int


def tokens(text: str) -> list[Token]:
    """Return the words of a string, in order; a character of a script without spaces is one word."""
    whole, starts, ends = folded_with_offsets(text)
    return [Token(match[0], starts[match.start()], ends[match.end() - 1]) for match in _TOKEN.finditer(whole)]


@dataclass(frozen=True, slots=True)
class Coverage:
    """How much of a sample's evidence its contexts contain.

    `shares` is the covered proportion of each piece of evidence, and `sizes` the length of each piece. `news`
    is the amount of evidence in each context that no earlier context contains. `lengths` is the length of
    each context. Lengths are in words, or in characters if a piece of evidence has only offsets.
    """

    shares: tuple[float, ...]
    sizes: tuple[float, ...]
    news: tuple[float, ...]
    lengths: tuple[float, ...]

    @property
    def covered(self) -> float:
        """The total length of the evidence that is covered."""
        return fsum(share * size for share, size in zip(self.shares, self.sizes, strict=True))


def cover(evidence: Sequence[Evidence], contexts: Sequence[Context]) -> Coverage:
    """Return how much of the evidence the contexts contain.

    Raises ValueError if this cannot be determined: evidence is empty or ambiguous, or a context has no
    offsets although a piece of evidence has only offsets.
    """
    pieces = {piece: tokens(piece.quote or "") for piece in evidence}
    for piece, quote in pieces.items():
        if piece.quote and not quote:
            raise ValueError(f"the quoted evidence {piece.quote!r} contains no words")
    in_words = all(piece.quote for piece in pieces)

    def size(words: Iterable[Token]) -> float:
        return sum(1.0 if in_words else float(len(token.word)) for token in words)

    covered: dict[Evidence, set[int]] = {piece: set() for piece in pieces}
    news, lengths = [], []
    for context in contexts:
        text, fresh = tokens(context.text), set[int]()
        for piece, quote in pieces.items():
            word_of = _words_of(piece, quote, context, text)
            fresh |= {word for word, gold in word_of.items() if gold not in covered[piece]}
            covered[piece].update(word_of.values())
        news.append(size(text[word] for word in fresh))
        lengths.append(size(text))
    shares, sizes = [], []
    for piece, quote in pieces.items():
        shares.append(len(covered[piece]) / len(quote) if quote else _share(piece, contexts))
        sizes.append(size(quote) if quote else float((piece.end or 0) - (piece.start or 0)))
    return Coverage(tuple(shares), tuple(sizes), tuple(news), tuple(lengths))


def _share(piece: Evidence, contexts: Sequence[Context]) -> float:
    """Return the proportion of a piece of evidence that the contexts cover, computed from offsets."""
    first, last = piece.start or 0, piece.end or 0
    if first == last:
        raise ValueError(f"the evidence in {piece.doc} from {first} to {last} is empty; write start < end")
    spans = []
    for context in contexts:
        if context.id == piece.doc:
            start = context.metadata.get("start")
            if type(start) is not int:
                raise ValueError(
                    f"a context of {piece.doc} has no start and end in its document; add both fields"
                )
            spans.append((start, context.metadata.get("end", start + len(context.text))))
    covered, reached = 0, first
    for start, end in sorted(spans):
        covered += max(0, min(end, last) - max(start, reached))
        reached = max(reached, min(end, last))
    return covered / (last - first)


def _words_of(
    piece: Evidence, quote: Sequence[Token], context: Context, text: Sequence[Token]
) -> Mapping[int, int]:
    """Return the words of a context that belong to a piece of evidence; {} if there are none.

    `quote` and `text` are the words of the evidence and of the context. Each key is a word's index in `text`.
    The value is its index in `quote`, or its offset in the document if the evidence has no quote. Raises
    ValueError if the quote occurs twice.
    """
    if piece.doc is not None and context.id != piece.doc:
        return {}
    shift = context.metadata.get("start")
    if piece.start is not None and piece.end is not None and type(shift) is int:
        gold = {piece.start + token.start: n for n, token in enumerate(quote)}
        positions = ((at, shift + token.start) for at, token in enumerate(text))
        return {
            at: gold.get(position, position)
            for at, position in positions
            if piece.start <= position < piece.end and (not quote or position in gold)
        }
    words, values = [token.word for token in quote], [token.word for token in text]
    if not words or not values:
        return {}
    # without offsets: the longest overlap of the quote and the text
    shifts = [at for at, word in enumerate(values) if word == words[0]]
    shifts += [-at for at, word in enumerate(words) if at and word == values[0]]
    overlaps = []
    for shift in shifts:
        low, high = max(0, shift), min(len(values), shift + len(words))
        if values[low:high] == words[low - shift : high - shift]:
            overlaps.append((high - low, -shift))
    if sum(length == len(words) for length, _ in overlaps) > 1:
        raise ValueError(
            f"ambiguous evidence: {' '.join(words)[:60]!r} occurs twice in one context; quote a longer passage"
        )
    length, shift = max(overlaps, default=(0, 0))
    if length < min(EDGE, len(words)):
        return {}
    low = max(0, -shift)
    return {at: at + shift for at in range(low, low + length)}
