"""The judge that asks a language model: at an OpenAI-compatible endpoint, or through pydantic-ai."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from types import MethodType
from typing import Literal
from urllib.parse import urlsplit

from germane.errors import InputError, Invalid, MissingPart, install_extra, option
from germane.judges.client.chat import LIMIT_NAMES, PROMPT, ROOM, ModelCapabilities
from germane.judges.client.client import ModelClient, Transport
from germane.judges.client.group import GroupCall
from germane.judges.client.providers import PROVIDERS, Price, check_headers, find, price_of
from germane.judges.client.ratelimits import AdaptiveConcurrency, RateLimiter
from germane.judges.client.retry import RetryPolicy, check_number
from germane.judges.client.transport import FunctionTransport, HTTPTransport, OwnModel
from germane.judges.judge import Judge, Reply, keep_replies, once_stored, trivial_answer
from germane.questions.fusing import FusedRequest, fused_requests, in_batches, render_request
from germane.questions.prompts import Prompts, fingerprint, fragment
from germane.questions.question import AnyQuestion
from germane.types import FrozenDict, Json, Usage, freeze

__all__ = ["model_of"]

START = 16  # the initial number of requests in flight if the user gave no number
MOST = 64  # the maximum number of requests in flight if the user gave no number

_OURS = frozenset(("model", "messages", "response_format", "tools", "tool_choice", "stream", "n"))
"""Fields of a request that germane sets itself, so that the user's parameters may not set them."""

_SERVED = "service_tier user safety_identifier prompt_cache_key prompt_cache_retention store metadata"
TRANSPORT = frozenset(_SERVED.split())
"""Parameters for serving, billing or logging a request. They change no answer, so ledger keys ignore them."""


