"""autoevals: context precision, recall, relevancy and entity recall; it has no runner, so a semaphore and gather."""

import asyncio
from typing import Any

from autoevals import init
from autoevals.ragas import ContextEntityRecall, ContextPrecision, ContextRecall, ContextRelevancy
from common import GIVE_UP, MODEL, Score, arguments, finish, samples
from openai import AsyncOpenAI

SCORERS = (ContextPrecision, ContextRecall, ContextRelevancy, ContextEntityRecall)


async def main() -> None:
    options = arguments()
    rows = samples(options)
    init(client=AsyncOpenAI(base_url=options.url, timeout=GIVE_UP), default_model=MODEL)
    places = asyncio.Semaphore(options.jobs)

    async def score(row: dict[str, Any], scorer: type) -> Score:
        async with places:
            try:
                found = await scorer().eval_async(
                    input=row["query"],
                    output=row["response"],
                    expected=row["reference"],
                    context=row["texts"],
                )
            except Exception as error:  # noqa: BLE001 - whatever it raises is the result
                return row["id"], scorer.__name__, error
            return row["id"], scorer.__name__, found.score

    finish(await asyncio.gather(*(score(row, scorer) for row in rows for scorer in SCORERS)))


asyncio.run(main())
