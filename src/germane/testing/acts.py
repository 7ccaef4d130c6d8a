"""What the scripted model server is asked, what it may do about it, and how it answers by default."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias
from zlib import crc32

from germane.types import Json

__all__ = ["Act", "Asked", "Rule", "by_overlap", "storm"]

Rule: TypeAlias = Callable[[str, Mapping[str, str], Mapping[str, Json]], Json]
"""(kind of question, its sections by name, the schema of its answer) -> the answer."""

_SECTION = re.compile(r"<([a-z]\w*)>(.*?)</\1>", re.DOTALL)
_NUMBERED = re.compile(r"<(\d+)>(.*?)</\1>", re.DOTALL)
_ITEM = re.compile(r"^(\d+)\. (.*)$", re.MULTILINE)
_LISTS, _WHOLE = ("statements", "entities", "claims"), {"support", "citations", "nuggets", "sufficiency"}
"""What a Reading may ask for besides its first question; and what is always asked alone."""
_WORD = re.compile(r"\w{3,}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Act:
    """What the server does with one request; without any argument it answers as it should.

    Attributes:
        status, headers, error: The HTTP status, and what an error's body says.
        text: The model's answer, word for word, instead of the rule's.
        change: Changes the rule's answer before it is written down.
        body: The whole body of the response.
        finish, refusal: The finish reason; what the model says where it refuses.
        latency: Seconds until the answer, instead of the server's own.
        drip: Seconds between the bytes of the response, which then trickles in.
        hang: Never answer.
        reset: Break the connection half way through the answer.
        truncate: Announce all of the body, send half, and close as if that were all.
        cut: Stop the answer half way and say that the token limit was reached.
        usage: False leaves out what the answer used.
        read: How many tokens of the prompt the server says it read.
    """

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    error: str = ""
    text: str | None = None
    change: Callable[[Json], Json] | None = None
    body: str | bytes | None = None
    finish: str = "stop"
    refusal: str | None = None
    latency: float | None = None
    drip: float = 0.0
    hang: bool = False
    reset: bool = False
    truncate: bool = False
    cut: bool = False
    usage: bool = True
    read: int | None = None


class Asked:
    """One request, taken apart as far as somebody looks."""

    def __init__(self, number: int, path: str, headers: Mapping[str, str], raw: bytes) -> None:
        self.number, self.path, self.headers, self.raw = number, path, headers, raw

    @cached_property
    def json(self) -> dict[str, Json]:
        """The request's body."""
        found = json.loads(self.raw)
        return found if isinstance(found, dict) else {}

    @property
    def malformed(self) -> str:
        """What keeps the body from being a chat completion's request; "" where nothing does."""
        try:
            messages = self.json.get("messages")
        except ValueError as error:
            return f"the body is not JSON: {error}"
        whole = isinstance(messages, list) and all(isinstance(m, dict) and "role" in m for m in messages)
        return "" if whole else "messages must be a list of objects with a role"

    @cached_property
    def rung(self) -> str:
        """How structured output is asked for: schema, tool or prompt."""
        if "response_format" in self.json:
            return "schema"
        return "tool" if "tools" in self.json else "prompt"

    @cached_property
    def system(self) -> str:
        """The system message."""
        return "".join(m["content"] for m in self.json.get("messages", ()) if m["role"] == "system")

    @cached_property
    def user(self) -> str:
        """The first message of the user."""
        return next((str(m["content"]) for m in self.json.get("messages", ()) if m["role"] == "user"), "")

    @cached_property
    def named(self) -> tuple[str, dict[str, Json]]:
        """The name and the schema of the answer."""
        if self.rung == "schema":
            wanted = self.json["response_format"].get("json_schema", {})
            return wanted.get("name", ""), wanted.get("schema", {})
        if self.rung == "tool":
            function = self.json["tools"][0]["function"]
            return function["name"], function["parameters"]
        at = self.system.find('{"title":')
        schema = json.loads(self.system[at:]) if at >= 0 else {}
        return schema.pop("title", ""), schema

    @cached_property
    def kinds(self) -> list[str]:
        """The kinds of question that are asked, in order."""
        name, schema = self.named
        name = name.removesuffix("_list")
        if name != self.named[0]:
            schema = schema["properties"]["items"]["items"]
        parts = schema.get("properties", {})
        if name in parts and parts[name].get("type") == "object":
            return list(parts)
        return [name, *(kind for kind in _LISTS if kind in parts and kind != name and name not in _WHOLE)]

    @cached_property
    def sections(self) -> dict[str, str]:
        """The tagged sections; what is numbered inside of `contexts` also as `context 1`, `context 2`."""
        found = {}
        for name, text in _SECTION.findall(self.user):
            found[name] = text
            found |= {f"{name.removesuffix('s')} {place}": item for place, item in _NUMBERED.findall(text)}
        return found


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


def storm(
    throttled: float = 0.10,
    failing: float = 0.05,
    malformed: float = 0.05,
    hanging: float = 0.02,
    *,
    retry_after: str = "1",
    seed: int = 0,
) -> Callable[[Asked], Act | None]:
    """A provider's bad day: shares of 429, 500, malformed answers and hangs, by the content of the request."""
    seen: dict[int, int] = {}

    def script(asked: Asked) -> Act | None:
        content = crc32(asked.raw, seed)
        seen[content] = seen.get(content, 0) + 1
        draw = random.Random(content * 31 + seen[content]).random()  # noqa: S311
        acts = (
            (throttled, Act(status=429, headers={"retry-after": retry_after}, error="slow down")),
            (failing, Act(status=500, error="something broke")),
            (malformed, Act(text='{"grade": 3, "reas')),
            (hanging, Act(hang=True)),
        )
        for share, act in acts:
            if draw < share:
                return act
            draw -= share
        return None

    return script
