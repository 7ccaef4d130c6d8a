"""The document of `germane audit --json`, as records. Its JSON Schema is generated from here."""

from __future__ import annotations

from typing import Literal

from msgspec import UNSET, UnsetType

from germane.clean import counted
from germane.encoding import Line
from germane.statistics.agreement import JudgeAgreement
from germane.statistics.intervals import IntervalEnds


class ShiftLine(Line):
    """The change of a judged mean if new verdicts replace the stored ones."""

    shift: float | None
    interval: IntervalEnds | None


class AgainLine(Line, kw_only=True):
    """Stored verdicts asked again: `asked` of `of` that a measure reads.

    `flips` are other verdicts than the stored ones; of these a third answer `confirmed` some, and took others back
    (`taken_back`). `errors` got no answer. `changed` is null where neither a change nor the absence of a large one can be
    shown; `why` says so. `calls` and `cost_usd` are what was spent.
    """

    asked: int
    of: int
    flips: int
    confirmed: int
    taken_back: int
    errors: int
    kappa: float | None
    means: dict[str, ShiftLine]
    changed: bool | None
    why: str
    calls: int
    cost_usd: float | None

    def lines(self) -> list[str]:
        """Return the comparison as text."""
        verdict = {
            True: "the judge has changed",
            False: "no change of the judge",
            None: f"cannot say: {self.why}",
        }
        if not self.asked:
            return [verdict[self.changed]]
        kappa = "" if self.kappa is None else f", kappa {self.kappa:.2f}"
        flips = f"{self.flips} of {counted(self.asked, 'verdict')} asked again flipped{kappa}"
        third = (
            f"; asked a third time {self.confirmed} stayed and {self.taken_back} went back"
            if self.flips
            else ""
        )
        shifts = [
            f"{name}: shift {line.shift:+.3f} ({line.interval[0]:+.3f} to {line.interval[1]:+.3f})"
            for name, line in self.means.items()
            if line.shift is not None and line.interval is not None
        ]
        return [f"{verdict[self.changed]}: {flips}{third}", *shifts]


class AuditDocument(Line):
    """The document of `germane audit --json`: the judge against people by kind and scale; `again` is there with --again."""

    schema_version: Literal[1]
    judge: str | None
    kinds: list[JudgeAgreement]
    warnings: list[str]
    again: AgainLine | UnsetType = UNSET
