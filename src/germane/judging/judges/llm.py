"""The judge that asks a language model: any OpenAI-compatible endpoint, and other providers as extras."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Literal
from urllib.parse import urlsplit

from germane.errors import InputError
from germane.judges.judge import Judge, Reply, apart, without_asking
from germane.judging.calling import Call
from germane.judging.endpoint import Endpoint
from germane.judging.gate import Gate
from germane.judging.ladder import ROOM, Habits
from germane.judging.limitname import LimitName
from germane.judging.limits import Level
from germane.judging.patience import Patience
from germane.judging.prices import Price, price_of
from germane.judging.providers import Service, check_headers, find
from germane.judging.rates import Limits
from germane.judging.transport import HTTPTransport, Transport
from germane.questions import AnyQuestion
from germane.questions.prompts import Prompts, fingerprint, part
from germane.questions.question import Listed
from germane.questions.reading import listed, readings, word
from germane.types import FrozenDict, Json, Usage, freeze

__all__ = ["LLMJudge", "check_shared"]

START = 16
"""Requests in flight to begin with where the right number is to be found."""

_STRUCTURE = "leave it out: how answers are structured is found out"
OURS = {
    "model": "name it as PROVIDER:MODEL",
    "messages": "write a prompt of your own: prompts={'relevance': 'my.md'}, or --prompt relevance=my.md",
    "response_format": _STRUCTURE,
    "tools": _STRUCTURE,
    "tool_choice": _STRUCTURE,
    "stream": "leave it out: answers are read whole",
    "n": "leave it out, and ask several times: repeat 3",
}
"""Parts of a request that no parameter may set, and what to do instead."""


class LLMJudge(Judge):
    """A language model as the judge.

    Args:
        spec: `provider:model` (`openai:gpt-4o-mini`), a provider with a default model (`openai`), or
            `provider:model@URL`.
        base_url: Another OpenAI-compatible server. Without it the provider's own, or its environment variable.
        api_key: Without it the provider's environment variable.
        headers: Sent with every request.
        temperature: None sends none. A model that takes none is noticed and asked without.
        max_output_tokens: A limit of an answer's length; an answer cut by it is asked again with more room.
        parameters: Anything else for the request's body (`{"seed": 7, "reasoning_effort": "low"}`). A `temperature`
            among them is the temperature, a `max_tokens` the limit of an answer's length.
        concurrency: Requests in flight at most. None finds the level that the endpoint keeps up with, up to 64.
        rpm, tpm: Requests and tokens a minute at most.
        limits: In the place of these two: what several judges keep to together (`germane.judges.Limits`).
        reading: "fused" asks what concerns one text in one request, "single" one question a request.
        batch: Up to so many passages of one query, or texts to extract from, in one request.
        prompts: Your own wording: the name of a prompt and its file.
        price: Where it is not to be looked up.
        patience: Timeouts, deadline, attempts.
        trusted: False where `spec` stands in a file: a URL in it then gets no key from the environment.

    Raises:
        InputError: There is no such provider, or a setting is none.
    """

    stored = True
    one_loop = True  # its connections belong to the event loop that opened them

    def __init__(
        self,
        spec: str = "openai",
        *,
        base_url: str | None = None,
        api_key: str | None = None,
        headers: Mapping[str, str] | None = None,
        temperature: float | None = 0.1,
        max_output_tokens: int | None = None,
        parameters: Mapping[str, Json] | None = None,
        concurrency: int | None = None,
        rpm: float | None = None,
        tpm: float | None = None,
        limits: Limits | None = None,
        reading: Literal["fused", "single"] = "fused",
        batch: int = 1,
        prompts: Mapping[str, str | Path] | None = None,
        price: Price | None = None,
        patience: Patience | None = None,
        trusted: bool = True,
    ) -> None:
        own = dict(parameters or {})
        temperature = own.pop("temperature", temperature)
        _check_parameters(own)
        _check(
            reading, temperature, batch=batch, max_output_tokens=max_output_tokens, concurrency=concurrency
        )
        if limits is not None and (rpm, tpm) != (None, None):
            raise InputError("an LLMJudge cannot have both limits and rpm or tpm", fix="give one of them")
        limits = limits or Limits(rpm=rpm, tpm=tpm)
        temperature = None if temperature is None else float(temperature) + 0.0  # and no -0.0
        self.service = find(spec, base_url, trusted=trusted)
        if headers and not self.service.trusted:
            raise InputError(
                "no header is sent to a URL that stands in a file", fix="give the URL by --base-url"
            )
        check_headers(headers or {})
        self.name = self.service.name
        self.prompts = Prompts(prompts)
        self.patience = patience or Patience()
        self.level = Level(concurrency or 64, None if concurrency else START)
        self.habits = Habits(
            model=self.service.model,
            temperature=temperature,
            limit=max_output_tokens or (ROOM if self.service.extra else None),
            parameters=own,
            limit_name=LimitName(_limit_name(self.service)),
        )
        self.identity = _identity(self.service, temperature, self.habits.parameters)
        self._fuse, self._batch = reading == "fused", batch
        self._price = price
        self._pricing: Future[Price | None] | None = None
        self._priced = price is not None or bool(self.service.custom)
        self._key, self._headers, self._limits = api_key, _stripped(headers), limits
        self._endpoint: Endpoint | None = None

    @property
    def concurrency(self) -> int:  # type: ignore[override]
        """Groups to hand over at once: some more than requests in flight, so that none is waited for."""
        return self.level.cap + max(2, self.level.cap // 8)

    @property
    def price(self) -> Price | None:
        """What a million tokens cost; None = unknown."""
        if not self._priced:
            self._price, self._priced = self._look_up().result(), True
        return self._price

    def _look_up(self) -> Future[Price | None]:
        """The price, looked up in a thread: the list of prices loads while the first answer is on its way."""
        if self._pricing is None:
            thread = ThreadPoolExecutor(1, thread_name_prefix="germane-prices")
            self._pricing = thread.submit(price_of, self.service.provider, self.service.model)
            thread.shutdown(wait=False)
        return self._pricing

    def ready(self) -> Endpoint:
        """The endpoint, opened; JudgeError where the key is missing, MissingPart an extra. Nothing is sent."""
        if self._endpoint is None:
            limits = self._limits if self._limits.any else None
            gate = Gate(self.level, limits, longest=self.patience.deadline)
            self._endpoint = Endpoint(self._transport(), gate, self.patience)
        return self._endpoint

    def _transport(self) -> Transport:
        if not self.service.extra:
            headers = self.service.headers(self._key, self._headers)
            return HTTPTransport(
                self.service.completions, headers, connect=self.patience.connect, most=self.level.cap
            )
        from germane.judging.foreign import ForeignTransport

        foreign = ForeignTransport(self.service, self.service.secret(self._key), self._headers)
        self.habits.rung = max(self.habits.rung, foreign.rung)
        if not foreign.takes_temperature:
            self.habits.temperature = None
        return foreign

    def prompt_hash(self, question: AnyQuestion) -> str:
        """The hash of the question's own wording. Where it would be asked in a list, it is Listed, and another one."""
        prompt = self.prompts[question.prompt]
        if self._batch > 1 and question.batched and not prompt.pieces:
            return Listed(fingerprint(prompt.hash, part("list")), prompt.hash)
        return prompt.hash

    def group(self, questions: Sequence[AnyQuestion]) -> list[tuple[AnyQuestion, ...]]:
        """Readings, and lists of them, as the settings say."""
        asked, others = apart(questions)
        found = readings(asked, self.prompts, fuse=self._fuse)
        lists = listed(found, self.prompts, self._batch) if self._batch > 1 else ([one] for one in found)
        groups = [tuple(question for one in group for question in one.questions) for group in lists]
        return groups + others

    def forecast(self, questions: tuple[AnyQuestion, ...]) -> Usage:
        """What one group would cost if nothing goes wrong: bytes of the request and of typical answers, by 4."""
        if without_asking(questions[0]):
            return Usage(cost_usd=0.0)
        ask = word(readings(questions, self.prompts, fuse=self._fuse), self.prompts)
        sent = len(self.habits.body(ask)) // 4
        back = sum(len(str(question.typical())) for question in questions) // 4
        cost = None if self.price is None else self.price.cost(sent, back)
        return Usage(requests=1, input_tokens=sent, output_tokens=back, cost_usd=cost)

    async def answer(self, questions: tuple[AnyQuestion, ...]) -> Sequence[Reply]:
        """One reply a question; what a list leaves open is asked singly."""
        if (reply := without_asking(questions[0])) is not None:
            return [reply]
        items = readings(questions, self.prompts, fuse=self._fuse)
        call = Call(self.ready(), self.habits, self.prompts, items)
        if not self._priced:
            self._look_up()
        await call.run()
        return call.replies(questions, self.price)

    async def close(self) -> None:
        """Close the connections."""
        if self._endpoint is not None:
            await self._endpoint.close()


