"""Read the ranked lists of a sample, and the texts that are shown to a judge."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from germane.clean import blank
from germane.encoding import relevance_items
from germane.types import Context, Sample


def rankings(sample: Sample, *, final: bool = False) -> list[tuple[str, tuple[Context, ...]]]:
    """Return (query, contexts) for each search of a sample; a sample without `calls` is one search.

    With `final`, return only the last list: the sample's own `contexts`, or those of its last call.
    """
    if not sample.calls or (final and sample.contexts is not None):
        return [] if sample.contexts is None else [(sample.query, sample.contexts)]
    return [
        (sample.query if blank(call.query or "") else call.query or "", call.contexts)
        for call in (sample.calls[-1:] if final else sample.calls)
    ]


def passage_key(context: Context) -> tuple[str, str | None]:
    """Return a key that is equal for equal passages: their text or, if that is blank, their id."""
    return ("", context.id) if blank(context.text) else (context.text, None)


def documents(sample: Sample, over: str, k: int | None = None) -> list[list[str]] | None:
    """Return the distinct document ids in the first `k` contexts (None = all) of each list.

    With `over="union"`, all searches are one list; with "final", only the last list is read. Returns None if
    no context has an id. If only some have, each of the others counts as a document that is not in the gold.
    """
    lists = [contexts[:k] for _, contexts in rankings(sample, final=over == "final")]
    if any(lists) and not any(context.id for contexts in lists for context in contexts):
        return None
    if over == "union":
        lists = [tuple(context for contexts in lists for context in contexts)]
    ids = ((f"\0{c.text}" if c.id is None else c.id for c in contexts) for contexts in lists)
    return [list(dict.fromkeys(some)) for some in ids]


def relevant(sample: Sample, rel: int) -> list[str]:
    """Return the ids of the gold documents with a grade of at least `rel`, highest grade first."""
    graded = sorted((sample.qrels or {}).items(), key=lambda entry: -entry[1])
    return [document for document, grade in graded if grade >= rel]


def distinct_contexts(sample: Sample, k: int | None = None) -> tuple[Context, ...]:
    """Return the distinct passages in the first `k` contexts (None = all) of each search, in order.

    Contexts that are only in the sample's final list come last.
    """
    lists = (*(contexts for _, contexts in rankings(sample)), sample.contexts or ())
    return distinct(contexts[:k] for contexts in lists)


def distinct(lists: Iterable[Iterable[Context]]) -> tuple[Context, ...]:
    """Return the distinct passages of several lists, in order of first appearance."""
    contexts: dict[tuple[str, str | None], Context] = {}
    for context in chain.from_iterable(lists):
        contexts.setdefault(passage_key(context), context)
    return tuple(contexts.values())


def field_text(sample: Sample, name: str) -> str | None:
    """Return the query, reference, response or criterion of a sample; None if it is missing or blank."""
    text: str | None = getattr(sample, name, None)
    return None if text is None or blank(text) else text


def turns(sample: Sample) -> tuple[tuple[str, str], ...]:
    """Return the conversation before the query as (role, text) pairs; turns without text are left out."""
    result = []
    for turn in sample.history:
        parts = turn.content if isinstance(turn.content, tuple) else (turn.content,)
        texts = (piece.get("text") if isinstance(piece, Mapping) else piece for piece in parts)
        text = " ".join(text for text in texts if isinstance(text, str))
        if not blank(text):
            result.append((turn.role, text))
    return tuple(result)


def places_of(sample: Sample) -> Iterator[tuple[int, int, Context]]:
    """Yield (list number, rank, context) for each context of all lists of a sample, counting from 1."""
    for number, (_, contexts) in enumerate(sample.lists(), 1):
        for rank, context in enumerate(contexts, 1):
            yield number, rank, context


def labelled_contexts(sample: Sample) -> Iterator[tuple[str, Context]]:
    """Yield (key, context) for each context of a sample's lists; people's labels are stored by this key."""
    contexts = list(sample.retrieved())
    cells = ((sample.query, context.passage) for context in contexts)
    return zip(relevance_items(cells, turns(sample)), contexts, strict=True)
