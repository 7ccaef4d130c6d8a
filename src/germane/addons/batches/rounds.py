"""Send a run's questions in provider batches, in rounds, until all are answered.

No batch is paid for twice. Before a batch is created, its requests are committed to the ledger under a name
that is sent to the provider. Its answers are committed before it is marked as done. If the process is killed
in between, the next round looks for the batch by that name.
"""

from __future__ import annotations

import asyncio
import datetime
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from uuid import uuid4

from germane.addons.batches.openai import MOST_BYTES, MOST_REQUESTS, AbsentBatch, BatchClient
from germane.addons.batches.requests import (
    SENDING,
    Answers,
    Asked,
    AskedTable,
    BatchRow,
    Request,
    has_batches,
    price_later,
    requests_of,
    split_trivial,
)
from germane.clean import counted, mask_urls
from germane.encoding import batched, now
from germane.errors import AskedLater, InputError, JudgeError, LimitReached, NoneAnswered
from germane.evaluation.spec import Callbacks, Spec
from germane.judges import Judge, LLMJudge
from germane.judges.client.retry import TransportError
from germane.judges.judge import members_of
from germane.judges.llm import model_of
from germane.judging.spending import UsageLog
from germane.ledger.store import Ledger

GRACE = 60.0
"""Seconds after which a batch that the provider does not list counts as never created."""
_AT_ONCE = 500
"""The number of lines of answers that are stored together."""
_NO_LINE = "the provider's files contain no readable line for it"


