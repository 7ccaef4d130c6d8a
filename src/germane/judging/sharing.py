"""Who uses a judge: evaluations may share one, and the last to leave closes its connections."""

from __future__ import annotations

import asyncio
import logging
import threading
from dataclasses import dataclass

from germane.errors import InputError
from germane.judges.judge import Judge
from germane.judges.panel import Replica

__all__ = ["begin_use", "end_use"]


@dataclass(slots=True)
class _Use:
    """How many pools use a judge, and in which loop the first of them runs."""

    judge: Judge
    loop: asyncio.AbstractEventLoop
    pools: int = 0


_uses: dict[int, _Use] = {}
_lock = threading.Lock()
_log = logging.getLogger("germane")


def begin_use(judge: Judge) -> None:
    """This loop uses the judge from now on.

    InputError where the judge serves one loop at a time and another one's pool uses it.
    """
    loop, judge = asyncio.get_running_loop(), _asked(judge)
    with _lock:
        use = _uses.get(id(judge))
        if use is None or use.loop.is_closed():
            use = _uses[id(judge)] = _Use(judge, loop)
        if use.loop is not loop and getattr(judge, "one_loop", False):
            raise InputError(
                f"the judge {judge.name} is in use in another thread, to which its connections belong",
                fix=f'make a judge for each thread, or give its name: judge="{judge.name}"',
            )
        use.pools += 1


async def end_use(judge: Judge) -> None:
    """This loop uses the judge no longer; the last one closes it."""
    judge = _asked(judge)
    with _lock:
        use = _uses.get(id(judge))
        if use is None:
            return
        use.pools -= 1
        if use.pools:
            return
        del _uses[id(judge)]
    try:
        await judge.close()
    except Exception as error:  # noqa: BLE001 - somebody's own judge; what it said is kept all the same
        _log.warning("the judge %s failed to close: %s: %s", judge.name, type(error).__name__, error)


def _asked(judge: Judge) -> Judge:
    """Whom a sample of a judge asks: that judge's connections are used."""
    while isinstance(judge, Replica):
        judge = judge.judge
    return judge
