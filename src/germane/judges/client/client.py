"""One model endpoint: a request is sent, and what follows is decided by its response, until there is an answer or none will be.

Asked to wait (429, 503, 529), the client waits as long as Retry-After says, or backs off, until the call's deadline.
Failures on the way (5xx, timeouts, broken connections) have `attempts`; when they come in a row, all requests are held
back and fewer are sent, until an answer comes or the endpoint is given up. What no other request can mend (no such key, no such model, no money) is a JudgeError for all calls.
Unusable answers are the caller's to count.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from time import monotonic
from uuid import uuid4

from germane.errors import AnswerError, JudgeError, LimitReached
from germane.judges.client.errors import (
    FILTERED,
    UNFINISHED,
    UNFIT,
    UNKNOWN,
    Action,
    GaveUp,
    RetryDecision,
    TransportError,
    decide,
    is_over_limit,
)
from germane.judges.client.output import PROMPT, ROOM, Correction, ModelCapabilities
from germane.judges.client.parsing import Completion, completion_in, tokens_in
from germane.judges.client.ratelimits import AdaptiveConcurrency, CircuitBreaker, Pause, RateLimiter, Taken
from germane.judges.client.retry import RetryPolicy
from germane.judges.client.transport import Transport
from germane.judges.judge import Stopped, waiting
from germane.questions.fusing import Ask

MOST_THOUGHTS = 1 << 14
"""Tokens for what a model thinks before it answers, at most, where the user has named no limit."""

STEPS = 12
"""Requests for one answer at most, whatever the endpoint does not take."""

BYTES_PER_TOKEN = 4
"""Of a request, where the endpoint does not count: more than most texts have."""

_DOWN = 2
"""The backoff between requests to an endpoint that is down is that after so many failures."""

_LATEST_SECONDS = 3e8
"""Seconds: the latest date that is shown."""

_LONG_CHARACTERS, _SMALLEST_TOKENS = 4000, 512
"""Characters of a text that no server cuts off, and tokens of the smallest context."""
_CUT_OFF_CHARACTERS, _FULL_CHARACTERS = 8, 5
"""Characters per token that no script reaches, and that few texts reach: above the one a prompt was cut off, above the
other where as many tokens were read as a context of the usual sizes holds."""
_CONTEXT_TOKENS = {1024 << n for n in range(8)}
_SAME_TOKENS = 16
"""Tokens by which two counts of a full context differ."""

_log = logging.getLogger("germane")


@dataclass(slots=True)
class CallState:
    """The usage of one call (a group of questions), and what it has learned for its next request.

    Attributes:
        left: Seconds of its deadline.
        id: Identifies the call in judgements.
        waits, faults: Requests that were asked to wait, and that failed on the way.
        failures: Attempts that these faults have cost the current question.
        reasked: Unusable answers that were asked again.
        estimated: True if tokens were counted from bytes, since the endpoint does not count.
        mode: The mode of the last request.
        unfit: Answers in a mode with a schema that the endpoint threw away: after two, the call asks without one.
        room: Tokens that the next answer may have, since the last was cut off; 0 = it was not.
        in_flight: True if it holds a place: from one request on until the next, or until its answers are stored.
        size, limit, version: Bytes of the last request, its limit of tokens, and the version of the capabilities.
        ours: True if that limit was the one that the question has by itself.
        limited: True if the schema of the last request had limits.
        full: True if the texts and our limit are more than the model takes at once: none is sent then.
    """

    left: float
    id: str = field(default_factory=lambda: uuid4().hex)
    started: float = field(default_factory=monotonic)
    requests: int = 0
    waits: int = 0
    faults: int = 0
    failures: int = 0
    reasked: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    estimated: bool = False
    mode: int = 0
    model: str = ""
    fingerprint: str = ""
    unfit: int = 0
    room: int = 0
    size: int = 0
    limit: int = 0
    ours: bool = False
    limited: bool = False
    full: bool = False
    version: int = 0
    taken: Taken | None = None
    in_flight: bool = False

    def count(self, sent: int | None, back: int | None, cached: int) -> None:
        """Add the tokens of one request."""
        self.input_tokens += sent or 0
        self.output_tokens += back or 0
        self.cached_tokens += cached


class ModelClient:
    """Asks one model at one endpoint.

    Args:
        transport: The far end.
        capabilities: The forms of request that the model takes; learned from its refusals.
        policy: Timeouts, attempts, backoff.
        concurrency: The number of requests that may be in flight.
        limiter: Requests and tokens per minute; None = no limit.
    """

    def __init__(
        self,
        transport: Transport,
        capabilities: ModelCapabilities,
        policy: RetryPolicy,
        concurrency: AdaptiveConcurrency,
        limiter: RateLimiter | None = None,
    ) -> None:
        self.transport, self.capabilities, self.policy = transport, capabilities, policy
        self.concurrency, self.limiter = concurrency, limiter
        self.breaker, self.pause = CircuitBreaker(policy), Pause()
        self._unusable = ""
        self._worked = False
        self._rejected = 0
        self._answers = self._output = 0
        self._cuts_at = 0
        self._warned = False

    async def close(self) -> None:
        """Close connections; a later call opens new ones."""
        self._unusable = ""
        await self.transport.close()

    # one answer

    async def complete(self, ask: Ask, call: CallState, note: Correction | None = None) -> Completion:
        """One answer of the model, in the first output mode that the endpoint takes.

        Args:
            ask: The request in words.
            call: Counted on.
            note: The problem of the answer before.

        Raises:
            GaveUp: The model or its provider declined, the texts are too long for it, the endpoint does not take the
                request in any mode, or attempts or time are used up.
            AnswerError: The endpoint itself threw the answer away.
            JudgeError: The endpoint cannot be used at all.
            LimitReached: The endpoint asks to wait longer than a call may take.
        """
        forms, pause = 0, 0.0
        while True:
            if call.left <= 0:
                raise GaveUp(f"no answer within {self.policy.deadline:g} s", spent=True)
            decision = await self._admit(ask, call, pause) or await self._send(ask, note, call)
            pause = decision.seconds or 0.0
            match decision.action:
                case Action.TAKE:
                    return self._accept(completion_in(decision.body, ask.name), ask, note, call)
                case Action.CHANGE if UNFINISHED.search(decision.text):
                    return Completion("", cut=True)
                case Action.CHANGE:
                    forms += 1
                    self._learn(decision, call)
                    if forms == STEPS:
                        raise GaveUp(decision.why)
                case Action.GIVE_UP:
                    raise GaveUp(decision.text, spent=True)
                case Action.UNUSABLE:
                    self._unusable = decision.text
                    raise JudgeError(decision.text)

    def _compose(self, ask: Ask, note: Correction | None, call: CallState) -> bytes:
        """The body of a request, composed when it is sent: what was learned while it waited is in it."""
        capabilities = self.capabilities
        if call.room and not capabilities.limit_names:
            why = "the answer was cut off, and the endpoint takes no limit that could be raised"
            raise GaveUp(why)
        limit = call.room or (0 if call.full and not capabilities.max_tokens else capabilities.limit(ask))
        call.limit = limit if capabilities.limit_names else 0
        call.ours = bool(call.limit) and not call.room and not capabilities.max_tokens
        call.mode, call.version = max(call.mode, capabilities.mode), capabilities.version
        call.limited = capabilities.schema_limits and call.mode < PROMPT
        body = capabilities.body(ask, note, call.limit, call.mode)
        call.size = len(body)
        return body

    def widen(self, got: Completion, call: CallState) -> bool:
        """Give the next answer more room, since this one was cut off; False where it does not end.

        That is one that used all of the question's own limit, unless nothing but thoughts was written: these get more
        room, in later requests too. One that was cut off earlier met a limit of the server's own.
        """
        capabilities, limit = self.capabilities, 0 if call.ours else call.limit
        if call.ours and 2 * (got.output_tokens or call.limit) > call.limit:
            if got.thought and call.version == capabilities.version:
                capabilities.thoughts = min(max(ROOM, 2 * capabilities.thoughts), MOST_THOUGHTS)
                capabilities.version += 1
            return got.thought
        if not limit and (got.output_tokens or ROOM) < ROOM and capabilities.max_tokens is None:
            capabilities.max_tokens = ROOM  # the server's own is short: named in every request from now on
            capabilities.version += 1
        call.room = max(2 * max(got.output_tokens or 0, limit), ROOM)
        return True

    def _learn(self, error: RetryDecision, call: CallState) -> None:
        """Learn from a rejection what to leave out, or try the next output mode; else raise what it means."""
        text, capabilities = error.text, self.capabilities
        over = is_over_limit(text)
        if call.ours and over:
            call.full, capabilities.token_limits = (
                error.too_long,
                capabilities.token_limits and error.too_long,
            )
            return
        if call.limit and over and (call.room or not error.too_long):
            raise GaveUp(f"the endpoint allows no answer of {call.limit:,} tokens ({error.why})")
        if error.too_long:
            tokens = call.size // BYTES_PER_TOKEN
            why = f"the texts are too long for the model: about {tokens:,} tokens ({error.why})"
            raise GaveUp(why, too_long=True)
        if FILTERED.search(text):
            raise GaveUp(f"the provider's content filter refused the texts ({error.why})")
        if UNFIT.search(text):
            self._thrown_away(text, call)
            return
        if capabilities.version != call.version:  # another call has learned meanwhile
            return
        learned = capabilities.learn(text, call.mode, limited=call.limit > 0)
        if learned or (not capabilities.proven and capabilities.drop_limits()):
            return
        self._rejected += 1
        if self._rejected >= self.policy.hopeless and not self._worked:
            self._unusable = f"{self.transport.url} cannot be used: it took none of {self._rejected} requests, the last: {error.why}"
            raise JudgeError(self._unusable)
        if capabilities.proven or call.mode == PROMPT:
            raise GaveUp(error.why)
        call.mode += 1

    def _thrown_away(self, text: str, call: CallState) -> None:
        """Ask without a schema where the endpoint has twice thrown an answer with one away.

        Raises:
            AnswerError: It is asked the same way again.
        """
        self.capabilities.schema_ignored()
        call.unfit += call.mode < PROMPT
        if call.mode == PROMPT or call.unfit < min(2, self.policy.attempts):
            raise AnswerError(f"the endpoint says that it is not of the schema: {text}")
        call.mode = PROMPT

    def _check_read(self, read: int, ask: Ask, sent: int) -> None:
        """GaveUp where the server says that it read far fewer tokens than it was sent (Ollama cuts off in silence)."""
        size = len(" ".join(ask.user.split()))
        if read > self._cuts_at + _SAME_TOKENS:
            self._cuts_at = 0  # it reads more after all
        sparse = read >= _SMALLEST_TOKENS and read * _CUT_OFF_CHARACTERS < size
        full = read in _CONTEXT_TOKENS and read * _FULL_CHARACTERS < size
        if sparse or full or (self._cuts_at and self._cuts_at - read < _SAME_TOKENS):
            self._cuts_at = max(read, self._cuts_at)
            raise GaveUp(
                f"the server read {read:,} tokens of about {sent // BYTES_PER_TOKEN:,}: it cuts off in silence what is"
                " longer than its context; give the model a longer one (Ollama: OLLAMA_CONTEXT_LENGTH)",
                too_long=True,
            )

    def _expected_tokens(self, ask: Ask) -> float:
        """Tokens of a request and its answer: as long as answers here are, before the first as is typical."""
        size = len(ask.system) + len(ask.user) + len(str(ask.schema))
        if self._answers:
            return size / BYTES_PER_TOKEN + self._output / self._answers
        return (
            size + sum(len(str(q.typical())) for item in ask.items for q in item.questions)
        ) / BYTES_PER_TOKEN

    def _accept(self, got: Completion, ask: Ask, note: Correction | None, call: CallState) -> Completion:
        """The answer, once its tokens are counted; cut off where it used all of its room and is not JSON.

        Raises:
            GaveUp: The model declined, or the server cut the texts off.
        """
        sent, back = got.input_tokens, got.output_tokens
        if sent is None or back is None:
            call.estimated = True
            sent, back = (
                call.size // BYTES_PER_TOKEN,
                len(got.text.encode("utf-8", "replace")) // BYTES_PER_TOKEN,
            )
        call.count(sent, back, got.cached_tokens)
        call.model, call.fingerprint = got.model, got.fingerprint
        self._answers += 1
        self._output += back
        if self.limiter is not None:
            self.limiter.correct(call.taken, sent + back)
        if got.refusal:
            raise GaveUp(got.refusal)
        if call.limit and (got.output_tokens or 0) >= call.limit and not got.cut and got.fault:
            got = replace(got, cut=True)  # whatever the server calls it
        if note is None and got.input_tokens is not None and len(ask.user) > _LONG_CHARACTERS:
            self._check_read(got.input_tokens, ask, call.size)
        return got

    # one request

    async def _admit(self, ask: Ask, call: CallState, pause: float) -> RetryDecision | None:
        """Wait for the backoff, a pause, a place and the rates; None = the request may be sent."""
        self.release(call)
        try:
            with waiting():
                if pause:
                    await asyncio.sleep(pause)
                while True:
                    await self.pause.wait()
                    await self.concurrency.acquire()
                    call.taken, admitted = None, False
                    try:
                        if self.limiter is not None:
                            call.taken = await self.limiter.acquire(lambda: self._expected_tokens(ask))
                        if self._unusable:
                            return RetryDecision(Action.UNUSABLE, self._unusable)
                        if self.breaker.exhausted:
                            return self._gone(self.breaker.exhausted)
                        admitted = not self.pause.active
                    finally:
                        if not admitted:
                            self.concurrency.release()
                            if self.limiter is not None:
                                self.limiter.give_back(call.taken)
                    if admitted:
                        call.in_flight = True
                        return None
        except Stopped:
            return RetryDecision(Action.GIVE_UP, "interrupted before it was asked again")

    def release(self, call: CallState) -> None:
        """Give back the place of a call's last request."""
        if call.in_flight:
            call.in_flight = False
            self.concurrency.release()
            if self.limiter is not None:
                self.limiter.release()

    async def _send(self, ask: Ask, note: Correction | None, call: CallState) -> RetryDecision:
        """One request; what to do after its response."""
        sent, seconds = monotonic(), min(self.policy.read, call.left)
        try:
            body = self._compose(ask, note, call)
            call.requests += 1
            async with asyncio.timeout(seconds):
                response = self.transport.secrets.mask_response(await self.transport.send(body))
            decision = decide(*response, worked=self._worked)
        except TimeoutError:
            self.concurrency.throttled(sent)
            decision = RetryDecision(Action.RETRY, self._timed_out(seconds))
        except TransportError as error:
            decision = RetryDecision(Action.RETRY, str(error))
        finally:
            call.left -= monotonic() - sent
        if decision.action is Action.TAKE:
            self._worked = True
            self.breaker.succeeded()
            self.pause.answered(sent)
            self.concurrency.succeeded(sent)
            return decision
        text = self.transport.secrets.mask_text(decision.text)
        return self._failed(decision._replace(text=text), sent, call)

    def _timed_out(self, seconds: float) -> str:
        """The reason why a request was cancelled; the first that outlives the time-out is a warning that names the flag."""
        why = f"no answer within {seconds:.3g} s"
        if seconds < self.policy.read:  # the end of the call's deadline
            return why
        if not self._warned:
            self._warned = True
            _log.warning(
                "%s: %s: the request is cancelled and sent again; a slow model needs a longer --timeout"
                " (in Python: retry=RetryPolicy(read=...))",
                self.transport.url,
                why,
            )
        return f"{why} (--timeout)"

    def _failed(self, decision: RetryDecision, sent: float, call: CallState) -> RetryDecision:
        """The decision after a request without an answer: send it again after some seconds, in another form, or not at all.

        The limits of the endpoint are told. While the circuit is open a failure costs no attempt, and holds all requests back.
        """
        call.count(*tokens_in(decision.body))
        policy, url, asked = self.policy, self.transport.url, decision.seconds
        if decision.action is Action.RETRY:
            self.breaker.reached |= decision.status not in {0, UNKNOWN}
            if self.breaker.failed(decision.why):
                _log.warning(
                    "%s does not answer: %s; trying for %.0f s more", url, decision.why, policy.outage
                )
            call.faults += 1
            call.failures += not self.breaker.open
            if call.failures >= policy.attempts:
                return self._gone(f"no answer in {call.failures} attempts: {decision.why}")
            if self.breaker.exhausted:
                return self._gone(self.breaker.exhausted)
            pause, why = policy.delay(call.failures), decision.why
            if self.breaker.open:
                pause = policy.delay(_DOWN)
                self._hold_back(sent, pause)
        else:
            self.breaker.succeeded()
            if decision.action is Action.UNUSABLE:
                return RetryDecision(Action.UNUSABLE, f"{url} cannot be used: {decision.why}")
            if decision.action is not Action.WAIT:
                return decision
            if asked is not None and asked > policy.deadline:
                raise LimitReached(f"{url} asks to wait until {_clock(asked)} ({decision.why})")
            self._hold_back(sent, asked)
            call.waits += 1
            pause, why = policy.wait(asked, call.waits), f"asked to wait ({decision.why})"
        if 0 < call.left <= pause:
            rest = f"a wait of {pause:.0f} s is more than is left of {policy.deadline:.0f} s per call"
            return RetryDecision(Action.GIVE_UP, f"{why}; {rest}")
        call.left -= pause
        return RetryDecision(Action.WAIT, why, seconds=pause)

    def _hold_back(self, sent: float, seconds: float | None) -> None:
        """Have fewer requests in flight, and none for some seconds, after one that was sent at that time."""
        self.concurrency.throttled(sent)
        if seconds is not None:
            self.pause.start(sent, seconds)

    def _gone(self, why: str) -> RetryDecision:
        """An endpoint that has never answered is asked nothing more; else only this question has no answer."""
        if self.breaker.reached:
            return RetryDecision(Action.GIVE_UP, why)
        return RetryDecision(Action.UNUSABLE, f"{self.transport.url} does not answer: {why}")


def _clock(seconds: float) -> str:
    """The time then, with its date where that is not today's."""
    now = datetime.now().astimezone()
    then = now + timedelta(seconds=min(seconds, _LATEST_SECONDS))
    return f"{then:%H:%M}" if then.date() == now.date() else f"{then:%Y-%m-%d %H:%M}"
