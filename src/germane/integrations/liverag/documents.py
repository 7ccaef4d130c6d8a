"""Document ids of the LiveRAG challenge: chunks name their document, and lists of ids come in three spellings."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from typing import TypeAlias

from germane.samples.files import JsonFault, decode
from germane.samples.validation import Wrong, say

__all__ = ["Id", "document_of", "ids_in"]

Id: TypeAlias = str | int

_URN = re.compile(r"<(urn:uuid:[^>]+)>")
_OPENS_A_LIST = ("[", "(", "{")
_LIST = 'write a JSON list, ["<urn:uuid:...>"]; [] says that there is none'


def document_of(chunk: Id) -> str:
    """The document of a chunk: `<urn:uuid:U>` of `doc-<urn:uuid:U>::chunk-3`; any other id is itself."""
    text = str(chunk)
    match = _URN.search(text)
    return f"<{match[1]}>" if match else text


def ids_in(value: object, *, strict: bool = True) -> tuple[Id, ...]:
    """The ids in a list, or in a text that is a JSON list, a Python list literal, or one id.

    A text that begins like a list and is none, and two documents in what should be one id, raise Wrong; with
    `strict=False` such a text is one id, as the original reads it.
    """
    if value is None:
        return ()
    if isinstance(value, str):
        value = _parsed(value.strip(), strict=strict)
    if isinstance(value, dict) or not isinstance(value, Iterable):
        raise Wrong(f"is {say(value)}", _LIST)
    return tuple(_checked(one, strict=strict) for one in value)


def _parsed(text: str, *, strict: bool) -> object:
    """What a cell says: a list, or a list of the one id that it is."""
    if not text:
        return []
    for read in (decode, ast.literal_eval):
        try:
            found = read(text)
        except (JsonFault, SyntaxError, ValueError, MemoryError, RecursionError):
            continue
        if found is None:
            return []
        if isinstance(found, str):
            return [found]
        return found if isinstance(found, list | tuple | set | dict) else [text]
    if strict and text.startswith(_OPENS_A_LIST):
        raise Wrong(f"is a list that cannot be read: {say(text)}", _LIST)
    return [text]


def _checked(one: object, *, strict: bool) -> Id:
    if isinstance(one, bool) or not isinstance(one, str | int) or one == "":
        raise Wrong(f"holds {say(one)}", "an id is a string that is not empty")
    if strict and isinstance(one, str) and len(_URN.findall(one)) > 1:
        raise Wrong(f"holds several documents in one id: {say(one)}", _LIST)
    return one
