"""Statistics of a ledger, and selection of its judgements."""

from __future__ import annotations

import datetime
from collections.abc import Iterator

from germane.errors import InputError
from germane.ledger.store import FORMAT, SELECT, LedgerTable, from_row
from germane.types import Json, Judgement

_STATS = """
    SELECT judge, kind, prompt, count(*), CAST(sum(requests) AS bigint), CAST(sum(input_tokens) AS bigint),
           CAST(sum(output_tokens) AS bigint), sum(CASE WHEN requests > 0 OR cost_usd > 0 THEN cost_usd END),
           count(CASE WHEN requests > 0 AND cost_usd IS NULL THEN 1 END), min(at), max(at)
    FROM judgements GROUP BY judge, kind, prompt ORDER BY judge, kind, prompt
"""
_NAMES = ("judge", "kind", "prompt", "judgements", "requests", "input_tokens", "output_tokens", "cost_usd", "unpriced",
          "oldest", "newest")  # fmt: skip
"""The names of the columns of the statistics."""


def parse_time(text: str, flag: str) -> str:
    """Return a date or time in UTC as the ledger writes it; without a zone it is local time."""
    try:
        time = datetime.datetime.fromisoformat(text).astimezone(datetime.UTC)
    except (ValueError, OverflowError):
        raise InputError(
            f"{flag} {text!r} is not a date", fix=f"write {flag} 2026-11-21, or 2026-11-21T15:00"
        ) from None
    return time.isoformat(timespec="milliseconds")


def stats(ledger: LedgerTable) -> dict[str, Json]:
    """Return the JSON document of `germane ledger stats`; `lines` are by judge, kind and prompt.

    `cost_usd` is the sum over requests of known price, None where no price is known; `unpriced` requests have none. An
    answer that shared another's request has no request of its own and costs 0, which says nothing about a price.
    """
    lines = [dict(zip(_NAMES, row, strict=True)) for row in ledger.rows(_STATS)]
    costs = [line["cost_usd"] for line in lines if line["cost_usd"] is not None]
    return {
        "schema_version": 1,
        "ledger": ledger.place,
        "format": FORMAT,
        "bytes": ledger.size,
        "judgements": sum(line["judgements"] for line in lines),
        "requests": sum(line["requests"] for line in lines),
        "tokens": {name: sum(line[f"{name}_tokens"] for line in lines) for name in ("input", "output")},
        "cost_usd": sum(costs) if costs else None,
        "unpriced": sum(line["unpriced"] for line in lines),
        "oldest": min((line["oldest"] for line in lines if line["oldest"]), default=None),
        "newest": max((line["newest"] for line in lines if line["newest"]), default=None),
        "lines": lines,
    }


def chosen_rows(
    ledger: LedgerTable, *, judge: str | None = None, kind: str | None = None, since: str | None = None
) -> Iterator[Judgement]:
    """Yield the judgements of a judge and kind since a time (as `parse_time` writes it), ordered by key."""
    chosen = {"judge = ?": judge, "kind = ?": kind, "at >= ?": since}
    tests = {test: value for test, value in chosen.items() if value is not None}
    where = " AND ".join(tests) or "1 = 1"
    yield from ledger.rows(f"{SELECT} WHERE {where} ORDER BY key", [*tests.values()], from_row)


def judges_and_kinds(ledger: LedgerTable) -> tuple[list[str], list[str]]:
    """Return the judges and kinds of question with answers in a ledger."""
    results = list(ledger.rows("SELECT DISTINCT judge, kind FROM judgements"))
    return sorted({judge for judge, _ in results}), sorted({kind for _, kind in results})
