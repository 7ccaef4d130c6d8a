"""Send a run's questions in provider batches, in rounds, until none is left to ask.

Nothing is paid twice. What a batch asks, and that it is about to be made, is committed to the ledger before it is made, under a
name that the provider is told; its answers are committed before it is marked as done. If the process is killed in between, the
next round finds the batch by that name, or finds that it was never made.
"""

from __future__ import annotations

import asyncio
import datetime
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Self
from uuid import uuid4

from germane.addons.batches.openai import MOST_BYTES, MOST_REQUESTS, AbsentBatch, BatchClient, BatchState
from germane.addons.batches.requests import (
    Answers,
    Asked,
    Request,
    by_judge,
    has_batches,
    known_at_once,
    price_later,
    requests_of,
)
from germane.addons.batches.table import SENDING, AskedTable, BatchRow
from germane.clean import counted, mask_urls
from germane.encoding import now
from germane.errors import AskedLater, InputError, JudgeError, LimitReached, NoneAnswered
from germane.evaluation.spec import Callbacks, Spec
from germane.judges import Judge, LLMJudge
from germane.judges.client.errors import TransportError
from germane.judges.judge import members_of
from germane.judges.llm import model_of
from germane.judging.spending import UsageLog
from germane.ledger.store import Ledger
from germane.tables.columns import batched

GRACE = 60.0
"""Seconds after which a batch that the provider does not list was never made."""

FIRST_PAUSE, LONGEST_PAUSE = 5.0, 300.0
"""Seconds between two looks at batches that are waited for: the first, and at most."""

_AT_ONCE = 500
"""Lines of answers that are stored together."""
_NO_LINE = "the provider's files hold no line of it that can be read"
_FAULTS = 10
"""Failed looks in a row after which waiting ends."""


class Later:
    """The source of answers for `--later`: it asks in batches what can be asked in batches, before anything is asked live.

    Without `--later` it cancels the batches of the run's earlier sessions, and keeps what they have answered.

    Raises:
        InputError: Options do not go together.
    """

    def __init__(self, spec: Spec) -> None:
        self._later, self._wait = spec.later, spec.wait
        self._limits = {"max_cost": spec.max_cost, "max_calls": spec.max_calls}
        if self._wait and not self._later:
            raise InputError("--wait waits for batches", fix="write --later --wait")
        for name in ("until", "engine", "replay"):
            if self._later and spec.get(name):
                raise InputError(f"--{name} and --later do not go together", fix="leave one of them out")

    def check(self, judge: Judge) -> None:
        """Raise InputError if the judge has no batches."""
        models = filter(None, map(model_of, members_of(judge)))
        if self._later and not any(map(has_batches, models)):
            problem = f"{judge.name}: germane knows no batch API of this provider"
            fix = "leave --later out, or write the requests to a file: germane questions"
            raise InputError(problem, fix=fix)

    async def answer(
        self,
        judge: Judge,
        ledger: Ledger,
        usage_log: UsageLog,
        run: str,
        callbacks: Callbacks,
        *,
        check: Callable[[], object],
        open_questions: Callable[[], Awaitable[Sequence[Asked]]],
    ) -> None:
        """Ask in rounds until nothing more can be asked in batches; AskedLater unless the run waits for the answers."""
        if not (self._later or _has_open(ledger, run)):
            return
        check()
        async with Batches(ledger, judge, usage_log, run, **self._limits) as batches:
            if not self._later:
                callbacks.note(
                    "batches that are not done are cancelled: what they have answered is kept, the rest is asked live"
                )
                await batches.cancel()
                return
            await batches.fetch()
            while await batches.send(await open_questions(), callbacks.note):
                waiting = sum(row.requests for row in batches.open())
                if not self._wait:
                    asked = counted(waiting, "request is", "requests are")
                    way_out = "without --later they are cancelled, and the rest is asked live"
                    raise AskedLater(f"{asked} in batches ({way_out})")
                callbacks.on_progress("waiting for batches: requests answered", 0, waiting)
                await batches.wait()


def endpoint_of(model: LLMJudge) -> tuple[str, str, str]:
    """Return a model's provider, name and URL as in the row of a batch."""
    return model.service.provider, model.service.model, mask_urls(model.service.custom)


def _has_open(ledger: Ledger, run: str) -> bool:
    """Return whether a run has batches that are not done."""
    return any(row.run == run for row in AskedTable(ledger).batches(opened=True))


