"""The providers of models: `provider:model` names, base URLs, keys, headers, prices.

An API key is sent only to its provider's own host, or to a base URL from a call, a flag or the environment.
It is never sent to a base URL from a file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from germane.clean import mask_urls
from germane.errors import InputError, JudgeError, MissingKey, option
from germane.judges.client.retry import check_number
from germane.samples.files import check_unmasked, nearest

__all__ = ["PROVIDERS", "Service"]


@dataclass(frozen=True, slots=True)
class Provider:
    """One provider: its base URL, its environment variables, and the details in which it differs from others."""

    url: str  # the base URL; "" if the user must give one
    key: str  # the environment variable with the key
    base: str  # the environment variable with another base URL
    model: str = ""  # the default model
    path: str = ""  # added to a base URL without a path
    header: str = "authorization"  # the header in which the key is sent
    local: bool = False  # no key is needed
    extra: bool = False  # the provider uses its own protocol, supported by germane's extra of the same name


_GOOGLE = "https://generativelanguage.googleapis.com"

PROVIDERS: Mapping[str, Provider] = {
    "openai": Provider("https://api.openai.com/v1", "OPENAI_API_KEY", "OPENAI_BASE_URL", "gpt-4o-mini"),
    "azure": Provider(
        "", "AZURE_OPENAI_API_KEY", "AZURE_OPENAI_ENDPOINT", path="/openai/v1", header="api-key"
    ),
    "ollama": Provider("http://localhost:11434/v1", "OLLAMA_API_KEY", "OLLAMA_HOST", path="/v1", local=True),
    "vllm": Provider("http://localhost:8000/v1", "VLLM_API_KEY", "VLLM_BASE_URL", local=True),
    "llamacpp": Provider("http://localhost:8080/v1", "LLAMA_API_KEY", "LLAMACPP_BASE_URL", local=True),
    "lmstudio": Provider("http://localhost:1234/v1", "LMSTUDIO_API_KEY", "LMSTUDIO_BASE_URL", local=True),
    "openrouter": Provider("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY", "OPENROUTER_BASE_URL"),
    "groq": Provider("https://api.groq.com/openai/v1", "GROQ_API_KEY", "GROQ_BASE_URL"),
    "mistral": Provider("https://api.mistral.ai/v1", "MISTRAL_API_KEY", "MISTRAL_BASE_URL"),
    "deepseek": Provider("https://api.deepseek.com/v1", "DEEPSEEK_API_KEY", "DEEPSEEK_BASE_URL"),
    "together": Provider("https://api.together.xyz/v1", "TOGETHER_API_KEY", "TOGETHER_BASE_URL"),
    "fireworks": Provider("https://api.fireworks.ai/inference/v1", "FIREWORKS_API_KEY", "FIREWORKS_BASE_URL"),
    "xai": Provider("https://api.x.ai/v1", "XAI_API_KEY", "XAI_BASE_URL"),
    "cerebras": Provider("https://api.cerebras.ai/v1", "CEREBRAS_API_KEY", "CEREBRAS_BASE_URL"),
    "gemini": Provider(f"{_GOOGLE}/v1beta/openai", "GEMINI_API_KEY", "GEMINI_BASE_URL"),
    "huggingface": Provider("https://router.huggingface.co/v1", "HF_TOKEN", "HUGGINGFACE_BASE_URL"),
    "anthropic": Provider("https://api.anthropic.com", "ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", extra=True),
    "google": Provider(_GOOGLE, "GOOGLE_API_KEY", "GOOGLE_BASE_URL", extra=True),
    # without a token, AWS's own chain of credentials decides
    "bedrock": Provider(
        "https://bedrock-runtime.amazonaws.com",
        "AWS_BEARER_TOKEN_BEDROCK",
        "BEDROCK_BASE_URL",
        local=True,
        extra=True,
    ),
}

_OWN = Provider("", "", "", local=True)


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """The endpoint of one model, without the key.

    `custom` is the base URL if it is not the provider's own. `trusted` is False if the URL comes from a file,
    so that no key from the environment is sent to it.
    """

    provider: str
    model: str
    url: str
    custom: str = ""
    trusted: bool = True

    @property
    def name(self) -> str:
        """The name of the judge: `provider:model`, or the provider alone if there is no model."""
        return f"{self.provider}:{self.model}" if self.model else self.provider

    @property
    def traits(self) -> Provider:
        """The Provider entry of this service; default values for a model of the user's own."""
        return PROVIDERS.get(self.provider, _OWN)

    def at(self, path: str) -> str:
        """Return the base URL with `path` added to its path; a query of the base URL is preserved."""
        scheme, host, base, query, _ = urlsplit(self.url)
        return urlunsplit((scheme, host, f"{base}/{path}", query, ""))

    def headers(self, api_key: str | None, own: Mapping[str, str]) -> dict[str, str]:
        """Return the headers in `own`, plus that with the API key if there is a key and no such header."""
        header, result = self.traits.header, {name.lower(): value for name, value in own.items()}
        if header not in result and (key := self.secret(api_key)):
            result[header] = key if header != "authorization" else f"Bearer {key}"
        return result

    def secret(self, api_key: str | None) -> str:
        """Return `api_key` or the key from the environment; "" if no key is needed.

        Raises JudgeError if a required key is missing or the key contains invalid characters.
        """
        variable = self.traits.key
        key = api_key or (os.environ.get(variable, "").strip() if self.trusted else "")
        if not (key or self.traits.local or self.custom):
            fix = f"set {variable}, or name a local model (ollama:MODEL) as the judge"
            raise MissingKey(f"{self.name} needs an API key: {fix}")
        if not key.isascii() or any(c.isspace() for c in key):
            raise JudgeError(
                f"the API key in {variable} must not contain spaces or non-ASCII characters; set it again"
            )
        return key


