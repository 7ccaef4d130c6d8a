"""The ranked lists of a sample, and the texts that a judge is shown of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain

from msgspec import structs

from germane.encoding import relevance_items
from germane.questions.text import blank, tokens_in
from germane.types import Context, RankedPassage, Sample


def rankings(sample: Sample, *, final: bool = False) -> list[tuple[str, tuple[Context, ...]]]:
    """The query and contexts of each search of a sample; a plain sample is one search.

    `final`: only what the system handed back in the end - its own list if it has calls too, else the last call's.
    """
    if not sample.calls or (final and sample.contexts is not None):
        return [] if sample.contexts is None else [(sample.query, sample.contexts)]
    return [
        (sample.query if blank(call.query or "") else call.query or "", call.contexts)
        for call in (sample.calls[-1:] if final else sample.calls)
    ]


def passage_key(context: Context) -> tuple[str, str | None]:
    """The identity of a context's passage: its text or, where that says nothing, its id."""
    return ("", context.id) if blank(context.text) else (context.text, None)


def documents(sample: Sample, over: str, k: int | None = None) -> list[list[str]] | None:
    """The distinct document ids that came back, one list for each list that is measured; None = no context has one.

    A context without an id, among others that have one, is a document of its own that no gold knows.
    """
    lists = [contexts[:k] for _, contexts in rankings(sample, final=over == "final")]
    if any(lists) and not any(context.id for contexts in lists for context in contexts):
        return None
    if over == "union":
        lists = [tuple(context for contexts in lists for context in contexts)]
    return [list(dict.fromkeys(_id(context) for context in contexts)) for contexts in lists]


def _id(context: Context) -> str:
    return context.id if context.id is not None else f"\0{context.text}"


def relevant(sample: Sample, rel: int) -> list[str]:
    """The gold documents of a sample, best first."""
    graded = sorted((sample.qrels or {}).items(), key=lambda entry: -entry[1])
    return [document for document, grade in graded if grade >= rel]


def recall_by_search(sample: Sample, rel: int = 1) -> list[float] | None:
    """The share of the gold documents that had come after each search of a sample; None where either is not known."""
    gold, lists = relevant(sample, rel), documents(sample, "calls")
    if not gold or lists is None:
        return None
    lacking, shares = set(gold), []
    for ids in lists:
        lacking.difference_update(ids)
        shares.append(1 - len(lacking) / len(gold))
    return shares


def asked_before(sample: Sample) -> list[tuple[str, bool]]:
    """The query of each search, without case and spare white space, and whether an earlier search asked the same.

    The query is "" where a call does not say it: the sample's own stands for it elsewhere, and would repeat itself here.
    """
    asked = [call.query or "" for call in sample.calls or ()] or [query for query, _ in rankings(sample)]
    queries = [" ".join(query.casefold().split()) for query in asked]
    return [(query, query != "" and query in queries[:at]) for at, query in enumerate(queries)]


def distinct_contexts(sample: Sample, k: int | None = None) -> tuple[Context, ...]:
    """The first `k` contexts (None = all) of all calls, each passage once, in order of first appearance.

    Contexts that only the final list has come last.
    """
    if not sample.calls:
        contexts = (sample.contexts or ())[:k]
        texts = {context.text for context in contexts}
        # a text is not blank where its first character is a visible one of ASCII
        if len(texts) == len(contexts) and all("!" <= text < "\x7f" for text in texts):
            return contexts
    lists = (*(contexts for _, contexts in rankings(sample)), sample.contexts or ())
    return distinct(contexts[:k] for contexts in lists)


def distinct(lists: Iterable[Iterable[Context]]) -> tuple[Context, ...]:
    """Each passage of several lists once, in order of first appearance."""
    contexts: dict[tuple[str, str | None], Context] = {}
    for context in chain.from_iterable(lists):
        contexts.setdefault(passage_key(context), context)
    return tuple(contexts.values())


def fitting(contexts: Sequence[Context], tokens: int) -> tuple[Context, ...]:
    """The first contexts that fit into this many tokens together, whole."""
    left = tokens
    for number, context in enumerate(contexts):
        left -= tokens_in(context.text)
        if left < 0:
            return tuple(contexts[:number])
    return tuple(contexts)


NO_TEXT = "a context has no text whose tokens could be counted"


def has_texts(sample: Sample) -> bool:
    """True if the text of every context is known."""
    return all(context.text for _, contexts in rankings(sample) for context in contexts)


def within_budget(sample: Sample, tokens: int) -> Sample:
    """The sample with each of its lists cut to this many tokens."""
    calls = sample.calls and tuple(
        structs.replace(call, contexts=fitting(call.contexts, tokens)) for call in sample.calls
    )
    contexts = None if sample.contexts is None else fitting(sample.contexts, tokens)
    return structs.replace(sample, contexts=contexts, calls=calls)


def field_text(sample: Sample, name: str) -> str | None:
    """The query, reference, response or criterion of a sample; None where it is not there or says nothing."""
    text: str | None = getattr(sample, name, None)
    return None if text is None or blank(text) else text


def turns(sample: Sample) -> tuple[tuple[str, str], ...]:
    """The conversation before the query, as (role, text); a turn without text (a tool call) is left out."""
    result = []
    for turn in sample.history:
        parts = turn.content if isinstance(turn.content, tuple) else (turn.content,)
        texts = (piece.get("text") if isinstance(piece, Mapping) else piece for piece in parts)
        text = " ".join(text for text in texts if isinstance(text, str))
        if not blank(text):
            result.append((turn.role, text))
    return tuple(result)


def labelled_passages(sample: Sample) -> Iterator[tuple[str, RankedPassage]]:
    """Each passage of each call of a sample, with the item under which people label it."""
    passages = list(sample.ranked_passages())
    cells = ((sample.query, passage.context.passage) for passage in passages)
    return zip(relevance_items(cells, turns(sample)), passages, strict=True)
