"""How the model server answers the peers: any JSON Schema filled in, one digit, a Responses API body, embeddings.

Answers are of the right shape, follow from the request's content alone, and differ between requests.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any
from zlib import crc32

from tests.server import Asked

SIZE = 64
_CHOICES: dict[str, list[Any]] = {"boolean": [False, True], "integer": [0, 1], "number": [0, 1]}
_SCHEMA = "following schema as specified in JSON Schema:\n"
_TASK = "Now perform the same with the following input"
_MANY = re.compile(r"\((\d+) documents?\)")
_NAME = re.compile(r"[A-Z][a-z]{3,}(?: \d+)?|\b\d{4}\b")


def to_peer(asked: Asked) -> str | None:
    """The answer to a peer's request; None = it is germane's, or a plain client's with germane's requests."""
    if "peer" not in asked.headers.get("authorization", ""):
        return None
    request = asked.json
    told = _text(request)
    schema = _schema(asked, request, told)
    if schema is None:  # "Do not explain. Your rating must be only 0, 1 or 2"
        return str(_draw(told) % 3)
    about = told.rpartition(_TASK)[2]
    return json.dumps(_fill(schema, schema.get("$defs", {}), about, "", _count(told)))


def _text(request: Mapping[str, Any]) -> str:
    if "input" in request:
        given = request["input"]
        return given if isinstance(given, str) else json.dumps(given)
    return "\n".join(_plain(message.get("content")) for message in request["messages"])


def _plain(content: Any) -> str:
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content or ())


def _schema(asked: Asked, request: Mapping[str, Any], told: str) -> dict[str, Any] | None:
    if "text" in request:
        found: dict[str, Any] = request["text"]["format"]["schema"]
        return found
    if asked.mode != "prompt":
        return asked.named[1]
    at = told.find(_SCHEMA)
    return json.JSONDecoder().raw_decode(told, at + len(_SCHEMA))[0] if at >= 0 else None


def _draw(text: str) -> int:
    """A number that nothing but the text decides."""
    return hashlib.sha256(text.encode()).digest()[0]


def _count(told: str) -> int:
    many = _MANY.search(told)
    return int(many[1]) if many else 4


def _fill(part: Mapping[str, Any], known: Mapping[str, Any], about: str, name: str, count: int) -> Any:
    while "$ref" in part or "anyOf" in part:
        part = part["anyOf"][0] if "anyOf" in part else known[part["$ref"].rpartition("/")[2]]
    kind = part.get("type")
    if kind == "object":
        inner = part.get("properties", {})
        return {key: _fill(inner[key], known, about, name + key, count) for key in inner}
    if kind == "array":
        if "entit" in name:
            return sorted(set(_NAME.findall(about)))[:count]
        return [_fill(part["items"], known, about, f"{name}{place}", count) for place in range(count)]
    choices = part.get("enum") or _CHOICES.get(kind or "", ["The works were founded there."])
    return choices[_draw(about + name) % len(choices)]


def responses(request: Mapping[str, Any], text: str) -> bytes:
    """A body of the Responses API."""
    part = {"type": "output_text", "text": text, "annotations": []}
    message = {"type": "message", "id": "m", "status": "completed", "role": "assistant", "content": [part]}
    found = {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": request.get("model"),
        "output": [message],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": [],
    }
    return json.dumps(found).encode()


def embeddings(request: Mapping[str, Any]) -> bytes:
    """One vector a text: counts of hashed words, so that alike texts are near each other."""
    texts = request["input"]
    data = [
        {"object": "embedding", "index": place, "embedding": _vector(text)}
        for place, text in enumerate([texts] if isinstance(texts, str) else texts)
    ]
    used = {"prompt_tokens": 1, "total_tokens": 1}
    return json.dumps({"object": "list", "data": data, "model": "m", "usage": used}).encode()


def _vector(text: Any) -> list[float]:
    counts = [0.01] * SIZE
    for word in str(text).lower().split():
        counts[crc32(word.encode()) % SIZE] += 1.0
    return counts
