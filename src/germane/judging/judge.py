"""What a judge is: whoever answers questions. One identity, one way to group, one async method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from germane.judging.questions import Question
from germane.types import FrozenDict, Json, Usage

__all__ = ["AnyQuestion", "Judge", "Judges", "Reply", "members_of"]

AnyQuestion: TypeAlias = Question[Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """What a judge says to one question: a payload that the question can read, or an error.

    Usage is stated once a request: where several questions shared one, on the first of them.
    """

    payload: Json = None
    error: str | None = None
    usage: Usage = field(default_factory=Usage)
    ms: float | None = None
    request: str | None = None
    provenance: FrozenDict = field(default_factory=FrozenDict)
    children: tuple[tuple[AnyQuestion, Reply], ...] = ()


class Judge(Protocol):
    """Whoever answers questions: a language model, people's labels, gold ids, a rule, a script.

    Attributes:
        name: What reports call it: "openai:gpt-4o-mini", "labels", "lexical".
        identity: Everything about the judge that changes an answer, as JSON. Part of every key. A judge that
            answers from labels instead of from text says `"reads": "labels"` or `"reads": "gold"`.
        stored: Whether its answers belong in the ledger: true for what costs money or time.
        stand_in: One sentence that every report must carry where this judge only stands in for a model, else "".
        concurrency: How many requests may be in flight at once.
    """

    @property
    def name(self) -> str: ...  # noqa: D102 - described above

    @property
    def identity(self) -> Mapping[str, Json]: ...  # noqa: D102

    @property
    def stored(self) -> bool: ...  # noqa: D102

    @property
    def stand_in(self) -> str: ...  # noqa: D102

    @property
    def concurrency(self) -> int: ...  # noqa: D102

    def prompt_hash(self, question: AnyQuestion) -> str:
        """The hash of the wording that this question would be asked with; "" where there is none."""
        ...

    def group(self, questions: Sequence[AnyQuestion]) -> list[tuple[AnyQuestion, ...]]:
        """The questions, each exactly once, as groups that share one request (a Reading, a batch)."""
        ...

    async def answer(self, questions: tuple[AnyQuestion, ...]) -> Sequence[Reply]:
        """One reply a question, in their order.

        A failure is a Reply with an error; JudgeError is raised only where the judge cannot be used at all.
        """
        ...

    async def close(self) -> None:
        """Release connections."""
        ...


Judges: TypeAlias = Judge | str | Sequence[Judge | str]
"""A judge or its name; several of them are a panel."""


def members_of(judge: Judge) -> Sequence[Judge]:
    """Those who answer what is put to a judge: a panel's members, else itself."""
    members: Sequence[Judge] = getattr(judge, "members", (judge,))
    return members


_TOGETHER = 200


class LocalJudge:
    """The defaults of a judge that answers on the spot, for free, one question at a time."""

    name: str = ""
    identity: Mapping[str, Json] = FrozenDict()
    stored: bool = False
    stand_in: str = ""
    concurrency: int = 1

    def prompt_hash(self, _question: AnyQuestion) -> str:
        """No wording, no hash."""
        return ""

    def group(self, questions: Sequence[AnyQuestion]) -> list[tuple[AnyQuestion, ...]]:
        """No request to share: as many together as pass in a moment, so that a run can be watched and stopped."""
        return [tuple(questions[start : start + _TOGETHER]) for start in range(0, len(questions), _TOGETHER)]

    async def answer(self, questions: tuple[AnyQuestion, ...]) -> Sequence[Reply]:
        """One reply a question."""
        return [self.reply(question) for question in questions]

    def reply(self, question: AnyQuestion) -> Reply:
        """The answer to one question."""
        raise NotImplementedError

    async def close(self) -> None:
        """Nothing to release."""
