"""The fields of a sample: the one table that the reader, the JSON Schema and the documentation are made of."""

from __future__ import annotations

from germane.samples import kinds
from germane.samples.gold import EVIDENCE, GROUPS, QRELS
from germane.samples.kinds import Field, Kind, spellings
from germane.samples.passages import CALLS, CONTEXTS
from germane.samples.turns import MESSAGES
from germane.samples.wrong import Wrong
from germane.types import Json

__all__ = ["IDS_FIELD", "SAMPLE_FIELDS", "SPELLINGS"]


def _query(value: Json) -> str:
    text = kinds.TEXT.read(value)
    if not text.strip():
        raise Wrong("is empty", "write the question that was asked")
    return text


IDS_FIELD = "retrieved_context_ids"
"""The one field that a sample does not have itself: it gives its contexts their ids."""

SAMPLE_FIELDS = (
    Field(
        "id",
        kinds.ID,
        "names the case; without one, the number of its line",
        ("qid", "query_id", "case_id", "_id"),
    ),
    Field(
        "query",
        Kind(_query, {"type": "string", "pattern": r"\S"}),
        "what was asked",
        ("question", "topic", "user_input", "input"),
    ),
    Field("system", kinds.TEXT, "which retrieval system answered"),
    Field("trial", kinds.OFFSET, "which repetition, from 0"),
    Field(
        "contexts",
        CONTEXTS,
        "what was retrieved, best first; [] = nothing, absent = not known",
        ("retrieved_contexts", "retrieval_context", "context", "retrieved_context"),
    ),
    Field(IDS_FIELD, kinds.IDS, "the document ids of the contexts, in their order", ("doc_ids",)),
    Field("calls", CALLS, "the searches of an agent, one ranking each"),
    Field(
        "reference",
        kinds.TEXT,
        "the answer that is known to be right",
        ("ground_truth", "expected_output", "expected", "expected_outcome", "reference_answer"),
    ),
    Field(
        "response",
        kinds.TEXT,
        "what the system answered",
        ("actual_output", "answer", "candidate_answer", "output"),
    ),
    Field(
        "qrels",
        QRELS,
        "gold documents and their grades; 0 or less = not relevant",
        ("reference_context_ids", "document_ids", "gold_ids"),
    ),
    Field("gold", GROUPS, "groups of ids: every group must be hit, any id of it will do"),
    Field("evidence", EVIDENCE, "pieces of gold text; they survive re-chunking"),
    Field("answerable", kinds.FLAG, "false: nothing in the corpus answers it"),
    Field("forbidden", kinds.IDS, "documents that must not come back"),
    Field("history", MESSAGES, "what was said before"),
    Field("messages", MESSAGES, "what the system said, with its tool calls", ("output_messages",)),
    Field("error", kinds.TEXT, "why the system gave no usable answer"),
    Field("tags", kinds.TEXTS, "words to filter and group by"),
    Field("metadata", kinds.OBJECT, "anything else that is known of it"),
)
SPELLINGS: dict[str, Field] = spellings(SAMPLE_FIELDS)