def find(spec: str, base_url: str | None = None, *, trusted: bool = True) -> Service:
    """Return the service for a `spec` of the form `provider:model`, `provider` or `provider:model@URL`.

    Set `trusted` to False if `spec` comes from a file, so that no key from the environment is sent to a URL
    in it. Raises InputError if the provider is unknown, or if the model or the base URL is missing.
    """
    name, url = spec.strip(), ""
    before, at, server = name.partition("@")
    if match := _URL.search(name):
        name, url = name[: match.start()], match[1]
    elif at and (name.endswith("@") or (not before.endswith(":") and (":" in server or "/" in server))):
        # the URL of a server lacks http://; a model's name may contain an @ too, as in openai:@cf/MODEL
        shown = mask_urls(server.rpartition("@")[2])  # without a login
        raise InputError(f"{shown!r} is not the URL of a server", fix=f"write {before}@http://HOST:PORT/v1")
    provider_name, _, model = map(str.strip, name.partition(":"))
    provider = PROVIDERS.get(provider_name.lower())
    if provider is None:
        named = name.replace("/", ":", 1) if name.partition("/")[0].lower() in PROVIDERS else name
        head = named.partition(":")[0]
        near = nearest(head, ("labels", "gold", "lexical", *PROVIDERS))
        fix = f"use PROVIDER:MODEL with one of {', '.join(PROVIDERS)}, as in openai:{model or provider_name}"
        fix = f"did you mean {near}{named[len(head) :]}?" if near else f"{fix}; {_ANY}"
        raise InputError(f"unknown provider {provider_name!r}", fix=fix)
    model = model or provider.model
    if not model:
        fix = f"write {provider_name}:MODEL"
        raise InputError(f"the provider {provider_name} has no default model", fix=fix)
    value = base_url or url
    if not value and (value := os.environ.get(provider.base, "").strip()) and provider is PROVIDERS["ollama"]:
        scheme, _, rest = value.strip("\"'").rpartition("://")  # it may lack the scheme, the host or the port
        address, slash, path = rest.partition("/")
        address = re.sub(r"\A(?:0\.0\.0\.0)?(?=:|\Z)", "127.0.0.1", address)
        port = "" if scheme or re.search(r":\d+\Z", address) else ":11434"
        value = f"{scheme or 'http'}://{address}{port}{slash}{path}"
    if not (value or provider.url):
        fix = f"set {provider.base}, or give {option('--base-url')}, such as http://HOST:PORT/v1"
        raise InputError(f"the provider {provider_name} has no default base URL", fix=fix)
    base = _tidy(value, provider) if value else provider.url
    same_host = urlsplit(base)[:2] == urlsplit(provider.url)[:2]
    service = Service(
        provider=provider_name.lower(),
        model=model,
        url=base,
        custom="" if base == provider.url else base,
        trusted=trusted or bool(base_url) or not url or same_host,
    )
    if provider.extra and not service.trusted:  # its library itself reads keys from the environment
        problem = f"the judge {provider_name} has a URL from a file, to which your API key would be sent"
        raise InputError(problem, fix=f"set {provider.base} or give {option('--base-url')}")
    return service


