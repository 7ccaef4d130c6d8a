"""The interface of a provider's batches: requests in, a name, a state, answers; whatever the protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from germane.errors import JudgeError
from germane.ledger.asked import Request
from germane.types import Json

UNRUN = "batch_expired"
"""The code of an error of a request that was not answered before its batch ended."""


class AbsentBatch(JudgeError):
    """The provider has no such batch, or no longer."""


@dataclass(frozen=True, slots=True)
class BatchState:
    """The state of a batch, as its provider calls it; `why` it failed as a whole."""

    called: str
    ended: bool = False
    why: str = ""


class BatchAPI(Protocol):
    """The batches of one model at one provider.

    Every method raises JudgeError where the provider refuses, and TransportError where it is not known what became of the
    request: nobody answers, or with a fault of its own; AbsentBatch where the provider does not know a batch (any more).

    Attributes:
        most_requests, most_bytes: The limits of one batch.
    """

    most_requests: int
    most_bytes: int

    async def line(self, request: str, body: bytes) -> bytes:
        """The line of a request of this name (32 characters), from the body of a chat completion."""

    async def create(self, batch: str, requests: Sequence[Request]) -> str:
        """Make a batch of these requests' lines that is called `batch`, by our name; the provider's."""

    async def find(self, batch: str, requests: set[str], since: str) -> str | None:
        """The provider's name of a batch that we have called `batch`, or that holds these requests, made since then.

        None where there is none, "" where that cannot be told yet.
        """

    async def state(self, name: str) -> BatchState:
        """The state of a batch: the provider's word for it, whether it has ended, and why it failed."""

    def answers(self, name: str) -> AsyncIterator[Json]:
        """The answers of a batch that has ended, in any order: `custom_id`, and the `response` or an `error`."""

    async def cancel(self, name: str) -> None:
        """Answer no more of its requests; those that are answered can be read when it has ended. One that has ended stays."""

    async def close(self) -> None:
        """Close the connections to the provider; no method may be called afterwards."""


def unrun(request: str, why: str) -> Json:
    """The line of a request that its batch did not run."""
    return {"custom_id": request, "response": None, "error": {"code": UNRUN, "message": why}}
