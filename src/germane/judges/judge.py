"""The base classes of judges, judges that answer from labels or a script, and what is made of replies.

A judge must define a name and one async method; the rest has defaults.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Protocol, TypeAlias

from msgspec import structs

from germane.clean import counted, some_of
from germane.encoding import encode, now, relevance_items
from germane.errors import AnswerError, GermaneError, InputError, option
from germane.questions.asking import Answer, answered
from germane.questions.question import AnyQuestion, asked_as, key_of, keys_of
from germane.questions.relevance import Passages
from germane.types import Context, FrozenDict, Json, Judgement, Usage

__all__ = ["GaveUp", "judgement_of", "members_of", "trivial_answer"]

_log = logging.getLogger("germane")


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A judge's answer to one question: a payload that the question can parse, or an error.

    Replies to questions of one request have the same `request`; only the first contains the request's usage.
    """

    payload: Json = None  # the answer; None if there is an error
    error: str | None = None  # why there is no answer
    usage: Usage = field(default_factory=Usage)
    ms: float | None = None  # the duration of the request in milliseconds
    request: str | None = None  # the id of the request
    provenance: FrozenDict = field(
        default_factory=FrozenDict
    )  # how the question was asked: fused, list_size, mode, ...
    children: tuple[tuple[AnyQuestion, Reply], ...] = ()  # the questions and replies merged into it


class Judge:
    """A source of answers to questions: a language model, people's labels, gold ids, a rule or a script.

    A subclass must define `name` and `answer`. `evaluate` also accepts other objects that define both.
    """

    name: str = ""  # in reports: "openai:gpt-4o-mini", "labels", "lexical"
    stored: bool = True  # its answers cost money or time, so that they should be stored in the ledger
    kept: bool = True  # False: answers are never stored, because no name tells this judge from others
    stand_in: str = ""  # a sentence that every report shows if this judge only stands in for a model
    concurrency: int = 16  # the maximum number of calls of `answer` at a time

    @cached_property
    def identity(self) -> Mapping[str, Json]:
        """All settings that can change an answer, as JSON. By default, that is only the judge's name."""
        return FrozenDict(judge=self.name)

    def prompt_hash(self, _question: AnyQuestion) -> str:
        """Return the hash of the prompt that this judge uses for the question; "" if it uses no prompt."""
        return ""

    def key(self, question: AnyQuestion) -> str:
        """Return the ledger's key of this judge's answer to the question (see `questions.key_of`)."""
        return key_of(question, self.identity, self.prompt_hash(question))

    def keys(self, passages: Passages) -> list[str]:
        """Return the ledger keys of the relevance questions about these passages, in order."""
        if getattr(self.key, "__func__", None) is not Judge.key:
            return list(map(self.key, passages))
        example = passages.example
        return keys_of(example, passages.items, self.identity, self.prompt_hash(example))

    def group(self, questions: Sequence[AnyQuestion]) -> list[tuple[AnyQuestion, ...]]:
        """Divide the questions into groups, each for one call of `answer`.

        Default: one question per group.
        """
        return [(question,) for question in questions]

    def paid_calls(self, _question: AnyQuestion) -> int:
        """Return the number of paid calls that an answer to this question takes; 0 if the judge is free."""
        return int(self.stored)

    async def answer(self, questions: tuple[AnyQuestion, ...]) -> Sequence[Reply]:
        """Return one reply per question, in order.

        A dict such as `{"grade": 2, "reasoning": ""}` may be returned instead of a Reply with this payload.
        If a question fails, return a Reply with an error. Raise JudgeError only if the judge cannot be used
        at all.
        """
        raise NotImplementedError

    async def close(self) -> None:
        """Close the judge's connections. A panel closes the connections of its members."""
        for member in getattr(self, "members", ()):
            await member.close()


class ChatModel(Protocol):
    """A chat model of LangChain: only its `invoke` is used."""

    def invoke(self, messages: Any, /) -> Any:
        """Return the model's reply to these messages."""


AnyJudge: TypeAlias = Judge | str | ChatModel | Callable[[str], Any]
"""A judge, the name of a judge, or the user's own model: a chat model or a function from prompt to text."""
Judges: TypeAlias = AnyJudge | Sequence[AnyJudge]  # a judge; several of them are a panel


