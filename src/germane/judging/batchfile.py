"""Questions as a file for another engine of models, and its answers read back: one request a line, as OpenAI's batches have it.

`vllm run-batch` reads and writes the same lines. What each request asks is kept beside the ledger until it is answered, so that
an answer can be read like one that came over HTTP: split, checked, and stored under the keys of its questions.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, TypeAlias

import orjson

from germane.encoding import digest
from germane.errors import AnswerError, InputError, Place
from germane.judges.client.output import MODES, PROMPT
from germane.judges.client.parsing import Completion, completion_in
from germane.judges.judge import Judge, Reply, without_asking
from germane.judges.llm import LLMJudge
from germane.judging.queue import judgement_of
from germane.questions.question import AnyQuestion, known_kinds
from germane.questions.reading import Ask, Reading, readings, word
from germane.samples.files import read_lines, shown_name
from germane.types import FrozenDict, Json, Judgement, Usage, freeze

Asked: TypeAlias = tuple[Judge, AnyQuestion]
URL = "/v1/chat/completions"


@dataclass(frozen=True, slots=True)
class Request:
    """One request: its line in the file, and what must be known to read its answer."""

    custom_id: str
    line: dict[str, Json]
    record: dict[str, Json]


def requests_of(asked: Iterable[Asked]) -> Iterator[Request]:
    """The requests that ask these questions, as their judges would group them. What needs no asking is left out.

    InputError where a judge is none that is asked by such requests.
    """
    by_judge: dict[int, tuple[Judge, list[AnyQuestion]]] = {}
    for judge, question in asked:
        by_judge.setdefault(id(judge), (judge, []))[1].append(question)
    for judge, questions in by_judge.values():
        model = getattr(judge, "judge", judge)  # a replica asks its judge
        if not isinstance(model, LLMJudge) or not model.by_chat_completions:
            problem = f"{judge.name} is not asked by chat completions, of which such a file is made"
            raise InputError(problem, fix="name the model as the engine serves it: --judge vllm:MODEL")
        for group in judge.group([one for one in questions if without_asking(one) is None]):
            yield _request(judge, model, group)


def _request(judge: Judge, model: LLMJudge, group: Sequence[AnyQuestion]) -> Request:
    ask = word(readings(group, model.prompts, fuse=model.fuse), model.prompts)
    body = orjson.loads(model.capabilities.body(ask))
    keys = [judge.key(question) for item in ask.items for question in item.questions]
    custom_id = digest({"keys": keys, "name": ask.name})  # the marks of its tags are drawn for each process
    capabilities = model.capabilities
    record = {
        "custom_id": custom_id,
        "judge": judge.name,
        "identity": dict(judge.identity),
        "name": ask.name,
        "mode": "text" if not ask.schema else MODES[capabilities.mode],
        "limited": capabilities.schema_limits and capabilities.mode < PROMPT,
        "items": [[_spelt(judge, question) for question in item.questions] for item in ask.items],
    }
    line = {"custom_id": custom_id, "method": "POST", "url": URL, "body": body}
    return Request(custom_id, line, record)


def _spelt(judge: Judge, question: AnyQuestion) -> dict[str, Json]:
    given = {one.name: getattr(question, one.name) for one in fields(question) if one.init}  # type: ignore[arg-type]
    return {
        "kind": question.kind,
        "key": judge.key(question),
        "prompt": judge.prompt_hash(question),
        "fields": given,
    }


def known_at_once(asked: Iterable[Asked]) -> list[Judgement]:
    """The answers about nothing, which no judge is asked for: an empty passage is not relevant."""
    replies = ((judge, question, without_asking(question)) for judge, question in asked)
    return [
        judgement_of(judge.key(question), question, judge, reply)
        for judge, question, reply in replies
        if reply is not None and reply.error is None
    ]


# What was asked


class AskedFile:
    """What requests in files ask, until they are answered: JSON lines beside the ledger."""

    def __init__(self, ledger: str) -> None:
        self.path = Path(f"{Path(ledger).expanduser()}.asked.jsonl")

    def read(self) -> dict[str, dict[str, Json]]:
        """The records by their custom_id."""
        if not self.path.exists():
            return {}
        records = (orjson.loads(line) for line in self.path.read_bytes().splitlines() if line)
        return {record["custom_id"]: record for record in records}

    def write(self, records: Mapping[str, Mapping[str, Json]]) -> None:
        """Put these in the place of all; without any, no file is left."""
        if not records:
            self.path.unlink(missing_ok=True)
            return
        self.path.parent.mkdir(parents=True, exist_ok=True)
        new = self.path.with_name(f"{self.path.name}.new")
        new.write_bytes(b"".join(orjson.dumps(dict(one), default=dict) + b"\n" for one in records.values()))
        new.replace(self.path)


# Answers


class _Asker(Judge):
    """Whoever was asked, as a record has it: enough to make its keys and rows."""

    def __init__(self, record: Mapping[str, Json]) -> None:
        self.name = record["judge"]
        self.identity = freeze(record["identity"])
        spelt = (one for item in record["items"] for one in item)
        self._prompts = {one["key"]: one["prompt"] for one in spelt}
        self._prompt = ""

    def prompt_hash(self, _question: AnyQuestion) -> str:
        """That of the question which `at` names."""
        return self._prompt

    def at(self, key: str) -> _Asker:
        """For the question with that key."""
        self._prompt = self._prompts[key]
        return self


@dataclass(slots=True)
class Answers:
    """What files of answers came to: rows for the ledger, and why lines came to nothing, by their custom_id.

    `unknown` are lines whose request is not known here: read before, or made with another ledger.
    """

    rows: list[Judgement] = field(default_factory=list)
    done: set[str] = field(default_factory=set)
    failed: dict[str, str] = field(default_factory=dict)
    unknown: int = 0

    def reasons(self) -> Counter[str]:
        """How many lines failed for which reason."""
        return Counter(why[:200] for why in self.failed.values())


def read_answers(path: Path, records: Mapping[str, Mapping[str, Json]], found: Answers) -> None:
    """Add a file of answers: lines with `custom_id` and a `response`, the whole one or its text, or an `error`.

    InputError where a line is no such answer.
    """
    for number, line in read_lines(path):
        if not line.strip():
            continue
        try:
            row = orjson.loads(line)
            custom_id = row["custom_id"]
        except (ValueError, TypeError, KeyError):
            place = Place(shown_name(path), number)
            fix = 'each line needs {"custom_id": ..., "response": {"body": ...}}'
            raise InputError("this line is not an answer to a request", fix=fix, place=place) from None
        if (record := records.get(custom_id)) is None or custom_id in found.done:
            found.unknown += 1
            continue
        try:
            found.rows += _rows(record, _completion(row, record["name"]), found)
        except AnswerError as error:
            found.failed[custom_id] = str(error)
        else:
            found.done.add(custom_id)
            found.failed.pop(custom_id, None)


def _completion(row: Mapping[str, Json], name: str) -> Completion:
    """What the model wrote; AnswerError where the request failed."""
    response = row.get("response")
    if isinstance(response, str):
        return Completion(response)
    body = response.get("body") if isinstance(response, Mapping) else None
    status = response.get("status_code", 200) if isinstance(response, Mapping) else 0
    if row.get("error") or status != 200 or not isinstance(body, Mapping) or "choices" not in body:
        why = row.get("error") or (body or {}).get("error") or body or response
        told = why.get("message") if isinstance(why, Mapping) else why
        raise AnswerError(f"the request failed: {str(told or why)[:200]}")
    got = completion_in(body, name)
    if got.refusal:
        raise AnswerError(got.refusal)
    if got.cut:
        raise AnswerError("it was cut off at the token limit")
    return got


def _rows(record: Mapping[str, Json], got: Completion, found: Answers) -> list[Judgement]:
    """The judgements in one answer; AnswerError where any part of it cannot be used: the others are kept all the same."""
    asker, keys = _Asker(record), dict[int, str]()
    ask = Ask(record["name"], "", "", {}, tuple(_reading(spelt, asker, keys) for spelt in record["items"]))
    payload = {"text": got.text} if record["mode"] == "text" else got.payload()
    rows, problem = list[Judgement](), None
    usage = Usage(requests=1, input_tokens=got.input_tokens or 0, output_tokens=got.output_tokens or 0)
    for place, reading, question, part in ask.split(payload):
        try:
            answer = _checked(question, part, limited=record["limited"])
        except AnswerError as error:
            problem = error
            continue
        how: dict[str, Json] = {"mode": record["mode"], "model": got.model, "from": "file"}
        if len(reading.questions) > 1:
            how["fused"] = tuple(other.kind for other in reading.questions)
        if len(ask.items) > 1:
            how |= {"list_size": len(ask.items), "place": place}
        provenance = FrozenDict({name: value for name, value in how.items() if value})
        spent = Usage(cost_usd=0.0) if rows else usage
        reply = Reply(payload=answer, usage=spent, request=record["custom_id"], provenance=provenance)
        key = keys[id(question)]
        rows.append(judgement_of(key, question, asker.at(key), reply))
    if problem is not None:
        found.rows += rows
        raise problem
    return rows


def _reading(spelt: Iterable[Mapping[str, Json]], asker: _Asker, keys: dict[int, str]) -> Reading:
    """The questions that shared a text, as they were asked; their keys by their id()."""
    kinds, reading = known_kinds(), Reading("")
    for one in spelt:
        question = kinds[one["kind"]](**{name: _tupled(value) for name, value in one["fields"].items()})
        if asker.at(one["key"]).key(question) != one["key"]:
            raise AnswerError("it was asked by another version of germane: ask again")
        keys[id(question)] = one["key"]
        reading.questions.append(question)
    return reading


def _checked(question: AnyQuestion, part: Json | AnswerError, *, limited: bool) -> Json:
    """The payload as it is stored; AnswerError where it cannot be used."""
    if isinstance(part, AnswerError):
        raise part
    answer = question.checked(part)
    if limited:
        question.check_limits(answer)
    return answer


def _tupled(value: Any) -> Any:
    """A value as a question has it: tuples for lists, frozen mappings."""
    if isinstance(value, list):
        return tuple(map(_tupled, value))
    return freeze(value) if isinstance(value, dict) else value
