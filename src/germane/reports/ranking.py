"""Tables of text: those of means, in every format, and what else `germane rank` prints and writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import numpy as np

from germane.clean import clean, csv_lines
from germane.errors import InputError
from germane.reports.data import ReportData, Slice
from germane.reports.summary import higher_is_better, in_digits
from germane.samples.files import whole_file, write_whole
from germane.tables.columns import to_frame
from germane.tables.scores import SampleKey
from germane.types import FrozenDict

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


def print_table(report: ReportData, out: TextIO) -> None:
    """The means, a measure per line; with several systems a column for each, the best of a line bold."""
    table, console = ranked_table(report), console_of(out)
    if console is not None and len(report.systems) > 1 and table.width > console.width:
        table = ranked_table(report, turned=True)
    table.print(out)


def console_of(out: TextIO) -> Console | None:
    """The terminal that `out` is; None where it is not one."""
    if not out.isatty():
        return None
    from rich.console import Console

    return Console(file=out, highlight=False)


COUNTS = ("skipped", "incomplete", "errors")
"""The counts of scores without a value, shown with a mean."""


def means_table(
    report: ReportData,
    slices: Iterable[Slice] | None = None,
    first: str = "",
    counts: Sequence[str] | None = None,
    of_all: str = "n",
) -> TextTable:
    """A line per measure and system, of these slices or of the whole report; the slice's name stands under `first`.

    `counts` are the columns of counts; None = those in which anything stands. `of_all` heads how many scores there are. Where
    people's labels corrected a judge's mean, the corrected mean and its interval stand first.
    """
    zero = "0" if counts else "-"
    lines = [("", summary) for summary in report.summaries]
    if slices is not None:
        lines = [(value.name, summary) for value in slices for summary in value.summaries]
    if counts is None:
        counts = [name for name in COUNTS if any(getattr(summary, name) for _, summary in lines)]
    names = [*filter(None, [first]), *(["system"] if len(report.systems) > 1 else []), "measure"]
    corrected = ["corrected", "interval"] if any(value.is_corrected for _, value in lines) else []
    table = TextTable([*names, *corrected, "mean", "interval", of_all, *counts], names=len(names))
    for name, value in lines:
        called = {first: name, "system": value.system, "measure": value.measure}
        numbers = [value.in_words(), value.interval_in_words(), value.count_in_words()]
        if corrected:
            numbers = [*value.corrected_cells(), *numbers]
        cells = [str(getattr(value, count) or zero) for count in counts]
        table.add([*(clean(called[head]) or "-" for head in names), *numbers, *cells])
    return table


def ranked_table(report: ReportData, *, turned: bool = False) -> TextTable:
    """The means of a ranking: a row per measure, of several systems a column for each and how many queries they have.

    `turned`, each system has a row and each measure a column.
    """
    measures, systems = list(report), report.systems
    if len(systems) == 1:
        return means_table(report, counts=(), of_all="n/N")
    rows, bold = [], []
    for name in measures:
        line = [report[name, system] for system in systems]
        pick = max if higher_is_better(line[0].type) else min
        best = pick((summary.mean for summary in line if summary.mean is not None), default=None)
        rows.append(
            [in_digits(of.mean) + (f" ({of.interval_in_words()})" if of.interval else "") for of in line]
        )
        bold.append([summary.mean is not None and summary.mean == best for summary in line])
    rows.append([summary.count_in_words() for summary in (report[measures[0], system] for system in systems)])
    bold.append([False] * len(systems))
    heads = ["measure", *map(clean, systems)], [*measures, "n/N"]
    if turned:
        heads = ["system", *measures, "n/N"], list(map(clean, systems))
        rows, bold = (list(map(list, zip(*grid, strict=True))) for grid in (rows, bold))
    table = TextTable(heads[0], names=1)
    for head, row, marked in zip(heads[1], rows, bold, strict=True):
        table.add([head, *row], bold={at for at, mark in enumerate(marked, 1) if mark})
    return table


def queries_table(report: ReportData) -> TextTable:
    """The value of every query, a line each."""
    named = len(report.systems) > 1
    heads = [*(["system"] if named else []), "query"]
    table = TextTable([*heads, *report], names=len(heads))
    for (query, system, _), row in per_query(report):
        table.add([*([clean(system)] if named else []), clean(query), *map(in_digits, row)])
    return table


def print_trec(report: ReportData, out: TextIO, *, queries: bool) -> None:
    """Print as trec_eval does: measure, query, value, with tabs between; the means last, as query `all`."""
    rows = list(per_query(report)) if queries else []
    for system in report.systems:
        for (query, of, _), values in rows:
            if of == system:
                for measure, value in zip(report, values, strict=True):
                    if value is not None:
                        out.write(f"{measure:<22}\t{clean(query)}\t{value:6.4f}\n")
        if system:
            out.write(f"{'runid':<22}\tall\t{clean(system)}\n")
        for measure in report:
            mean = report[measure, system].mean
            if mean is not None:
                out.write(f"{measure:<22}\tall\t{mean:6.4f}\n")


WRITTEN = (".csv", ".parquet", ".md", ".tex")
"""The files that `write` can make."""


def check_output(path: Path) -> None:
    """InputError where `write` makes no file of this name."""
    if path.suffix.lower() not in WRITTEN:
        raise InputError(f"-o {path}: rank writes no such file", fix=f"name it {', '.join(WRITTEN)}")


def write(report: ReportData, path: Path) -> None:
    """The values per query as .csv or .parquet, or the table of means as .md or .tex (booktabs), the best of a line bold.

    MissingPart where a .parquet is asked for and polars is not installed.
    """
    check_output(path)
    suffix = path.suffix.lower()
    if suffix in {".md", ".tex"}:
        table = ranked_table(report)
        write_whole(path, [table.markdown() if suffix == ".md" else table.latex()])
        return
    rows = [(system, query, *values) for (query, system, _), values in per_query(report)]
    header = ["system", "query", *report]
    if suffix == ".parquet":
        columns = zip(*rows, strict=True)
        frame = to_frame({name: list(column) for name, column in zip(header, columns, strict=True)}, "polars")
        with whole_file(path) as file:
            frame.write_parquet(file)
        return
    write_whole(path, csv_lines([header, *rows]))


def per_query(report: ReportData) -> Iterable[tuple[SampleKey, list[float | None]]]:
    """The values of every query, one for each measure; None where there is none."""
    scores = report.tables.scores
    values = np.full((len(scores.samples), len(scores.measures)), np.nan)
    values[scores.sample, scores.measure] = scores.value
    for key, row in zip(scores.samples, values.tolist(), strict=True):
        yield key, [None if value != value else value for value in row]  # noqa: PLR0124 - NaN


@dataclass(slots=True)
class TextTable:
    """A table of text: the first `names` columns are names, the others numbers; some cells are `bold`."""

    header: Sequence[str]
    names: int
    rows: list[Sequence[str]] = field(default_factory=list)
    bold: list[set[int]] = field(default_factory=list)

    def add(self, row: Sequence[str], bold: Iterable[int] = ()) -> None:
        """Append a row; `bold` are the numbers of its cells that stand out."""
        self.rows.append(row)
        self.bold.append(set(bold))

    @property
    def width(self) -> int:
        """Its width on a console, in characters."""
        return sum(widths := self._widths) + 3 * (len(widths) - 1)

    @property
    def _widths(self) -> list[int]:
        return [max(map(len, cells)) for cells in zip(self.header, *self.rows, strict=True)]

    def print(self, out: TextIO) -> None:
        """Print to a terminal with rules and weight, fitted to its width; else plain columns, never cut to a width."""
        if (console := console_of(out)) is not None:
            console.print(self.rich({"mean": "bold"}, show_edge=False, header_style="bold"))
            return
        widths = self._widths
        for row in (self.header, *self.rows):
            cells = (
                cell.ljust(width) if at < self.names else cell.rjust(width)
                for at, (cell, width) in enumerate(zip(row, widths, strict=True))
            )
            out.write("  ".join(cells).rstrip() + "\n")

    def rich(self, styles: Mapping[str, str] = FrozenDict(), **options: Any) -> Table:
        """The table for a rich console; `styles` are those of columns, by heading."""
        from rich.box import SIMPLE_HEAD
        from rich.text import Text

        from germane.reports.text.wholetable import WholeTable

        table = WholeTable(box=SIMPLE_HEAD, pad_edge=False, **options)
        for at, head in enumerate(self.header):
            table.add_column(Text(head), justify="left" if at < self.names else "right")
        for row, bold in zip(self.rows, self.bold, strict=True):
            kinds = ["bold" if at in bold else styles.get(head, "") for at, head in enumerate(self.header)]
            table.add_row(*(Text(cell, style=kind) for cell, kind in zip(row, kinds, strict=True)))
        return table

    def _written(self, escape: Callable[[str], str], bold: str) -> list[list[str]]:
        """The rows with their cells escaped, and what stands out put in place of @ in `bold`."""
        return [
            [bold.replace("@", escape(cell)) if at in marked else escape(cell) for at, cell in enumerate(row)]
            for row, marked in zip(self.rows, self.bold, strict=True)
        ]

    def markdown(self, escape: Callable[[str], str] = lambda cell: cell.replace("|", "\\|")) -> str:
        """The table in Markdown, the best values in bold; `escape` is applied to every cell."""
        rules = ["---"] * self.names + ["---:"] * (len(self.header) - self.names)
        lines = [list(map(escape, self.header)), rules, *self._written(escape, "**@**")]
        return "".join(f"| {' | '.join(line)} |\n" for line in lines)

    def latex(self, rules: tuple[str, str, str] = ("toprule", "midrule", "bottomrule")) -> str:
        """The table as LaTeX's tabular, in the rules of booktabs or others."""
        layout = "l" * self.names + "r" * (len(self.header) - self.names)
        rows = [list(map(_tex, self.header)), *self._written(_tex, r"\textbf{@}")]
        head, *body = (" & ".join(line) + r" \\" for line in rows)
        top, middle, bottom = (f"\\{rule}" for rule in rules)
        begin = rf"\begin{{tabular}}{{{layout}}}"
        return "\n".join([begin, top, head, middle, *body, bottom, r"\end{tabular}"]) + "\n"


_TEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
)


def _tex(text: str) -> str:
    return clean(text).translate(_TEX)
