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
    """Seconds to wait as the response says: milliseconds, seconds or a date in its headers, else what its body says."""
    found = _in_headers(headers)
    return _in_words(body) if found is None else found


def _in_headers(headers: Mapping[str, str]) -> float | None:
    try:
        if (ms := headers.get("retry-after-ms")) is not None:
            return max(0.0, float(ms) / 1000)
    except ValueError:
        pass
    said = headers.get("retry-after")
    if said is None:
        return None
    try:
        seconds = float(said)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(said).timestamp() - time()
        except ValueError:
            return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _in_words(body: str) -> float | None:
    """The longest that is said, since Google rounds it in one place and not in the other."""
    told = [match[1] or match[2] for match in _TOLD.finditer(body)]
    return max((_seconds(duration) for duration in told), default=None)


def _seconds(duration: str) -> float:
    return sum(float(number) * _SECONDS[unit.lower()] for number, unit in _PART.findall(duration))
