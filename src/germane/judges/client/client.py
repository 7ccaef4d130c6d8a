"""The client of one model endpoint: it sends requests, and decides from each response what to do next.

It waits and retries as RetryPolicy says. When failures come in a row, all requests are held back and fewer
are sent, until an answer comes or the endpoint is given up. An error that no other request can avoid (invalid
key, unknown model, no credit) is raised as JudgeError in all calls. The caller counts unusable answers.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import TYPE_CHECKING, TypeAlias

from germane.errors import AnswerError, JudgeError, LimitReached
from germane.judges.client.chat import (
    BYTES_PER_TOKEN,
    PROMPT,
    ROOM,
    Completion,
    Correction,
    ModelCapabilities,
    completion_in,
    tokens_in,
)
from germane.judges.client.ratelimits import AdaptiveConcurrency, CircuitBreaker, RateLimiter
from germane.judges.client.retry import (
    UNKNOWN,
    RetryDecision,
    RetryPolicy,
    TransportError,
    decide,
    is_over_limit,
)
from germane.judges.judge import GaveUp, waiting
from germane.questions.fusing import Ask

if TYPE_CHECKING:
    from germane.judges.client.foreign import PydanticAITransport
    from germane.judges.client.function import FunctionTransport
    from germane.judges.client.transport import HTTPTransport

    Transport: TypeAlias = HTTPTransport | FunctionTransport | PydanticAITransport
    """What sends requests: it has a `url` (the name in error messages) and `secrets`, and can `send` and `close`."""

MOST_THOUGHTS = 1 << 14  # tokens for a model's reasoning at most, where the user has named no limit
_HOPELESS = 30  # requests that an endpoint which never answered may refuse before it is given up
_DOWN = 2  # failures after which the backoff equals the pause between requests to an endpoint that is down

_LONG_CHARACTERS, _SMALLEST_TOKENS = 4000, 512  # of a text that no server cuts off; of the smallest context
_CUT_OFF_CHARACTERS, _FULL_CHARACTERS = 8, 5
"""Characters per token that no script reaches, and that few texts reach. Above the first a prompt was cut off; above the
second it was where the server read exactly as many tokens as a context of a usual size holds."""
_CONTEXT_TOKENS = {1024 << n for n in range(8)}
_SAME_TOKENS = 16  # tokens by which two counts of a full context differ

_log = logging.getLogger("germane")


@dataclass(slots=True)
class ModelCall:
    """The state of one call, which the client reads and changes from its first request to its last.

    `used` counts `requests`, responses that ask to wait (`waits`), failures in transit (`faults`), retries
    after unusable answers (`reasked`), and tokens (`input`, `output`, `cached` input).
    """

    left: float  # seconds until the deadline
    used: Counter[str] = field(default_factory=Counter)
    estimated: bool = False  # tokens were estimated from bytes: the endpoint does not count them
    model: str = ""  # the model that gave the last answer, as the endpoint names it
    mode: int = 0  # index in MODES of the next request, unless the capabilities name a later one
    limit: int = 0  # token limit of the last request's answer; 0 if it named none
    own_limit: bool = False  # that limit was computed from the question, not set by the user
    limited: bool = False  # the schema of the last request limits the length of lists and texts
    thrown_away: int = 0  # answers with a schema that the endpoint discarded
    failures: int = 0  # attempts that failed in transit for the current question
    room: int = 0  # token limit of the next answer, after one was cut off; 0 if none was
    sent: float = 0.0  # the time of the last request
    taken: float = 0.0  # its tokens, as the rate limit counted them
    held: bool = False  # it counts as in flight: until the next one, or until the answers are stored


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

    async def complete(self, ask: Ask, call: ModelCall, note: Correction | None = None) -> Completion:
        """Return one answer of the model in the first output mode accepted; `note` corrects the last answer.

        Raises:
            GaveUp: The model or its provider declined, the texts are too long for the model, the endpoint
                accepts the request in no output mode, or attempts or time are used up.
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

    async def _admit(self, ask: Ask, call: ModelCall, pause: float) -> None:
        """Wait `pause` seconds and for all limits, and count a request as in flight.

        Raises JudgeError or GaveUp if the endpoint was given up meanwhile, so that no request is sent.
        """

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

    def release(self, call: ModelCall) -> None:
        """Count the last request of a call as no longer in flight; further calls do nothing."""
        if call.held:
            call.held = False
            self._concurrency.release()
            if self._limiter is not None:
                self._limiter.release()

    def _compose(self, ask: Ask, note: Correction | None, call: ModelCall) -> bytes:
        """Return a request's body, built just before it is sent to reflect what other calls have learned."""
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

    async def _send(self, body: bytes, call: ModelCall) -> RetryDecision:
        """Send one request, and return what to do next according to its response."""
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
        if decision.action != "retry":  # any answer, even a refusal, shows that the endpoint is up
            self.breaker.succeeded()
        if decision.action == "take":
            self._worked = True
            self._concurrency.succeeded(call.sent)
            return decision
        sent, back, cached = tokens_in(decision.body)
        call.used.update(input=sent or 0, output=back or 0, cached=cached)
        return decision._replace(text=secrets.mask_text(decision.text))

    def _count(self, got: Completion, call: ModelCall, size: int) -> Completion:
        """Count an answer's tokens and return it, marked as cut off if it filled its limit and is not JSON.

        `size` is the estimate of the request's tokens, for an endpoint that counts none. Raises GaveUp if the
        model declined to answer.
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
        full = call.limit and (got.output_tokens or 0) >= call.limit  # whatever the server calls it
        return replace(got, cut=True) if full and got.fault else got

    def _check_read(self, read: int, ask: Ask, sent: int) -> None:
        """Raise GaveUp if the server cut the prompt off: it read far fewer tokens than it was sent."""
        size = len(" ".join(ask.user.split()))
        if read > self._cuts_at + _SAME_TOKENS:
            self._cuts_at = 0  # it reads more after all
        sparse = read >= _SMALLEST_TOKENS and read * _CUT_OFF_CHARACTERS < size
        full = read in _CONTEXT_TOKENS and read * _FULL_CHARACTERS < size
        if sparse or full or (self._cuts_at and self._cuts_at - read < _SAME_TOKENS):
            self._cuts_at = max(read, self._cuts_at)
            raise GaveUp(
                f"the server read {read:,} tokens of about {sent:,}: it silently cuts off prompts longer than"
                " its context; give the model a longer context (Ollama: set OLLAMA_CONTEXT_LENGTH)",
                too_long=True,
            )

    def widen(self, got: Completion, ask: Ask, call: ModelCall) -> bool:
        """Raise the token limit for the next answer after one was cut off; return False if that cannot help.

        The computed limit is generous: an answer that used it up gets more only if the model spent it on
        reasoning. An answer that was cut off below the limit met a lower one of the server.
        """
        capabilities, used, limit = self.capabilities, got.output_tokens, call.limit
        if call.own_limit and 2 * (used or limit) > limit:
            if got.thought and limit == capabilities.limit(ask):  # no other call has raised it meanwhile
                capabilities.thoughts = min(max(ROOM, 2 * capabilities.thoughts), MOST_THOUGHTS)
            return got.thought
        limit = 0 if call.own_limit else limit
        if not limit and (used or ROOM) < ROOM and capabilities.max_tokens is None:
            capabilities.max_tokens = ROOM  # the server's own is short: named in every request from now on
        call.room = max(2 * max(used or 0, limit), ROOM)
        return True

    def _pause(self, decision: RetryDecision, call: ModelCall) -> float:
        """Return the seconds to wait before a request is sent again, within the time left for the call.

        A Retry-After costs no attempt. A failure in transit costs one, unless the circuit is open: then all
        requests pause. Raises LimitReached if the endpoint asks to wait longer than a call may take, GaveUp or
        JudgeError if attempts, the time of an outage or the call's own time are used up.
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
        """Return the error to raise: JudgeError if the endpoint has never answered, else GaveUp."""
        return GaveUp(why, spent=True) if self.breaker.reached else self._stop(f"does not answer: {why}")

    def _stop(self, why: str) -> JudgeError:
        """Mark the endpoint as unusable for all calls, and return the JudgeError to raise."""
        self._unusable = f"{self.transport.url} {why}"
        return JudgeError(self._unusable)

    def _refused(self, decision: RetryDecision, call: ModelCall, size: int) -> None:
        """Raise the error of a refused request, or drop the limit or schema if that was what was refused.

        `size` is the request's length in tokens. Raises GaveUp, or AnswerError if the endpoint discarded an
        answer and the question is to be asked again in the same form.
        """
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
        if decision.action == "ask again":  # without a schema where two answers with one were thrown away
            capabilities.schema_ignored()
            call.thrown_away += call.mode < PROMPT
            if call.mode == PROMPT or call.thrown_away < min(2, self.policy.attempts):
                raise AnswerError(
                    f"the endpoint reports that the answer does not match the schema: {decision.text}"
                )
            call.mode = PROMPT

    def _change(self, decision: RetryDecision, call: ModelCall) -> None:
        """Drop what a refusal names from later requests; if it names nothing, use a simpler form of request.

        Raises GaveUp if no form is left, JudgeError if an endpoint that never answered refused too many requests.
        """
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
