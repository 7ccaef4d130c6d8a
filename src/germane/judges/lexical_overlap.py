"""What the lexical rules count: how much of some words a text has, and which texts carry a claim.

A few words decide: they are weighed (`weights.py`), compared by their stems, and every number must be there.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

from germane.judges.lexical_weights import Terms, terms
from germane.types import Json

__all__ = ["SUPPORTED", "carries", "coverage", "named", "reason", "supported"]

SUPPORTED = 0.75
"""The coverage of a claim's words from which a context supports it."""
NAMED = 6
"""How many words a reasoning names before it says "and n more"."""


def coverage(wanted: Terms, found: frozenset[str]) -> float:
    """The share of the wanted words' weight that was found."""
    total = sum(term.weight for term in wanted)
    share = sum(term.weight for term in wanted if term.stem in found) / total if total else 0.0
    return round(share, 9)  # three fifths are three fifths, whatever the sum's last bit


def reason(what: str, wanted: Terms, found: frozenset[str]) -> str:
    """Which of the words a passage has and which it lacks."""
    if not wanted:
        return f"the {what} has no words"
    covered = [term.word for term in wanted if term.stem in found]
    missing = [term.word for term in wanted if term.stem not in found]
    parts = [f"covers {named(covered)}"] * bool(covered) + [f"lacks {named(missing)}"] * bool(missing)
    return f"of the {what}'s words the passage {' and '.join(parts)}"


def named(names: Sequence[str]) -> str:
    """The first few of some names."""
    more = f" and {len(names) - NAMED} more" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more


def supported(number: int, claim: str, contexts: Sequence[frozenset[str]]) -> Json:
    """The item of a claim: the contexts that carry it alone, else the first two that carry it together."""
    wanted = terms(claim)
    stems_of_claim = frozenset(term.stem for term in wanted)
    covered = [stems_of_claim & context for context in contexts]
    alone = [place for place, part in enumerate(covered, start=1) if carries(wanted, part)]
    places = alone or _pair(wanted, covered)
    if places:
        shown = frozenset[str]().union(*(covered[place - 1] for place in places))
    else:
        shown = max(covered, key=lambda part: coverage(wanted, part), default=frozenset())
    missing = [term.word for term in wanted if term.stem not in shown]
    return {"claim": number, "contexts": places, "reasoning": _why(places, missing, together=not alone)}


def carries(wanted: Terms, found: frozenset[str]) -> bool:
    """Enough of the words and every number: a claim with another year or amount is another claim."""
    numbers = all(term.stem in found for term in wanted if any(c.isdigit() for c in term.word))
    return numbers and coverage(wanted, found) >= SUPPORTED


def _pair(wanted: Terms, covered: Sequence[frozenset[str]]) -> list[int]:
    first = {part: place for place, part in reversed(list(enumerate(covered, start=1))) if part}
    useful = sorted((place, part) for part, place in first.items())  # contexts with equal words count once
    pairs = ([a, b] for (a, one), (b, other) in combinations(useful, 2) if carries(wanted, one | other))
    return next(pairs, [])


def _why(places: Sequence[int], missing: Sequence[str], *, together: bool) -> str:
    lacking = f"no context has {named(missing)}" if missing else ""
    if not places:
        return f"not enough of the claim's words in one context or two; the closest lacks {named(missing)}"
    how = "two contexts together cover" if together else "one context covers"
    return f"{how} the claim's words" + (f", though {lacking}" if lacking else "")
