"""Measures of the retrieved contexts that ask a judge; each is a generator that yields questions.

If a sample has several searches, a measure reads the distinct contexts of all searches, unless its parameter
`over` says otherwise.
"""

from __future__ import annotations

import difflib
import unicodedata
from collections import Counter
from collections.abc import Iterable, Sequence
from math import fsum, inf, log2
from typing import Literal, TypeAlias

from germane.clean import blank
from germane.measures.declaration import MeasureOptions, measure
from germane.measures.gold import NO_GOLD, TOGETHER
from germane.measures.measure import Param, one_of
from germane.measures.outcome import (
    NO_CONTEXT,
    Decided,
    Item,
    Outcome,
    error,
    incomplete,
    ok,
    proportion,
    skipped,
    texts_of,
)
from germane.measures.ranked import OVER, UNIT
from germane.places.lists import (
    Settings,
    distinct,
    distinct_contexts,
    documents,
    passage_key,
    rankings,
    relevant,
    turns,
)
from germane.questions.asking import Program, Unanswered, ask, ask_all
from germane.questions.kinds import Claims, Entities, StatementRelevance, Sufficiency, Support, Supported
from germane.questions.text import folded
from germane.tables.scores import NO_IDS
from germane.types import Context, Sample


def contexts_of(
    sample: Sample, k: int | None = None, *, nothing: Outcome | None = None
) -> tuple[Context, ...]:
    """Return the distinct contexts among the first `k` (None = all) of each search.

    Raises Decided if there are no contexts or all their texts are blank. The measure's outcome is then
    `nothing`, by default a score of 0.
    """
    contexts = distinct_contexts(sample, k)
    if not contexts:
        raise Decided(nothing or NO_CONTEXT)
    if all(context.text and blank(context.text) for context in contexts):
        raise Decided(nothing or ok(0.0, items=[Item("The contexts are empty", held=False)]))
    return contexts


def supported_claims(
    sample: Sample, text: str, contexts: Sequence[Context]
) -> Program[tuple[tuple[str, ...], tuple[Supported, ...]]]:
    """Ask a judge for the claims in `text` and for the contexts that support each claim.

    Return (claims, verdicts), where a verdict names the contexts that support the claim at the same index.
    Both are empty if `text` makes no claims.
    """
    claims = yield from ask(Claims(sample.query, text, turns(sample)))
    support = (yield from ask(Support(claims, texts_of(contexts)))) if claims else ()
    return claims, support


def supported_share(
    sample: Sample, name: Literal["reference", "response"], counted: Literal["claims", "contexts"], what: str
) -> Program[Outcome]:
    """Return the proportion of the claims in the sample's field `name` that are supported by the contexts.

    With `of="contexts"`, return the proportion of the contexts that support at least one of these claims.
    `what` describes the counted items in explanations ("claims supported by the contexts"). The score is 0
    without contexts, and the outcome is skipped without claims.
    """
    contexts = contexts_of(sample)
    claims, support = yield from supported_claims(sample, getattr(sample, name) or "", contexts)
    if not claims:
        return skipped(f"the {name} makes no claims")
    if counted == "claims":
        items = []
        for claim, verdict in zip(claims, support, strict=True):
            numbers = ", ".join(map(str, verdict.contexts))
            named = f"context{'s' * (len(verdict.contexts) > 1)} {numbers}" if numbers else ""
            items.append(Item(claim, bool(numbers), ": ".join(filter(None, [named, verdict.reasoning]))))
        return proportion(items, what=what)
    useful = {context for verdict in support for context in verdict.contexts}
    items = [Item(f"Context {n}: {c.text[:100]}", n in useful) for n, c in enumerate(contexts, 1)]
    return proportion(items, what=what, lacking="not among them")


_OF_CLAIMS: MeasureOptions = {
    "needs": ("contexts", "reference"),
    "nothing": "the reference claims nothing: skipped; nothing retrieved: 0",
    "calls": "1 per reference + 1 per sample (shared by all that read the claims of the reference)",
    "answerable": True,
}


