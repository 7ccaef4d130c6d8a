"""What a rule says to a whole request: to one question, to a Reading of several kinds, to a list of texts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from germane.testing.asked import Asked
from germane.testing.rules import Rule
from germane.types import Json

__all__ = ["payload_for"]


def payload_for(asked: Asked, rule: Rule) -> Json:
    """The payload of the answer: an item for each text of a list, else one object."""
    name, schema = asked.named
    if not name.endswith("_list"):
        return _one(rule, asked.kinds, asked.sections, schema)
    item = dict(schema["properties"]["items"]["items"]["properties"])
    del item["id"]
    part = {"type": "object", "properties": item}
    numbered = {key: text for key, text in asked.sections.items() if " " in key}
    lists = {f"{key.split()[0]}s" for key in numbered}
    shared = {key: text for key, text in asked.sections.items() if key not in numbered | dict.fromkeys(lists)}
    items = []
    for key, text in numbered.items():
        section, number = key.split()
        items.append({"id": int(number), **_one(rule, asked.kinds, {**shared, section: text}, part)})
    return {"items": items}


def _one(rule: Rule, kinds: Sequence[str], sections: Mapping[str, str], schema: Mapping[str, Json]) -> Json:
    """The answer to one Reading: what the rule says for each of its kinds, in one object."""
    if len(kinds) == 1:
        return _said(rule, kinds[0], sections, schema)
    found: dict[str, Json] = {}
    for kind in kinds:
        part = schema["properties"].get(kind, schema)
        nested = part.get("type") == "object" and part is not schema
        answer = _said(rule, kind, sections, part if nested else schema)
        found |= {kind: answer} if nested else answer
    return found


def _said(rule: Rule, kind: str, sections: Mapping[str, str], schema: Mapping[str, Json]) -> Json:
    answer = rule(kind, sections, schema)
    if answer is None:
        raise TypeError(f"the rule gives no answer to a question of kind {kind!r}: a dict is an answer")
    return answer
