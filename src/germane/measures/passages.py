"""What a sample holds, as measures read it: the passages of its searches, and what was said."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from germane.questions.asking import Missing
from germane.questions.text import blank
from germane.types import Context, Message, Sample

__all__ = ["distinct_contexts", "given", "rankings", "same", "texts_of", "turns"]


def rankings(sample: Sample, *, final: bool = False) -> Iterator[tuple[str, tuple[Context, ...]]]:
    """The query and contexts of each search of a sample; a plain sample is one search.

    `final`: only what the system handed back in the end - its own list beside the calls, else the last call's.
    """
    if sample.calls and not (final and sample.contexts is not None):
        for call in sample.calls[-1:] if final else sample.calls:
            yield sample.query if blank(call.query or "") else call.query or "", call.contexts
    elif sample.contexts is not None:
        yield sample.query, sample.contexts


def same(context: Context) -> tuple[str, str | None]:
    """What two contexts share that are the same passage: their text or, where that says nothing, their id."""
    return ("", context.id) if blank(context.text) else (context.text, None)


def distinct_contexts(sample: Sample, k: int | None = None) -> tuple[Context, ...]:
    """The first `k` contexts (None = all) of all calls, each passage once, in order of first appearance.

    What a final list beside the calls adds to them comes last.
    """
    found: dict[tuple[str, str | None], Context] = {}
    for contexts in (*(contexts for _, contexts in rankings(sample)), sample.contexts or ()):
        for context in contexts[:k]:
            found.setdefault(same(context), context)
    return tuple(found.values())


def texts_of(contexts: Sequence[Context]) -> tuple[str, ...]:
    """The contexts' texts, in rank order, for a judge to read; Missing where one has an id and no text."""
    for context in contexts:
        if not context.text:
            raise Missing(f"the context {context.id!r} has no text")
    return tuple(context.text for context in contexts)


def given(sample: Sample, name: str) -> str | None:
    """The query, reference or response of a sample; None where it is not there or says nothing."""
    text: str | None = getattr(sample, name)
    return None if text is None or blank(text) else text


def turns(sample: Sample) -> tuple[tuple[str, str], ...]:
    """What was said before, as (role, text); a turn that says nothing (a tool call) is none."""
    said = ((turn.role, _text(turn)) for turn in sample.history)
    return tuple((role, text) for role, text in said if not blank(text))


def _text(turn: Message) -> str:
    """What a turn says in words: its text, or that of its parts."""
    parts = turn.content if isinstance(turn.content, tuple) else (turn.content,)
    texts = (part.get("text") if isinstance(part, Mapping) else part for part in parts)
    return " ".join(text for text in texts if isinstance(text, str))
