"""The kinds of question that a judge is asked, with the types of their answers.

Questions are immutable. The `item` of a question is the digest of the texts that are judged. Its key is the
digest of everything that can change the answer. A model answers with a `Payload`, which `parse` converts to a
typed answer. If that fails, it raises an AnswerError, whose text can be sent to the model. The prompts are
the files `prompts/<prompt>.md`.
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
    """Import a public name on first use, because judges that read labels do not need pydantic."""
    if name in __all__:
        for home in _HOMES:
            module = importlib.import_module(f"germane.questions.{home}")
            if hasattr(module, name):
                return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
