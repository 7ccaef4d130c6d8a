"""Runs the user's programs (graders, targets) with a minimal environment, an output limit and a timeout.

It also calls the user's functions (targets, judges) in threads.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Future
from pathlib import Path
from typing import Any, cast

from germane.samples.files import check_trusted

__all__ = ["MAX_STDOUT", "Program", "child_environment", "in_thread", "run_program", "submitted"]

_PASSED_ON = frozenset({"PATH", "HOME", "LANG", "TMPDIR", "TEMP", "VIRTUAL_ENV", "SYSTEMROOT", "PATHEXT",
                        "AGENTV_TARGET_PROXY_URL", "AGENTV_TARGET_PROXY_TOKEN"})  # fmt: skip
MAX_STDOUT, KEPT_STDERR = 1_000_000, 64_000
"""The bytes of stdout after which a program is killed, and the last bytes of stderr that are kept."""
_DRAIN = 1.0
"""The seconds to wait until the pipes of an ended program are closed.

A child that has left the program's process group may hold them open.
"""


class Program(asyncio.SubprocessProtocol):
    """A program that runs or, as the result of `run_program`, has ended.

    `code` is the exit code (negative if a signal ended the program). `stdout` is complete unless `flooded` is
    True, which means that the program printed more than 1 MB and was killed. `stderr` is the last 64 kB. `ms`
    is the duration in milliseconds.
    """

    _transport: asyncio.SubprocessTransport

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.exited, self.closed = loop.create_future(), loop.create_future()
        self.out, self.err = bytearray(), bytearray()  # they grow in place
        self.stdout = self.stderr = b""
        self.code, self.ms = 0, 0.0
        self.timed_out = self.flooded = False

    def tail(self, characters: int) -> str:
        """Return the last `characters` characters of stderr as text."""
        return self.stderr.decode("utf-8", "replace").strip()[-characters:]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Store the transport of the process that has started, so that `kill` can reach it."""
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Collect bytes of stdout or stderr. Kill the program after more than 1 MB of stdout."""
        if fd == 2:
            self.err += data
            del self.err[:-KEPT_STDERR]
        elif not self.flooded:
            self.out += data
            self.flooded = len(self.out) > MAX_STDOUT
            if self.flooded:
                self.kill()

    def process_exited(self) -> None:
        """Resolve `exited`: the process has ended, but its children may still hold its pipes open."""
        self.exited.set_result(None)

    def connection_lost(self, _error: Exception | None) -> None:
        """Resolve `closed`: the process has ended and its pipes are closed, so that no output follows."""
        self.closed.set_result(None)

    def kill(self) -> None:
        """Kill the program and its whole process group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                self._transport.kill()
            else:
                os.killpg(self._transport.get_pid(), signal.SIGKILL)


async def run_program(
    argv: Sequence[str], *, cwd: str | Path, env: Mapping[str, str], seconds: float, stdin: bytes = b""
) -> Program:
    """Run a program for at most `seconds`, and return it with its exit code and output.

    The program runs in its own process group. The whole group is killed when the program ends, runs out of
    time or prints more than 1 MB, or when the call is cancelled. A child that starts its own session
    (`setsid`) is not killed. `env` is the whole environment. `stdin` is sent to the program, which need not
    read it. Raises OSError if the program cannot be started, and InputError if it is named by an eval file
    that is not trusted.
    """
    check_trusted(f"the program {argv[0]} would be run")
    started, pipe = time.monotonic(), asyncio.subprocess.PIPE
    transport, program = await asyncio.get_running_loop().subprocess_exec(
        Program, *argv, cwd=cwd, env=dict(env), start_new_session=True, stdin=pipe, stdout=pipe, stderr=pipe
    )
    feed = cast("asyncio.WriteTransport", transport.get_pipe_transport(0))
    feed.write(stdin)
    feed.close()
    try:
        ended, _ = await asyncio.wait([program.exited], timeout=seconds)
        program.kill()
        await asyncio.wait([program.closed], timeout=_DRAIN)
    finally:
        if not program.exited.done():
            program.kill()
        await program.exited
        transport.close()
    program.code = cast("int", transport.get_returncode())
    program.stdout, program.stderr = bytes(program.out), bytes(program.err)
    program.ms, program.timed_out = (time.monotonic() - started) * 1000, not ended
    return program


def child_environment(names: Iterable[str] = (), own: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment for a program: some variables of this process, and the variables in `own`.

    The variables of this process are those in `names`, PATH, HOME, LANG, LC_*, TMPDIR, VIRTUAL_ENV, and the
    address and token of AgentV's judge proxy. The folder of this Python is appended to PATH, so that a script
    that calls `germane` finds the running installation.
    """
    kept = {*_PASSED_ON, *names}
    passed = {name: value for name, value in os.environ.items() if name in kept or name.startswith("LC_")}
    # so that a script that calls `germane` finds the running installation
    path = os.pathsep.join([passed.get("PATH", os.defpath), str(Path(sys.executable).parent)])
    return {**passed, "PATH": path, **(own or {})}


def in_thread(work: Callable[[], object]) -> None:
    """Run a function in a daemon thread, so that the process can end although the function hangs."""
    threading.Thread(target=work, daemon=True).start()


def submitted(
    call: Callable[[], Any], run: Callable[[Callable[[], object]], object] = in_thread
) -> Future[Any]:
    """Let `run` execute `call`, in the context of the caller; return a Future of the result."""
    future: Future[Any] = Future()
    context = contextvars.copy_context()

    def work() -> None:
        if not future.set_running_or_notify_cancel():
            return
        try:
            result = context.run(call)
        except StopIteration:  # asyncio could not raise it, and would wait forever
            future.set_exception(RuntimeError("the function raised StopIteration; give next() a default"))
        except BaseException as error:
            future.set_exception(error)
            if isinstance(error, KeyboardInterrupt):  # interrupts germane; it is no error of the sample
                raise
        else:
            future.set_result(result)

    run(work)
    return future
