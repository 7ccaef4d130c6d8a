"""Bytes to an endpoint and back over HTTP: no retries, no limits, no meaning."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Protocol

from germane import __version__

if TYPE_CHECKING:
    import ssl

    import httpx2

__all__ = ["Fault", "HTTPTransport", "Response", "Transport", "Unreachable"]

LANE = 8
"""Requests a client: its pool walks over all its connections for each of them, so that many small ones are cheaper."""

Response = tuple[int, Mapping[str, str], bytes]
"""Status, headers, body."""

_HEADERS = {
    "content-type": "application/json",
    "accept": "application/json",
    "accept-encoding": "identity",
    "user-agent": f"germane/{__version__}",
}


class Fault(Exception):
    """The transport failed; worth another attempt."""


class Unreachable(Fault):
    """There was no connection: nobody listens there, or there is no such host."""


class Transport(Protocol):
    """One model endpoint's far end.

    Attributes:
        url: Whom error messages name.
        secrets: What must not be shown, even where a server repeats it.
    """

    url: str
    secrets: Sequence[str]

    async def send(self, body: bytes) -> Response:
        """One request; Fault where there is no response."""
        ...

    async def close(self) -> None:
        """Close connections; a later request opens new ones."""
        ...


@dataclass(slots=True)
class _Lane:
    """One client and how many requests it has under way."""

    client: httpx2.AsyncClient
    load: int = 0


_load = attrgetter("load")


class HTTPTransport:
    """POST to one URL.

    Args:
        url: Where to.
        headers: Sent with every request.
        connect: Seconds for a connection. How long an answer may take is the caller's business.
        most: Requests in flight at most.
    """

    def __init__(self, url: str, headers: Mapping[str, str], *, connect: float, most: int) -> None:
        self.url = url
        self.secrets: Sequence[str] = [value.split()[-1] for value in headers.values() if len(value) > 8]
        self._headers = {**_HEADERS, **headers}
        self._times = {"timeout": {"connect": connect, "read": None, "write": None, "pool": None}}
        self._most = most
        self._to: httpx2.URL | str = url
        self._lanes: list[_Lane] = []
        self._loop: asyncio.AbstractEventLoop | None = None

    async def send(self, body: bytes) -> Response:
        """One request over the client that has least to do."""
        import httpx2

        lane = min(self._open(), key=_load)
        lane.load += 1
        try:
            request = httpx2.Request(
                "POST", self._to, headers=self._headers, content=body, extensions=self._times
            )
            response = await lane.client.send(request)
        except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
            raise Unreachable(_named(error)) from None
        except httpx2.RequestError as error:
            raise Fault(_named(error)) from None
        finally:
            lane.load -= 1
        return response.status_code, response.headers, response.content

    def _open(self) -> list[_Lane]:
        """The clients of the running loop; those left over from another loop are dropped."""
        loop = asyncio.get_running_loop()
        if not self._lanes or self._loop is not loop:
            import httpx2

            self._to = httpx2.URL(self.url)
            limits = httpx2.Limits(max_connections=None, max_keepalive_connections=2 * LANE)
            secure: ssl.SSLContext | bool = self.url.startswith("https") and httpx2.create_ssl_context()
            clients = (
                httpx2.AsyncClient(limits=limits, verify=secure) for _ in range(-(-self._most // LANE))
            )
            self._lanes, self._loop = [_Lane(client) for client in clients], loop
        return self._lanes

    async def close(self) -> None:
        """Close connections; a later request opens new ones."""
        lanes, self._lanes = self._lanes, []
        if self._loop is asyncio.get_running_loop():
            for lane in lanes:
                await lane.client.aclose()


def _named(error: Exception) -> str:
    text = str(error)
    return f"{type(error).__name__}{': ' + text if text else ''}"
