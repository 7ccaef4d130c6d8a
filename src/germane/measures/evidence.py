"""How much of the gold text came back, and how little else: measures that survive another way of cutting documents.

Ids change when chunks do, and chunk precision rises when chunks merely grow; words of gold text do neither. Where no
corpus is at hand, a quote that stands in no retrieved context is simply not covered; whether it stands in the corpus at
all, and only once, is for `germane.measures.spans.locate` to say.
"""

from __future__ import annotations

from math import fsum

from germane.measures.defining import measure
from germane.measures.judged import NO_CONTEXT
from germane.measures.outcome import Item, Outcome, error, ok, skipped
from germane.measures.passages import distinct_contexts
from germane.measures.spans import Coverage, cover
from germane.types import Evidence, Sample

__all__ = ["IoU", "evidence_precision", "evidence_recall"]

_SOURCE = "Smith and Troynikov, Evaluating Chunking Strategies for Retrieval (Chroma, 2024)"
_NOTHING = "no evidence: skipped; nothing retrieved: 0; an ambiguous quote: error"


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
    "evidence_recall",
    needs=("contexts", "evidence"),
    formula="words of the gold evidence that the contexts hold / its words",
    reference=_SOURCE,
    nothing=_NOTHING,
    answerable=True,
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
    "evidence_precision",
    needs=("contexts", "evidence"),
    formula="words of the contexts that are gold evidence, each piece of it once / words of the contexts",
    reference=_SOURCE,
    nothing=_NOTHING,
    answerable=True,
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
    "IoU",
    needs=("contexts", "evidence"),
    formula="evidence held / (words of the contexts + words of the evidence that they do not hold)",
    reference=_SOURCE,
    nothing=_NOTHING,
    answerable=True,
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
