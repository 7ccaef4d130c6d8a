"""Forecast the price of drafting: calls, tokens and dollars for a low, a typical and a high failure rate."""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, isnan, nan
from typing import Any

from germane.addons.draft.checks import words_to_avoid
from germane.addons.draft.drawing import Turn
from germane.addons.draft.passages import Passage
from germane.addons.draft.questions import Draft, Standalone
from germane.judges import Judge
from germane.questions import Question, Sufficiency, Support
from germane.types import Json, Usage

KEPT = {"low": 0.8, "typical": 0.54, "high": 0.2}
"""Share of attempts that are kept: a guess, until a run has seen 20 attempts."""
_LOOKED_AT = 8


def forecast(
    n: int,
    turns: Sequence[Turn],
    judges: tuple[Judge, Judge],
    examples: Sequence[str],
    others: Sequence[Passage],
) -> dict[str, Json]:
    """Return calls, tokens and cost of n questions for each failure rate, from the mean request of the first turns."""
    judge, writer = judges
    first = [(turn, turn.passage) for turn in turns[:_LOOKED_AT]]
    texts = tuple(passage.text for passage in others[:20])
    misses = sum(turn.kind == "near-miss" for turn in turns) / len(turns) if turns else 0.0
    question = "How many days off are there when a child is born?"
    claim = "Parents are entitled to ten working days when a child is born."
    asked: dict[str, tuple[Judge, list[Question[Any]]]] = {
        "write": (writer, [
            Draft(form=turn.kind, style=turn.style, passage=passage.text, headings=passage.headings,
                  avoid=words_to_avoid(passage.text) if turn.kind == "paraphrased" else (), examples=tuple(examples[:3]))
            for turn, passage in first
        ]),
        "alone": (judge, [Standalone(question)]),
        "round trip": (judge, [Support((claim,), (passage.text, *texts[:9])) for _, passage in first]),
        "near-miss": (judge, [Sufficiency(question, texts)] if texts else []),
    }  # fmt: skip
    usages = {name: _mean(*asked_of) for name, asked_of in asked.items()}
    result: dict[str, Json] = {}
    for name, share in KEPT.items():
        attempts = min(n / share, 4.0 * n)
        last = attempts * min(1.0, share / 0.8)  # what reaches the last step, of which .8 pass
        counts = (attempts, min(attempts, last / 0.85), last * (1 - misses), 2 * last * misses)
        steps = [(count, usages[step]) for step, count in zip(usages, counts, strict=True) if count]
        read, written, cost = (fsum(count * usage[at] for count, usage in steps) for at in range(3))
        result[name] = {
            "calls": round(sum(counts)),
            "attempts": round(attempts),
            "tokens": {"input": round(read), "output": round(written)},
            "cost_usd": None if isnan(cost) else round(cost, 4),
        }
    return result


def _mean(judge: Judge, questions: Sequence[Question[Any]]) -> tuple[float, float, float]:
    """Return the mean input, output and cost of a question (NaN without a price); 0 for a judge without requests."""
    estimate = getattr(judge, "forecast", None)
    usages: list[Usage] = [estimate((question,)) for question in questions] if estimate is not None else []
    costs = [nan if usage.cost_usd is None else usage.cost_usd for usage in usages]
    columns = [usage.input_tokens for usage in usages], [usage.output_tokens for usage in usages], costs
    read, written, cost = (fsum(column) / max(1, len(usages)) for column in columns)
    return read, written, cost
