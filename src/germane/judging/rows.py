"""A judgement as a JSON object: in a report's judgements.jsonl, and in what a ledger exports."""

from __future__ import annotations

from dataclasses import fields

from germane.types import Json, Judgement, Usage, freeze

__all__ = ["dump_judgement", "load_judgement"]

_PLAIN = frozenset(field.name for field in fields(Judgement)) - {"usage", "provenance"}


def dump_judgement(judgement: Judgement) -> dict[str, Json]:
    """A judgement as a JSON object, leaving out what says nothing; the key comes first."""
    used = judgement.usage
    shown: dict[str, Json] = {"key": judgement.key, "kind": judgement.kind, "judge": judgement.judge}
    if judgement.prompt:
        shown["prompt"] = judgement.prompt
    if judgement.answer is not None:
        shown["answer"] = judgement.answer
    if judgement.error is not None:
        shown["error"] = judgement.error
    shown["usage"] = {
        "requests": used.requests,
        "input": used.input_tokens,
        "output": used.output_tokens,
        "cost_usd": used.cost_usd,
    }
    if judgement.ms is not None:
        shown["ms"] = judgement.ms
    if judgement.at is not None:
        shown["at"] = judgement.at
    if judgement.provenance:
        shown["provenance"] = judgement.provenance
    return shown


def load_judgement(row: dict[str, Json]) -> Judgement:
    """The judgement in a JSON object; TypeError where it is none."""
    used = row.get("usage") or {}
    usage = Usage(
        requests=used.get("requests", 0),
        input_tokens=used.get("input", 0),
        output_tokens=used.get("output", 0),
        cost_usd=used.get("cost_usd"),
    )
    given = {name: value for name, value in row.items() if name in _PLAIN}
    return Judgement(usage=usage, provenance=freeze(row.get("provenance") or {}), **given)
