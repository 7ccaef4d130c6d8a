"""Convert questions to requests for a provider's batches or another engine, and read the answers later.

The ledger keeps a record of each request until its answer is read. The answer is then treated like one that
came over HTTP: it is split by question, checked, and stored under the questions' keys.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache, partial
from itertools import chain
from pathlib import Path
from typing import TypeAlias

import msgspec
from msgspec import structs

from germane.clean import mask_urls
from germane.encoding import batched, decode, digest, encode
from germane.errors import AnswerError, InputError, SourceLocation
from germane.judges import Judge, LLMJudge, Price, Reply
from germane.judges.client.chat import MODES, PROMPT, Completion, completion_in
from germane.judges.client.providers import PROVIDERS
from germane.judges.judge import judgement_of, trivial_answer
from germane.judges.llm import model_of
from germane.ledger.store import Ledger
from germane.questions import AnyQuestion
from germane.questions.fusing import Ask, FusedRequest, render_request
from germane.questions.question import known_kinds
from germane.samples.files import numbered_lines, opened, shown_name
from germane.types import FrozenDict, Json, Judgement, Usage, freeze

FILE = ""
"""The name of the batch for requests that are written to a file."""

SENDING, SENT, DONE = "sending", "sent", "done"
_MANY = 200
"""The number of rows per SQL statement, because SQLite may accept at most 999 values."""


class BatchRow(msgspec.Struct, kw_only=True):
    """One batch of requests at a provider, sent by the evaluation `run`.

    Attributes:
        id: germane's name of the batch, which is stored before the batch is created and sent to the provider.
        name: The provider's name of the batch; "" until it is known.
        url: The judge's URL; "" for the provider's usual URL.
        cost_usd: An estimate of the cost; None if the price is unknown.
        why: The error of the whole batch, or the most frequent error of its lines; "" without errors.
    """

    id: str
    run: str
    provider: str
    model: str
    url: str
    requests: int
    questions: int
    cost_usd: float | None
    at: str
    name: str = ""
    state: str = SENDING
    why: str = ""

    @property
    def endpoint(self) -> tuple[str, str, str]:
        """The provider, the model and the URL to which the batch was sent."""
        return self.provider, self.model, mask_urls(self.url)


_COLUMNS = BatchRow.__struct_fields__
_TYPES = dict.fromkeys(("requests", "questions"), "bigint")
_TYPES |= {"id": "text PRIMARY KEY", "cost_usd": "double precision"}
_SCHEMA = (
    f"CREATE TABLE IF NOT EXISTS batches ({', '.join(' '.join((name, _TYPES.get(name, 'text'))) for name in _COLUMNS)})",
    "CREATE TABLE IF NOT EXISTS asked (request text PRIMARY KEY, batch text NOT NULL, keys text NOT NULL, record text NOT NULL)",
    "CREATE INDEX IF NOT EXISTS asked_batch ON asked (batch)",
)


class AskedTable:
    """The ledger's tables of unanswered requests and of batches."""

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        ledger.make(_SCHEMA)

    # Requests

    def add(self, batch: str, requests: Iterable[Request]) -> None:
        """Store requests as part of the batch with the id `batch`."""
        for chunk in batched(requests, _MANY):
            rows = [
                (row.custom_id, batch, " ".join(row.keys), encode(dict(row.record)).decode()) for row in chunk
            ]
            self._ledger.change(
                f"INSERT INTO asked (request, batch, keys, record) VALUES {', '.join(['(?, ?, ?, ?)'] * len(rows))} "  # noqa: S608 - question marks
                "ON CONFLICT (request) DO UPDATE SET batch = excluded.batch, keys = excluded.keys, record = excluded.record",
                list(chain.from_iterable(rows)),
            )

    def records(self, requests: Sequence[str]) -> dict[str, dict[str, Json]]:
        """Return the stored records of these requests, by request; answered requests are left out."""
        result: dict[str, dict[str, Json]] = {}
        for chunk in batched(requests, _MANY):
            sql = f"SELECT request, record FROM asked WHERE request IN ({_marks(chunk)})"  # noqa: S608 - question marks
            result |= {request: decode(record) for request, record in self._ledger.rows(sql, chunk)}
        return result

    def answered(self, requests: Sequence[str]) -> None:
        """Delete the records of requests that have been answered."""
        for chunk in batched(requests, _MANY):
            self._ledger.change(f"DELETE FROM asked WHERE request IN ({_marks(chunk)})", chunk)  # noqa: S608 - question marks

    def in_flight(self) -> set[str]:
        """Return the keys of the questions in open batches."""
        sql = "SELECT keys FROM asked WHERE batch IN (SELECT id FROM batches WHERE state <> ?)"
        return {key for (keys,) in self._ledger.rows(sql, [DONE]) for key in keys.split()}

    def waiting(self, batch: str) -> int:
        """Return the number of unanswered requests of a batch."""
        sql = "SELECT count(*) FROM asked WHERE batch = ?"
        return next(int(count) for (count,) in self._ledger.rows(sql, [batch]))

    # Batches

    def batches(self, *, opened: bool = False) -> list[BatchRow]:
        """Return all batches (with `opened`, only those that are not done), oldest first."""
        sql = f"SELECT {', '.join(_COLUMNS)} FROM batches ORDER BY at, id"  # noqa: S608 - constants
        rows = [BatchRow(**dict(zip(_COLUMNS, row, strict=True))) for row in self._ledger.rows(sql)]
        return [row for row in rows if row.state != DONE or not opened]

    def begin(self, batch: BatchRow, requests: Iterable[Request]) -> None:
        """Store a batch that is about to be created, and its requests."""
        sql = f"INSERT INTO batches ({', '.join(_COLUMNS)}) VALUES ({_marks(_COLUMNS)})"  # noqa: S608 - constants and question marks
        self._ledger.change(sql, structs.astuple(batch))
        self.add(batch.id, requests)

    def sent(self, batch: BatchRow, name: str) -> None:
        """Mark a batch as sent, and store the name that the provider gave it."""
        self._ledger.change("UPDATE batches SET name = ?, state = ? WHERE id = ?", [name, SENT, batch.id])
        batch.name, batch.state = name, SENT

    def forget(self, batch: BatchRow) -> None:
        """Delete a batch that was never created at the provider, and its requests."""
        self._ledger.change("DELETE FROM asked WHERE batch = ?", [batch.id])
        self._ledger.change("DELETE FROM batches WHERE id = ?", [batch.id])

    def done(self, batch: BatchRow, why: str = "") -> None:
        """Mark a batch as done once its answers are read; unanswered requests may be asked again."""
        self._ledger.change("DELETE FROM asked WHERE batch = ?", [batch.id])
        self._ledger.change("UPDATE batches SET state = ?, why = ? WHERE id = ?", [DONE, why, batch.id])
        batch.state, batch.why = DONE, why


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


