"""Questions about several contexts together: what they support, and whether they suffice."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeVar, get_args

from germane.errors import AnswerError
from germane.judging.questions.base import Question, each_once, get, object_schema, places, reason
from germane.judging.text import blank
from germane.types import Json

__all__ = [
    "CitationSupport",
    "Cited",
    "Degree",
    "NuggetSupport",
    "Nuggeted",
    "Sufficiency",
    "Sufficient",
    "Support",
    "Supported",
    "Together",
]

A = TypeVar("A")

_NUMBERS: Json = {"type": "array", "items": {"type": "integer"}}
_REASON = "The passage states this in its first sentence."
_EMPTY = "the contexts are empty"
_MARK = re.compile(r"\[(\d+)\]")


class Together(Question[A]):
    """A question about several contexts, whose order does not matter: other ranks make no other question.

    Whatever order it is made with, `contexts` are sorted by their text, without empty ones. A judge sees and numbers
    them like that, and so do payloads; what `read` returns has places of the order that the question was made with.
    """

    __slots__ = ()

    contexts: tuple[str, ...]
    ranks: tuple[int, ...]
    """The place, from 1, that each of the contexts had."""

    def __post_init__(self) -> None:
        """Sort."""
        said = sorted((text, rank) for rank, text in enumerate(self.contexts, 1) if not blank(text))
        object.__setattr__(self, "contexts", tuple(text for text, _ in said))
        object.__setattr__(self, "ranks", tuple(rank for _, rank in said))

    @property
    def about(self) -> str:
        """All the contexts."""
        return "\n".join(self.contexts)


@dataclass(frozen=True, slots=True)
class Supported:
    """Which contexts support one claim, by their place from 1; none = the claim is not supported."""

    contexts: tuple[int, ...]
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class Support(Together[tuple[Supported, ...]]):
    """For each claim: which of these contexts support it, alone or together?"""

    kind: ClassVar[str] = "support"

    claims: tuple[str, ...]
    contexts: tuple[str, ...]
    ranks: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def inputs(self) -> dict[str, Json]:
        """Claims and contexts in the order of their numbers."""
        return {"claims": list(self.claims), "contexts": list(self.contexts)}

    def schema(self) -> dict[str, Json]:
        """`{claims: [{claim, reasoning, contexts}]}`, one item a claim, by its number."""
        item = object_schema(claim={"type": "integer"}, reasoning={"type": "string"}, contexts=_NUMBERS)
        return object_schema(claims={"type": "array", "items": item})

    def read(self, payload: Json) -> tuple[Supported, ...]:
        """One Supported a claim, in the claims' order; every claim exactly once."""
        return each_once(payload, "claims", "claim", len(self.claims), self._one)

    def _one(self, item: Json, _: int) -> Supported:
        found = sorted(self.ranks[number - 1] for number in places(item, len(self.contexts)))
        return Supported(tuple(found), reason(item))

    def placed(self, payload: Json) -> Json:
        """The numbers of contexts as places in the ranking."""
        ranked = ([self.ranks[number - 1] for number in item["contexts"]] for item in payload["claims"])
        items = zip(payload["claims"], ranked, strict=True)
        return {"claims": [{**item, "contexts": ranks} for item, ranks in items]}

    def unasked(self) -> Json:
        """Empty contexts support nothing."""
        if self.contexts:
            return None
        numbers = range(1, len(self.claims) + 1)
        return {"claims": [{"claim": n, "reasoning": _EMPTY, "contexts": []} for n in numbers]}

    def typical(self) -> Json:
        """Every claim supported by the first context."""
        numbers, first = range(1, len(self.claims) + 1), [1] if self.contexts else []
        return {"claims": [{"claim": n, "reasoning": _REASON, "contexts": first} for n in numbers]}


@dataclass(frozen=True, slots=True)
class Sufficient:
    """Whether contexts suffice to answer."""

    sufficient: bool
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class Sufficiency(Together[Sufficient]):
    """Do these contexts together hold enough to answer the query?"""

    kind: ClassVar[str] = "sufficiency"

    query: str
    contexts: tuple[str, ...]
    history: tuple[tuple[str, str], ...] = ()
    ranks: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def inputs(self) -> dict[str, Json]:
        """Query, contexts, and the history where there is one."""
        shown: dict[str, Json] = {"query": self.query, "contexts": list(self.contexts)}
        return shown | ({"history": [list(turn) for turn in self.history]} if self.history else {})

    def schema(self) -> dict[str, Json]:
        """`{reasoning, sufficient}`."""
        return object_schema(reasoning={"type": "string"}, sufficient={"type": "boolean"})

    def read(self, payload: Json) -> Sufficient:
        """Yes or no, and why."""
        verdict = get(payload, "sufficient", bool, "true or false")
        return Sufficient(verdict, reason(payload))

    def unasked(self) -> Json:
        """Empty contexts do not suffice."""
        return None if self.contexts else {"reasoning": _EMPTY, "sufficient": False}

    def typical(self) -> Json:
        """One sentence and a yes."""
        return {"reasoning": "The first context names the cause and the second the date.", "sufficient": True}


