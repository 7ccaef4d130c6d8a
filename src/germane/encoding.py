"""Fast reading and writing of JSON, digests for ledger keys and judged items, and the current time in UTC."""

from __future__ import annotations

import datetime
import hashlib
import json
import re
from binascii import Error, unhexlify
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import islice
from typing import Any, Self, TypeAlias, TypeVar

import msgspec
import orjson
from msgspec import UNSET, structs

__all__ = ["batched", "canonical", "decode", "digest", "encode", "now", "replace_surrogates", "short_name"]

T = TypeVar("T")
Json: TypeAlias = Any
"""A value of JSON."""


def encode(value: Json, *, sort_keys: bool = False) -> bytes:
    """Return a JSON value as UTF-8 bytes without spaces; lone surrogates are replaced by U+FFFD."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS if sort_keys else None)
    except orjson.JSONEncodeError:  # a lone surrogate, or a number of more than 64 bits
        value, between = replace_surrogates(value), (",", ":")
        text = json.dumps(value, sort_keys=sort_keys, separators=between, allow_nan=False, ensure_ascii=False)
        return text.encode()


_encoder = msgspec.json.Encoder(enc_hook=str)  # metadata may hold any object: a path, a class


def encode_record(record: msgspec.Struct) -> bytes:
    """Return a record as JSON in UTF-8, without the fields that have their default value."""
    try:
        return _encoder.encode(record)
    except UnicodeEncodeError:  # a lone surrogate
        return encode(msgspec.to_builtins(record, enc_hook=str))


def encode_records(records: Sequence[msgspec.Struct]) -> bytes:
    """Return records as JSON Lines in UTF-8, without the fields that have their default value."""
    try:
        return _encoder.encode_lines(records)
    except UnicodeEncodeError:
        return b"".join(encode_record(record) + b"\n" for record in records)


def batched(rows: Iterable[T], size: int = 1000) -> Iterator[list[T]]:
    """Yield the rows in lists of `size`; the last may be shorter (`itertools.batched` of Python 3.12)."""
    remaining = iter(rows)
    while batch := list(islice(remaining, size)):
        yield batch


def json_lines(rows: Iterable[msgspec.Struct]) -> Iterator[bytes]:
    """Yield the rows as JSON Lines; each bytes object contains many lines."""
    return map(encode_records, batched(rows))


_LONE = re.compile("[\ud800-\udfff]")


def replace_surrogates(value: Json) -> Json:
    r"""Return a JSON value with each lone surrogate (`\ud83d` without its other half) replaced by U+FFFD."""
    if isinstance(value, str):
        return value if value.isascii() else _LONE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {replace_surrogates(key): replace_surrogates(inner) for key, inner in value.items()}
    return [replace_surrogates(inner) for inner in value] if isinstance(value, list | tuple) else value


R = TypeVar("R", bound=msgspec.Struct)


def without_surrogates(record: R) -> R:
    """Return the record with every lone surrogate replaced by U+FFFD."""
    try:
        _encoder.encode(record)
    except UnicodeEncodeError:
        return msgspec.convert(replace_surrogates(msgspec.to_builtins(record, enc_hook=str)), type(record))
    return record


def decode(text: str | bytes) -> Json:
    """Parse a JSON text; lone surrogates become U+FFFD. Raises ValueError for invalid JSON."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return replace_surrogates(json.loads(text))


class Line(msgspec.Struct):
    """Base class of the objects in `--json` documents, whose fields declare the JSON keys and their schema.

    A field is left out if its value is UNSET, or if its JSON name begins with `_` (see `internal`).
    """

    def as_json(self) -> dict[str, Json]:
        """Return the record as a JSON object, without UNSET and internal fields."""
        fields: dict[str, Json] = json_of(self)
        return fields

    def replace(self, **fields: Any) -> Self:
        """Return a copy with these fields replaced; fields that are computed from them are computed again."""
        return type(self)(**{**structs.asdict(self), **fields})


def internal(*names: str, **named: str) -> dict[str, str]:
    """Return `rename=` for a Line class without the fields `names`, and with `named` fields renamed."""
    return {**{name: f"_{name}" for name in names}, **named}


def json_of(value: Json) -> Json:
    """Return a value as JSON: each Line in it, also within lists and mappings, becomes an object."""
    if isinstance(value, Line):
        names = zip(value.__struct_fields__, value.__struct_encode_fields__, strict=True)
        fields = ((key, getattr(value, name)) for name, key in names if key[0] != "_")
        return {key: json_of(inner) for key, inner in fields if inner is not UNSET}
    if isinstance(value, Mapping):
        return {key: json_of(inner) for key, inner in value.items()}
    return list(map(json_of, value)) if isinstance(value, list | tuple) else value


def canonical(value: Json) -> bytes:
    """Return a JSON value as bytes with sorted keys and no spaces: equal values have equal bytes."""
    return encode(value, sort_keys=True)


def digest(value: Json) -> str:
    """Return the first 128 bits of the SHA-256 hash of a JSON value in canonical form, as 32 hex digits."""
    return hashlib.sha256(encode(value, sort_keys=True)).hexdigest()[:32]


def short_name(text: bytes) -> bytes:
    """Return 16 bytes that identify `text`: 32 hex digits (a digest) are decoded, other texts hashed."""
    if len(text) == 32:
        with suppress(Error):
            return unhexlify(text)
    return hashlib.blake2b(text, digest_size=16).digest()


def relevance_items(cells: Iterable[tuple[str, str]], history: Iterable[tuple[str, str]] = ()) -> list[str]:
    """Return the item of each (query, passage) pair: a digest of the texts that a relevance judge is shown.

    `history` are the messages before the query as (role, text).
    """
    texts = {"history": [list(turn) for turn in history], "kind": "relevance"}
    return [digest({**texts, "passage": passage, "query": query}) for query, passage in cells]


def now(to: str = "seconds") -> str:
    """Return the current UTC time in ISO 8601, rounded down to the unit `to`, "seconds" or "milliseconds"."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec=to)
