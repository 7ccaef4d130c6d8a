"""The usage of one call (a group of questions), and what its next request takes over from the ones before."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import monotonic
from uuid import uuid4

from germane.judges.client.output import BYTES_PER_TOKEN, ModelRequest
from germane.judges.client.parsing import Completion
from germane.judges.client.providers import Price
from germane.judges.client.ratelimits import Slot
from germane.types import Usage


@dataclass(slots=True)
class CallUsage:
    """The requests, tokens and time of one call, as its judgements state them.

    Attributes:
        id: Identifies the call in judgements.
        waits, faults: Requests that were asked to wait, and that failed on the way.
        reasked: Unusable answers that were asked again.
        estimated: True if tokens were counted from bytes, since the endpoint does not count.
        model, fingerprint: The model of the last answer and the fingerprint of its system, as the endpoint names them.
    """

    id: str = field(default_factory=lambda: uuid4().hex)
    started: float = field(default_factory=monotonic)
    requests: int = 0
    waits: int = 0
    faults: int = 0
    reasked: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    estimated: bool = False
    model: str = ""
    fingerprint: str = ""

    def count(self, sent: int | None, back: int | None, cached: int) -> None:
        """Add the tokens of one request."""
        self.input_tokens += sent or 0
        self.output_tokens += back or 0
        self.cached_tokens += cached

    def answered(self, got: Completion, request: ModelRequest) -> tuple[int, int]:
        """Add the tokens of an answer, estimated where the endpoint does not count; return them: input and output."""
        sent, back = got.input_tokens, got.output_tokens
        if sent is None or back is None:
            self.estimated = True
            sent, back = request.tokens, got.size // BYTES_PER_TOKEN
        self.count(sent, back, got.cached_tokens)
        self.model, self.fingerprint = got.model, got.fingerprint
        return sent, back

    def total(self, price: Price | None) -> Usage:
        """Return the requests, tokens and cost; no price, no cost."""
        tokens = self.input_tokens, self.output_tokens
        cost = None if price is None else price.cost(*tokens, self.cached_tokens)
        return Usage(requests=self.requests, input_tokens=tokens[0], output_tokens=tokens[1], cost_usd=cost)


@dataclass(slots=True)
class ModelCall:
    """The state of one call, from its first request to its last.

    Attributes:
        left: Seconds of its deadline.
        usage: What it has used so far.
        mode: The index in MODES of its next request, unless the capabilities name a later one.
        thrown_away: Answers in a mode with a schema that the endpoint threw away.
        no_own_limit: True if the texts and the question's own limit are more than the model takes at once.
        failures: Attempts that faults have cost the current question.
        room: Tokens that the next answer may have, since the last was cut off; 0 = it was not.
        slot: The place of the last request in flight: it is held until the next one, or until the answers are stored.
    """

    left: float
    usage: CallUsage = field(default_factory=CallUsage)
    mode: int = 0
    thrown_away: int = 0
    no_own_limit: bool = False
    failures: int = 0
    room: int = 0
    slot: Slot | None = None

    def release(self) -> None:
        """Give back the place of the last request."""
        if self.slot is not None:
            self.slot.release()
