"""The group of questions that a judge has in hand: set by the pool, read where requests wait (a shim of the client's)."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

__all__ = ["Flight", "current", "stop_token"]

Flight = Any
stop_token: ContextVar[Any] = ContextVar("germane_stop_token", default=None)
current = stop_token.get
