"""A word-overlap rule that stands in for a model: no model, no network, the same verdict every time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any, TypeAlias

from germane.judging.judge import AnyQuestion, LocalJudge, Reply
from germane.judging.questions import Claims, Relevance, Support
from germane.judging.text import sentences, stems, words
from germane.judging.weights import Terms, terms
from germane.types import FrozenDict, Json

__all__ = ["LexicalJudge"]

ON_TOPIC, HELPS, ANSWERS = 0.3, 0.6, 0.95
"""The coverage from which a passage has grade 1, 2 and 3."""
SUPPORTED = 0.75
"""The coverage of a claim's words from which a context supports it."""
NAMED = 6
"""How many words a reasoning names before it says "and n more"."""

Rule: TypeAlias = Callable[[Any], Json]


class LexicalJudge(LocalJudge):
    """Counts how much of what was asked for a passage says in the same words.

    It knows no synonyms, no negation and no meaning: for demos, tests and smoke checks, not for decisions.
    A verdict depends on the question alone, not on what else is in the evaluation.
    """

    name = "lexical"
    identity = FrozenDict(judge="lexical", version=1)
    stored = True
    stand_in = (
        "lexical is a word-overlap rule that stands in for a model; against people's grades on TREC DL 2023 it reaches "
        "a two-grade kappa of .21 (95% interval .11 to .29), good models .40 to .43"
    )

    def reply(self, question: AnyQuestion) -> Reply:
        """The rule's answer, or an error for a kind of question that no rule is known for."""
        rule = _RULES.get(question.kind)
        if rule is None:
            return Reply(error=f"the lexical rule cannot answer a question of kind {question.kind}")
        return Reply(payload=rule(question))


def _relevance(question: Relevance) -> Json:
    """A grade by the coverage of the query; with a reference, by the mean of both coverages.

    Of the reference its best-covered sentence counts: a passage need not hold the whole answer to help.
    """
    found = stems(question.passage)
    query = terms(question.query)
    coverage, reasoning = _coverage(query, found), _reason("query", query, found)
    target = question.reference or question.response
    if target and (parts := [terms(part) for part in sentences(target)]):
        best = max(parts, key=lambda part: _coverage(part, found))
        coverage = (coverage + _coverage(best, found)) / 2
        reasoning = f"{reasoning}; {_reason('reference' if question.reference else 'response', best, found)}"
    if question.scale == "binary":
        return {"relevant": coverage >= HELPS, "reasoning": reasoning}
    grade = sum(coverage >= threshold for threshold in (ON_TOPIC, HELPS, ANSWERS))
    return {"grade": grade, "reasoning": reasoning}


def _coverage(wanted: Terms, found: frozenset[str]) -> float:
    """The share of the wanted words' weight that was found."""
    total = sum(term.weight for term in wanted)
    share = sum(term.weight for term in wanted if term.stem in found) / total if total else 0.0
    return round(share, 9)  # three fifths are three fifths, whatever the sum's last bit


def _reason(what: str, wanted: Terms, found: frozenset[str]) -> str:
    if not wanted:
        return f"the {what} has no words"
    covered = [term.word for term in wanted if term.stem in found]
    missing = [term.word for term in wanted if term.stem not in found]
    parts = [f"covers {_list(covered)}"] * bool(covered) + [f"lacks {_list(missing)}"] * bool(missing)
    return f"of the {what}'s words the passage {' and '.join(parts)}"


def _list(names: Sequence[str]) -> str:
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def _claims(question: Claims) -> Json:
    """One claim a sentence; a question claims nothing."""
    return {"claims": [part for part in sentences(question.text) if words(part) and not _asks(part)]}


def _asks(sentence: str) -> bool:
    return sentence.rstrip("\"'”’»)").endswith(("?", "\uff1f", "\u061f"))


def _support(question: Support) -> Json:
    """For each claim the contexts that cover it alone, else the first pair that covers it together."""
    contexts = [stems(text) for text in question.contexts]
    return {"claims": [_supported(n, claim, contexts) for n, claim in enumerate(question.claims, start=1)]}


def _supported(number: int, claim: str, contexts: Sequence[frozenset[str]]) -> Json:
    wanted = terms(claim)
    stems_of_claim = frozenset(term.stem for term in wanted)
    covered = [stems_of_claim & context for context in contexts]
    alone = [place for place, part in enumerate(covered, start=1) if _carries(wanted, part)]
    places = alone or _pair(wanted, covered)
    if places:
        shown = frozenset[str]().union(*(covered[place - 1] for place in places))
    else:
        shown = max(covered, key=lambda part: _coverage(wanted, part), default=frozenset())
    missing = [term.word for term in wanted if term.stem not in shown]
    return {"claim": number, "contexts": places, "reasoning": _why(places, missing, together=not alone)}


def _carries(wanted: Terms, found: frozenset[str]) -> bool:
    """Enough of the words and every number: a claim with another year or amount is another claim."""
    numbers = all(term.stem in found for term in wanted if any(c.isdigit() for c in term.word))
    return numbers and _coverage(wanted, found) >= SUPPORTED


def _pair(wanted: Terms, covered: Sequence[frozenset[str]]) -> list[int]:
    first = {part: place for place, part in reversed(list(enumerate(covered, start=1))) if part}
    useful = sorted((place, part) for part, place in first.items())  # contexts with equal words count once
    pairs = ([a, b] for (a, one), (b, other) in combinations(useful, 2) if _carries(wanted, one | other))
    return next(pairs, [])


def _why(places: Sequence[int], missing: Sequence[str], *, together: bool) -> str:
    lacking = f"no context has {_list(missing)}" if missing else ""
    if not places:
        return f"not enough of the claim's words in one context or two; the closest lacks {_list(missing)}"
    how = "two contexts together cover" if together else "one context covers"
    return f"{how} the claim's words" + (f", though {lacking}" if lacking else "")


_RULES: dict[str, Rule] = {Relevance.kind: _relevance, Claims.kind: _claims, Support.kind: _support}
