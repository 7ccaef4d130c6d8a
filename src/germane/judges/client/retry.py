"""When to retry a request: timeouts, attempts, exponential backoff, Retry-After."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, fields
from email.utils import parsedate_to_datetime
from time import time

from germane.errors import InputError

_COUNTS = ("attempts", "circuit_failures")


def check_number(name: str, value: object, *, least: float | None = None, whole: bool = False) -> None:
    """Raise InputError unless a setting is a finite number of at least `least` (if None: above 0)."""
    number = isinstance(value, int if whole else int | float) and not isinstance(value, bool)
    if not number or not (value > 0 if least is None else least <= value) or value == math.inf:  # type: ignore[operator]
        limit = "above 0" if least is None else f"from {least:g}"
        raise InputError(f"invalid {name}={value!r}", fix=f"write a {'whole ' * whole}number {limit}")


@dataclass(frozen=True, slots=True, kw_only=True)
class RetryPolicy:
    """The client's timeouts, waits and attempts. Times are in seconds, counts are whole numbers from 1.

    A 429, 503 or 529 costs waiting time but no attempt. A timeout, a broken connection or a 5xx costs one of
    `attempts`; unusable answers are counted separately, up to the same number. The `deadline` is for one call:
    all of its requests and the waits between them, but not the wait for its turn; a longer Retry-After ends
    the run. Raises InputError if a time is not above 0, or a count is not a whole number from 1.
    """

    connect: float = 10.0  # to open a connection
    read: float = 120.0  # for one whole answer
    deadline: float = 600.0
    attempts: int = 3  # failed requests, and unusable answers, per question
    backoff: float = 0.5  # the n-th wait is a random time up to backoff * 2**n (full jitter)
    longest: float = 60.0  # the longest such wait
    circuit_failures: int = 10  # failures in a row, over all calls, that open the circuit breaker
    outage: float = 30.0  # for which an endpoint that has answered before is still tried after that

    def __post_init__(self) -> None:
        """Raise InputError for an invalid value: a judge without time or attempts fails every question."""
        for field in fields(self):
            count = field.name in _COUNTS
            check_number(field.name, getattr(self, field.name), least=1 if count else None, whole=count)

    def delay(self, failures: int) -> float:
        """Return the seconds to wait after the n-th failure: exponential backoff with full jitter."""
        return random.uniform(0, min(self.longest, self.backoff * 2.0**failures))  # noqa: S311 - no secret

    def wait(self, asked: float | None, waits: int) -> float:
        """Return the seconds to wait after the n-th Retry-After of `asked` seconds (None: no time named).

        From the second one on, it is at least `delay`. A random tenth is added, so that waiting requests do not
        come back all at once.
        """
        backoff = self.delay(waits)
        if asked is None:
            return backoff
        seconds = asked + random.uniform(0, min(1.0, asked / 10))  # noqa: S311 - no secret
        return max(seconds, backoff) if waits > 1 else seconds


_IN_WORDS = re.compile(
    r"(?:retrydelay\W{1,8}|(?:retry|try again) (?:in|after) )(?:(\d+)h)?(?:(\d+)m)?(\d+(?:\.\d+)?)\s?(ms|s(?:econds?)?)\b",
    re.IGNORECASE,
)
"""A waiting time in a body: Google's `retryDelay`, or as in "Please try again in 7m26.4s"."""


def retry_after(headers: Mapping[str, str], body: str = "") -> float | None:
    """Return the seconds that a response asks to wait; None if it does not say.

    The header `retry-after-ms` goes first, then `retry-after` (seconds or a date), then the longest time in
    the body. A negative time and a past date are ignored.
    """
    for name, unit in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        with suppress(ValueError):
            if 0 <= (number := float(headers.get(name) or "")) < math.inf:
                return number * unit
    with suppress(ValueError):
        if (seconds := parsedate_to_datetime(headers.get("retry-after", "")).timestamp() - time()) > 0:
            return seconds
    times = (
        (int(hours or 0) * 3600 + int(minutes or 0) * 60) + float(number) * (0.001 if unit == "ms" else 1.0)
        for hours, minutes, number, unit in _IN_WORDS.findall(body)
    )
    return max(times, default=None)