_ANY = "any OpenAI-compatible server: openai:MODEL@URL"
_URL = re.compile(r"@(https?://.*)", re.DOTALL | re.IGNORECASE)


def check_headers(headers: Mapping[str, str]) -> None:
    """Raise InputError if a header cannot be sent. The message omits its value, because it may be a key."""
    for name, value in headers.items():
        if not (re.fullmatch(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", name) and re.fullmatch(r"[\t -~]*", value)):
            problem = f"the name or value of the header {name!r} has characters that HTTP does not allow"
            raise InputError(problem, fix="write NAME=VALUE in printable ASCII, as x-team=search")


def _tidy(url: str, provider: Provider) -> str:
    """Return a base URL in canonical form. Raises InputError if it is invalid or contains a password."""
    fix = "write http://HOST:PORT/v1"
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host = parts.hostname or ""
        valid = parts.scheme in {"http", "https"} and parts.port != 0 and bool(host) and host.isprintable()
        valid = valid and ("[" not in parts.netloc or ":" in host)  # brackets are for IP version 6
    except ValueError:
        valid = False
    if not valid:
        raise InputError(f"{mask_urls(url)!r} is not the base URL of a server", fix=fix)
    if parts.username or parts.password:
        fix += ", and give the key by environment or api_key"
        raise InputError("the base URL contains a user name or password", fix=fix)
    check_unmasked(url)
    path = f"/{parts.path.strip('/')}".removesuffix("/chat/completions").rstrip("/") or provider.path
    if provider.extra:
        path = path.removesuffix("/v1")
    return urlunsplit((parts.scheme, parts.netloc.lower(), path, parts.query, ""))


MILLION = 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Price:
    """A price in US dollars per million tokens.

    `cached` is the price of input tokens from the provider's prompt cache; None means the price of other
    input. Raises InputError if a price is negative or not a finite number.
    """

    input: float
    output: float
    cached: float | None = None

    def __post_init__(self) -> None:
        """Raise InputError if a price is invalid, before the first paid answer."""
        for name in ("input", "output", "cached"):
            rate = getattr(self, name)
            if rate is not None or name != "cached":
                check_number(name, rate, least=0)

    def times(self, rate: float) -> Price:
        """Return the price multiplied by `rate`, for example for a cheaper service tier."""
        cached = None if self.cached is None else self.cached * rate
        return self if rate == 1 else Price(input=self.input * rate, output=self.output * rate, cached=cached)

    def cost(self, input_tokens: int, output_tokens: int, cached_tokens: int = 0) -> float:
        """Return the cost in US dollars; `cached_tokens` are part of the input tokens."""
        cached = self.input if self.cached is None else self.cached
        fresh = input_tokens - cached_tokens
        return (fresh * self.input + cached_tokens * cached + output_tokens * self.output) / MILLION


def price_of(provider: str, model: str) -> Price | None:
    """Return the price of a provider's model, from the price list in genai-prices; None if it is unknown."""
    from genai_prices import Usage, calc_price  # imported here because it takes half a second

    def rate(**tokens: int) -> float:
        calculation = calc_price(Usage(**tokens), model, provider_id=provider)
        return round(float(calculation.total_price) * (MILLION / 1000), 9)

    try:
        paid, answer = rate(input_tokens=1000), rate(output_tokens=1000)
        cached = rate(input_tokens=1000, cache_read_tokens=1000)
    except (LookupError, ValueError, NotImplementedError):
        return None
    return Price(input=paid, output=answer, cached=cached)
