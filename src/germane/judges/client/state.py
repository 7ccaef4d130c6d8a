"""What one call has used, and what its next request takes over from the ones before."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from time import monotonic
from uuid import uuid4

from germane.judges.client.parsing import NOTHING, Completion
from germane.judges.client.providers import Price
from germane.judges.client.ratelimits import Slot
from germane.types import Usage


@dataclass(slots=True)
class ModelCall:
    """The state of one call (a group of questions), from its first request to its last.

    Attributes:
        left: Seconds of its deadline.
        id: Identifies the call in judgements.
        used: How many `requests`, those that were asked to wait (`waits`) or failed on the way (`faults`), unusable answers that
            were asked again (`reasked`), and tokens: `input`, `output` and, among the input, `cached`.
        estimated: True if tokens were counted from bytes, since the endpoint does not count.
        last: The last answer.
        mode: The index in MODES of its next request, unless the capabilities name a later one.
        limit: Tokens that the answer to its last request may have; 0 = no limit is named.
        own_limit: True if that is the limit that the question has by itself.
        thrown_away: Answers in a mode with a schema that the endpoint threw away.
        no_own_limit: True if the texts and the question's own limit are more than the model takes at once.
        failures: Attempts that faults have cost the current question.
        room: Tokens that the next answer may have, since the last was cut off; 0 = it was not.
        slot: The place of the last request in flight: it is held until the next one, or until the answers are stored.
    """

    left: float
    id: str = field(default_factory=lambda: uuid4().hex)
    started: float = field(default_factory=monotonic)
    used: Counter[str] = field(default_factory=Counter)
    estimated: bool = False
    last: Completion = NOTHING
    mode: int = 0
    limit: int = 0
    own_limit: bool = False
    thrown_away: int = 0
    no_own_limit: bool = False
    failures: int = 0
    room: int = 0
    slot: Slot | None = None

    def count(self, sent: int | None, back: int | None, cached: int) -> None:
        """Add the tokens of one request."""
        self.used.update(input=sent or 0, output=back or 0, cached=cached)

    def usage(self, price: Price | None) -> Usage:
        """Return the requests, tokens and cost; no price, no cost."""
        sent, back = self.used["input"], self.used["output"]
        cost = None if price is None else price.cost(sent, back, self.used["cached"])
        return Usage(requests=self.used["requests"], input_tokens=sent, output_tokens=back, cost_usd=cost)

    def release(self) -> None:
        """Give back the place of the last request."""
        if self.slot is not None:
            self.slot.release()
