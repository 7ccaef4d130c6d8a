"""The command line: one file a verb, each parses, calls the library and prints. stdout is data, stderr progress."""

from __future__ import annotations

import gc
import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from germane.clean import clean_lines
from germane.cli import (
    audit,
    compare,
    explain,
    grade,
    init,
    label,
    ledger,
    liverag,
    measures,
    overlap,
    plot,
    power,
    rank,
    report,
    run,
    score,
    sweep,
    validate,
)
from germane.errors import GermaneError, Interrupted, LimitReached
from germane.version import __version__

__all__ = ["app", "main"]

_READER_LEFT = 141
"""128 + SIGPIPE: what a shell says of a program whose reader did not want all of it (`| head`)."""


class _Verbs(TyperGroup):
    """The verbs, of which none ends with 1 because nobody reads on: 1 is a declared gate that failed."""

    def make_context(self, *args: Any, **more: Any) -> Any:
        with _readers_may_leave():
            return super().make_context(*args, **more)

    def invoke(self, ctx: Any) -> Any:
        with _readers_may_leave():
            return super().invoke(ctx)


@contextmanager
def _readers_may_leave() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        raise typer.Exit(_READER_LEFT) from None


app = typer.Typer(
    name="germane",
    cls=_Verbs,
    help="How good is the retrieval of a RAG system, what does that number rest on, and did a change help?",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("init")(init.init)
app.command("run")(run.run)
app.command("rank")(rank.rank)
app.command("score")(score.score)
app.command("compare")(compare.compare)
app.command("power")(power.power)
app.command("overlap")(overlap.overlap)
app.command("report")(report.report)
app.command("plot")(plot.plot)
app.command("explain")(explain.explain)
app.command("grade")(grade.grade)
app.command("label")(label.label)
app.command("audit")(audit.audit)
app.add_typer(ledger.app, name="ledger")
app.command("liverag")(liverag.liverag)
app.command("measures")(measures.measures)
app.command("sweep")(sweep.sweep)
app.command("validate")(validate.validate)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"germane {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[
        bool, typer.Option("--debug", help="Show the traceback of an error; also after the verb.")
    ] = False,
) -> None:
    if debug:
        os.environ["GERMANE_DEBUG"] = "1"


def main() -> None:
    """Run the command line. An error that a user can mend is one message and exit code 2, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    gc.set_threshold(50_000, 20, 100)  # a run holds many records and makes few cycles: look for those seldom
    sys.argv[1:] = sorted(sys.argv[1:], key=lambda word: word != "--debug")  # it may stand anywhere
    sys.exit(_flushed(_code()))


def _code() -> int:
    try:
        app()
    except SystemExit as done:
        return int(done.code or 0)
    except KeyboardInterrupt:
        return _said(Interrupted("interrupted"))
    except (GermaneError, OSError) as error:
        return _said(error)
    except Exception as fault:  # noqa: BLE001 - whatever it is, it is said, and is no gate that failed
        what = f"internal error: {type(fault).__name__}: {fault} (--debug shows where)"
        return _said(GermaneError(what))
    return 0


def _flushed(code: int) -> int:
    """The exit code, when all is written or nobody wants it any more."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError as error:
        code = code or (_READER_LEFT if isinstance(error, BrokenPipeError) else _said(error))
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left goes nowhere
    return code


def _said(error: BaseException) -> int:
    with suppress(OSError):  # whoever does not read has the exit code
        if os.environ.get("GERMANE_DEBUG"):
            traceback.print_exc()
        print(f"germane: {clean_lines(str(error))}", file=sys.stderr)
    return 3 if isinstance(error, LimitReached) else 130 if isinstance(error, Interrupted) else 2
