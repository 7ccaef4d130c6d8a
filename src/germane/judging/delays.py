"""How long a response asks to wait: its headers say so, or Google's details, or its message."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from time import time

__all__ = ["retry_after"]

_DURATION = (
    r"((?:\d+(?:\.\d+)?\s*(?:milliseconds?|ms|minutes?|mins?|seconds?|secs?|hours?|h|m|s)\b\s*|(?:\d+[hm]))+)"
)
_TOLD = re.compile(
    rf"retrydelay\W{{1,8}}{_DURATION}|(?:retry|try again) (?:in|after) (?:about )?{_DURATION}", re.IGNORECASE
)
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(m(?:s|illi)|h|m|s)", re.IGNORECASE)
_SECONDS = {"ms": 0.001, "milli": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}


def retry_after(headers: Mapping[str, str], body: str = "") -> float | None:
    """Seconds to wait as the response says: milliseconds, seconds or a date in its headers, else what its body says.

    None where nothing is said; a negative time and a date that has passed say nothing.
    """
    found = _in_headers(headers)
    return _in_words(body) if found is None else found


def _in_headers(headers: Mapping[str, str]) -> float | None:
    milliseconds = _number(headers.get("retry-after-ms"))
    if milliseconds is not None:
        return milliseconds / 1000
    said = headers.get("retry-after", "")
    if (seconds := _number(said)) is not None:
        return seconds
    try:
        seconds = parsedate_to_datetime(said).timestamp() - time()
    except ValueError:
        return None
    return seconds if seconds > 0 else None


def _number(said: str | None) -> float | None:
    """What is said, where that is a time that can be waited."""
    try:
        number = float(said or "")
    except ValueError:
        return None
    return number if 0 <= number < math.inf else None


def _in_words(body: str) -> float | None:
    """The longest that is said, since Google rounds it in one place and not in the other."""
    told = [match[1] or match[2] for match in _TOLD.finditer(body)]
    return max((_seconds(duration) for duration in told), default=None)


def _seconds(duration: str) -> float:
    return sum(float(number) * _SECONDS[unit.lower()] for number, unit in _PART.findall(duration))
