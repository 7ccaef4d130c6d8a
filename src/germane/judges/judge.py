"""The base classes of judges. A judge must define a name and one async method; all else has a default."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol, TypeAlias

from germane.errors import AnswerError, InputError
from germane.questions.question import AnyQuestion, key_of, keys_of
from germane.questions.relevance import Passages
from germane.types import FrozenDict, Json, Usage

__all__ = ["GaveUp", "members_of", "trivial_answer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A judge's answer to one question: a payload that the question can parse, or an error.

    Replies to questions that shared a request have the same `request`; only the first has its usage.
    """

    payload: Json = None  # the answer; None if there is an error
    error: str | None = None  # why there is no answer
    usage: Usage = field(default_factory=Usage)
    ms: float | None = None  # milliseconds that the request took
    request: str | None = None  # the id of the request
    provenance: FrozenDict = field(
        default_factory=FrozenDict
    )  # how it was asked: fused, list_size, mode, ...
    children: tuple[tuple[AnyQuestion, Reply], ...] = ()  # the questions and replies merged into it


class Judge:
    """A source of answers to questions: a language model, people's labels, gold ids, a rule or a script.

    A subclass defines `name` and `answer`. Any object that has these two can be passed to `evaluate` as well.
    """

    name: str = ""  # in reports: "openai:gpt-4o-mini", "labels", "lexical"
    stored: bool = True  # its answers cost money or time, so that they should be stored in the ledger
    kept: bool = True  # False: answers are never stored, since the judge cannot be told from another one
    stand_in: str = ""  # a sentence that every report shows if this judge only stands in for a model
    concurrency: int = 16  # the number of groups of questions that it may be asked at a time

    @cached_property
    def identity(self) -> Mapping[str, Json]:
        """All settings that can change an answer, as JSON: the judge's name, unless a subclass adds more.

        A judge that answers from labels instead of from text has "reads": "labels" or "gold" in it.
        """
        return FrozenDict(judge=self.name)

    def prompt_hash(self, _question: AnyQuestion) -> str:
        """Return the hash of the prompt in which the judge would ask this question; "" without a prompt."""
        return ""

    def key(self, question: AnyQuestion) -> str:
        """Return the ledger's key of this judge's answer to the question (see `questions.key_of`)."""
        return key_of(question, self.identity, self.prompt_hash(question), self.label_of(question))

    def keys(self, passages: Passages) -> list[str]:
        """Return the ledger key of each passage's question, in order."""
        if "reads" in self.identity or getattr(self.key, "__func__", None) is not Judge.key:
            return list(map(self.key, passages))
        example = passages.example
        return keys_of(example, passages.items, self.identity, self.prompt_hash(example))

    def label_of(self, _question: AnyQuestion) -> Json:
        """Return the label of the question's passage if this judge reads labels; None without a label."""
        return None

    def group(self, questions: Sequence[AnyQuestion]) -> list[tuple[AnyQuestion, ...]]:
        """Return the questions in groups, each for one call of `answer`; by default groups of one."""
        return [(question,) for question in questions]

    def paid_calls(self, _question: AnyQuestion) -> int:
        """Return how many paid calls it takes to answer this question."""
        return int(self.stored)

    async def answer(self, questions: tuple[AnyQuestion, ...]) -> Sequence[Reply]:
        """Return one reply per question, in order.

        A plain dict counts as the payload of a Reply: `{"grade": 2, "reasoning": ""}`. A question that fails
        gets a Reply with an error; JudgeError is raised only if the judge cannot be used at all.
        """
        raise NotImplementedError

    async def close(self) -> None:
        """Close the judge's connections, and those of its members if it is a panel."""
        for member in getattr(self, "members", ()):
            await member.close()


class ChatModel(Protocol):
    """A chat model of LangChain: only its `invoke` is used."""

    def invoke(self, messages: Any, /) -> Any:
        """Return the model's reply to these messages."""


AnyJudge: TypeAlias = Judge | str | ChatModel | Callable[[str], Any]
"""A judge, its name, or a model of one's own: a chat model, or a function from prompt to text."""
Judges: TypeAlias = AnyJudge | Sequence[AnyJudge]  # a judge; several of them are a panel


def copy_settings(judge: Any, target: Judge, own: Sequence[str] = ()) -> None:
    """Copy the public attributes of Judge from any object to `target`, except those named in `own`."""
    for name in dir(Judge):
        if not name.startswith("_") and name not in own and hasattr(judge, name):
            setattr(target, name, getattr(judge, name))


