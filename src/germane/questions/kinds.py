"""The kinds of question other than relevance.

They ask what a text contains (claims, entities, statements), which claims, nuggets or sentences are supported
by the contexts, whether the contexts suffice to answer the query, and how important nuggets are.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate
from typing import Any, ClassVar, Literal, TypeAlias, TypeVar

from pydantic import Field

from germane.clean import blank
from germane.errors import AnswerError
from germane.questions.payload import Numbers, PayloadModel, Reason, Text, Whole, YesNo, list_payload
from germane.questions.question import Question
from germane.questions.relevance import AboutPassage
from germane.types import Json

A = TypeVar("A")

_REASON = "The passage states this in its first sentence."
_EMPTY = "the contexts are empty"
_MARK = re.compile(r"\[(\d+)\]")


@dataclass(frozen=True, slots=True)
class Claims(Question[tuple[str, ...]]):
    """Asks which claims a text makes, as self-contained sentences. The text is an answer to the query.

    With the query, a short answer can be written as a sentence: "Marie Curie was born in Warsaw" for
    "Warsaw".
    """

    kind: ClassVar[str] = "claims"
    lists: ClassVar[str] = "claims"
    batched: ClassVar[bool] = True
    item_fields: ClassVar[tuple[str, ...]] = ("query", "history", "text")
    Payload: ClassVar[type[PayloadModel]] = list_payload(claims=tuple[Text, ...])

    query: str
    text: str
    history: tuple[tuple[str, str], ...] = ()

    def typical(self) -> Json:
        """Return a payload of typical size: one claim for every 60 characters of the text."""
        count = max(1, len(self.text) // 60)
        return {"claims": [self.text[i * 60 : i * 60 + 60].strip() or "a claim" for i in range(count)]}


@dataclass(frozen=True, slots=True)
class Entities(Question[tuple[str, ...]]):
    """Asks which persons, places, dates, numbers and other named things a text mentions.

    The query is part of the item but not of the prompt, so that the question can be asked in one request with
    any other question about the text.
    """

    kind: ClassVar[str] = "entities"
    lists: ClassVar[str] = "entities"
    hidden_fields: ClassVar[tuple[str, ...]] = ("query", "history")
    batched: ClassVar[bool] = True
    item_fields: ClassVar[tuple[str, ...]] = ("query", "history", "text")
    Payload: ClassVar[type[PayloadModel]] = list_payload(entities=tuple[Text, ...])

    query: str
    text: str
    history: tuple[tuple[str, str], ...] = ()

    def typical(self) -> Json:
        """Return a payload of typical size: all words that begin with a capital or contain a digit."""
        result = dict.fromkeys(re.findall(r"\b(?:[A-Z]\w+|\w*\d\w*)\b", self.text))
        return {"entities": list(result) or [self.text[:10].strip() or "an entity"]}


Weight: TypeAlias = Literal["vital", "okay"]


class WeightItem(PayloadModel):
    """The importance of one nugget, identified by its number: `{nugget, importance}`."""

    nugget: Whole = Field(description="its number")
    importance: Weight


@dataclass(frozen=True, slots=True)
class Importance(Question[tuple[Weight, ...]]):
    """Asks for each nugget (one fact of a good answer) whether it is vital, or okay to leave out."""

    kind: ClassVar[str] = "importance"
    item_fields: ClassVar[tuple[str, ...]] = ("query", "history", "nuggets")
    Payload: ClassVar[type[PayloadModel]] = list_payload(nuggets=list[WeightItem])
    verdicts: ClassVar[tuple[str, str] | None] = ("nuggets", "nugget")

    query: str
    nuggets: tuple[str, ...]
    history: tuple[tuple[str, str], ...] = ()

    def answer(self, payload: Any) -> tuple[Weight, ...]:
        """Return the importance of each nugget, in the order of the nuggets."""
        return tuple(item.importance for item in payload.nuggets)

    def typical(self) -> Json:
        """Return a payload of typical size, in which every nugget is vital."""
        return self.each(importance="vital")


class Statement(PayloadModel):
    """One statement that a passage makes, and whether it is relevant to the query."""

    text: Text = Field(alias="statement")
    relevant: YesNo


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementRelevance(AboutPassage[tuple[Statement, ...]]):
    """Asks which statements a passage makes, and whether each statement is relevant to the query.

    It has the same fields as a `Relevance` question, so that both can be asked in one request.
    """

    kind: ClassVar[str] = "statements"
    lists: ClassVar[str] = "statements"
    Payload: ClassVar[type[PayloadModel]] = list_payload(statements=tuple[Statement, ...])

    def typical(self) -> Json:
        """Return a payload of typical size: one statement for every 80 characters of the passage."""
        starts = range(0, max(1, len(self.passage)), 80)
        parts = (self.passage[start : start + 80].strip() or "a statement" for start in starts)
        return {"statements": [{"statement": text, "relevant": True} for text in parts]}


class ContextSetQuestion(Question[A]):
    """Base class of questions about a set of contexts, in which the order of the contexts does not matter.

    `contexts` are sorted by text, and repeated and empty contexts are removed. The prompt numbers them in
    this order, and `parse` converts the numbers to ranks. So the same passages in another ranking give the
    same item, key and request.
    """

    __slots__ = ()

    contexts: tuple[str, ...]
    ranks: tuple[tuple[int, ...], ...]  # the ranks, from 1, at which each context occurs
    nothing: ClassVar[Mapping[str, Json]] = {}
    """The verdict on each subject if all contexts are empty (without a reason). If {}, a judge is asked."""

    def __post_init__(self) -> None:
        """Sort the contexts, remove blank and repeated contexts, and store the ranks of each context."""
        result: dict[str, list[int]] = {}
        for rank, text in enumerate(self.contexts, 1):
            if not blank(text):
                result.setdefault(text, []).append(rank)
        object.__setattr__(self, "contexts", tuple(sorted(result)))
        object.__setattr__(self, "ranks", tuple(tuple(result[text]) for text in self.contexts))

    def unasked(self) -> Json:
        """Return the payload if all contexts are empty; None if a judge must be asked."""
        if self.contexts or not self.nothing:
            return None
        verdict = {"reasoning": _EMPTY, **self.nothing}
        return self.each(**verdict) if self.verdicts else verdict

    def ranked(self, numbers: Sequence[int]) -> tuple[int, ...]:
        """Return the sorted ranks of the contexts with these numbers; AnswerError for unknown ones."""
        _check_numbers(numbers, len(self.contexts))
        return tuple(sorted({rank for number in numbers for rank in self.ranks[number - 1]}))


def _check_numbers(numbers: Sequence[int], count: int, allowed: Sequence[int] | None = None) -> None:
    """Raise AnswerError if a context number is not from 1 to `count`, or not in `allowed` (None: any)."""
    for number in numbers:
        if not 1 <= number <= count:
            raise AnswerError(f"context {number!r} does not exist: contexts are numbered from 1 to {count}")
        if allowed is not None and number not in allowed:
            raise AnswerError(f"context {number} is not one of the cited contexts {list(allowed)}")


class Supported(PayloadModel):
    """The verdict on one claim: the ranks of the contexts that support it, empty if none does."""

    claim: Whole = Field(description="its number")
    reasoning: Reason = Field("", description="one sentence in the claim's language, no context numbers")
    contexts: Numbers = Field(description="numbers of those that support it; none: an empty list")


@dataclass(frozen=True, slots=True)
class Support(ContextSetQuestion[tuple[Supported, ...]]):
    """Asks for each claim by which of the contexts it is supported, alone or together."""

    kind: ClassVar[str] = "support"
    item_fields: ClassVar[tuple[str, ...]] = ("claims", "contexts")
    Payload: ClassVar[type[PayloadModel]] = list_payload(claims=list[Supported])
    verdicts: ClassVar[tuple[str, str] | None] = ("claims", "claim")
    nothing: ClassVar[Mapping[str, Json]] = {"contexts": []}

    claims: tuple[str, ...]
    contexts: tuple[str, ...]
    ranks: tuple[tuple[int, ...], ...] = field(init=False, repr=False, compare=False)

    def answer(self, payload: Any) -> tuple[Supported, ...]:
        """Return one Supported per claim, in the order of the claims, with the contexts' ranks."""
        for supported in payload.claims:
            supported.contexts = self.ranked(supported.contexts)
        return tuple(payload.claims)

    def with_ranks(self, payload: Json) -> Json:
        """Return a payload in which the contexts' numbers in the prompt are replaced by their ranks."""
        return {"claims": [{**item, "contexts": self.ranked(item["contexts"])} for item in payload["claims"]]}

    def typical(self) -> Json:
        """Return a payload of typical size, in which the first context supports every claim."""
        return self.each(reasoning=_REASON, contexts=[1] if self.contexts else [])

    def halves(self) -> list[Support]:
        """Return two questions, each about half of the contexts (by length); [] for a single context."""
        if len(self.contexts) < 2:
            return []
        sums = list(accumulate(map(len, self.contexts)))
        middle = 1 + min(range(len(sums) - 1), key=lambda n: abs(2 * sums[n] - sums[-1]))
        return [replace(self, contexts=half) for half in (self.contexts[:middle], self.contexts[middle:])]

    def merge(self, windows: Sequence[tuple[Support, Json]]) -> Json:
        """Return the payload for all contexts, merged from `windows`: (question about a part, its payload).

        If a claim is supported only by contexts of different parts together, it counts as unsupported, so
        that the score may be too low but never too high. The reason of an unsupported claim mentions this.
        """
        start, verdicts = 0, defaultdict[int, list[Json]](list)
        for window, payload in windows:
            for item in payload["claims"]:
                numbers = [start + number for number in item["contexts"]]
                verdicts[item["claim"]].append({**item, "contexts": numbers})
            start += len(window.contexts)
        claims = []
        for claim, found in sorted(verdicts.items()):
            contexts = [number for item in found for number in item["contexts"]]
            telling = [item for item in found if item["contexts"]] or found[:1]
            reasoning = " ".join(str(item.get("reasoning") or "") for item in telling)
            if not contexts and len(windows) > 1:
                reasoning += (
                    f" (Too long for one request, the contexts were judged in {len(windows)} windows:"
                    " support by contexts of different windows together is not seen.)"
                )
            claims.append({"claim": claim, "reasoning": reasoning, "contexts": contexts})
        return {"claims": claims}


