"""Messages of conversations: expand short forms and read the files in their parts."""

from __future__ import annotations

import itertools
from pathlib import Path

from germane.errors import Invalid
from germane.evalfiles import is_guideline
from germane.samples import read_messages
from germane.samples.files import check_readable, repository_root
from germane.types import Json, Message
from germane.yamltext import Node


def messages_at(node: Node | None, role: str, folder: Path) -> tuple[Message, ...]:
    """Return the messages that a node holds: a list of them, or one message's content; files in them are read."""
    if node is None:
        return ()
    value = node.json()
    if not isinstance(value, list) or not all(isinstance(item, dict) and "role" in item for item in value):
        if isinstance(value, list) and any(isinstance(item, dict) and "content" in item for item in value):
            raise node.fault("a message has no role", "write - role: user, then content")
        value = [{"role": role, "content": node.text if node.text is not None else value}]
    for message in value:
        if isinstance(message.get("content"), list):
            message["content"] = [_content_part(piece, folder, node) for piece in message["content"]]
    try:
        return read_messages(value)
    except Invalid as wrong:
        raise wrong.error(node.at(wrong.path)) from None


def _content_part(piece: Json, folder: Path, node: Node) -> Json:
    """Return a part of a content; a file part gets its absolute path and its text."""
    if not isinstance(piece, dict) or piece.get("type") != "file":
        return piece
    named = piece.get("value", piece.get("path"))
    if not isinstance(named, str) or not named:
        raise node.fault("a file part names no file", "write value: path/to/file")
    path = _find(named, folder)
    if path is None:
        raise node.fault(f"no file {named!r}", f"put it below {folder} or the repository's root")
    check_readable(path, node.location)
    try:
        return {**piece, "path": str(path), "text": path.read_text(encoding="utf-8")}
    except UnicodeDecodeError:
        return {**piece, "path": str(path)}


def _find(named: str, folder: Path) -> Path | None:
    root = repository_root(folder)
    absolute = (root / named.lstrip("/"), Path(named))
    positions = absolute if named.startswith("/") else (folder / named, root / named)
    return next((path.resolve() for path in positions if path.is_file()), None)


def input_files(messages: tuple[Message, ...]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the files of the messages: guidelines (instructions, prompts), and the others."""
    files = [
        piece["path"]
        for message in messages
        for piece in (message.content if isinstance(message.content, tuple) else ())
        if isinstance(piece, dict) and "path" in piece and piece.get("type") == "file"
    ]
    return tuple(filter(is_guideline, files)), tuple(itertools.filterfalse(is_guideline, files))
