"""A bare asyncio loop, as one would write it by hand: recorded requests, N in flight, each answer validated, no more.

    run_bare.py openai|httpx2 --url URL --bodies FILE --jobs N [--count N]

The bodies are germane's own, so the same questions get the same answers. Validated with pydantic, with as many
attempts as the client makes by itself.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from itertools import cycle, islice
from pathlib import Path
from typing import Literal

from pydantic import BaseModel


class Statement(BaseModel):
    statement: str
    relevant: bool


class Relevance(BaseModel):
    reasoning: str
    grade: Literal[0, 1, 2, 3]


class Reading(Relevance):
    statements: list[Statement]
    entities: list[str]


class Extracted(BaseModel):
    entities: list[str]
    claims: list[str]


class Supported(BaseModel):
    claim: int
    reasoning: str
    contexts: list[int]


class Support(BaseModel):
    claims: list[Supported]


MODELS = {frozenset(model.model_fields): model for model in (Relevance, Reading, Extracted, Support)}


def model_of(raw: bytes) -> type[BaseModel]:
    """The model with the fields that the request's schema asks for."""
    schema = json.loads(raw)["response_format"]["json_schema"]["schema"]
    return MODELS[frozenset(schema["properties"])]


def with_openai(url: str) -> Callable[[bytes], Awaitable[str]]:
    from openai import AsyncOpenAI

    client = AsyncOpenAI(base_url=url, api_key="bench")

    async def ask(raw: bytes) -> str:
        answer = await client.chat.completions.create(**json.loads(raw))
        return answer.choices[0].message.content or ""

    return ask


def with_httpx2(url: str) -> Callable[[bytes], Awaitable[str]]:
    import httpx2

    limits = httpx2.Limits(max_connections=1000, max_keepalive_connections=1000)
    client = httpx2.AsyncClient(limits=limits, timeout=600)
    headers = {"content-type": "application/json", "authorization": "Bearer bench"}

    async def ask(raw: bytes) -> str:
        answer = await client.post(f"{url}/chat/completions", content=raw, headers=headers)
        answer.raise_for_status()
        text: str = answer.json()["choices"][0]["message"]["content"]
        return text

    return ask


async def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("client", choices=["openai", "httpx2"])
    parser.add_argument("--url", required=True)
    parser.add_argument("--bodies", type=Path, required=True)
    parser.add_argument("--jobs", type=int, required=True)
    parser.add_argument("--count", type=int, default=0)
    options = parser.parse_args()
    bodies = options.bodies.read_bytes().splitlines()
    count = options.count or len(bodies)
    ask = (with_openai if options.client == "openai" else with_httpx2)(options.url)
    print(json.dumps({"answers": await work(ask, islice(cycle(bodies), count), options.jobs)}))


async def work(ask: Callable[[bytes], Awaitable[str]], bodies: Iterator[bytes], jobs: int) -> int:
    done: list[BaseModel] = []

    async def worker() -> None:
        for raw in bodies:
            model = model_of(raw)
            done.append(model.model_validate_json(await ask(raw)))

    await asyncio.gather(*(worker() for _ in range(jobs)))
    return len(done)


asyncio.run(main())
