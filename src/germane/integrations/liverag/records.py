"""What LiveRAG calls its inputs and its result. Frozen, without logic."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from germane.errors import Place
from germane.integrations.liverag.documents import Id

__all__ = ["EvaluationResult", "EvaluationRow", "Number", "QAPair", "RAGResult"]

Number: TypeAlias = float | int | None
"""One value of a row or an aggregate; None = could not be measured."""


@dataclass(frozen=True, slots=True)
class RAGResult:
    """What a system retrieved and answered for one question; only `qid` and `doc_ids` are measured.

    `doc_ids` are the chunks in their order, [] = nothing was retrieved. Without a `qid` the place in the list,
    from 1, stands for it.
    """

    question: str = ""
    answer: str = ""
    context: Sequence[str] = ()
    doc_ids: Sequence[Id] = ()
    total_time_ms: float = 0.0
    qid: Id | None = None
    timestamp: Any = None
    generated_queries: Sequence[str] | None = None
    rewritten_docs: Sequence[str] | None = None
    question_words_count: int | None = None
    answer_words_count: int | None = None
    system_name: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    place: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class QAPair:
    """A question with its gold documents; only `qid` and `document_ids` are measured."""

    question: str = ""
    answer: str = ""
    context: Sequence[str] = ()
    question_categories: Sequence[Any] = ()
    user_categories: Sequence[Any] = ()
    document_ids: Sequence[Id] = ()
    qid: Id | None = None
    place: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRow:
    """One question: context_recall, context_precision, context_f1, three counts, ndcg_10.

    The values are None where the question names no gold document: it was skipped.
    """

    qid: Id
    metrics: Mapping[str, Number]
    evaluator_name: str = "ContextRecall"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationResult:
    """All questions: `metrics` are the means and percentages, `sample_count` how many questions are in them.

    `notes` say what was counted, left out or read otherwise than the original does.
    """

    metrics: Mapping[str, Number]
    rows: tuple[EvaluationRow, ...]
    sample_count: int
    notes: tuple[str, ...] = ()
    evaluator_name: str = "ContextRecall"
    system_name: str | None = None
    timestamp: datetime.datetime = field(default_factory=lambda: datetime.datetime.now().astimezone())
