"""The kinds of question that a judge is asked: plain data in, checked plain data out.

A question is a value. What it is about is its `item`; all that can change its answer is its key; `Payload` is the
shape that a model must answer in; `parse` turns such a payload into a typed answer or raises AnswerError saying what was
wrong, in words that can be sent back to the model. The wording of a question stands in `prompts/<prompt>.md`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from germane.questions.asking import Program
    from germane.questions.listing import Claims, Entities, Importance, StatementRelevance
    from germane.questions.payload import Numbers, PayloadModel, Reason, Text, Whole, YesNo
    from germane.questions.question import AnyQuestion, Question, key_of
    from germane.questions.relevance import Grade, Relevance
    from germane.questions.support import (
        CitationSupport,
        ContextSetQuestion,
        Degree,
        NuggetSupport,
        Sufficiency,
        Sufficient,
        Support,
        Supported,
    )
    from germane.types import Scale

_HOMES = ("relevance", "question", "asking", "payload", "listing", "support")

__all__ = [
    "AnyQuestion",
    "CitationSupport",
    "Claims",
    "ContextSetQuestion",
    "Degree",
    "Entities",
    "Grade",
    "Importance",
    "NuggetSupport",
    "Numbers",
    "PayloadModel",
    "Program",
    "Question",
    "Reason",
    "Relevance",
    "Scale",
    "StatementRelevance",
    "Sufficiency",
    "Sufficient",
    "Support",
    "Supported",
    "Text",
    "Whole",
    "YesNo",
    "key_of",
]


def __getattr__(name: str) -> Any:
    """Import a name on first use: gold ids and people's labels are read without pydantic, which only checks answers."""
    if name in __all__:
        for home in _HOMES:
            module = importlib.import_module(f"germane.questions.{home}")
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
