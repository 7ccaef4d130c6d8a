"""The encoding of values: JSON at speed, the digests of keys and items, and times in UTC."""

from __future__ import annotations

import datetime
import hashlib
import json
import re
from collections.abc import Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

import msgspec
import orjson

__all__ = ["canonical", "decode", "digest", "encode", "now", "replace_surrogates"]

Json: TypeAlias = Any  # as in types, which this is beneath


def encode(value: Json, *, sort_keys: bool = False) -> bytes:
    """A JSON value as UTF-8 without spaces or lone surrogates. NaN must not be in it: the records that are stored refuse it."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS if sort_keys else None)
    except orjson.JSONEncodeError:  # half a surrogate pair; a number of more than 64 bits
        value, between = replace_surrogates(value), (",", ":")
        text = json.dumps(value, sort_keys=sort_keys, separators=between, allow_nan=False, ensure_ascii=False)
        return text.encode()


_encoder = msgspec.json.Encoder(enc_hook=str)  # metadata may hold any object: a path, a class
_encode_record = _encoder.encode


def encode_record(record: msgspec.Struct) -> bytes:
    """A record of `types` as JSON in UTF-8: its fields in their order, without those at their default."""
    try:
        return _encode_record(record)
    except UnicodeEncodeError:  # half a surrogate pair
        return encode(msgspec.to_builtins(record, enc_hook=str))


def encode_records(records: Sequence[msgspec.Struct]) -> bytes:
    """Records as lines of JSON in UTF-8, each with a line feed at its end."""
    try:
        return _encoder.encode_lines(records)
    except UnicodeEncodeError:
        return b"".join(encode_record(record) + b"\n" for record in records)


_LONE = re.compile("[\ud800-\udfff]")


def replace_surrogates(value: Json) -> Json:
    r"""The value with every lone surrogate (a `\ud83d` without its other half) replaced by U+FFFD."""
    if isinstance(value, str):
        return value if value.isascii() else _LONE.sub("\ufffd", value)
    if isinstance(value, dict):
        return {replace_surrogates(key): replace_surrogates(inner) for key, inner in value.items()}
    return [replace_surrogates(inner) for inner in value] if isinstance(value, list | tuple) else value


R = TypeVar("R", bound=msgspec.Struct)


def without_surrogates(record: R) -> R:
    """The record with every lone surrogate replaced by U+FFFD."""
    try:
        _encode_record(record)
    except UnicodeEncodeError:
        value = replace_surrogates(msgspec.to_builtins(record, enc_hook=str))
        return msgspec.convert(value, type(record))
    return record


def decode(text: str | bytes) -> Json:
    """The value of what `encode` or another program wrote, without lone surrogates; ValueError where it is not JSON."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return replace_surrogates(json.loads(text))


def canonical(value: Json) -> bytes:
    """The one spelling of a JSON value: sorted keys, no spaces, UTF-8."""
    return encode(value, sort_keys=True)


def digest(value: Json) -> str:
    """The first 128 bits of the SHA-256 of a JSON value, in hex."""
    return hashlib.sha256(encode(value, sort_keys=True)).hexdigest()[:32]


def relevance_items(cells: Iterable[tuple[str, str]], history: Iterable[tuple[str, str]] = ()) -> list[str]:
    """The items of the questions whether passages are relevant, each to the query before it.

    An item is the digest of {"history": ..., "kind": "relevance", "passage": ..., "query": ...}.
    """
    turns = encode([list(turn) for turn in history])
    begun = hashlib.sha256(b'{"history":%b,"kind":"relevance","passage":' % turns)
    result, ends = [], dict[str, bytes]()
    for query, passage in cells:
        if query not in ends:
            ends[query] = b',"query":%b}' % encode(query)
        value = begun.copy()
        value.update(encode(passage) + ends[query])
        result.append(value.hexdigest()[:32])
    return result


def now(to: str = "seconds") -> str:
    """This moment in UTC (ISO 8601), `to` the "seconds" or "milliseconds"."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec=to)
