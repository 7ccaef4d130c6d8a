"""How many of the reference's entities the contexts hold, and when two spellings are the same entity."""

from __future__ import annotations

import difflib
import unicodedata

from germane.measures.defining import measure
from germane.measures.judged import nothing_in
from germane.measures.measure import Param
from germane.measures.outcome import Item, Outcome, error, proportion
from germane.measures.passages import distinct_contexts, texts_of, turns
from germane.questions import Entities
from germane.questions.asking import Program, Unanswered, ask_all
from germane.types import Sample

__all__ = ["alike", "context_entity_recall", "plain"]

SIMILAR = 0.85
"""The similarity (difflib's ratio) from which two spellings are one entity where match=fuzzy."""
_MATCH = Param(
    str,
    "exact",
    "when two spellings are one entity: equal once made plain, or similar too",
    ("exact", "fuzzy"),
)


@measure(
    "context_entity_recall",
    needs=("contexts", "reference"),
    formula="size(RCE & RE) / size(RE); RE, RCE = distinct entities of the reference, of the contexts",
    reference="Ragas context_entity_recall",
    nothing="no entities in the reference: skipped; nothing retrieved: 0",
    calls="1 a reference + 1 a context (shared with its relevance)",
    params={"match": _MATCH},
    answerable=True,
    aliases=("context_entities_recall",),
)
def context_entity_recall(sample: Sample, *, match: str) -> Program[Outcome]:
    """Share of the reference's distinct entities that stand in the contexts: names, places, dates, numbers.

    Compared after Unicode NFKC, case folding, and without white space and punctuation at the edges. match=fuzzy also
    takes similar spellings, and a name that is part of the other ("Curie", "Marie Curie"); never two numbers.
    """
    contexts = distinct_contexts(sample)
    if nothing := nothing_in(contexts):
        return nothing
    texts = [sample.reference or "", *texts_of(contexts)]
    of_reference, *of_contexts = yield from ask_all(
        Entities(sample.query, text, turns(sample)) for text in texts
    )
    if isinstance(of_reference, Unanswered):
        return error(of_reference.why)
    wanted: dict[str, str] = {}
    for entity in of_reference:
        wanted.setdefault(plain(entity), entity)
    held = {plain(entity) for found in of_contexts if not isinstance(found, Unanswered) for entity in found}
    missing = [found for found in of_contexts if isinstance(found, Unanswered)]
    items = [_item(entity, _held(key, held, match), missing) for key, entity in wanted.items()]
    return proportion(
        items, nothing="the reference has no entities", what="entities of the reference in the contexts"
    )


def _item(entity: str, held: bool, missing: list[Unanswered]) -> Item:
    """An entity that was not found is only known to be missing where every context was read."""
    return Item(entity, None, missing[0].why) if missing and not held else Item(entity, held)


def _held(key: str, held: set[str], match: str) -> bool:
    return key in held or (match == "fuzzy" and any(alike(key, other) for other in held))


def plain(entity: str) -> str:
    """An entity as it is compared: NFKC, case folded, single spaces, no punctuation or white space at the edges."""
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", entity).casefold())
    start, end = 0, len(text)
    while start < end and _edge(text[start]):
        start += 1
    while end > start and _edge(text[end - 1]):
        end -= 1
    return " ".join((text[start:end] or text).split())


def _edge(char: str) -> bool:
    return char.isspace() or unicodedata.category(char).startswith("P")


def alike(one: str, other: str) -> bool:
    """Whether two plain entities are similar, or the words of one are all in the other; numbers must be equal."""
    if _digits(one) != _digits(other):
        return False
    first, second = set(one.split()), set(other.split())
    return first <= second or second <= first or difflib.SequenceMatcher(None, one, other).ratio() >= SIMILAR


def _digits(text: str) -> list[str]:
    return sorted(char for char in text if char.isdigit())
