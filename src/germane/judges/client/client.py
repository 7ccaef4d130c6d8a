"""Ask a model at an endpoint: ModelClient sends single requests, GroupCall gets the answers to a group of questions.

The client waits and retries as RetryPolicy says. After several failures in a row, all requests pause and
fewer requests are sent, until a response arrives or the client gives up. An error that would affect every
request (invalid key, unknown model, no credit) is raised as JudgeError in all calls.

After an unusable answer, the model is asked again and told what was wrong. If requests about several texts
keep failing, one request per text is sent. If requests with several questions keep failing, one request per
question is sent. If the contexts are too long for the model, each half of them is sent in a request of its
own.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import replace
from time import monotonic
from typing import TYPE_CHECKING, TypeAlias
from uuid import uuid4

from germane.clean import counted
from germane.errors import AnswerError, GermaneError, JudgeError, LimitReached, Miscounted, Unended
from germane.judges.client.chat import (
    BYTES_PER_TOKEN,
    MODES,
    PROMPT,
    ROOM,
    Completion,
    Correction,
    ModelCapabilities,
    completion_in,
    tokens_in,
)
from germane.judges.client.providers import Price
from germane.judges.client.ratelimits import AdaptiveConcurrency, CircuitBreaker, RateLimiter
from germane.judges.client.retry import (
    UNKNOWN,
    RetryDecision,
    RetryPolicy,
    TransportError,
    decide,
    is_over_limit,
)
from germane.judges.judge import GaveUp, Reply, waiting
from germane.questions.fusing import Ask, FusedRequest, fused_requests, render_request
from germane.questions.kinds import Support
from germane.questions.prompts import Prompts
from germane.questions.question import AnyQuestion
from germane.types import FrozenDict, Json, Usage

if TYPE_CHECKING:
    from germane.judges.client.foreign import PydanticAITransport
    from germane.judges.client.function import FunctionTransport
    from germane.judges.client.transport import HTTPTransport

    Transport: TypeAlias = HTTPTransport | FunctionTransport | PydanticAITransport
    """What sends requests: it has a `url` (the name in error messages) and `secrets`, and can `send` and `close`."""

MOST_THOUGHTS = 1 << 14  # maximum tokens for a model's reasoning if the user set no limit
_HOPELESS = 30  # refused requests after which the client gives up an endpoint that has never answered
_DOWN = 2  # the pause between requests to an endpoint that is down is the backoff after this many failures

_LONG_CHARACTERS, _SMALLEST_TOKENS = 4000, 512  # no server cuts off a shorter text, or has a smaller context
_CUT_OFF_CHARACTERS, _FULL_CHARACTERS = 8, 5
"""Characters per token. Above the first number, the server must have cut the prompt off.

