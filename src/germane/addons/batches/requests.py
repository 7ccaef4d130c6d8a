"""Questions as requests that are answered later, by a provider's batches or another engine, and their answers read back.

A record of what each request asks is kept in the ledger until it is answered, so that its answer can be read as one that came
over HTTP: split, checked, and stored under the keys of its questions.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeAlias

from germane.addons.batches.api import UNRUN, Request
from germane.clean import mask_urls
from germane.encoding import decode, digest
from germane.errors import AnswerError, InputError, SourceLocation
from germane.judges import Judge, LLMJudge, Price, Reply
from germane.judges.client.output import MODES, PROMPT
from germane.judges.client.parsing import Completion, completion_in
from germane.judges.client.providers import PROVIDERS
from germane.judges.judge import trivial_answer
from germane.judges.llm import model_of
from germane.judging.groups import judgement_of
from germane.questions import AnyQuestion
from germane.questions.fusing import Ask, FusedRequest, render_request
from germane.questions.question import known_kinds
from germane.samples.files import numbered_lines, opened, shown_name
from germane.types import FrozenDict, Json, Judgement, Usage, freeze

Asked: TypeAlias = tuple[Judge, AnyQuestion]


def by_judge(asked: Iterable[Asked]) -> list[tuple[Judge, list[AnyQuestion]]]:
    """Return the questions for each judge, without those about an empty text."""
    result: dict[int, tuple[Judge, list[AnyQuestion]]] = {}
    for judge, question in asked:
        if trivial_answer(question) is None:
            result.setdefault(id(judge), (judge, []))[1].append(question)
    return list(result.values())


def known_at_once(asked: Iterable[Asked]) -> list[Judgement]:
    """Return the judgements of questions about an empty text, which need no judge."""
    replies = ((judge, question, trivial_answer(question)) for judge, question in asked)
    return [
        judgement_of(judge.key(question), question, judge, reply)
        for judge, question, reply in replies
        if reply is not None and reply.error is None
    ]


def requests_of(
    judge: Judge, model: LLMJudge, questions: Sequence[AnyQuestion], price: Price | None = None
) -> Iterator[Request]:
    """Yield the requests for these questions, grouped as the judge groups them; `price` is that of their answers."""
    capabilities, identity = model.capabilities, mask_urls(judge.identity)
    for group in judge.group(questions):
        ask = render_request(model.fused(group), model.prompts)
        body = capabilities.body(ask)
        items = [[_row(judge, question) for question in item.questions] for item in ask.items]
        keys = [row["key"] for rows in items for row in rows]
        record: dict[str, Json] = {
            "judge": judge.name,
            "identity": identity,
            "keyed": identity == judge.identity,
            "name": ask.name,
            "mode": MODES[capabilities.mode] if ask.schema else "text",
            "limited": capabilities.schema_limits and capabilities.mode < PROMPT,
            "items": items,
        }
        if price is not None:
            record["price"] = [price.input, price.output, price.cached]
        # not a digest of the body: the marks of its tags may be drawn for each process
        name = digest({"keys": keys, "name": ask.name})
        back = sum(len(str(question.typical())) for question in group) // 4
        yield Request(name, keys, record, body, tokens=len(body) // 4, tokens_back=back)


def _row(judge: Judge, question: AnyQuestion) -> dict[str, Json]:
    """Return the part of a record that describes one question."""
    values = {field.name: getattr(question, field.name) for field in fields(question) if field.init}  # type: ignore[arg-type]
    prompt = judge.prompt_hash(question)
    return {"kind": question.kind, "key": judge.key(question), "prompt": prompt, "fields": values}


def requests_for_file(asked: Iterable[Asked]) -> Iterator[Request]:
    """Yield these questions' requests as chat completions; InputError if a judge is not a chat model."""
    for judge, questions in by_judge(asked):
        model = model_of(judge)
        if model is None or model.service.provider not in PROVIDERS or model.service.traits.extra:
            problem = f"{judge.name} is not asked by chat completions, and such a file holds nothing else"
            raise InputError(problem, fix="name the model as the engine serves it: --judge vllm:MODEL")
        yield from requests_of(judge, model, questions)


class _Asker(Judge):
    """A judge with the name, identity and prompt hash of a record, so that answers get the keys that were asked for."""

    def __init__(self, record: Mapping[str, Json], row: Mapping[str, Json]) -> None:
        self.name, self.identity, self._prompt = record["judge"], freeze(record["identity"]), row["prompt"]
        self._key = "" if record.get("keyed", True) else row["key"]

    def key(self, question: AnyQuestion) -> str:
        """Return the record's key if its identity is masked, else the question's key."""
        return self._key or super().key(question)

    def prompt_hash(self, _question: AnyQuestion) -> str:
        """Return the prompt hash of the record."""
        return str(self._prompt)


@dataclass(slots=True)
class Answers:
    """The judgements that are read from lines of answers, and what became of each request.

    Attributes:
        session: The id of the session that pays for them; "" = none.
        groups: The judgements of each line, failures among them.
        done: The requests whose questions are all answered.
        failed: The reasons of the others, by request.
        refused: The failed requests that the endpoint did not accept.
        unrun: The failed requests that were not run before their batch ended.
        unknown: The number of lines whose request is not waiting: it was read before, or asked with another ledger.
    """

    session: str = ""
    groups: list[list[Judgement]] = field(default_factory=list)
    done: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    unrun: set[str] = field(default_factory=set)
    unknown: int = 0

    def take(self, line: Mapping[str, Json], record: Mapping[str, Json] | None, source: str) -> None:
        """Read a line: `custom_id`, and a `response` (a body, or its text) or an `error`; `record` is that of its request."""
        request = line["custom_id"]
        if record is None or request in self.done:
            self.unknown += 1
            return
        judgements, (problem, status) = list[Judgement](), _failure(line)
        if problem:
            self.refused.update([request] if status in {400, 422} else [])
            self.unrun.update([request] if status == _UNRUN else [])
        else:
            try:
                completion = _completion(line, record["name"])
                judgements = _judgements(request, record, completion, source, self.session)
                problem = next((row.error for row in reversed(judgements) if row.error is not None), "")
            except AnswerError as error:
                problem = str(error)
        self.groups.append(judgements)
        if problem:
            self.failed[request] = problem
        else:
            self.done.add(request)
            self.failed.pop(request, None)

    @property
    def rows(self) -> list[Judgement]:
        """The judgements to store."""
        return [judgement for group in self.groups for judgement in group if judgement.error is None]


