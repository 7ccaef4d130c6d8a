"""Run the user's programs with a minimal environment, an output limit and a timeout, and kill their children with them."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from germane.samples.files import check_trusted

__all__ = ["MAX_STDOUT", "Finished", "child_environment", "run_program", "start_folder"]

_PASSED_ON = frozenset({"PATH", "HOME", "LANG", "TMPDIR", "TEMP", "VIRTUAL_ENV", "SYSTEMROOT", "PATHEXT",
                        "AGENTV_TARGET_PROXY_URL", "AGENTV_TARGET_PROXY_TOKEN"})  # fmt: skip
MAX_STDOUT, KEPT_STDERR = 1_000_000, 64_000
"""Bytes of stdout after which a program is ended, and bytes of stderr that are kept: the last ones."""
_DRAIN = 1.0
"""Seconds that the output of an ended program is waited for: one that left its process group may hold it open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """The exit code and output of a finished program.

    `code` is the exit code, negative for a signal; `stdout` is whole unless `flooded`, `stderr` the last 64 kB.
    """

    code: int
    stdout: bytes
    stderr: bytes
    ms: float
    timed_out: bool = False
    flooded: bool = False

    def tail(self, characters: int) -> str:
        """Return the end of stderr as text."""
        return self.stderr.decode("utf-8", "replace").strip()[-characters:]


class _Program(asyncio.SubprocessProtocol):
    """Collects the output of a program, up to a limit, until it has ended and its output is closed."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.exited, self.closed = loop.create_future(), loop.create_future()
        self.out, self.err = bytearray(), bytearray()
        self.flooded = False
        self._transport: asyncio.SubprocessTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport of the process that has started."""
        self._transport = cast("asyncio.SubprocessTransport", transport)

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Take more of stdout or stderr; after too much of the former end the process."""
        if fd == 2:
            self.err += data
            del self.err[:-KEPT_STDERR]
        elif not self.flooded:
            self.out += data
            self.flooded = len(self.out) > MAX_STDOUT
            if self.flooded:
                self.kill()

    def process_exited(self) -> None:
        """Record that the process has ended; its children may still hold the output open."""
        self.exited.set_result(None)

    def connection_lost(self, _error: Exception | None) -> None:
        """Note that the process has ended and its pipes are closed: no output follows."""
        self.closed.set_result(None)

    def kill(self) -> None:
        """End the program and everything in its process group."""
        assert self._transport is not None
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                self._transport.kill()
            else:
                os.killpg(self._transport.get_pid(), signal.SIGKILL)


async def run_program(
    argv: Sequence[str], *, cwd: str | Path, env: Mapping[str, str], seconds: float, stdin: bytes = b""
) -> Finished:
    """Run a program in a process group of its own to its end, for at most `seconds`.

    When it ends, runs out of time, prints more than 1 MB or the call is cancelled, its whole process group is killed. What
    starts a session of its own (`setsid`) leaves the group and is not found any more.

    Args:
        argv: The program and its arguments.
        cwd: The folder that it starts in.
        env: Its whole environment.
        seconds: The time after which it is killed.
        stdin: The bytes on its standard input; it need not read them.

    Returns:
        Its exit code and output. A non-zero exit, a timeout and too much output are returned, not raised.

    Raises:
        OSError: It cannot be started.
        InputError: The file that names it is not trusted.
    """
    check_trusted(f"{argv[0]} would be run")
    started, pipe = time.monotonic(), asyncio.subprocess.PIPE
    transport, program = await asyncio.get_running_loop().subprocess_exec(
        _Program, *argv, cwd=cwd, env=dict(env), start_new_session=True, stdin=pipe, stdout=pipe, stderr=pipe
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
    code = transport.get_returncode()
    assert code is not None
    return Finished(
        code=code,
        stdout=bytes(program.out),
        stderr=bytes(program.err),
        ms=(time.monotonic() - started) * 1000,
        timed_out=not ended,
        flooded=program.flooded,
    )


def child_environment(names: Iterable[str] = (), own: Mapping[str, str] | None = None) -> dict[str, str]:
    """Return the environment of a program: an allow-list, the variables of these `names`, and `own` ones over both.

    Passed on are PATH, HOME, LANG, LC_*, TMPDIR, VIRTUAL_ENV and the address and token of a judge that another runner
    lends. The folder of this Python is the last on PATH, so that a script that calls `germane` finds the one that runs it.
    """
    kept = {*_PASSED_ON, *names}
    passed = {name: value for name, value in os.environ.items() if name in kept or name.startswith("LC_")}
    path = os.pathsep.join([passed.get("PATH", os.defpath), str(Path(sys.executable).parent)])
    return {**passed, "PATH": path, **(own or {})}


def start_folder(command: str | Sequence[str], folder: Path) -> Path:
    """Return the folder in which a script starts: the eval file's, or the nearest above that holds a file of its command.

    So `./evaluators/mine.py` is found in the folder of eval files and next to it.
    """
    words = command.split() if isinstance(command, str) else command
    named = [path for word in words if (path := Path(word.strip("'\""))).suffix and not path.is_absolute()]
    near = (folder, *folder.parents[:4])
    return next((start for start in near if any((start / file).is_file() for file in named)), folder)
