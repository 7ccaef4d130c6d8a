"""Who can judge: a language model, people's labels, gold ids, a lexical rule, or your own function."""

from __future__ import annotations

import difflib
from typing import Any

from germane.errors import InputError
from germane.judges.client.limits import RateLimiter
from germane.judges.client.prices import Price
from germane.judges.client.retry import RetryPolicy
from germane.judges.llm import LLMJudge
from germane.judging.judge import Judge, Judges, LocalJudge, Reply
from germane.judging.judges.fake import FakeJudge
from germane.judging.judges.gold import GoldJudge
from germane.judging.judges.labels import LabelsJudge
from germane.judging.judges.lexical import LexicalJudge
from germane.judging.judges.panel import PanelJudge, repeated, seated
from germane.types import Json

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
    "judge_from",
    "judge_named",
    "repeated",
]

_PARTS = ["name", "identity", "stored", "stand_in", "concurrency", "prompt_hash", "group", "answer", "close"]

_LOCAL = {"labels": LabelsJudge, "gold": GoldJudge, "lexical": LexicalJudge}


def judge_named(name: str, **options: Json) -> Judge:
    """The judge behind a name: `labels`, `gold`, `lexical`, or a model as `provider:model` (`openai` = gpt-4o-mini).

    `options` are those of LLMJudge and mean nothing to the others. InputError where nothing has that name.
    """
    word = name.strip()
    if local := _LOCAL.get(word.casefold()):
        return local()
    provider = word.partition(":")[0]
    if near := difflib.get_close_matches(provider.casefold(), _LOCAL, n=1) if ":" not in word else []:
        raise InputError(f"there is no judge {name!r}", fix=f"did you mean {near[0]}?")
    return LLMJudge(word, **options)


def judge_from(judge: Judges) -> Judge:
    """A judge as it is or by its name; several (a list, or names with white space between them) as a panel.

    InputError where something in it is no judge.
    """
    named = judge.split() if isinstance(judge, str) else judge
    given = list(named) if isinstance(named, list | tuple) else [named]
    return seated([judge_named(one) if isinstance(one, str) else _checked(one) for one in given])


def _checked(judge: Any) -> Judge:
    if (
        isinstance(judge, type)
        or (missing := [name for name in _PARTS if not hasattr(judge, name)]) == _PARTS
    ):
        raise InputError(
            f"{judge!r} is no judge", fix='write a name ("openai:gpt-4o-mini"), a judge, or a list of these'
        )
    if missing:
        raise InputError(
            f"the judge {judge!r} has no {', '.join(missing)}",
            fix="germane.judges.Judge says what a judge has",
        )
    return judge  # type: ignore[no-any-return]
