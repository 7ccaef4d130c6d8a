"""How much of the gold text came back, and how little else: measures that survive another way of cutting documents.

Ids change when chunks do, and chunk precision rises when chunks merely grow; words of gold text do neither. A chunk of a
document and a quote of it overlap in one of four ways: the chunk holds the quote, lies within it, ends in it, or starts
in it. Only these are looked for, so that words which merely occur in both count for nothing. Where no corpus is at hand,
a quote that stands in no retrieved context is not covered; `locate` says whether it stands in a corpus, and only once.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import fsum

from germane.errors import InputError
from germane.measures.declaration import MeasureOptions, measure
from germane.measures.labels import distinct_contexts
from germane.measures.outcome import NO_CONTEXT, Item, Outcome, error, ok, skipped
from germane.types import Context, Evidence, Sample

_OF_EVIDENCE: MeasureOptions = {
    "needs": ("contexts", "evidence"),
    "reference": "Smith and Troynikov, Evaluating Chunking Strategies for Retrieval (Chroma, 2024)",
    "nothing": "no evidence: skipped; nothing retrieved: 0; an ambiguous quote: error",
    "answerable": True,
}


def _cover(sample: Sample, k: int | None) -> Coverage | Outcome:
    contexts = distinct_contexts(sample, k)
    if not contexts:
        return NO_CONTEXT
    if not any(context.id for context in contexts) and any(piece.doc for piece in sample.evidence or ()):
        return skipped("the contexts have no document ids")
    try:
        return cover(sample.evidence or (), contexts)
    except ValueError as wrong:
        unknown = "has no start" in str(wrong)
        return skipped(str(wrong)) if unknown else error(str(wrong))


def _pieces(sample: Sample, found: Coverage) -> list[Item]:
    pieces = dict.fromkeys(sample.evidence or ())
    return [
        Item(_name(piece), share == 1.0, f"{share:.0%} covered", weight=size, worth=share)
        for piece, share, size in zip(pieces, found.shares, found.sizes, strict=True)
    ]


def _name(piece: Evidence) -> str:
    return piece.quote or f"{piece.doc}[{piece.start}:{piece.end}]"


def _covered(found: Coverage) -> float:
    return fsum(share * size for share, size in zip(found.shares, found.sizes, strict=True))


@measure(
    shared=_OF_EVIDENCE,
    formula="words of the gold evidence that the contexts hold / its words",
)
def evidence_recall(sample: Sample, *, k: int | None) -> Outcome:
    """Share of the gold evidence (quotes, or offsets in a document) that came back.

    Counted in words (in scripts that do not space them: characters) of the distinct contexts of all searches, each the
    first k; in characters where a piece of evidence has offsets and no quote. A piece that chunks hold in parts is
    covered as far as they reach. Offsets are used where evidence and context both have them (`start`, `end`).
    """
    found = _cover(sample, k)
    if isinstance(found, Outcome):
        return found
    return ok(
        _covered(found) / fsum(found.sizes), items=_pieces(sample, found), what="pieces of evidence whole"
    )


@measure(
    shared=_OF_EVIDENCE,
    formula="words of the contexts that are gold evidence, each piece of it once / words of the contexts",
)
def evidence_precision(sample: Sample, *, k: int | None) -> Outcome:
    """Share of the retrieved text that is gold evidence. Evidence that comes twice, in overlapping chunks, counts once.

    Counted as for evidence_recall.
    """
    found = _cover(sample, k)
    if isinstance(found, Outcome):
        return found
    items = [
        Item(f"Context {n}", new > 0, f"{new:g} of {length:g}")
        for n, (new, length) in enumerate(zip(found.news, found.lengths, strict=True), 1)
    ]
    total = fsum(found.lengths)
    return ok(fsum(found.news) / total if total else 0.0, items=items, what="contexts hold new evidence")


@measure(
    shared=_OF_EVIDENCE,
    formula="evidence held / (words of the contexts + words of the evidence that they do not hold)",
    aliases=("iou", "evidence_iou"),
)
def IoU(sample: Sample, *, k: int | None) -> Outcome:
    """Intersection over union of the retrieved text and the gold evidence: falls with each word too much or too few.

    Counted as for evidence_recall.
    """
    found = _cover(sample, k)
    if isinstance(found, Outcome):
        return found
    held = fsum(found.news)
    union = fsum(found.lengths) + fsum(found.sizes) - _covered(found)
    return ok(held / union if union else 0.0, items=_pieces(sample, found), what="pieces of evidence whole")


EDGE = 3
"""The fewest words by which a chunk and a quote must overlap where neither holds all of the quote."""

_TOKEN = re.compile(
    "[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff]|"
    "[^\\W_\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\U00020000-\U0003ffff]+"
)
"""A word; where a script does not space its words, a character."""


@dataclass(frozen=True, slots=True)
class Token:
    """One word of a text as it is compared, with its offsets in characters."""

    word: str
    start: int
    end: int


def tokens(text: str) -> list[Token]:
    """The words of a text in order."""
    return [Token(_folded(found[0]), found.start(), found.end()) for found in _TOKEN.finditer(text)]


def _folded(word: str) -> str:
    return word.lower() if word.isascii() else unicodedata.normalize("NFKC", word).casefold()


@dataclass(frozen=True, slots=True)
class Coverage:
    """What the contexts hold of the evidence.

    `shares` is the part of each piece that is covered, `sizes` how much each piece counts. `news` is what each context
    holds of evidence that no context before it held, `lengths` how long each context is. The unit of all is the word,
    or the character where a piece is given by its offsets alone.
    """

    shares: tuple[float, ...]
    sizes: tuple[float, ...]
    news: tuple[float, ...]
    lengths: tuple[float, ...]


def cover(evidence: Sequence[Evidence], contexts: Sequence[Context]) -> Coverage:
    """How far contexts cover pieces of evidence; ValueError where that is not known."""
    pieces = list(dict.fromkeys(evidence))
    in_words = all(piece.quote for piece in pieces)
    texts = [tokens(context.text) for context in contexts]
    sizes = [[1.0 if in_words else float(len(token.word)) for token in text] for text in texts]
    held = [_held(piece, contexts, texts) for piece in pieces]
    seen: list[set[int]] = [set() for _ in pieces]
    news = []
    for at, weights in enumerate(sizes):
        fresh = {
            token
            for piece, found in enumerate(held)
            for token, gold in found[at].items()
            if gold not in seen[piece]
        }
        news.append(sum(weights[token] for token in fresh))
        for piece, found in enumerate(held):
            seen[piece].update(found[at].values())
    whole = [_size(piece, in_words=in_words) for piece in pieces]
    shares = [_share(piece, got, contexts) for piece, got in zip(pieces, seen, strict=True)]
    return Coverage(tuple(shares), tuple(whole), tuple(news), tuple(map(sum, sizes)))


def _size(piece: Evidence, *, in_words: bool) -> float:
    if piece.quote:
        found = tokens(piece.quote)
        return float(len(found) if in_words else sum(len(token.word) for token in found))
    return float((piece.end or 0) - (piece.start or 0))


def _share(piece: Evidence, got: set[int], contexts: Sequence[Context]) -> float:
    if piece.quote:
        return len(got) / len(tokens(piece.quote))
    assert piece.start is not None
    assert piece.end is not None
    if piece.end == piece.start:
        raise ValueError(f"the evidence in {piece.doc} from {piece.start} to {piece.end} is empty")
    covered, reached = 0, piece.start
    for start, end in sorted(_spans(piece, contexts)):
        covered += max(0, min(end, piece.end) - max(start, reached))
        reached = max(reached, min(end, piece.end))
    return covered / (piece.end - piece.start)


def _spans(piece: Evidence, contexts: Sequence[Context]) -> Iterator[tuple[int, int]]:
    for context in contexts:
        if context.id == piece.doc:
            start = _start(context)
            if start is None:
                raise ValueError(f"a context of {piece.doc} has no start and end in its document")
            yield start, context.metadata.get("end", start + len(context.text))


def _start(context: Context) -> int | None:
    start = context.metadata.get("start")
    return start if type(start) is int else None


def _held(
    piece: Evidence, contexts: Sequence[Context], texts: Sequence[Sequence[Token]]
) -> list[Mapping[int, int]]:
    """For each context: which of its words is which word of the piece (by offset, where a piece has no quote)."""
    quote = tokens(piece.quote or "")
    if piece.quote and not quote:
        raise ValueError(f"the evidence {piece.quote!r} has no words")
    found: list[Mapping[int, int]] = []
    for context, text in zip(contexts, texts, strict=True):
        start = _start(context)
        if piece.doc is not None and context.id != piece.doc:
            found.append({})
        elif piece.start is not None and piece.end is not None and start is not None:
            found.append(_by_offset(piece, quote, start, text))
        else:
            found.append(_by_words(quote, text))
    return found


def _by_offset(piece: Evidence, quote: Sequence[Token], start: int, text: Sequence[Token]) -> dict[int, int]:
    assert piece.start is not None
    assert piece.end is not None
    gold = {piece.start + token.start: n for n, token in enumerate(quote)}
    found = {}
    for at, token in enumerate(text):
        place = start + token.start
        if piece.start <= place < piece.end and (not quote or place in gold):
            found[at] = gold.get(place, place)
    return found


def _by_words(quote: Sequence[Token], text: Sequence[Token]) -> dict[int, int]:
    """The longest of the overlaps; ValueError where the whole quote stands in one context twice."""
    wanted, given = [token.word for token in quote], [token.word for token in text]
    if not wanted or not given:
        return {}
    shifts = [at for at, word in enumerate(given) if word == wanted[0]]
    shifts += [-at for at, word in enumerate(wanted) if at and word == given[0]]
    overlaps = []
    for shift in shifts:
        low, high = max(0, shift), min(len(given), shift + len(wanted))
        if given[low:high] == wanted[low - shift : high - shift]:
            overlaps.append((high - low, -shift))
    if sum(length == len(wanted) for length, _ in overlaps) > 1:
        raise ValueError(
            f"ambiguous evidence: {' '.join(wanted)[:60]!r} stands in one context twice; quote more of it"
        )
    length, shift = max(overlaps, default=(0, 0))
    if length < min(EDGE, len(wanted)):
        return {}
    low = max(0, -shift)
    return {at: at + shift for at in range(low, low + length)}


def locate(evidence: Evidence, corpus: Mapping[str, str]) -> Evidence:
    """A quote with the document and offsets where it stands in the corpus (document id -> text).

    InputError where it stands nowhere or in more than one place: gold like that measures nothing. Evidence that has its
    offsets already is only checked to lie within its document.
    """
    if evidence.quote is None:
        text = corpus.get(evidence.doc or "")
        if text is None or not 0 <= (evidence.start or 0) <= (evidence.end or 0) <= len(text):
            raise InputError(
                f"the corpus has no {evidence.doc} from {evidence.start} to {evidence.end}",
                fix="mend the evidence",
            )
        return evidence
    wanted = [token.word for token in tokens(evidence.quote)]
    places = []
    for doc, text in corpus.items():
        if evidence.doc in {None, doc}:
            given = tokens(text)
            starts = (n for n in range(len(given) - len(wanted) + 1) if given[n].word == wanted[0])
            places += [
                (doc, given[n].start, given[n + len(wanted) - 1].end)
                for n in starts
                if [token.word for token in given[n : n + len(wanted)]] == wanted
            ]
    if len(places) == 1:
        return Evidence(quote=evidence.quote, doc=places[0][0], start=places[0][1], end=places[0][2])
    where = (
        "nowhere in the corpus"
        if not places
        else f"in {len(places)} places: {', '.join(p[0] for p in places[:3])}"
    )
    fix = "quote the document's own words" if not places else "quote more of it, or name its doc"
    raise InputError(f"the evidence {evidence.quote[:60]!r} stands {where}", fix=fix)
