"""The cost of judging: limited, counted as answers arrive, and logged for an evaluation of several sessions."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from math import inf
from operator import add, attrgetter
from pathlib import Path
from typing import IO

from germane.clean import counted
from germane.encoding import encode
from germane.errors import InputError, LimitReached
from germane.folder.lines import TableFile
from germane.judges.judge import Judge, Reply, members_of
from germane.questions.asking import Answer
from germane.questions.question import AnyQuestion
from germane.types import Json, Judgement, Usage

__all__ = ["Budget", "UsageLog", "check_price"]

_REMEMBERED = 100_000
"""A question that comes again after this many others may count as cached instead of shared: memory has an end."""


@dataclass(slots=True)
class Spent:
    """The cost of judging so far.

    `calls` are questions put to a judge and paid for, `cached` those that an earlier evaluation had answered,
    `shared` those that this evaluation had asked already; `errors` are questions without an answer, whether or not
    a request was sent. `estimated` are answers whose tokens the endpoint did not report: they are counted from bytes.
    """

    calls: int = 0
    cached: int = 0
    shared: int = 0
    errors: int = 0
    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0
    unpriced: int = 0
    estimated: int = 0

    def add(self, usage: Usage) -> None:
        """Add the usage of one reply to the counts."""
        self.requests += usage.requests
        self.input_tokens += usage.input_tokens
        self.output_tokens += usage.output_tokens
        self.cost_usd += usage.cost_usd or 0.0
        self.unpriced += usage.requests if usage.cost_usd is None else 0

    def __add__(self, other: Spent) -> Spent:
        return Spent(*map(add, _values(self), _values(other)))

    @property
    def cost(self) -> float | None:
        """US dollars, or None as soon as one request's price is not known."""
        return None if self.unpriced else self.cost_usd

    def as_json(self) -> dict[str, Json]:
        """Return the counts as manifests and reports hold them."""
        return {
            "calls": self.calls,
            "cached": self.cached,
            "shared": self.shared,
            "requests": self.requests,
            "errors": self.errors,
            "tokens": {"input": self.input_tokens, "output": self.output_tokens},
            "estimated": self.estimated > 0,
            "cost_usd": self.cost,
        }


_NAMES = tuple(field.name for field in fields(Spent))
_values = attrgetter(*_NAMES)


