"""One model endpoint: a request is sent, its response classified, and sent again where that can help.

Asked to wait (429, 503, 529), the client waits as long as Retry-After says, or backs off, until the call's deadline.
Failures on the way (5xx, timeouts, broken connections) have `attempts`, and open the circuit breaker when they come
in a row. What no other request can mend (no such key, no such model, no money) is a JudgeError for all calls.
Unusable answers are the caller's to count.
"""

from __future__ import annotations

import asyncio
import json
import logging
import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from time import monotonic
from uuid import uuid4

from germane.errors import AnswerError, JudgeError, LimitReached
from germane.judges.client import errors
from germane.judges.client.limits import (
    AdaptiveConcurrency,
    CircuitBreaker,
    CircuitOpen,
    Pause,
    RateLimiter,
    Stopped,
    Taken,
    waiting,
)
from germane.judges.client.output import PROMPT, ROOM, Correction, ModelCapabilities
from germane.judges.client.parsing import Completion, completion_in, tokens_in
from germane.judges.client.providers import Price
from germane.judges.client.retry import RetryPolicy, retry_after
from germane.judges.client.transport import Transport
from germane.questions.reading import Ask
from germane.types import Json, Usage

STEPS = 12
"""Requests for one answer at most, whatever the endpoint does not take."""

BYTES_PER_TOKEN = 4
"""Of a request, where the endpoint does not count: more than most texts have."""

SHOWN = 8000
"""Bytes of an error that are read."""

_ENOUGH, _FORGET = 20, 0.98
"""Answers that show how long answers take, and the part of the slowest that is remembered at each."""

_SHORT_WAIT = 0.05
"""Seconds: for a shorter Retry-After the client backs off instead, since requests would follow at once."""

_YEARS = 3e8
"""Seconds: the latest date that is shown."""

_LONG_TEXT, _SMALLEST_CONTEXT = 4000, 512
"""Characters of a text that no server cuts off, and tokens of the smallest context."""
_SPARSE, _DENSE = 8, 5
"""Characters per token that no script reaches, and that few texts reach: above the one a prompt was cut off, above the
other where as many tokens were read as a context of the usual sizes holds."""
_CONTEXT_SIZES = {1024 << n for n in range(8)}
_SAME = 16
"""Tokens by which two counts of a full context differ."""

_log = logging.getLogger("germane")


