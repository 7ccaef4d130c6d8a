"""The kinds of question that a judge is asked: plain data in, checked plain data out.

A question is a value. Its `inputs` (and nothing else of the sample) change its answer, so they are what
its key is made of; `schema` is the shape that a model must answer in; `read` turns such a payload into
a typed answer or raises AnswerError saying what was wrong, in words that can be sent back to the model.
The wording of a question stands in `prompts/<prompt>.md`.
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal, TypeVar

from germane.errors import AnswerError
from germane.types import Context, Json

__all__ = [
    "Claims",
    "Grade",
    "Question",
    "Relevance",
    "Support",
    "Supported",
    "canonical",
    "digest",
    "key_of",
]

A = TypeVar("A")
Scale = Literal["graded", "binary"]


def canonical(value: Json) -> bytes:
    """The one spelling of a JSON value: sorted keys, no spaces, UTF-8."""
    text = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    return text.encode("utf-8", "surrogatepass")


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

    @abstractmethod
    def inputs(self) -> dict[str, Json]:
        """Everything that may change the answer, by the name that the prompt knows it under."""

    @abstractmethod
    def schema(self) -> dict[str, Json]:
        """The strict JSON Schema of the payload."""

    @abstractmethod
    def read(self, payload: Json) -> A:
        """The typed answer in a payload; AnswerError says what is wrong with an unusable one."""

    @abstractmethod
    def typical(self) -> Json:
        """A payload of ordinary size: what a forecast takes for an answer that is not known yet."""


def key_of(question: Question[Any], identity: Mapping[str, Json], prompt_hash: str) -> str:
    """The ledger's key: everything that changes an answer, and nothing else.

    That is the kind and inputs of the question, its own prompt's hash and the judge's identity (provider,
    model, custom base URL, parameters, single or list mode, replica). A judge whose identity says that it
    `reads` labels instead of text is also keyed by the label. Ids, ranks, retriever scores and what else
    was asked in the same request are not in it.
    """
    parts: dict[str, Json] = {"kind": question.kind, "inputs": question.inputs(), "prompt": prompt_hash}
    parts["judge"] = identity
    if identity.get("reads") in {"labels", "gold"}:
        parts["label"] = question.label(identity["reads"]) if isinstance(question, Relevance) else None
    return digest(parts)


def _object(**properties: Json) -> dict[str, Json]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def _get(payload: Json, name: str, kind: type, what: str) -> Any:
    if not isinstance(payload, Mapping):
        raise AnswerError(f"the answer must be a JSON object, not {type(payload).__name__}")
    if name not in payload:
        raise AnswerError(f'the answer lacks "{name}" ({what})')
    value = payload[name]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise AnswerError(f'"{name}" must be {what}, not {json.dumps(value)[:80]}')
    return value


def _texts(payload: Json, name: str) -> tuple[str, ...]:
    items = _get(payload, name, (list, tuple), "a list of strings")  # type: ignore[arg-type]
    for item in items:
        if not isinstance(item, str) or not item.strip():
            raise AnswerError(
                f'every item of "{name}" must be a non-empty string, not {json.dumps(item)[:80]}'
            )
    return tuple(item.strip() for item in items)


@dataclass(frozen=True, slots=True)
class Grade:
    """How relevant a passage is: 0 unrelated, 1 on topic, 2 helps to answer, 3 answers; binary: 0 or 1."""

    grade: int
    reasoning: str = ""
    scale: Scale = "graded"


@dataclass(frozen=True, slots=True, kw_only=True)
class Relevance(Question[Grade]):
    """Is this passage relevant to the query?

    The reference, response and history are inputs exactly where they are shown. `context` and `gold` let a
    judge who reads labels find them; a judge who reads text never sees them and they are in no model's key.
    """

    kind: ClassVar[str] = "relevance"
    batched: ClassVar[bool] = True

    query: str
    passage: str
    reference: str | None = None
    response: str | None = None
    history: tuple[tuple[str, str], ...] = ()
    scale: Scale = "graded"
    context: Context | None = field(default=None, compare=False)
    gold: int | None = field(default=None, compare=False)

    @property
    def prompt(self) -> str:
        """Binary and graded are two questions with two wordings."""
        return "relevance" if self.scale == "graded" else "relevance_binary"

    @property
    def about(self) -> str:
        """The passage."""
        return self.passage

    def label(self, source: str) -> Json:
        """What a person (`labels`) or the qrels (`gold`) say about the passage; None = nothing."""
        if source == "gold":
            return self.gold
        if self.context is None:
            return None
        return self.context.grade if self.context.grade is not None else self.context.relevant

    def inputs(self) -> dict[str, Json]:
        """Query, passage, scale, and the reference, response and history where they are shown."""
        shown: dict[str, Json] = {"query": self.query, "passage": self.passage, "scale": self.scale}
        if self.reference is not None:
            shown["reference"] = self.reference
        if self.response is not None:
            shown["response"] = self.response
        if self.history:
            shown["history"] = [list(turn) for turn in self.history]
        return shown

    def schema(self) -> dict[str, Json]:
        """`{reasoning, grade}` with a grade of 0 to 3, or `{reasoning, relevant}`."""
        reasoning = {"type": "string"}
        if self.scale == "binary":
            return _object(reasoning=reasoning, relevant={"type": "boolean"})
        return _object(reasoning=reasoning, grade={"type": "integer", "enum": [0, 1, 2, 3]})

    def read(self, payload: Json) -> Grade:
        """A Grade; a `relevant` on the graded scale is a person's yes or no and stays binary."""
        reasoning = str(payload.get("reasoning") or "") if isinstance(payload, Mapping) else ""
        if isinstance(payload, Mapping) and "relevant" in payload and "grade" not in payload:
            relevant = _get(payload, "relevant", bool, "true or false")
            return Grade(int(relevant), reasoning, "binary")
        if self.scale == "binary":
            raise AnswerError('the answer lacks "relevant" (true or false)')
        grade = _get(payload, "grade", int, "a whole number from 0 to 3")
        if grade not in range(4):
            raise AnswerError(f'"grade" must be 0, 1, 2 or 3, not {grade}')
        return Grade(grade, reasoning)

    def typical(self) -> Json:
        """One sentence and a grade."""
        verdict = {"relevant": True} if self.scale == "binary" else {"grade": 2}
        return {
            "reasoning": "The passage names the thing that the query asks about and explains it.",
            **verdict,
        }