@dataclass(frozen=True, slots=True)
class Cited:
    """Whether the contexts that one sentence cites support it together, and which of them have a part in that."""

    supported: bool
    contexts: tuple[int, ...]
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class CitationSupport(Question[tuple[Cited, ...]]):
    """For each sentence: do the contexts that it cites support it?

    Each sentence ends with the numbers of the contexts that it cites, in brackets: `Water boils at 100 °C. [1][3]`.
    """

    kind: ClassVar[str] = "citations"

    statements: tuple[str, ...]
    contexts: tuple[str, ...]

    @property
    def about(self) -> str:
        """All the contexts that are cited."""
        return "\n".join(self.contexts)

    def cited(self, number: int) -> tuple[int, ...]:
        """The numbers that a sentence (counted from 1) cites."""
        return tuple(map(int, _MARK.findall(self.statements[number - 1])))

    def inputs(self) -> dict[str, Json]:
        """Sentences and contexts in their order (the numbers refer to it)."""
        return {"statements": list(self.statements), "contexts": list(self.contexts)}

    def schema(self) -> dict[str, Json]:
        """`{statements: [{statement, reasoning, supported, contexts}]}`, one item a sentence, by its number."""
        item = object_schema(
            statement={"type": "integer"},
            reasoning={"type": "string"},
            supported={"type": "boolean"},
            contexts=_NUMBERS,
        )
        return object_schema(statements={"type": "array", "items": item})

    def read(self, payload: Json) -> tuple[Cited, ...]:
        """One Cited a sentence, in order; only contexts that the sentence cites can have a part."""
        return each_once(payload, "statements", "statement", len(self.statements), self._one)

    def _one(self, item: Json, number: int) -> Cited:
        supported = get(item, "supported", bool, "true or false")
        contexts = places(item, len(self.contexts), self.cited(number))
        if supported and not contexts:
            raise AnswerError(f"statement {number} is supported, but by none of the contexts that it cites")
        return Cited(supported, contexts, reason(item))

    def typical(self) -> Json:
        """Every sentence supported by all that it cites."""
        numbers = range(1, len(self.statements) + 1)
        return {
            "statements": [
                {"statement": n, "reasoning": _REASON, "supported": True, "contexts": list(self.cited(n))}
                for n in numbers
            ]
        }


Degree = Literal["full", "partial", "none"]


@dataclass(frozen=True, slots=True)
class Nuggeted:
    """How far a text supports one nugget."""

    support: Degree
    reasoning: str = ""


@dataclass(frozen=True, slots=True)
class NuggetSupport(Together[tuple[Nuggeted, ...]]):
    """For each nugget (one fact that a good answer holds): do these contexts support it in full, in part or not?"""

    kind: ClassVar[str] = "nuggets"

    query: str
    nuggets: tuple[str, ...]
    contexts: tuple[str, ...]
    ranks: tuple[int, ...] = field(init=False, repr=False, compare=False)

    def inputs(self) -> dict[str, Json]:
        """Query, nuggets and contexts in the order of their numbers."""
        return {"query": self.query, "nuggets": list(self.nuggets), "contexts": list(self.contexts)}

    def schema(self) -> dict[str, Json]:
        """`{nuggets: [{nugget, reasoning, support}]}`, one item a nugget, by its number."""
        item = object_schema(
            nugget={"type": "integer"},
            reasoning={"type": "string"},
            support={"type": "string", "enum": list(get_args(Degree))},
        )
        return object_schema(nuggets={"type": "array", "items": item})

    def read(self, payload: Json) -> tuple[Nuggeted, ...]:
        """One Nuggeted a nugget, in order; every nugget exactly once."""
        return each_once(payload, "nuggets", "nugget", len(self.nuggets), self._one)

    def unasked(self) -> Json:
        """Empty contexts support no nugget."""
        if self.contexts:
            return None
        numbers = range(1, len(self.nuggets) + 1)
        return {"nuggets": [{"nugget": n, "reasoning": _EMPTY, "support": "none"} for n in numbers]}

    def _one(self, item: Json, number: int) -> Nuggeted:
        support = get(item, "support", str, "full, partial or none")
        if support not in get_args(Degree):
            raise AnswerError(
                f'the "support" of nugget {number} must be full, partial or none, not {support!r}'
            )
        return Nuggeted(support, reason(item))

    def typical(self) -> Json:
        """Every nugget supported in full."""
        numbers = range(1, len(self.nuggets) + 1)
        return {"nuggets": [{"nugget": n, "reasoning": _REASON, "support": "full"} for n in numbers]}
