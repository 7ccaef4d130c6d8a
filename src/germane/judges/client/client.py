"""ModelClient sends single requests to a model at an endpoint, with waits, retries and limits.

The client waits and retries as RetryPolicy says. After several failures in a row, all requests pause and
fewer requests are sent, until a response arrives or the client gives up. An error that would affect every
request (invalid key, unknown model, no credit) is raised as JudgeError in all calls.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from time import monotonic
from typing import TYPE_CHECKING, Protocol

from germane.errors import AnswerError, JudgeError, LimitReached, option
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
from germane.types import Json

if TYPE_CHECKING:
    from germane.judges.client.transport import Secrets

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


class Transport(Protocol):
    """What sends requests: HTTPTransport, FunctionTransport or PydanticAITransport."""

    url: str  # the name in error messages
    secrets: Secrets  # the keys to mask in responses

    async def send(self, body: bytes) -> tuple[int, Mapping[str, str], bytes]:
        """Send one request and return the response; raises TransportError if there is none."""

    async def close(self) -> None:
        """Close the connections."""


@dataclass(slots=True, kw_only=True, eq=False)
class CallState:
    """One call of a judge: what its requests have used so far, and the form of the last and the next request.

    `used` counts the `requests`, the responses that ask to wait (`waits`), the requests that failed in transit
    (`faults`), the retries after unusable answers (`reasked`), and the tokens (`input`, `output`, `cached`).
    """

    left: float  # seconds until the deadline
    used: Counter[str] = field(default_factory=Counter)
    failures: int = 0  # attempts that failed in transit for the current question
    thrown_away: int = 0  # answers that the endpoint discarded because of the schema
    estimated: bool = False  # tokens were estimated from bytes, because the endpoint does not report them
    model: str = ""  # the model that gave the last answer, as the endpoint names it
    mode: int = 0  # the next request's output mode in MODES, unless the capabilities name a later one
    room: int = 0  # the token limit of the next answer, after an answer was cut off; else 0
    limit: int = 0  # the last request's token limit; 0: none
    own_limit: bool = False  # germane computed that limit
    limited: bool = False  # the last request's schema limited lists and strings
    sent: float = 0.0  # when the last request was sent
    taken: float = 0.0  # its tokens as the rate limit counted them
    held: bool = False  # it counts as in flight: until the next one is sent or the answers are stored


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

    async def complete(self, ask: Ask, call: CallState, note: Correction | None = None) -> Completion:
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
            decision, pause = await self._send(body, call), 0.0
            match decision.action:
                case "take":
                    return self._read(decision.body, ask, note, call, len(body) // BYTES_PER_TOKEN)
                case "more room":
                    return Completion("", cut=True)
                case "retry" | "wait":
                    pause = self._pause(decision, call)
                case "stop":
                    raise self._stop(f"cannot be used: {decision.why}")
                case _:
                    self._change(decision, ask, note, call, body)

    async def _admit(self, ask: Ask, call: CallState, pause: float) -> None:
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

    def release(self, call: CallState) -> None:
        """Count the last request of `call` as no longer in flight. Repeating this has no effect."""
        if call.held:
            call.held = False
            self._concurrency.release()
            if self._limiter is not None:
                self._limiter.release()

    def _compose(self, ask: Ask, note: Correction | None, call: CallState) -> bytes:
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

    async def _send(self, body: bytes, call: CallState) -> RetryDecision:
        started, seconds = monotonic(), min(self.policy.read, call.left)
        secrets = self.transport.secrets
        try:
            call.used["requests"] += 1
            async with asyncio.timeout(seconds):
                status, headers, raw = await self.transport.send(body)
            if not 200 <= status < 300:
                headers = {name.lower(): secrets.mask_text(value) for name, value in headers.items()}
            decision = decide(status, headers, secrets.mask(raw), worked=self._worked)
        except TimeoutError:
            self._concurrency.throttled(call.sent)
            decision = RetryDecision("retry", f"no answer within {seconds:.3g} s ({option('--timeout')})")
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

    def _read(
        self, body: Mapping[str, Json], ask: Ask, note: Correction | None, call: CallState, size: int
    ) -> Completion:
        """Return the answer in a response's body and count its tokens; `size` is the estimate of the request's.

        An answer that reached the token limit and is not valid JSON is marked as cut off. Raises GaveUp if the
        model declined to answer, or if the server silently cut the prompt off.
        """
        got = completion_in(body, ask.name)
        sent, back = got.input_tokens, got.output_tokens
        if sent is None or back is None:
            call.estimated, sent = True, size
            back = len(got.text.encode("utf-8", "replace")) // BYTES_PER_TOKEN
        call.used.update(input=sent, output=back, cached=got.cached_tokens)
        call.model = got.model
        if self._limiter is not None:
            self._limiter.correct(sent + back - call.taken)
        if got.refusal:
            raise GaveUp(got.refusal)
        if note is None and (read := got.input_tokens) is not None and len(ask.user) > _LONG_CHARACTERS:
            if read > self._cuts_at + _SAME_TOKENS:
                self._cuts_at = 0  # the server can read longer prompts than assumed
            length = len(" ".join(ask.user.split()))
            sparse = read >= _SMALLEST_TOKENS and read * _CUT_OFF_CHARACTERS < length
            full = read in _CONTEXT_TOKENS and read * _FULL_CHARACTERS < length
            if sparse or full or (self._cuts_at and self._cuts_at - read < _SAME_TOKENS):
                self._cuts_at = max(read, self._cuts_at)
                raise GaveUp(
                    f"the server read {read:,} tokens of about {size:,}: it silently cuts off prompts longer than"
                    " its context; give the model a longer context (Ollama: set OLLAMA_CONTEXT_LENGTH)",
                    too_long=True,
                )
        full = call.limit > 0 and (got.output_tokens or 0) >= call.limit  # whatever the finish reason is
        return replace(got, cut=True) if full and got.fault else got

    def widen(self, got: Completion, ask: Ask, call: CallState) -> bool:
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

    def _pause(self, decision: RetryDecision, call: CallState) -> float:
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

    def _change(
        self, decision: RetryDecision, ask: Ask, note: Correction | None, call: CallState, body: bytes
    ) -> None:
        """After a refusal of `body`, change the form of the next request; raise an error if none can help."""
        capabilities, too_long, why = self.capabilities, decision.action == "too long", decision.why
        if call.limit and is_over_limit(decision.text):
            if call.own_limit:
                capabilities.token_limits = False
                return
            if call.room or not too_long:
                lower = f"set a lower {option('--model-parameter max_tokens=N', 'max_output_tokens')}"
                problem = f"the endpoint does not allow answers of up to {call.limit:,} tokens ({why})"
                raise GaveUp(f"{problem}; {'use another model' if call.room else lower}")
        if too_long:
            size = len(body) // BYTES_PER_TOKEN
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
        if self._compose(ask, note, call) != body:  # another call has changed the form meanwhile
            return
        # stop sending what the refusal names, else the limits, else use a simpler output mode
        if capabilities.learn(decision.text, call.mode, limited=call.limit > 0) or (
            not capabilities.proven and capabilities.drop_limits(tokens=call.own_limit)
        ):
            return
        self._rejected += 1
        if self._rejected >= _HOPELESS and not self._worked:
            raise self._stop(f"refused all {self._rejected} requests; the reason for the last: {why}")
        if capabilities.proven or call.mode == PROMPT:
            raise GaveUp(why)
        call.mode += 1
