"""HTTP/1.1 on asyncio, as little of it as a model server needs: keep-alive, Content-Length, one answer at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import cast

__all__ = ["Connection", "response"]

_REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 429: "Too Many Requests"}


def response(status: int, headers: Mapping[str, str], body: bytes) -> bytes:
    """A whole response as bytes."""
    lines = [
        f"HTTP/1.1 {status} {_REASONS.get(status, 'Status')}",
        "content-type: application/json",
        f"content-length: {len(body)}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + body


class Connection(asyncio.Protocol):
    """One client's connection: hands over each whole request, writes what it is given."""

    def __init__(
        self,
        on_request: Callable[[Connection, str, Mapping[str, str], bytes], None],
        connected: set[Connection],
    ) -> None:
        self._on_request, self._connected = on_request, connected
        self._buffer = bytearray()
        self._head: tuple[str, dict[str, str]] | None = None
        self._length = 0
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to write."""
        self._connected.add(self)
        self.transport = cast("asyncio.Transport", transport)

    def connection_lost(self, _error: Exception | None) -> None:
        """Forget where to write."""
        self._connected.discard(self)
        self.transport = None

    def data_received(self, data: bytes) -> None:
        """Hand over what is whole."""
        self._buffer += data
        while self._take():
            pass

    def _take(self) -> bool:
        if self._head is None:
            end = self._buffer.find(b"\r\n\r\n")
            if end < 0:
                return False
            self._head = _parse(bytes(self._buffer[:end]).decode("latin-1"))
            self._length = int(self._head[1].get("content-length", 0))
            del self._buffer[: end + 4]
        if len(self._buffer) < self._length:
            return False
        (path, headers), body = self._head, bytes(self._buffer[: self._length])
        del self._buffer[: self._length]
        self._head = None
        self._on_request(self, path, headers, body)
        return True

    def abort(self) -> None:
        """Break off."""
        if self.transport is not None:
            self.transport.abort()

    def write(self, data: bytes, *, close: bool = False, reset: bool = False) -> None:
        """Send it; then close as if that were all, or break off."""
        if self.transport is None:
            return
        self.transport.write(data)
        if reset:
            asyncio.get_running_loop().call_later(0.01, self.abort)
        elif close:
            self.transport.close()


def _parse(head: str) -> tuple[str, dict[str, str]]:
    first, *lines = head.split("\r\n")
    pairs = (line.partition(":") for line in lines)
    return first.split(" ")[1], {name.lower(): value.strip() for name, _, value in pairs}
