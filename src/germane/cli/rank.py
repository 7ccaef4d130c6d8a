"""`germane rank`: runs against gold labels, with the exactness of trec_eval."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from germane.clean import clean, clean_lines
from germane.cli.values import pairs, print_document
from germane.errors import InputError

if TYPE_CHECKING:
    from germane.reports.report import Report
    from germane.types import Sample

ABOUT = """Score ranked results against gold labels: TREC, TSV, CSV, JSONL, JSON, Parquet, BEIR; plain, .gz or .zst.

Every query with gold counts; one without results counts 0. Ties in score are broken by document id, descending,
as trec_eval does. Lists without scores keep their order."""
_FORMATS = ("trec", "tsv", "csv", "jsonl", "json", "parquet")


def _parser(width: int | None) -> argparse.ArgumentParser:
    """The options. argparse and not typer, which takes longer to load than a hundred queries take to rank.

    `width` of the help; None = the terminal's, for which argparse imports more.
    """
    parser = argparse.ArgumentParser(
        "germane rank",
        description=ABOUT,
        formatter_class=lambda prog: argparse.RawDescriptionHelpFormatter(prog, width=width),
        allow_abbrev=False,
    )
    add = parser.add_argument
    add(
        "runs",
        metavar="RUN",
        nargs="+",
        type=Path,
        help="ranked results; several files = several systems; - = stdin",
    )
    add(
        "--qrels",
        metavar="GOLD",
        type=Path,
        required=True,
        help="gold: the grade of each known document; a file, or a BEIR folder",
    )
    add(
        "-m", "--measure", "--metric", dest="measures", metavar="MEASURE", action="append",
        help="measures; default: nDCG@10 AP RR P@10 R@10 Judged@10",
    )  # fmt: skip
    add("--format", choices=_FORMATS, help="format of the runs; default: seen from the file")
    add("--qrels-format", choices=_FORMATS, help="format of the gold")
    add(
        "--columns", action="append", default=[],
        help="columns of a table: query=Query,doc=Passage,score=Sim,grade=Label",
    )  # fmt: skip
    add("--doc-id", metavar="REGEX", help="the part of an id that names the document, not the chunk")
    add(
        "--duplicates", choices=("error", "first"), default="error",
        help="a document twice in one query: an error, or its best place counts",
    )  # fmt: skip
    add(
        "--missing", choices=("zero", "skip"), default="zero",
        help="a query with gold and no results: counts 0, or is left out",
    )  # fmt: skip
    add(
        "--on-bad-row",
        choices=("error", "skip"),
        default="error",
        help="a row that cannot be read: an error, or left out and said",
    )
    add("--max-line", metavar="MB", help="megabytes that a line may have (64; also GERMANE_MAX_LINE)")
    add("-q", "--per-query", action="store_true", help="also the value of every query")
    add("--by", metavar="TAG", help="slices, with --queries: a tag, `tags`, or a field of the metadata")
    add(
        "--queries", metavar="FILE", type=Path,
        help="what is known of the queries (JSONL, JSON, CSV): id, query, tags, metadata, cluster",
    )  # fmt: skip
    add("--trec", action="store_true", help="print as trec_eval does: measure, query, value")
    add("--json", action="store_true", help="one JSON document on standard output")
    add(
        "-o", "--output", type=Path, action="append", default=[],
        help="also a file: .csv, .parquet per query; .md, .tex of the means",
    )  # fmt: skip
    add(
        "--fail-under", metavar="GATE", action="append", default=[],
        help="a gate, e.g. 'mean(nDCG@10)>=0.7'; exit 1 below it",
    )  # fmt: skip
    return parser


def rank(words: Sequence[str]) -> int:
    """Do what the words after `germane rank` say, and return the exit code."""
    chosen = _parser(None if {"-h", "--help"} & set(words) else 100).parse_intermixed_args(words)
    if chosen.max_line:
        os.environ["GERMANE_MAX_LINE"] = chosen.max_line
    gc.set_threshold(1_000_000, 20, 100)  # importing polars makes many objects and no cycles
    # numpy starts in half the time without threads nobody uses
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from germane.evaluation import rank as ranking
    from germane.measures.declaration import parse_measures
    from germane.reports.gates import Gate
    from germane.reports.ranking import check_output, write
    from germane.samples.files import BadRows
    from germane.samples.trec import role

    for path in chosen.output:
        check_output(path)
    if chosen.by is not None and chosen.queries is None:
        fix = "give --queries FILE: JSONL, JSON or CSV with id, query, and tags or metadata"
        raise InputError("--by needs what is known of the queries", fix=fix)
    wanted = parse_measures(chosen.measures or [ranking.DEFAULT_MEASURES])
    gates = [Gate.parse(text) for text in chosen.fail_under]
    named = dict(pairs(chosen.columns, "--columns", "query=Query,doc=Passage"))
    for name in named:
        role(name)
    mapping = ranking.document_ids(chosen.doc_id) if chosen.doc_id else None
    skip, first = chosen.on_bad_row == "skip", chosen.duplicates == "first"
    gold = ranking.GoldFile(
        chosen.qrels, chosen.qrels_format, named, keep_first=first, bad=BadRows(skip=skip)
    )
    runs = [ranking.RunFile(run, chosen.format, named, BadRows(skip=skip)) for run in chosen.runs]
    if any(run.slow for run in runs):
        print("note: large runs are read faster with: pip install 'germane[tables]'", file=sys.stderr)
    parts = [
        ranking.rank_part(
            run,
            gold,
            wanted,
            system=system,
            missing=chosen.missing,
            duplicates=chosen.duplicates,
            doc_id=mapping,
        )
        for run, system in zip(runs, _system_names(chosen.runs), strict=True)
    ]
    queries: Iterable[Sample] = ()
    if chosen.queries is not None:
        from germane.samples.reading import read_samples

        queries = read_samples(chosen.queries)
    report = ranking.ranked_report(parts, gates, queries, chosen.by, notes=gold.bad.notes())
    _print(report, chosen)
    for path in chosen.output:
        write(report, path)
    return report.verdict.exit_code


def _print(report: Report, chosen: Any) -> None:
    from germane.reports.ranking import print_queries, print_slices, print_table, print_trec

    for note in report.manifest["notes"]:
        print(f"note: {clean_lines(note)}", file=sys.stderr)
    if chosen.json:
        from germane.reports.formats import json_document

        print_document(json_document(report, scores=chosen.per_query))
    elif chosen.trec:
        print_trec(report, sys.stdout, queries=chosen.per_query)
    else:
        if chosen.per_query:
            print_queries(report, sys.stdout)
            print()
        print_table(report, sys.stdout)
        if report.by is not None:
            print()
            print_slices(report, report.slices(report.by), sys.stdout)
        if len(report.systems) > 1:
            from germane.reports.pairing import rankings

            print(*rankings(report, report.measures[:1]), sep="\n")
    for reason in report.verdict.reasons if report.verdict.gates else ():
        print(clean(reason), file=sys.stderr)


def _system_names(runs: Sequence[Path]) -> list[str]:
    """One run is the only system and needs no name; several are named by their files."""
    if len(runs) == 1:
        return [""]
    stems = [run.name.removesuffix(".gz").removesuffix(".zst").rsplit(".", 1)[0] for run in runs]
    for names in (stems, [run.name for run in runs], [str(run) for run in runs]):
        if len(set(names)) == len(names):
            return names
    raise InputError("the same run is given twice", fix="give each file once")
