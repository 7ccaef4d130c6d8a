"""The names that people give to the columns and keys of ranked results and gold."""

from __future__ import annotations

import ast
import json
from collections.abc import Mapping, Sequence
from typing import Any

from germane.errors import InputError
from germane.samples.notices import fold

__all__ = ["ROLES", "id_list", "role", "roles"]

ROLES: dict[str, tuple[str, ...]] = {
    "query": ("qid", "query_id", "topic_id", "id", "topic", "query", "question", "user_input"),
    "doc": ("doc_id", "document_id", "docno", "pid", "passage_id", "corpus_id", "did", "doc", "document"),
    "docs": ("doc_ids", "document_ids", "retrieved_context_ids", "retrieved_ids", "contexts", "results"),
    "score": ("score", "sim", "similarity"),
    "rank": ("rank", "position"),
    "grade": ("grade", "relevance", "rel", "label", "judgment", "judgement", "score"),
    "gold": ("qrels", "gold_ids", "reference_context_ids", "document_ids", "doc_ids"),
}
"""What a column can be, and its names in order of preference (folded: no case, no underscores, no dashes)."""


def roles(
    names: Sequence[str], wanted: Sequence[str], columns: Mapping[str, str] | None = None
) -> dict[str, str]:
    """Which of these names plays each wanted role; `columns` (role or its name -> name here) comes first."""
    folded = {fold(name): name for name in reversed(names)}
    chosen = {role(key, wanted): name for key, name in (columns or {}).items()}
    found = {}
    for part in wanted:
        by_flag = [chosen[part]] if part in chosen else []
        candidates = [*by_flag, *(folded[fold(name)] for name in ROLES[part] if fold(name) in folded)]
        if hit := next((name for name in candidates if name in names), None):
            found[part] = hit
    return found


def role(key: str, wanted: Sequence[str] = ()) -> str:
    """The role that a key of `--columns` means: its own name or one of the names that it goes by."""
    for part in (*wanted, *ROLES):
        if fold(key) == fold(part) or fold(key) in {fold(name) for name in ROLES[part]}:
            return part
    raise InputError(
        f"--columns does not know {key!r}", fix="write query=, doc=, docs=, score=, rank= or grade="
    )


def id_list(value: Any) -> list[str] | None:
    """The document ids in a cell or key: a list of ids or of objects with an id, its text as JSON or Python, or one id.

    None where it is none of these.
    """
    if isinstance(value, str):
        value = _literal(value)
    if isinstance(value, str | int) and not isinstance(value, bool):
        return [str(value)] if value != "" else []
    if not isinstance(value, list | tuple):
        return None
    ids = [_id(item) for item in value]
    return None if None in ids else [one for one in ids if one is not None]


def _id(item: Any) -> str | None:
    if isinstance(item, Mapping):
        item = next((item[key] for key in item if fold(key) in {"id", "docid", "documentid"}), None)
    return str(item) if isinstance(item, str | int) and not isinstance(item, bool) else None


def _literal(text: str) -> Any:
    stripped = text.strip()
    if not stripped.startswith("["):
        return stripped
    for read in (json.loads, ast.literal_eval):
        try:
            return read(stripped)
        except (ValueError, SyntaxError, RecursionError, MemoryError):
            continue
    return stripped
