"""Engines that run the parts of an evaluation: an Executor of `concurrent.futures` over processes or Dask.

Workers are sent one function and plain options: no judge and no key. Each reads its own environment.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import ExitStack, contextmanager
from importlib import import_module
from multiprocessing import connection, parent_process
from pathlib import Path
from typing import Any

from germane.errors import InputError, MissingPart, install_extra

_FIX = "write processes:8, dask, or dask:tcp://HOST:8786"


def parse_engine(text: str) -> tuple[str, str]:
    """Return the kind of an engine, processes or dask, and its number of processes or address; InputError for any other text."""
    kind, _, rest = text.strip().partition(":")
    if kind == "dask" or (
        kind == "processes" and (not rest or (rest.isascii() and rest.isdigit() and int(rest)))
    ):
        return kind, rest
    raise InputError(f"--engine {text!r} is not an engine", fix=_FIX)


@contextmanager
def executor_of(text: str) -> Iterator[tuple[Executor, int]]:
    """Start an engine for the duration of the context; yield its executor and the number of parts that it runs at a time.

    Raises:
        MissingPart: The engine's extra is not installed.
        InputError: The text names no engine, or there is no cluster at its address.
    """
    kind, rest = parse_engine(text)
    with ExitStack() as started:
        yield (_processes if kind == "processes" else _dask)(rest, started)


def _processes(number: str, started: ExitStack) -> tuple[Executor, int]:
    count = int(number or os.cpu_count() or 1)
    main = sys.modules["__main__"]
    path = getattr(main, "__file__", None) if main.__spec__ is None else None
    if path and Path(path).is_file() and b"__name__" not in Path(path).read_bytes():
        problem = f"each worker process imports {path}, and would run all of it again"
        raise InputError(problem, fix='put what it does under: if __name__ == "__main__":')
    # spawned, not forked: the copy of a process with threads may wait for a lock that no thread holds any more
    context = multiprocessing.get_context("spawn")
    return started.enter_context(ProcessPoolExecutor(count, context, begin_worker)), count


interrupts: list[int] = []
"""The signals that the parent has passed on to this worker while it waited for a part."""


def begin_worker() -> None:
    """End this process as soon as its parent has ended, and keep Ctrl-C, which the parent passes on, for the next part.

    Nothing is lost: answers are in the ledger before they are used.
    """
    parent = parent_process()
    if parent is None:
        return
    signal.signal(signal.SIGINT, lambda number, _: interrupts.append(number))  # while it waits for a part
    if os.name == "posix":
        os.setpgid(0, 0)

    def watch() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, name="germane-parent", daemon=True).start()


def _dask(address: str, started: ExitStack) -> tuple[Executor, int]:
    try:
        distributed: Any = import_module("distributed")
    except ImportError:
        raise MissingPart("--engine dask needs distributed", fix=install_extra("dask")) from None
    try:
        cluster: Any = address
        if not address:
            cluster = distributed.LocalCluster(threads_per_worker=1, dashboard_address=None)
            started.callback(cluster.close)
        client = distributed.Client(cluster, timeout=30)
    except (OSError, ValueError) as error:
        raise InputError(f"no Dask at {address!r}: {error}", fix=_FIX) from None
    started.callback(client.close)
    if not (count := sum(client.nthreads().values())):
        raise InputError(f"the Dask at {address} has no worker", fix="start one: dask worker ADDRESS")
    # no retries: another worker continues the part of one that is gone
    return client.get_executor(retries=0, pure=False), count