class Batches:
    """The batches of an evaluation; use as an async context manager.

    Args:
        ledger: Where answers go, and what was asked stands until then.
        judge: The judge: of a panel the members that are language models.
        usage_log: What this evaluation has paid.
        run: Its name.
        max_cost, max_calls: The most that it may cost in US dollars, and the questions that may be put, in all.

    Raises:
        JudgeError: A key is missing.
    """

    def __init__(
        self,
        ledger: Ledger,
        judge: Judge,
        usage_log: UsageLog,
        run: str,
        *,
        max_cost: float | None = None,
        max_calls: int | None = None,
    ) -> None:
        self._ledger, self._table, self._usage_log, self._run = ledger, AskedTable(ledger), usage_log, run
        self._max_cost, self._max_calls = max_cost, max_calls
        models = filter(None, map(model_of, members_of(judge)))
        self._apis = {endpoint_of(model): BatchClient(model) for model in models if has_batches(model)}
        self._failures, self._stored, self._learned = Counter[str](), 0, False
        for row in self._table.batches():
            self._learn(row)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        for api in self._apis.values():
            await api.close()

    def open(self, *, own: bool = False) -> list[BatchRow]:
        """Return the open batches at these judges' providers; `own`: only those of this evaluation."""
        rows = self._table.batches(opened=True)
        return [row for row in rows if row.endpoint in self._apis and (not own or row.run == self._run)]

    # Answers

    async def fetch(self) -> int:
        """Store the answers of batches that have ended and return their number; JudgeError if a provider fails."""
        count = 0
        for row in self.open():
            try:
                count += await self._fetch(row, self._apis[row.endpoint])
            except TransportError as error:
                raise JudgeError(f"no answer about the batch {row.name or row.id}: {error}") from None
        return count

    async def _fetch(self, row: BatchRow, api: BatchClient) -> bool:
        """Store the answers of a batch if it has ended, and return True if so.

        A batch whose sender was killed, or got no reply, is looked for, and forgotten if the provider does not list it.
        """
        if row.state == SENDING:
            name = await api.find(row.id)
            age = datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(row.at)
            if name is None and age.total_seconds() >= GRACE:
                self._table.forget(row)
            if name is None:
                return False
            self._table.sent(row, name)
        try:
            state = await api.state(row.name)
        except AbsentBatch:
            state = BatchState(ended=True, why="the provider has it no more")
        if state.ended:
            await self._read_answers(row, api, state.why)
        return state.ended

    async def _read_answers(self, row: BatchRow, api: BatchClient, why: str) -> None:
        """Store the answers of an ended batch, mark it as done, and count its failures; `why` says why it failed as a whole."""
        failures, seen = Counter[str](), set[str]()
        with suppress(AbsentBatch):
            for lines in batched(await api.answers(row.name), _AT_ONCE):
                records = self._table.records([line["custom_id"] for line in lines])
                seen.update(records)
                answers = Answers(self._usage_log.session if row.run == self._run else "")
                for line in lines:
                    answers.take(line, records.get(line["custom_id"]), "batch")
                self._pay(row, answers)
                await asyncio.to_thread(self._store, answers)
                self._stored += len(answers.rows)
                failures.update(answers.failed.values())
        if (missing := row.requests - len(seen)) > 0:
            failures[why or _NO_LINE] += missing
        self._table.done(row, failures.most_common(1)[0][0] if failures else "")
        self._failures += failures
        self._learned |= self._learn(row)

    def _store(self, answers: Answers) -> None:
        self._usage_log.flush()
        self._ledger.put(answers.rows)

    def _pay(self, row: BatchRow, answers: Answers) -> None:
        """Count a batch's cost for this evaluation once, even if it is read again after a kill."""
        for group in answers.groups if row.run == self._run else ():
            stored = self._ledger.find([judgement.key for judgement in group])
            known = sum(map(self._usage_log.has_paid, stored.values()))
            if group and known < sum(judgement.error is None for judgement in group):
                self._usage_log.paid(self._apis[row.endpoint].model, group)

    # Questions

    async def send(self, asked: Sequence[Asked], note: Callable[[str], None] = lambda _: None) -> bool:
        """Send the questions that are in no batch yet; return True if any question is in a batch now.

        Raises:
            LimitReached: A limit forbids it.
            NoneAnswered: The last round got nothing but failures.
            JudgeError: A provider refuses.
        """
        self._ledger.put(known_at_once(asked))
        if self._failures and not self._stored and not self._learned:
            why, count = self._failures.most_common(1)[0]
            raise NoneAnswered(
                f"none of the requests in batches was answered ({count:,}: {why}): nothing was sent again "
                "(without --later what is left is asked live)"
            )
        self._failures.clear()
        self._stored, self._learned, later = 0, False, False
        in_flight = self._table.in_flight()
        for judge, questions in by_judge(asked):
            model = model_of(judge)
            if model is None or (api := self._apis.get(endpoint_of(model))) is None:
                continue
            later = True
            new = [question for question in questions if judge.key(question) not in in_flight]
            for some in _split(requests_of(judge, api.model, new, price_later(judge))):
                row = await self._create(api, some)
                price = "" if row.cost_usd is None else f", about ${row.cost_usd:.4f}"
                note(f"sent {counted(row.requests, 'request')} in the batch {row.name}{price}")
        return later and bool(self.open())

    def _learn(self, row: BatchRow) -> bool:
        """Learn from a failed batch which parameters to leave out; return True if there is one."""
        if not row.why or row.endpoint not in self._apis:
            return False
        known = self._apis[row.endpoint].model.capabilities
        return known.learn(row.why, known.mode, limited=True)

    async def _create(self, api: BatchClient, some: Sequence[Request]) -> BatchRow:
        """Store the intent to create a batch of these requests, create it, and return its row."""
        provider, name, url = endpoint_of(api.model)
        price = price_later(api.model)
        tokens, back = (sum(getattr(row, at) for row in some) for at in ("tokens", "tokens_back"))
        row = BatchRow(
            id=f"germane-{uuid4().hex}",
            run=self._run,
            provider=provider,
            model=name,
            url=url,
            requests=len(some),
            questions=sum(len(request.keys) for request in some),
            tokens=tokens,
            cost_usd=None if price is None else price.cost(tokens, back),
            at=now(),
        )
        self._check_limits(row)
        self._table.begin(row)
        self._table.add(row.id, some)
        try:
            made = await api.create(row.id, some)
        except JudgeError:
            self._table.forget(row)
            raise
        except TransportError as error:
            problem = f"whether a batch was made is not known: {error}; the next round finds out"
            raise JudgeError(problem) from None
        self._table.sent(row, made)
        return row

    def _check_limits(self, row: BatchRow) -> None:
        """Raise LimitReached if this batch, together with what is paid or in progress, would exceed a limit."""
        batches = [*self.open(own=True), row]
        paid = self._usage_log.earlier + self._usage_log.spent
        calls = paid.calls + sum(batch.questions for batch in batches)
        if self._max_calls is not None and calls > self._max_calls:
            asked = counted(calls, "question")
            raise LimitReached(f"--max-calls {self._max_calls} is less than the {asked} of all batches")
        cost = paid.cost_usd + sum(batch.cost_usd or 0.0 for batch in batches)
        if self._max_cost is not None and cost > self._max_cost:
            all_of = f"what all batches would cost, about ${cost:.4f}"
            raise LimitReached(f"--max-cost {self._max_cost:g} is less than {all_of}")

    # Waiting

    async def wait(self) -> None:
        """Wait until this evaluation's batches, or else another's, have ended and are read."""
        pause, faults = FIRST_PAUSE, 0
        while self.open():
            await asyncio.sleep(pause)
            pause = min(LONGEST_PAUSE, pause * 1.5)
            try:
                fetched = await self.fetch()
            except JudgeError:
                faults += 1
                if faults == _FAULTS:
                    raise
                continue
            faults = 0
            if fetched and not self.open(own=True):
                return

    async def cancel(self) -> None:
        """Cancel this evaluation's batches, and wait until their existing answers are stored."""
        await self.fetch()
        for row in self.open(own=True):
            if row.name:
                try:
                    await self._apis[row.endpoint].cancel(row.name)
                except TransportError as error:
                    raise JudgeError(f"the batch {row.name} cannot be cancelled: {error}") from None
        while self.open(own=True):
            await self.fetch()
            if self.open(own=True):
                await asyncio.sleep(FIRST_PAUSE)


def _split(requests: Iterable[Request]) -> Iterator[list[Request]]:
    """Yield the requests in batches of the size that a provider accepts."""
    some, size = list[Request](), 0
    for request in requests:
        if some and (len(some) == MOST_REQUESTS or size + len(request.line) + 1 > MOST_BYTES):
            yield some
            some, size = [], 0
        some.append(request)
        size += len(request.line) + 1
    if some:
        yield some
