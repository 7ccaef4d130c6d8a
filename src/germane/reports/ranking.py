"""Tables for a terminal, in which no number and no name is cut, and those that `germane rank` prints."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TextIO

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from germane.reports.clean import clean
from germane.reports.data import ReportData
from germane.reports.summary import MeasureSummary

__all__ = ["WholeTable", "print_queries", "print_table"]

_LEAST, _MOST = 8, 20
"""How narrow a column of names may become before the table turns into one record per line of it: its longest word, but
at least and at most so many signs."""
_PIECE = re.compile(r"\s+|[^\s_(,=\-/:@]*[_,=\-/:]*|\(|@")


class WholeTable(Table):
    """A table that fits the terminal without cutting anything.

    Where it is too wide, names (columns that stand left) wrap at their joints, the widest first, then cells of numbers
    between their words; where that is not enough each row becomes a record of its own: `heading value` pairs.
    """

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The table, fitted."""
        cells = [[_text(cell) for cell in (column.header, *column.cells)] for column in self.columns]
        widths = [max(cell.cell_len for cell in column) for column in cells]
        wide = Measurement.get(console, options.update(max_width=100_000), self._with(cells)).maximum
        excess = wide - options.max_width
        names = [n for n, column in enumerate(self.columns) if column.justify != "right"]
        numbers = [n for n in range(len(cells)) if n not in names]
        floors = {n: max(_LEAST, min(_MOST, max(map(_longest_piece, cells[n])))) for n in names}
        floors |= {n: max(map(_widest_word, cells[n])) for n in numbers}
        for group in (names, numbers):
            while excess > 0 and (able := [n for n in group if widths[n] > floors[n]]):
                widths[max(able, key=widths.__getitem__)] -= 1
                excess -= 1
        if excess > 0:
            yield from self._records(cells)
            return
        fitted = [
            [_wrapped(cell, width) for cell in column] for column, width in zip(cells, widths, strict=True)
        ]
        yield from self._with(fitted).__rich_console__(console, options)

    def _with(self, cells: Sequence[Sequence[Text]]) -> Table:
        """The table with other cells; each column's first is its heading."""
        made = Table(
            box=self.box, show_edge=self.show_edge, pad_edge=self.pad_edge, show_header=self.show_header,
            padding=self.padding, header_style=self.header_style,
        )  # fmt: skip
        for column, mine in zip(self.columns, cells, strict=True):
            made.add_column(mine[0], justify=column.justify, no_wrap=True, overflow="fold")
        for row in zip(*(column[1:] for column in cells), strict=True):
            made.add_row(*row)
        return made

    def _records(self, cells: Sequence[Sequence[Text]]) -> RenderResult:
        heads = [column[0].plain for column in cells]
        for row in zip(*(column[1:] for column in cells), strict=True):
            shown = Text()
            for head, cell in zip(heads, row, strict=True):
                shown += (
                    Text("  " if shown else "")
                    + Text(f"{head} " if head and self.show_header else "", style="dim")
                    + cell
                )
            yield shown


def _text(cell: object) -> Text:
    return cell.copy() if isinstance(cell, Text) else Text(str(cell))


def _widest_word(cell: Text) -> int:
    return max((len(word) for word in cell.plain.split()), default=0)


def _longest_piece(cell: Text) -> int:
    return max((len(piece) for piece in _PIECE.findall(cell.plain)), default=0)


def _wrapped(cell: Text, width: int) -> Text:
    """The text with line breaks at its joints, after a space, _ , = - / : and before ( and @."""
    if cell.cell_len <= width:
        return cell
    lines, line = [], ""
    for piece in _PIECE.findall(cell.plain):
        part = piece
        if Text(line + part).cell_len > width and line.strip():
            lines.append(line.rstrip())
            line, part = "", part.lstrip()
        while Text(part).cell_len > width:  # one long word: there is no joint to take
            head = next(n for n in range(len(part), 0, -1) if Text(part[:n]).cell_len <= max(width, 2))
            lines.append(part[:head])
            part = part[head:]
        line += part
    return Text("\n".join(filter(None, [*lines, line.rstrip()])), style=cell.style)


def print_table(report: ReportData, out: TextIO) -> None:
    """The means, a measure per line; with several systems a column for each, the best of a line bold."""
    table = _table()
    table.add_column("measure")
    lines = [[report[name, system] for system in report.systems] for name in report]
    if len(report.systems) == 1:
        table.add_column("mean", justify="right")
        table.add_column("n/N", justify="right")
        for (summary,) in lines:
            table.add_row(Text(summary.measure), _mean(summary), _count(summary))
    elif _too_wide(report, out):
        _systems_as_rows(report, table, lines)
    else:
        for system in report.systems:
            table.add_column(Text(clean(system)), justify="right")
        for line in lines:
            best = max((summary.mean for summary in line if summary.mean is not None), default=None)
            table.add_row(Text(line[0].measure), *(_mean(summary, best) for summary in line))
        table.add_row(Text("n/N", style="dim"), *map(_count, lines[0]))
    _print(table, out)


def _too_wide(report: ReportData, out: TextIO) -> bool:
    """Whether a column per system does not fit the terminal."""
    console = Console(file=out)
    width = max(map(len, report)) + sum(max(len(clean(system)), 9) + 2 for system in report.systems)
    return console.is_terminal and width > console.width


def _systems_as_rows(report: ReportData, table: Table, lines: Sequence[Sequence[MeasureSummary]]) -> None:
    """The table turned: a line per system, its measures beside each other, the best of each bold."""
    table.columns[0].header = "system"
    bests = [max((one.mean for one in line if one.mean is not None), default=None) for line in lines]
    for line in lines:
        table.add_column(Text(line[0].measure), justify="right")
    table.add_column("n/N", justify="right")
    for number, system in enumerate(report.systems):
        mine = [line[number] for line in lines]
        means = [_mean(summary, best) for summary, best in zip(mine, bests, strict=True)]
        table.add_row(Text(clean(system)), *means, _count(mine[0]))


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
    return WholeTable(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")


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
