"""What a run would ask and what that would cost, as `--dry-run` shows it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from germane.types import Json, Usage

__all__ = ["Forecast", "Line"]


_NOTHING = Usage(cost_usd=0.0)


@dataclass(slots=True)
class Line:
    """One measure's questions that cost.

    `new` are to be asked, of these `estimated` follow from answers that are not known yet; `cached` are known from
    earlier evaluations, `shared` are asked for an earlier measure or sample. `waiting` are samples whose questions
    nobody can know before a target has answered.
    """

    measure: str
    new: int = 0
    estimated: int = 0
    cached: int = 0
    shared: int = 0
    waiting: int = 0
    usage: Usage = _NOTHING

    def as_json(self) -> dict[str, Json]:
        """For `--json`. Where samples are waiting, the numbers are the least that can be."""
        return {
            "calls": self.new,
            "estimated": self.estimated,
            "cached": self.cached,
            "shared": self.shared,
            "waiting": self.waiting,
            "tokens": _tokens(self.usage),
            "cost_usd": None if self.waiting else self.usage.cost_usd,
        }


@dataclass(slots=True)
class Forecast:
    """What a run would ask, a line a measure; `total` are the requests once questions share them.

    Of a run that is continued, `paid` are questions that its earlier sessions have paid for, and `failed` those that
    failed then and are not asked again. `waiting` are samples that no target has answered yet.
    """

    judge: str
    samples: int = 0
    lines: dict[str, Line] = field(default_factory=dict)
    total: Usage = _NOTHING
    paid: int = 0
    failed: int = 0
    waiting: int = 0
    max_cost: float | None = None
    max_calls: int | None = None

    @property
    def calls(self) -> int:
        """Questions that would be put to a judge, as far as that is known."""
        return sum(line.new for line in self.lines.values())

    @property
    def open(self) -> bool:
        """Whether there may be more, which nobody can know yet."""
        return any(line.waiting for line in self.lines.values())

    def limits(self) -> Iterator[tuple[str, str, bool | None]]:
        """Each limit that is set: its name, its flag, and whether the run would be stopped by it; None = not known."""
        if self.max_calls is not None:
            reached = self.calls > self.max_calls
            yield "max_calls", f"--max-calls {self.max_calls}", reached or (None if self.open else False)
        if self.max_cost is not None:
            reached = (self.total.cost_usd or 0.0) > self.max_cost
            yield "max_cost", f"--max-cost {self.max_cost:g}", reached or (None if self.open else False)

    def as_json(self) -> dict[str, Json]:
        """For `--json`. Where samples are waiting, the numbers are the least that can be."""
        return {
            "schema_version": 1,
            "judge": self.judge,
            "samples": self.samples,
            "waiting": self.waiting,
            "measures": {name: line.as_json() for name, line in self.lines.items()},
            "paid": self.paid,
            "failed": self.failed,
            "requests": self.total.requests,
            "tokens": _tokens(self.total),
            "cost_usd": None if self.open else self.total.cost_usd,
            "limits": {name: {"reached": reached} for name, _, reached in self.limits()},
        }

    def text(self) -> str:
        """A table a person reads."""
        head = f"{'measure':34} {'new calls':>12} {'cached':>8} {'shared':>8} {'~tokens in':>11} {'~tokens out':>11}  ~price"
        return "\n".join(
            [
                f"dry run: {self.samples} samples, judge {self.judge}; nobody is asked",
                "",
                head,
                *map(_row, self.lines.values()),
                "",
                *self._total(),
                *self._unknown(),
                *self._earlier(),
                *self._limits(),
            ]
        )

    def _total(self) -> Iterator[str]:
        total, lines = self.total, self.lines.values()
        tokens = f"about {total.input_tokens:,} + {total.output_tokens:,} tokens, " if total.requests else ""
        guessed = sum(line.estimated for line in lines)
        how = "at least " if self.open else "about " if guessed else ""
        yield f"in all {how}{total.requests:,} requests, {tokens}{_price(total, waiting=self.open)}"
        if guessed:
            yield f"~ {guessed:,} calls follow from answers that are not known yet: an estimate"
        if total.requests:
            yield "~ tokens in are counted from the texts, tokens out are those of typical answers: a model that reasons writes more"
        if sum(line.usage.requests for line in lines) > total.requests:
            yield "measures share requests: each line has them in full, the sum has them once"

    def _unknown(self) -> Iterator[str]:
        if self.waiting:
            yield f"{self.waiting:,} of {self.samples:,} samples have no answer of their target yet, and a dry run asks no target"
        if self.open:
            yield "+ what is to be judged of them is not known: run with --max-calls 0, which asks the targets and nobody else,"
            yield "  then --resume REPORT --dry-run"

    def _earlier(self) -> Iterator[str]:
        if self.paid:
            yield f"{self.paid:,} questions are answered in earlier sessions of this evaluation"
        if self.failed:
            yield f"{self.failed:,} questions failed in earlier sessions: asked again only with --retry-errors"

    def _limits(self) -> Iterator[str]:
        said = {True: "would stop this run", False: "would be enough", None: "may or may not be enough"}
        for _, flag, reached in self.limits():
            yield f"{flag} {said[reached]}, by this estimate"


def _row(line: Line) -> str:
    calls = f"{'~' if line.estimated else ''}{line.new:,}{'+' if line.waiting else ''}"
    used = line.usage
    return (
        f"{line.measure:34} {calls:>12} {line.cached:>8,} {line.shared:>8,} "
        f"{used.input_tokens:>11,} {used.output_tokens:>11,}  {_price(used, waiting=line.waiting > 0)}"
    )


def _price(usage: Usage, *, waiting: bool) -> str:
    if not usage.requests:
        return "price not known yet" if waiting else "free"
    if usage.cost_usd is None:
        return "price unknown"
    return f"{'at least ' if waiting else ''}${usage.cost_usd:.4f}"


def _tokens(usage: Usage) -> dict[str, Json]:
    return {"input": usage.input_tokens, "output": usage.output_tokens}
