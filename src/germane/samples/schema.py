"""The JSON Schema of a sample line, made from the table of fields that the reader itself uses."""

from __future__ import annotations

from collections.abc import Iterable

from germane.samples.fields import SAMPLE_FIELDS, SPELLINGS
from germane.samples.gold import EVIDENCE_FIELDS
from germane.samples.kinds import Field, spellings
from germane.samples.passages import CALL_FIELDS, CONTEXT_FIELDS, CONTEXTS
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
            "context": {"anyOf": [{"type": "string"}, {"$ref": "#/$defs/passage"}]},
            "passage": _passage(),
            "call": {
                "type": "object",
                "properties": {**_properties(CALL_FIELDS), "contexts": CONTEXTS.schema},
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


def _properties(fields: Iterable[Field], at: str = "#") -> dict[str, Json]:
    """A property for each field, null being the same as absent, and one that refers to it for each other spelling."""
    return {
        spelling: {"description": field.about, "anyOf": [field.kind.schema, {"type": "null"}]}
        if spelling == field.name
        else {"$ref": f"{at}/properties/{field.name}"}
        for spelling, field in spellings(fields).items()
    }


def _filled(*names: str) -> dict[str, Json]:
    """That all these are there, and none is null or empty."""
    filled = {"not": {"enum": [None, ""]}}
    return {"required": list(names), "properties": dict.fromkeys(names, filled)}


def _passage() -> dict[str, Json]:
    names = [
        spelling for spelling, field in spellings(CONTEXT_FIELDS).items() if field.name in {"text", "id"}
    ]
    there = {"not": {"type": "null"}}
    return {
        "type": "object",
        "properties": _properties(CONTEXT_FIELDS, "#/$defs/passage"),
        "anyOf": [{"required": [name], "properties": {name: there}} for name in names],
        "not": {"required": ["grade", "relevant"], "properties": {"grade": there, "relevant": there}},
    }
