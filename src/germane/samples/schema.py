"""The JSON Schema of a sample line, made from the table of fields that the reader itself uses."""

from __future__ import annotations

from collections.abc import Iterable

from germane.samples.fields import SAMPLE_FIELDS, SPELLINGS
from germane.samples.gold import EVIDENCE_FIELDS
from germane.samples.kinds import Field, spellings
from germane.samples.passages import CALL_FIELDS, CONTEXT_FIELDS
from germane.types import Json

__all__ = ["sample_schema"]


def sample_schema() -> dict[str, Json]:
    """The schema of one line of a samples file, aliases and camelCase included.

    What it cannot say: ids that must differ, counts that must agree, two spellings of one field.
    """
    queries = [spelling for spelling, field in SPELLINGS.items() if field.name == "query"]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "germane sample",
        "description": "One line of a JSON Lines file: one query, what came back for it, and what is known.",
        "type": "object",
        "properties": _properties(SAMPLE_FIELDS),
        "anyOf": [{"required": [query], "properties": {query: {"type": "string"}}} for query in queries],
        "$defs": {
            "context": _context(),
            "call": {
                "type": "object",
                "properties": {
                    **_properties(CALL_FIELDS),
                    "contexts": {"type": "array", "items": {"$ref": "#/$defs/context"}},
                },
                "required": ["contexts"],
                "additionalProperties": False,
            },
            "evidence": {
                "anyOf": [
                    {"type": "string", "minLength": 1},
                    {
                        "type": "object",
                        "properties": _properties(EVIDENCE_FIELDS),
                        "additionalProperties": False,
                        "anyOf": [_filled("quote"), _filled("doc", "start", "end")],
                    },
                ]
            },
            "message": {
                "type": "object",
                "properties": {
                    "role": {"type": "string", "minLength": 1},
                    "content": {},
                    "tool_calls": {"type": ["array", "null"], "items": {"type": "object"}},
                },
                "required": ["role"],
            },
        },
    }


def _properties(fields: Iterable[Field]) -> dict[str, Json]:
    """A property for each spelling of each field; null is the same as absent."""
    return {
        spelling: {"description": field.about, "anyOf": [field.kind.schema, {"type": "null"}]}
        for spelling, field in spellings(fields).items()
    }


def _filled(*names: str) -> dict[str, Json]:
    """That all these are there, and none is null or empty."""
    filled = {"not": {"enum": [None, ""]}}
    return {"required": list(names), "properties": dict.fromkeys(names, filled)}


def _context() -> dict[str, Json]:
    names = [
        spelling for spelling, field in spellings(CONTEXT_FIELDS).items() if field.name in {"text", "id"}
    ]
    there = {"not": {"type": "null"}}
    both = {"required": ["grade", "relevant"], "properties": {"grade": there, "relevant": there}}
    shape = {
        "type": "object",
        "properties": _properties(CONTEXT_FIELDS),
        "anyOf": [{"required": [name], "properties": {name: there}} for name in names],
        "not": both,
    }
    return {"anyOf": [{"type": "string"}, shape]}