Asked: TypeAlias = tuple[Judge, AnyQuestion]

URL = "/v1/chat/completions"
"""The path of the API in each line of requests, which is the same for every server."""
_LATER = 0.5
"""The price of a batch as a fraction of the usual price."""


@dataclass(frozen=True, slots=True)
class Request:
    """One request to a model, with the data for reading its answer later.

    Attributes:
        custom_id: A digest of its questions; requests with the same questions have the same id in every run.
        keys: The keys of its questions.
        record: The data from which its answer can be read.
        line: The line of a file of requests, as OpenAI's batches and `vllm run-batch` read it.
        tokens, tokens_back: Estimated input and output tokens, from the bytes of the request and a typical
            answer.
    """

    custom_id: str
    keys: Sequence[str]
    record: Mapping[str, Json]
    line: bytes
    tokens: int
    tokens_back: int


def has_batches(model: LLMJudge) -> bool:
    """Return True if the model's provider may support batches, as any OpenAI-compatible remote server may."""
    return not (model.service.traits.extra or model.service.traits.local)


def price_later(judge: Judge) -> Price | None:
    """Return the price of a judge's tokens in batches; None if it is unknown or there are no batches."""
    model = model_of(judge)
    if model is None or model.price is None or not has_batches(model):
        return None
    return model.price.times(_LATER)


