"""The batches of OpenAI, which many gateways and servers speak: a file of requests in, a file of answers out."""

from __future__ import annotations

import tempfile
from codecs import BOM_UTF8
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from typing import Any

import httpx2

from germane.addons.batches.api import URL, AbsentBatch, BatchState, Request, line_of
from germane.clean import mask_urls
from germane.encoding import decode
from germane.errors import JudgeError
from germane.judges import LLMJudge
from germane.judges.client.errors import TransportError, message_of
from germane.judges.client.transport import Secrets
from germane.types import Json
from germane.version import __version__

_ENDED = {"completed", "failed", "expired", "cancelled"}
_METADATA = "germane_batch"
_UNSURE = {408, 429}
"""Statuses after which the same request may be made again later."""
_PAGE = 100
_SECONDS = {"connect": 20.0, "read": 300.0, "write": 300.0, "pool": None}


class OpenAIBatches:
    """Batches of a server that speaks OpenAI's files and batches APIs."""

    most_requests = 50_000
    most_bytes = 200_000_000

    def __init__(self, model: LLMJudge) -> None:
        self.model, self._service, headers = model, model.service, model.headers()
        agent = {"user-agent": f"germane/{__version__}", **headers}
        self._secrets = Secrets(headers, url=self._service.url)
        self._client = httpx2.AsyncClient(headers=agent, timeout=httpx2.Timeout(**_SECONDS))

    async def line(self, request: str, body: bytes) -> bytes:
        """Return the line as files have it."""
        return line_of(request, body)

    async def create(self, batch: str, requests: Sequence[Request]) -> str:
        """Upload the file, then create the batch; the file is deleted if the batch is refused."""
        content = b"\n".join(request.line for request in requests) + b"\n"
        parts = {"file": (f"{batch}.jsonl", content, "application/jsonl")}
        file = (await self._call("POST", "files", data={"purpose": "batch"}, files=parts))["id"]
        body = {
            "input_file_id": file,
            "endpoint": URL,
            "completion_window": "24h",
            "metadata": {_METADATA: batch},
        }
        try:
            made = await self._call("POST", "batches", json=body)
        except JudgeError:
            with suppress(JudgeError, TransportError):
                await self._call("DELETE", f"files/{file}")
            raise
        return str(made["id"])

    async def find(self, batch: str, requests: set[str], since: str) -> str | None:  # noqa: ARG002 - it is named
        """Find the batch by its metadata, newest first."""
        query: dict[str, str | int] = {"limit": _PAGE}
        while True:
            page = await self._call("GET", "batches", params=query)
            for value in page["data"]:
                if (value.get("metadata") or {}).get(_METADATA) == batch:
                    return str(value["id"])
            if not page.get("has_more") or not page["data"]:
                return None
            query["after"] = page["data"][-1]["id"]

    async def state(self, name: str) -> BatchState:
        """Return the state of the batch, as the server calls it."""
        result = await self._call("GET", f"batches/{name}")
        status = str(result.get("status"))
        errors = ((result.get("errors") or {}).get("data") or []) if status == "failed" else []
        why = "; ".join(dict.fromkeys(str(error.get("message") or error) for error in errors[:5]))
        return BatchState(
            status, ended=status in _ENDED, why=why or "no reason given" if status == "failed" else ""
        )

    async def answers(self, name: str) -> AsyncIterator[Json]:
        """Yield the lines of both result files; answers from before a batch expired or was cancelled are there and paid for."""
        result = await self._call("GET", f"batches/{name}")
        for file in filter(None, (result.get("output_file_id"), result.get("error_file_id"))):
            async for line in self._lines(file):
                yield line

    async def _lines(self, file: str) -> AsyncIterator[Json]:
        with tempfile.TemporaryFile() as kept:
            try:
                async with self._client.stream("GET", self._service.at(f"files/{file}/content")) as response:
                    if response.status_code != 200:
                        self._refused(
                            "GET", f"files/{file}/content", response.status_code, await response.aread()
                        )
                    async for chunk in response.aiter_bytes():
                        kept.write(chunk)
            except httpx2.RequestError as error:
                raise TransportError(f"{type(error).__name__}: {error}") from None
            kept.seek(0)
            for line in kept:  # by b"\n" alone: a text may hold other ends of lines
                with suppress(ValueError, RecursionError):  # its request is then without an answer
                    answer = decode(self._secrets.mask(line.removeprefix(BOM_UTF8)))
                    if isinstance(answer, dict) and isinstance(answer.get("custom_id"), str):
                        yield answer

    async def cancel(self, name: str) -> None:
        """Ask the server to cancel it, which takes up to ten minutes."""
        with suppress(JudgeError):  # it has ended
            await self._call("POST", f"batches/{name}/cancel")

    async def close(self) -> None:
        """Close the HTTP client and its connections."""
        await self._client.aclose()

    async def _call(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        try:
            response = await self._client.request(method, self._service.at(path), **more)
        except httpx2.RequestError as error:
            raise TransportError(": ".join(filter(None, (type(error).__name__, str(error))))) from None
        if not 200 <= response.status_code < 300:
            self._refused(method, path, response.status_code, response.content)
        try:
            result = decode(self._secrets.mask(response.content))
        except ValueError:
            result = None
        if not isinstance(result, dict):
            raise TransportError(f"{method} {mask_urls(self._service.at(path))} answered no JSON object")
        return result

    def _refused(self, method: str, path: str, status: int, body: bytes) -> None:
        why = self._secrets.mask_text(message_of(self._secrets.mask(body), status))
        message = f"{method} {mask_urls(self._service.at(path))}: {status} {why}"
        if status >= 500 or status in _UNSURE:
            raise TransportError(message)
        if status == 404:
            raise AbsentBatch(
                f"{message}; are there batches at this server? germane questions writes the requests to a file"
            )
        raise JudgeError(message)
