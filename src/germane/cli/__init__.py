"""The command line: one file a verb, each parses, calls the library and prints. stdout is data, stderr progress."""

from __future__ import annotations

import gc
import os
import sys
import traceback
from typing import Annotated

import typer

import germane
from germane.cli import explain, grade, init, ledger, liverag, measures, rank, report, run, score, sweep
from germane.errors import GermaneError, Interrupted, LimitReached
from germane.reports.clean import clean_lines

__all__ = ["app", "main"]

app = typer.Typer(
    name="germane",
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
app.command("report")(report.report)
app.command("explain")(explain.explain)
app.command("grade")(grade.grade)
app.add_typer(ledger.app, name="ledger")
app.command("liverag")(liverag.liverag)
app.command("measures")(measures.measures)
app.command("sweep")(sweep.sweep)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"germane {germane.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    if debug:
        os.environ["GERMANE_DEBUG"] = "1"


def main() -> None:
    """Run the command line. An error that a user can mend is one message and exit code 2, never a traceback."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    gc.set_threshold(50_000, 20, 100)  # a run holds many records and makes few cycles: look for those seldom
    try:
        app()
    except LimitReached as stopped:
        _say(stopped, 3)
    except Interrupted as stopped:
        _say(stopped, 130)
    except KeyboardInterrupt:
        _say(Interrupted("interrupted"), 130)
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # the reader left: nothing more to say
        sys.exit(1)
    except (GermaneError, OSError) as error:
        _say(error, 2)
    except Exception as fault:
        if "--debug" in sys.argv or os.environ.get("GERMANE_DEBUG"):
            raise
        _say(GermaneError(f"internal error: {type(fault).__name__}: {fault} (--debug shows where)"), 2)


def _say(error: BaseException, code: int) -> None:
    if os.environ.get("GERMANE_DEBUG"):
        traceback.print_exc()
    print(f"germane: {clean_lines(str(error))}", file=sys.stderr)
    sys.exit(code)
