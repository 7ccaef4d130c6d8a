"""The price of drafting, before and while: calls, tokens and dollars for a low, a typical and a high share of attempts that fail."""

from __future__ import annotations

from collections.abc import Sequence
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
    writer: Judge,
    judge: Judge,
    examples: Sequence[str],
    others: Sequence[Passage],
) -> dict[str, Json]:
    """Calls, tokens and cost of n questions for each share, by the mean request of the first turns."""
    first = list(turns[:_LOOKED_AT])
    texts = tuple(passage.text for passage in others[:20])
    misses = sum(turn.kind == "near-miss" for turn in turns) / len(turns) if turns else 0.0
    asked: dict[str, tuple[Judge, list[Question[Any]]]] = {
        "write": (
            writer,
            [
                Draft(form=turn.kind, style=turn.style, passage=turn.passage.text, headings=turn.passage.headings,
                      avoid=words_to_avoid(turn.passage.text) if turn.kind == "paraphrased" else (), examples=tuple(examples[:3]))
                for turn in first
            ],
        ),
        "alone": (judge, [Standalone("How many days off are there when a child is born?")]),
        "round trip": (judge, [Support(("Parents are entitled to ten working days when a child is born.",), (turn.passage.text, *texts[:9])) for turn in first]),
        "near-miss": (judge, [Sufficiency("How many days off are there when a child is born?", texts)] if texts else []),
    }  # fmt: skip
    usages = {name: _mean(*asked_of) for name, asked_of in asked.items()}
    result: dict[str, Json] = {}
    for name, share in KEPT.items():
        attempts = min(n / share, 4.0 * n)
        last = attempts * min(1.0, share / 0.8)  # what reaches the last step, of which .8 pass
        alone = min(attempts, last / 0.85)
        counts = {
            "write": attempts,
            "alone": alone,
            "round trip": last * (1 - misses),
            "near-miss": 2 * last * misses,
        }
        spent = {
            field: sum(counts[step] * usages[step][field] for step in counts)
            for field in ("input", "output", "cost")
        }
        priced = all(usages[step]["priced"] for step in counts if counts[step])
        result[name] = {
            "calls": round(sum(counts.values())),
            "attempts": round(attempts),
            "tokens": {"input": round(spent["input"]), "output": round(spent["output"])},
            "cost_usd": round(spent["cost"], 4) if priced else None,
        }
    return result


def _mean(judge: Judge, questions: Sequence[Question[Any]]) -> dict[str, Any]:
    """The mean usage of a question; nothing for a judge that sends no requests."""
    estimate = getattr(judge, "forecast", None)
    usages: list[Usage] = [estimate((question,)) for question in questions] if estimate is not None else []
    count = max(1, len(usages))
    return {
        "input": sum(usage.input_tokens for usage in usages) / count,
        "output": sum(usage.output_tokens for usage in usages) / count,
        "cost": sum(usage.cost_usd or 0.0 for usage in usages) / count,
        "priced": all(usage.cost_usd is not None for usage in usages),
    }
