"""What one call to a model has used so far, and how it may end without an answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from time import monotonic

from germane.judging.completions import Used
from germane.judging.gate import Departure

__all__ = ["Rejected", "Spending", "Unanswered"]


@dataclass(slots=True)
class Spending:
    """What one call has used so far; `lost` are the attempts that faults have cost its question, `early` what cost none."""

    started: float = field(default_factory=monotonic)
    requests: int = 0
    waits: int = 0
    faults: int = 0
    lost: int = 0
    early: int = 0
    reasked: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    estimated: bool = False
    departure: Departure | None = None

    def begin(self) -> None:
        """Another question: it has attempts of its own."""
        self.lost = self.early = 0

    def count(self, used: Used) -> None:
        """Add the tokens of a request, as far as they are known."""
        sent, back, cached = used
        self.input_tokens += sent or 0
        self.output_tokens += back or 0
        self.cached_tokens += cached


class Unanswered(Exception):
    """This call got no answer; the text says why. Other calls may fare better."""


class Rejected(Exception):
    """The endpoint will not take this request as it stands (400, 404, 422, ...)."""

    def __init__(self, status: int, text: str, *, too_long: bool = False) -> None:
        super().__init__(f"HTTP {status}: {text}")
        self.status, self.text, self.too_long = status, text, too_long