Above the second, it has done so if the tokens that it read exactly fill a context of a usual size.
"""
_CONTEXT_TOKENS = {1024 << n for n in range(8)}
_SAME_TOKENS = 16  # maximum difference between two token counts of a full context

_log = logging.getLogger("germane")


class ModelClient:
    """A client that asks one model at one endpoint, in one event loop."""

    def __init__(
        self,
        transport: Transport,
        capabilities: ModelCapabilities,
        policy: RetryPolicy,
        concurrency: AdaptiveConcurrency,
        limiter: RateLimiter | None = None,
    ) -> None:
        self.transport, self.capabilities, self.policy = transport, capabilities, policy
        self.breaker = CircuitBreaker(policy)
        self._concurrency, self._limiter = concurrency, limiter
        self._unusable = ""
        self._worked = False
        self._rejected = self._cuts_at = 0

    async def complete(self, ask: Ask, call: GroupCall, note: Correction | None = None) -> Completion:
        """Send a request, with retries, and return the model's answer. `note` corrects the previous answer.

        Raises:
            GaveUp: The model or its provider declined to answer, the texts are too long for the model, the
                endpoint refuses the request in every output mode, or the attempts or the time are used up.
            AnswerError: The endpoint itself discarded the answer.
            JudgeError: The endpoint cannot be used at all.
            LimitReached: The endpoint asks to wait longer than a call may take.
        """
        pause = 0.0
        while True:
            if call.left <= 0:
                raise GaveUp(f"the judge gave no answer within {self.policy.deadline:g} s", spent=True)
            await self._admit(ask, call, pause)
            body = self._compose(ask, note, call)
            decision, size = await self._send(body, call), len(body) // BYTES_PER_TOKEN
            pause = 0.0
            match decision.action:
                case "take":
                    got = self._count(completion_in(decision.body, ask.name), call, size)
                    if note is None and got.input_tokens is not None and len(ask.user) > _LONG_CHARACTERS:
                        self._check_read(got.input_tokens, ask, size)
                    return got
                case "more room":
                    return Completion("", cut=True)
                case "retry" | "wait":
                    pause = self._pause(decision, call)
                case "stop":
                    raise self._stop(f"cannot be used: {decision.why}")
                case _:
                    self._refused(decision, call, size)
                    if self._compose(ask, note, call) == body:  # no other call has changed the form meanwhile
                        self._change(decision, call)

    async def _admit(self, ask: Ask, call: GroupCall, pause: float) -> None:
        """Wait `pause` seconds and until all limits allow a request, then count the request as in flight."""

        def tokens() -> float:
            size = len(ask.system) + len(ask.user) + len(str(ask.schema))
            typical = sum(len(str(question.typical())) for item in ask.items for question in item.questions)
            return (size + typical) / BYTES_PER_TOKEN

        self.release(call)
        limits = self._concurrency
        with waiting():
            if pause:
                await asyncio.sleep(pause)
            while not call.held:
                await limits.pause()
                await limits.acquire()
                try:
                    call.taken = 0.0 if self._limiter is None else await self._limiter.acquire(tokens)
                except BaseException:
                    limits.release()
                    raise
                call.sent, call.held = monotonic(), True
                if self._unusable or self.breaker.exhausted or limits.paused:
                    if self._limiter is not None:
                        self._limiter.correct(-call.taken, -1)
                    self.release(call)
                if self._unusable:
                    raise JudgeError(self._unusable)
                if self.breaker.exhausted:
                    raise self._no_answer(self.breaker.exhausted)

    def release(self, call: GroupCall) -> None:
        """Count the last request of `call` as no longer in flight. Repeating this has no effect."""
        if call.held:
            call.held = False
            self._concurrency.release()
            if self._limiter is not None:
                self._limiter.release()

    def _compose(self, ask: Ask, note: Correction | None, call: GroupCall) -> bytes:
        """Return the body of the next request, in the form that the endpoint is now known to accept."""
        capabilities = self.capabilities
        if call.room and not capabilities.limit_names:
            raise GaveUp(
                "the answer was cut off, and this endpoint accepts no higher token limit; use another model or endpoint"
            )
        call.limit = call.room or (capabilities.limit(ask) if capabilities.limit_names else 0)
        call.mode = max(call.mode, capabilities.mode)
        call.own_limit = bool(call.limit) and not call.room and not capabilities.max_tokens
        call.limited = capabilities.schema_limits and call.mode < PROMPT
        return capabilities.body(ask, note, call.limit, call.mode)

    async def _send(self, body: bytes, call: GroupCall) -> RetryDecision:
        started, seconds = monotonic(), min(self.policy.read, call.left)
        secrets = self.transport.secrets
        try:
            call.used["requests"] += 1
            async with asyncio.timeout(seconds):
                response = secrets.mask_response(await self.transport.send(body))
            decision = decide(*response, worked=self._worked)
        except TimeoutError:
            self._concurrency.throttled(call.sent)
            decision = RetryDecision("retry", f"no answer within {seconds:.3g} s (--timeout)")
        except TransportError as error:
            decision = RetryDecision("retry", str(error))
        finally:
            call.left -= monotonic() - started
        if decision.action != "retry":  # any response, even a refusal, shows that the endpoint is up
            self.breaker.succeeded()
        if decision.action == "take":
            self._worked = True
            self._concurrency.succeeded(call.sent)
            return decision
        sent, back, cached = tokens_in(decision.body)
        call.used.update(input=sent or 0, output=back or 0, cached=cached)
        return decision._replace(text=secrets.mask_text(decision.text))

    def _count(self, got: Completion, call: GroupCall, size: int) -> Completion:
        """Count the tokens of an answer, and mark it as cut off if it reached the limit and is not valid JSON.

        `size` is the estimate of the request's tokens, which is used if the endpoint reports none.
        """
        sent, back = got.input_tokens, got.output_tokens
        if sent is None or back is None:
            call.estimated, sent, back = (
                True,
                size,
                len(got.text.encode("utf-8", "replace")) // BYTES_PER_TOKEN,
            )
        call.used.update(input=sent, output=back, cached=got.cached_tokens)
        call.model = got.model
        if self._limiter is not None:
            self._limiter.correct(sent + back - call.taken)
        if got.refusal:
            raise GaveUp(got.refusal)
        full = call.limit and (got.output_tokens or 0) >= call.limit  # whatever the finish reason is
        return replace(got, cut=True) if full and got.fault else got

    def _check_read(self, read: int, ask: Ask, sent: int) -> None:
        """Raise GaveUp if the server cut the prompt off: it `read` far fewer tokens than were `sent`."""
        size = len(" ".join(ask.user.split()))
        if read > self._cuts_at + _SAME_TOKENS:
            self._cuts_at = 0  # the server can read longer prompts than assumed
        sparse = read >= _SMALLEST_TOKENS and read * _CUT_OFF_CHARACTERS < size
        full = read in _CONTEXT_TOKENS and read * _FULL_CHARACTERS < size
        if sparse or full or (self._cuts_at and self._cuts_at - read < _SAME_TOKENS):
            self._cuts_at = max(read, self._cuts_at)
            raise GaveUp(
                f"the server read {read:,} tokens of about {sent:,}: it silently cuts off prompts longer than"
                " its context; give the model a longer context (Ollama: set OLLAMA_CONTEXT_LENGTH)",
                too_long=True,
            )

    def widen(self, got: Completion, ask: Ask, call: GroupCall) -> bool:
        """Raise the token limit, because the answer `got` was cut off; return False if that cannot help.

        The computed limit is generous. If an answer used it up, it is raised only if the model spent the
        tokens on reasoning. An answer that was cut off below the limit reached a lower limit of the server.
        """
        capabilities, used, limit = self.capabilities, got.output_tokens, call.limit
        if call.own_limit and 2 * (used or limit) > limit:
            if got.thought and limit == capabilities.limit(ask):  # no other call has raised it meanwhile
                capabilities.thoughts = min(max(ROOM, 2 * capabilities.thoughts), MOST_THOUGHTS)
            return got.thought
        limit = 0 if call.own_limit else limit
        if not limit and (used or ROOM) < ROOM and capabilities.max_tokens is None:
            capabilities.max_tokens = ROOM  # every request sets this limit, since the server's default is low
        call.room = max(2 * max(used or 0, limit), ROOM)
        return True

    def _pause(self, decision: RetryDecision, call: GroupCall) -> float:
        """Return the seconds to wait before the request is sent again, and subtract them from `call.left`.

        A Retry-After costs no attempt. A failure in transit costs one, unless the circuit is open; then all
        requests pause. Raises an error if the attempts or the time are used up.
        """
        policy, breaker, why = self.policy, self.breaker, decision.why
        if decision.action == "wait":
            asked = decision.seconds
            if asked is not None and asked > policy.deadline:
                raise LimitReached(
                    f"{self.transport.url} asks to wait {min(asked / 60, 1e6):,.0f} minutes ({why}); try again later"
                )
            self._concurrency.throttled(call.sent, asked)
            call.used["waits"] += 1
            pause, why = policy.wait(asked, call.used["waits"]), f"asked to wait ({why})"
        else:
            breaker.reached |= decision.status not in {0, UNKNOWN}
            if breaker.failed(why):
                url = self.transport.url
                _log.warning("%s does not answer: %s; trying for %.0f s more", url, why, policy.outage)
            call.used["faults"] += 1
            call.failures += not breaker.open
            if call.failures >= policy.attempts:
                raise self._no_answer(f"no answer in {call.failures} attempts: {why}")
            if breaker.exhausted:
                raise self._no_answer(breaker.exhausted)
            pause = policy.wait(None, _DOWN if breaker.open else call.failures)
            if breaker.open:
                self._concurrency.throttled(call.sent, pause)
        if 0 < call.left <= pause:
            rest = f"another wait of {pause:.0f} s would exceed the {policy.deadline:.0f} s allowed per call"
            raise GaveUp(f"{why}; {rest}", spent=True)
        call.left -= pause
        return pause

    def _no_answer(self, why: str) -> GaveUp | JudgeError:
        return GaveUp(why, spent=True) if self.breaker.reached else self._stop(f"does not answer: {why}")

    def _stop(self, why: str) -> JudgeError:
        """Mark the endpoint as unusable for all calls, and return the JudgeError to raise."""
        self._unusable = f"{self.transport.url} {why}"
        return JudgeError(self._unusable)

    def _refused(self, decision: RetryDecision, call: GroupCall, size: int) -> None:
        """Raise an error for a refused request, unless another form of the request can help."""
        capabilities, too_long, why = self.capabilities, decision.action == "too long", decision.why
        if call.limit and is_over_limit(decision.text):
            if call.own_limit:
                capabilities.token_limits = False
                return
            if call.room or not too_long:
                fix = "use another model" if call.room else "set a lower --model-parameter max_tokens=N"
                problem = f"the endpoint does not allow answers of up to {call.limit:,} tokens ({why})"
                raise GaveUp(f"{problem}; {fix}")
        if too_long:
            raise GaveUp(
                f"the texts are too long for the model: about {size:,} tokens ({why})", too_long=True
            )
        if decision.action == "filtered":
            raise GaveUp(f"the provider's content filter refused the texts ({why})")
        if decision.action == "ask again":  # after two discarded answers, put the schema into the prompt
            capabilities.schema_ignored()
            call.thrown_away += call.mode < PROMPT
            if call.mode == PROMPT or call.thrown_away < min(2, self.policy.attempts):
                raise AnswerError(
                    f"the endpoint reports that the answer does not match the schema: {decision.text}"
                )
            call.mode = PROMPT

    def _change(self, decision: RetryDecision, call: GroupCall) -> None:
        """Stop sending what a refusal names; if it names nothing, use a simpler form of request."""
        capabilities = self.capabilities
        if capabilities.learn(decision.text, call.mode, limited=call.limit > 0):
            return
        if not capabilities.proven and capabilities.drop_limits(tokens=call.own_limit):
            return
        self._rejected += 1
        if self._rejected >= _HOPELESS and not self._worked:
            raise self._stop(
                f"refused all {self._rejected} requests; the reason for the last: {decision.why}"
            )
        if capabilities.proven or call.mode == PROMPT:
            raise GaveUp(decision.why)
        call.mode += 1


_CUT = AnswerError("the answer was cut off at the token limit")
_FREE = Usage(cost_usd=0.0)
_NO_ANSWER = Reply(error="the model gave no answer")
_SHOWN = 4000  # characters of an unusable answer that are shown to the model again
_PROBLEM = 300  # maximum characters of the description of the problem with it


class GroupCall:
    """All requests of LLMJudge for one group of questions: a FusedRequest, or a batch of several.

    `run` sends the requests; then `replies` returns the answers. `used` counts the `requests`, the responses
    that ask to wait (`waits`), the requests that failed in transit (`faults`), the retries after unusable
    answers (`reasked`), and the tokens (`input`, `output`, `cached` input).
    """

    def __init__(self, client: ModelClient, prompts: Prompts, items: Sequence[FusedRequest]) -> None:
        self.client, self.prompts, self.items = client, prompts, items
        self.id, self.started = uuid4().hex, monotonic()  # the id names the call in judgements
        self.left = client.policy.deadline  # seconds until the deadline
        self.used = Counter[str]()
        self.estimated = False  # tokens were estimated from bytes, because the endpoint does not report them
        self.model = ""  # the model that gave the last answer, as the endpoint names it
        # the next request: its output mode as an index in MODES, unless the capabilities name a later one, and
        # the token limit of its answer after an answer was cut off, else 0
        self.mode = self.room = 0
        # the last request: its token limit (0: none), True if germane computed that limit, True if its schema
        # limited lists and strings, when it was sent, its tokens as the rate limit counted them, and True if it
        # counts as in flight, until the next one is sent or the answers are stored
        self.limit, self.own_limit, self.limited = 0, False, False
        self.sent, self.taken, self.held = 0.0, 0.0, False
        self.thrown_away = 0  # number of answers that the endpoint discarded because of the schema
        self.failures = 0  # attempts that failed in transit for the current question
        self._results = defaultdict[int, Reply](lambda: _NO_ANSWER)  # by the id() of the question
        self._singly: list[AnyQuestion] = []  # kept alive, and so are their ids
        self._spent = self._unended = False

    async def run(self) -> None:
        """Ask all questions together, then ask the failed questions again in smaller requests."""
        requests = [self.items]
        for items in requests:  # the loop adds smaller requests
            self._spent = self._unended = False
            try:
                try:
                    await self._attempts(items)
                except GaveUp as error:
                    if not error.too_long or sum(len(item.questions) for item in items) > 1:
                        raise
                    await self._in_windows(items[0].questions[0], error)
            except (GaveUp, AnswerError) as error:
                self._spent |= isinstance(error, GaveUp) and error.spent
                self._fail(str(error), items)
            except GermaneError:
                raise
            except Exception as error:  # noqa: BLE001 - an unreadable answer must not fail other questions
                why = f"the answer could not be read: {type(error).__name__}: {str(error)[:_PROBLEM]}"
                self._fail(why, items)
            requests += [[item] for item in self._split_questions(items)]

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

    def _split_questions(self, items: Sequence[FusedRequest]) -> list[FusedRequest]:
        """Return smaller requests for the unanswered questions; [] in an outage, or if they cannot help."""
        left = list(self._open(items))
        if not left or self.client.breaker.open:
            return []
        if len(items) > 1:
            return left
        hopeful = self._unended or (self._spent and self.client.capabilities.proven)
        if len(items[0].questions) == 1 or not hopeful:
            return []
        questions = [question for item in left for question in item.questions]
        self._singly += questions
        return fused_requests(questions, self.prompts, fuse=False)

    async def _in_windows(self, question: AnyQuestion, error: GaveUp) -> None:
        """Ask a question about each part of its contexts and merge the answers, after it failed with `error`."""
        if not isinstance(question, Support) or not (todo := question.halves()):
            raise error
        answered: list[tuple[Support, Reply]] = []
        while todo:
            window = todo.pop(0)
            try:
                await self._attempts(fused_requests([window], self.prompts))
            except GaveUp as long:
                if not long.too_long:
                    raise
                todo[:0] = window.halves()
                if len(window.contexts) == 1:
                    number = question.ranks[question.contexts.index(window.contexts[0])][0]
                    raise GaveUp(
                        f"context {number} alone is too long for the model; shorten it ({long})"
                    ) from None
                continue
            reply = self._results[id(window)]
            if reply.payload is None:
                raise GaveUp(str(reply.error))
            answered.append((window, reply))
        payload = question.merge([(window, reply.payload) for window, reply in answered])
        how = FrozenDict(windows=len(answered))
        self._results[id(question)] = Reply(payload=payload, provenance=how, children=tuple(answered))

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
        """Send one request; return what was wrong with the answer, and the correction to send next."""
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
                self.client.capabilities.schema_ignored()
            why = f"the answer did not end within {self.limit:,} tokens"
            again = ("", f"{why}, write less") if ask.schema else None
            return Unended(f"{why}: --model-parameter max_tokens=N allows more"), again
        problem = self._keep(ask, got)
        if problem is None:
            if note is None and ask.schema:
                self.client.capabilities.usable(self.mode)
            return None, note
        if not (isinstance(problem, Miscounted | Unended) or got.problem):
            self.client.capabilities.schema_ignored()
        text = "" if isinstance(problem, Unended) else got.text[:_SHOWN]
        return problem, (text, str(problem)[:_PROBLEM])

    def _keep(self, ask: Ask, got: Completion) -> AnswerError | None:
        problem: AnswerError | None = None
        try:
            payload = got.payload() if ask.schema else {"text": got.text}
            for question, answer, how in ask.read(payload, limited=self.limited):
                if isinstance(answer, AnswerError):
                    problem = answer
                else:
                    self._results[id(question)] = Reply(payload=answer, provenance=FrozenDict(how))
        except AnswerError as error:
            return error
        return problem
