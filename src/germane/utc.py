"""Times as everything that is written down says them: in UTC, ISO 8601."""

from __future__ import annotations

import datetime

__all__ = ["now"]


def now(to: str = "seconds") -> str:
    """This moment, `to` the "seconds" or "milliseconds"."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec=to)
