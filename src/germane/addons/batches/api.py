"""The interface of a provider's batches: requests in, a name, a state, answers, whatever the protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from germane.encoding import encode
from germane.errors import JudgeError
from germane.judges import LLMJudge
from germane.types import Json

UNRUN = "batch_expired"
"""The code of an error of a request that was not run before its batch ended."""

URL = "/v1/chat/completions"
"""The path that a line is posted to, the same wherever the server is."""


@dataclass(slots=True)
class Request:
    """One request to a model, with what it takes to read its answer later.

    Attributes:
        custom_id: A digest of what it asks: the same questions have the same id, whenever and by whomever they are asked.
        keys: The keys of its questions.
        record: What must be known to read its answer.
        body: The body of a chat completion.
        tokens, tokens_back: What it and its answer take, estimated from bytes.
        line: The body as the provider's batches have it.
    """

    custom_id: str
    keys: Sequence[str]
    record: Mapping[str, Json]
    body: bytes
    tokens: int
    tokens_back: int
    line: bytes = b""


class AbsentBatch(JudgeError):
    """The provider does not know the batch, or has deleted it."""


@dataclass(frozen=True, slots=True)
class BatchState:
    """The state of a batch, in the provider's words; `why` is the reason if it failed as a whole."""

    called: str
    ended: bool = False
    why: str = ""


class BatchAPI(Protocol):
    """The batches of one model at one provider.

    Each method raises JudgeError where the provider refuses, AbsentBatch where it does not know the batch, and TransportError
    where it is not known what became of the request.

    Attributes:
        model: The model.
        most_requests, most_bytes: The limits of one batch.
    """

    model: LLMJudge
    most_requests: int
    most_bytes: int

    async def line(self, request: str, body: bytes) -> bytes:
        """Return the line of a batch file for a request with this name (32 characters) and the body of a chat completion."""

    async def create(self, batch: str, requests: Sequence[Request]) -> str:
        """Create a batch of these requests with our name `batch`, and return the provider's name for it."""

    async def find(self, batch: str, requests: set[str], since: str) -> str | None:
        """Find a batch created since then by our name or its requests, and return the provider's name for it.

        None where there is none, "" where that cannot be told yet.
        """

    async def state(self, name: str) -> BatchState:
        """Return the state of a batch."""

    def answers(self, name: str) -> AsyncIterator[Json]:
        """Yield the answers of a batch that has ended, in any order: `custom_id`, and the `response` or an `error`."""

    async def cancel(self, name: str) -> None:
        """Cancel a batch; answers that exist can be read once it has ended."""

    async def close(self) -> None:
        """Close the connections to the provider."""


def unrun(request: str, why: str) -> Json:
    """Return the answer line of a request that its batch did not run."""
    return {"custom_id": request, "response": None, "error": {"code": UNRUN, "message": why}}


def line_of(request: str, body: bytes) -> bytes:
    """Return the line of a request as OpenAI's batches and `vllm run-batch` read it."""
    return b'{"custom_id":%b,"method":"POST","url":%b,"body":%b}' % (encode(request), encode(URL), body)
