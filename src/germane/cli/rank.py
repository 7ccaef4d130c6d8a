"""`germane rank`: scores runs against gold labels, as trec_eval does."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from germane.clean import clean, clean_lines
from germane.cli.output import print_document, refuse_input
from germane.errors import InputError
from germane.evaluation import rank as ranking
from germane.measures.declaration import parse_measures
from germane.reports.gates import Gate
from germane.reports.report import Report
from germane.reports.text.ranking import check_output, print_trec, queries_table, ranked_table, write
from germane.samples.contexts import document_ids
from germane.samples.runs.formats import GOLD, RUN, role
from germane.samples.runs.source import RowSource

_POLARS = {
    "POLARS_MAX_THREADS": "2",
    "POLARS_ROW_GROUP_PREFETCH_SIZE": "1",
    "_RJEM_MALLOC_CONF": "narenas:1,muzzy_decay_ms:0",
}
"""Environment variables for polars.

More threads need more memory and are not faster. An allocator with one arena returns memory to the system.
"""


def rank(**flags: Any) -> int:
    """Score ranked results against gold labels: TREC, TSV, CSV, JSONL, JSON, Parquet, BEIR; plain, .gz or .zst.

    A query with gold but no results counts 0. Ties in score are broken by document id, descending, as in trec_eval. Lists
    without scores keep their order.
    """
    chosen = SimpleNamespace(**flags)
    for name, value in _POLARS.items():
        os.environ.setdefault(name, value)
    gc.set_threshold(1_000_000, 20, 100)  # reading makes many objects and no cycles
    for path in chosen.output:
        check_output(path)
        refuse_input(Path(path), [*chosen.runs, chosen.qrels])
    measures = parse_measures(chosen.measures or [ranking.DEFAULT_MEASURES])
    gates = [Gate.parse(text) for text in chosen.gates]
    if against := next((gate for gate in gates if gate.how == "change"), None):
        fix = "gate the mean, or compare two reports of germane run: germane compare A B"
        raise InputError(f"the gate {against} needs a baseline, which rank does not take", fix=fix)
    gold, runs, how = files_of(chosen.runs, chosen, skip=chosen.on_bad_row == "skip")
    how = {"missing": chosen.missing, **how}
    parts = [ranking.rank_part(run, gold, measures, system=system, **how) for run, system in runs]
    report = ranking.ranked_report(parts, gates, notes=gold.notes)
    _print(report, chosen, [run for run, _ in runs])
    for path in chosen.output:
        write(report, path)
    return report.verdict.exit_code


def files_of(
    runs: Sequence[Path], chosen: Any, *, skip: bool = False
) -> tuple[RowSource, list[tuple[RowSource, str]], Mapping[str, Any]]:
    """Return the source of the gold, each run's source and system name, and keyword arguments for `hits_of`.

    `chosen` has the value of each flag as an attribute. With `skip`, invalid rows are ignored.
    """
    named = dict(chosen.columns)
    for name in named:
        role(name)
    first = chosen.duplicates == "first"
    gold = RowSource(chosen.qrels, GOLD, chosen.qrels_format, named, keep_first=first, skip=skip)
    files = [RowSource(run, RUN, chosen.format, named, skip=skip) for run in runs]
    how = {"duplicates": chosen.duplicates, "doc_id": document_ids(chosen.doc_id) if chosen.doc_id else None}
    return gold, list(zip(files, _system_names(runs), strict=True)), how


_MOST_COMPARED = 32 << 20
"""Runs of at most this size, in bytes, are compared with each other, because both are held in memory."""


def _print(report: Report, chosen: Any, runs: Sequence[RowSource]) -> None:
    """Print the report of these runs in the format that the flags in `chosen` select."""
    for note in report.manifest["notes"]:
        print(f"note: {clean_lines(note)}", file=sys.stderr)
    if chosen.json:
        from germane.reports.formats import json_document

        print_document(json_document(report, scores=chosen.per_query))
    elif chosen.trec:
        print_trec(report, sys.stdout, queries=chosen.per_query)
    else:
        if chosen.per_query:
            queries_table(report).print(sys.stdout)
            print()
        ranked_table(report).print(sys.stdout)
        sizes = [run.file.stat().st_size for run in runs if run.file]
        if len(runs) == 2 and max(sizes, default=0) <= _MOST_COMPARED:
            from germane.samples.runs.hits import read_run
            from germane.statistics.systems import mean_overlap, rank_biased_overlap

            how = {"fmt": chosen.format, "columns": dict(chosen.columns), "skip": chosen.on_bad_row == "skip"}
            first, second = (read_run(run.source, **how) for run in runs)
            both = (query for query in first if query in second)
            overlap = mean_overlap(rank_biased_overlap(first[query], second[query]) for query in both)
            if overlap is not None:
                print(f"rank-biased overlap of the two runs: {overlap}")
    for reason in report.verdict.reasons if report.verdict.gates else ():
        print(clean(reason), file=sys.stderr)


def _system_names(runs: Sequence[Path]) -> list[str]:
    """Return the systems' names, taken from the names of their run files; the name of a single run is ""."""
    if len(runs) == 1:
        return [""]
    stems = [run.name.removesuffix(".gz").removesuffix(".zst").rsplit(".", 1)[0] for run in runs]
    for names in (stems, [run.name for run in runs], [str(run) for run in runs]):
        if len(set(names)) == len(names):
            return names
    raise InputError("the same run file is given twice", fix="give each file once")