@measure(
    **_OF_CLAIMS,
    formula="claims of the reference that the contexts support / all its claims",
    reference="Es et al., RAGAS (EACL 2024); here one question asks which contexts support which claim",
    aliases=("contextual_recall",),
)
def context_recall(sample: Sample) -> Program[Outcome]:
    """Share of the reference's claims that are supported by the retrieved contexts, alone or together."""
    return (yield from supported_share(sample, "reference", "claims", "claims supported by the contexts"))


@measure(
    **_OF_CLAIMS,
    formula="contexts that support at least one claim of the reference / contexts",
    reference="Ru et al., RAGChecker (NeurIPS 2024), context precision",
    aliases=("ragchecker_context_precision",),
)
def context_claim_precision(sample: Sample) -> Program[Outcome]:
    """Share of the distinct contexts that support at least one claim of the reference, alone or with others.

    It is computed from the same verdicts as context_recall. Unlike context_precision, it does not depend on
    the order of the contexts.
    """
    what = "contexts support a claim of the reference"
    return (yield from supported_share(sample, "reference", "contexts", what))


@measure(
    needs=("contexts", "query"),
    formula="relevant statements of the contexts / all their statements",
    reference="Es et al., RAGAS (EACL 2024), context relevance; DeepEval contextual relevancy",
    nothing="the contexts state nothing: skipped; nothing retrieved: 0",
    calls="1 per context (shared with its relevance)",
    answerable=True,
    params={"unit": UNIT},
    when={"unit": "statement"},
    aliases=("contextual_relevancy",),
)
def context_relevancy(sample: Sample, *, k: int | None, settings: Settings) -> Program[Outcome]:
    """Share of the contexts' statements that are relevant to the query.

    The judge lists the statements of each context and decides which are relevant. It sees the query, and the
    reference if the sample has one. With `--against query`, it sees only the query, as with DeepEval. If an
    answer is missing, the score is incomplete, with bounds 0 and 1.
    """
    texts = settings.shown_with(sample)
    answers = yield from ask_all(
        StatementRelevance(query=sample.query, passage=text, history=turns(sample), **texts)
        for text in texts_of(contexts_of(sample, k))
    )
    items, hidden = list[Item](), list[Unanswered]()
    for position, answer in enumerate(answers, 1):
        if isinstance(answer, Unanswered):
            hidden.append(answer)
        else:
            items += [Item(statement.text, statement.relevant, f"context {position}") for statement in answer]
    what, lacking = "statements relevant", "not relevant"
    return proportion(items, hidden=hidden, nothing="the contexts state nothing", what=what, lacking=lacking)


@measure(
    needs=("contexts", "query"),
    formula="1 if the contexts together hold all that is needed to answer, else 0",
    reference="Joren et al., Sufficient Context (ICLR 2025)",
    nothing="nothing retrieved: 0",
    calls="1 per sample",
    aliases=("sufficiency", "sufficient_context"),
)
def context_sufficiency(sample: Sample) -> Program[Outcome]:
    """1 if the contexts together suffice to answer the query, else 0. Needs no reference."""
    verdict = yield from ask(Sufficiency(sample.query, texts_of(contexts_of(sample)), turns(sample)))
    item = Item("The contexts together", verdict.sufficient, verdict.reasoning)
    return proportion([item], what="sufficient to answer", lacking="not sufficient")


Column: TypeAlias = frozenset[int]
"""The numbers of the claims that are supported by one retrieved context."""
_Matrix: TypeAlias = tuple[tuple[str, ...], list[list[Column]]]
"""The claims of the reference; and for each ranking a list with a column for each rank."""


