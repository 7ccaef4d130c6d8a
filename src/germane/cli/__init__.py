"""The command line: the start and end of a command, whose results go to stdout, and all else to stderr."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from germane.clean import CleanStream, clean_lines
from germane.errors import COMMANDS, EXIT_SIGPIPE, GermaneError, Interrupted, LimitReached

__all__ = ["main"]


def main() -> None:
    """Run the command in sys.argv and exit with its exit code.

    For an error, a message is printed without a traceback, and the exit code is 2. Control characters are
    removed from everything that is printed.
    """
    try:
        from germane.cli.verbs import call  # here, so that Ctrl-C during the imports leaves no traceback
    except KeyboardInterrupt:
        print("germane: interrupted", file=sys.stderr)
        sys.exit(130)
    if sys.stdin is None:  # it was closed before the start (`<&-`)
        sys.stdin = Path(os.devnull).open(encoding="utf-8")  # noqa: SIM115 - it stays open
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # numpy starts in half the time without threads
    gc.set_threshold(100_000, 20, 100)  # a run holds many records and makes few cycles
    atexit.register(gc.freeze)  # no last collection at exit
    earlier = {name: stream for name in ("stdout", "stderr") if (stream := getattr(sys, name)) is not None}
    for name, stream in earlier.items():
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
        setattr(sys, name, CleanStream(stream, colours=stream.isatty() or "FORCE_COLOR" in os.environ))
    COMMANDS.append("germane")
    try:
        code = _exit_code(call)
        try:
            if sys.stdout is not None:
                sys.stdout.flush()
        except OSError as error:
            code = code or _report_error(error)
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # discard the rest
    finally:
        COMMANDS.pop()
        for name, stream in earlier.items():
            if isinstance(getattr(sys, name), CleanStream):
                setattr(sys, name, stream)
    sys.exit(code)


def _exit_code(call: Callable[[Sequence[str]], int]) -> int:
    """Pass the words in sys.argv to `call`, and return the exit code; errors are printed."""
    words = [word for word in sys.argv[1:] if word != "--debug"]  # allowed anywhere
    if len(words) < len(sys.argv) - 1:
        os.environ["GERMANE_DEBUG"] = "1"
    try:
        return call(words)
    except SystemExit as done:
        return int(done.code or 0)
    except KeyboardInterrupt:
        return _report_error(Interrupted("interrupted"))
    except (GermaneError, OSError) as error:
        return _report_error(error)
    except Exception as fault:  # noqa: BLE001 - any error is printed; exit code 1 would mean a failed gate
        what = f"internal error: {type(fault).__name__}: {fault} (--debug shows where)"
        return _report_error(GermaneError(what))


def _report_error(error: BaseException) -> int:
    """Print an error's message (for an OSError, its file and reason) and return the exit code."""
    if isinstance(error, BrokenPipeError):
        return EXIT_SIGPIPE
    message = str(error)
    if isinstance(error, OSError) and error.filename is not None:
        exists = os.access(str(error.filename), os.F_OK)
        fix = "check the path and its permissions" if exists else "name a folder that can be written"
        message = f"{error.filename}: {error.strerror}; {fix}"
    with suppress(OSError):  # if stderr is closed, the exit code must do
        if os.environ.get("GERMANE_DEBUG"):
            import_module("traceback").print_exc()
        print(f"germane: {clean_lines(message)}", file=sys.stderr)
    return 3 if isinstance(error, LimitReached) else 130 if isinstance(error, Interrupted) else 2