@dataclass(frozen=True, slots=True)
class Claims(Question[tuple[str, ...]]):
    """What does this text claim, one self-contained statement each?"""

    kind: ClassVar[str] = "claims"
    opens: ClassVar[bool] = True

    text: str

    @property
    def about(self) -> str:
        """The text."""
        return self.text

    def inputs(self) -> dict[str, Json]:
        """The text alone, so that a text's claims are extracted once whoever needs them."""
        return {"text": self.text}

    def schema(self) -> dict[str, Json]:
        """`{claims: [string]}`."""
        return _object(claims={"type": "array", "items": {"type": "string"}})

    def read(self, payload: Json) -> tuple[str, ...]:
        """The claims, in order; none is an answer too."""
        return _texts(payload, "claims")

    def typical(self) -> Json:
        """One claim a sentence of about 60 characters."""
        count = max(1, len(self.text) // 60)
        return {"claims": [self.text[i * 60 : i * 60 + 60].strip() or "a claim" for i in range(count)]}


@dataclass(frozen=True, slots=True)
class Supported:
    """Which contexts support one claim, by their place from 1; none = the claim is not supported."""

    contexts: tuple[int, ...]
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class Support(Question[tuple[Supported, ...]]):
    """For each claim: which of these contexts support it, alone or together?"""

    kind: ClassVar[str] = "support"

    claims: tuple[str, ...]
    contexts: tuple[str, ...]

    @property
    def about(self) -> str:
        """All the contexts."""
        return "\n".join(self.contexts)

    def inputs(self) -> dict[str, Json]:
        """Claims and contexts in their order (the numbers in the answer refer to it)."""
        return {"claims": list(self.claims), "contexts": list(self.contexts)}

    def schema(self) -> dict[str, Json]:
        """`{claims: [{claim, reasoning, contexts}]}`, one item a claim, by its number."""
        item = _object(
            claim={"type": "integer"},
            reasoning={"type": "string"},
            contexts={"type": "array", "items": {"type": "integer"}},
        )
        return _object(claims={"type": "array", "items": item})

    def read(self, payload: Json) -> tuple[Supported, ...]:
        """One Supported a claim, in the claims' order; every claim exactly once."""
        items = _get(payload, "claims", (list, tuple), "a list with one item a claim")  # type: ignore[arg-type]
        found: dict[int, Supported] = {}
        for item in items:
            number = _get(item, "claim", int, "the number of the claim")
            if number not in range(1, len(self.claims) + 1) or number in found:
                raise AnswerError(
                    f"claim {number} was judged twice or does not exist: there are {len(self.claims)}"
                )
            found[number] = Supported(self._numbers(item), str(item.get("reasoning") or ""))
        if missing := [n for n in range(1, len(self.claims) + 1) if n not in found]:
            raise AnswerError(
                f"{len(items)} verdicts for {len(self.claims)} claims: claim {missing[0]} is missing"
            )
        return tuple(found[n] for n in range(1, len(self.claims) + 1))

    def _numbers(self, item: Json) -> tuple[int, ...]:
        numbers = _get(item, "contexts", (list, tuple), "a list of context numbers")  # type: ignore[arg-type]
        for number in numbers:
            if isinstance(number, bool) or number not in range(1, len(self.contexts) + 1):
                raise AnswerError(f"context {number} does not exist: there are {len(self.contexts)}")
        return tuple(sorted(set(numbers)))

    def typical(self) -> Json:
        """Every claim supported by the first context."""
        reason = "The passage states this in its first sentence."
        return {
            "claims": [
                {"claim": n, "reasoning": reason, "contexts": [1]} for n in range(1, len(self.claims) + 1)
            ]
        }


def texts_of(contexts: Sequence[Context]) -> tuple[str, ...]:
    """The contexts' texts, in rank order."""
    return tuple(context.text for context in contexts)
