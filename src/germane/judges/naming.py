"""Judges by their names: `labels`, `gold`, `lexical`, `provider:model`, or several as a panel."""

from __future__ import annotations

import difflib

from germane.errors import InputError
from germane.judges.judge import Judge, Judges, as_judge
from germane.judges.labels import GoldJudge, LabelsJudge
from germane.judges.lexical import LexicalJudge
from germane.judges.panel import panel_of
from germane.types import Json

_LOCAL: dict[str, type[Judge]] = {"labels": LabelsJudge, "gold": GoldJudge, "lexical": LexicalJudge}


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
    from germane.judges.llm import LLMJudge

    return LLMJudge(word, **options)


def judge_from(judge: Judges) -> Judge:
    """A judge as it is or by its name; several (a list, or names with white space between them) as a panel.

    InputError where something in it is no judge.
    """
    named = judge.split() if isinstance(judge, str) else judge
    given = list(named) if isinstance(named, list | tuple) else [named]
    return panel_of([judge_named(one) if isinstance(one, str) else as_judge(one) for one in given])
