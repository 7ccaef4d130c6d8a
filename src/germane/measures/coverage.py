"""What the ranked contexts cover of the reference's claims, and how much they repeat each other.

The verdicts are those of context_recall: one question says for each claim which contexts support it. Several together
count as supporting it each: whoever stops above one of them has a part of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import fsum

from germane.measures.defining import measure
from germane.measures.judged import nothing_in
from germane.measures.matrix import Column, alpha_ndcg, covered
from germane.measures.measure import Param
from germane.measures.outcome import Item, Outcome, ok, proportion, skipped
from germane.measures.passages import distinct_contexts, rankings, same, texts_of, turns
from germane.questions import Claims, Support, Supported
from germane.questions.asking import Program, ask
from germane.types import Sample

__all__ = ["StR", "alpha_nDCG"]

_CALLS = "1 a reference + 1 a sample (shared with context_recall)"
NO_CLAIMS = "the reference makes no claims"


@dataclass(frozen=True, slots=True)
class _Matrix:
    """The claims, what supports each, and for each ranking which claims its places support."""

    claims: tuple[str, ...]
    support: tuple[Supported, ...]
    rankings: tuple[tuple[Column, ...], ...]


def _matrix(sample: Sample, *, final: bool, repeats: bool) -> Program[_Matrix]:
    """All contexts of all calls are judged together, once; `repeats`: a passage brings its claims at each of its places."""
    contexts = distinct_contexts(sample)
    claims = yield from ask(Claims(sample.query, sample.reference or "", turns(sample)))
    support = (yield from ask(Support(claims, texts_of(contexts)))) if claims else ()
    columns = {
        same(context): frozenset(n for n, one in enumerate(support) if place in one.contexts)
        for place, context in enumerate(contexts, 1)
    }
    found = []
    for _, ranked in rankings(sample, final=final):
        fresh = dict(columns)
        found.append(
            tuple(
                columns[same(context)] if repeats else fresh.pop(same(context), frozenset())
                for context in ranked
                if same(context) in columns
            )
        )
    return _Matrix(claims, support, tuple(found))


@measure(
    "StR",
    needs=("contexts", "reference"),
    formula="claims of the reference that a context in the top k supports / all its claims",
    reference="Zhai et al., Beyond Independent Relevance (SIGIR 2003), subtopic recall; ir_measures StRecall",
    nothing="the reference claims nothing: skipped; nothing retrieved: 0",
    calls=_CALLS,
    params={
        "over": Param(
            str,
            "union",
            "several searches: the top k of all of them, or of the final list alone",
            ("union", "final"),
        )
    },
    cutoff="required",
    answerable=True,
    aliases=("StRecall", "strec", "subtopic_recall"),
)
def StR(sample: Sample, *, over: str, k: int) -> Program[Outcome]:
    """Subtopic recall: how many of the needed facts a reader has met by rank k. Ten identical passages bring one."""
    if nothing := nothing_in(distinct_contexts(sample)):
        return nothing
    matrix = yield from _matrix(sample, final=over == "final", repeats=True)
    met = covered(column for ranking in matrix.rankings for column in ranking[:k])
    return proportion(
        [Item(claim, n in met, _first(matrix, n)) for n, claim in enumerate(matrix.claims)],
        nothing=NO_CLAIMS,
        what=f"claims met by rank {k}",
    )


def _first(matrix: _Matrix, claim: int) -> str:
    ranks = [r for ranking in matrix.rankings for r, column in enumerate(ranking, 1) if claim in column]
    return f"first at rank {min(ranks)}" if ranks else "in no context"


@measure(
    "alpha_nDCG",
    needs=("contexts", "reference"),
    formula="alpha-DCG@k / ideal; DCG = sum over ranks r, claims supported at r, of (1-alpha)^(times before) / log2(r+1)",
    reference="Clarke et al., Novelty and Diversity in Information Retrieval Evaluation (SIGIR 2008)",
    nothing="the reference claims nothing: skipped; nothing retrieved, or no claim supported: 0",
    calls=_CALLS,
    params={
        "alpha": Param(float, 0.5, "how much of a claim's worth a repetition loses", low=0.0, high=1.0),
        "ideal": Param(
            str,
            "claims",
            "the best list: of the retrieved passages and, for each claim that none of them supports, one that does; "
            "or of the retrieved passages alone",
            ("claims", "retrieved"),
        ),
        "over": Param(
            str, "calls", "several searches: the mean over them, or the final list alone", ("calls", "final")
        ),
    },
    cutoff="required",
    answerable=True,
    aliases=("alpha_DCG", "andcg"),
)
def alpha_nDCG(sample: Sample, *, alpha: float, ideal: str, over: str, k: int) -> Program[Outcome]:
    """How early the ranking brings facts that are new: a claim that was met before is worth less at each repeat.

    A passage that stands in the ranking again, word for word, takes a place and brings nothing. The corpus is not
    known, so the ideal is the greedy order of the distinct retrieved passages and, so that ten passages on one fact
    of four are not perfect, one imagined passage for each claim that none of them supports (`ideal=retrieved`: without).
    """
    if nothing := nothing_in(distinct_contexts(sample)):
        return nothing
    matrix = yield from _matrix(sample, final=over == "final", repeats=False)
    if not matrix.claims:
        return skipped(NO_CLAIMS)
    absent = set(range(len(matrix.claims))) - covered(c for ranking in matrix.rankings for c in ranking)
    imagined = [frozenset([claim]) for claim in sorted(absent)] if ideal == "claims" else []
    found = [alpha_ndcg(ranking, alpha, k, pool=[*ranking, *imagined]) for ranking in matrix.rankings]
    return ok(
        fsum(found) / len(found), items=_news(matrix, k), what=f"contexts in the top {k} bring a new claim"
    )


def _news(matrix: _Matrix, k: int) -> Sequence[Item]:
    items = []
    for call, ranking in enumerate(matrix.rankings, 1):
        head = f"Call {call}, position" if len(matrix.rankings) > 1 else "Position"
        seen: Column = frozenset()
        for rank, column in enumerate(ranking[:k], 1):
            new = [matrix.claims[n] for n in sorted(column - seen)]
            seen |= column
            items.append(
                Item(f"{head} {rank}", bool(new), f"new: {'; '.join(new)}" if new else "nothing new")
            )
    return items
