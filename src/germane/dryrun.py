"""A dry run: what a run would ask of its judge, with nobody asked and nothing written."""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import replace
from pathlib import Path

from germane.answering import at_hand
from germane.forecast import Forecast
from germane.forecasting import Forecasting, Known
from germane.judging.ledger import Ledger
from germane.options import Options
from germane.past import Past
from germane.planning import Plan
from germane.tables.folder import read_manifest
from germane.watching import Watch

__all__ = ["forecast"]


def forecast(
    options: Options, watch: Watch | None = None, *, resume: Path | None = None, retry_errors: bool = False
) -> Forecast:
    """What `run` with the same arguments would ask, and what that would cost.

    Neither a judge nor a live target is asked, and nothing is written. Answers of targets are taken from the folder
    that is continued and from recordings; a sample without one is counted as `waiting`.

    Raises InputError as `run` does.
    """
    stored = read_manifest(resume) if resume is not None else {}
    plan = Plan(options, (watch or Watch()).warn, stored)
    past = Past(plan.options, resume, stored)
    with _ledger(past) as ledger:
        own = past.judgements(errors=not retry_errors)
        forecasting = Forecasting(plan.judge, Known(own, ledger, past.receipts()), plan.settings)
        if plan.asks_targets:
            for item, answered in asyncio.run(at_hand(list(plan.items()), resume)):
                (forecasting.look if answered else forecasting.wait)(plan.job(item))
        else:
            for item in plan.items():
                forecasting.look(plan.job(item))
        found = forecasting.result()
    return replace(found, max_cost=plan.options.max_cost, max_calls=plan.options.max_calls)


def _ledger(past: Past) -> contextlib.AbstractContextManager[Ledger | None]:
    """The ledger where there is one: none is made."""
    ledger = past.opened(reading=True)
    return contextlib.nullcontext() if ledger is None else contextlib.closing(ledger)
