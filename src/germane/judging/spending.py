"""The cost of judging: spending limits, counts of usage, and a log of usage over several sessions."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from math import inf
from operator import add
from pathlib import Path
from typing import IO, Any

from msgspec import Struct, convert, structs

from germane.clean import counted
from germane.encoding import decode, encode, now
from germane.errors import InputError, LimitReached, option
from germane.folder.files import REPLACE, opened
from germane.judges.judge import Judge, Reply, members_of
from germane.questions.asking import Answer
from germane.questions.question import AnyQuestion
from germane.types import Json, Judgement, Usage

__all__ = ["Budget", "UsageLog", "check_price"]

_REMEMBERED = 100_000
"""The number of keys to remember.

A question repeated after more others may count as cached, not as shared.
"""


class Spent(Struct):
    """The usage of judging so far.

    `calls` counts the questions that a judge was paid to answer. `cached` counts the questions that an
    earlier evaluation had answered, and `shared` the questions that this evaluation had already asked.
    `errors` counts the questions without an answer, even if no request was sent. `estimated` counts the
    answers whose tokens were estimated from bytes, because the endpoint did not report them. `unpriced`
    counts the requests whose price is unknown.
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
        return Spent(*map(add, structs.astuple(self), structs.astuple(other)))

    @property
    def cost(self) -> float | None:
        """The cost in US dollars; None if the price of a request is unknown."""
        return None if self.unpriced else self.cost_usd

    def as_json(self) -> dict[str, Json]:
        """Return the counts as they are written in manifests and reports."""
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


_OF_SESSION = ("calls", "requests", "input_tokens", "output_tokens", "cost_usd", "unpriced", "estimated")
"""The counts of a session in the manifest; `unpriced` are requests whose price is not known, and not in `cost_usd`."""
_ROW_BYTES = 512
"""The fixed size of the file with a session's counts: overwriting it needs no space, even on a full disk."""


class UsageLog:
    """A log of an evaluation's usage, which counts the questions asked, reused and paid for.

    The provenance of each paid judgement contains the id of its session. With a `path`, the counts are
    written to that file before the answers are used, so that they survive if the session is killed.
    `sessions` are the earlier sessions in the manifest; if the last one was killed, its counts are read from
    the file.

    Attributes:
        session: The id of this session; "" without a `path`.
        spent, earlier: The usage of this session, and of all earlier ones.
        failed: The keys of this session's questions without an answer.
        unwritten: True if the counts have changed since they were written.
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
        """The manifest's list of sessions: the start, id and counts of each. The last is this session."""
        counts = {name: getattr(self.spent, name) for name in _OF_SESSION}
        return [*self._earlier, {"at": self._at, "id": self.session, **counts}]

    def has_paid(self, judgement: Judgement, children: Iterable[Judgement] = ()) -> bool:
        """Return True if a session of this evaluation paid for a judgement, or for one merged into it."""
        return any(row.provenance.get("session") in self._sessions for row in (judgement, *children))

    def seen_before(self, key: str) -> bool:
        """Remember a question's key; return True if this session has already asked it."""
        short = hash(key)
        if short in self._seen:
            return True
        if len(self._seen) >= _REMEMBERED:
            self._seen.clear()
        self._seen.add(short)
        return False

    def reused(self, judge: Judge, question: AnyQuestion, answer: Answer) -> None:
        """Count an answer without a call: `shared` if this session has asked before, else `cached`."""
        if self.seen_before(answer.judgement.key):
            self.spent.shared += judge.paid_calls(question)
        elif answer.usable:
            self.failed.discard(answer.judgement.key)
            if not self.has_paid(answer.judgement, answer.children):
                self.spent.cached += judge.paid_calls(question)

    def paid(self, judge: Judge, judgements: Sequence[Judgement], *, stopped: bool = False) -> None:
        """Count the answers of one call; once `stopped`, questions without an answer are no errors."""
        answered = {judgement.key for judgement in judgements if judgement.error is None}
        failed = set[str]() if stopped else {judgement.key for judgement in judgements} - answered
        self.spent.errors += len(failed)
        self.spent.calls += 0 if unsent(judgements) or not judge.stored else len(answered) + len(failed)
        for judgement in judgements:
            self.spent.estimated += judgement.provenance.get("tokens") == "estimated"
            self.spent.add(judgement.usage)
        self.failed -= answered
        self.failed |= failed
        self.unwritten = self._path is not None and (self.unwritten or judge.stored)

    def flush(self) -> None:
        """Write the counts to the file if they have changed; call this in a thread, since it blocks."""
        if not self.unwritten or self._path is None:
            return
        self.unwritten = False  # set before the counts are read, because another thread may change them
        try:
            self._file = self._file or opened(self._path, REPLACE)
            self._file.seek(0)
            self._file.write(encode(self.sessions[-1]).ljust(_ROW_BYTES))
            self._file.flush()
        except OSError:
            self.unwritten = True
            raise

    def close(self, *, forget: bool = False) -> None:
        """Write the last counts and close the file; `forget` deletes it, since the manifest has them."""
        with suppress(OSError):
            self.flush()
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
        if forget and self._path is not None:
            self._path.unlink(missing_ok=True)
            self._path = None


def _spent_in(row: Mapping[str, Any]) -> Spent:
    return convert({name: row.get(name, 0) for name in _OF_SESSION}, Spent)


def unsent(answers: Sequence[Reply] | Sequence[Judgement]) -> int:
    """Return the number of answers in one call if no request was sent for them, otherwise 0."""
    return 0 if any(answer.usage.requests or answer.error is None for answer in answers) else len(answers)


