"""The kinds of question that a judge is asked, with the types of their answers.

A question is a value. Its `item` is the digest of what is judged, and its key that of everything that can change
its answer. A model answers with a `Payload`; `parse` turns it into a typed answer, or raises AnswerError with a
text that can be sent back to the model. The prompts are the files `prompts/<prompt>.md`.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from germane.questions.asking import Program
    from germane.questions.kinds import (
        CitationSupport,
        Claims,
        ContextSetQuestion,
        Degree,
        Entities,
        Importance,
        NuggetSupport,
        StatementRelevance,
        Sufficiency,
        Sufficient,
        Support,
        Supported,
    )
    from germane.questions.payload import Numbers, PayloadModel, Reason, Text, Whole, YesNo
    from germane.questions.question import AnyQuestion, Question, key_of
    from germane.questions.relevance import Grade, Relevance
    from germane.types import Scale

_HOMES = ("relevance", "question", "asking", "payload", "kinds")

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
    """Import a public name on first use: reading gold ids and people's labels needs no pydantic."""
    if name in __all__:
        for home in _HOMES:
            module = importlib.import_module(f"germane.questions.{home}")
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
