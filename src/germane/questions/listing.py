"""Questions that list what a text contains (claims, entities, statements), and the importance of nuggets."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

from pydantic import Field

from germane.questions.payload import PayloadModel, Text, Whole, YesNo, list_payload
from germane.questions.question import Question
from germane.questions.relevance import AboutPassage
from germane.types import Json


@dataclass(frozen=True, slots=True)
class Claims(Question[tuple[str, ...]]):
    """The question which claims this text, an answer to the query, makes: each a self-contained sentence.

    The query turns a short answer into a sentence: "Warsaw" becomes "Marie Curie was born in Warsaw".
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
        """Return a payload of ordinary size: one claim for every 60 characters of the text."""
        count = max(1, len(self.text) // 60)
        return {"claims": [self.text[i * 60 : i * 60 + 60].strip() or "a claim" for i in range(count)]}


@dataclass(frozen=True, slots=True)
class Entities(Question[tuple[str, ...]]):
    """The question which persons, places, dates, numbers and other named things this text mentions.

    The query is in the item but not in the prompt, so that any question about the text can share the request.
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
        """Return a payload of ordinary size: all words with a capital or a digit, at least one."""
        result = dict.fromkeys(re.findall(r"\b(?:[A-Z]\w+|\w*\d\w*)\b", self.text))
        return {"entities": list(result) or [self.text[:10].strip() or "an entity"]}


Weight: TypeAlias = Literal["vital", "okay"]


class WeightItem(PayloadModel):
    """The importance of one nugget, identified by its number: `{nugget, importance}`."""

    nugget: Whole = Field(description="its number")
    importance: Weight


@dataclass(frozen=True, slots=True)
class Importance(Question[tuple[Weight, ...]]):
    """The question whether each nugget (one fact of a good answer) is vital, or okay to leave out."""

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
        """Return a payload of ordinary size, in which every nugget is vital."""
        return self.each(importance="vital")


class Statement(PayloadModel):
    """One statement that a passage makes, and whether it is relevant to the query."""

    text: Text = Field(alias="statement")
    relevant: YesNo


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementRelevance(AboutPassage[tuple[Statement, ...]]):
    """The question which statements a passage makes, and whether each is relevant to the query.

    It has the same query and passage as a `Relevance` question, so that both can share a request.
    """

    kind: ClassVar[str] = "statements"
    lists: ClassVar[str] = "statements"
    Payload: ClassVar[type[PayloadModel]] = list_payload(statements=tuple[Statement, ...])

    def typical(self) -> Json:
        """Return a payload of ordinary size: one statement for every 80 characters of the passage."""
        starts = range(0, max(1, len(self.passage)), 80)
        parts = (self.passage[start : start + 80].strip() or "a statement" for start in starts)
        return {"statements": [{"statement": text, "relevant": True} for text in parts]}
