"""Batches of providers with their own protocol; pydantic-ai encodes, reads and cancels them.

What goes in and what comes out has the shape of OpenAI's: the body of a chat completion, and lines with one.
"""

from __future__ import annotations

import io
import json
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

from pydantic_ai.exceptions import ModelAPIError, ModelHTTPError, UnexpectedModelBehavior, UserError
from pydantic_ai.models.batch import Batch, BatchResult, EncodedBatchRequest

from germane.addons.batches.api import AbsentBatch, BatchState, Request, unrun
from germane.errors import JudgeError
from germane.judges import LLMJudge
from germane.judges.client.errors import TransportError
from germane.judges.client.foreign import PydanticAITransport
from germane.types import Json

_SKEW = timedelta(minutes=5)
"""The lag of the provider's clock, at most."""


class _ForeignBatches:
    """The batches of a provider with its own protocol, through pydantic-ai; subclasses create and find them."""

    def __init__(self, model: LLMJudge, transport: PydanticAITransport) -> None:
        self.model, self._transport, self._model = model, transport, transport.model
        self._client: Any = getattr(self._model, "client", None)
        self.most_requests: int = self._model.batch_max_requests or 1
        self.most_bytes: int = min(self._model.batch_max_bytes or _MOST_BYTES, _MOST_BYTES)
        self._group = ""

    async def line(self, request: str, body: bytes) -> bytes:
        """Return the line as pydantic-ai encodes it; JudgeError if batches do not accept the request."""
        await self._transport.enter()
        try:
            encoded = await self._model.batch_encode(self._transport.batch_request(request, body))
        except UserError as error:
            raise JudgeError(str(error)) from None
        self._group = encoded.group
        return encoded.body.encode()

    async def _handle(self, name: str) -> Batch:
        """Return pydantic-ai's handle of a batch, made of its name; the group is that of any request to the same model."""
        if not self._group:
            await self.line("any", _ANY)
        return Batch(
            id=name,
            model_name=self._model.model_name,
            provider_name=self._model.system,
            group=self._group,
            status="in_progress",
            created_at=datetime.now(UTC),
            request_count=0,
        )

    async def state(self, name: str) -> BatchState:
        """Return the state in pydantic-ai's terms; a batch that failed as a whole may be known only by its answers."""
        batch = await self._asked(self._model.batch_status(await self._handle(name)))
        called = str((batch.provider_details or {}).get("state") or batch.status)
        why = "the job failed" if called == "JOB_STATE_FAILED" else ""
        return BatchState(called, ended=batch.status == "ended", why=why)

    async def answers(self, name: str) -> AsyncIterator[Json]:
        """Yield the answer lines of all requests that the provider answered or failed."""
        batch = await self._asked(self._model.batch_status(await self._handle(name)))
        for result in await self._asked(self._model.batch_results(batch)):
            yield self._line(result)

    def _line(self, result: BatchResult) -> Json:
        if result.status in {"expired", "canceled"}:
            return unrun(result.custom_id, f"the batch was {result.status} before the request was run")
        line: dict[str, Json] = {"custom_id": result.custom_id, "response": None}
        try:
            response = self._model.batch_decode(result, self._transport.batch_request(result.custom_id, _ANY))
            line["response"] = {"status_code": 200, "body": self._transport.completion(response)}
        except ModelHTTPError as error:
            body = {"error": {"message": str(error.body or error)}}
            line["response"] = {"status_code": error.status_code, "body": body}
        except (ModelAPIError, UnexpectedModelBehavior) as error:
            line["error"] = {"message": str(error)}
        return line

    async def cancel(self, name: str) -> None:
        """Ask the provider to cancel it."""
        with suppress(JudgeError):  # it has ended
            await self._asked(self._model.batch_cancel(await self._handle(name)))

    async def close(self) -> None:
        """Close the connections of the provider's library."""
        await self._transport.close()

    async def _asked(self, work: Any) -> Any:
        """Return the result of a request of the provider's library, with its exceptions raised as ours."""
        await self._transport.enter()
        try:
            return await work
        except (JudgeError, TransportError):
            raise
        except UserError as error:
            raise JudgeError(str(error)) from None
        except Exception as error:  # noqa: BLE001 - a provider's library raises whatever it likes
            status = error.status_code if isinstance(error, ModelHTTPError) else _status(error)
            if status == 404:
                raise AbsentBatch(str(error)) from None
            if status and 400 <= status < 500 and status not in {408, 429}:
                raise JudgeError(f"{type(error).__name__}: {error}") from None
            raise TransportError(f"{type(error).__name__}: {error}") from None


