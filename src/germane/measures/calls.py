"""What several searches for one question bring: what each one adds, what it repeats, which ones came too late."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf

from germane.measures.defining import measure
from germane.measures.ids import NO_GOLD, NO_IDS, documents, relevant
from germane.measures.judged import nothing_in
from germane.measures.measure import Param
from germane.measures.outcome import Item, Outcome, ok, skipped
from germane.measures.passages import distinct_contexts, rankings, same, texts_of, turns
from germane.questions import Claims, Sufficiency, Support
from germane.questions.asking import Program, ask
from germane.types import Context, Sample

__all__ = ["calls_after_sufficiency", "marginal_recall", "repeat_rate"]

ONE_SEARCH = "one search only"
_OF = Param(
    str, "documents", "recall of what: gold documents, or claims of the reference", ("documents", "claims")
)
_CALL = Param(int, 0, "the search whose share is asked for, from 1; 0 = the mean over all", low=0)
_PARAMS = {"of": _OF, "call": _CALL}
_FORMULA = (
    "recall that a search adds to those before it; mean over searches = recall of all of them / searches"
)


@measure(
    "marginal_recall",
    needs=("contexts", "qrels"),
    formula=_FORMULA,
    reference="germane",
    nothing="no relevant document known, contexts without ids, or fewer searches than `call`: skipped",
    params=_PARAMS,
    when={"of": "documents"},
    answerable=True,
)
def marginal_recall(sample: Sample, *, of: str, call: int) -> Outcome:
    """What one more search brings: the share of the gold documents that it is the first to find."""
    del of  # it chose this definition
    gold, lists = relevant(sample, 1), documents(sample, "calls")
    if not gold or lists is None:
        return skipped(NO_IDS if gold else NO_GOLD)
    found = [{document for document in ids if document in gold} for ids in lists]
    return _marginal(found, len(gold), call, "gold documents")


@measure(
    "marginal_recall",
    needs=("contexts", "reference"),
    formula=_FORMULA,
    reference="germane",
    nothing="the reference claims nothing, or fewer searches than `call`: skipped; nothing retrieved: 0",
    calls="1 a reference + 1 a sample (shared with context_recall)",
    params=_PARAMS,
    when={"of": "claims"},
    answerable=True,
)
def _marginal_claims(sample: Sample, *, of: str, call: int) -> Program[Outcome]:
    """What one more search brings: the share of the reference's claims that it is the first to support."""
    del of  # it chose this definition
    contexts = distinct_contexts(sample)
    if nothing := nothing_in(contexts):
        return nothing
    claims = yield from ask(Claims(sample.query, sample.reference or "", turns(sample)))
    if not claims:
        return skipped("the reference makes no claims")
    support = yield from ask(Support(claims, texts_of(contexts)))
    place = {same(context): n for n, context in enumerate(contexts, 1)}
    found = []
    for _, ranked in rankings(sample):
        mine = {place[same(context)] for context in ranked}
        found.append({claim for claim, one in zip(claims, support, strict=True) if mine & set(one.contexts)})
    return _marginal(found, len(claims), call, "claims")


def _marginal(found: Sequence[set[str]], total: int, call: int, what: str) -> Outcome:
    if call > len(found):
        return skipped(f"{len(found)} searches, no number {call}")
    seen: set[str] = set()
    items, added = [], []
    for number, mine in enumerate(found, 1):
        new = sorted(mine - seen)
        seen |= mine
        added.append(len(new) / total)
        items.append(
            Item(
                f"Call {number}", bool(new), f"{len(new)} of {total} {what}{': ' * bool(new)}{'; '.join(new)}"
            )
        )
    value = added[call - 1] if call else len(seen) / total / max(1, len(found))
    return ok(value, items=items, what=f"searches bring new {what}")


@measure(
    "repeat_rate",
    needs=("contexts",),
    formula="contexts of the second and later searches that an earlier search brought / contexts of these searches",
    reference="germane",
    nothing="one search only, or nothing came back after the first: skipped",
    better="lower",
)
def repeat_rate(sample: Sample) -> Outcome:
    """Share of what later searches bring that was there already: the same text or, without text, the same id."""
    lists = [contexts for _, contexts in rankings(sample)]
    if len(lists) < 2:
        return skipped(ONE_SEARCH)
    items = list(_repeats(lists))
    if not items:
        return skipped("nothing came back after the first search")
    repeated = sum(item.held is False for item in items)
    return ok(repeated / len(items), items=items, what="contexts of later searches new")


def _repeats(lists: Sequence[Sequence[Context]]) -> Iterator[Item]:
    seen: set[tuple[str, str | None]] = set()
    for number, contexts in enumerate(lists, 1):
        for position, context in enumerate(contexts, 1):
            if number > 1:
                name = f"Call {number}, position {position}: {context.id or context.text[:100]}"
                yield Item(name, same(context) not in seen)
        seen.update(map(same, contexts))


@measure(
    "calls_after_sufficiency",
    needs=("contexts", "query"),
    formula="number of searches made after what had come back sufficed to answer",
    reference="germane",
    nothing="the contexts of all searches together do not suffice, or nothing retrieved: skipped",
    calls="1 a sample (that of context_sufficiency), and where it says yes up to 1 a search",
    range=(0.0, inf),
    better="lower",
)
def calls_after_sufficiency(sample: Sample) -> Program[Outcome]:
    """How many searches an agent made although it had enough. A count; lower is better."""
    lists = [contexts for _, contexts in rankings(sample)]
    whole = distinct_contexts(sample)
    if not whole:
        return skipped("nothing was retrieved, so nothing sufficed")
    everything = yield from ask(Sufficiency(sample.query, texts_of(whole), turns(sample)))
    if not everything.sufficient:
        return skipped(f"the contexts never suffice: {everything.reasoning}")
    enough = len(lists)
    gathered: dict[tuple[str, str | None], Context] = {}
    for number, contexts in enumerate(lists[:-1], 1):
        for context in contexts:
            gathered.setdefault(same(context), context)
        if not gathered:
            continue
        verdict = yield from ask(Sufficiency(sample.query, texts_of([*gathered.values()]), turns(sample)))
        if verdict.sufficient:
            enough = number
            break
    items = [
        Item(f"Call {n}", n <= enough, "" if n <= enough else "not needed") for n in range(1, len(lists) + 1)
    ]
    return ok(float(len(lists) - enough), items=items, what="searches needed")