def copy_settings(judge: Any, target: Judge, own: Sequence[str] = ()) -> None:
    """Copy from `judge` (any object) to `target` the public attributes of a Judge, except those in `own`."""
    for name in dir(Judge):
        if not name.startswith("_") and name not in own and hasattr(judge, name):
            setattr(target, name, getattr(judge, name))


def with_defaults(judge: Any) -> Judge:
    """Return the object as a Judge, with the defaults of Judge for the attributes that it does not define.

    A Judge is returned unchanged. Raises InputError if the object does not define `name` and `answer`.
    """
    result: Judge = judge
    if not isinstance(judge, Judge):
        lacking = [name for name in ("name", "answer") if not hasattr(judge, name)]
        if isinstance(judge, type) or len(lacking) == 2:
            raise InputError(
                f"{judge!r} is not a judge",
                fix='pass a name ("openai:gpt-4o-mini"), a judge, a function from a prompt to a string, or a list of these',
            )
        if lacking:
            fix = "define `name` and `async def answer(self, questions)`, or subclass germane.judges.Judge"
            raise InputError(f"the judge {judge!r} has no attribute {lacking[0]!r}", fix=fix)
        result = Judge()
        copy_settings(judge, result)
    name: Any = result.name
    if not isinstance(name, str) or not name.strip():  # judges of one name share stored answers
        raise InputError(f"the name of the judge {judge!r} is {name!r}", fix='write name = "my-judge"')
    return result


def members_of(judge: Judge) -> Sequence[Judge]:
    """Return the members of a panel; for any other judge, the judge alone."""
    members: Sequence[Judge] = getattr(judge, "members", (judge,))
    return members


def no_judge(names: Sequence[str]) -> InputError:
    """Return the InputError for measures (`names`) that need a judge although no judge is named."""
    fix = f"name one: {option('--judge ', 'judge=')}labels | lexical | openai:gpt-4o-mini"
    return InputError(f"these measures need a judge: {some_of(names)}", fix=fix)


class LocalJudge(Judge):
    """A judge that answers at once and free of charge, by `reply`; its answers need not be stored."""

    stored = False
    concurrency = 1
    _together = 200

    def group(self, questions: Sequence[AnyQuestion]) -> list[tuple[AnyQuestion, ...]]:
        """Divide the questions into groups (default: of 200), so that a run can report progress and stop."""
        size = self._together
        return [tuple(questions[start : start + size]) for start in range(0, len(questions), size)]

    async def answer(self, questions: tuple[AnyQuestion, ...]) -> Sequence[Reply]:
        """Return the reply to each question, in order, by calling `reply`."""
        return list(map(self.reply, questions))

    def reply(self, question: AnyQuestion) -> Reply:
        """Return the reply to one question. Subclasses define this, or override `answer`."""
        raise NotImplementedError


Script: TypeAlias = Callable[[AnyQuestion], "Json | Reply | Exception"]


class FakeJudge(LocalJudge):
    """A judge with scripted answers, for tests. Its attribute `asked` lists the questions that it was asked.

    `answers` is a function or a dict. A function takes the question and returns a payload, a Reply or an
    exception. An AnswerError becomes an error reply; any other exception is raised. A dict maps the text of a
    question, or a kind of question (`"relevance"`), to a payload or such a function; the text goes first.
    Without `answers`, each question gets its `typical()` payload. Each call waits `seconds` and answers at
    most `together` questions.
    """

    def __init__(
        self,
        answers: Script | Mapping[str, Json | Script] | None = None,
        *,
        name: str = "fake",
        stored: bool = False,
        seconds: float = 0.0,
        concurrency: int = 64,
        together: int = 1,
    ) -> None:
        self.name, self.stored, self.concurrency = name, stored, concurrency
        self.asked: list[AnyQuestion] = []
        self.calls = 0
        self._answers, self._seconds, self._together = answers, seconds, max(1, together)

    async def answer(self, questions: tuple[AnyQuestion, ...]) -> Sequence[Reply]:
        """Return the scripted reply to each question, after a pause of `seconds`."""
        self.calls += 1
        self.asked += questions
        if self._seconds:
            await asyncio.sleep(self._seconds)
        return await super().answer(questions)

    def reply(self, question: AnyQuestion) -> Reply:
        """Return the scripted reply to this question, or its typical answer if nothing is scripted."""
        result: Json | Script = self._answers
        if isinstance(result, Mapping):
            absent = AnswerError(f"the fake judge has no answer to a question of kind {question.kind}")
            result = result.get(question.about, result.get(question.kind, absent))
        try:
            if result is None:
                result = question.typical()
            elif callable(result):
                result = result(question)
            if isinstance(result, Exception):
                raise result
        except AnswerError as error:
            return Reply(error=str(error))
        return result if isinstance(result, Reply) else Reply(payload=result)


