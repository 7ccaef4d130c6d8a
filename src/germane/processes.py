"""Programs of the user's: started with a small environment, fed, read up to a limit, and ended with all they started."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from pathlib import Path
from typing import IO

__all__ = ["ChildProcess", "Finished", "child_environment", "has_files", "misplaced"]

_PASSED_ON = frozenset({"PATH", "HOME", "LANG", "TMPDIR", "TEMP", "VIRTUAL_ENV", "SYSTEMROOT", "PATHEXT",
                        "AGENTV_TARGET_PROXY_URL", "AGENTV_TARGET_PROXY_TOKEN"})  # fmt: skip
MAX_STDOUT, KEPT_STDERR = 1_000_000, 64_000
"""Bytes of stdout after which a program is ended, and bytes of stderr that are kept: the last ones."""
_CHUNK = 65_536
_DRAIN = 1.0
"""Seconds that the output of an ended program is waited for: one that left its process group may hold it open."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finished:
    """How a program ended, and what it printed.

    `code` is the exit code, negative for a signal; `stdout` is whole unless `flooded`, `stderr` the last 64 kB.
    """

    code: int
    stdout: bytes
    stderr: bytes
    ms: float
    timed_out: bool = False
    flooded: bool = False

    def tail(self, characters: int) -> str:
        """The end of stderr as text."""
        return self.stderr.decode("utf-8", "replace").strip()[-characters:]


class ChildProcess:
    """A program in a process group of its own. `wait` blocks; `finished` waits in a thread.

    When the program ends, runs out of time or prints more than 1 MB, its whole process group is killed. What starts a
    session of its own (`setsid`) leaves the group and is not found any more.

    Args:
        argv: The program and its arguments.
        stdin: What it can read. A program that reads nothing does no harm.
        cwd: Where it starts.
        env: Its environment, whole.

    Raises:
        OSError: It cannot be started.
    """

    def __init__(
        self, argv: Sequence[str], *, cwd: str | Path, env: Mapping[str, str], stdin: bytes = b""
    ) -> None:
        self._started = time.monotonic()
        self._process = subprocess.Popen(  # noqa: S603 - running the user's program is the purpose
            list(argv), cwd=cwd, env=dict(env), start_new_session=True, bufsize=0,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self._out: list[bytes] = []
        self._err: deque[bytes] = deque()
        self._flooded = False
        work = ((self._feed, stdin), (self._read_out, b""), (self._read_err, b""))
        self._threads = [threading.Thread(target=do, args=(data,), daemon=True) for do, data in work]
        for thread in self._threads:
            thread.start()

    def wait(self, timeout: float) -> Finished:
        """Wait for its end, for at most so many seconds, and end what it started."""
        timed_out = False
        try:
            self._process.wait(timeout)
        except subprocess.TimeoutExpired:
            timed_out = True
        finally:
            self.kill()
        code = self._process.wait()
        until = time.monotonic() + _DRAIN
        for thread in self._threads:
            thread.join(max(0.0, until - time.monotonic()))
        return Finished(
            code=code,
            stdout=b"".join(self._out),
            stderr=b"".join(self._err)[-KEPT_STDERR:],
            ms=(time.monotonic() - self._started) * 1000,
            timed_out=timed_out,
            flooded=self._flooded,
        )

    async def finished(self, seconds: float, threads: Executor | None = None) -> Finished:
        """`wait` in one of `threads` (None: the event loop's own); being cancelled ends the program."""
        waiting = asyncio.get_running_loop().run_in_executor(threads, self.wait, seconds)
        try:
            return await asyncio.shield(waiting)
        except asyncio.CancelledError:
            self.kill()
            await waiting
            raise

    def kill(self) -> None:
        """End the program and everything in its process group."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if sys.platform == "win32":
                self._process.kill()
            else:
                os.killpg(self._process.pid, signal.SIGKILL)

    def _feed(self, data: bytes) -> None:
        stdin = _open(self._process.stdin)
        with contextlib.suppress(OSError):  # it has ended, or closed its stdin
            left = memoryview(data)
            while left:
                left = left[stdin.write(left) :]
        with contextlib.suppress(OSError):
            stdin.close()

    def _read_out(self, _: bytes) -> None:
        size = 0
        with _open(self._process.stdout) as stdout:
            while chunk := stdout.read(_CHUNK):
                if (size := size + len(chunk)) > MAX_STDOUT:
                    self._flooded = True
                    self.kill()
                    return
                self._out.append(chunk)

    def _read_err(self, _: bytes) -> None:
        size = 0
        with _open(self._process.stderr) as stderr:
            while chunk := stderr.read(_CHUNK):
                self._err.append(chunk)
                size += len(chunk)
                while size - len(self._err[0]) >= KEPT_STDERR:
                    size -= len(self._err.popleft())


def _open(stream: IO[bytes] | None) -> IO[bytes]:
    assert stream is not None
    return stream


def child_environment(names: Iterable[str] = (), own: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a program: an allow-list, the variables of these `names`, and `own` ones over both.

    Passed on are PATH, HOME, LANG, LC_*, TMPDIR, VIRTUAL_ENV and the address and token of a judge that another runner
    lends. The folder of this Python is the last on PATH, so that a script that calls `germane` finds the one that runs it.
    """
    wanted = {*_PASSED_ON, *names}
    passed = {name: value for name, value in os.environ.items() if name in wanted or name.startswith("LC_")}
    path = os.pathsep.join([passed.get("PATH", os.defpath), str(Path(sys.executable).parent)])
    return {**passed, "PATH": path, **(own or {})}


def has_files(command: str | Sequence[str], folder: Path) -> bool:
    """Whether every file that a command names is there, seen from a folder."""
    return all((folder / named).exists() for named in _files_in(command))


def _files_in(command: str | Sequence[str]) -> list[Path]:
    """The relative paths in a command that look like files."""
    words = command.split() if isinstance(command, str) else command
    named = (Path(word.strip("'\"")) for word in words)
    return [one for one in named if one.suffix and not one.is_absolute() and "{" not in one.name]


def misplaced(command: str | Sequence[str], cwd: str | Path) -> str | None:
    """What to write where a file that a command names is not in its folder, but in one above: `cwd: ..`."""
    folder = Path(cwd).resolve()
    for named in _files_in(command):
        if (folder / named).exists():
            continue
        for steps, above in enumerate(folder.parents[:4], 1):
            if (above / named).is_file():
                return f"{named} is not in {folder}, but in {above}: write `cwd: {'/'.join(['..'] * steps)}`"
    return None
