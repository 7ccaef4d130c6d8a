"""How the scripted model server answers: by words in common, by a constant of each kind, or by your own rule."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from germane.errors import InputError
from germane.questions.question import Question, known_kinds
from germane.types import Json
from tests.server.asked import Asked

Rule: TypeAlias = Callable[[str, Mapping[str, str], Mapping[str, Json]], Json]
"""(kind of question, its sections by name, the schema of its answer) -> the answer."""

_ITEM = re.compile(r"^(\d+)\. (.*)$", re.MULTILINE)
_WORD = re.compile(r"\w{3,}")


def rule_from(answer: Rule | Mapping[str, Json]) -> Rule:
    """A rule as it is, or one answer for each kind of question, and by words in common for any other kind.

    InputError where there is no such kind.
    """
    if callable(answer):
        return answer
    known = known_kinds()
    if wrong := answer.keys() - known:
        raise InputError(
            f"there is no kind of question {next(iter(wrong))!r} to answer",
            fix=f"write {', '.join(sorted(known))}",
        )
    given = dict(answer)
    return lambda kind, *asked: given[kind] if kind in given else by_overlap(kind, *asked)


def by_overlap(kind: str, sections: Mapping[str, str], schema: Mapping[str, Json]) -> Json:
    """The default rule: a deterministic answer of the right shape, by words that texts have in common."""
    about = list(sections.values())[-1] if sections else ""
    overlap = _overlap(sections.get("reference", "") or sections.get("query", ""), about)
    question = known_kinds().get(kind)
    if question is not None and question.verdicts is not None:
        return _verdicts(question, sections, schema)
    return _fill(schema, sections, sections.get("passage", about), overlap)


def _verdicts(question: type[Question[Any]], sections: Mapping[str, str], schema: Mapping[str, Json]) -> Json:
    """A verdict on each thing of a numbered list."""
    name, number = question.verdicts or ("", "")
    item = schema["properties"][name]["items"]
    everything = " ".join(sections.values())
    found = [
        {**_fill(item, sections, text, _overlap(text, everything)), number: int(place)}
        for place, text in _ITEM.findall(sections.get(question.subjects_field or name, ""))
    ]
    return {**_fill({**schema, "properties": {}}, sections, "", 0.0), name: found}


def _overlap(wanted: str, text: str) -> float:
    words = set(_WORD.findall(wanted.lower()))
    return len(words & set(_WORD.findall(text.lower()))) / len(words) if words else 0.0


def _fill(schema: Mapping[str, Json], sections: Mapping[str, str], about: str, overlap: float) -> Any:
    kind = schema.get("type")
    if "enum" in schema:
        worst_first = schema["enum"][::-1]
        return worst_first[min(len(worst_first) - 1, int(overlap * len(worst_first)))]
    if kind == "object":
        return {key: _fill(part, sections, about, overlap) for key, part in schema["properties"].items()}
    if kind == "array":
        return _items(schema["items"], sections, about, overlap)
    if kind == "boolean":
        return overlap >= 0.5
    if kind in {"integer", "number"}:
        low, high = schema.get("minimum", 1), schema.get("maximum", 1)
        return min(high, low + int(overlap * (high - low + 1)))
    return "The words that both have in common decide this."


def _items(item: Mapping[str, Json], sections: Mapping[str, str], about: str, overlap: float) -> Json:
    """The numbers of the contexts that have half of the words, or something for each sentence."""
    if item.get("type") == "integer":
        return [
            int(key.split()[1])
            for key, text in sections.items()
            if " " in key and _overlap(about, text) >= 0.5
        ]
    sentences = [part.strip() for part in re.split(r"(?<=[.!?])\s+", about) if part.strip()]
    if not item.get("properties"):
        return sentences[:8]
    return [_fill(item, sections, sentence, overlap) for sentence in sentences[:8]]


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
    """The answer to one fused request: what the rule says for each of its kinds, in one object."""
    if len(kinds) == 1:
        return _answer_of(rule, kinds[0], sections, schema)
    found: dict[str, Json] = {}
    for kind in kinds:
        part = schema["properties"].get(kind, schema)
        nested = part.get("type") == "object" and part is not schema
        answer = _answer_of(rule, kind, sections, part if nested else _own(kind, kinds, schema))
        found |= {kind: answer} if nested else answer
    return found


def _own(kind: str, kinds: Sequence[str], schema: Mapping[str, Json]) -> Mapping[str, Json]:
    """The schema without what other kinds of the same request fill."""
    known = known_kinds()
    theirs = {name for other in kinds if other != kind for name in known[other].usual_payload().model_fields}
    mine = {name: part for name, part in schema["properties"].items() if name not in theirs}
    return {**schema, "properties": mine}


def _answer_of(rule: Rule, kind: str, sections: Mapping[str, str], schema: Mapping[str, Json]) -> Json:
    answer = rule(kind, sections, schema)
    if answer is None:
        raise TypeError(f"the rule gives no answer to a question of kind {kind!r}: a dict is an answer")
    return answer
