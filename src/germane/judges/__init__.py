"""Judges: a language model, people's labels, gold ids, a lexical rule, a panel, or your own class."""

from __future__ import annotations

import difflib
import importlib
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from germane.errors import InputError

if TYPE_CHECKING:
    from germane.judges.client.limits import RateLimiter
    from germane.judges.client.providers import Price
    from germane.judges.client.retry import RetryPolicy
    from germane.judges.fake import FakeJudge
    from germane.judges.judge import Judge, Judges, LocalJudge, Reply
    from germane.judges.labels import GoldJudge, LabelsJudge
    from germane.judges.lexical import LexicalJudge
    from germane.judges.llm import DecisionJudge, LLMJudge
    from germane.judges.panel import PanelJudge, repeated
    from germane.types import Json

_HOMES = {
    "client.limits": ("RateLimiter",),
    "client.providers": ("Price",),
    "client.retry": ("RetryPolicy",),
    "fake": ("FakeJudge",),
    "judge": ("Judge", "LocalJudge", "Reply"),
    "labels": ("GoldJudge", "LabelsJudge"),
    "lexical": ("LexicalJudge",),
    "llm": ("DecisionJudge", "LLMJudge"),
    "panel": ("PanelJudge", "repeated"),
}
"""The modules of the public names."""

__all__ = [
    "DecisionJudge",
    "FakeJudge",
    "GoldJudge",
    "Judge",
    "LLMJudge",
    "LabelsJudge",
    "LexicalJudge",
    "LocalJudge",
    "PanelJudge",
    "Price",
    "RateLimiter",
    "Reply",
    "RetryPolicy",
    "load_judge",
    "repeated",
]
_LOCAL = {"labels": "LabelsJudge", "gold": "GoldJudge", "lexical": "LexicalJudge"}


def __getattr__(name: str) -> Any:
    """Public names are imported when first used: the client under the model judge is not needed to read gold ids."""
    for home, names in _HOMES.items():
        if name in names:
            value = globals()[name] = getattr(importlib.import_module(f"germane.judges.{home}"), name)
            return value
    raise AttributeError(f"module 'germane.judges' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


def load_judge(judge: Judges, **options: Json) -> Judge:
    """A judge as it is or by its name, a chat model or a function as one; several (a list, or names with white space between them) are a panel.

    The names are `labels`, `gold`, `lexical`, and `provider:model` (`openai` = gpt-4o-mini). `options` are those of LLMJudge,
    for judges that are named. InputError where something is not a judge.
    """
    from germane.judges.panel import panel_of

    named = judge.split() if isinstance(judge, str) else judge
    return panel_of(
        [_one(value, options) for value in (named if isinstance(named, list | tuple) else [named])]
    )


def _one(value: Any, options: Mapping[str, Json]) -> Judge:
    from germane.judges.judge import with_defaults

    if isinstance(value, str):
        return _named(value.strip(), options)
    model = callable(value) or hasattr(value, "invoke")
    if model and not isinstance(value, type) and not hasattr(value, "answer"):
        from germane.judges.llm import LLMJudge

        return LLMJudge(value)
    return with_defaults(value)


def _named(name: str, options: Mapping[str, Json]) -> Judge:
    if local := _LOCAL.get(name.casefold()):
        judge: Judge = __getattr__(local)()
        return judge
    provider = name.partition(":")[0]
    if near := difflib.get_close_matches(provider.casefold(), _LOCAL, n=1) if ":" not in name else []:
        raise InputError(f"unknown judge {name!r}", fix=f"did you mean {near[0]}?")
    from germane.judges.client.providers import decides

    asked: type[LLMJudge] = __getattr__("DecisionJudge" if decides(name) else "LLMJudge")
    return asked(name, **options)
