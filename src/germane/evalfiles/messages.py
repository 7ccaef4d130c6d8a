"""Turns the content of chat messages into text, and tells guideline files from input files."""

from __future__ import annotations

import fnmatch
import json

from germane.types import Json

_GUIDELINES = ("*.instructions.md", "*/instructions/*", "*.prompt.md", "*/prompts/*")


def is_guideline(path: str) -> bool:
    """Return True if a path is that of a guideline file (instructions or prompts for the system) instead of an input."""
    return any(fnmatch.fnmatch(path.replace("\\", "/"), pattern) for pattern in _GUIDELINES)


def content_text(content: Json) -> str:
    """Return a message's content as text: parts separated by blank lines, without guideline files, objects as JSON."""
    if content is None or isinstance(content, str):
        return content or ""
    if isinstance(content, list | tuple) and all(
        isinstance(p, str) or (isinstance(p, dict) and "type" in p) for p in content
    ):
        return "\n\n".join(filter(None, map(_part_text, content)))
    return json.dumps(content, ensure_ascii=False)


def _part_text(piece: Json) -> str:
    if isinstance(piece, str):
        return piece
    if piece["type"] == "file":
        return "" if is_guideline(str(piece.get("path", ""))) else str(piece.get("text", ""))
    text = piece.get("value", piece.get("text", ""))
    return text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
