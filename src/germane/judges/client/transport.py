"""Requests over HTTP: bytes to one URL and back, without retries or limits."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote

from germane.clean import MASK, hidden_in, mask_urls
from germane.judges.client.errors import TransportError
from germane.version import __version__

__all__ = ["Secrets"]

if TYPE_CHECKING:
    import httpx2

LARGEST = 8_000_000
"""Maximum bytes of a response: no answer is that long."""

SHARED_BY = 8
"""Requests per client. A pool visits all of its connections for each request, so many small pools are cheaper."""

Response = tuple[int, Mapping[str, str], bytes]
"""An HTTP response: its status, headers and body."""

_HEADERS = {
    "content-type": "application/json",
    "accept": "application/json",
    "accept-encoding": "identity",
    "user-agent": f"germane/{__version__}",
}


_LONG = 16
"""Characters of a key that no answer holds by chance. A shorter one (`none`) is masked in errors and headers only."""
_HEADER_LONG = 9
"""Characters of a header's value that may be a key, whatever the header is called."""
_OF_KEYS = re.compile("auth|key|token|secret|cookie|^sig|^code$|pass", re.IGNORECASE)


class Secrets:
    """The keys sent to one server, in headers and its URL, which it may repeat in errors and answers."""

    def __init__(self, headers: Mapping[str, str], key: str = "", url: str = "") -> None:
        sent = [*headers.items(), *hidden_in(url).items()]
        values = {key} | {
            words[-1]  # without a scheme such as Bearer
            for name, value in sent
            if (words := value.split()) and (len(value) >= _HEADER_LONG or _OF_KEYS.search(name))
        }
        values |= set(map(unquote, values))
        self._keys = sorted(filter(None, values), key=len, reverse=True)
        long = [key for key in self._keys if len(key) >= _LONG]
        slashes = r"\\*"
        self._plain = [key.encode() for key in long]
        # JSON may write any character as an escape, and JSON in a text of JSON escapes that again
        spelt = (
            "".join(
                rf"(?:{slashes * (char == '/')}{re.escape(char)}|\\+u(?i:{ord(char):04x}))" for char in key
            )
            for key in long
        )
        self._escaped = re.compile("|".join(spelt).encode()) if long else None

    def mask(self, data: bytes) -> bytes:
        """Return a response's bytes with every long key masked, in any JSON escaping."""
        escapes = b"u00" in data or b"\\/" in data
        if self._escaped is None or not (escapes or any(key in data for key in self._plain)):
            return data
        return self._escaped.sub(MASK.encode(), data)

    def mask_text(self, text: str) -> str:
        """Return an error or header with every key masked; short keys only as whole words."""
        for key in self._keys:
            word = re.escape(key) if len(key) >= _LONG else rf"(?<!\w){re.escape(key)}(?!\w)"
            text = re.sub(word, MASK, text)
        return text

    def mask_response(self, response: Response) -> Response:
        """Return the response with the keys masked."""
        status, headers, body = response
        if 200 <= status < 300:
            return status, headers, self.mask(body)
        masked = {name.lower(): self.mask_text(value) for name, value in headers.items()}
        return status, masked, self.mask(body)


class HTTPTransport:
    """POST to one URL.

    Args:
        url: Where to.
        headers: Sent with every request.
        connect: Seconds for a connection. The timeout of an answer is the caller's.
        most: Requests in flight at most.
    """

    def __init__(self, url: str, headers: Mapping[str, str], *, connect: float, most: int) -> None:
        import httpx2  # here, so that the first answer's time does not count it

        self.url = mask_urls(url)
        self.secrets = Secrets(headers, url=url)
        self._headers = {**_HEADERS, **headers}
        self._timeouts = {"timeout": {"connect": connect, "read": None, "write": None, "pool": None}}
        self._count = -(-most // SHARED_BY)
        self._parsed = httpx2.URL(url)
        self._clients: dict[httpx2.AsyncClient, int] = {}  # with their requests in flight
        self._loop: asyncio.AbstractEventLoop | None = None

    async def send(self, body: bytes) -> Response:
        """Send one request over the client with the fewest in flight; TransportError if there is no complete response."""
        import httpx2

        clients = self._open()
        client = min(clients, key=clients.__getitem__)
        clients[client] += 1
        try:
            request = httpx2.Request(
                "POST", self._parsed, headers=self._headers, content=body, extensions=self._timeouts
            )
            response = await client.send(request, stream=True)
            try:
                return response.status_code, response.headers, await _read(response)
            finally:
                await response.aclose()
        except httpx2.RequestError as error:
            raise TransportError(": ".join(filter(None, (type(error).__name__, str(error))))) from None
        finally:
            clients[client] -= 1

    def _open(self) -> dict[httpx2.AsyncClient, int]:
        """Return the clients of the running event loop; those of another loop are dropped."""
        loop = asyncio.get_running_loop()
        if not self._clients or self._loop is not loop:
            import httpx2

            limits = httpx2.Limits(max_connections=None, max_keepalive_connections=2 * SHARED_BY)
            secure = httpx2.create_ssl_context() if self.url.startswith("https") else False
            opened = (httpx2.AsyncClient(limits=limits, verify=secure) for _ in range(self._count))
            self._clients, self._loop = dict.fromkeys(opened, 0), loop
        return self._clients

    async def close(self) -> None:
        """Close connections; a later request opens new ones."""
        clients, self._clients = self._clients, {}
        if self._loop is asyncio.get_running_loop():
            for client in clients:
                await client.aclose()


async def _read(response: httpx2.Response) -> bytes:
    """Return the body, up to LARGEST bytes; compressed bodies are not decompressed, so that size is checked."""
    if (encoding := response.headers.get("content-encoding", "identity").lower()) != "identity":
        raise TransportError(f"the body is encoded as {encoding[:20]}, though only identity was accepted")
    parts, size = [], 0
    async for chunk in response.aiter_raw():
        parts.append(chunk)
        size += len(chunk)
        if size > LARGEST:
            raise TransportError(f"the body is longer than {LARGEST:,} bytes")
    return b"".join(parts)
