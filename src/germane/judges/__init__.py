"""Who can judge: a language model, people's labels, gold ids, a lexical rule, a panel, or your own class."""

from __future__ import annotations

import difflib
import importlib
from typing import TYPE_CHECKING, Any

from germane.errors import InputError

if TYPE_CHECKING:
    from germane.judges.client.limits import RateLimiter
    from germane.judges.client.providers import Price
    from germane.judges.client.retry import RetryPolicy
    from germane.judges.fake import FakeJudge
    from germane.judges.judge import Judge, Judges, LocalJudge, Reply, load_judge
    from germane.judges.labels import GoldJudge, LabelsJudge
    from germane.judges.lexical import LexicalJudge
    from germane.judges.llm import DecisionJudge, LLMJudge
    from germane.judges.panel import PanelJudge, repeated
    from germane.types import Json

_HOME = {
    "DecisionJudge": "llm",
    "FakeJudge": "fake",
    "GoldJudge": "labels",
    "Judge": "judge",
    "LLMJudge": "llm",
    "LabelsJudge": "labels",
    "LexicalJudge": "lexical",
    "LocalJudge": "judge",
    "PanelJudge": "panel",
    "Price": "client.providers",
    "RateLimiter": "client.limits",
    "Reply": "judge",
    "RetryPolicy": "client.retry",
    "load_judge": "judge",
    "repeated": "panel",
}

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
    "judge_from",
    "judge_named",
    "load_judge",
    "repeated",
]
_LOCAL = {"labels": "LabelsJudge", "gold": "GoldJudge", "lexical": "LexicalJudge"}


def __getattr__(name: str) -> Any:
    """Public names are imported when first used: the client under the model judge is not needed to read gold ids."""
    if name not in _HOME:
        raise AttributeError(f"module 'germane.judges' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"germane.judges.{_HOME[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)


def judge_named(name: str, **options: Json) -> Judge:
    """The judge behind a name: `labels`, `gold`, `lexical`, or a model as `provider:model` (`openai` = gpt-4o-mini).

    `options` are those of LLMJudge and mean nothing to the others. InputError where nothing has that name.
    """
    word = name.strip()
    if local := _LOCAL.get(word.casefold()):
        judge: Judge = __getattr__(local)()
        return judge
    provider = word.partition(":")[0]
    if near := difflib.get_close_matches(provider.casefold(), _LOCAL, n=1) if ":" not in word else []:
        raise InputError(f"unknown judge {name!r}", fix=f"did you mean {near[0]}?")
    from germane.judges.client.providers import decides

    asked: type[LLMJudge] = __getattr__("DecisionJudge" if decides(word) else "LLMJudge")
    return asked(word, **options)


def judge_from(judge: Judges) -> Judge:
    """A judge as it is or by its name, a chat model or a function as one; several (a list, or names with white space between them) are a panel.

    InputError where something in it is not a judge.
    """
    from germane.judges.panel import panel_of

    named = judge.split() if isinstance(judge, str) else judge
    values = list(named) if isinstance(named, list | tuple) else [named]
    return panel_of([_judge(value) for value in values])


def _judge(value: Any) -> Judge:
    """One judge: by name, a chat model of LangChain's or a function that answers a prompt, or as it is."""
    from germane.judges.judge import load_judge

    if isinstance(value, str):
        return judge_named(value)
    model = callable(value) or hasattr(value, "invoke")
    if model and not isinstance(value, type) and not hasattr(value, "answer"):
        from germane.judges.llm import LLMJudge

        return LLMJudge(value)
    return load_judge(value)