class LabelsJudge(LocalJudge):
    """People's labels in the place of a judge; it cannot be a member of a panel.

    Measures of relevance read the labels directly and ask nobody. If an item (a query with a passage) has no
    label, it counts as missing and not as irrelevant, so that the sample's score is incomplete. Any question
    is answered with an error.

    `labels` maps items to labels (a grade, True or False). They override the labels of the contexts.
    """

    name = "labels"
    identity = FrozenDict(judge="labels", reads="labels")
    source: ClassVar[str] = "people's labels"

    def __init__(self, labels: Mapping[str, Json] | None = None) -> None:
        self.by_item = dict(labels or {})

    def labelled(self, query: str, history: Sequence[tuple[str, str]], context: Context) -> Context:
        """Return the context with its label from `labels`; without such a label, return it unchanged."""
        (item,) = relevance_items([(query, context.text)], history)
        label = self.by_item.get(item)
        if label is None:
            return context
        yes = isinstance(label, bool)
        return structs.replace(context, grade=None if yes else label, relevant=label if yes else None)

    def reply(self, question: AnyQuestion) -> Reply:
        """Return an error, because labels only say which passages are relevant."""
        return Reply(error=f"{self.source} cannot answer a question of kind {question.kind}")


class GoldJudge(LabelsJudge):
    """The qrels in the place of a judge: a document of grade 1 or more is relevant.

    Qrels use the scale of their collection, so the verdict is only yes or no. A document that is not in the
    qrels has grade 0, as in trec_eval. A passage without a document id, or of a sample without qrels, is an
    error.
    """

    name = "gold"
    identity = FrozenDict(judge="gold", reads="gold")
    source: ClassVar[str] = "gold labels"


def trivial_answer(question: AnyQuestion) -> Reply | None:
    """Return the reply to a question whose text is empty or missing; None if a judge must be asked."""
    payload = question.unasked()
    if isinstance(payload, AnswerError):
        return Reply(error=str(payload))
    return None if payload is None else Reply(payload=payload, provenance=FrozenDict(unasked=True))


class GaveUp(Exception):
    """Raised if a question gets no answer, but other questions may still be answered.

    `too_long` is True if the texts are longer than the model accepts. `spent` is True if the attempts or the
    time for the question are used up.
    """

    def __init__(self, why: str, *, too_long: bool = False, spent: bool = False) -> None:
        super().__init__(why)
        self.too_long, self.spent = too_long, spent


class GroupScope:
    """The state of one group of questions in the current task, which both the Asker and the judge use.

    After `stop`, the judge sends no further request for the group, but waits for the responses to requests in
    flight. `replies` are stored if the judge raises an error. The functions in `after_storing` are called
    once the answers are stored.
    """

    def __init__(self, judge: Judge) -> None:
        self.answer, self.stopped = judge.answer, False
        self.replies: Sequence[Reply] | None = None
        self.after_storing: list[Callable[[], None]] = []
        self.waits = self.recalled = False  # the task waits before a request; `stop` has ended that wait
        self.task: Any = asyncio.current_task()
        _scope.set(self)

    def stop(self) -> None:
        """Let the group send no more requests, and end its wait for a rate limit or a retry, if any."""
        if not self.stopped:
            self.stopped, self.recalled = True, self.waits
            if self.waits:
                self.task.cancel()


_scope: ContextVar[GroupScope | None] = ContextVar("germane_group_scope", default=None)


@contextmanager
def waiting() -> Iterator[None]:
    """Mark a wait before a request, which GroupScope.stop can end. Raises GaveUp if the group is stopped."""
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


