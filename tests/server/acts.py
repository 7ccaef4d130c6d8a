"""What the scripted model server may do about a request."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from zlib import crc32

from germane.errors import InputError
from germane.types import Json
from tests.server.asked import Asked

_ANSWERS = ("body", "text", "change", "refusal")


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Act:
    """What the server does with one request; without any argument it answers as it should.

    Attributes:
        status, headers, error: The HTTP status from 200 to 599, and what an error's body says.
        text: The model's answer, word for word, instead of the rule's.
        change: Changes the rule's answer before it is written down.
        body: The whole body of the response, whatever the status.
        finish, refusal: The finish reason; what the model says where it refuses.
        latency: Seconds until the answer, instead of the server's own.
        drip: Seconds between the bytes of the response, which then trickles in.
        hang: Never answer.
        reset: Break the connection half way through the answer.
        truncate: Announce all of the body, send half, and close as if that were all.
        cut: Stop the answer half way and say that the token limit was reached (finish reason `length`).
        usage: What the answer says it used: True = a token for four bytes, False = nothing, a dict = these counts
            instead or besides (`{"prompt_tokens": 9000}`).

    Raises:
        InputError: The status is none, or an argument contradicts another.
    """

    status: int = 200
    headers: Mapping[str, str | float] = field(default_factory=dict)
    error: str = ""
    text: str | None = None
    change: Callable[[Json], Json] | None = None
    body: str | bytes | None = None
    finish: str = "stop"
    refusal: str | None = None
    latency: float | None = None
    drip: float = 0.0
    hang: bool = False
    reset: bool = False
    truncate: bool = False
    cut: bool = False
    usage: bool | Mapping[str, Json] = True

    def __post_init__(self) -> None:
        """What would be passed over in silence would leave a test green that tests nothing."""
        if type(self.status) is not int or not 200 <= self.status <= 599:
            raise InputError(
                f"Act(status={self.status!r}) is not possible", fix="write a whole number from 200 to 599"
            )
        says = [name for name in _ANSWERS if getattr(self, name) is not None]
        if len(says) > 1:
            raise InputError(f"an Act cannot have both {says[0]} and {says[1]}", fix="give one of them")
        if self.status == 200 and self.error:
            raise InputError("an Act with an error needs a status", fix="write Act(status=500, error=...)")
        if self.status != 200 and says and says != ["body"]:
            raise InputError(
                f"an Act with status {self.status} gives no answer, so it cannot have {says[0]}",
                fix="say what goes wrong by error, or give the whole body",
            )

    def __repr__(self) -> str:
        """As it was written: what was left out is not shown."""
        given = {name: getattr(self, name) for name in self.__slots__}
        shown = (f"{name}={value!r}" for name, value in given.items() if value != getattr(FINE, name))
        return f"Act({', '.join(shown)})"


FINE = Act()
"""An ordinary answer."""


def storm(
    throttled: float = 0.10,
    failing: float = 0.05,
    malformed: float = 0.05,
    hanging: float = 0.02,
    *,
    retry_after: str | float = "1",
    seed: int = 0,
) -> Callable[[Asked], Act | None]:
    """A provider's bad day: shares of 429, 500, malformed answers and hangs, by the content of the request."""
    acts = (
        (throttled, Act(status=429, headers={"retry-after": retry_after}, error="slow down")),
        (failing, Act(status=500, error="something broke")),
        (malformed, Act(text='{"grade": 3, "reas')),
        (hanging, Act(hang=True)),
    )
    seen: dict[int, int] = {}

    def script(asked: Asked) -> Act | None:
        content = crc32(asked.content, seed)
        seen[content] = seen.get(content, 0) + 1
        draw = random.Random(content * 31 + seen[content]).random()
        for share, act in acts:
            if draw < share:
                return act
            draw -= share
        return None

    return script