class UsageLog:
    """The questions that an evaluation asks, need not ask and pays for, counted as answers arrive.

    With a `path`, the evaluation's next session knows what was paid: a line for each group of answers is written there before
    the answers are used, so that a killed session's is known too. It holds no answers, only what a ledger cannot know: which of
    them this evaluation has paid for, what failures have cost, and which questions have failed.

    Args:
        path: The file of lines; None for an evaluation that cannot be continued.
        resumed: True if earlier sessions' lines hold; else the file begins anew.

    Attributes:
        spent: This session's.
        earlier: That of the sessions before.
        failed: The questions that nobody has answered yet, by short key.
    """

    def __init__(self, path: Path | None = None, *, resumed: bool = False) -> None:
        self.spent, self.earlier = Spent(), Spent()
        self.failed: set[int] = set()
        self._seen = set[int]()
        self._keys = set[int]()
        self._path = path
        self._file: IO[bytes] | None = None
        self.unwritten: list[bytes] = []
        if path is not None and not resumed:
            path.unlink(missing_ok=True)
        for row in TableFile(path).whole_rows() if path is not None else ():
            with suppress(KeyError, TypeError, ValueError, AttributeError):
                keys, failed = row.pop("keys"), row.pop("failed")
                earlier = self.earlier + Spent(**row)
                self._note(keys, failed)
                self.earlier = earlier

    def __contains__(self, key: str) -> bool:
        return _short(key) in self._keys

    # What comes in

    def seen_before(self, key: str) -> bool:
        """Return True if this question has come before in this session, and remember it."""
        short = hash(key)
        if short in self._seen:
            return True
        if len(self._seen) >= _REMEMBERED:
            self._seen.clear()
        self._seen.add(short)
        return False

    def shared(self, judge: Judge, question: AnyQuestion) -> None:
        """Count a question that this evaluation is asking already."""
        self.spent.shared += judge.paid_calls(question)

    def reused(self, judge: Judge, question: AnyQuestion, answer: Answer) -> None:
        """Count a question whose answer is known.

        What an earlier session of this evaluation paid for is neither shared nor cached, and a failure is not an answer.
        """
        key = answer.judgement.key
        if self.seen_before(key):
            self.shared(judge, question)
        elif answer.usable:
            if self.failed:
                self.failed.discard(_short(key))
            if key not in self:
                self.spent.cached += judge.paid_calls(question)

    def paid(self, judge: Judge, judgements: Sequence[Judgement], *, stopped: bool = False) -> None:
        """Count the answers to questions that a judge was asked together.

        Where it was `stopped`, what has no answer was not asked to the end: it has cost something and has not failed.
        """
        lost = [judgement.key for judgement in judgements if judgement.error is not None]
        keys = [judgement.key for judgement in judgements if not stopped or judgement.error is None]
        failed = [] if stopped else lost
        paid = Spent(errors=len(failed))
        paid.calls = 0 if unsent(judgements) or not judge.stored else len(keys)
        for judgement in judgements:
            paid.estimated += judgement.provenance.get("tokens") == "estimated"
            paid.add(judgement.usage)
        self.spent += paid
        if judge.stored or failed:
            self._add(keys if paid.calls else [], failed, paid)

    def combined(self, key: str, votes: Iterable[str]) -> None:
        """Count a panel's answer as paid for where one of the votes that it was made of is."""
        if any(vote in self for vote in votes):
            self._add([key], [], Spent())

    # The file

    def _note(self, keys: Sequence[str], failed: Sequence[str]) -> None:
        paid, lost = set(map(_short, keys)), set(map(_short, failed))
        self._keys |= paid
        self.failed -= paid
        self.failed |= lost

    def _add(self, keys: Sequence[str], failed: Sequence[str], spent: Spent) -> None:
        """Add a line to those that `flush` writes."""
        if self._path is None:
            return
        self._note(keys, failed)
        cost = {name: value for name in _NAMES if (value := getattr(spent, name))}
        row = {**cost, "keys": [key[:16] for key in keys], "failed": [key[:16] for key in failed]}
        self.unwritten.append(encode(row) + b"\n")

    def flush(self) -> None:
        """Write the new lines, after what found no room before; in a thread, where an event loop runs."""
        if self._path is None or not self.unwritten:
            return
        if self._file is None:
            self._file = self._path.open("ab")
            self._file.write(b"\n")  # ends a line that a killed run left half written
        while self.unwritten:  # a line that finds no room stays
            self._file.write(self.unwritten[0])
            del self.unwritten[0]
        self._file.flush()

    def close(self) -> None:
        """Write what is left, if there is room by now, and close the file."""
        with suppress(OSError):
            self.flush()
        if self._file is not None:
            with suppress(OSError):
                self._file.close()


def _short(key: str) -> int:
    """Return 64 bits of a key: enough to tell an evaluation's questions apart, and small in memory."""
    return int(key[:16], 16) - (1 << 63)


def unsent(answers: Sequence[Reply] | Sequence[Judgement]) -> int:
    """Return the number of answers, asked together, that failed without a request: nothing was sent, so no call was made."""
    sent = any(answer.usage.requests or answer.error is None for answer in answers)
    return 0 if sent else len(answers)


_FEW = 4
"""The number of answers whose real cost must be known before the judge's own concurrency is used."""

_ROUNDING = 1e-9
"""The share of a limit by which sums of floating-point numbers may miss it."""


