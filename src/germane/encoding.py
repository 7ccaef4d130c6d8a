"""JSON at speed: what keys are made of, what the ledger holds, and the rows of a report."""

from __future__ import annotations

import json

import orjson

from germane.types import Json

__all__ = ["decode", "encode"]


def encode(value: Json, *, sort_keys: bool = False) -> bytes:
    """A JSON value as UTF-8 without spaces. NaN must not be in it: the records that are stored refuse it."""
    try:
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS if sort_keys else None)
    except orjson.JSONEncodeError:  # half a surrogate pair, which is escaped; a number of more than 64 bits
        return json.dumps(value, sort_keys=sort_keys, separators=(",", ":"), allow_nan=False).encode()


def decode(text: str | bytes) -> Json:
    """The value of what `encode` or another program wrote; ValueError where it is no JSON."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return json.loads(text)