@dataclass(slots=True)
class CallState:
    """What one call (a group of questions) has used, and what it has learned for its next request.

    Attributes:
        left: Seconds of its deadline.
        id: Identifies the call in judgements.
        waits, faults: Requests that were asked to wait, and that failed on the way.
        failures: Attempts that these faults have cost the current question.
        reasked: Unusable answers that were asked again.
        estimated: Whether tokens were counted from bytes, since the endpoint does not count.
        mode: The mode of the last request.
        room: Tokens that the next answer may have, since the last was cut off; 0 = it was not.
        size, limit, version: Bytes of the last request, its limit of tokens, and the version of the capabilities.
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
    room: int = 0
    size: int = 0
    limit: int | None = None
    version: int = 0
    taken: Taken | None = None

    def usage(self, price: Price | None) -> Usage:
        """What the call has used, and cost where its price is known."""
        tokens = self.input_tokens, self.output_tokens
        cost = None if price is None else price.cost(*tokens, self.cached_tokens)
        return Usage(requests=self.requests, input_tokens=tokens[0], output_tokens=tokens[1], cost_usd=cost)

    def count(self, sent: int | None, back: int | None, cached: int) -> None:
        """Add the tokens of one request."""
        self.input_tokens += sent or 0
        self.output_tokens += back or 0
        self.cached_tokens += cached


class ModelClient:
    """Asks one model at one endpoint.

    Args:
        transport: The far end.
        capabilities: What the model takes; learned from its refusals.
        policy: Timeouts, attempts, backoff.
        concurrency: How many requests may be in flight.
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
        self._slowest = 0.0
        self._cuts_at = 0

    async def close(self) -> None:
        """Close connections; a later call opens new ones."""
        self._unusable = ""
        await self.transport.close()

    # one answer

    async def complete(self, ask: Ask, call: CallState, note: Correction | None = None) -> Completion:
        """One answer of the model, in the first output mode that the endpoint takes.

        Args:
            ask: What is asked.
            call: Counted on.
            note: What was wrong with the answer before.

        Raises:
            Refused: The model or its provider declined; TooLong where the texts are too long for it.
            Rejected: The endpoint does not take the request in any mode.
            NoAnswer: Attempts or time are used up.
            AnswerError: The endpoint itself threw the answer away.
            JudgeError: The endpoint cannot be used at all.
            LimitReached: The endpoint asks to wait longer than a call may take.
        """
        for step in range(1, STEPS + 1):
            try:
                got = self._counted(completion_in(await self._post(ask, note, call), ask.name), call)
                if got.refusal:
                    raise errors.Refused(got.refusal)
                if note is None and got.input_tokens is not None and len(ask.user) > _LONG_TEXT:
                    self._check_read(got.input_tokens, ask, call.size)
            except errors.Rejected as error:
                if errors.UNFINISHED.search(error.text):
                    return Completion("", cut=True)
                self._learn(error, call)
                if step == STEPS:
                    raise
            else:
                return got
        raise AssertionError

    def _compose(self, ask: Ask, note: Correction | None, call: CallState) -> bytes:
        """The body of a request, composed when it is sent: what was learned while it waited is in it."""
        known = self.capabilities
        if call.room and not known.limit_names:
            why = "the answer was cut off, and the endpoint takes no limit that could be raised"
            raise errors.Refused(why)
        call.limit = (call.room or known.max_tokens) if known.limit_names else None
        call.mode, call.version = max(call.mode, known.mode), known.version
        body = known.body(ask, note, call.limit, call.mode)
        call.size = len(body)
        return body

    def widen(self, got: Completion, call: CallState) -> None:
        """Give the next answer more room, since this one was cut off."""
        limit = call.limit or 0
        known = self.capabilities
        if not limit and (got.output_tokens or ROOM) < ROOM and known.max_tokens is None:
            known.max_tokens = ROOM  # the server's own is short: named in every request from now on
            known.version += 1
        call.room = max(2 * max(got.output_tokens or 0, limit), ROOM)

    def _learn(self, error: errors.Rejected, call: CallState) -> None:
        """Learn from a rejection what to leave out, or try the next output mode; else raise what it means."""
        text = error.text
        if call.limit and errors.is_over_limit(text) and (call.room or not error.too_long):
            raise errors.Refused(f"the endpoint allows no answer of {call.limit:,} tokens ({error})")
        if error.too_long:
            tokens = call.size // BYTES_PER_TOKEN
            raise errors.TooLong(f"the texts are too long for the model: about {tokens:,} tokens ({error})")
        if errors.FILTERED.search(text):
            raise errors.Refused(f"the provider's content filter refused the texts ({error})")
        if errors.UNFIT.search(text):
            raise AnswerError(f"the endpoint says that it is not of the schema: {text}")
        if self.capabilities.version != call.version:  # another call has learned meanwhile
            return
        if self.capabilities.learn(text, call.mode, limited=call.limit is not None):
            return
        self._rejected += 1
        if self._rejected >= self.policy.hopeless and not self._worked:
            self._unusable = f"{self.transport.url} cannot be used: it took none of {self._rejected} requests, the last: {error}"
            raise JudgeError(self._unusable)
        if self.capabilities.proven or call.mode == PROMPT:
            raise error
        call.mode += 1

    def _check_read(self, read: int, ask: Ask, sent: int) -> None:
        """TooLong where the server says that it read far fewer tokens than it was sent (Ollama cuts off in silence)."""
        size = len(" ".join(ask.user.split()))
        if read > self._cuts_at + _SAME:
            self._cuts_at = 0  # it reads more after all
        sparse = read >= _SMALLEST_CONTEXT and read * _SPARSE < size
        full = read in _CONTEXT_SIZES and read * _DENSE < size
        if sparse or full or (self._cuts_at and self._cuts_at - read < _SAME):
            self._cuts_at = max(read, self._cuts_at)
            raise errors.TooLong(
                f"the server read {read:,} tokens of about {sent // BYTES_PER_TOKEN:,}: it cuts off in silence what is"
                " longer than its context; give the model a longer one (Ollama: OLLAMA_CONTEXT_LENGTH)"
            )

    def _expected_tokens(self, ask: Ask) -> float:
        """Tokens of a request and its answer: as long as answers here are, before the first as is typical."""
        size = len(ask.system) + len(ask.user) + len(str(ask.schema))
        if self._answers:
            return size / BYTES_PER_TOKEN + self._output / self._answers
        return (
            size + sum(len(str(q.typical())) for item in ask.items for q in item.questions)
        ) / BYTES_PER_TOKEN

    def _counted(self, got: Completion, call: CallState) -> Completion:
        """The answer, once its tokens are counted; cut off where it used all of its room and is no JSON."""
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
        if call.limit and (got.output_tokens or 0) >= call.limit and not got.cut and not got.whole:
            return replace(got, cut=True)  # whatever the server calls it
        return got

    # one request until there is a response

    async def _post(self, ask: Ask, note: Correction | None, call: CallState) -> dict[str, Json]:
        """The JSON object that the endpoint answers with."""
        pause = 0.0
        while True:
            if call.left <= pause:
                raise errors.NoAnswer(f"no answer within {self.policy.deadline:g} s")
            call.left -= pause
            try:
                sent = await self._admit(ask, call, pause)
                return await self._send(ask, note, call, sent)
            except Stopped:
                raise errors.NoAnswer("interrupted before it was asked again") from None
            except CircuitOpen as error:
                raise self._gone(str(error)) from None
            except errors.Throttled as error:
                call.waits += 1
                pause, why = self._wait(error.seconds, call), f"asked to wait ({error})"
            except errors.TransportError as error:
                self._count_failure(error, call)
                pause, why = self.policy.delay(call.failures), str(error)
            if 0 < call.left <= pause:
                rest = (
                    f"a wait of {pause:.0f} s is more than is left of {self.policy.deadline:.0f} s per call"
                )
                raise errors.NoAnswer(f"{why}; {rest}")

    async def _admit(self, ask: Ask, call: CallState, pause: float) -> float:
        """Wait for the backoff, the circuit breaker, a pause, a place and the rates; when the request is sent (monotonic).

        Raises:
            Stopped: The pool was stopped.
            CircuitOpen: The endpoint is down.
            JudgeError: It cannot be used.
        """
        with waiting():
            if pause:
                await asyncio.sleep(pause)
            while True:
                probes = self.breaker.open and await self.breaker.acquire()
                if self.pause.active:
                    await self.pause.wait()
                await self.concurrency.acquire()
                call.taken, admitted = None, False
                try:
                    if self.limiter is not None:
                        call.taken = await self.limiter.acquire(lambda: self._expected_tokens(ask))
                    if self._unusable:
                        raise JudgeError(self._unusable)
                    admitted = not self.pause.active and (probes or not self.breaker.open)
                finally:
                    if not admitted:
                        self.concurrency.release()
                        if self.limiter is not None:
                            self.limiter.give_back(call.taken)
                if admitted:
                    return monotonic()

    async def _send(self, ask: Ask, note: Correction | None, call: CallState, sent: float) -> dict[str, Json]:
        """One request; what its response says, or the error that it is.

        Once it is known how long answers take here, a request that takes far longer is taken to hang, the last excepted.
        """
        policy = self.policy
        seconds = min(policy.read, call.left)
        if self._answers >= _ENOUGH and call.failures + 1 < policy.attempts:
            seconds = min(seconds, max(policy.hang_after, policy.hang_factor * self._slowest))
        try:
            body = self._compose(ask, note, call)
            call.requests += 1
            async with asyncio.timeout(seconds):
                status, headers, raw = await self.transport.send(body)
        except TimeoutError:
            self.concurrency.throttled(sent)
            raise self._transport_error(f"no answer within {seconds:.3g} s") from None
        except errors.TransportError as error:
            raise self._transport_error(str(error)) from None
        finally:
            call.left -= monotonic() - sent
            self.concurrency.release()
            if self.limiter is not None:
                self.limiter.release()
        if not 200 <= status < 300:
            raise self._error(status, headers, raw, sent)
        try:
            found = json.loads(raw)
        except ValueError:
            found = None
        if not isinstance(found, dict):
            raise self._transport_error("the body of the response is cut short or no JSON")
        if (failure := errors.failure_in(found)) is None:
            self._worked = True
            self.breaker.succeeded()
            self.pause.answered(sent)
            self.concurrency.succeeded(sent)
            self._slowest = max(monotonic() - sent, _FORGET * self._slowest)
            return found
        call.count(*tokens_in(found))
        status, raw = failure[0], json.dumps(failure[1]).encode()
        raise self._error(status, headers, raw, sent, ", sent as a success")

    def _error(
        self, status: int, headers: Mapping[str, str], raw: bytes, sent: float, more: str = ""
    ) -> Exception:
        """What an error of the endpoint means."""
        text = self._masked(errors.message_of(raw, status, headers)) + more
        body = raw[:SHOWN].decode("utf-8", "replace")
        poor = errors.is_out_of_money(text, body)
        if errors.is_too_long(status, text):
            self.breaker.succeeded()
            return errors.Rejected(status, text, too_long=True)
        if status in {429, 503, 529} and not poor:
            self.breaker.succeeded()
            self.concurrency.throttled(sent)
            if (seconds := retry_after(headers, body)) is not None:
                if seconds > self.policy.deadline:
                    until = _clock(seconds)
                    return LimitReached(
                        f"{self.transport.url} asks to wait until {until} (HTTP {status}: {text})"
                    )
                self.pause.start(sent, seconds)  # for all requests
            return errors.Throttled(seconds, f"HTTP {status}: {text}")
        if poor or errors.is_useless(status, text, worked=self._worked):
            self.breaker.succeeded()
            self._unusable = f"{self.transport.url} cannot be used: HTTP {status}: {text}"
            return JudgeError(self._unusable)
        if status >= 500 or status in {errors.UNKNOWN, 408, 409, 425}:
            self.breaker.reached = self.breaker.reached or status != errors.UNKNOWN
            return self._transport_error(f"HTTP {status}: {text}")
        self.breaker.succeeded()
        return errors.Rejected(status, text)

    def _wait(self, seconds: float | None, call: CallState) -> float:
        """How long a call waits: Retry-After with jitter, and from the second time on no less than the backoff."""
        backoff = self.policy.delay(call.waits)
        if seconds is None:
            return backoff
        seconds += random.uniform(0, min(1.0, seconds / 10))  # noqa: S311 - no secret
        return max(seconds, backoff) if call.waits > 1 or seconds < _SHORT_WAIT else seconds

    def _masked(self, text: str) -> str:
        """An error's text as it may be shown, even where a server repeats the key."""
        for secret in self.transport.secrets:
            text = text.replace(secret, "***")
        return text

    def _transport_error(self, why: str) -> errors.TransportError:
        why = self._masked(why)
        if self.breaker.failed(why):
            seconds = self.breaker.outage
            _log.warning("%s does not answer: %s; trying for %.0f s more", self.transport.url, why, seconds)
        return errors.TransportError(why)

    def _count_failure(self, error: errors.TransportError, call: CallState) -> None:
        """Count a failure; raise where there is no further attempt. While the circuit is open it costs none."""
        call.faults += 1
        call.failures += not self.breaker.open
        if call.failures >= self.policy.attempts:
            raise self._gone(f"no answer in {call.failures} attempts: {error}") from None
        if self.breaker.exhausted:
            raise self._gone(self.breaker.exhausted) from None

    def _gone(self, why: str) -> Exception:
        """JudgeError where the endpoint has never answered, else NoAnswer."""
        if self.breaker.reached:
            return errors.NoAnswer(why)
        self._unusable = f"{self.transport.url} does not answer: {why}"
        return JudgeError(self._unusable)


def _clock(seconds: float) -> str:
    """The time then, with its date where that is not today's."""
    now = datetime.now().astimezone()
    then = now + timedelta(seconds=min(seconds, _YEARS))
    return f"{then:%H:%M}" if then.date() == now.date() else f"{then:%Y-%m-%d %H:%M}"
