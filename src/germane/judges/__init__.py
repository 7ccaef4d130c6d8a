"""Judges: a language model, people's labels, gold ids, a lexical rule, a panel, or your own class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from germane.addons import find, load
from germane.lazy import lazily

if TYPE_CHECKING:
    from germane.judges.client.providers import Price
    from germane.judges.client.ratelimits import RateLimiter
    from germane.judges.client.retry import RetryPolicy
    from germane.judges.judge import FakeJudge, GoldJudge, Judge, Judges, LabelsJudge, LocalJudge, Reply
    from germane.judges.lexical import LexicalJudge
    from germane.judges.llm import LLMJudge
    from germane.judges.panel import PanelJudge, repeated
    from germane.types import Json

_HOMES = {
    "client.ratelimits": ("RateLimiter",),
    "client.providers": ("Price",),
    "client.retry": ("RetryPolicy",),
    "judge": ("FakeJudge", "GoldJudge", "Judge", "LabelsJudge", "LocalJudge", "Reply"),
    "lexical": ("LexicalJudge",),
    "llm": ("LLMJudge",),
    "panel": ("PanelJudge", "repeated"),
}
"""The public names that each submodule defines."""

__all__ = [
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

__getattr__ = lazily(__name__, {name: home for home, names in _HOMES.items() for name in names})
"""Public names are imported on first use, because most judges do not need the client of model endpoints."""


def __dir__() -> list[str]:
    return sorted(__all__)


def load_judge(judge: Judges, **options: Json) -> Judge:
    """Return the judge for a name, a judge object, a chat model or a function. Several judges become a panel.

    Pass several judges as a list, or as one string of names separated by spaces. A name is `labels`, `gold`,
    `lexical` or `provider:model` (`openai` alone means gpt-4o-mini). A chat model of LangChain, or a function
    from prompt to text, becomes an LLMJudge. A judge object is returned unchanged. `options` are options of
    LLMJudge for the judges that are given by name. Raises InputError if a value is not a judge.
    """
    named = judge.split() if isinstance(judge, str) else judge
    several = [_loaded(value, options) for value in (named if isinstance(named, list | tuple) else [named])]
    if len(several) == 1:
        return several[0]
    from germane.judges.panel import panel_of

    return panel_of(several)


def _loaded(value: Any, options: Mapping[str, Json]) -> Judge:
    if isinstance(value, str):
        value = value.strip()
        if local := _LOCAL.get(value.casefold()):
            free: Judge = __getattr__(local)()
            return free
        from germane.judges.client.providers import PROVIDERS

        provider, _, rest = value.partition(":")
        if provider.strip().lower() not in PROVIDERS and (made := find("judges", provider)):
            of_addon: Judge = load(made)(rest)
            return of_addon
    else:
        from germane.judges.judge import with_defaults

        model, options = callable(value) or hasattr(value, "invoke"), {}
        if not model or isinstance(value, type) or hasattr(value, "answer"):
            return with_defaults(value)
    from germane.judges.llm import LLMJudge

    return LLMJudge(value, **options)
