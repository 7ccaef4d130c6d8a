"""The cost of judging: its limits, its counts as answers arrive, and its log over several sessions."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from math import inf
from operator import add, attrgetter
from pathlib import Path
from typing import IO, Any

from msgspec import convert

from germane.clean import counted
from germane.encoding import decode, encode, now
from germane.errors import InputError, LimitReached
from germane.folder.layout import REPLACE, opened
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
        """US dollars; None once one request's price is unknown."""
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
_OF_SESSION = ("calls", "requests", "input_tokens", "output_tokens", "cost_usd", "unpriced", "estimated")
"""The counts of a session in the manifest; `unpriced` are requests whose price is not known, and not in `cost_usd`."""
_ROW_BYTES = 512
"""Bytes of the file of a session's counts, which is written over in place: it finds room on a disk that is full by then."""


class UsageLog:
    """Counts of the questions that an evaluation asks, reuses and pays for, updated as answers arrive.

    Each judgement that is paid for has the id of its session in its provenance. With a `path`, the counts are written there
    before the answers are used, so that those of a killed session are known.

    Args:
        path: The file of this session's counts; None for an evaluation that cannot be resumed.
        sessions: The rows of the sessions before in the manifest. A killed one's counts are read from the file.

    Attributes:
        session: The id of this session; "" without a `path`.
        spent: This session's usage.
        earlier: The usage of the sessions before.
        failed: The questions of this session without an answer, by key.
        unwritten: True if the file lacks the newest counts.
    """

    def __init__(self, path: Path | None = None, sessions: Iterable[Mapping[str, Any]] = ()) -> None:
        self.spent, self.failed, self.unwritten = Spent(), set[str](), False
        self.session = "" if path is None else os.urandom(4).hex()
        self._at, self._seen, self._path = now(), set[int](), path
        self._file: IO[bytes] | None = None
        self._earlier = list(sessions)
        if path is not None and self._earlier:
            with suppress(OSError, ValueError, KeyError, TypeError):
                killed = decode(path.read_bytes())
                if killed["id"] == self._earlier[-1].get("id"):
                    _spent_in(killed)
                    self._earlier[-1] = killed
        self.earlier = sum(map(_spent_in, self._earlier), Spent())
        # a session of an older germane has no id, and its judgements name none
        self._sessions = {self.session, *(row.get("id") for row in self._earlier)} - {""}

    @property
    def sessions(self) -> list[Mapping[str, Any]]:
        """One row per session for the manifest, this one's last: when it began, its id and its counts."""
        counts = {name: getattr(self.spent, name) for name in _OF_SESSION}
        return [*self._earlier, {"at": self._at, "id": self.session, **counts}]

    def has_paid(self, judgement: Judgement, children: Iterable[Judgement] = ()) -> bool:
        """Return True if a session of this evaluation has paid for a judgement, or for one that it was merged from."""
        rows = (judgement, *children)
        return (
            any(row.provenance.get("session") in self._sessions for row in rows) if self._sessions else False
        )

    def seen_before(self, key: str) -> bool:
        """Return True if this question occurred before in this session, and record it."""
        short = hash(key)
        if short in self._seen:
            return True
        if len(self._seen) >= _REMEMBERED:
            self._seen.clear()
        self._seen.add(short)
        return False

    def shared(self, judge: Judge, question: AnyQuestion) -> None:
        """Count a question that is being asked already."""
        self.spent.shared += judge.paid_calls(question)

    def reused(self, judge: Judge, question: AnyQuestion, answer: Answer) -> None:
        """Count a question with a known answer.

        What an earlier session of this evaluation paid for is neither shared nor cached, and a failure is not an answer.
        """
        if self.seen_before(answer.judgement.key):
            self.shared(judge, question)
        elif answer.usable:
            self.failed.discard(answer.judgement.key)
            if not self.has_paid(answer.judgement, answer.children):
                self.spent.cached += judge.paid_calls(question)

    def paid(self, judge: Judge, judgements: Sequence[Judgement], *, stopped: bool = False) -> None:
        """Count the answers to questions asked together.

        Where it was `stopped`, what has no answer was not asked to the end: it has cost something and has not failed.
        """
        answered = {judgement.key for judgement in judgements if judgement.error is None}
        failed = set[str]() if stopped else {judgement.key for judgement in judgements} - answered
        paid = Spent(errors=len(failed))
        paid.calls = 0 if unsent(judgements) or not judge.stored else len(answered) + len(failed)
        for judgement in judgements:
            paid.estimated += judgement.provenance.get("tokens") == "estimated"
            paid.add(judgement.usage)
        self.spent += paid
        self.failed -= answered
        self.failed |= failed
        self.unwritten = self._path is not None and (self.unwritten or judge.stored)

    def flush(self) -> None:
        """Write the counts to the file if they have changed; in a thread, where an event loop runs."""
        if not self.unwritten or self._path is None:
            return
        self.unwritten = False  # before the counts are read, which go on changing
        try:
            self._file = self._file or opened(self._path, REPLACE)
            self._file.seek(0)
            self._file.write(encode(self.sessions[-1]).ljust(_ROW_BYTES))
            self._file.flush()
        except OSError:
            self.unwritten = True
            raise

    def close(self, *, forget: bool = False) -> None:
        """Write what is left, if there is room by now, and close the file; with `forget`, remove it: a manifest has the counts."""
        with suppress(OSError):
            self.flush()
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
        if forget and self._path is not None:
            self._path.unlink(missing_ok=True)
            self._path = None