class AnthropicBatches(_ForeignBatches):
    """Anthropic's message batches. They carry no name of ours, so a batch is found by the ids of its requests."""

    async def create(self, batch: str, requests: Sequence[Request]) -> str:  # noqa: ARG002 - it takes no name
        """Create a batch and return its name at Anthropic."""
        encoded = [
            EncodedBatchRequest(custom_id=row.custom_id, group=self._group, body=row.line.decode())
            for row in requests
        ]
        made: Batch = await self._asked(self._model.batch_create(encoded))
        return made.id

    async def find(self, batch: str, requests: set[str], since: str) -> str | None:  # noqa: ARG002 - it takes no name
        """Find the batch by the ids of its requests, which are visible once it has ended; until then by their number."""
        oldest = datetime.fromisoformat(since) - _SKEW
        batches = self._client.beta.messages.batches
        pending = False
        page = await self._asked(batches.list(limit=100))
        async for value in page:
            if value.created_at < oldest:
                break
            counts = value.request_counts
            number = counts.processing + counts.succeeded + counts.errored + counts.canceled + counts.expired
            if number != len(requests):
                continue
            if value.processing_status != "ended":
                pending = True
                continue
            async for item in await self._asked(batches.results(value.id)):
                if item.custom_id in requests:
                    return str(value.id)
                break
        return "" if pending else None


class GeminiBatches(_ForeignBatches):
    """Batch jobs of the Gemini API, made from an uploaded file; our name is the display name."""

    async def create(self, batch: str, requests: Sequence[Request]) -> str:
        """Upload the file, then create the job; the file is deleted if the job is refused."""
        client = self._client.aio
        content = b"\n".join(
            b'{"key":%b,"request":%b}' % (json.dumps(row.custom_id).encode(), row.line) for row in requests
        )
        config = {"mime_type": "application/jsonl", "display_name": batch}
        file = await self._asked(client.files.upload(file=io.BytesIO(content), config=config))
        options = {"display_name": batch, "http_options": {"retry_options": {"attempts": 1}}}
        try:
            job = await self._asked(
                client.batches.create(model=self._model.model_name, src=file.name, config=options)
            )
        except JudgeError:
            with suppress(JudgeError, TransportError):
                await self._asked(client.files.delete(name=file.name))
            raise
        return str(job.name)

    async def find(self, batch: str, requests: set[str], since: str) -> str | None:  # noqa: ARG002 - it is named
        """Find the job by its display name."""
        client = self._client.aio
        async for job in await self._asked(client.batches.list(config={"page_size": 100})):
            if job.display_name == batch:
                return str(job.name)
        return None

    async def answers(self, name: str) -> AsyncIterator[Json]:
        """Yield the lines of the answer file; a job that failed or ended before it ran a request has none."""
        job = await self._asked(self._client.aio.batches.get(name=name))
        if job.dest is not None and job.dest.file_name:
            async for line in super().answers(name):
                yield line


_MOST_BYTES = 200_000_000
_ANY = b'{"model":"","messages":[{"role":"user","content":""}]}'
"""A request, where pydantic-ai wants to see one and looks at nothing in it."""


def _status(error: Exception) -> int:
    """Return the HTTP status in an error of a provider's library; 0 where there is none."""
    result = getattr(error, "status_code", None) or getattr(error, "code", None)
    return result if isinstance(result, int) else 0
