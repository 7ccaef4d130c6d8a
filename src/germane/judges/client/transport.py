"""Requests over HTTP: bytes to one URL and back, without retries, limits or meaning."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Protocol

from germane.judges.client.errors import TransportError
from germane.version import __version__

if TYPE_CHECKING:
    import httpx2

LARGEST = 8_000_000
"""Bytes of a response at most: no verdict is that long."""

SHARED_BY = 8
"""Requests per client: its pool walks over all of its connections for each, so that many small pools are cheaper."""

Response = tuple[int, Mapping[str, str], bytes]
"""An HTTP response: its status, headers and body."""

_HEADERS = {
    "content-type": "application/json",
    "accept": "application/json",
    "accept-encoding": "identity",
    "user-agent": f"germane/{__version__}",
}


class Transport(Protocol):
    """The far end of one model endpoint.

    Attributes:
        url: The name in error messages.
        secrets: Texts that must not be shown, even where a server repeats them.
    """

    url: str
    secrets: Sequence[str]

    async def send(self, body: bytes) -> Response:
        """One request; TransportError where there is no response."""

    async def close(self) -> None:
        """Close connections; a later request opens new ones."""


def secrets_in(values: Sequence[str]) -> list[str]:
    """The keys and header values that are long enough to be secrets, without a scheme such as Bearer."""
    return [value.split()[-1] for value in values if len(value) > 8]


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

        self.url = url
        self.secrets: Sequence[str] = secrets_in(list(headers.values()))
        self._headers = {**_HEADERS, **headers}
        self._timeouts = {"timeout": {"connect": connect, "read": None, "write": None, "pool": None}}
        self._count = -(-most // SHARED_BY)
        self._parsed = httpx2.URL(url)
        self._clients: dict[httpx2.AsyncClient, int] = {}  # with their requests in flight
        self._loop: asyncio.AbstractEventLoop | None = None

    async def send(self, body: bytes) -> Response:
        """One request over the client that has least to do; TransportError where there is no whole response."""
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
        """The clients of the running loop; those left over from another loop are dropped."""
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
    """The body as it arrives, up to LARGEST bytes: nothing is decompressed, so that none is larger than it looks."""
    if (encoding := response.headers.get("content-encoding", "identity").lower()) != "identity":
        raise TransportError(f"the body is encoded as {encoding[:20]}, though only identity was accepted")
    parts, size = [], 0
    async for chunk in response.aiter_raw():
        parts.append(chunk)
        size += len(chunk)
        if size > LARGEST:
            raise TransportError(f"the body is longer than {LARGEST:,} bytes")
    return b"".join(parts)
