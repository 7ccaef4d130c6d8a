"""What a question is, what its key is made of, and how a payload is checked."""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Generic, NamedTuple, Self, TypeVar

from germane.encoding import encode
from germane.errors import AnswerError
from germane.judging.text import blank
from germane.types import Json

__all__ = [
    "Listed",
    "Miscounted",
    "Question",
    "canonical",
    "digest",
    "each_once",
    "get",
    "key_of",
    "object_schema",
    "places",
    "reason",
    "texts",
]

A = TypeVar("A")


def canonical(value: Json) -> bytes:
    """The one spelling of a JSON value: sorted keys, no spaces, UTF-8."""
    return encode(value, sort_keys=True)


def digest(value: Json) -> str:
    """The first 128 bits of the SHA-256 of a JSON value, in hex."""
    return hashlib.sha256(canonical(value)).hexdigest()[:32]


class Question(ABC, Generic[A]):
    """One thing asked of a judge; `A` is the type of its answer."""

    __slots__ = ()

    kind: ClassVar[str]
    """The name of the kind, the same in the ledger, in prompt files and on the command line."""
    opens: ClassVar[bool] = False
    """Whether the answer leads to further questions; such questions are asked first."""
    batched: ClassVar[bool] = False
    """Whether several texts may be put to the same question in one request, where the user asked for that."""

    @property
    def prompt(self) -> str:
        """The name of the prompt file that words this question."""
        return self.kind

    @property
    @abstractmethod
    def about(self) -> str:
        """The text that the question is about; questions about one text can share a request."""

    def label(self, _source: str) -> Json:
        """What a judge of `labels` or of `gold` would read instead of the text; None = there is nothing."""
        return None

    @property
    def item(self) -> str:  # a shim, until questions declare their items
        return digest({"kind": self.kind, **self.inputs()})

    def settings(self) -> dict[str, str]:  # likewise
        return {}

    @abstractmethod
    def inputs(self) -> dict[str, Json]:
        """Everything that may change the answer, by the name that the prompt knows it under."""

    @abstractmethod
    def schema(self) -> dict[str, Json]:
        """The strict JSON Schema of the payload."""

    @abstractmethod
    def read(self, payload: Json) -> A:
        """The typed answer in a payload; AnswerError says what is wrong with an unusable one."""

    def unasked(self) -> Json | AnswerError | None:
        """What holds without asking: the payload about an empty text, or an error where the text is not known.

        None = it must be asked. It is what every judge that reads would say; who reads labels is asked all the same.
        """
        return None

    def placed(self, payload: Json) -> Json:
        """A payload that can be read, with contexts by their places in the ranking and not as the judge counted."""
        return payload

    @abstractmethod
    def typical(self) -> Json:
        """A payload of ordinary size: what a forecast takes for an answer that is not known yet."""


class Listed(str):
    """The hash of a wording for lists, or a key that holds one: being asked in a list may change an answer.

    Attributes:
        alone: The hash or the key of the same question asked by itself.
        prompt: Of a key, the hash that it holds.
    """

    __slots__ = ("alone", "prompt")

    alone: str
    prompt: str

    def __new__(cls, text: str, alone: str, prompt: str = "") -> Self:
        """A string like any other, that knows these."""
        made = super().__new__(cls, text)
        made.alone, made.prompt = alone, prompt
        return made


def key_of(question: Question[Any], identity: Mapping[str, Json], prompt_hash: str) -> str:
    """The ledger's key: everything that changes an answer, and nothing else.

    That is the kind and inputs of the question, its own prompt's hash and the judge's identity (provider,
    model, custom base URL, parameters, single or list mode, replica). A judge whose identity says that it
    `reads` labels instead of text is also keyed by the label. Ids, ranks, retriever scores and what else
    was asked in the same request are not in it. Of a question that would be asked in a list it is Listed.
    """
    reads = identity.get("reads")
    label = (question.label(reads),) if reads in {"labels", "gold"} else ()
    return key_under(question, ending(question.kind, identity, prompt_hash, *label))


class Ending(NamedTuple):
    """What follows the inputs in the spelling of a key: the same for all questions of a kind to one judge.

    `alone` is what follows them in that of the question asked by itself, where `prompt` is for lists.
    """

    spelt: bytes
    alone: bytes = b""
    prompt: str = ""


