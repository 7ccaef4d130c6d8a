"""How the scripted model server answers: by words in common, by a constant of each kind, or by your own rule."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from germane.errors import InputError
from germane.questions import Question
from germane.types import Json

__all__ = ["Rule", "by_overlap", "rule_from"]

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
    known = {question.kind for question in _questions() if hasattr(question, "kind")}
    if wrong := answer.keys() - known:
        raise InputError(
            f"there is no kind of question {next(iter(wrong))!r} to answer",
            fix=f"write {', '.join(sorted(known))}",
        )
    given = dict(answer)
    return lambda kind, *asked: given[kind] if kind in given else by_overlap(kind, *asked)


def _questions(base: type[Question[Any]] = Question) -> Iterator[type[Question[Any]]]:
    for sub in base.__subclasses__():
        yield sub
        yield from _questions(sub)


def by_overlap(kind: str, sections: Mapping[str, str], schema: Mapping[str, Json]) -> Json:
    """The default rule: a deterministic answer of the right shape, by words that texts have in common."""
    about = list(sections.values())[-1] if sections else ""
    overlap = _overlap(sections.get("reference", "") or sections.get("query", ""), about)
    if kind in {"claims", "statements"}:
        about = sections.get("passage", about)
    return _fill(schema, sections, about, overlap, "")


def _overlap(wanted: str, text: str) -> float:
    words = set(_WORD.findall(wanted.lower()))
    return len(words & set(_WORD.findall(text.lower()))) / len(words) if words else 0.0


def _fill(
    schema: Mapping[str, Json], sections: Mapping[str, str], about: str, overlap: float, name: str
) -> Json:
    kind = schema.get("type")
    if "enum" in schema:
        return schema["enum"][min(len(schema["enum"]) - 1, int(overlap * len(schema["enum"])))]
    if kind == "object":
        properties: Mapping[str, Mapping[str, Json]] = schema["properties"]
        return {key: _fill(part, sections, about, overlap, key) for key, part in properties.items()}
    if kind == "array":
        return _items(schema["items"], sections, about, overlap, name)
    if kind == "boolean":
        return overlap >= 0.5
    if kind in {"integer", "number"}:
        return 1
    return "The words that both have in common decide this."


def _items(
    item: Mapping[str, Json], sections: Mapping[str, str], about: str, overlap: float, name: str
) -> Json:
    properties = item.get("properties", {})
    if numbered := _ITEM.findall(sections.get(name, "")):
        return [_judged(item, sections, text, int(number)) for number, text in numbered]
    if item.get("type") == "integer":
        return [
            int(key.split()[1])
            for key, text in sections.items()
            if " " in key and _overlap(about, text) >= 0.5
        ]
    sentences = [part.strip() for part in re.split(r"(?<=[.!?])\s+", about) if part.strip()]
    if not properties:
        return sentences[:8]
    return [_fill(item, sections, sentence, overlap, "") for sentence in sentences[:8]]


def _judged(item: Mapping[str, Json], sections: Mapping[str, str], text: str, number: int) -> Json:
    """One item about the n-th of a numbered list: its first whole number is n."""
    found = _fill(item, sections, text, _overlap(text, " ".join(sections.values())), "")
    key = next((key for key, part in item["properties"].items() if part.get("type") == "integer"), None)
    return {**found, key: number} if key else found
