"""How the model server answers what is not germane's: any JSON Schema, filled in; and embeddings."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any
from zlib import crc32

from germane.testing import Asked

SIZE = 64


def to_peer(asked: Asked) -> str | None:
    """The answer to a peer's request; None = it is germane's."""
    del asked
    return None


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
