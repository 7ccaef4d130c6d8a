"""Engines that run the parts of an evaluation: an Executor of `concurrent.futures` over processes or Dask.

What is run is one function on plain options: no judge and no key is handed over, and each worker reads its own environment.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Self

from germane.errors import InputError, MissingPart, install_extra

_FIX = "write processes:8, dask, or dask:tcp://HOST:8786"


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine that runs parts: `kind` is processes or dask.

    `workers` is how many processes there are (None = one for each of the machine's cores), `address` that of a cluster
    ("" = one is started here).
    """

    kind: str
    workers: int | None = None
    address: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """`processes:8` or `dask[:ADDRESS]`; InputError where it is not one."""
        kind, _, rest = text.strip().partition(":")
        workers = int(rest) if rest.isascii() and rest.isdigit() else None
        if kind == "processes" and (not rest or (workers or 0) > 0):
            return cls(kind, workers)
        if kind == "dask":
            return cls(kind, None, rest)
        raise InputError(f"--engine {text!r} is not an engine", fix=_FIX)

    def executor(self) -> AbstractContextManager[tuple[Executor, int]]:
        """The executor, and how many parts it runs at a time; what was started for it ends with it.

        Raises:
            MissingPart: The extra of the engine is not installed.
            InputError: No cluster at its address.
        """
        return _EXECUTORS[self.kind](self)


@contextmanager
def _processes(engine: Engine) -> Iterator[tuple[Executor, int]]:
    import multiprocessing

    count = engine.workers or os.cpu_count() or 1
    main = sys.modules["__main__"]
    path = getattr(main, "__file__", None) if main.__spec__ is None else None
    if path and Path(path).is_file() and b"__name__" not in Path(path).read_bytes():
        problem = f"each worker process imports {path}, and would run all of it again"
        raise InputError(problem, fix='put what it does under: if __name__ == "__main__":')
    # spawned, not forked: a copy of a process with threads may wait for a lock that nobody holds any more
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(count, context, begin_worker) as pool:
        yield pool, count


def begin_worker() -> None:
    """Let this process end as soon as the one that started it is gone: what it goes on to ask nobody would read.

    Nothing is lost by it: an answer is in the ledger before it is used. Ctrl-C comes from the one that started it, once,
    and not from the terminal too.
    """
    from multiprocessing import connection, parent_process

    parent = parent_process()
    if parent is None:
        return
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # while it waits for a part
    if os.name == "posix":
        os.setpgid(0, 0)

    def watch() -> None:
        connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, name="germane-parent", daemon=True).start()


@contextmanager
def _dask(engine: Engine) -> Iterator[tuple[Executor, int]]:
    try:
        distributed: Any = import_module("distributed")
    except ImportError:
        raise MissingPart("--engine dask needs distributed", fix=install_extra("dask")) from None
    cluster = None
    try:
        if not engine.address:
            cluster = distributed.LocalCluster(threads_per_worker=1, dashboard_address=None)
        client = distributed.Client(engine.address or cluster, timeout=30)
    except (OSError, ValueError) as error:
        if cluster is not None:
            cluster.close()
        raise InputError(f"no Dask at {engine.address!r}: {error}", fix=_FIX) from None
    try:
        count = sum(client.nthreads().values())
        if not count:
            raise InputError(
                f"the Dask at {engine.address} has no worker", fix="start one: dask worker ADDRESS"
            )
        # retries: a part whose worker is gone is another worker's, which continues it
        yield client.get_executor(retries=0, pure=False), count
    finally:
        client.close()
        if cluster is not None:
            cluster.close()


_EXECUTORS = {"processes": _processes, "dask": _dask}
