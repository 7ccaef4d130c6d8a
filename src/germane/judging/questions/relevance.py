"""Questions about one passage: is it relevant, and which of its statements are?"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal, NamedTuple

from germane.errors import AnswerError
from germane.judging.questions.base import Question, get, object_schema, reason, texts
from germane.judging.text import blank
from germane.types import Context, Json

__all__ = ["Grade", "Relevance", "Scale", "Statement", "StatementRelevance"]

Scale = Literal["graded", "binary"]
EMPTY = "the passage is empty"


class Grade(NamedTuple):
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
        return {**_shown(self), "scale": self.scale}

    def schema(self) -> dict[str, Json]:
        """`{reasoning, grade}` with a grade of 0 to 3, or `{reasoning, relevant}`."""
        reasoning = {"type": "string"}
        if self.scale == "binary":
            return object_schema(reasoning=reasoning, relevant={"type": "boolean"})
        return object_schema(reasoning=reasoning, grade={"type": "integer", "enum": [0, 1, 2, 3]})

    def read(self, payload: Json) -> Grade:
        """A Grade; a `relevant` on the graded scale is a person's yes or no and stays binary."""
        said = payload if isinstance(payload, dict) else {}
        if "relevant" in said and "grade" not in said:
            relevant = get(payload, "relevant", bool, "true or false")
            return Grade(int(relevant), reason(said), "binary")
        if self.scale == "binary":
            raise AnswerError('the answer lacks "relevant" (true or false)')
        grade = get(payload, "grade", int, "a whole number from 0 to 3")
        if not 0 <= grade <= 3:
            raise AnswerError(f'"grade" must be 0, 1, 2 or 3, not {grade}')
        return Grade(grade, reason(said))

    def unasked(self) -> Json | AnswerError:
        """An empty passage is not relevant; of one that is only an id nobody who reads can tell."""
        if not self.passage:
            return AnswerError("the context has no text")
        verdict = {"relevant": False} if self.scale == "binary" else {"grade": 0}
        return {"reasoning": EMPTY, **verdict} if blank(self.passage) else None

    def typical(self) -> Json:
        """One sentence and a grade."""
        verdict = {"relevant": True} if self.scale == "binary" else {"grade": 2}
        return {
            "reasoning": "The passage names the thing that the query asks about and explains it.",
            **verdict,
        }


class Statement(NamedTuple):
    """One statement of a passage, and whether it is relevant to the query."""

    text: str
    relevant: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StatementRelevance(Question[tuple[Statement, ...]]):
    """What does this passage state, and which of that is relevant to the query?

    One question, not a list first and verdicts after: it is about the same (query, passage) as `Relevance`, so
    that both can share a request.
    """

    kind: ClassVar[str] = "statements"
    batched: ClassVar[bool] = True

    query: str
    passage: str
    reference: str | None = None
    response: str | None = None
    history: tuple[tuple[str, str], ...] = ()

    @property
    def about(self) -> str:
        """The passage."""
        return self.passage

    def inputs(self) -> dict[str, Json]:
        """Query, passage, and the reference, response and history where they are shown."""
        return _shown(self)

    def schema(self) -> dict[str, Json]:
        """`{statements: [{statement, relevant}]}`."""
        item = object_schema(statement={"type": "string"}, relevant={"type": "boolean"})
        return object_schema(statements={"type": "array", "items": item})

    def read(self, payload: Json) -> tuple[Statement, ...]:
        """The statements, in order; none is an answer too."""
        items = get(payload, "statements", (list, tuple), "a list of statements")
        said = texts(
            {"statement": [get(item, "statement", str, "a statement") for item in items]}, "statement"
        )
        verdicts = [get(item, "relevant", bool, "true or false") for item in items]
        return tuple(map(Statement, said, verdicts))

    def unasked(self) -> Json:
        """An empty passage states nothing."""
        return {"statements": []} if blank(self.passage) else None

    def typical(self) -> Json:
        """One statement for every 80 characters."""
        starts = range(0, max(1, len(self.passage)), 80)
        parts = (self.passage[start : start + 80].strip() or "a statement" for start in starts)
        return {"statements": [{"statement": part, "relevant": True} for part in parts]}


def _shown(question: Relevance | StatementRelevance) -> dict[str, Json]:
    shown: dict[str, Json] = {"query": question.query, "passage": question.passage}
    if question.reference is not None:
        shown["reference"] = question.reference
    if question.response is not None:
        shown["response"] = question.response
    if question.history:
        shown["history"] = [list(turn) for turn in question.history]
    return shown
