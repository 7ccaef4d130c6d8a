"""The verbs of the command line: one file per verb, each parses, calls the library and prints."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

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
from germane.errors import READER_LEFT
from germane.version import __version__


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
        raise typer.Exit(READER_LEFT) from None


_PASSED_ON = {"ignore_unknown_options": True, "allow_extra_args": True}


def _rank(context: typer.Context) -> None:
    raise typer.Exit(rank.rank(context.args))


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
app.command("rank", help=rank.ABOUT, add_help_option=False, context_settings=_PASSED_ON)(_rank)
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
