"""What Mastra computes from verdicts, to its last digit; the formulas of ranks are our measures'.

Sources: @mastra/evals 0.13 (metrics) and 1.10 (scorers).
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from germane.errors import InputError
from germane.measures.kernel import RankedLabels
from germane.measures.measure import Measure
from germane.measures.ranked import context_position, context_precision, context_relevance, values

Parity: TypeAlias = Literal["mastra"]
Verdict: TypeAlias = str | bool
Level: TypeAlias = Literal["high", "medium", "low", "none"]
Formula: TypeAlias = Literal["position", "precision", "relevancy", "recall"]

_FORMULAS: dict[Formula, Measure] = {
    "position": context_position,
    "precision": context_precision,
    "relevancy": context_relevance,
    "recall": context_relevance,
}
_READ: dict[Formula, Callable[[str], str]] = {
    "position": lambda word: word.strip().lower(),
    "precision": lambda word: word.strip().lower(),
    "relevancy": str.lower,
    "recall": str,
}
"""What each of the older metrics makes of a verdict before it compares it with `yes`."""
WEIGHTS: dict[Level, float] = {"high": 1.0, "medium": 0.7, "low": 0.3, "none": 0.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Penalties:
    """What the relevance scorer takes off: for each highly relevant context that was not used, and for what lacks."""

    unused_high_relevance_context: float = 0.1
    missing_context_per_item: float = 0.15
    max_missing_context_penalty: float = 0.5


def rounded(value: float) -> float:
    """Two decimals, half up."""
    return math.floor((value + sys.float_info.epsilon) * 100 + 0.5) / 100


def scored(formula: Formula, verdicts: Sequence[Verdict], scale: float = 1) -> float:
    """The score of some verdicts, in their order: over as many as there are, whatever was asked about.

    A yes counts, in the spellings that the original takes for one: " YES " for position and precision, "Yes" for
    relevancy, nothing but "yes" for recall. Rounding comes after scaling. No verdicts: 0.
    """
    if not verdicts:
        return 0.0
    labels = RankedLabels.of_lists([[float(_yes(verdict, formula)) for verdict in verdicts]])
    value = float(values(_FORMULAS[formula], labels)[0])
    return rounded(value * scale)


def recall(verdicts: Sequence[Verdict], claims: int, scale: float = 1) -> float:
    """The newer recall: yes-verdicts / claims, at most 1; a claim without verdict is not supported."""
    if not claims:
        return 0.0
    return rounded(min(1.0, sum(map(_yes, verdicts)) / claims) * scale)


def relevance(
    levels: Sequence[Level],
    *,
    unused: int = 0,
    missing: int = 0,
    scale: float = 1,
    penalties: Penalties | None = None,
) -> float:
    """The newer relevance, rounded. Nothing evaluated: 1, or 0 where something is missing; neither is scaled."""
    if not levels:
        return 0.0 if missing else 1.0
    return rounded(usefulness(levels, unused=unused, missing=missing, penalties=penalties) * scale)


def usefulness(
    levels: Sequence[Level], *, unused: int = 0, missing: int = 0, penalties: Penalties | None = None
) -> float:
    """Mean weight of the contexts' levels, less the penalties, at least 0.

    high 1, medium .7, low .3, none 0; less .1 a highly relevant context that was not used and .15, at most .5, an
    item that no context holds.
    """
    off = penalties or Penalties()
    lacking = min(missing * off.missing_context_per_item, off.max_missing_context_penalty)
    base = math.fsum(WEIGHTS[level] for level in levels) / len(levels) if levels else 0.0
    return max(0.0, base - unused * off.unused_high_relevance_context - lacking)


def _yes(verdict: Verdict, formula: Formula = "precision") -> bool:
    return verdict is True or (isinstance(verdict, str) and _READ[formula](verdict) == "yes")


def check_parity(parity: Parity | None) -> Parity | None:
    """The parity, if it is one of ours."""
    if parity not in {None, "mastra"}:
        raise InputError(f"parity={parity!r} is not known", fix='write parity="mastra", or leave it out')
    return parity
