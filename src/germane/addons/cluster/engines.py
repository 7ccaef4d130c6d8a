"""Engines that run the parts of an evaluation: an Executor of `concurrent.futures` over processes or Dask.

Workers are sent one function and plain options: no judge and no key. Each reads its own environment.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from multiprocessing import connection, parent_process
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
    if kind == "dask":
        with _dask_client(rest) as client:
            # no retries: the command that resumes continues the part of a worker that is gone
            yield client.get_executor(retries=0, pure=False), sum(client.nthreads().values())
        return
    count = int(rest or os.cpu_count() or 1)
    # spawned, not forked: the copy of a process with threads may wait for a lock that no thread holds any more
    with ProcessPoolExecutor(count, multiprocessing.get_context("spawn"), begin_worker) as pool:
        yield pool, count


def begin_worker() -> None:
    """Ignore Ctrl-C, after which the parent ends this process, and end it as soon as the parent has ended.

    Nothing is lost: answers are in the ledger before they are used.
    """
    parent = parent_process()
    if parent is None:
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if os.name == "posix":
        os.setpgid(0, 0)

    def watch() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, name="germane-parent", daemon=True).start()


@contextmanager
def _dask_client(address: str) -> Iterator[Any]:
    """Connect to the Dask cluster at an address; "" = start one on this machine."""
    try:
        distributed: Any = import_module("distributed")
    except ImportError:
        raise MissingPart("--engine dask needs distributed", fix=install_extra("dask")) from None
    try:
        # without an address the client starts a cluster of its own, and closes it
        own = {} if address else {"threads_per_worker": 1, "dashboard_address": None}
        client = distributed.Client(address or None, timeout=30, **own)
    except (OSError, ValueError) as error:
        raise InputError(f"no Dask at {address!r}: {error}", fix=_FIX) from None
    with client:
        if not client.nthreads():
            raise InputError(f"the Dask at {address} has no worker", fix="start one: dask worker ADDRESS")
        yield client
