"""What `germane rank` prints: a table for people, one JSON document for scripts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TextIO

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from germane.ranking import RankedSystem
from germane.reports.clean import clean
from germane.reports.gates import Verdict
from germane.reports.schema import Document, JudgeLine, MeasureLine
from germane.reports.store import dump_score
from germane.reports.summary import MeasureSummary

__all__ = ["print_queries", "print_table", "to_json"]

_NO_JUDGE: JudgeLine = {
    "source": "gold",
    "calls": 0,
    "cached": 0,
    "shared": 0,
    "requests": 0,
    "errors": 0,
    "tokens": {"input": 0, "output": 0},
    "cost_usd": None,
}


def to_json(systems: Sequence[RankedSystem], verdict: Verdict, *, per_query: bool) -> Document:
    """The document that scripts rely on; `measures` at the top only where there is one system."""
    document: Document = {
        "schema_version": 1,
        "passed": verdict.passed,
        "exit_code": verdict.exit_code,
        "report": None,
        "judge": _NO_JUDGE,
        "verdict": list(verdict.reasons),
        "gates": verdict.as_json()["gates"],
        "notes": [note for system in systems for note in system.notes],
        "cases": [],
    }
    measured = [_measures(system) for system in systems]
    if len(systems) == 1:
        document["measures"] = measured[0]
    else:
        names = [system.system for system in systems]
        document["systems"] = [
            {"system": name, "measures": found} for name, found in zip(names, measured, strict=True)
        ]
    if per_query:
        document["scores"] = [dump_score(score) for system in systems for score in system.scores()]
    return document


def _measures(system: RankedSystem) -> dict[str, MeasureLine]:
    return {summary.measure: summary.as_json() for summary in system.summaries()}


def print_table(systems: Sequence[RankedSystem], out: TextIO) -> None:
    """The means: a measure a line; with several systems a column each, the best of a line bold."""
    table = _table()
    table.add_column("measure")
    summaries = [system.summaries() for system in systems]
    if len(systems) == 1:
        table.add_column("mean", justify="right")
        table.add_column("n/N", justify="right")
        for summary in summaries[0]:
            table.add_row(Text(summary.measure), _mean(summary), _count(summary))
    else:
        for system in systems:
            table.add_column(Text(clean(system.system)), justify="right")
        for line in zip(*summaries, strict=True):
            best = max((summary.mean for summary in line if summary.mean is not None), default=None)
            table.add_row(Text(line[0].measure), *(_mean(summary, best) for summary in line))
        table.add_row(Text("n/N", style="dim"), *(_count(found[0]) for found in summaries))
    _print(table, out)


def print_queries(systems: Sequence[RankedSystem], out: TextIO) -> None:
    """The value of every query, a line each."""
    table = _table()
    named = len(systems) > 1
    for heading in (*(["system"] if named else []), "query"):
        table.add_column(heading)
    for measure in systems[0].values:
        table.add_column(Text(str(measure)), justify="right")
    for system in systems:
        columns = [found.tolist() for found in system.values.values()]
        for position, query in enumerate(system.queries):
            counts = bool(system.counted[position])
            cells = [f"{column[position]:.4f}" if counts else "-" for column in columns]
            names = [Text(clean(system.system))] if named else []
            table.add_row(*names, Text(clean(query)), *cells)
    _print(table, out)


def _mean(summary: MeasureSummary, best: float | None = None) -> Text:
    if summary.mean is None:
        return Text("-")
    return Text(f"{summary.mean:.4f}", style="bold" if best is None or summary.mean == best else "")


def _count(summary: MeasureSummary) -> Text:
    return Text(f"{summary.n}/{summary.total}", style="dim")


def _table() -> Table:
    return Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")


def _print(table: Table, out: TextIO) -> None:
    """To a terminal with rules and weight; elsewhere plain columns, never cut to a width."""
    console = Console(file=out, highlight=False)
    if not console.is_terminal:
        table.box, table.show_edge = None, False
        console = Console(file=out, highlight=False, width=100_000, no_color=True)
        with console.capture() as captured:
            console.print(table, no_wrap=True, soft_wrap=True)
        out.writelines(line.rstrip() + "\n" for line in captured.get().splitlines())
        return
    console.print(table)