def _matrix(sample: Sample, *, final: bool = False, repeats: bool = True) -> Program[_Matrix]:
    """Ask which claims of the reference are supported by each context.

    Return the claims, and for each ranking a list with a column for each rank: the numbers of the claims that
    are supported by the context at that rank. If `repeats` is false, the column of a repeated passage is
    empty. With `final`, only the final list is returned. Raises Decided if there are no contexts (the score is
    then 0) or no claims (the sample is then skipped).
    """
    contexts = contexts_of(sample)
    claims, support = yield from supported_claims(sample, sample.reference or "", contexts)
    if not claims:
        raise Decided(skipped("the reference makes no claims"))
    columns = {
        passage_key(context): frozenset(n for n, verdict in enumerate(support) if at in verdict.contexts)
        for at, context in enumerate(contexts, 1)
    }
    result = []
    for _, ranked in rankings(sample, final=final):
        left = dict(columns)
        keys = map(passage_key, ranked)
        result.append([left[key] if repeats else left.pop(key, frozenset()) for key in keys])
    return claims, result


def alpha_dcg(columns: Iterable[Column], alpha: float, k: int, *, greedy: bool = False) -> float:
    """Return alpha-DCG: the sum over the first `k` ranks of gain / log2(rank + 1).

    Each column holds the claims that one context supports. The gain of a context is the sum of (1 - alpha)**n
    over its claims, where n is the number of contexts above it that support the same claim. With
    `greedy`, the columns are put in an approximately ideal order first: each next column is the one with the
    largest gain.
    """
    left, seen, terms = list(columns), Counter[int](), list[float]()

    def gain(at: int) -> float:
        return fsum((1.0 - alpha) ** seen[claim] for claim in sorted(left[at]))

    while left and len(terms) < k:
        at = max(range(len(left)), key=gain) if greedy else 0
        terms.append(gain(at) / log2(len(terms) + 2))
        seen.update(left.pop(at))
    return fsum(terms)


@measure(
    **_OF_CLAIMS,
    formula="claims of the reference that a context in the top k supports / all its claims",
    reference="Zhai et al. (SIGIR 2003); ir_measures StRecall",
    params={"over": TOGETHER},
    cutoff="required",
    aliases=("StRecall", "strec", "subtopic_recall"),
)
def StR(sample: Sample, *, over: str, k: int) -> Program[Outcome]:
    """Subtopic recall: share of the reference's claims that are supported by a context in the top k."""
    items = []
    claims, columns = yield from _matrix(sample, final=over == "final")
    for n, claim in enumerate(claims):
        ranks = [r for ranking in columns for r, column in enumerate(ranking, 1) if n in column]
        first = min(ranks, default=inf)
        items.append(Item(claim, first <= k, f"first at rank {first}" if ranks else "in no context"))
    return proportion(items, what=f"claims met by rank {k}")


@measure(
    **{
        **_OF_CLAIMS,
        "nothing": "the reference claims nothing: skipped; nothing retrieved, or no claim supported: 0",
    },
    formula="alpha-DCG@k / ideal; DCG = sum over ranks r, claims supported at r, of (1-alpha)^(times before) / log2(r+1)",
    reference="Clarke et al. (SIGIR 2008)",
    params={
        "alpha": Param(float, 0.5, "how much of a claim's worth a repetition loses", low=0.0, high=1.0),
        "over": OVER,
    },
    cutoff="required",
    aliases=("alpha_DCG", "andcg"),
)
def alpha_nDCG(sample: Sample, *, alpha: float, over: str, k: int) -> Program[Outcome]:
    """Discounted gain of new claims: a claim counts less if a context at a higher rank supports it too.

    A repeated passage adds nothing. The score is divided by that of an approximately ideal order of the
    distinct retrieved passages. For each claim that is not supported by any of these passages, the ideal
    order contains an imagined passage that supports it.
    """
    claims, columns = yield from _matrix(sample, final=over == "final", repeats=False)
    absent = set(range(len(claims))).difference(*(column for ranking in columns for column in ranking))
    imagined = [frozenset([claim]) for claim in sorted(absent)]
    ideals = [alpha_dcg([*ranking, *imagined], alpha, k, greedy=True) for ranking in columns]
    gains = [alpha_dcg(ranking, alpha, k) for ranking in columns]
    results = [gain / ideal if ideal else 0.0 for gain, ideal in zip(gains, ideals, strict=True)]
    items = []
    for call, ranking in enumerate(columns, 1):
        head = f"Call {call}, position" if len(columns) > 1 else "Position"
        seen: Column = frozenset()
        for rank, column in enumerate(ranking[:k], 1):
            new = [claims[n] for n in sorted(column - seen)]
            seen |= column
            why = f"new: {'; '.join(new)}" if new else "nothing new"
            items.append(Item(f"{head} {rank}", bool(new), why))
    what = f"contexts in the top {k} bring a new claim"
    return ok(fsum(results) / len(results), items=items, what=what, lacking="nothing new")


