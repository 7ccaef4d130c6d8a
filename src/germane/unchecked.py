"""Records whose values were checked when they were read: made without checking them again, at a fifth of the price.

A constructor of `types` looks at every value it is given. Ten contexts a sample, thirty judgements a sample and a million
samples are minutes of it. Whoever calls these answers for what they pass: nothing here may hold NaN or be changeable.
"""

from __future__ import annotations

from germane.types import FrozenDict, Json, Judgement, Usage

__all__ = ["judgement"]

_key, _item, _kind, _judge, _prompt, _answer, _error, _parent, _request, _usage, _ms, _at, _provenance = (
    getattr(Judgement, name).__set__
    for name in (
        "key",
        "item",
        "kind",
        "judge",
        "prompt",
        "answer",
        "error",
        "parent",
        "request",
        "usage",
        "ms",
        "at",
        "provenance",
    )
)


def judgement(
    key: str,
    kind: str,
    judge: str,
    prompt: str,
    answer: Json,
    usage: Usage,
    ms: float | None,
    at: str | None,
    provenance: FrozenDict,
    *,
    item: str = "",
    parent: str | None = None,
    request: str | None = None,
) -> Judgement:
    """A judgement that is no error, of a frozen answer and a finite time."""
    made = object.__new__(Judgement)
    _key(made, key)
    _item(made, item)
    _kind(made, kind)
    _judge(made, judge)
    _prompt(made, prompt)
    _answer(made, answer)
    _error(made, None)
    _parent(made, parent)
    _request(made, request)
    _usage(made, usage)
    _ms(made, ms)
    _at(made, at)
    _provenance(made, provenance)
    return made
