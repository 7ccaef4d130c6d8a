"""The tables that `germane rank` prints: means side by side, and the value of every query."""

from __future__ import annotations

from typing import TextIO

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from germane.reports.clean import clean
from germane.reports.data import ReportData
from germane.reports.summary import MeasureSummary

__all__ = ["print_queries", "print_table"]


def print_table(report: ReportData, out: TextIO) -> None:
    """The means, a measure per line; with several systems a column for each, the best of a line bold."""
    table = _table()
    table.add_column("measure")
    lines = [[report[name, system] for system in report.systems] for name in report]
    if len(report.systems) == 1:
        table.add_column("mean", justify="right")
        table.add_column("interval", justify="right")
        table.add_column("n/N", justify="right")
        for (summary,) in lines:
            interval = Text(summary.interval_in_words())
            table.add_row(Text(summary.measure), _mean(summary), interval, _count(summary))
    else:
        for system in report.systems:
            table.add_column(Text(clean(system)), justify="right")
        for line in lines:
            best = max((summary.mean for summary in line if summary.mean is not None), default=None)
            table.add_row(Text(line[0].measure), *(_mean(summary, best) for summary in line))
        table.add_row(Text("n/N", style="dim"), *map(_count, lines[0]))
    _print(table, out)


def print_queries(report: ReportData, out: TextIO) -> None:
    """The value of every query, a line each."""
    table = _table()
    named = len(report.systems) > 1
    for heading in (*(["system"] if named else []), "query"):
        table.add_column(heading)
    for measure in report:
        table.add_column(Text(measure), justify="right")
    scores = report.tables.scores
    values = np.full((len(scores.samples), len(scores.measures)), np.nan)
    values[scores.sample, scores.measure] = scores.value
    for (query, system, _), row in zip(scores.samples, values.tolist(), strict=True):
        cells = ["-" if value != value else f"{value:.4f}" for value in row]  # noqa: PLR0124 - NaN
        names = [Text(clean(system))] if named else []
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