def _spent_in(row: Mapping[str, Any]) -> Spent:
    """Return the counts in the row of a session; ValueError where one is no number."""
    return convert({name: row.get(name, 0) for name in _OF_SESSION}, Spent)


def unsent(answers: Sequence[Reply] | Sequence[Judgement]) -> int:
    """Return the number of answers, asked together, that failed before a request was sent, so that no call was made."""
    sent = any(answer.usage.requests or answer.error is None for answer in answers)
    return 0 if sent else len(answers)


_FEW = 4
"""The number of answers whose real cost must be known before the judge's own concurrency is used."""

_ROUNDING = 1e-9
"""The share of a limit by which sums of floating-point numbers may miss it."""


class Budget:
    """Spending limits of one evaluation; requests in flight count with their expected cost.

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
        """Reserve the expected cost of these questions; None if a limit would be exceeded."""
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
        """Replace a reservation by the actual cost; `spared` questions were not asked after all."""
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

    def reached(self, questions: tuple[AnyQuestion, ...]) -> LimitReached:
        """Return the LimitReached error if these questions are not allowed."""
        calls = self._max_calls is not None and self._calls + len(questions) > self._max_calls
        flag = f"--max-calls {self._max_calls}" if calls else f"--max-cost {self._max_cost:g}"
        if not self._calls:
            self.too_low = flag.split(maxsplit=1)[0]
            return LimitReached(f"{flag} is too low for the next request: nothing was asked")
        made = f"{counted(self._calls, 'call was', 'calls were')} made"
        return LimitReached(f"stopped at {flag}: {made if calls else f'{_dollars(self._paid)} was spent'}")

    @property
    def exceeded(self) -> str:
        """A note that more than allowed was spent; "" if not."""
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
    """Return US dollars with four decimals, or two significant digits if that would be 0."""
    return f"${cost:.4f}" if cost >= 0.001 else f"${cost:.2g}"


def check_price(judge: Judge | None, max_cost: float | None) -> None:
    """Raise InputError if a limit in dollars is set and the judge's price is unknown."""
    if judge is None or max_cost is None:
        return
    for member in members_of(judge):
        if hasattr(member, "forecast") and getattr(member, "price", None) is None:
            raise InputError(
                f"--max-cost: the price of {member.name} is not known",
                fix="give it, as in --price 0.15/0.60 (US dollars for a million tokens in/out), or limit --max-calls; "
                "a model behind OPENAI_BASE_URL has no known price",
            )