SIMILAR = 0.85
"""The lowest similarity (difflib's ratio) of two spellings that match=fuzzy counts as one entity."""
_MATCH = one_of("when two spellings are one entity: equal once made plain, or similar too", "exact", "fuzzy")


@measure(
    needs=("contexts", "reference"),
    formula="size(RCE & RE) / size(RE); RE, RCE = distinct entities of the reference, of the contexts",
    reference="Ragas context_entity_recall",
    nothing="no entities in the reference: skipped; nothing retrieved: 0",
    calls="1 per reference + 1 per context (shared with its relevance)",
    params={"match": _MATCH},
    answerable=True,
    aliases=("context_entities_recall",),
)
def context_entity_recall(sample: Sample, *, match: str) -> Program[Outcome]:
    """Share of the reference's distinct entities (names, places, dates, numbers) that are in the contexts.

    Entities are compared after NFKC and case folding, without spaces and punctuation at both ends. With
    match=fuzzy, similar spellings and partial names ("Curie", "Marie Curie") are equal too if they contain
    the same digits.
    """
    texts, history = [sample.reference or "", *texts_of(contexts_of(sample))], turns(sample)
    of_reference, *of_contexts = yield from ask_all(Entities(sample.query, text, history) for text in texts)
    if isinstance(of_reference, Unanswered):
        return error(of_reference.why)
    entities: dict[str, str] = {}
    for entity in of_reference:
        entities.setdefault(plain(entity), entity)
    retrieved = {plain(entity) for read in of_contexts if not isinstance(read, Unanswered) for entity in read}
    missing = [unread for unread in of_contexts if isinstance(unread, Unanswered)]
    items = []
    for key, entity in entities.items():
        present = key in retrieved or (match == "fuzzy" and any(alike(key, other) for other in retrieved))
        unknown = missing and not present  # it may be in a context that was not read
        items.append(Item(entity, None, missing[0].why) if unknown else Item(entity, present))
    return proportion(
        items, nothing="the reference has no entities", what="entities of the reference in the contexts"
    )


def plain(entity: str) -> str:
    """Return an entity in normal form: folded case, single spaces, no punctuation at either end."""
    text = folded(entity)
    edges = (char.isspace() or unicodedata.category(char).startswith("P") for char in text)
    inner = [position for position, edge in enumerate(edges) if not edge]
    return " ".join((text[inner[0] : inner[-1] + 1] if inner else text).split())


def alike(name: str, other: str) -> bool:
    """Return True if two names are similar, or if one contains all words of the other.

    Both must be in the form that `plain` returns. If their digits differ, the result is False.
    """
    if sorted(filter(str.isdigit, name)) != sorted(filter(str.isdigit, other)):
        return False
    first, second = set(name.split()), set(other.split())
    return first <= second or second <= first or difflib.SequenceMatcher(None, name, other).ratio() >= SIMILAR


