"""HTTP/1.1 on asyncio, as little of it as a model server needs: keep-alive, whole bodies, one answer at a time."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections.abc import Callable, Mapping
from http.client import responses
from typing import TypeAlias, cast

Head: TypeAlias = tuple[str, dict[str, str]]
"""A request's path, and its headers by their names in lower case, its method as `:method`."""

_END = b"\r\n\r\n"


def response(status: int, headers: Mapping[str, str | float], body: bytes) -> bytes:
    """A whole response as bytes."""
    lines = [
        f"HTTP/1.1 {status} {responses.get(status, 'Status')}",
        "content-type: application/json",
        f"content-length: {len(body)}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return "\r\n".join(lines).encode() + _END + body


class Connection(asyncio.Protocol):
    """One client's connection: hands over each whole request, writes what it is given. What is no HTTP gets a 400.

    Attributes:
        waiting: How many requests the client waits for.
        transport: None once the client has gone.
    """

    def __init__(
        self,
        on_request: Callable[[Connection, str, Mapping[str, str], bytes], None],
        connected: set[Connection],
    ) -> None:
        self._on_request, self._connected = on_request, connected
        self._buffer = bytearray()
        self._head: Head | None = None
        self.waiting = 0
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Remember where to write."""
        self._connected.add(self)
        self.transport = cast("asyncio.Transport", transport)

    def connection_lost(self, _error: Exception | None) -> None:
        """Nobody waits any more."""
        self._connected.discard(self)
        self.transport = None

    def data_received(self, data: bytes) -> None:
        """Hand over what is whole."""
        self._buffer += data
        while (request := self._next()) is not None:
            (path, headers), body = request
            self.waiting += 1
            self._on_request(self, path, headers, body)

    def _next(self) -> tuple[Head, bytes] | None:
        """The next whole request; None where more has to come, or nothing that follows can be read."""
        try:
            if self._head is None:
                head, end, rest = self._buffer.partition(_END)
                if not end:
                    return None
                self._head, self._buffer = _parse(head.decode("latin-1")), rest
            length = _length(self._head[1])
        except ValueError as wrong:
            self._buffer.clear()
            answer = json.dumps({"error": {"message": f"not a request: {wrong}"}}).encode()
            self.write(response(400, {"connection": "close"}, answer), close=True)
            return None
        if len(self._buffer) < length:
            return None
        request = self._head, bytes(self._buffer[:length])
        self._head = None
        del self._buffer[:length]
        return request

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
    return words[1], {":method": words[0]} | {name.strip().lower(): value.strip() for name, _, value in pairs}


def _length(headers: Mapping[str, str]) -> int:
    """Bytes of the body; a chunked one is not taken."""
    length = headers.get("content-length", "0")
    if "transfer-encoding" in headers or not (length.isascii() and length.isdigit()):
        raise ValueError(f"{length[:20]!r} is no content-length")
    return int(length)
