"""Tables of means, and the output of `germane rank`: tables, values per query, trec_eval's format."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TextIO

import numpy as np

from germane.clean import clean
from germane.errors import InputError
from germane.reports.data import ReportData, Slice
from germane.reports.summary import higher_is_better, in_digits, interval_in_words
from germane.samples.files import whole_file, write_whole
from germane.show.table import Table, csv_lines
from germane.tables.columns import to_frame
from germane.tables.scores import SampleKey

STYLES = {"corrected": "bold", "mean": "bold", "skipped": "dim", "incomplete": "yellow", "errors": "red"}
COUNTS = ("skipped", "incomplete", "errors")  # scores without a value, counted beside a mean


def means_table(
    report: ReportData,
    slices: Iterable[Slice] | None = None,
    first: str = "",
    counts: Sequence[str] | None = None,
    of_all: str = "n",
) -> Table:
    """Return the table of means, with a line per measure and system for the whole report or for each slice.

    `first` is the heading of the column of slice names, `of_all` of the column with the number of scores.
    `counts` names the columns of `COUNTS` to show; None means those that are not all 0.
    """
    zero = "0" if counts else "-"
    lines = [("", summary) for summary in report.summaries]
    if slices is not None:
        lines = [(value.name, summary) for value in slices for summary in value.summaries]
    if counts is None:
        counts = [name for name in COUNTS if any(getattr(summary, name) for _, summary in lines)]
    names = [*filter(None, [first]), *(["system"] if len(report.systems) > 1 else []), "measure"]
    corrected = ["corrected", "interval"] if any(value.corrected for _, value in lines) else []
    heads = [*names, *corrected, "mean", "interval", of_all, *counts]
    table = Table(heads, "l" * len(names) + "r", styles=STYLES)
    for name, value in lines:
        called = {first: name, "system": value.system, "measure": value.measure}
        numbers = [value.in_words(), value.interval_in_words(), value.count_in_words()]
        if corrected:
            mean = value.corrected
            ends = interval_in_words(mean.ends) if mean else "-"
            numbers = [in_digits(mean.mean) if mean else "-", ends, *numbers]
        cells = [str(getattr(value, count) or zero) for count in counts]
        table.add([*(called[head] or "-" for head in names), *numbers, *cells])
    return table


def ranked_table(report: ReportData) -> Table:
    """Return the means of `germane rank`: a column per system, the best mean bold, or else `means_table`."""
    measures, systems = list(report), report.systems
    if len(systems) == 1:
        return means_table(report, counts=(), of_all="n/N")
    table = Table(["measure", *systems])
    for name in measures:
        row = [report[name, system] for system in systems]
        pick = max if higher_is_better(row[0].type) else min
        best = pick((summary.mean for summary in row if summary.mean is not None), default=None)
        cells = [in_digits(of.mean) + (f" ({of.interval_in_words()})" if of.interval else "") for of in row]
        marked = {at for at, of in enumerate(row, 1) if of.mean is not None and of.mean == best}
        table.add([name, *cells], marked)
    table.add(["n/N", *(report[measures[0], system].count_in_words() for system in systems)])
    return table


def queries_table(report: ReportData) -> Table:
    """Return a table with one line per query (and system) and one column per measure."""
    heads = ["system", "query"] if len(report.systems) > 1 else ["query"]
    table = Table([*heads, *report], "l" * len(heads) + "r")
    for (query, system, _), values in per_query(report):
        table.add([*(system, query)[-len(heads) :], *map(in_digits, values)])
    return table


def print_trec(report: ReportData, out: TextIO, *, queries: bool) -> None:
    """Print means in trec_eval's format (measure, `all`, value), after each query's values if `queries`."""
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


WRITTEN = (".csv", ".parquet", ".md", ".tex")  # files that `write` can make


def check_output(path: Path) -> None:
    """Raise InputError if `germane rank` cannot write a file with this extension."""
    if path.suffix.lower() not in WRITTEN:
        problem = f"-o {path}: germane rank cannot write a file with this extension"
        raise InputError(problem, fix=f"name a file that ends in {', '.join(WRITTEN)}")


def write(report: ReportData, path: Path) -> None:
    """Write each query's values (.csv, .parquet), or the table of means (.md, or .tex with booktabs)."""
    check_output(path)
    suffix = path.suffix.lower()
    if suffix in {".md", ".tex"}:
        table = ranked_table(report)
        markdown = table.markdown(lambda cell: cell.replace("|", "\\|"))
        write_whole(path, [markdown if suffix == ".md" else table.tex()])
        return
    rows = [(system, query, *values) for (query, system, _), values in per_query(report)]
    header = ["system", "query", *report]
    if suffix == ".csv":
        write_whole(path, csv_lines([header, *rows]))
        return
    columns = map(list, zip(*rows, strict=True))
    frame = to_frame(dict(zip(header, columns, strict=True)), "polars")
    with whole_file(path) as file:
        frame.write_parquet(file)


def per_query(report: ReportData) -> Iterable[tuple[SampleKey, list[float | None]]]:
    """Yield each sample's key (id, system, trial) with its values, one per measure; None for a missing value."""
    scores = report.tables.scores
    values = np.full((len(scores.samples), len(scores.measures)), np.nan)
    values[scores.sample, scores.measure] = scores.value
    for key, row in zip(scores.samples, values.tolist(), strict=True):
        yield key, [None if value != value else value for value in row]  # noqa: PLR0124 - NaN
