"""HTTP requests: send bytes to one URL and return the response, without retries or rate limits."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote

from germane.clean import MASK, hidden_in, mask_urls
from germane.judges.client.retry import TransportError
from germane.version import __version__

__all__ = ["Secrets"]

if TYPE_CHECKING:
    import httpx2

LARGEST = 8_000_000  # maximum bytes of a response: no answer is that long
SHARED_BY = 8  # requests per client; small pools are faster, because each request visits all connections

Response = tuple[int, Mapping[str, str], bytes]  # an HTTP response: its status, headers and body

_HEADERS = {
    "content-type": "application/json",
    "accept": "application/json",
    "accept-encoding": "identity",
    "user-agent": f"germane/{__version__}",
}

_LONG = 16  # minimum length of keys that are masked in answers too; shorter strings may occur by chance
_HEADER_LONG = 9  # minimum length of a header's value that may be a key, whatever the header's name is
_OF_KEYS = re.compile("auth|key|token|secret|cookie|^sig|^code$|pass", re.IGNORECASE)


class Secrets:
    """The API keys in the headers and the URL for one server. They are masked if the server repeats them."""

    def __init__(self, headers: Mapping[str, str], key: str = "", url: str = "") -> None:
        values = {key}
        for name, value in (*headers.items(), *hidden_in(url).items()):
            if value.strip() and (len(value) >= _HEADER_LONG or _OF_KEYS.search(name)):
                values.add(value.split()[-1])  # removes a scheme such as Bearer
        values |= set(map(unquote, values))
        self._keys = sorted(filter(None, values), key=len, reverse=True)
        long = [key for key in self._keys if len(key) >= _LONG]
        self._plain = [key.encode() for key in long]
        spelt = "|".join("".join(map(_as_json, key)) for key in long)
        self._escaped = re.compile(spelt.encode()) if long else None

    def mask(self, data: bytes) -> bytes:
        """Return a response's body with every key of 16 or more characters masked, even if JSON-escaped."""
        escapes = b"u00" in data or b"\\/" in data
        if self._escaped is None or not (escapes or any(key in data for key in self._plain)):
            return data
        return self._escaped.sub(MASK.encode(), data)

    def mask_text(self, text: str) -> str:
        """Return an error message or header with every key masked; short keys only as whole words."""
        for key in self._keys:
            word = re.escape(key) if len(key) >= _LONG else rf"(?<!\w){re.escape(key)}(?!\w)"
            text = re.sub(word, MASK, text)
        return text

    def mask_response(self, response: Response) -> Response:
        """Return a response with the keys masked in the body and, if it is an error, in the headers."""
        status, headers, body = response
        if not 200 <= status < 300:
            headers = {name.lower(): self.mask_text(value) for name, value in headers.items()}
        return status, headers, self.mask(body)


def _as_json(char: str) -> str:
    """Return a regular expression that matches a character, plain or as a (possibly nested) JSON escape."""
    slashes = r"\\*" if char == "/" else ""
    return rf"(?:{slashes}{re.escape(char)}|\\+u(?i:{ord(char):04x}))"


class HTTPTransport:
    """A transport that sends each request as a POST to one URL; at most `most` are expected in flight.

    `connect` is how many seconds to wait for a connection. The caller limits the time for the answer. An
    instance belongs to one event loop.
    """

    def __init__(self, url: str, headers: Mapping[str, str], *, connect: float, most: int) -> None:
        import httpx2  # imported here, so that the time of the first request does not include it

        self.url = mask_urls(url)
        self.secrets = Secrets(headers, url=url)
        self._headers = {**_HEADERS, **headers}
        self._timeouts = {"timeout": {"connect": connect, "read": None, "write": None, "pool": None}}
        self._parsed = httpx2.URL(url)
        limits = httpx2.Limits(max_connections=None, max_keepalive_connections=2 * SHARED_BY)
        secure = httpx2.create_ssl_context() if self.url.startswith("https") else False
        opened = (httpx2.AsyncClient(limits=limits, verify=secure) for _ in range(-(-most // SHARED_BY)))
        self._clients = dict.fromkeys(opened, 0)  # the number of requests in flight, by client

    async def send(self, body: bytes) -> Response:
        """Send one request and return the response. Raises TransportError if there is no complete one."""
        import httpx2

        clients = self._clients
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

    async def close(self) -> None:
        """Close the connections; no further request can be sent."""
        for client in self._clients:
            await client.aclose()


async def _read(response: httpx2.Response) -> bytes:
    if (encoding := response.headers.get("content-encoding", "identity").lower()) != "identity":
        raise TransportError(f"the response is compressed ({encoding[:20]}), which the request did not allow")
    parts, size = [], 0
    async for chunk in response.aiter_raw():
        parts.append(chunk)
        size += len(chunk)
        if size > LARGEST:
            raise TransportError(f"the response is longer than the allowed {LARGEST:,} bytes")
    return b"".join(parts)