def with_defaults(judge: Any) -> Judge:
    """Return an object with `name` and async `answer` as a Judge. Raises InputError for other objects."""
    if isinstance(judge, Judge):
        return judge
    lacking = [name for name in ("name", "answer") if not hasattr(judge, name)]
    if isinstance(judge, type) or len(lacking) == 2:
        raise InputError(
            f"{judge!r} is not a judge",
            fix='pass a name ("openai:gpt-4o-mini"), a judge, a function from a prompt to a string, or a list of these',
        )
    if lacking:
        raise InputError(
            f"the judge {judge!r} has no attribute {lacking[0]!r}",
            fix="define `name` and `async def answer(self, questions)`, or subclass germane.judges.Judge",
        )
    result = Judge()
    copy_settings(judge, result)
    return result


def members_of(judge: Judge) -> Sequence[Judge]:
    """Return the members of a panel; for any other judge, the judge alone."""
    members: Sequence[Judge] = getattr(judge, "members", (judge,))
    return members


class LocalJudge(Judge):
    """A judge that answers at once and for free, so answers are not stored. Subclasses define `reply`."""

    stored = False
    concurrency = 1
    _together = 200

    def group(self, questions: Sequence[AnyQuestion]) -> list[tuple[AnyQuestion, ...]]:
        """Return groups of a few hundred questions, so that a run can show progress and stop in between."""
        size = self._together
        return [tuple(questions[start : start + size]) for start in range(0, len(questions), size)]

    async def answer(self, questions: tuple[AnyQuestion, ...]) -> Sequence[Reply]:
        """Return the reply to each question, in order, by calling `reply`."""
        return list(map(self.reply, questions))

    def reply(self, question: AnyQuestion) -> Reply:
        """Return the reply to one question. Subclasses define this, or override `answer`."""
        raise NotImplementedError


def trivial_answer(question: AnyQuestion) -> Reply | None:
    """Return the reply to a question about an empty or unknown text; None if a judge must be asked."""
    payload = question.unasked()
    if isinstance(payload, AnswerError):
        return Reply(error=str(payload))
    return None if payload is None else Reply(payload=payload, provenance=FrozenDict(unasked=True))


class GaveUp(Exception):
    """Raised if one question gets no answer while other questions may still get theirs.

    `too_long`: the texts are longer than the model accepts. `spent`: the attempts or the time are used up.
    """

    def __init__(self, why: str, *, too_long: bool = False, spent: bool = False) -> None:
        super().__init__(why)
        self.too_long, self.spent = too_long, spent


class GroupScope:
    """The state that the Asker and a judge share while the current task answers one group of questions.

    Once the Asker has stopped the group, no further request is sent; responses to requests in flight are
    still awaited. The functions in `after_storing` are called once the answers are stored.
    """

    def __init__(self) -> None:
        self.stopped = False
        self.after_storing: list[Callable[[], None]] = []
        self.waits = self.recalled = False  # it waits before a request; that wait is being ended
        self.task: Any = asyncio.current_task()
        _scope.set(self)

    def stop(self) -> None:
        """Keep the group from sending requests; if it waits for a rate limit or a retry, end the wait."""
        if not self.stopped:
            self.stopped, self.recalled = True, self.waits
            if self.waits:
                self.task.cancel()


_scope: ContextVar[GroupScope | None] = ContextVar("germane_group_scope", default=None)


@contextmanager
def waiting() -> Iterator[None]:
    """Run the context as a wait before a request. Raises GaveUp if the current group is or gets stopped."""
    scope, stopped = _scope.get(), "the evaluation was interrupted before the question was asked again"
    if scope is None:  # outside of an evaluation
        yield
        return
    if scope.stopped:
        raise GaveUp(stopped, spent=True)
    scope.waits = True
    try:
        yield
    except asyncio.CancelledError:
        if not scope.recalled:
            raise
        scope.recalled = False
        scope.task.uncancel()
        raise GaveUp(stopped, spent=True) from None
    finally:
        scope.waits = False


def once_stored(work: Callable[[], None]) -> None:
    """Call `work` once the current group's answers are stored; outside of an evaluation call it at once."""
    if scope := _scope.get():
        scope.after_storing.append(work)
    else:
        work()
