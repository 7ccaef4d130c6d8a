"""Statistics of a ledger: judgements, requests, tokens and cost by judge and kind of question."""

from __future__ import annotations

from germane.ledger.store import FORMAT, Ledger
from germane.types import Json

_STATS = """
    SELECT judge, kind, count(*), CAST(sum(requests) AS bigint), CAST(sum(input_tokens) AS bigint),
           CAST(sum(output_tokens) AS bigint), sum(CASE WHEN requests > 0 OR cost_usd > 0 THEN cost_usd END),
           count(CASE WHEN requests > 0 AND cost_usd IS NULL THEN 1 END)
    FROM judgements GROUP BY judge, kind ORDER BY judge, kind
"""
_NAMES = (
    "judge",
    "kind",
    "judgements",
    "requests",
    "input_tokens",
    "output_tokens",
    "cost_usd",
    "unpriced",
)
"""The names of the columns of the statistics."""


def stats(ledger: Ledger) -> dict[str, Json]:
    """Return the JSON document of `germane ledger stats`, with a line per judge and kind of question.

    `cost_usd` is the sum over the requests of known price, None if no price is known; `unpriced` counts the
    others. An answer that shared another's request has no request of its own and costs 0.
    """
    lines = [dict(zip(_NAMES, row, strict=True)) for row in ledger.rows(_STATS)]
    costs = [line["cost_usd"] for line in lines if line["cost_usd"] is not None]
    return {
        "schema_version": 1,
        "ledger": ledger.place,
        "format": FORMAT,
        "bytes": ledger.size,
        "judgements": sum(line["judgements"] for line in lines),
        "cost_usd": sum(costs) if costs else None,
        "lines": lines,
    }
