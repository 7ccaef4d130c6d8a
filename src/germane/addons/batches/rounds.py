"""Send a run's questions in OpenAI's batches, in rounds, until all are answered.

Many gateways and servers support this API: a file of requests is uploaded, a file of answers downloaded.
No batch is paid for twice. Before a batch is created, its requests are committed to the ledger under a name
that is sent to the provider. Its answers are committed before it is marked as done. If the process is killed
in between, the next round looks for the batch by that name.
"""

from __future__ import annotations

import asyncio
import datetime
import tempfile
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import suppress
from typing import IO, Any
from uuid import uuid4

import httpx2

from germane.addons.batches.requests import (
    SENDING,
    URL,
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
from germane.encoding import batched, decode, now
from germane.errors import AskedLater, InputError, JudgeError, LimitReached, NoneAnswered
from germane.evaluation.run import Callbacks
from germane.evaluation.spec import Spec
from germane.judges import Judge, LLMJudge
from germane.judges.client.retry import TransportError, message_of
from germane.judges.client.transport import Secrets
from germane.judges.judge import members_of
from germane.judges.llm import model_of
from germane.judging.spending import UsageLog
from germane.ledger.sqlite import is_there
from germane.ledger.store import Ledger
from germane.types import Json
from germane.version import __version__

MOST_REQUESTS, MOST_BYTES = 50_000, 200_000_000
"""The largest number of requests and of bytes in one batch."""
_ENDED = {"completed", "failed", "expired", "cancelled"}
_METADATA = "germane_batch"
_UNSURE = {408, 429}
"""HTTP statuses after which the same request may be sent again later."""
_SECONDS = {"connect": 20.0, "read": 300.0, "write": 300.0, "pool": None}


class AbsentBatch(JudgeError):
    """Raised if the server does not know a batch, which may have been deleted."""


class BatchClient:
    """A client that creates batches of one model and downloads their answers.

    Its methods raise JudgeError if the server refuses a request, and TransportError if the outcome of a
    request is unknown.
    """

    def __init__(self, model: LLMJudge) -> None:
        self.model, self._service, headers = model, model.service, model.headers()
        agent = {"user-agent": f"germane/{__version__}", **headers}
        self._secrets = Secrets(headers, url=self._service.url)
        self._client = httpx2.AsyncClient(headers=agent, timeout=httpx2.Timeout(**_SECONDS))

    async def create(self, batch: str, requests: Sequence[Request]) -> str:
        """Upload the requests and create a batch named `batch`; return the server's name of it."""
        content = b"\n".join(request.line for request in requests) + b"\n"
        parts = {"file": (f"{batch}.jsonl", content, "application/jsonl")}
        file = await self._create("files", data={"purpose": "batch"}, files=parts)
        body: dict[str, Json] = {"input_file_id": file, "endpoint": URL, "completion_window": "24h"}
        return await self._create("batches", json=body | {"metadata": {_METADATA: batch}})

    async def _create(self, path: str, **more: Any) -> str:
        name = (await self._call("POST", path, **more)).get("id")
        if not isinstance(name, str):
            raise TransportError(f"POST {mask_urls(self._service.at(path))} returned no id")
        return name

    async def find(self, batch: str) -> str | None:
        """Return the server's name of the batch that germane named `batch`, or None if there is none."""
        query: dict[str, str | int] = {"limit": 100}
        while True:
            page = await self._call("GET", "batches", params=query)
            rows = [row for row in _list(page.get("data")) if isinstance(row, dict) and row.get("id")]
            for row in rows:
                if _object(row.get("metadata")).get(_METADATA) == batch:
                    return str(row["id"])
            if not page.get("has_more") or not rows or rows[-1]["id"] == query.get("after"):
                return None  # in the last case, the server has pages but ignores `after`
            query["after"] = rows[-1]["id"]

    async def answers(self, name: str) -> tuple[str, Iterator[Json]] | None:
        """Return why a batch failed as a whole ("" if it did not) and its answers; None if it still runs.

        The answers are the valid lines of the files of answers and of errors, which are downloaded.
        """
        batch = await self._call("GET", f"batches/{name}")
        if batch.get("status") not in _ENDED:
            return None
        errors = _list(_object(batch.get("errors")).get("data")) if batch["status"] == "failed" else []
        why = "; ".join(dict.fromkeys(str(_object(error).get("message") or error) for error in errors[:5]))
        names = filter(None, (batch.get("output_file_id"), batch.get("error_file_id")))
        files = list[IO[bytes]]()
        for file in names:
            with suppress(AbsentBatch):  # a deleted file: its requests have no answer, and `why` is kept
                files.append(await self._download(f"files/{file}/content"))
        return why, (line for file in files for line in self._lines(file))

    async def _download(self, path: str) -> IO[bytes]:
        try:
            async with self._client.stream("GET", self._service.at(path)) as response:
                if response.status_code != 200:
                    self._refused("GET", path, response.status_code, await response.aread())
                kept = tempfile.TemporaryFile()  # noqa: SIM115 - it is read, and closed, by _lines
                async for chunk in response.aiter_bytes():
                    kept.write(chunk)
        except httpx2.RequestError as error:
            raise TransportError(f"{type(error).__name__}: {error}") from None
        kept.seek(0)
        return kept

    def _lines(self, file: IO[bytes]) -> Iterator[Json]:
        with file:
            for line in file:  # split at b"\n" only: strings may contain other line ends
                with suppress(ValueError, RecursionError):  # the request then has no answer
                    answer = decode(self._secrets.mask(line.removeprefix(BOM_UTF8)))
                    if isinstance(answer, dict) and isinstance(answer.get("custom_id"), str):
                        yield answer

    async def close(self) -> None:
        """Close the HTTP client and its connections."""
        await self._client.aclose()

    async def _call(self, method: str, path: str, **more: Any) -> dict[str, Any]:
        try:
            response = await self._client.request(method, self._service.at(path), **more)
        except httpx2.RequestError as error:
            raise TransportError(f"{type(error).__name__}: {error}") from None
        if not 200 <= response.status_code < 300:
            self._refused(method, path, response.status_code, response.content)
        try:
            result = decode(self._secrets.mask(response.content))
        except ValueError:
            result = None
        if not isinstance(result, dict):
            raise TransportError(f"{method} {mask_urls(self._service.at(path))} did not return a JSON object")
        return result

    def _refused(self, method: str, path: str, status: int, body: bytes) -> None:
        why = self._secrets.mask_text(message_of(self._secrets.mask(body), status))
        message = f"{method} {mask_urls(self._service.at(path))}: {status} {why}"
        if method == "POST" and status in {404, 405}:
            message += "; without --later the judge is asked at once, also where the server has no batches"
        if status >= 500 or status in _UNSURE:
            raise TransportError(message)
        raise AbsentBatch(message) if status == 404 else JudgeError(message)


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _object(value: Json) -> dict[str, Json]:
    return value if isinstance(value, dict) else {}


GRACE = 60.0
"""Seconds after which a batch that the provider does not list counts as never created."""
_AT_ONCE = 500
"""The number of lines of answers that are stored together."""


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

    def check(self, judge: Judge, *, dry: bool) -> None:
        """Raise InputError if `--later` is given without a batch API, or without the report's ledger.

        In a `dry` run, the judge's models then get the price of batches, for the forecast.
        """
        place, source = self._spec.first("ledger", "given", "report")
        if self._spec.later and source == "report" and place and not is_there(place):
            problem = f"the ledger {place}, which records the batches of this report, is not there"
            fix = (
                "give the ledger's place: --ledger PLACE; with a new ledger, all open requests are sent again"
            )
            raise InputError(problem, fix=fix)
        if self._spec.later and not any(map(has_batches, _models(judge))):
            problem = f"germane supports no batch API of the provider of {judge.name}"
            fix = "leave --later out, or write the requests to a file: germane questions"
            raise InputError(problem, fix=fix)
        for model in filter(has_batches, _models(judge)) if self._spec.later and dry else ():
            model.price = price_later(model)

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
        """Store the answers of a batch if it has ended; forget it if it was never created.

        The cost of a batch that this evaluation sent is counted once, even if its answers are read again.
        """
        if row.state == SENDING:
            name = await client.find(row.id)
            if name is None:
                age = datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(row.at)
                if age.total_seconds() >= GRACE:
                    self._table.forget(row)
                return
            self._table.sent(row, name)
        is_own, every = row.run == self._run, iter(list[Any]())
        why = "the provider no longer has it"
        with suppress(AbsentBatch):
            if (ended := await client.answers(row.name)) is None:
                return
            why, every = ended
        failures, seen = Counter[str](), set[str]()
        for lines in batched(every, _AT_ONCE):
            records = self._table.records([line["custom_id"] for line in lines])
            seen.update(records)
            answers = Answers(self._usage_log.session if is_own else "")
            for line in lines:
                answers.take(line, records.get(line["custom_id"]), "batch")
            for group in answers.groups if is_own else ():
                stored = self._ledger.find([judgement.key for judgement in group])
                known = sum(map(self._usage_log.has_paid, stored.values()))
                if group and known < sum(judgement.error is None for judgement in group):
                    self._usage_log.paid(client.model, group)
            await asyncio.to_thread(self._usage_log.flush)
            await asyncio.to_thread(self._ledger.put, answers.rows)
            self._stored += len(answers.rows)
            failures.update(answers.failed.values())
        if (missing := row.requests - len(seen)) > 0:
            failures[why or "the provider's files contain no readable line for it"] += missing
        self._table.done(row, failures.most_common(1)[0][0] if failures else "")
        self._failures += failures
        self._learned |= self._learn(row)

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
            chunk, size = list[Request](), 0
            for request in requests_of(judge, client.model, new, price_later(judge)):
                length = len(request.line) + 1
                if chunk and (len(chunk) == MOST_REQUESTS or size + length > MOST_BYTES):
                    await self._create(chunk, client, note)
                    chunk, size = [], 0
                chunk.append(request)
                size += length
            if chunk:
                await self._create(chunk, client, note)

    async def _create(
        self, requests: Sequence[Request], client: BatchClient, note: Callable[[str], None]
    ) -> None:
        """Create a batch of these requests at the provider; its row and its requests are stored before.

        Raises LimitReached if this batch, with all paid and pending requests, would exceed a limit.
        """
        (provider, name, url), price = endpoint_of(client.model), price_later(client.model)
        sent, back = (
            sum(request.tokens for request in requests),
            sum(request.tokens_back for request in requests),
        )
        row = BatchRow(
            id=f"germane-{uuid4().hex}",
            run=self._run,
            provider=provider,
            model=name,
            url=url,
            requests=len(requests),
            questions=sum(len(request.keys) for request in requests),
            cost_usd=None if price is None else price.cost(sent, back),
            at=now(),
        )
        batches = [*(batch for batch in self._open() if batch.run == self._run), row]
        paid, spec = self._usage_log.earlier + self._usage_log.spent, self._spec
        calls = paid.calls + sum(batch.questions for batch in batches)
        if spec.max_calls is not None and calls > spec.max_calls:
            all_of = f"all batches together ask {counted(calls, 'question')}"
            raise LimitReached(f"--max-calls {spec.max_calls} is too low: {all_of}")
        cost = paid.cost_usd + sum(batch.cost_usd or 0.0 for batch in batches)
        if spec.max_cost is not None and cost > spec.max_cost:
            all_of = f"all batches together would cost about ${cost:.4f}"
            raise LimitReached(f"--max-cost {spec.max_cost:g} is too low: {all_of}")
        self._table.begin(row, requests)
        try:
            self._table.sent(row, await client.create(row.id, requests))
        except JudgeError:
            self._table.forget(row)
            raise
        except TransportError as error:
            problem = (
                f"it is unknown whether a batch was created ({error}); run the command again to find out"
            )
            raise JudgeError(problem) from None
        about = "" if row.cost_usd is None else f", about ${row.cost_usd:.4f}"
        note(f"sent {counted(row.requests, 'request')} in the batch {row.name}{about}")


def _models(judge: Judge) -> Iterator[LLMJudge]:
    return filter(None, map(model_of, members_of(judge)))


def endpoint_of(model: LLMJudge) -> tuple[str, str, str]:
    """Return a model's provider, name and URL, as they are stored in the row of a batch."""
    return model.service.provider, model.service.model, mask_urls(model.service.custom)
