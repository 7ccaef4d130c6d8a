"""Questions as requests that somebody sends later - a file for another engine, a provider's batches - and their answers read back.

What each request asks is kept in the ledger until it is answered, so that an answer can be read like one that came over HTTP:
split, checked, and stored under the keys of its questions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeAlias

from germane.clean import mask_urls
from germane.encoding import decode, digest
from germane.errors import AnswerError, InputError, SourceLocation
from germane.judges.batches.api import UNRUN
from germane.judges.client.output import MODES, PROMPT
from germane.judges.client.parsing import Completion, completion_in
from germane.judges.client.providers import PROVIDERS, Price
from germane.judges.judge import Judge, Reply, trivial_answer
from germane.judges.llm import LLMJudge
from germane.judging.queue import judgement_of
from germane.ledger.asked import Request
from germane.questions.fusing import Ask, FusedRequest, fused_requests, render_request
from germane.questions.question import AnyQuestion, known_kinds
from germane.samples.files import numbered_lines, opened, shown_name
from germane.types import FrozenDict, Json, Judgement, Usage, freeze

Asked: TypeAlias = tuple[Judge, AnyQuestion]


def model_of(judge: Judge) -> LLMJudge | None:
    """The language model that a judge, or the judge that a replica is of, asks; None where it asks none."""
    model = getattr(judge, "judge", judge)
    return model if isinstance(model, LLMJudge) else None


def by_judge(asked: Iterable[Asked]) -> list[tuple[Judge, list[AnyQuestion]]]:
    """The questions of each judge that have to be asked: what is about nothing is known at once."""
    result: dict[int, tuple[Judge, list[AnyQuestion]]] = {}
    for judge, question in asked:
        if trivial_answer(question) is None:
            result.setdefault(id(judge), (judge, []))[1].append(question)
    return list(result.values())


def requests_of(
    judge: Judge, model: LLMJudge, questions: Sequence[AnyQuestion], price: Price | None = None
) -> Iterator[Request]:
    """The requests that ask these questions, as their judge would group them; `price` is what their answers will cost."""
    capabilities, identity = model.capabilities, mask_urls(judge.identity)
    for group in judge.group(questions):
        ask = render_request(fused_requests(group, model.prompts, fuse=model.fuse), model.prompts)
        body = capabilities.body(ask)
        items = [[_spelt(judge, question) for question in item.questions] for item in ask.items]
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
        yield Request(
            custom_id=digest(
                {"keys": keys, "name": ask.name}
            ),  # the marks of its tags are drawn for each process
            keys=keys,
            record=record,
            body=body,
            tokens=len(body) // 4,
            tokens_back=sum(len(str(question.typical())) for question in group) // 4,
        )


def requests_for_file(asked: Iterable[Asked]) -> Iterator[Request]:
    """The requests that ask these questions by chat completions. InputError where a judge is asked by other requests."""
    for judge, questions in by_judge(asked):
        model = model_of(judge)
        if model is None or model.service.provider not in PROVIDERS or model.service.traits.extra:
            problem = f"{judge.name} is not asked by chat completions, and such a file holds nothing else"
            raise InputError(problem, fix="name the model as the engine serves it: --judge vllm:MODEL")
        yield from requests_of(judge, model, questions)


def _spelt(judge: Judge, question: AnyQuestion) -> dict[str, Json]:
    values = {field.name: getattr(question, field.name) for field in fields(question) if field.init}  # type: ignore[arg-type]
    return {
        "kind": question.kind,
        "key": judge.key(question),
        "prompt": judge.prompt_hash(question),
        "fields": values,
    }


def known_at_once(asked: Iterable[Asked]) -> list[Judgement]:
    """The answers about nothing, which no judge is asked for: an empty passage is not relevant."""
    replies = ((judge, question, trivial_answer(question)) for judge, question in asked)
    return [
        judgement_of(judge.key(question), question, judge, reply)
        for judge, question, reply in replies
        if reply is not None and reply.error is None
    ]


# Answers


class _Failed(AnswerError):
    """The request itself failed; `refused`: what it asked for was not taken."""

    def __init__(self, problem: str, *, refused: bool = False, unrun: bool = False) -> None:
        super().__init__(problem)
        self.refused, self.unrun = refused, unrun


class _Asker(Judge):
    """The judge that was asked a question, as a record has it: enough to make the question's row, and its key unless that is given."""

    def __init__(self, name: str, identity: Mapping[str, Json], prompt: str, key: str = "") -> None:
        self.name, self.identity, self._prompt, self._key = name, freeze(identity), prompt, key

    def key(self, question: AnyQuestion) -> str:
        """The key that the record gives where its identity lacks what is secret, else that of the question."""
        return self._key or super().key(question)

    def prompt_hash(self, _question: AnyQuestion) -> str:
        """The prompt hash of the record, whatever the question."""
        return self._prompt