_FEW = 4
"""The number of requests whose actual cost must be known before only the judge limits the concurrency."""

_ROUNDING = 1e-9
"""The fraction of a limit that costs may exceed because of floating-point rounding."""


class Budget:
    """The spending limits of one evaluation. Requests in flight count with their expected cost.

    The expected cost is the estimate times the ratio of actual to estimated cost so far, because a model that
    reasons costs many times as much as estimated. The first request is sent alone, because its cost is a
    guess. Until four costs are known, at most one more request is in flight than costs are known.

    `max_cost` is in US dollars. `max_calls` is the number of questions to paid judges; questions with a
    stored answer do not count. In one of several parts, `whole` are the limits of all parts. Raises
    InputError if a limit is negative or not a finite number.
    """

    def __init__(
        self,
        max_cost: float | None = None,
        max_calls: int | None = None,
        whole: tuple[float | None, int | None] | None = None,
    ) -> None:
        for name, limit in (("max_cost", max_cost), ("max_calls", max_calls)):
            if limit is not None and not 0 <= limit < inf:
                problem = f"the limit {name}={limit} is not a number >= 0"
                raise InputError(problem, fix=f"write {name}=5, or leave it out")
        self._max_cost, self._max_calls = max_cost, max_calls
        (cost, calls), more = whole or (max_cost, max_calls), " (for all parts)" if whole else ""
        self._cost_limit = option(f"--max-cost {cost or 0:g}", f"max_cost={cost}") + more
        self._calls_limit = option(f"--max-calls {calls}", f"max_calls={calls}") + more
        self._unlimited = max_cost is None and max_calls is None
        self._calls = self._in_flight = self._priced = 0
        self._paid = self._open = 0.0
        self._expected = self._actual = 0.0
        self._rate = 1.0  # the ratio of actual to estimated cost so far
        self.too_low = ""
        """The limit that did not allow even one question, as it was written; "" if there is none."""

    def reserve(self, judge: Judge, questions: tuple[AnyQuestion, ...]) -> float | None:
        """Reserve and return a request's estimated cost in US dollars; None if it must wait or costs too much."""
        if self._unlimited or not judge.stored:
            return 0.0
        estimate = self._estimate(judge, questions)
        unsure = bool(estimate) and self._priced < _FEW
        if estimate is None or (unsure and self._in_flight > self._priced):
            return None
        self._calls += len(questions)
        self._in_flight += 1
        self._open += estimate
        return estimate

    def fitting(self, judge: Judge, questions: tuple[AnyQuestion, ...]) -> int:
        """Return how many of the questions, from the first on, one request may contain within the limits."""
        sizes = range(len(questions), 0, -1)
        return next((n for n in sizes if self._estimate(judge, questions[:n]) is not None), 0)

    def _estimate(self, judge: Judge, questions: tuple[AnyQuestion, ...]) -> float | None:
        """Return a request's estimated cost in US dollars; None if a limit does not allow the request."""
        if self._max_calls is not None and self._calls + len(questions) > self._max_calls:
            return None
        forecast: Callable[[tuple[AnyQuestion, ...]], Usage] | None = getattr(judge, "forecast", None)
        if forecast is None or self._max_cost is None:
            return 0.0
        estimate = forecast(questions).cost_usd or 0.0
        likely = self._paid + (self._open + estimate) * self._rate
        return estimate if not estimate or likely <= self._max_cost * (1 + _ROUNDING) else None

    def settle(self, judge: Judge, estimate: float, replies: Sequence[Reply] | None, count: int) -> None:
        """Replace a request's reserved `estimate` by its cost; `replies` is None if it was not sent."""
        if self._unlimited or not judge.stored:
            return
        usages = [reply.usage for reply in replies or ()]
        spared = count if replies is None else unsent(replies)
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
            self._rate = self._actual / self._expected

    def reached(self, questions: tuple[AnyQuestion, ...]) -> LimitReached:
        """Return the error to raise because a limit does not allow a request with these questions."""
        calls = self._max_calls is not None and self._calls + len(questions) > self._max_calls
        limit = self._calls_limit if calls else self._cost_limit
        if not self._calls:
            self.too_low = limit
            return LimitReached(f"{limit} is too low for the first request, so no call was made")
        made = f"{counted(self._calls, 'call was', 'calls were')} made"
        return LimitReached(f"stopped at {limit}: {made if calls else f'{_dollars(self._paid)} was spent'}")

    @property
    def exceeded(self) -> str:
        """A warning if more was spent than `max_cost` allows, else ""."""
        if self._max_cost is None or self._paid <= self._max_cost * (1 + _ROUNDING):
            return ""
        paid = _dollars(self._paid)
        return f"{paid} was spent, more than {self._cost_limit}: calls cost more than estimated"


def _dollars(cost: float) -> str:
    return f"${cost:.4f}" if cost >= 0.001 else f"${cost:.2g}"


def check_price(judge: Judge | None, max_cost: float | None) -> None:
    """Raise InputError if --max-cost is set and the price of a judge is unknown."""
    if judge is None or max_cost is None:
        return
    for member in members_of(judge):
        if hasattr(member, "forecast") and getattr(member, "price", None) is None:
            problem = f"{option('--max-cost')} cannot be checked, since the price of {member.name} is unknown"
            price = option("--price 0.15/0.60", "price=Price(input=0.15, output=0.60)")
            fix = f"write {price} (US dollars per million tokens in/out), or use {option('--max-calls')}"
            raise InputError(problem, fix=f"{fix}; a model behind OPENAI_BASE_URL has no known price")
