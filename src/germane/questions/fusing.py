"""Build requests: decide which questions to ask together, write the prompt, and split the answer by question.

A FusedRequest contains several questions about one text, which are answered in one JSON object. A batch
contains several FusedRequests that differ only in their text; its answer is a list with one item per text.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from germane.errors import AnswerError
from germane.questions.prompts import OF_AUTHOR, Prompts, fill, fragment, section_order, show, tag_code
from germane.questions.question import AnyQuestion
from germane.types import Json

__all__ = ["Ask", "FusedRequest", "render_request"]

ORDER = ("relevance", "statements", "entities", "claims", "support")  # order of questions in a FusedRequest
EXTRACTED = 8000  # average characters in one batch of texts from which claims or entities are extracted


@dataclass(slots=True)
class FusedRequest:
    """Questions about one text that are asked together.

    No two of their answers have a field name in common, so that one JSON object can answer all questions.
    """

    about: str  # the text
    questions: list[AnyQuestion] = field(default_factory=list)
    text: str = ""  # the name of the prompt section with the text; "" if it has no section of its own
    inputs: dict[str, Json] = field(default_factory=dict)  # the other inputs in the prompt, by name

    def add(self, question: AnyQuestion) -> bool:
        """Add a question and return True, or return False if the question does not fit.

        It does not fit if another answer has a field of the same name, or if its prompt shows other inputs.
        """
        inputs = {"passage" if name == "text" else name: value for name, value in question.inputs().items()}
        last = "".join(question.item_fields[-1:])
        last = "passage" if last == "text" else last
        text = last if inputs.get(last) == self.about else ""
        inputs.pop(text, None)
        answered = question.schema()["properties"].keys()
        if self.questions and (
            text != self.text
            or any(answered & other.schema()["properties"] for other in self.questions)
            or (inputs and self.inputs and inputs != self.inputs)
        ):
            return False
        self.text = text
        self.questions.append(question)
        self.inputs |= inputs
        return True

    def like(self) -> tuple[object, ...]:
        """Return a key that is equal for requests that differ only in text, so that they may form a batch."""
        kinds = tuple(question.prompt for question in self.questions)
        return kinds, self.text, json.dumps(self.inputs, sort_keys=True)


def fused_requests(
    questions: Sequence[AnyQuestion], prompts: Prompts, *, fuse: bool = True
) -> list[FusedRequest]:
    """Return requests that ask all of the questions, with `fuse` those about the same text together."""
    requests: list[FusedRequest] = []
    by_text: dict[str, list[FusedRequest]] = {}
    for question in sorted(questions, key=lambda q: ORDER.index(q.kind) if q.kind in ORDER else len(ORDER)):
        about = question.about
        alone = not fuse or bool(prompts.of(question).pieces)
        if not alone and any(request.add(question) for request in by_text.get(about, ())):
            continue
        request = FusedRequest(about)
        request.add(question)
        requests.append(request)
        if not alone:
            by_text.setdefault(about, []).append(request)
    return requests


def in_batches(requests: Sequence[FusedRequest], prompts: Prompts, size: int) -> Iterator[list[FusedRequest]]:
    """Group requests that differ only in their texts into batches of at most `size`.

    The batch and the position of a text depend only on content, not on ranks, ids or order of arrival. Batches
    of long texts whose answers are long too are smaller.
    """
    groups: dict[tuple[object, ...], list[FusedRequest]] = {}
    for number, request in enumerate(requests):
        fit = all(question.batched and not prompts.of(question).pieces for question in request.questions)
        key = request.like() if fit and request.text else (number,)
        groups.setdefault(key, []).append(request)
    for group in groups.values():
        group.sort(key=_shuffle)  # else each batch would contain passages with neighbouring ranks
        long = 0 if group[0].inputs else sum(len(request.about) for request in group)
        parts = min(len(group), max(-(-len(group) // size), -(-long // EXTRACTED)))
        for n in range(parts):
            yield group[n * len(group) // parts : (n + 1) * len(group) // parts]


@dataclass(frozen=True)
class Ask:
    """One request to a model: system prompt, user prompt, JSON Schema of the answer, and questions.

    The schema is {} if the answer is free text. `items` contains several FusedRequests if they form a batch.
    """

    name: str
    system: str
    user: str
    schema: dict[str, Json]
    items: tuple[FusedRequest, ...]

    @cached_property
    def limited(self) -> dict[str, Json]:
        """The JSON Schema with `maxItems` and `maxLength`, which are large enough for the longest text."""
        schema = _schema(max(self.items, key=lambda item: len(item.about)), limited=True)
        return _listing(schema, len(self.items)) if len(self.items) > 1 else schema

    @cached_property
    def room(self) -> int:
        """The maximum number of tokens of the answer; 0 for free text, which has no limit."""
        questions = (question for item in self.items for question in item.questions)
        return sum(question.limited()[1] for question in questions if not question.free_text)

    def read(
        self, payload: dict[str, Json], *, limited: bool = False
    ) -> Iterator[tuple[AnyQuestion, Json | AnswerError, dict[str, Json]]]:
        """Yield a tuple per question: the question, its answer or an AnswerError, and how it was asked.

        How it was asked is a dict with `fused`, `list_size` and `place`, as far as they apply. If the schema was
        `limited`, an answer that reaches a limit is an AnswerError.
        """
        many = len(self.items) > 1
        rows = _by_id(payload, len(self.items)) if many else {1: payload}
        for number, request in enumerate(self.items, 1):
            kinds = tuple(question.kind for question in request.questions)
            how: dict[str, Json] = {"fused": kinds} if len(kinds) > 1 else {}
            if many:
                how |= {"list_size": len(self.items), "place": number}
            row = rows.get(number, AnswerError(f"item {number} of {len(self.items)} is missing"))
            for question in request.questions:
                answer: Json | AnswerError = row
                try:
                    if not isinstance(row, AnswerError):
                        fields = question.schema()["properties"].keys() & row if len(kinds) > 1 else row
                        answer = question.validate({name: row[name] for name in fields})
                        if limited and not question.free_text:
                            question.limits().check(answer, question.schema())
                except AnswerError as error:
                    answer = error
                except Exception:  # noqa: BLE001 - a model may write anything into an answer
                    answer = AnswerError("the answer does not match the JSON Schema")
                yield question, answer, how


def _by_id(payload: dict[str, Json], count: int) -> dict[int, dict[str, Json] | AnswerError]:
    """Return the answers to a batch by text number; AnswerError for a text with two answers.

    Raises AnswerError if a number is unknown or the last items are missing: the model may then have numbered
    the texts differently (from 0, for example), so that no answer can be trusted.
    """
    items = payload.get("items")
    if not isinstance(items, list):
        raise AnswerError(f'the answer must have "items", a list of {count} answers')
    result: dict[int, dict[str, Json] | AnswerError] = {}
    for item in items:
        number = item.get("id") if isinstance(item, dict) else None
        if type(number) is not int or not 1 <= number <= count:
            named = f"the id {number!r}" if number is not None else "no id"
            raise AnswerError(f"an item has {named}: the passages are numbered from 1 to {count}")
        result[number] = AnswerError(f"item {number} was given twice") if number in result else item
    if result and (last := max(result)) < count:
        lacking = f"there are {count} passages: give one item for each"
        raise AnswerError(f"the items end with id {last}, but {lacking}")
    return result


def render_request(items: Sequence[FusedRequest], prompts: Prompts) -> Ask:
    """Return the request for one FusedRequest, or for several as a batch in shuffled order."""
    first = items[0]
    name = "-".join(question.kind for question in first.questions)
    if len(items) > 1:
        shuffled = sorted(items, key=_shuffle)
        fields = {**first.inputs, f"{first.text}s": [item.about for item in shuffled]}
        system, schema = _instructions(first, prompts, many=True), _listing(_schema(first))
        return Ask(f"{name}_list", system, _sections(fields), schema, tuple(shuffled))
    template = prompts.of(first.questions[0])
    if template.pieces:
        system = fragment("frame") if template.system is None else template.system
        user = fill(template, first.questions[0].inputs())
    else:
        system = _instructions(first, prompts)
        user = _sections({**first.inputs, **({first.text: first.about} if first.text else {})})
    return Ask(name, system, user, _schema(first), (first,))


def _shuffle(request: FusedRequest) -> bytes:
    return hashlib.sha256(repr((request.about, request.like())).encode("utf-8", "replace")).digest()


def _instructions(request: FusedRequest, prompts: Prompts, *, many: bool = False) -> str:
    parts = [f"{fragment('frame')} {fragment('list')}" if many else fragment("frame")]
    for question in request.questions:
        text = prompts.of(question).text
        verdicts = [name for name in question.schema()["properties"] if name != "reasoning"]
        parts.append(f"# {', '.join(verdicts)}\n{text}" if len(request.questions) > 1 else text)
    notes = " ".join(filter(None, map(fragment, sorted([*request.inputs, request.text], key=section_order))))
    return "\n".join(filter(None, [*parts, notes]))


def _schema(request: FusedRequest, *, limited: bool = False) -> dict[str, Json]:
    """Return the JSON Schema of an answer to all questions of a request; {} for free text."""
    if request.questions[0].free_text:
        return {}
    schemas = [question.limited()[0] if limited else question.schema() for question in request.questions]
    if len(schemas) == 1:
        return schemas[0]
    fields = {name: dict(field) for schema in schemas for name, field in schema["properties"].items()}
    for schema in fields.values():
        if schema.get("description") == f"{schema.get('minimum')} to {schema.get('maximum')}":
            del schema["description"]  # it only repeats the minimum and maximum
    return _object(fields)


def _listing(row: Mapping[str, Json], count: int | None = None) -> dict[str, Json]:
    """Return the JSON Schema of the answer to a batch: a list of `row`, each with an id."""
    items = {"type": "array", "items": _object({"id": {"type": "integer"}, **row["properties"]})}
    return _object({"items": items if count is None else {**items, "maxItems": count}})


def _object(properties: Mapping[str, Json]) -> dict[str, Json]:
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


def _sections(fields: Mapping[str, Json]) -> str:
    ordered = sorted(fields.items(), key=lambda section: section_order(section[0]))
    code = tag_code(ordered[0][1])
    return "".join(show(name, value, "" if name in OF_AUTHOR else code) for name, value in ordered)
