"""Measures of the response against its contexts: what it rests on, and what it makes of them."""

from __future__ import annotations

from germane.measures.defining import measure
from germane.measures.judged import nothing_in, supported_items
from germane.measures.measure import Param
from germane.measures.outcome import Item, Outcome, complement, proportion, skipped
from germane.measures.passages import distinct_contexts, texts_of, turns
from germane.questions import Claims, StatementRelevance, Support, Supported
from germane.questions.asking import Program, ask, ask_each
from germane.types import Sample

__all__ = ["answer_relevancy", "context_utilisation", "faithfulness", "hallucination", "noise_sensitivity"]

NO_CLAIMS = "the response makes no claims"
_CALLS = "2 a sample (shared by faithfulness, hallucination, context_utilisation, noise_sensitivity)"


@measure(
    "faithfulness",
    needs=("response", "contexts"),
    formula="claims of the response that the contexts support / all its claims",
    reference="Es et al., RAGAS (EACL 2024)",
    nothing="the response claims nothing: skipped; nothing retrieved: 0",
    calls=_CALLS,
    aliases=("groundedness",),
)
def faithfulness(sample: Sample) -> Program[Outcome]:
    """Share of the response's claims that the retrieved contexts support, alone or together."""
    contexts = distinct_contexts(sample)
    if nothing := nothing_in(contexts):
        return nothing
    claims = yield from ask(Claims(sample.query, sample.response or "", turns(sample)))
    if not claims:
        return skipped(NO_CLAIMS)
    support = yield from ask(Support(claims, texts_of(contexts)))
    return proportion(
        supported_items(claims, support), what="claims of the response supported by the contexts"
    )


@measure(
    "hallucination",
    needs=("response", "contexts"),
    formula="1 - faithfulness: claims of the response that no context supports / all its claims",
    reference="germane; DeepEval's measure of that name counts contradicted contexts instead",
    nothing="the response claims nothing: skipped; nothing retrieved: 1",
    calls=_CALLS,
    better="lower",
    aliases=("unfaithfulness",),
)
def hallucination(sample: Sample) -> Program[Outcome]:
    """Share of the response's claims that nothing retrieved supports. Lower is better."""
    return complement((yield from faithfulness.definition.compute(sample)))


@measure(
    "answer_relevancy",
    needs=("response", "query"),
    formula="statements of the response that address the query / all its statements",
    reference="DeepEval answer relevancy; Ragas's measure of that name compares generated questions by embedding",
    nothing="the response states nothing: skipped",
    calls="1 a sample",
    aliases=("answer_relevance", "response_relevancy"),
)
def answer_relevancy(sample: Sample) -> Program[Outcome]:
    """Share of what the response states that addresses the query: no padding, no side tracks.

    It is the question that context_relevancy asks of a passage, asked of the response; nothing else is shown.
    """
    response = sample.response or ""
    asked = StatementRelevance(query=sample.query, passage=response, history=turns(sample))
    statements = yield from ask(asked)
    items = [Item(one.text, one.relevant) for one in statements]
    return proportion(items, nothing="the response states nothing", what="statements address the query")


@measure(
    "context_utilisation",
    needs=("response", "contexts"),
    formula="contexts that support a claim of the response / contexts",
    reference="germane, from the verdicts of faithfulness; Ragas's context utilization is context_precision "
    "judged against the response",
    nothing="the response claims nothing: skipped; nothing retrieved: 0",
    calls=_CALLS,
    aliases=("context_utilization",),
)
def context_utilisation(sample: Sample) -> Program[Outcome]:
    """Share of the distinct contexts that the response makes use of: that support at least one of its claims."""
    contexts = distinct_contexts(sample)
    if nothing := nothing_in(contexts):
        return nothing
    claims = yield from ask(Claims(sample.query, sample.response or "", turns(sample)))
    if not claims:
        return skipped(NO_CLAIMS)
    support = yield from ask(Support(claims, texts_of(contexts)))
    used = {place for verdict in support for place in verdict.contexts}
    items = [Item(f"Context {n}: {c.text[:100]}", n in used) for n, c in enumerate(contexts, 1)]
    return proportion(items, what="contexts used by the response")


_NOISE = Param(
    str,
    "relevant",
    "which contexts an incorrect claim came from: relevant ones (that support a claim of the reference), irrelevant "
    "ones alone, or any",
    ("relevant", "irrelevant", "any"),
)


@measure(
    "noise_sensitivity",
    needs=("response", "contexts", "reference"),
    formula="claims of the response that the reference does not support and a (relevant) context does / all its claims",
    reference="Ru et al., RAGChecker (NeurIPS 2024); Ragas noise_sensitivity, mode=relevant or irrelevant",
    nothing="the response claims nothing, or nothing retrieved: skipped",
    calls="5 a sample (4 of them shared with context_recall and faithfulness)",
    params={"contexts": _NOISE},
    better="lower",
    answerable=True,
)
def noise_sensitivity(sample: Sample, *, contexts: str) -> Program[Outcome]:
    """Share of the response's claims that are wrong and that the retrieval put there. Lower is better.

    A claim is incorrect where the reference does not support it. A context is relevant where it supports a claim of
    the reference (alone or together with others). An incorrect claim counts where at least one context of the chosen
    sort supports it; for `irrelevant`, where no relevant one does, so that relevant + irrelevant = any.
    """
    found = distinct_contexts(sample)
    if nothing_in(found):
        return skipped("nothing was retrieved, so nothing of it misled")
    retrieved = texts_of(found)
    reference = sample.reference or ""
    claims, expected = yield from ask_each(
        [
            Claims(sample.query, sample.response or "", turns(sample)),
            Claims(sample.query, reference, turns(sample)),
        ]
    )
    if not claims:
        return skipped(NO_CLAIMS)
    asked = [Support(claims, (reference,)), Support(claims, retrieved)]
    true, held, *rest = yield from ask_each([*asked, *([Support(expected, retrieved)] if expected else [])])
    useful = rest[0] if rest else ()
    relevant = {place for verdict in useful for place in verdict.contexts}
    items = []
    for claim, correct, verdict in zip(claims, true, held, strict=True):
        wrong = not correct.contexts and _came_from(verdict, relevant, contexts)
        items.append(Item(claim, not wrong, verdict.reasoning if wrong else ""))
    return complement(proportion(items, what=f"claims not misled by {contexts} contexts"))


def _came_from(verdict: Supported, relevant: set[int], which: str) -> bool:
    places = set(verdict.contexts)
    if which == "any":
        return bool(places)
    return bool(places & relevant) if which == "relevant" else bool(places) and not places & relevant