def ending(kind: str, identity: Mapping[str, Json], prompt_hash: str, *label: Json) -> Ending:
    """The ending of these questions' keys."""
    if isinstance(prompt_hash, Listed):
        alone = _ending(kind, identity, prompt_hash.alone, *label)
        return Ending(_ending(kind, identity, prompt_hash, *label), alone, prompt_hash)
    return Ending(_ending(kind, identity, prompt_hash, *label))


def _ending(kind: str, identity: Mapping[str, Json], prompt_hash: str, *label: Json) -> bytes:
    parts: dict[str, Json] = {"judge": identity, "kind": kind, "prompt": prompt_hash}
    if label:
        parts["label"] = label[0]
    return b"," + canonical(parts)[1:]


def key_under(question: Question[Any], end: Ending) -> str:
    """The key of a question with that `ending`: a digest of {"inputs": ..., "judge": ..., "kind": ..., ...}."""
    begun = b'{"inputs":' + canonical(question.inputs())
    key = hashlib.sha256(begun + end.spelt).hexdigest()[:32]
    return Listed(key, hashlib.sha256(begun + end.alone).hexdigest()[:32], end.prompt) if end.alone else key


def object_schema(**properties: Json) -> dict[str, Json]:
    """The strict schema of an object: every property required, no other allowed."""
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def get(payload: Json, name: str, kind: type | tuple[type, ...], what: str) -> Any:
    """The value of that name and type in an object; AnswerError says what is wrong with another."""
    if not isinstance(payload, dict):
        raise AnswerError(f"the answer must be a JSON object, not {type(payload).__name__}")
    if name not in payload:
        raise AnswerError(f'the answer lacks "{name}" ({what})')
    value = payload[name]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise AnswerError(f'"{name}" must be {what}, not {json.dumps(value)[:80]}')
    return value


def texts(payload: Json, name: str) -> tuple[str, ...]:
    """A list of strings that each say something; AnswerError where an item is none.

    An item that shows nothing (white space, invisible characters) is not dropped: a list that went wrong there may
    lack what was meant, and the numbers of what follows would no longer be the judge's.
    """
    items = get(payload, name, (list, tuple), "a list of strings")
    for item in items:
        if not isinstance(item, str) or blank(item):
            raise AnswerError(
                f'every item of "{name}" must be a non-empty string, not {json.dumps(item)[:80]}'
            )
    return tuple([item.strip() for item in items])


def reason(payload: Mapping[str, Json]) -> str:
    """Why, in the judge's words; AnswerError where `reasoning` is no text.

    "" where it is missing or null: the verdict is what counts, weak models leave the rest out, and a person or a
    rule gives none. An object or a number in its place is an answer of another shape than the one that was asked for.
    """
    said = payload.get("reasoning")
    if isinstance(said, str):
        return said
    if said is None:
        return ""
    raise AnswerError(f'"reasoning" must be a string, not {json.dumps(said)[:80]}')


class Miscounted(AnswerError):
    """Verdicts are missing, or cannot be told apart: a model may do better with one at a time."""


def each_once(
    payload: Json, name: str, one: str, count: int, read: Callable[[Json, int], A]
) -> tuple[A, ...]:
    """What `read` makes of the items of a list that has each of the numbers 1 to `count` exactly once, in order."""
    items = get(payload, name, (list, tuple), f"a list with one item a {one}")
    found: dict[int, A] = {}
    for item in items:
        number = item.get(one) if isinstance(item, dict) else item
        if type(number) is not int or not isinstance(item, dict):
            raise Miscounted(f'"{one}" must be the number of the {one}, not {json.dumps(number)[:80]}')
        if number not in range(1, count + 1) or number in found:
            told = f"{one} {number} was judged twice or does not exist"
            raise Miscounted(f"{told}: they are numbered from 1 to {count}")
        found[number] = read(item, number)
    if missing := [n for n in range(1, count + 1) if n not in found]:
        raise Miscounted(f"{len(items)} verdicts for {count} {name}: {one} {missing[0]} is missing")
    return tuple(found[n] for n in range(1, count + 1))


def places(item: Json, count: int, allowed: Sequence[int] | None = None) -> tuple[int, ...]:
    """The numbers of contexts in an item, sorted; AnswerError where one does not exist or is not `allowed`."""
    numbers = get(item, "contexts", (list, tuple), "a list of context numbers")
    for number in numbers:
        if type(number) is not int or not 1 <= number <= count:
            raise AnswerError(f"context {number!r} does not exist: they are numbered from 1 to {count}")
        if allowed is not None and number not in allowed:
            raise AnswerError(f"context {number} is not among those that are asked about: {list(allowed)}")
    return tuple(sorted(set(numbers)))
