"""A client for OpenAI's batch API, which many gateways and servers support.

A file of requests is uploaded, and a file of answers is downloaded.
"""

from __future__ import annotations

import tempfile
from codecs import BOM_UTF8
from collections.abc import Iterator, Sequence
from contextlib import suppress
from typing import IO, Any

import httpx2

from germane.addons.batches.requests import URL, Request
from germane.clean import mask_urls
from germane.encoding import decode
from germane.errors import JudgeError
from germane.judges import LLMJudge
from germane.judges.client.retry import TransportError, message_of
from germane.judges.client.transport import Secrets
from germane.types import Json
from germane.version import __version__

MOST_REQUESTS, MOST_BYTES = 50_000, 200_000_000
"""The largest number of requests and of bytes in one batch."""
_ENDED = {"completed", "failed", "expired", "cancelled"}
_METADATA = "germane_batch"
_UNSURE = {408, 429}
"""HTTP statuses after which the same request may be sent again later."""
_SECONDS = {"connect": 20.0, "read": 300.0, "write": 300.0, "pool": None}


class AbsentBatch(JudgeError):
    """Raised if the server does not know a batch, which may have been deleted."""


class BatchClient:
    """A client that creates batches of one model and downloads their answers.

    Its methods raise JudgeError if the server refuses a request, and TransportError if the outcome of a
    request is unknown.
    """

    def __init__(self, model: LLMJudge) -> None:
        self.model, self._service, headers = model, model.service, model.headers()
        agent = {"user-agent": f"germane/{__version__}", **headers}
        self._secrets = Secrets(headers, url=self._service.url)
        self._client = httpx2.AsyncClient(headers=agent, timeout=httpx2.Timeout(**_SECONDS))

    async def create(self, batch: str, requests: Sequence[Request]) -> str:
        """Upload the requests and create a batch named `batch`; return the server's name of it."""
        content = b"\n".join(request.line for request in requests) + b"\n"
        parts = {"file": (f"{batch}.jsonl", content, "application/jsonl")}
        file = await self._create("files", data={"purpose": "batch"}, files=parts)
        body: dict[str, Json] = {
            "input_file_id": file,
            "endpoint": URL,
            "completion_window": "24h",
            "metadata": {_METADATA: batch},
        }
        return await self._create("batches", json=body)

    async def _create(self, path: str, **more: Any) -> str:
        name = (await self._call("POST", path, **more)).get("id")
        if not isinstance(name, str):
            raise TransportError(f"POST {mask_urls(self._service.at(path))} returned no id")
        return name

    async def find(self, batch: str) -> str | None:
        """Return the server's name of the batch that germane named `batch`, or None if there is none."""
        query: dict[str, str | int] = {"limit": 100}
        while True:
            page = await self._call("GET", "batches", params=query)
            rows = [row for row in _list(page.get("data")) if isinstance(row, dict) and row.get("id")]
            for row in rows:
                if _object(row.get("metadata")).get(_METADATA) == batch:
                    return str(row["id"])
            if not page.get("has_more") or not rows or rows[-1]["id"] == query.get("after"):
                return None  # in the last case, the server has pages but ignores `after`
            query["after"] = rows[-1]["id"]

    async def end_of(self, name: str) -> str | None:
        """Return why an ended batch failed as a whole, "" if it did not; None if it still runs."""
        result = await self._call("GET", f"batches/{name}")
        errors = _list(_object(result.get("errors")).get("data")) if result.get("status") == "failed" else []
        why = "; ".join(dict.fromkeys(str(_object(error).get("message") or error) for error in errors[:5]))
        return why if result.get("status") in _ENDED else None

    async def answers(self, name: str) -> Iterator[Json]:
        """Download the answers and errors of an ended batch; return an iterator over their valid lines."""
        result = await self._call("GET", f"batches/{name}")
        names = filter(None, (result.get("output_file_id"), result.get("error_file_id")))
        files = [await self._download(f"files/{file}/content") for file in names]
        return (line for file in files for line in self._lines(file))

    async def _download(self, path: str) -> IO[bytes]:
        kept = tempfile.TemporaryFile()  # noqa: SIM115 - it is read, and closed, by _lines
        try:
            async with self._client.stream("GET", self._service.at(path)) as response:
                if response.status_code != 200:
                    self._refused("GET", path, response.status_code, await response.aread())
                async for chunk in response.aiter_bytes():
                    kept.write(chunk)
        except httpx2.RequestError as error:
            raise TransportError(f"{type(error).__name__}: {error}") from None
        kept.seek(0)
        return kept

    def _lines(self, file: IO[bytes]) -> Iterator[Json]:
        with file:
            for line in file:  # split at b"\n" only: strings may contain other line ends
                with suppress(ValueError, RecursionError):  # the request then has no answer
                    answer = decode(self._secrets.mask(line.removeprefix(BOM_UTF8)))
                    if isinstance(answer, dict) and isinstance(answer.get("custom_id"), str):
                        yield answer

    async def close(self) -> None:
        """Close the HTTP client and its connections."""
        await self._client.aclose()

    async def _call(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        try:
            response = await self._client.request(method, self._service.at(path), **more)
        except httpx2.RequestError as error:
            raise TransportError(f"{type(error).__name__}: {error}") from None
        if not 200 <= response.status_code < 300:
            self._refused(method, path, response.status_code, response.content)
        try:
            result = decode(self._secrets.mask(response.content))
        except ValueError:
            result = None
        if not isinstance(result, dict):
            raise TransportError(f"{method} {mask_urls(self._service.at(path))} did not return a JSON object")
        return result

    def _refused(self, method: str, path: str, status: int, body: bytes) -> None:
        why = self._secrets.mask_text(message_of(self._secrets.mask(body), status))
        message = f"{method} {mask_urls(self._service.at(path))}: {status} {why}"
        if status >= 500 or status in _UNSURE:
            raise TransportError(message)
        raise AbsentBatch(message) if status == 404 else JudgeError(message)


def _object(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []
