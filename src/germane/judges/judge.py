"""Judges answer questions. A judge has a name and one async method; everything else has a default."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from typing import Any, Protocol, TypeAlias

from germane.errors import AnswerError, InputError
from germane.questions.question import AnyQuestion, ending, key_of, keys_under
from germane.questions.relevance import Passages
from germane.types import FrozenDict, Json, Usage

__all__ = ["GaveUp", "members_of", "trivial_answer"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A judge's answer to one question: a payload that the question can parse, or an error.

    Attributes:
        payload: The answer.
        error: Why there is none.
        usage: The cost of the request, once per request: where several questions shared one, on the first of them.
        ms: Milliseconds that the request took.
        request: The request's name, the same for all questions that shared it.
        provenance: The way in which the question was asked (fused, list_size, place, mode, model, ...).
        children: Of an answer that was merged (from windows): the questions that it was merged from, and the replies.
    """

    payload: Json = None
    error: str | None = None
    usage: Usage = field(default_factory=Usage)
    ms: float | None = None
    request: str | None = None
    provenance: FrozenDict = field(default_factory=FrozenDict)
    children: tuple[tuple[AnyQuestion, Reply], ...] = ()


class Judge:
    """A source of answers to questions: a language model, people's labels, gold ids, a rule, a script.

    A subclass gives `name` and `answer`; any object that has these two can be handed to `evaluate` as well.

    Attributes:
        name: The name in reports: "openai:gpt-4o-mini", "labels", "lexical".
        identity: Everything about the judge that changes an answer, as JSON. Part of every key. A judge that
            answers from labels instead of from text says `"reads": "labels"` or `"reads": "gold"`.
        stored: True if its answers belong in the ledger, since they cost money or time.
        kept: True if answers that belong in the ledger are put there; False for a judge that cannot be told from another.
        stand_in: One sentence that every report must carry where this judge only stands in for a model, else "".
        concurrency: The groups of questions that it may be asked at once.
    """

    name: str = ""
    stored: bool = True
    kept: bool = True
    stand_in: str = ""
    concurrency: int = 16

    @cached_property
    def identity(self) -> Mapping[str, Json]:
        """All that changes an answer, as JSON: the judge's name, unless a subclass says more."""
        return FrozenDict(judge=self.name)

    def prompt_hash(self, _question: AnyQuestion) -> str:
        """Return the hash of this question's wording; "" if it has none."""
        return ""

    def key(self, question: AnyQuestion) -> str:
        """Return the ledger's key of the answer to this question: see `questions.key_of`."""
        if "reads" in self.identity:  # the label stands behind the item, and is another each time
            return key_of(question, self.identity, self.prompt_hash(question), self.label_of(question))
        return keys_under(question, [question.item], self._ending(self.prompt_hash(question)))[0]

    def keys(self, questions: Sequence[AnyQuestion]) -> list[str]:
        """Return the key of each question; passages asked about in one way need not be made into questions."""
        own = "reads" in self.identity or getattr(self.key, "__func__", None) is not Judge.key
        if own or not isinstance(questions, Passages):
            return list(map(self.key, questions))
        return keys_under(
            questions.example, questions.items, self._ending(self.prompt_hash(questions.example))
        )

    def label_of(self, _question: AnyQuestion) -> Json:
        """Return the label of the question's passage, for a judge that reads labels; None = it has none."""
        return None

    @cached_property
    def _ending(self) -> Callable[[str], bytes]:
        """The common ending of the keys of questions with one wording, by its hash."""
        return cache(partial(ending, self.identity))

    def group(self, questions: Sequence[AnyQuestion]) -> list[tuple[AnyQuestion, ...]]:
        """Return the questions as groups that are handed to `answer` together, each question exactly once; here one by one."""
        return [(question,) for question in questions]

    def paid_calls(self, _question: AnyQuestion) -> int:
        """Return the number of paid calls that answering this question takes."""
        return int(self.stored)

    async def answer(self, questions: tuple[AnyQuestion, ...]) -> Sequence[Reply]:
        """Return one reply per question, in their order; a plain dict is the payload of one: `{"grade": 2, "reasoning": ""}`.

        A failure is a Reply with an error; JudgeError is raised only where the judge cannot be used at all.
        """
        raise NotImplementedError

    async def close(self) -> None:
        """Close connections, including those of members."""
        for member in getattr(self, "members", ()):
            await member.close()


class ChatModel(Protocol):
    """The part of LangChain's chat models that is used."""

    def invoke(self, messages: Any, /) -> Any:
        """Return the model's reply to these messages."""


AnyJudge: TypeAlias = Judge | str | ChatModel | Callable[[str], Any]
"""A judge, its name, or a model of one's own: a chat model, or a function from prompt to text."""
Judges: TypeAlias = AnyJudge | Sequence[AnyJudge]
"""A judge; several of them are a panel."""


def copy_settings(judge: Any, target: Judge, own: Sequence[str] = ()) -> None:
    """Copy the public attributes and methods of a judge or any object to another, except `own` ones."""
    for name in dir(Judge):
        if not name.startswith("_") and name not in own and hasattr(judge, name):
            setattr(target, name, getattr(judge, name))


def with_defaults(judge: Any) -> Judge:
    """Return a judge unchanged; give any other object with `name` and an async `answer` the defaults of Judge.

    InputError where it has not both.
    """
    if isinstance(judge, Judge):
        return judge
    lacking = [name for name in ("name", "answer") if not hasattr(judge, name)]
    if isinstance(judge, type) or len(lacking) == 2:
        raise InputError(
            f"{judge!r} is not a judge",
            fix='give a name ("openai:gpt-4o-mini"), a judge object, a function of the prompt, or a list of these',
        )
    if lacking:
        raise InputError(
            f"the judge {judge!r} has no {lacking[0]}", fix="germane.judges.Judge says what a judge has"
        )
    result = Judge()
    copy_settings(judge, result)
    return result


def members_of(judge: Judge) -> Sequence[Judge]:
    """Return the members of a panel; of any other judge the judge itself."""
    members: Sequence[Judge] = getattr(judge, "members", (judge,))
    return members


class LocalJudge(Judge):
    """A judge that answers at once and for free: subclasses define `reply`, and answers are not stored."""

    stored = False
    concurrency = 1
    _together = 200

    def group(self, questions: Sequence[AnyQuestion]) -> list[tuple[AnyQuestion, ...]]:
        """Return groups of a few hundred: nothing is shared, but a run can show progress and be stopped between them."""
        size = self._together
        return [tuple(questions[start : start + size]) for start in range(0, len(questions), size)]

    async def answer(self, questions: tuple[AnyQuestion, ...]) -> Sequence[Reply]:
        """Answer each question separately by `reply`, in order."""
        return [self.reply(question) for question in questions]

    def reply(self, question: AnyQuestion) -> Reply:
        """Answer one question; define it unless `answer` is overridden."""
        raise NotImplementedError


def trivial_answer(question: AnyQuestion) -> Reply | None:
    """Return the reply to a question about an empty text, or an id without a text; None if a judge must be asked."""
    error = question.unasked()
    if isinstance(error, AnswerError):
        return Reply(error=str(error))
    return None if error is None else Reply(payload=error, provenance=_UNASKED)


_UNASKED = FrozenDict(unasked=True)


class GaveUp(Exception):
    """Raised where a question gets no answer; others may still get one.

    Attributes:
        too_long: The texts are more than the model takes at once.
        spent: Attempts or time are used up; otherwise asking again would not help.
    """

    def __init__(self, why: str, *, too_long: bool = False, spent: bool = False) -> None:
        super().__init__(why)
        self.too_long, self.spent = too_long, spent


class GroupScope:
    """Shared by the asker and a judge while one group of questions is answered in the current task.

    The asker may stop it: no further request is sent, and those that were sent are waited for. `after_storing` is called once
    the answers are stored. A judge that has only a name and `answer` needs to know nothing of it.
    """

    def __init__(self) -> None:
        self.stopped = False
        self.after_storing: list[Callable[[], None]] = []
        self._waits = self._recalled = False
        self._task = asyncio.current_task()
        _scope.set(self)

    def stop(self) -> None:
        """Send no more requests, and end a wait before one."""
        if not self.stopped:
            self.stopped, self._recalled = True, self._waits
            if self._waits:
                self.cancel()

    def cancel(self) -> None:
        """Cancel the task, whether or not anything was sent."""
        if self._task is not None:
            self._task.cancel()

    @property
    def cancelled(self) -> bool:
        """True if the task was cancelled."""
        return self._task is not None and self._task.cancelling() > 0

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Mark a wait before a request; raises GaveUp where no more may be sent."""
        stopped = GaveUp("interrupted before it was asked again", spent=True)
        if self.stopped:
            raise stopped
        self._waits = True
        try:
            yield
        except asyncio.CancelledError:
            if not self._recalled or self._task is None:
                raise
            self._recalled = False
            self._task.uncancel()
            raise stopped from None
        finally:
            self._waits = False


_scope: ContextVar[GroupScope | None] = ContextVar("germane_group_scope", default=None)


def waiting() -> AbstractContextManager[None]:
    """Return a context manager for a wait before a request: `GroupScope.waiting`, or one that does nothing outside of an evaluation."""
    scope = _scope.get()
    return nullcontext() if scope is None else scope.waiting()


def once_stored(work: Callable[[], None]) -> None:
    """Call a function once the current answers are stored, or at once if they are not stored."""
    scope = _scope.get()
    if scope is None:
        work()
    else:
        scope.after_storing.append(work)