@measure(
    needs=("contexts", "query"),
    formula="number of searches made after what had come back sufficed to answer",
    reference="germane",
    nothing="the contexts of all searches together do not suffice, or nothing retrieved: skipped",
    calls="1 per sample (that of context_sufficiency), and where it says yes up to 1 per search",
    range=(0.0, inf),
    better="lower",
)
def calls_after_sufficiency(sample: Sample) -> Program[Outcome]:
    """Number of searches that were made after the contexts sufficed to answer. Lower is better."""
    lists = [contexts for _, contexts in rankings(sample)]
    if not (whole := distinct_contexts(sample)):
        return skipped("the sample has no contexts that could suffice")
    everything = yield from ask(Sufficiency(sample.query, texts_of(whole), turns(sample)))
    if not everything.sufficient:
        return skipped(f"all contexts together do not suffice to answer: {everything.reasoning}")
    enough, first, why = len(lists), 0, ""
    for number in range(1, len(lists)):
        if texts := texts_of(distinct(lists[:number])):
            (answer,) = yield from ask_all([Sufficiency(sample.query, texts, turns(sample))])
            if isinstance(answer, Unanswered):
                first, why = first or number, answer.why
            elif answer.sufficient:
                enough = number
                break
    if first:
        return incomplete(why, (float(len(lists) - enough), float(len(lists) - first)))
    needed = [Item(f"Call {n}", n <= enough) for n in range(1, len(lists) + 1)]
    return ok(float(len(lists) - enough), items=needed, what="searches needed", lacking="not needed")


_MARGINAL: MeasureOptions = {
    "formula": "recall that a search adds to those before it; mean over searches = recall of all of them / searches",
    "reference": "germane",
    "params": {
        "of": one_of("recall of what: gold documents, or claims of the reference", "documents", "claims"),
        "call": Param(int, 0, "the search whose share is asked for, from 1; 0 = the mean over all", low=0),
    },
    "answerable": True,
}


@measure(
    **_MARGINAL,
    needs=("contexts", "qrels"),
    nothing="no relevant document known, contexts without ids, or fewer searches than `call`: skipped",
    when={"of": "documents"},
)
def marginal_recall(sample: Sample, *, call: int) -> Outcome:
    """Share of the gold documents that search `call` finds and no earlier search found.

    With call=0, the score is the mean over all searches.
    """
    gold, lists = relevant(sample, 1), documents(sample, "calls")
    if not gold or lists is None:
        return skipped(NO_IDS if gold else NO_GOLD)
    return _marginal(gold, lists, call, "gold documents")


@measure(
    "marginal_recall",
    **_MARGINAL,
    needs=("contexts", "reference"),
    nothing="the reference claims nothing, or fewer searches than `call`: skipped; nothing retrieved: 0",
    calls=_OF_CLAIMS["calls"],
    when={"of": "claims"},
)
def _marginal_claims(sample: Sample, *, call: int) -> Program[Outcome]:
    """Share of the reference's claims that are supported by search `call` and by no earlier search.

    With call=0, the score is the mean over all searches.
    """
    if call > len(searches := rankings(sample)):
        return _marginal((), [()] * len(searches), call, "claims")
    claims, columns = yield from _matrix(sample)
    results = [[claims[n] for n in frozenset[int]().union(*ranking)] for ranking in columns]
    return _marginal(claims, results, call, "claims")


def _marginal(wanted: Sequence[str], lists: Sequence[Sequence[str]], call: int, what: str) -> Outcome:
    """Return the proportion of the `wanted` documents or claims that search `call` is the first to find."""
    if call > len(lists):
        return skipped(f"the sample has {len(lists)} searches, none with the number call={call}")
    lacking, items, added = set(wanted), [], []
    for number, brought in enumerate(lists, 1):
        new = sorted(lacking.intersection(brought))
        lacking.difference_update(new)
        added.append(len(new) / len(wanted))
        items.append(Item(f"Call {number}", bool(new), "; ".join(new)))
    share = (len({*wanted}) - len(lacking)) / len(wanted)
    value = added[call - 1] if call else share / max(1, len(lists))
    return ok(value, items=items, what=f"searches bring new {what}", lacking="nothing new")
