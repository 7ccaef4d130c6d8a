"""The verbs of the command line; each parses, calls the library and prints."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer import Option
from typer.core import TyperGroup

from germane.cli.compare import compare, overlap, power
from germane.cli.grade import grade
from germane.cli.init import init
from germane.cli.label import audit, label
from germane.cli.ledger import app as ledger
from germane.cli.liverag import liverag
from germane.cli.measures import measures
from germane.cli.rank import ABOUT, rank
from germane.cli.report import explain, plot, report
from germane.cli.run import run
from germane.cli.score import score, sweep
from germane.cli.validate import validate
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


def _rank(context: typer.Context) -> None:
    raise typer.Exit(rank(context.args))


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


def _add(*verbs: Callable[..., None]) -> None:
    for verb in verbs:
        app.command()(verb)


_PASSED_ON = {"ignore_unknown_options": True, "allow_extra_args": True}
_add(init, run)
app.command("rank", help=ABOUT, add_help_option=False, context_settings=_PASSED_ON)(_rank)
_add(score, compare, power, overlap, report, plot, explain, grade, label, audit)
app.add_typer(ledger, name="ledger")
_add(liverag, measures, sweep, validate)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"germane {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    _version: bool = Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version."
    ),
    debug: bool = Option(False, "--debug", help="Show the traceback of an error; also after the verb."),
) -> None:
    if debug:
        os.environ["GERMANE_DEBUG"] = "1"