def _check(reading: str, temperature: float | None, **counts: int | None) -> None:
    """InputError where a setting is none: a judge that took it for another would give verdicts under a wrong key."""
    if reading not in {"fused", "single"}:
        raise InputError(f"there is no reading {reading!r}", fix="write fused or single")
    number = isinstance(temperature, int | float) and not isinstance(temperature, bool)
    if temperature is not None and not (number and 0 <= temperature < math.inf):
        raise InputError(f"temperature={temperature!r} is not possible", fix="write a number from 0, or None")
    for name, value in counts.items():
        if value is not None and (type(value) is not int or value < 1):
            raise InputError(f"{name}={value!r} is not possible", fix="write a whole number from 1")


def _check_parameters(parameters: Mapping[str, Json]) -> None:
    """InputError where one would replace what the request is made of, or ask for what is not read."""
    for name in parameters:
        if name in OURS:
            raise InputError(f"a model parameter cannot set {name}: germane does", fix=OURS[name])


def check_shared(judges: Iterable[object], base_url: str | None, headers: object) -> None:
    """InputError where a base URL or headers would go to judges of different providers or hosts alike."""
    services = [judge.service for judge in judges if isinstance(judge, LLMJudge)]
    shared = ""
    if base_url and len({service.provider for service in services}) > 1:
        shared = "one base URL is not for judges of different providers"
    elif headers and len({urlsplit(service.url).netloc for service in services}) > 1:
        shared = "the same headers are not for judges at different hosts"
    if shared:
        raise InputError(shared, fix="write PROVIDER:MODEL@URL for each, with its key in the environment")


def _limit_name(service: Service) -> str:
    """OpenAI's newer models refuse the old name, and say so; most servers of others pass over the new one in silence."""
    own = service.provider == "azure" or (service.provider == "openai" and not service.custom)
    return "max_completion_tokens" if own else "max_tokens"


def _stripped(headers: Mapping[str, str] | None) -> dict[str, str]:
    return {name: value.strip() for name, value in (headers or {}).items()}


def _identity(service: Service, temperature: float | None, parameters: Mapping[str, Json]) -> FrozenDict:
    """What of the settings can change an answer. A limit of its length is none of them: what it cuts is asked again."""
    identity: dict[str, Json] = {"provider": service.provider, "model": service.model}
    if service.custom:
        identity["base_url"] = service.custom
    if temperature is not None:
        identity["temperature"] = temperature
    if parameters:
        identity["parameters"] = dict(parameters)
    return freeze(identity)  # type: ignore[no-any-return]
