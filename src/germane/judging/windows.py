"""Contexts that do not fit into a model's context together: judged in windows, and what becomes of the verdicts.

Support is the union over the windows, a nugget's degree the highest; what only contexts of two windows state
together is not seen, so a score from windows can be too low, never too high. Contexts are sufficient where
those of one window are; where none are, nothing is known. A single context is never cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from typing import TypeAlias, get_args

from germane.errors import AnswerError
from germane.judging.judge import AnyQuestion
from germane.judging.questions import Degree, NuggetSupport, Sufficiency, Support
from germane.types import Json

__all__ = ["Window", "first_place", "halves", "joined"]

_Windowed: TypeAlias = Support | NuggetSupport | Sufficiency
_DEGREES = get_args(Degree)[::-1]


@dataclass(frozen=True, slots=True)
class Window:
    """A question about some of the contexts, in the order in which they are shown; `start` is how many come before."""

    question: AnyQuestion
    start: int = 0


def halves(window: Window) -> tuple[Window, ...]:
    """The window as two of about the same length; () where it cannot be split."""
    question, start = window.question, window.start
    if not isinstance(question, _Windowed) or len(question.contexts) < 2:
        return ()
    sums = list(accumulate(map(len, question.contexts)))
    middle = 1 + min(range(len(sums) - 1), key=lambda n: abs(2 * sums[n] - sums[-1]))
    first, second = question.contexts[:middle], question.contexts[middle:]
    return (
        Window(replace(question, contexts=first), start),
        Window(replace(question, contexts=second), start + middle),
    )


def first_place(whole: Window, window: Window) -> int:
    """The place of the window's first context among all, in the order in which they were given."""
    assert isinstance(whole.question, _Windowed)
    return whole.question.ranks[window.start]


def joined(question: AnyQuestion, answers: Sequence[tuple[Window, Json]]) -> Json:
    """The payload of the whole question from those of its windows, in order; AnswerError where none follows."""
    if isinstance(question, Support):
        return {"claims": [_union(n, answers) for n in range(1, len(question.claims) + 1)]}
    if isinstance(question, NuggetSupport):
        return {"nuggets": [_highest(n, answers) for n in range(1, len(question.nuggets) + 1)]}
    for _, payload in answers:
        if payload["sufficient"]:
            return payload
    raise AnswerError(
        f"the contexts are too long for the model and were judged in {len(answers)} windows: none of them suffices"
        " alone, whether all do together is not known"
    )


def _union(number: int, answers: Sequence[tuple[Window, Json]]) -> Json:
    items = [(window.start, _of("claims", "claim", number, payload)) for window, payload in answers]
    contexts = [start + place for start, item in items for place in item["contexts"]]
    telling = [item for _, item in items if item["contexts"]] or [items[0][1]]
    reasons = [str(item.get("reasoning") or "") for item in telling]
    reasons += [] if contexts else _unseen(len(answers))
    return {"claim": number, "reasoning": " ".join(reasons), "contexts": contexts}


def _highest(number: int, answers: Sequence[tuple[Window, Json]]) -> Json:
    items = [_of("nuggets", "nugget", number, payload) for _, payload in answers]
    item = max(items, key=lambda item: _DEGREES.index(item["support"]))
    if item["support"] == _DEGREES[-1]:
        return item
    return {**item, "reasoning": " ".join([str(item.get("reasoning") or ""), *_unseen(len(answers))])}


def _unseen(count: int) -> list[str]:
    """What to add to a reason that windows alone may have given."""
    windows = f"Too long for the model together, the contexts were judged in {count} windows"
    return [f"({windows}: what those of different windows state only together is not seen.)"] * (count > 1)


def _of(name: str, one: str, number: int, payload: Json) -> Json:
    return next(item for item in payload[name] if item[one] == number)