class Sufficient(PayloadModel):
    """The verdict whether the contexts suffice to answer the query, with its reason."""

    reasoning: Reason = Field("", description="what decides or is missing: 1-2 sentences, no context numbers")
    sufficient: YesNo


@dataclass(frozen=True, slots=True)
class Sufficiency(ContextSetQuestion[Sufficient]):
    """Asks whether the contexts together contain enough information to answer the query."""

    kind: ClassVar[str] = "sufficiency"
    item_fields: ClassVar[tuple[str, ...]] = ("query", "history", "contexts")
    Payload: ClassVar[type[PayloadModel]] = Sufficient
    nothing: ClassVar[Mapping[str, Json]] = {"sufficient": False}

    query: str
    contexts: tuple[str, ...]
    history: tuple[tuple[str, str], ...] = ()
    ranks: tuple[tuple[int, ...], ...] = field(init=False, repr=False, compare=False)

    def typical(self) -> Json:
        """Return a payload of typical size: yes, with a reason of one sentence."""
        return {"reasoning": "The first context names the cause and the second the date.", "sufficient": True}


class CitationVerdict(PayloadModel):
    """The verdict on one sentence: True if the contexts that it cites support it, and which contribute."""

    statement: Whole = Field(description="its number")
    reasoning: Reason = Field("", description="one sentence in the statement's language, no context numbers")
    supported: YesNo
    contexts: Numbers = Field(description="numbers of the cited contexts that have a part in it")


