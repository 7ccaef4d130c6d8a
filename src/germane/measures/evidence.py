"""Measures of how much gold text (evidence) was retrieved, however the documents are cut into chunks.

If documents are cut into other chunks, the chunks' ids change, and so does precision counted in chunks. The
words of gold text stay the same. A chunk and a quote overlap if the chunk contains the quote, lies within it,
or ends or starts with a part of it. Words that occur in both without such an overlap do not count.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import NamedTuple

from germane.measures.declaration import MeasureOptions, measure
from germane.measures.outcome import NO_CONTEXT, Item, Outcome, error, ok, skipped
from germane.places.lists import distinct_contexts
from germane.questions.text import folded_with_offsets
from germane.types import Context, Evidence, Sample

_OF_EVIDENCE: MeasureOptions = {
    "needs": ("contexts", "evidence"),
    "reference": "Smith and Troynikov (Chroma, 2024)",
    "nothing": "no evidence: skipped; nothing retrieved: 0; an ambiguous quote: error",
    "answerable": True,
}


def _of_pieces(sample: Sample, k: int | None, value: Callable[[Coverage], float]) -> Outcome:
    """Return the outcome for a sample, with the pieces of evidence as items.

    `value` computes the score from the coverage by the first `k` contexts of each search.
    """
    result = _cover(sample, k)
    if isinstance(result, Outcome):
        return result
    items, pieces = [], dict.fromkeys(sample.evidence or ())
    for piece, share, size in zip(pieces, result.shares, result.sizes, strict=True):
        name = piece.quote or f"{piece.doc}[{piece.start}:{piece.end}]"
        items.append(Item(name, share == 1.0, f"{share:.0%} covered", weight=size, worth=share))
    return ok(value(result), items=items, what="pieces of evidence whole")


def _cover(sample: Sample, k: int | None) -> Coverage | Outcome:
    """Return how much of the evidence the first `k` contexts of each search contain.

    Returns an outcome instead if this cannot be computed: a score of 0 if nothing was retrieved, else skipped
    or error.
    """
    contexts = distinct_contexts(sample, k)
    if not contexts:
        return NO_CONTEXT
    if not any(context.id for context in contexts) and any(piece.doc for piece in sample.evidence or ()):
        return skipped("the contexts have no document ids")
    try:
        return cover(sample.evidence or (), contexts)
    except ValueError as wrong:
        return (skipped if "has no start" in str(wrong) else error)(str(wrong))


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
    if isinstance(result, Outcome):
        return result
    items = [
        Item(f"Context {n}", new > 0, f"{new:g} of {length:g}")
        for n, (new, length) in enumerate(zip(result.news, result.lengths, strict=True), 1)
    ]
    total = fsum(result.lengths)
    return ok(fsum(result.news) / total if total else 0.0, items=items, what="contexts hold new evidence")


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
    """Return the proportion of a piece of evidence that the contexts cover, computed from offsets.

    Raises ValueError if the piece is empty, or if a context of its document has no `start`.
    """
    first, last = piece.start or 0, piece.end or 0
    if first == last:
        raise ValueError(f"the evidence in {piece.doc} from {first} to {last} is empty; write start < end")
    spans = []
    for context in contexts:
        if context.id == piece.doc:
            start = _start(context)
            if start is None:
                raise ValueError(
                    f"a context of {piece.doc} has no start and end in its document; add both fields"
                )
            spans.append((start, context.metadata.get("end", start + len(context.text))))
    covered, reached = 0, first
    for start, end in sorted(spans):
        covered += max(0, min(end, last) - max(start, reached))
        reached = max(reached, min(end, last))
    return covered / (last - first)


def _start(context: Context) -> int | None:
    start = context.metadata.get("start")
    return start if type(start) is int else None


def _words_of(
    piece: Evidence, quote: Sequence[Token], context: Context, text: Sequence[Token]
) -> Mapping[int, int]:
    """Return the words of a context that belong to a piece of evidence.

    The keys are their indices in `text`. The values are their indices in `quote`, or their offsets in the
    document if the evidence has no quote. Raises ValueError if the quote occurs twice.
    """
    if piece.doc is not None and context.id != piece.doc:
        return {}
    shift = _start(context)
    if piece.start is None or piece.end is None or shift is None:
        return _by_words(quote, text)
    gold = {piece.start + token.start: n for n, token in enumerate(quote)}
    positions = ((at, shift + token.start) for at, token in enumerate(text))
    return {
        at: gold.get(position, position)
        for at, position in positions
        if piece.start <= position < piece.end and (not quote or position in gold)
    }


def _by_words(quote: Sequence[Token], text: Sequence[Token]) -> dict[int, int]:
    """Return the longest overlap of a quote and a text, as {word index in `text`: word index in `quote`}.

    The result is empty if they do not overlap. Raises ValueError if the whole quote occurs twice in the text.
    """
    words, values = [token.word for token in quote], [token.word for token in text]
    if not words or not values:
        return {}
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