class Budget:
    """Limits of what one evaluation may spend: what is in flight counts with what it is likely to cost.

    That is its estimate times what answers have cost so far for each estimated dollar: a model that reasons costs
    many times what a typical answer lets expect. The first request goes alone, since its price is anybody's guess;
    then one more than have shown theirs, until there are a few.

    Args:
        max_cost: US dollars at most, from 0.
        max_calls: Questions put to a judge at most, from 0: the report's `calls`. Answers that are known do not count.

    Raises:
        InputError: A limit is none.
    """

    def __init__(self, max_cost: float | None = None, max_calls: int | None = None) -> None:
        for name, limit in (("max_cost", max_cost), ("max_calls", max_calls)):
            if limit is not None and not 0 <= limit < inf:
                raise InputError(
                    f"{name}={limit} is not a limit", fix="write a number from 0, or leave it out"
                )
        self._max_cost, self._max_calls = max_cost, max_calls
        self._unlimited = max_cost is None and max_calls is None
        self._calls = self._in_flight = self._priced = 0
        self._paid = self._open = 0.0
        self._expected = self._actual = 0.0
        self.too_low = ""
        """The flag of a limit that did not allow a single question, where there is one."""

    def reserve(self, judge: Judge, questions: tuple[AnyQuestion, ...]) -> float | None:
        """Set aside the estimate of these questions; None where their likely cost would exceed a limit."""
        if self._unlimited or not judge.stored:
            return 0.0
        estimate = self._estimate(judge, questions)
        unsure = estimate > 0 and self._priced < _FEW
        if (unsure and self._in_flight > self._priced) or not self._allows(len(questions), estimate):
            return None
        self._calls += len(questions)
        self._in_flight += 1
        self._open += estimate
        return estimate

    def fitting(self, judge: Judge, questions: tuple[AnyQuestion, ...]) -> int:
        """Return the number of these questions that the limits allow."""
        sizes = range(len(questions), 0, -1)
        return next((n for n in sizes if self._allows(n, self._estimate(judge, questions[:n]))), 0)

    def settle(self, judge: Judge, estimate: float, usages: Iterable[Usage], *, spared: int = 0) -> None:
        """Replace what was set aside by what was paid, as far as it is known; `spared` questions were not asked after all."""
        if self._unlimited or not judge.stored:
            return
        paid = [usage.cost_usd for usage in usages if usage.requests or usage.cost_usd is not None]
        priced = [cost for cost in paid if cost is not None]
        cost = sum(priced) if len(priced) == len(paid) else estimate * self._rate
        self._calls -= spared
        self._in_flight -= 1
        self._open = self._open - estimate if self._in_flight else 0.0
        self._paid += cost
        if cost and estimate:
            self._priced += 1
            self._expected += estimate
            self._actual += cost

    def reached(self, judge: Judge, questions: tuple[AnyQuestion, ...]) -> LimitReached:
        """Return the LimitReached that says why not even the first of these questions is asked."""
        calls = self._max_calls is not None and self._calls >= self._max_calls
        flag = f"--max-calls {self._max_calls}" if calls else f"--max-cost {self._max_cost:g}"
        if not self._calls:
            self.too_low = flag.split(maxsplit=1)[0]
            least = "" if calls else f", about {_dollars(self._estimate(judge, questions[:1]))}"
            return LimitReached(f"{flag} is too low for the next request{least}: nothing was asked")
        if calls:
            return LimitReached(f"stopped at {flag}: {counted(self._calls, 'call was', 'calls were')} made")
        why = "answers cost more than expected" if self.exceeded else "the next request would exceed it"
        return LimitReached(f"stopped at {flag}: {_dollars(self._paid)} was spent, and {why}")

    @property
    def exceeded(self) -> str:
        """A note that more was spent than allowed; "" where it was not."""
        if self._max_cost is None or self._paid <= self._max_cost * (1 + _ROUNDING):
            return ""
        return f"{_dollars(self._paid)} was spent, more than --max-cost {self._max_cost:g}: answers cost more than expected"

    @property
    def _rate(self) -> float:
        return self._actual / self._expected if self._expected else 1.0

    def _estimate(self, judge: Judge, questions: tuple[AnyQuestion, ...]) -> float:
        estimate = getattr(judge, "forecast", None)
        if estimate is None or self._max_cost is None:
            return 0.0
        usage: Usage = estimate(questions)
        return usage.cost_usd or 0.0

    def _allows(self, calls: int, estimate: float) -> bool:
        if self._max_calls is not None and self._calls + calls > self._max_calls:
            return False
        if self._max_cost is None or not estimate:
            return True
        likely = self._paid + (self._open + estimate) * self._rate
        return likely <= self._max_cost * (1 + _ROUNDING)


def _dollars(cost: float) -> str:
    """Return US dollars, to four places or, where that is next to nothing, to two digits."""
    return f"${cost:.4f}" if cost >= 0.001 else f"${cost:.2g}"


def check_price(judge: Judge | None, max_cost: float | None) -> None:
    """Raise InputError where a limit in dollars is set and nobody knows what the judge costs."""
    if judge is None or max_cost is None:
        return
    for member in members_of(judge):
        if hasattr(member, "forecast") and getattr(member, "price", None) is None:
            raise InputError(
                f"--max-cost: the price of {member.name} is not known",
                fix="give it, as in --price 0.15/0.60 (US dollars for a million tokens in/out), or limit --max-calls; "
                "a model behind OPENAI_BASE_URL has no known price",
            )
