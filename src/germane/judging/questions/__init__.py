"""The kinds of question that a judge is asked: plain data in, checked plain data out.

A question is a value. Its `inputs` (and nothing else of the sample) change its answer, so they are what
its key is made of; `schema` is the shape that a model must answer in; `read` turns such a payload into
a typed answer or raises AnswerError saying what was wrong, in words that can be sent back to the model.
The wording of a question stands in `prompts/<prompt>.md`.
"""

from germane.judging.questions.base import Question, key_of
from germane.judging.questions.listing import Claims, Entities
from germane.judging.questions.relevance import Grade, Relevance, Scale, Statement, StatementRelevance
from germane.judging.questions.support import (
    CitationSupport,
    Cited,
    Degree,
    Nuggeted,
    NuggetSupport,
    Sufficiency,
    Sufficient,
    Support,
    Supported,
    Together,
)

__all__ = [
    "CitationSupport",
    "Cited",
    "Claims",
    "Degree",
    "Entities",
    "Grade",
    "NuggetSupport",
    "Nuggeted",
    "Question",
    "Relevance",
    "Scale",
    "Statement",
    "StatementRelevance",
    "Sufficiency",
    "Sufficient",
    "Support",
    "Supported",
    "Together",
    "key_of",
]
