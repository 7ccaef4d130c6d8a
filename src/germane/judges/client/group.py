"""GroupCall gets the answers to a group of questions from ModelClient, in as many requests as it takes.

After an unusable answer, the model is asked again and told what was wrong. If requests about several texts
or with several questions keep failing, one request per text or per question is sent. If the contexts are too
long for the model, each half of them is sent in a request of its own.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from time import monotonic
from typing import Any
from uuid import uuid4

from germane.clean import counted
from germane.errors import AnswerError, GermaneError, Miscounted, Unended
from germane.judges.client.chat import MODES, Correction
from germane.judges.client.client import CallState, ModelClient
from germane.judges.client.providers import Price
from germane.judges.judge import GaveUp, Reply
from germane.questions.fusing import Ask, FusedRequest, fused_requests, render_request
from germane.questions.kinds import Support
from germane.questions.prompts import Prompts
from germane.questions.question import AnyQuestion
from germane.types import FrozenDict, Json, Usage

__all__ = ["GroupCall"]

_CUT = AnswerError("the answer was cut off at the token limit")
_FREE = Usage(cost_usd=0.0)
_NO_ANSWER = Reply(error="the model gave no answer")
_SHOWN = 4000  # characters of an unusable answer that are shown to the model again
_PROBLEM = 300  # maximum characters of the description of the problem with it


class GroupCall(CallState):
    """All requests of LLMJudge for one group of questions: a FusedRequest, or a batch of several.

    `run` sends the requests; then `replies` returns the answers.
    """

    def __init__(self, client: ModelClient, prompts: Prompts, items: Sequence[FusedRequest]) -> None:
        super().__init__(left=client.policy.deadline)
        self.client, self.prompts, self.items = client, prompts, items
        self.id, self.started = uuid4().hex, monotonic()  # the id names the call in judgements
        self._results = defaultdict[int, Reply](lambda: _NO_ANSWER)  # by the id() of the question
        self._singly: list[AnyQuestion] = []  # kept alive, and so are their ids
        self._spent = self._unended = False

    async def run(self) -> None:
        """Ask all questions together, then ask the failed questions again in smaller requests."""
        requests = [self.items]
        for items in requests:  # the loop adds smaller requests
            self._spent = self._unended = False
            question: Any = items[0].questions[0]
            several = sum(len(item.questions) for item in items) > 1
            try:
                try:
                    await self._attempts(items)
                except GaveUp as error:
                    halved = isinstance(question, Support) and len(question.contexts) > 1
                    if not error.too_long or several or not halved:
                        raise
                    parts = await self._in_halves(question, question)
                    payload = question.merge([(part, reply.payload) for part, reply in parts])
                    how = FrozenDict(windows=len(parts))
                    self._results[id(question)] = Reply(
                        payload=payload, provenance=how, children=tuple(parts)
                    )
            except (GaveUp, AnswerError) as error:
                self._spent |= isinstance(error, GaveUp) and error.spent
                self._fail(str(error), items)
            except GermaneError:
                raise
            except Exception as error:  # noqa: BLE001 - an unreadable answer must not fail other questions
                why = f"the answer could not be read: {type(error).__name__}: {str(error)[:_PROBLEM]}"
                self._fail(why, items)
            left = list(self._open(items))
            if self.client.breaker.open:  # in an outage, smaller requests would fail too
                continue
            if len(items) > 1:
                requests += [[item] for item in left]
            elif left and several and (self._unended or (self._spent and self.client.capabilities.proven)):
                singly = [single for item in left for single in item.questions]
                self._singly += singly
                requests += [[item] for item in fused_requests(singly, self.prompts, fuse=False)]

    def replies(self, questions: Sequence[AnyQuestion], price: Price | None) -> list[Reply]:
        """Return one reply per question; the first contains the usage and time of all requests."""
        used, replies = self.used, list[Reply]()
        sent, back = used["input"], used["output"]
        cost = None if price is None else price.cost(sent, back, used["cached"])
        usage = Usage(requests=used["requests"], input_tokens=sent, output_tokens=back, cost_usd=cost)
        ms: float | None = (monotonic() - self.started) * 1000
        asked_for = "text" if self.items[0].questions[0].free_text else MODES[self.mode]
        common: dict[str, Json] = {
            "mode": asked_for,
            "model": self.model,
            "left_out": self.client.capabilities.left_out,
            "singly": len(self._singly),
            **{name: used[name] for name in ("reasked", "waits", "faults")},
            "tokens": "estimated" if self.estimated else "",
        }
        common = {name: value for name, value in common.items() if value}  # leaves out the usual values
        for question in questions:
            stored = self._results[id(question)]
            reply = replace(stored, request=self.id, provenance=FrozenDict(common | stored.provenance))
            window = replace(reply, usage=_FREE, children=())
            windows = [(part, replace(window, payload=inner.payload)) for part, inner in stored.children]
            replies.append(replace(reply, usage=usage, ms=ms, children=tuple(windows)))
            usage, ms = _FREE, None
        return replies

    def _fail(self, why: str, items: Sequence[FusedRequest]) -> None:
        for item in items:
            for question in item.questions:
                if self._results[id(question)].payload is None:
                    self._results[id(question)] = Reply(error=why)

    def _open(self, items: Sequence[FusedRequest]) -> Iterator[FusedRequest]:
        for item in items:
            left = [question for question in item.questions if self._results[id(question)].payload is None]
            if len(left) == len(item.questions):
                yield item
            elif left:
                yield from fused_requests(left, self.prompts)

    async def _in_halves(self, question: Support, whole: Support) -> list[tuple[Support, Reply]]:
        """Ask a question about each part of its contexts; return those parts, of `whole`, and the replies."""
        answered: list[tuple[Support, Reply]] = []
        for half in question.halves():
            try:
                await self._attempts(fused_requests([half], self.prompts))
            except GaveUp as error:
                if not error.too_long:
                    raise
                if len(half.contexts) > 1:
                    answered += await self._in_halves(half, whole)
                    continue
                number = whole.ranks[whole.contexts.index(half.contexts[0])][0]
                why = f"context {number} alone is too long for the model; shorten it ({error})"
                raise GaveUp(why) from None
            if (reply := self._results[id(half)]).payload is None:
                raise GaveUp(str(reply.error))
            answered.append((half, reply))
        return answered

    async def _attempts(self, items: Sequence[FusedRequest]) -> None:
        """Send `items` in one request, repeated with corrections until all answers are usable, or give up."""
        note: Correction | None = None
        problem: AnswerError | None = None
        self.failures = self.room = attempt = 0  # of this question
        for attempt in range(1, self.client.policy.attempts + 1):
            self.used["reasked"] += attempt > 1
            problem, note = await self._attempt(render_request(items, self.prompts), note)
            self._unended = isinstance(problem, Unended)
            left = list(self._open(items))
            if not left or (len(items) > 1 and len(left) < len(items)):
                return
            if len(items) > 1 and attempt > 1 and problem is not _CUT:
                break
            if self._unended and (sum(len(item.questions) for item in items) > 1 or attempt > 1):
                break  # a model whose answer did not end would repeat itself again
            if len(items) == 1 and left[0] is not items[0]:
                items, note = left[:1], ("", str(problem)[:_PROBLEM])
        self._spent = True
        tried = counted(attempt, "attempt")
        self._fail(f"no usable answer in {tried}; the last: {str(problem)[:_PROBLEM]}", items)

    async def _attempt(
        self, ask: Ask, note: Correction | None
    ) -> tuple[AnswerError | None, Correction | None]:
        """Send one request and keep its usable answers; return the problem with others, and a correction."""
        capabilities, problem = self.client.capabilities, None
        try:
            got = await self.client.complete(ask, self, note)
        except AnswerError as error:
            return error, ("", str(error)[:_PROBLEM])
        except GaveUp as error:
            if note is None or not error.too_long:
                raise
            # the request is too long because of the correction, not because of the texts
            return AnswerError("the correction of the previous answer is too long for the model"), None
        if got.cut and (ask.schema or self.own_limit):
            if self.client.widen(got, ask, self):
                return _CUT, note
            if ask.schema and not got.text.lstrip().startswith("{"):
                capabilities.schema_ignored()
            why = f"the answer did not end within {self.limit:,} tokens"
            again = ("", f"{why}, write less") if ask.schema else None
            return Unended(f"{why}: --model-parameter max_tokens=N allows more"), again
        try:
            payload = got.payload() if ask.schema else {"text": got.text}
            for question, answer, how in ask.read(payload, limited=self.limited):
                if isinstance(answer, AnswerError):
                    problem = answer
                else:
                    self._results[id(question)] = Reply(payload=answer, provenance=FrozenDict(how))
        except AnswerError as error:
            problem = error
        if problem is None:
            if note is None and ask.schema and not capabilities.proven:
                capabilities.proven = True  # this output mode is used from now on
                capabilities.lower(self.mode, "the endpoint accepted no other form of request")
            return None, note
        if not (isinstance(problem, Miscounted | Unended) or got.problem):
            capabilities.schema_ignored()
        text = "" if isinstance(problem, Unended) else got.text[:_SHOWN]
        return problem, (text, str(problem)[:_PROBLEM])