def split_trivial(asked: Iterable[Asked]) -> tuple[list[Judgement], list[tuple[Judge, list[AnyQuestion]]]]:
    """Return the judgements of questions about empty texts, and the other questions, grouped by judge."""
    known, others = list[Judgement](), dict[int, tuple[Judge, list[AnyQuestion]]]()
    for judge, question in asked:
        reply = trivial_answer(question)
        if reply is None:
            others.setdefault(id(judge), (judge, []))[1].append(question)
        elif reply.error is None:
            known.append(judgement_of(judge.key(question), question, judge, reply))
    return known, list(others.values())


def requests_of(
    judge: Judge, model: LLMJudge, questions: Sequence[AnyQuestion], price: Price | None = None
) -> Iterator[Request]:
    """Yield a request for each group of questions that the judge asks together, and that `model` answers."""
    capabilities = model.capabilities
    for group in judge.group(questions):
        ask = render_request(model.fused(group), model.prompts)
        body = capabilities.body(ask)
        items = [[_row(judge, question) for question in item.questions] for item in ask.items]
        keys = [row["key"] for rows in items for row in rows]
        record: dict[str, Json] = {
            "judge": judge.name,
            "identity": mask_urls(judge.identity),
            "name": ask.name,
            "mode": MODES[capabilities.mode] if ask.schema else "text",
            "limited": capabilities.schema_limits and capabilities.mode < PROMPT,
            "items": items,
        }
        if price is not None:
            record["price"] = [price.input, price.output, price.cached]
        # not a digest of the body, because its tags may contain marks that are random in each process
        name = digest({"keys": keys, "name": ask.name})
        line = b'{"custom_id":%b,"method":"POST","url":%b,"body":%b}' % (encode(name), encode(URL), body)
        back = sum(len(str(question.typical())) for question in group) // 4
        yield Request(name, keys, record, line, tokens=len(body) // 4, tokens_back=back)


def _row(judge: Judge, question: AnyQuestion) -> dict[str, Json]:
    values = {field.name: getattr(question, field.name) for field in fields(question) if field.init}  # type: ignore[arg-type]
    prompt = judge.prompt_hash(question)
    return {"kind": question.kind, "key": judge.key(question), "prompt": prompt, "fields": values}


def requests_for_file(asked: Iterable[tuple[Judge, Sequence[AnyQuestion]]]) -> Iterator[Request]:
    """Yield requests that ask these questions. Raises InputError if a judge is not a chat model."""
    for judge, questions in asked:
        model = model_of(judge)
        if model is None or model.service.provider not in PROVIDERS or model.service.traits.extra:
            problem = f"{judge.name} has no chat-completions API, so its requests cannot be exported"
            raise InputError(problem, fix="name the model as the engine serves it: --judge vllm:MODEL")
        yield from requests_of(judge, model, questions)


@dataclass(slots=True)
class Answers:
    """Collects the judgements that are read from lines of answers.

    Attributes:
        session: The id of the session that pays for the answers; "" if no session does.
        groups: The judgements of each request, including errors.
        done: The requests whose questions are all answered.
        failed: The other requests, each with the reason why it failed.
        unknown: The number of lines whose request is not waiting in the ledger. Their answers were read
            before, or belong to another ledger.
    """

    session: str = ""
    groups: list[list[Judgement]] = field(default_factory=list)
    done: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    unknown: int = 0

    def take(self, line: Mapping[str, Json], record: Mapping[str, Json] | None, source: str) -> None:
        """Read a line of answers, and add its judgements to `groups`.

        `record` is the stored record of its request (None if it is unknown). `source` is "file" or "batch".
        """
        request = line["custom_id"]
        if record is None or request in self.done:
            self.unknown += 1
            return
        response, error = line.get("response"), line.get("error")
        try:
            if isinstance(response, str):
                completion = Completion(response)
            elif response is None and not error:
                raise AnswerError("the line has no response")  # noqa: TRY301 - as for any other unusable line
            else:
                body = response.get("body", response) if isinstance(response, Mapping) else None
                answer = body if isinstance(body, Mapping) else {}
                if error or "choices" not in answer:
                    why = error or answer.get("error") or body or response
                    message = why.get("message") if isinstance(why, Mapping) else why
                    raise AnswerError(f"the request failed: {str(message or why)[:200]}")  # noqa: TRY301
                completion = completion_in(answer, record["name"])
            judgements = _judgements(request, record, completion, source, self.session)
            problem = next((row.error for row in reversed(judgements) if row.error is not None), "")
        except AnswerError as error:
            judgements, problem = [], str(error)
        self.groups.append(judgements)
        if problem:
            self.failed[request] = problem
        else:
            self.done.add(request)
            self.failed.pop(request, None)

    @property
    def rows(self) -> list[Judgement]:
        """The judgements to store: all judgements without an error."""
        return [judgement for group in self.groups for judgement in group if judgement.error is None]


def read_answers(path: Path, damaged: list[str]) -> Iterator[dict[str, Json]]:
    """Yield the lines of answers in a file, and add the places of damaged lines (`file:line`) to `damaged`.

    Raises InputError if all lines are damaged.
    """
    name, whole, before = shown_name(path), 0, len(damaged)
    with opened(path) as file:
        for number, text in numbered_lines(file):
            try:
                line = decode(text)
                if not isinstance(line["custom_id"], str):
                    raise TypeError  # noqa: TRY301 - as for a line that is not an object
            except (ValueError, TypeError, KeyError, RecursionError):
                damaged.append(f"{name}:{number}")
                continue
            whole += 1
            yield line
    if len(damaged) > before and not whole:
        location = SourceLocation(name, int(damaged[before].rpartition(":")[2]))
        fix = 'each line needs {"custom_id": ..., "response": {"body": ...}}'
        raise InputError("this line is not an answer to a request", fix=fix, place=location)


def _judgements(
    request: str, record: Mapping[str, Json], got: Completion, source: str, session: str
) -> list[Judgement]:
    """Return a judgement per question, or an error; the first contains the usage of the whole request."""
    judge, rows, items = Judge(), dict[int, Mapping[str, Json]](), list[FusedRequest]()
    judge.name, judge.identity = record["judge"], freeze(record["identity"])
    kinds = _kinds()
    for questions_of_item in record["items"]:
        items.append(FusedRequest(""))
        for row in questions_of_item:
            try:
                question = kinds[row["kind"]](**freeze(row["fields"]))
            except (KeyError, TypeError):
                problem = "the question was sent by another version of germane; send it again"
                raise AnswerError(problem) from None
            rows[id(question)] = row
            items[-1].questions.append(question)
    ask, cost = Ask(record["name"], "", "", {}, tuple(items)), None
    sent, back = got.input_tokens or 0, got.output_tokens or 0
    if price := record.get("price"):
        rates = dict(zip(("input", "output", "cached"), price, strict=True))
        cost = Price(**rates).cost(sent, back, got.cached_tokens)
    usage = Usage(requests=1, input_tokens=sent, output_tokens=back, cost_usd=cost)
    how = {"mode": record["mode"], "from": source} | ({"model": got.model} if got.model else {})
    answers: Iterable[tuple[AnyQuestion, Json | AnswerError, dict[str, Json]]]
    try:
        if got.refusal or got.cut:
            raise AnswerError(got.refusal or "it was cut off at the token limit")  # noqa: TRY301
        payload = {"text": got.text} if record["mode"] == "text" else got.payload()
        answers = list(ask.read(payload, limited=record["limited"]))
    except AnswerError as error:
        answers = [(question, error, {}) for item in ask.items for question in item.questions]
    judgements = []
    for question, answer, sharing in answers:
        wrong, provenance = isinstance(answer, AnswerError), FrozenDict(how | sharing)
        result = {"error": str(answer)} if wrong else {"payload": answer}
        reply = Reply(**result, usage=usage, request=request, provenance=provenance)
        usage, row = Usage(cost_usd=0.0), rows[id(question)]
        judgement = judgement_of(row["key"], question, judge, reply, session=session)
        judgements.append(structs.replace(judgement, prompt=row["prompt"]))
    return judgements


_kinds = cache(partial(known_kinds, installed=True))
