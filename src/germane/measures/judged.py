"""Measures of the retrieved contexts that a judge's answers make: each reads like its definition.

Pure generators, no model and no event loop in sight. Several searches: all work on the distinct union of what came back.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from germane.measures.defining import measure
from germane.measures.outcome import Item, Outcome, ok, proportion, share, skipped
from germane.measures.passages import distinct_contexts, texts_of, turns
from germane.measures.ranked import UNIT
from germane.measures.settings import Settings
from germane.questions import (
    Claims,
    Statement,
    StatementRelevance,
    Sufficiency,
    Support,
    Supported,
)
from germane.questions.asking import Program, Unanswered, ask, ask_all
from germane.questions.text import blank
from germane.types import Context, Sample

__all__ = ["context_recall", "context_relevancy", "context_sufficiency", "nothing_in", "supported_items"]

NO_CONTEXT = ok(0.0, items=[Item("No context retrieved", held=False)])
EMPTY = ok(0.0, items=[Item("The contexts are empty", held=False)])


def nothing_in(contexts: Sequence[Context]) -> Outcome | None:
    """The value of a measure of the contexts that needs no judge: 0 where nothing came back, or nothing but empty texts.

    None where there is something to read, or an id whose text is not known.
    """
    if not contexts:
        return NO_CONTEXT
    return EMPTY if all(context.text and blank(context.text) for context in contexts) else None


@measure(
    "context_recall",
    needs=("contexts", "reference"),
    formula="claims of the reference that the contexts support / all its claims",
    reference="Es et al., RAGAS (EACL 2024); here one question asks which contexts support which claim",
    nothing="the reference claims nothing: skipped; nothing retrieved: 0",
    calls="1 a reference + 1 a sample",
    answerable=True,
    aliases=("contextual_recall",),
)
def context_recall(sample: Sample) -> Program[Outcome]:
    """Share of the reference's claims that the retrieved contexts support, alone or together."""
    contexts = distinct_contexts(sample)
    if nothing := nothing_in(contexts):
        return nothing
    claims = yield from ask(Claims(sample.query, sample.reference or "", turns(sample)))
    if not claims:
        return skipped("the reference makes no claims")
    support = yield from ask(Support(claims, texts_of(contexts)))
    return proportion(supported_items(claims, support), what="claims supported by the contexts")


@measure(
    "context_relevancy",
    needs=("contexts", "query"),
    formula="relevant statements of the contexts / all their statements",
    reference="Es et al., RAGAS (EACL 2024), context relevance; DeepEval contextual relevancy",
    nothing="the contexts state nothing: skipped; nothing retrieved: 0",
    calls="1 a context (shared with its relevance)",
    answerable=True,
    params={"unit": UNIT},
    when={"unit": "statement"},
    cutoff="optional",
    aliases=("contextual_relevancy",),
)
def context_relevancy(sample: Sample, *, unit: str, k: int | None, settings: Settings) -> Program[Outcome]:
    """Share of what the contexts state that is relevant to the query: how little noise comes with what is needed.

    One question a context lists its statements and says of each whether it is relevant. Where the answer about a
    context is missing, nobody knows how many statements it held: the score is incomplete within 0 to 1.
    """
    del unit  # it chose this definition
    contexts = distinct_contexts(sample, k)
    if nothing := nothing_in(contexts):
        return nothing
    beside = settings.beside(sample)
    answers = yield from ask_all(
        StatementRelevance(query=sample.query, passage=text, history=turns(sample), **beside)
        for text in texts_of(contexts)
    )
    return share(
        list(_stated(answers)),
        [answer for answer in answers if isinstance(answer, Unanswered)],
        nothing="the contexts state nothing",
        what="statements relevant",
    )


def _stated(answers: Sequence[tuple[Statement, ...] | Unanswered]) -> Iterator[Item]:
    for place, statements in enumerate(answers, 1):
        for one in () if isinstance(statements, Unanswered) else statements:
            yield Item(one.text, one.relevant, f"context {place}")


@measure(
    "context_sufficiency",
    needs=("contexts", "query"),
    formula="1 if the contexts together hold all that is needed to answer, else 0",
    reference="Joren et al., Sufficient Context (ICLR 2025)",
    nothing="nothing retrieved: 0",
    calls="1 a sample",
    aliases=("sufficiency", "sufficient_context"),
)
def context_sufficiency(sample: Sample) -> Program[Outcome]:
    """Whether the contexts together suffice to answer the query. Needs no reference."""
    contexts = distinct_contexts(sample)
    if nothing := nothing_in(contexts):
        return nothing
    verdict = yield from ask(Sufficiency(sample.query, texts_of(contexts), turns(sample)))
    item = Item("The contexts together", verdict.sufficient, verdict.reasoning)
    return proportion([item], what="sufficient to answer")


def supported_items(claims: Sequence[str], support: Sequence[Supported]) -> list[Item]:
    """Each claim, held where any context supports it, with which ones and why."""
    return [
        Item(claim, bool(verdict.contexts), _where(verdict))
        for claim, verdict in zip(claims, support, strict=True)
    ]


def _where(verdict: Supported) -> str:
    numbers = ", ".join(map(str, verdict.contexts))
    places = f"context{'s' * (len(verdict.contexts) > 1)} {numbers}" if numbers else ""
    return ": ".join(filter(None, [places, verdict.reasoning]))