@dataclass(frozen=True, slots=True)
class CitationSupport(Question[tuple[CitationVerdict, ...]]):
    """Asks whether each sentence is supported by the contexts that it cites.

    Each sentence ends with the numbers of the contexts that it cites: `Water boils at 100 °C. [1][3]`. The
    numbers refer to the order of `contexts`, so the question does not sort them; the measure has already done
    so.
    """

    kind: ClassVar[str] = "citations"
    item_fields: ClassVar[tuple[str, ...]] = ("statements", "contexts")
    Payload: ClassVar[type[PayloadModel]] = list_payload(statements=list[CitationVerdict])
    verdicts: ClassVar[tuple[str, str] | None] = ("statements", "statement")

    statements: tuple[str, ...]
    contexts: tuple[str, ...]

    def cited(self, number: int) -> tuple[int, ...]:
        """Return the context numbers that are cited in the sentence with this number (from 1)."""
        return tuple(map(int, _MARK.findall(self.statements[number - 1])))

    def answer(self, payload: Any) -> tuple[CitationVerdict, ...]:
        """Return one CitationVerdict per sentence, in order.

        Raises AnswerError for a context that the sentence does not cite, or support without a context.
        """
        for cited in payload.statements:
            _check_numbers(cited.contexts, len(self.contexts), self.cited(cited.statement))
            if cited.supported and not cited.contexts:
                why = "is supported, but by no context that it cites"
                raise AnswerError(f"statement {cited.statement} {why}")
            cited.contexts = tuple(sorted(set(cited.contexts)))
        return tuple(payload.statements)

    def typical(self) -> Json:
        """Return a payload of typical size, in which all citations support their sentence."""
        result = self.each(reasoning=_REASON, supported=True)
        for item in result["statements"]:
            item["contexts"] = list(self.cited(item["statement"]))
        return result


Degree = Literal["support", "partial_support", "not_support"]


class NuggetVerdict(PayloadModel):
    """The verdict on one nugget: the degree to which the contexts support it."""

    nugget: Whole = Field(description="its number")
    reasoning: Reason = Field("", description="one sentence in the nugget's language, no context numbers")
    support: Degree


@dataclass(frozen=True, slots=True)
class NuggetSupport(ContextSetQuestion[tuple[NuggetVerdict, ...]]):
    """Asks whether the contexts support each nugget (one fact of a good answer): fully, partly or not."""

    kind: ClassVar[str] = "nuggets"
    item_fields: ClassVar[tuple[str, ...]] = ("nuggets", "contexts")
    context_fields: ClassVar[tuple[str, ...]] = ("query",)
    Payload: ClassVar[type[PayloadModel]] = list_payload(nuggets=list[NuggetVerdict])
    verdicts: ClassVar[tuple[str, str] | None] = ("nuggets", "nugget")
    nothing: ClassVar[Mapping[str, Json]] = {"support": "not_support"}

    query: str
    nuggets: tuple[str, ...]
    contexts: tuple[str, ...]
    ranks: tuple[tuple[int, ...], ...] = field(init=False, repr=False, compare=False)

    def typical(self) -> Json:
        """Return a payload of typical size, in which every nugget is fully supported."""
        return self.each(reasoning=_REASON, support="support")
