"""Who serves which models where: `provider:model`, base URLs, keys, headers.

A key goes to its provider's own host, or to a base URL given in a call, by flag or by environment; never
to a base URL that stands in a file.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

from germane.errors import InputError, JudgeError

__all__ = ["PROVIDERS", "Provider", "Service", "find"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Provider:
    """One provider: its base URL, the environment's names for key and base URL, and its habits.

    An `extra` has a protocol of its own, and its name is that of the extra that brings its library.
    """

    url: str = ""
    key: str = ""
    base: str = ""
    model: str = ""
    local: bool = False
    path: str = ""
    header: str = "authorization"
    extra: bool = False


PROVIDERS: Mapping[str, Provider] = {
    "openai": Provider(
        url="https://api.openai.com/v1", key="OPENAI_API_KEY", base="OPENAI_BASE_URL", model="gpt-4o-mini"
    ),
    "azure": Provider(
        key="AZURE_OPENAI_API_KEY", base="AZURE_OPENAI_ENDPOINT", path="/openai/v1", header="api-key"
    ),
    "ollama": Provider(
        url="http://localhost:11434/v1", key="OLLAMA_API_KEY", base="OLLAMA_HOST", local=True, path="/v1"
    ),
    "vllm": Provider(url="http://localhost:8000/v1", key="VLLM_API_KEY", base="VLLM_BASE_URL", local=True),
    "llamacpp": Provider(
        url="http://localhost:8080/v1", key="LLAMA_API_KEY", base="LLAMACPP_BASE_URL", local=True
    ),
    "lmstudio": Provider(
        url="http://localhost:1234/v1", key="LMSTUDIO_API_KEY", base="LMSTUDIO_BASE_URL", local=True
    ),
    "openrouter": Provider(
        url="https://openrouter.ai/api/v1", key="OPENROUTER_API_KEY", base="OPENROUTER_BASE_URL"
    ),
    "groq": Provider(url="https://api.groq.com/openai/v1", key="GROQ_API_KEY", base="GROQ_BASE_URL"),
    "mistral": Provider(url="https://api.mistral.ai/v1", key="MISTRAL_API_KEY", base="MISTRAL_BASE_URL"),
    "deepseek": Provider(url="https://api.deepseek.com/v1", key="DEEPSEEK_API_KEY", base="DEEPSEEK_BASE_URL"),
    "together": Provider(url="https://api.together.xyz/v1", key="TOGETHER_API_KEY", base="TOGETHER_BASE_URL"),
    "fireworks": Provider(
        url="https://api.fireworks.ai/inference/v1", key="FIREWORKS_API_KEY", base="FIREWORKS_BASE_URL"
    ),
    "xai": Provider(url="https://api.x.ai/v1", key="XAI_API_KEY", base="XAI_BASE_URL"),
    "cerebras": Provider(url="https://api.cerebras.ai/v1", key="CEREBRAS_API_KEY", base="CEREBRAS_BASE_URL"),
    "gemini": Provider(
        url="https://generativelanguage.googleapis.com/v1beta/openai",
        key="GEMINI_API_KEY",
        base="GEMINI_BASE_URL",
    ),
    "huggingface": Provider(
        url="https://router.huggingface.co/v1", key="HF_TOKEN", base="HUGGINGFACE_BASE_URL"
    ),
    "anthropic": Provider(
        url="https://api.anthropic.com", key="ANTHROPIC_API_KEY", base="ANTHROPIC_BASE_URL", extra=True
    ),
    "google": Provider(
        url="https://generativelanguage.googleapis.com",
        key="GOOGLE_API_KEY",
        base="GOOGLE_BASE_URL",
        extra=True,
    ),
    "bedrock": Provider(
        url="https://bedrock-runtime.amazonaws.com",
        key="AWS_BEARER_TOKEN_BEDROCK",
        base="BEDROCK_BASE_URL",
        local=True,  # without that token, AWS's own chain of credentials decides
        extra=True,
    ),
    "cohere": Provider(url="https://api.cohere.com", key="CO_API_KEY", base="CO_BASE_URL", extra=True),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """Where one model is asked: resolved, without the key. `custom` is the base URL where it is not the default."""

    provider: str
    model: str
    url: str
    custom: str = ""
    trusted: bool = True

    @property
    def name(self) -> str:
        """`provider:model`."""
        return f"{self.provider}:{self.model}"

    @property
    def extra(self) -> bool:
        """Whether it has a protocol of its own."""
        return PROVIDERS[self.provider].extra

    def headers(self, api_key: str | None) -> dict[str, str]:
        """The header with the key; none where there is no key."""
        header, key = PROVIDERS[self.provider].header, self.secret(api_key)
        return {header: key if header != "authorization" else f"Bearer {key}"} if key else {}

    def secret(self, api_key: str | None) -> str:
        """The key, from the call or the environment; JudgeError where one is needed and absent."""
        provider = PROVIDERS[self.provider]
        key = api_key or (os.environ.get(provider.key, "").strip() if self.trusted else "")
        if not key:
            if provider.local or self.custom:
                return ""
            raise JudgeError(
                f"{self.name} needs a key: set {provider.key}, or name a local model (ollama:MODEL) as the judge"
            )
        if not key.isascii() or any(c.isspace() for c in key):
            raise JudgeError(f"the key in {provider.key} holds characters that no key has")
        return key


def find(spec: str, base_url: str | None = None, *, trusted: bool = True) -> Service:
    """The service that `provider:model`, `provider` or `provider:model@URL` names.

    `trusted` is false where `spec` stands in a file: a URL in it is then asked without the environment's key.
    """
    name, url = _split(spec.strip())
    provider_name, _, model = name.partition(":")
    provider = PROVIDERS.get(provider_name.lower())
    if provider is None:
        raise InputError(
            f"no provider is called {provider_name!r}",
            fix=f"use PROVIDER:MODEL with one of {', '.join(PROVIDERS)}; any OpenAI-compatible server: openai:MODEL@URL",
        )
    model = model or provider.model
    if not model:
        raise InputError(f"{provider_name} has no default model", fix=f"write {provider_name}:MODEL")
    given = base_url or url or os.environ.get(provider.base, "").strip()
    if not (given or provider.url):
        raise InputError(f"{provider_name} has no base URL", fix=f"set {provider.base} or give base_url")
    base = _tidy(given, provider) if given else provider.url
    return Service(
        provider=provider_name.lower(),
        model=model,
        url=base,
        custom="" if base == provider.url else base,
        trusted=trusted or bool(base_url) or not url,
    )


def _split(spec: str) -> tuple[str, str]:
    for scheme in ("@http://", "@https://"):
        name, found, rest = spec.partition(scheme)
        if found:
            return name, scheme[1:] + rest
    return spec, ""


def _tidy(url: str, provider: Provider) -> str:
    """The base URL without trailing slash, path of the call or credentials; a bare host is http."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in {"http", "https"} or not parts.hostname:
        raise InputError(f"{url!r} is not the base URL of a server", fix="write http://HOST:PORT/v1")
    if parts.username or parts.password:
        raise InputError("a base URL must not hold a password", fix="give the key by environment or api_key")
    path = parts.path.rstrip("/").removesuffix("/chat/completions") or provider.path
    if provider.extra:
        path = path.removesuffix("/v1")
    return urlunsplit((parts.scheme, parts.netloc, path, parts.query, ""))
