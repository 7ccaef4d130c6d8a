"""HTTP/1.1 on asyncio, as little of it as a model server needs: keep-alive, whole bodies, one answer at a time."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Callable, Mapping
from typing import TypeAlias, cast

Head: TypeAlias = tuple[str, dict[str, str]]
"""A request's path, and its headers by their names in lower case."""

_REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 404: "Not Found", 429: "Too Many Requests"}
_END = b"\r\n\r\n"


def response(status: int, headers: Mapping[str, str | float], body: bytes) -> bytes:
    """A whole response as bytes."""
    lines = [
        f"HTTP/1.1 {status} {_REASONS.get(status, 'Status')}",
        "content-type: application/json",
        f"content-length: {len(body)}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join(lines).encode() + _END + body


class Connection(asyncio.Protocol):
    """One client's connection: hands over each whole request, writes what it is given. What is no HTTP gets a 400."""

    def __init__(
        self,
        on_request: Callable[[Connection, str, Mapping[str, str], bytes], None],
        connected: set[Connection],
        on_lost: Callable[[int], None],
    ) -> None:
        self._on_request, self._connected, self._on_lost = on_request, connected, on_lost
        self._unanswered = 0
        self._buffer = bytearray()
        self._head: Head | None = None
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to write."""
        self._connected.add(self)
        self.transport = cast("asyncio.Transport", transport)

    def connection_lost(self, _error: Exception | None) -> None:
        """Forget where to write, and say how many requests nobody waits for any more."""
        self._connected.discard(self)
        self.transport = None
        self._on_lost(self._unanswered)

    def data_received(self, data: bytes) -> None:
        """Hand over what is whole."""
        self._buffer += data
        while (request := self._next()) is not None:
            (path, headers), body = request
            self._unanswered += 1
            self._on_request(self, path, headers, body)

    def _next(self) -> tuple[Head, bytes] | None:
        """The next whole request; None where more has to come, or nothing that follows can be read."""
        try:
            if self._head is None:
                end = self._buffer.find(_END)
                if end < 0:
                    return None
                self._head = _parse(bytes(self._buffer[:end]).decode("latin-1"))
                del self._buffer[: end + len(_END)]
            length = _length(self._head[1])
        except ValueError as wrong:
            self._buffer.clear()
            answer = json.dumps({"error": {"message": f"not a request: {wrong}"}}).encode()
            self.write(response(400, {"connection": "close"}, answer), close=True)
            return None
        if len(self._buffer) < length:
            return None
        head, self._head = self._head, None
        body = bytes(self._buffer[:length])
        del self._buffer[:length]
        return head, body

    def abort(self) -> None:
        """Break off."""
        if self.transport is not None:
            self.transport.abort()

    def _reset(self) -> None:
        """Break off so that the client sees a reset, and not the end of the stream."""
        if self.transport is not None:
            at_once = struct.pack("ii", 1, 0)
            self.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, at_once)
            self.transport.abort()

    def answered(self) -> bool:
        """One request is about to be answered; False where nobody waits for it any more."""
        self._unanswered -= 1
        return self.transport is not None

    def write(self, data: bytes, *, close: bool = False, reset: bool = False, drip: float = 0.0) -> None:
        """Send it, or byte by byte with `drip` seconds between; then close as if that were all, or break off."""
        if self.transport is None:
            return
        loop = asyncio.get_running_loop()
        if drip and len(data) > 1:
            self.transport.write(data[:1])
            loop.call_later(drip, lambda: self.write(data[1:], close=close, reset=reset, drip=drip))
            return
        self.transport.write(data)
        if reset:
            loop.call_later(0.01, self._reset)
        elif close:
            self.transport.close()


def _parse(head: str) -> Head:
    first, *lines = head.split("\r\n")
    words = first.split(" ")
    if len(words) != 3 or not words[2].startswith("HTTP/1."):
        raise ValueError(f"{first[:80]!r} is no request line")
    pairs = (line.partition(":") for line in lines)
    return words[1], {name.strip().lower(): value.strip() for name, _, value in pairs}


def _length(headers: Mapping[str, str]) -> int:
    """Bytes of the body; a chunked one is not taken."""
    length = headers.get("content-length", "0")
    if "transfer-encoding" in headers or not (length.isascii() and length.isdigit()):
        raise ValueError(f"{length[:20]!r} is no content-length")
    return int(length)