class Later:
    """The source of answers for `--later`, which sends questions to providers in batches.

    A run without `--later` is stopped if batches of its earlier sessions are still open.
    """

    def __init__(self, spec: Spec) -> None:
        self._spec = spec
        self._failures, self._stored, self._learned = Counter[str](), 0, False
        for name in ("until", "engine", "replay"):
            if spec.later and spec.get(name):
                raise InputError(
                    f"--{name} and --later cannot be combined", fix="leave out one of the two flags"
                )

    def check(self, judge: Judge) -> None:
        """Raise InputError if `--later` is given and the judge's provider does not support batches."""
        if self._spec.later and not any(map(has_batches, _models(judge))):
            problem = f"germane supports no batch API of the provider of {judge.name}"
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
        """Store the answers of ended batches, and send the questions that are still unanswered.

        `run` is the id of the evaluation. `check` checks its input before anything is paid for, and
        `open_questions` returns its unanswered questions. Raises AskedLater if a batch is still open.
        """
        self._ledger, self._usage_log, self._run = ledger, usage_log, run
        self._table = table = AskedTable(ledger)
        if not self._spec.later:
            if waiting := sum(row.requests for row in table.batches(opened=True) if row.run == run):
                asked = counted(waiting, "request is", "requests are")
                raise AskedLater(f"{asked} in batches; only a run with --later fetches their answers")
            return
        check()
        self._clients = {
            endpoint_of(model): BatchClient(model) for model in _models(judge) if has_batches(model)
        }
        try:
            for row in table.batches():
                self._learn(row)
            for row in self._open():
                try:
                    await self._fetch(row, self._clients[row.endpoint])
                except TransportError as error:
                    problem = f"the batch {row.name or row.id} cannot be fetched: {error}"
                    raise JudgeError(problem) from None
            await self._send(await open_questions(), callbacks.note)
            if pending := self._open():
                asked = counted(sum(row.requests for row in pending), "request is", "requests are")
                raise AskedLater(f"{asked} in batches")
        finally:
            for client in self._clients.values():
                await client.close()

    def _open(self) -> list[BatchRow]:
        """Return the open batches at the endpoints in `clients`, including batches of other evaluations."""
        return [row for row in self._table.batches(opened=True) if row.endpoint in self._clients]

    async def _fetch(self, row: BatchRow, client: BatchClient) -> None:
        if row.state == SENDING:
            name = await client.find(row.id)
            if name is None:
                age = datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(row.at)
                if age.total_seconds() >= GRACE:
                    self._table.forget(row)
                return
            self._table.sent(row, name)
        try:
            why = await client.end_of(row.name)
        except AbsentBatch:
            why = "the provider no longer has it"
        if why is not None:
            await self._read_answers(row, client, why)

    async def _read_answers(self, row: BatchRow, client: BatchClient, why: str) -> None:
        failures, seen = Counter[str](), set[str]()
        with suppress(AbsentBatch):
            for lines in batched(await client.answers(row.name), _AT_ONCE):
                records = self._table.records([line["custom_id"] for line in lines])
                seen.update(records)
                answers = Answers(self._usage_log.session if row.run == self._run else "")
                for line in lines:
                    answers.take(line, records.get(line["custom_id"]), "batch")
                self._pay(row, answers)
                await asyncio.to_thread(self._usage_log.flush)
                await asyncio.to_thread(self._ledger.put, answers.rows)
                self._stored += len(answers.rows)
                failures.update(answers.failed.values())
        if (missing := row.requests - len(seen)) > 0:
            failures[why or _NO_LINE] += missing
        self._table.done(row, failures.most_common(1)[0][0] if failures else "")
        self._failures += failures
        self._learned |= self._learn(row)

    def _pay(self, row: BatchRow, answers: Answers) -> None:
        """Count the cost of a batch that this evaluation sent, once, even if its answers are read again."""
        for group in answers.groups if row.run == self._run else ():
            stored = self._ledger.find([judgement.key for judgement in group])
            known = sum(map(self._usage_log.has_paid, stored.values()))
            if group and known < sum(judgement.error is None for judgement in group):
                self._usage_log.paid(self._clients[row.endpoint].model, group)

    def _learn(self, row: BatchRow) -> bool:
        """Learn from a batch's error which parameters the model rejects; return True if it rejects any."""
        if not row.why or row.endpoint not in self._clients:
            return False
        known = self._clients[row.endpoint].model.capabilities
        return known.learn(row.why, known.mode, limited=True)

    async def _send(self, asked: Sequence[Asked], note: Callable[[str], None]) -> None:
        """Send the questions that are in no batch yet, and call `note` with a line on each batch.

        Raises LimitReached if all batches together would exceed a limit, NoneAnswered if all requests of the
        fetched batches failed, and JudgeError if a provider refuses a batch.
        """
        known, others = split_trivial(asked)
        self._ledger.put(known)
        if self._failures and not self._stored and not self._learned:
            why, count = self._failures.most_common(1)[0]
            raise NoneAnswered(
                f"all requests in batches failed ({count:,}: {why}), so no batch was sent again; "
                "to ask the questions without batches, leave out --later"
            )
        in_flight = self._table.in_flight()
        for judge, questions in others:
            model = model_of(judge)
            if model is None or (client := self._clients.get(endpoint_of(model))) is None:
                continue
            new = [question for question in questions if judge.key(question) not in in_flight]
            for some in _split(requests_of(judge, client.model, new, price_later(judge))):
                row = self._row(client.model, some)
                self._check_limits(row)
                await self._create(row, client, some)
                price = "" if row.cost_usd is None else f", about ${row.cost_usd:.4f}"
                note(f"sent {counted(row.requests, 'request')} in the batch {row.name}{price}")

    def _row(self, model: LLMJudge, some: Sequence[Request]) -> BatchRow:
        (provider, name, url), price = endpoint_of(model), price_later(model)
        sent, back = (sum(request.tokens for request in some), sum(request.tokens_back for request in some))
        return BatchRow(
            id=f"germane-{uuid4().hex}",
            run=self._run,
            provider=provider,
            model=name,
            url=url,
            requests=len(some),
            questions=sum(len(request.keys) for request in some),
            cost_usd=None if price is None else price.cost(sent, back),
            at=now(),
        )

    def _check_limits(self, row: BatchRow) -> None:
        """Raise LimitReached if this batch, with all paid and pending requests, would exceed a limit."""
        batches = [*(batch for batch in self._open() if batch.run == self._run), row]
        paid = self._usage_log.earlier + self._usage_log.spent
        calls = paid.calls + sum(batch.questions for batch in batches)
        if self._spec.max_calls is not None and calls > self._spec.max_calls:
            asked = counted(calls, "question")
            raise LimitReached(
                f"--max-calls {self._spec.max_calls} is too low: all batches together ask {asked}"
            )
        cost = paid.cost_usd + sum(batch.cost_usd or 0.0 for batch in batches)
        if self._spec.max_cost is not None and cost > self._spec.max_cost:
            all_of = f"all batches together would cost about ${cost:.4f}"
            raise LimitReached(f"--max-cost {self._spec.max_cost:g} is too low: {all_of}")

    async def _create(self, row: BatchRow, client: BatchClient, some: Sequence[Request]) -> None:
        """Create a batch at the provider; its row and its requests are stored before."""
        self._table.begin(row)
        self._table.add(row.id, some)
        try:
            self._table.sent(row, await client.create(row.id, some))
        except JudgeError:
            self._table.forget(row)
            raise
        except TransportError as error:
            problem = (
                f"it is unknown whether a batch was created ({error}); run the command again to find out"
            )
            raise JudgeError(problem) from None


def _models(judge: Judge) -> Iterator[LLMJudge]:
    return filter(None, map(model_of, members_of(judge)))


def endpoint_of(model: LLMJudge) -> tuple[str, str, str]:
    """Return a model's provider, name and URL, as they are stored in the row of a batch."""
    return model.service.provider, model.service.model, mask_urls(model.service.custom)


def _split(requests: Iterable[Request]) -> Iterator[list[Request]]:
    some, size = list[Request](), 0
    for request in requests:
        size += len(request.line) + 1
        if some and (len(some) == MOST_REQUESTS or size > MOST_BYTES):
            yield some
            some, size = [], len(request.line) + 1
        some.append(request)
    if some:
        yield some
