"""Who can judge: a language model, people's labels, gold ids, a lexical rule, or your own function."""

from __future__ import annotations

import difflib

from germane.errors import InputError
from germane.judging.judge import Judge, LocalJudge, Reply
from germane.judging.judges.fake import FakeJudge
from germane.judging.judges.gold import GoldJudge
from germane.judging.judges.labels import LabelsJudge
from germane.judging.judges.lexical import LexicalJudge
from germane.judging.judges.llm import LLMJudge
from germane.judging.judges.panel import PanelJudge, repeated
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
    "Reply",
    "judge_named",
    "repeated",
]

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
