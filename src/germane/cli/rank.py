"""`germane rank`: runs against gold labels, with the exactness of trec_eval."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterable, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from germane.errors import InputError

if TYPE_CHECKING:
    from germane.reports.report import Report
    from germane.reports.schema import RankingLine
    from germane.samples.trec import Format
    from germane.types import Sample

__all__ = ["rank"]


class _Format(StrEnum):
    TREC = "trec"
    TSV = "tsv"
    CSV = "csv"
    JSONL = "jsonl"
    JSON = "json"
    PARQUET = "parquet"


class _Missing(StrEnum):
    ZERO = "zero"
    SKIP = "skip"


class _Duplicates(StrEnum):
    ERROR = "error"
    FIRST = "first"


def rank(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="Ranked results; several files = several systems.")
    ],
    qrels: Annotated[
        Path, typer.Option("--qrels", metavar="GOLD", help="Gold: the grade of each known document.")
    ],
    measures: Annotated[
        list[str] | None,
        typer.Option(
            "-m", "--measure", "--metric", help="Measures; default: nDCG@10 AP RR P@10 R@10 Judged@10"
        ),
    ] = None,
    fmt: Annotated[
        _Format | None, typer.Option("--format", help="Format of the runs; default: seen from the file.")
    ] = None,
    qrels_format: Annotated[
        _Format | None, typer.Option("--qrels-format", help="Format of the gold.")
    ] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option("--columns", help="Columns of a table: query=Query,doc=Passage,score=Sim,grade=Label"),
    ] = None,
    doc_id: Annotated[
        str | None,
        typer.Option(
            "--doc-id", metavar="REGEX", help="The part of an id that names the document, not the chunk."
        ),
    ] = None,
    duplicates: Annotated[
        _Duplicates, typer.Option(help="A document twice in one query: an error, or its best place counts.")
    ] = _Duplicates.ERROR,
    missing: Annotated[
        _Missing, typer.Option(help="A query with gold and no results: counts 0, or is left out.")
    ] = _Missing.ZERO,
    per_query: Annotated[
        bool, typer.Option("-q", "--per-query", help="Also the value of every query.")
    ] = False,
    by: Annotated[
        str | None,
        typer.Option(
            "--by", metavar="TAG", help="Slices, with --queries: a tag, `tags`, or a field of the metadata."
        ),
    ] = None,
    queries: Annotated[
        Path | None,
        typer.Option(
            "--queries",
            help="What is known of the queries (JSONL, JSON, CSV): id, query, tags, metadata, cluster.",
        ),
    ] = None,
    as_trec: Annotated[
        bool, typer.Option("--trec", help="Print as trec_eval does: measure, query, value.")
    ] = False,
    output: Annotated[
        list[Path] | None,
        typer.Option("-o", "--output", help="Also a file: .csv, .parquet per query; .md, .tex of the means."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document on standard output.")] = False,
    fail_under: Annotated[
        list[str] | None,
        typer.Option("--fail-under", help="A gate, e.g. 'mean(nDCG@10)>=0.7'; exit 1 below it."),
    ] = None,
) -> None:
    """Score ranked results against gold labels: TREC, TSV, CSV, JSONL, Parquet; plain, .gz or .zst.

    Every query with gold counts; one without results counts 0. Ties in score are broken by document id, descending,
    as trec_eval does. Lists without scores keep their order.
    """
    os.environ.setdefault(
        "OPENBLAS_NUM_THREADS", "1"
    )  # numpy starts in half the time without threads nobody uses
    from germane.evaluation import rank as ranking
    from germane.measures.declaration import parse_measures
    from germane.reports.gates import Gate
    from germane.reports.ranking import check_output, write
    from germane.samples.trec import read_qrels

    for path in output or []:
        check_output(path)
    wanted = parse_measures(measures or [ranking.DEFAULT_MEASURES])
    gates = [Gate.parse(text) for text in fail_under or []]
    named = _columns(columns or [])
    mapping = ranking.document_ids(doc_id) if doc_id else None
    gold = read_qrels(
        qrels, fmt=_value(qrels_format), columns=named, keep_first=duplicates is _Duplicates.FIRST
    )
    if any(ranking.slow(run, _value(fmt)) for run in runs):
        print(
            "note: large runs are read faster with: pip install 'germane[tables]'",
            file=sys.stderr,
        )
    parts = [
        ranking.rank_file(
            run,
            gold,
            wanted,
            fmt=_value(fmt),
            columns=named,
            system=system,
            missing=missing.value,
            duplicates=duplicates.value,
            doc_id=mapping,
        )
        for run, system in zip(runs, _system_names(runs), strict=True)
    ]
    report = ranking.ranked_report(parts, gates, _queries(queries, by), by)
    _print(report, per_query=per_query, as_json=as_json, as_trec=as_trec)
    for path in output or []:
        write(report, path)
    raise typer.Exit(report.verdict.exit_code)


def _print(report: Report, *, per_query: bool, as_json: bool, as_trec: bool) -> None:
    from germane.clean import clean
    from germane.reports.ranking import print_queries, print_slices, print_table, print_trec

    for note in report.manifest["notes"]:
        print(f"note: {clean(note)}", file=sys.stderr)
    if as_json:
        from germane.reports.formats import json_document

        ranking = _ranking(report) if len(report.systems) > 1 else ()
        document = json_document(report, scores=per_query, ranking=ranking)
        print(json.dumps(document, ensure_ascii=False, allow_nan=False))
    elif as_trec:
        print_trec(report, sys.stdout, queries=per_query)
    else:
        if per_query:
            print_queries(report, sys.stdout)
            print()
        print_table(report, sys.stdout)
        if report.by is not None:
            print()
            print_slices(report, report.slices(report.by), sys.stdout)
        if len(report.systems) > 1:
            from germane.cli.printing import ranking_of

            print(*ranking_of(report), sep="\n")
    for reason in report.verdict.reasons if report.verdict.gates else ():
        print(clean(reason), file=sys.stderr)


def _queries(path: Path | None, by: str | None) -> Iterable[Sample]:
    if path is None:
        if by is not None:
            raise InputError(
                "--by needs what is known of the queries",
                fix="give --queries FILE: JSONL, JSON or CSV with id, query, and tags or metadata",
            )
        return ()
    from germane.samples.reading import read_samples

    return read_samples(path)


def _ranking(report: Report) -> Sequence[RankingLine]:
    from germane.cli.printing import ranking_lines

    return ranking_lines(report)


def _value(chosen: _Format | None) -> Format | None:
    return None if chosen is None else chosen.value


def _columns(texts: Sequence[str]) -> dict[str, str]:
    """`query=Query,doc=Passage` as a mapping; a repeated flag adds to it."""
    from germane.samples.trec import role as check_role

    named: dict[str, str] = {}
    for part in (part for text in texts for part in text.split(",")):
        key, equals, column = (piece.strip() for piece in part.partition("="))
        if not (key and equals and column):
            raise InputError(f"--columns {part!r} is no pair", fix="write --columns query=Query,doc=Passage")
        check_role(key)
        named[key] = column
    return named


def _system_names(runs: Sequence[Path]) -> list[str]:
    """One run is the only system and needs no name; several are named by their files."""
    if len(runs) == 1:
        return [""]
    stems = [run.name.removesuffix(".gz").removesuffix(".zst").rsplit(".", 1)[0] for run in runs]
    for names in (stems, [run.name for run in runs], [str(run) for run in runs]):
        if len(set(names)) == len(names):
            return names
    raise InputError("the same run is given twice", fix="give each file once")