def keep_replies(answer: Callable[..., object], replies: Sequence[Reply]) -> None:
    """Let the Asker store the answers among `replies`, although the judge's method `answer` raises an error."""
    if (scope := _scope.get()) and scope.answer == answer:  # else the judge changes what another one replies
        scope.replies = replies


def once_stored(work: Callable[[], None]) -> None:
    """Call `work` once the answers of the current group are stored. Outside an evaluation, call it now."""
    if scope := _scope.get():
        scope.after_storing.append(work)
    else:
        work()


def judgement_of(
    key: str,
    question: AnyQuestion,
    judge: Judge,
    reply: Reply,
    *,
    parent: str | None = None,
    session: str = "",
) -> Judgement:
    """Return a judge's reply as a judgement; `parent` is the key of the one that it was merged into.

    Raises TypeError or ValueError if the reply cannot be written as JSON.
    """
    replica = judge.identity.get("replica")
    asked = asked_as(question) if replica is None else {**asked_as(question), "replica": replica}
    if session:
        asked = {**asked, "session": session}
    judgement = Judgement(
        key=key,
        item=question.item,
        kind=question.kind,
        judge=judge.name,
        prompt=judge.prompt_hash(question),
        answer=reply.payload if reply.error is None else None,
        error=reply.error,
        parent=parent,
        request=reply.request,
        usage=reply.usage,
        ms=reply.ms,
        at=now("milliseconds"),
        provenance=FrozenDict({**asked, **reply.provenance}) if asked else reply.provenance,
    )
    encode([judgement.answer, judgement.provenance, judgement.error])
    return judgement


def answer_of(key: str, question: AnyQuestion, judge: Judge, reply: Reply, session: str = "") -> Answer:
    """Return a reply as the Answer to store under `key`; an invalid reply becomes an error."""
    try:
        answer = answered(question, judgement_of(key, question, judge, reply, session=session))
        children = [
            judgement_of(judge.key(window), window, judge, child, parent=key, session=session)
            for window, child in reply.children
        ]
    except Exception as error:  # noqa: BLE001 - whatever somebody's own judge put into it
        why = f"the reply of the judge {judge.name} is invalid: {type(error).__name__}: {error}"
        return answer_of(key, question, judge, Reply(error=why, usage=reply.usage))
    if not answer.usable and reply.error is None:
        return Answer(structs.replace(answer.judgement, answer=None, error=answer.value.why), answer.value)
    return structs.replace(answer, children=tuple(children))


async def replies_of(judge: Judge, questions: tuple[AnyQuestion, ...], scope: GroupScope) -> Sequence[Reply]:
    """Ask the judge; return one reply per question, all errors if it raises an exception.

    Raises GermaneErrors, which the judge raises on purpose, and CancelledError if the task was cancelled.
    """
    try:
        coming: Any = judge.answer(questions)
        replies = [Reply(payload=reply) if isinstance(reply, Mapping) else reply for reply in await coming]
        wrong = ""
        if len(replies) != len(questions):
            both = counted(len(replies), "reply"), counted(len(questions), "question")
            wrong = f"its answer() returned {' to '.join(both)}"
        for reply in replies:
            if not (isinstance(reply, Reply) and isinstance(reply.usage, Usage)):
                wrong = "its answer() must return Reply objects, or payloads as dicts"
                break
            used: list[Any] = [reply.usage.requests, reply.usage.input_tokens, reply.usage.output_tokens]
            if not all(isinstance(number, int) and 0 <= number < 1 << 53 for number in used):
                wrong = f"a reply's usage must be whole numbers of requests and tokens, not {tuple(used)}"
                break
    except AnswerError as error:
        wrong = str(error)
    except GermaneError:
        raise
    except asyncio.CancelledError:
        if scope.task.cancelling():
            raise
        wrong = "its answer() cancelled its own task"
    except Exception as error:  # noqa: BLE001 - whatever somebody's own judge raises
        _log.debug("the judge %s failed", judge.name, exc_info=True)
        wrong = f"{type(error).__name__}: {error}"
    return [Reply(error=f"the judge {judge.name} failed: {wrong}") for _ in questions] if wrong else replies
