"""The output of `germane rank`: tables of means and of values per query, files, and trec_eval's format."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TextIO

import numpy as np

from germane.clean import clean
from germane.errors import InputError
from germane.reports.data import ReportData
from germane.reports.summary import higher_is_better, in_digits, interval_in_words, means_table
from germane.samples.files import whole_file, write_whole
from germane.show.table import Table, csv_lines
from germane.tables.scores import SampleKey, to_frame


def ranked_table(report: ReportData) -> Table:
    """Return the means, with a column per system and the best in bold, or `means_table` for one system."""
    measures, systems = list(report), report.systems
    if len(systems) == 1:
        return means_table(report.summaries, counts=(), of_all="n/N")
    table = Table(["measure", *systems])
    for name in measures:
        row = [report[name, system] for system in systems]
        pick = max if higher_is_better(row[0].type) else min
        best = pick((summary.mean for summary in row if summary.mean is not None), default=None)
        cells = [
            in_digits(line.mean) + (f" ({interval_in_words(line.interval)})" if line.interval else "")
            for line in row
        ]
        marked = {at for at, line in enumerate(row, 1) if line.mean is not None and line.mean == best}
        table.add([name, *cells], marked)
    table.add(["n/N", *(report[measures[0], system].count_in_words() for system in systems)])
    return table


def queries_table(report: ReportData) -> Table:
    """Return a table with one row per query (and system) and one column per measure."""
    heads = ["system", "query"] if len(report.systems) > 1 else ["query"]
    table = Table([*heads, *report], "l" * len(heads) + "r")
    for (query, system, _), values in per_query(report):
        table.add([*(system, query)[-len(heads) :], *map(in_digits, values)])
    return table


def print_trec(report: ReportData, out: TextIO, *, queries: bool) -> None:
    """Print the means in trec_eval's format (measure, `all`, value), with `queries` after those per query."""
    rows = list(per_query(report)) if queries else []
    for system in report.systems:
        for (query, owner, _), values in rows:
            if owner == system:
                for measure, value in zip(report, values, strict=True):
                    if value is not None:
                        out.write(f"{measure:<22}\t{clean(query)}\t{value:6.4f}\n")
        if system:
            out.write(f"{'runid':<22}\tall\t{clean(system)}\n")
        for measure in report:
            mean = report[measure, system].mean
            if mean is not None:
                out.write(f"{measure:<22}\tall\t{mean:6.4f}\n")


WRITTEN = (".csv", ".parquet", ".md", ".tex")  # extensions of the files that `write` can write


def check_output(path: Path) -> None:
    """Raise InputError if `germane rank` cannot write files with this extension."""
    if path.suffix.lower() not in WRITTEN:
        problem = f"-o {path}: germane rank cannot write a file with this extension"
        raise InputError(problem, fix=f"name a file that ends in {', '.join(WRITTEN)}")


def write(report: ReportData, path: Path) -> None:
    """Write each query's values to a .csv or .parquet file, or the table of means to a .md or .tex file."""
    suffix = path.suffix.lower()
    if suffix in {".md", ".tex"}:
        table = ranked_table(report)
        markdown = table.markdown(lambda cell: cell.replace("|", "\\|"))
        write_whole(path, [markdown if suffix == ".md" else table.tex()])
        return
    rows = [(system, query, *values) for (query, system, _), values in per_query(report)]
    heads = ["system", "query", *report]
    if suffix == ".csv":
        write_whole(path, csv_lines([heads, *rows]))
        return
    columns = zip(heads, map(list, zip(*rows, strict=True)), strict=True)
    with whole_file(path) as file:
        to_frame(dict(columns), "polars").write_parquet(file)


def per_query(report: ReportData) -> Iterable[tuple[SampleKey, list[float | None]]]:
    """Yield (sample key, values of the measures, None if missing) for each sample."""
    scores = report.tables.scores
    values = np.full((len(scores.ids), len(scores.measures)), np.nan)
    values[scores.sample, scores.measure] = scores.value
    for key, row in zip(scores.samples, values.tolist(), strict=True):
        yield key, [None if value != value else value for value in row]  # noqa: PLR0124 - NaN