def read_answers(path: Path, damaged: list[str]) -> Iterator[dict[str, Json]]:
    """Yield the lines of a file of answers; places of damaged lines are added to `damaged`. InputError if no line is an answer."""
    name, whole, before = shown_name(path), 0, len(damaged)
    with opened(path) as file:
        for number, text in numbered_lines(file):
            try:
                line = decode(text)
                if not isinstance(line["custom_id"], str):
                    raise TypeError  # noqa: TRY301 - as where it is none at all
            except (ValueError, TypeError, KeyError, RecursionError):
                damaged.append(f"{name}:{number}")
                continue
            whole += 1
            yield line
    if len(damaged) > before and not whole:
        location = SourceLocation(name, int(damaged[before].rpartition(":")[2]))
        fix = 'each line needs {"custom_id": ..., "response": {"body": ...}}'
        raise InputError("this line is not an answer to a request", fix=fix, place=location)


_UNRUN = -1
"""In place of an HTTP status: the batch ended before the request was run."""


def _failure(line: Mapping[str, Json]) -> tuple[str, int]:
    """Return why a request failed, and the HTTP status; "" where the line holds a completion."""
    response, error = line.get("response"), line.get("error")
    if isinstance(response, str):
        return "", 200
    if response is None and not error:
        return f"the line holds no response{': it is a request' if 'url' in line else ''}", 0
    whole = response if isinstance(response, Mapping) else {}
    body, status = whole.get("body", response), whole.get("status_code", 200 if whole else 0)
    if not error and status == 200 and isinstance(body, Mapping) and "choices" in body:
        return "", 200
    why = error or (body.get("error") if isinstance(body, Mapping) else None) or body or response
    message = why.get("message") if isinstance(why, Mapping) else why
    unrun = isinstance(error, Mapping) and error.get("code") in {UNRUN, "batch_cancelled"}
    return f"the request failed: {str(message or why)[:200]}", _UNRUN if unrun else status


def _completion(line: Mapping[str, Json], name: str) -> Completion:
    """Return the model's completion in a line that holds one."""
    response = line["response"]
    return (
        Completion(response)
        if isinstance(response, str)
        else completion_in(response.get("body", response), name)
    )


def _judgements(
    request: str, record: Mapping[str, Json], got: Completion, source: str, session: str
) -> list[Judgement]:
    """Return a judgement for each question of a request, with an error if its part is unusable."""
    askers = dict[int, _Asker]()
    ask = Ask(
        record["name"], "", "", {}, tuple(_request_of(rows, record, askers) for rows in record["items"])
    )
    sent, back, price, cost = got.input_tokens or 0, got.output_tokens or 0, record.get("price"), None
    if price:
        cost = Price(**dict(zip(("input", "output", "cached"), price, strict=True))).cost(
            sent, back, got.cached_tokens
        )
    usage = Usage(requests=1, input_tokens=sent, output_tokens=back, cost_usd=cost)
    how = {"mode": record["mode"], "model": got.model, "from": source}
    how = {name: value for name, value in how.items() if value}
    answers: Iterable[tuple[AnyQuestion, Json | AnswerError, dict[str, Json]]]
    try:
        if got.refusal or got.cut:
            raise AnswerError(got.refusal or "it was cut off at the token limit")  # noqa: TRY301
        payload = {"text": got.text} if record["mode"] == "text" else got.payload()
        answers = list(ask.read(payload, limited=record["limited"]))
    except AnswerError as error:
        answers = [(question, error, {}) for item in ask.items for question in item.questions]
    rows = []
    for question, answer, sharing in answers:
        wrong, provenance = isinstance(answer, AnswerError), FrozenDict(how | sharing)
        said = {"error": str(answer)} if wrong else {"payload": answer}
        reply = Reply(**said, usage=usage, request=request, provenance=provenance)
        usage, asker = Usage(cost_usd=0.0), askers[id(question)]
        rows.append(judgement_of(asker.key(question), question, asker, reply, session=session))
    return rows


def _request_of(
    rows: Iterable[Mapping[str, Json]], record: Mapping[str, Json], askers: dict[int, _Asker]
) -> FusedRequest:
    """Rebuild the questions of a request from its record, and put their judges into `askers` by id()."""
    kinds, request = known_kinds(), FusedRequest("")
    for row in rows:
        if row["kind"] not in kinds and row["kind"] not in (kinds := known_kinds(installed=True)):
            raise AnswerError(f"no add-on here knows questions of kind {row['kind']}")
        question = kinds[row["kind"]](**{name: _tupled(value) for name, value in row["fields"].items()})
        asker = askers[id(question)] = _Asker(record, row)
        if asker.key(question) != row["key"]:
            raise AnswerError("it was asked by another version of germane: ask again")
        request.questions.append(question)
    return request


def _tupled(value: Any) -> Any:
    """Convert lists to tuples and mappings to frozen ones, as questions hold them."""
    if isinstance(value, list):
        return tuple(map(_tupled, value))
    return freeze(value) if isinstance(value, dict) else value