@dataclass(slots=True)
class Answers:
    """The results of lines of answers.

    Attributes:
        rows: The judgements that can be stored.
        groups: For each line what it answered, errors included.
        done: The requests whose lines have answered everything.
        failed: Why others have not, by request.
        refused: The words of refusals: what a request held was not taken.
        unrun: Of those that failed, requests that were not run before their batch ended.
        unknown: Lines whose request is not known here: read before, or asked with another ledger.
    """

    rows: list[Judgement] = field(default_factory=list)
    groups: list[list[Judgement]] = field(default_factory=list)
    done: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    refused: Counter[str] = field(default_factory=Counter)
    unrun: set[str] = field(default_factory=set)
    unknown: int = 0

    def take(self, line: Mapping[str, Json], record: Mapping[str, Json] | None, source: str) -> None:
        """Add a line: `custom_id`, and a `response`, the whole one or its text, or an `error`; what its request asked."""
        request = line["custom_id"]
        if record is None or request in self.done:
            self.unknown += 1
            return
        try:
            judgements, problem = _judgements(request, record, _completion(line, record["name"]), source)
        except AnswerError as error:
            judgements, problem = [], error
        if isinstance(problem, _Failed):
            if problem.refused:
                self.refused[str(problem)] += 1
            if problem.unrun:
                self.unrun.add(request)
        self.rows += [judgement for judgement in judgements if judgement.error is None]
        self.groups.append(judgements)
        if problem is None:
            self.done.add(request)
            self.failed.pop(request, None)
        else:
            self.failed[request] = str(problem)


def read_answers(path: Path, damaged: list[str]) -> Iterator[dict[str, Json]]:
    """The lines of a file of answers; the places of those that are cut off or no answer are added to `damaged`.

    InputError where no line is an answer.
    """
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


def _completion(line: Mapping[str, Json], name: str) -> Completion:
    """The model's completion; _Failed where the request failed."""
    response = line.get("response")
    if isinstance(response, str):
        return Completion(response)
    body = response.get("body", response) if isinstance(response, Mapping) else None
    status = response.get("status_code", 200) if isinstance(response, Mapping) else 0
    error = line.get("error")
    if response is None and not error:
        asked = ": it is a request" if "url" in line else ""
        raise _Failed(f"the line holds no response{asked}")
    if error or status != 200 or not isinstance(body, Mapping) or "choices" not in body:
        why = error or (body.get("error") if isinstance(body, Mapping) else None) or body or response
        message = why.get("message") if isinstance(why, Mapping) else why
        unrun = isinstance(error, Mapping) and error.get("code") in {UNRUN, "batch_cancelled"}
        raise _Failed(
            f"the request failed: {str(message or why)[:200]}", refused=status in {400, 422}, unrun=unrun
        )
    return completion_in(body, name)


def _judgements(
    request: str, record: Mapping[str, Json], got: Completion, source: str
) -> tuple[list[Judgement], AnswerError | None]:
    """A judgement for each question of a request, with an error where its part cannot be used; the last such error."""
    askers = dict[int, _Asker]()
    ask = Ask(record["name"], "", "", {}, tuple(_request_of(row, record, askers) for row in record["items"]))
    usage = _usage(got, record)
    rows, last = list[Judgement](), None
    answers: Iterable[tuple[AnyQuestion, Json | AnswerError, dict[str, Json]]]
    try:
        if got.refusal or got.cut:
            raise AnswerError(got.refusal or "it was cut off at the token limit")  # noqa: TRY301
        payload = {"text": got.text} if record["mode"] == "text" else got.payload()
        answers = list(ask.read(payload, limited=record["limited"]))
    except AnswerError as error:
        answers = [(question, error, {}) for item in ask.items for question in item.questions]
    for question, answer, sharing in answers:
        how = {"mode": record["mode"], "model": got.model, "from": source}
        problem = answer if isinstance(answer, AnswerError) else None
        last = problem or last
        reply = Reply(
            payload=None if problem else answer,
            error=None if problem is None else str(problem),
            usage=usage,
            request=request,
            provenance=FrozenDict({name: value for name, value in how.items() if value} | sharing),
        )
        usage, asker = Usage(cost_usd=0.0), askers[id(question)]
        rows.append(judgement_of(asker.key(question), question, asker, reply))
    return rows, last


def _usage(got: Completion, record: Mapping[str, Json]) -> Usage:
    sent, back = got.input_tokens or 0, got.output_tokens or 0
    price, cost = record.get("price"), None
    if price:
        rates = Price(input=price[0], output=price[1], cached=price[2])
        cost = rates.cost(sent, back, got.cached_tokens)
    return Usage(requests=1, input_tokens=sent, output_tokens=back, cost_usd=cost)


def _request_of(
    rows: Iterable[Mapping[str, Json]], record: Mapping[str, Json], askers: dict[int, _Asker]
) -> FusedRequest:
    """The questions that shared a text, as they were asked; who was asked, by the id() of the question."""
    kinds, request = known_kinds(), FusedRequest("")
    for row in rows:
        if row["kind"] not in kinds and row["kind"] not in (kinds := known_kinds(installed=True)):
            raise AnswerError(f"no add-on here knows questions of kind {row['kind']}")
        question = kinds[row["kind"]](**{name: _tupled(value) for name, value in row["fields"].items()})
        key = "" if record.get("keyed", True) else row["key"]
        asker = askers[id(question)] = _Asker(record["judge"], record["identity"], row["prompt"], key)
        if asker.key(question) != row["key"]:
            raise AnswerError("it was asked by another version of germane: ask again")
        request.questions.append(question)
    return request


def _tupled(value: Any) -> Any:
    """A value as a question has it: tuples for lists, frozen mappings."""
    if isinstance(value, list):
        return tuple(map(_tupled, value))
    return freeze(value) if isinstance(value, dict) else value