class LLMJudge(Judge):
    """A language model as the judge.

    Args:
        spec: `provider:model` (`openai:gpt-4o-mini`), a provider with a default model, `provider:model@URL`,
            a chat model of LangChain, or a function (asynchronous or not) from prompt to text.
        name: Name of a model that is given as an object or function. Without a name, its answers are not
            reused.
        base_url: Another OpenAI-compatible server. Default: the provider's own, or its environment variable.
        api_key: Default: the provider's environment variable.
        headers: HTTP headers to send with every request.
        temperature: Sampling temperature. None sends no temperature, because some models refuse it.
        max_output_tokens: Maximum tokens of an answer. If an answer is cut off, it is requested again with
            more.
        parameters: Other request parameters (`{"seed": 7, "reasoning_effort": "low"}`).
        concurrency: Maximum requests in flight. None adapts to the endpoint, up to 64.
        limiter: Requests and tokens per minute: `germane.judges.RateLimiter(rpm=500)`. Several judges may use
            the same.
        reading: "fused" asks all questions about a text in one request, "single" sends one request per
            question.
        batch: Maximum number of passages of a query, or of texts to extract from, per request.
        prompts: Your own prompt files, by the name of the prompt that each replaces.
        price: Price per million tokens. Default: it is looked up.
        retry: Timeouts, deadline, attempts and backoff.
        trusted: False if `spec` comes from a file: a URL in it then gets no key from the environment.

    Raises InputError if the provider or a setting is unknown.
    """

    stored = True

    def __init__(
        self,
        spec: str | OwnModel = "openai",
        *,
        name: str | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        temperature: float | None = 0.1,
        max_output_tokens: int | None = None,
        parameters: Mapping[str, Json] | None = None,
        concurrency: int | None = None,
        limiter: RateLimiter | None = None,
        reading: Literal["fused", "single"] = "fused",
        batch: int = 1,
        prompts: Mapping[str, str | Path] | None = None,
        price: Price | None = None,
        retry: RetryPolicy | None = None,
        trusted: bool = True,
    ) -> None:
        own = dict(parameters or {})
        temperature = own.pop("temperature", temperature)
        counts = {"batch": batch, "max_output_tokens": max_output_tokens, "concurrency": concurrency}
        _check(own, reading, temperature, counts)
        self.temperature = None if temperature is None else float(temperature) + 0.0  # and no -0.0
        self._own: FunctionTransport | None = None
        if isinstance(spec, str):
            self.service = find(spec, base_url, trusted=trusted)
        else:
            sent = {"base_url": base_url, "api_key": api_key, "headers": headers, "parameters": own}
            if unsent := next((option for option, value in sent.items() if value), None):
                problem = f"the option {unsent} has no effect on a function or chat model of your own"
                raise InputError(problem, fix=f"leave {unsent} out and set it in the model itself")
            self._own = FunctionTransport(spec, name)
            self.service = self._own.service
            self.temperature, concurrency = None, concurrency or self._own.at_once
            self.kept = bool(self.service.model)
        if headers and not self.service.trusted:
            problem = "headers are not sent to the URL of a judge that is named in a file"
            raise InputError(problem, fix=f"give the URL as {option('--base-url')}")
        check_headers(headers or {})
        self.name, self.prompts, self.retry = self.service.name, Prompts(prompts), retry or RetryPolicy()
        # a token limit among the parameters replaces max_output_tokens; its name there is the first to be tried
        self._limits = {name: own.pop(name) for name in LIMIT_NAMES if type(own.get(name)) is int}
        self._parameters, self._max_tokens = own, max_output_tokens
        self.requests = AdaptiveConcurrency(concurrency or MOST, None if concurrency else START)
        # a few more groups than requests in flight, so that the next request can always be sent at once
        self.concurrency = (concurrency or MOST) + max(2, (concurrency or MOST) // 8)
        self.fuse, self._batch = reading == "fused", batch
        self._price, self._key, self._limiter = price, api_key, limiter
        self._headers = {name: value.strip() for name, value in (headers or {}).items()}
        self._client: ModelClient | None = None
        self._calls, self._closing = 0, False
        self._loop: asyncio.AbstractEventLoop | None = None
        self.identity = self._identity()

    def _identity(self) -> FrozenDict:
        shown = {name: value for name, value in self._parameters.items() if name not in TRANSPORT}
        identity = {
            "provider": self.service.provider,
            "model": self.service.model,
            "base_url": self.service.custom or None,
            "temperature": self.temperature,
            "parameters": shown or None,
            **({} if self._own is None else self._own.settings),
        }
        try:
            return freeze({name: value for name, value in identity.items() if value is not None})  # type: ignore[no-any-return]
        except Invalid as invalid:
            raise invalid.under("parameters").error(None) from None

    @cached_property
    def capabilities(self) -> ModelCapabilities:
        """What requests to the model may contain.

        Only requests to the user's own server set limits, because providers reserve the requested tokens.
        OpenAI's newer models refuse the older name of the token limit; most other servers silently ignore the
        newer one.
        """
        service, traits, most = self.service, self.service.traits, self._max_tokens
        newer = service.provider == "azure" or (service.provider == "openai" and not service.custom)
        names: tuple[str, ...] = LIMIT_NAMES[::-1] if newer else LIMIT_NAMES
        for name, limit in self._limits.items():
            names, most = (name, *(other for other in LIMIT_NAMES if other != name)), limit
        own_server = service.provider in PROVIDERS and bool(service.custom or traits.local)
        return ModelCapabilities(
            model=service.model,
            temperature=self.temperature,
            max_tokens=most or (ROOM if traits.extra else None),
            parameters=self._parameters,
            schema_limits=own_server and not traits.extra,
            token_limits=own_server and not traits.extra,
            limit_names=names,
            mode=PROMPT if self._own is not None else 0,
        )

    @cached_property
    def price(self) -> Price | None:
        """The model's price; None if it is unknown."""
        if self._price is not None or self.service.custom or self._own is not None:
            return self._price
        tier = str(self._parameters.get("service_tier", "auto"))
        return price_of(self.service.provider, self.service.model) if tier in {"auto", "default"} else None

    def headers(self) -> dict[str, str]:
        """Return the HTTP headers of requests, with the API key. Raises JudgeError if it is missing."""
        return self.service.headers(self._key, self._headers)

    def ready(self) -> ModelClient:
        """Return the client, made by the first call. Raises JudgeError if a key or an extra is missing."""
        if self._client is not None:
            return self._client
        service = self.service
        transport: Transport | None = self._own
        if service.traits.extra:
            key = service.secret(self._key)
            try:
                from germane.judges.client.foreign import PydanticAITransport

                transport = PydanticAITransport(service, key, self._headers)
            except ImportError:
                raise MissingPart(
                    f"the judge {service.name} needs the extra {service.provider}, which is not installed",
                    fix=install_extra(service.provider),
                ) from None
            if not transport.takes_temperature and self.capabilities.temperature is not None:
                self.capabilities.temperature = None
                self.capabilities.left_out += ("temperature",)
        elif transport is None:
            url, most = service.at("chat/completions"), self.requests.limit
            transport = HTTPTransport(url, self.headers(), connect=self.retry.connect, most=most)
        self._client = ModelClient(transport, self.capabilities, self.retry, self.requests, self._limiter)
        return self._client

    def prompt_hash(self, question: AnyQuestion) -> str:
        """Return the hash of the question's prompt, plus the list prompt if it may be asked in a batch."""
        prompt = self.prompts.of(question)
        listed = self._batch > 1 and question.batched and not prompt.pieces
        return fingerprint(prompt.hash, fragment("list")) if listed else prompt.hash

    def group(self, questions: Sequence[AnyQuestion]) -> list[tuple[AnyQuestion, ...]]:
        """Divide the questions into groups, one per request; those about an empty text form their own."""
        asked = [question for question in questions if question.unasked() is None]
        known = [(question,) for question in questions if question.unasked() is not None]
        fused = fused_requests(asked, self.prompts, fuse=self.fuse)
        lists = in_batches(fused, self.prompts, self._batch) if self._batch > 1 else ([row] for row in fused)
        return [*(tuple(question for row in rows for question in row.questions) for rows in lists), *known]

    def fused(self, questions: tuple[AnyQuestion, ...]) -> Sequence[FusedRequest]:
        """Return the questions of one group as FusedRequests; questions about the same text can be in one."""
        return fused_requests(questions, self.prompts, fuse=self.fuse)

    def forecast(self, questions: tuple[AnyQuestion, ...]) -> Usage:
        """Return the estimated usage of one request: 4 bytes per token, answers of typical length."""
        if trivial_answer(questions[0]):
            return Usage(cost_usd=0.0)
        ask = render_request(self.fused(questions), self.prompts)
        sent = len(self.capabilities.body(ask)) // 4
        back = sum(len(str(question.typical())) for question in questions) // 4
        cost = None if self.price is None else self.price.cost(sent, back)
        return Usage(requests=1, input_tokens=sent, output_tokens=back, cost_usd=cost)

    async def answer(self, questions: tuple[AnyQuestion, ...]) -> Sequence[Reply]:
        """Return one reply per question. Raises InputError if another event loop is using this judge."""
        if (reply := trivial_answer(questions[0])) is not None:
            return [reply]
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            if self._calls:
                fix = f'make a judge for each thread, or pass its name: judge="{self.name}"'
                raise InputError(f"the judge {self.name} is in use in another thread or event loop", fix=fix)
            self._loop, self._client = loop, None  # its connections belong to the other loop
        call = GroupCall(self.ready(), self.prompts, self.fused(questions))
        if not self._calls and "price" not in self.__dict__:
            # load the list of prices while waiting for the first answer
            threading.Thread(target=getattr, args=(self, "price"), daemon=True).start()
        self._calls += 1
        try:
            await call.run()
        except BaseException:
            keep_replies(MethodType(LLMJudge.answer, self), call.replies(questions, self.price))
            raise
        finally:
            once_stored(lambda: call.client.release(call))
            self._calls -= 1
            if self._closing:
                await self.close()
        return call.replies(questions, self.price)

    async def close(self) -> None:
        """Close the connections, after the last call of another evaluation that is in progress."""
        self._closing = self._calls > 0
        if self._client is not None and not self._closing:
            client, self._client = self._client, None
            if self._loop is asyncio.get_running_loop():
                await client.transport.close()


def model_of(judge: Judge) -> LLMJudge | None:
    """Return the LLMJudge that a judge is, or that it repeats (Replica); None for any other judge."""
    model = getattr(judge, "judge", judge)
    return model if isinstance(model, LLMJudge) else None


def _check(
    parameters: Mapping[str, Json], reading: str, temperature: float | None, counts: Mapping[str, int | None]
) -> None:
    if ours := ", ".join(sorted(_OURS & parameters.keys())):
        problem = f"the model parameters include {ours}, which germane sets itself"
        raise InputError(problem, fix=f"leave out {ours}")
    if reading not in {"fused", "single"}:
        raise InputError(f"unknown value {reading!r} of reading", fix="write fused or single")
    if temperature is not None:
        check_number("temperature", temperature, least=0)
    for name, value in counts.items():
        if value is not None:
            check_number(name, value, least=1, whole=True)


def check_shared(judges: Iterable[object], base_url: str | None, headers: object) -> None:
    """Raise InputError if judges of several providers have one base URL, or several hosts headers."""
    services = [judge.service for judge in judges if isinstance(judge, LLMJudge)]
    fix = "name each judge as PROVIDER:MODEL@URL, and set its key in the environment"
    if base_url and len({service.provider for service in services}) > 1:
        raise InputError("one base URL cannot be used for judges of different providers", fix=fix)
    if headers and len({urlsplit(service.url).netloc for service in services}) > 1:
        raise InputError("the same headers cannot be sent to judges at different hosts", fix=fix)
