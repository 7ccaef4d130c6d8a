"""Read LiveRAG's results and references (TSV, JSON, JSON Lines), and write its two result files."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from germane.addons.compat.liverag import AGGREGATES, COLUMNS, ContextRecall, EvaluationResult, Parity
from germane.clean import counted
from germane.cli.output import print_lines, say
from germane.errors import InputError, SourceLocation, describe
from germane.samples import named_rows
from germane.samples.files import location_in, read_lines, read_text, shown_name, write_whole
from germane.samples.strictjson import json_in, locate, read_json_lines
from germane.show.table import csv_lines
from germane.types import Json

OutputFormat: TypeAlias = Literal["tsv", "jsonl"]


def read_rows(path: str | Path, needed: str, *, parity: Parity | None = None) -> list[dict[str, Json]]:
    """Return the rows of a file of results or references, each with its location as `place`.

    `needed` is the field that each row must contain. With `parity="liverag"`, the qids of a TSV file are read
    as numbers if all are whole numbers, as by LiveRAG's script.
    """
    path = Path(path)
    suffix = Path(path.name.removesuffix(".gz")).suffix.lower()
    file = SourceLocation(shown_name(path))
    located: Iterable[tuple[SourceLocation, Json]]
    if suffix == ".tsv":  # a table with a header, quoted as by pandas
        located = named_rows((line for _, line in read_lines(path)), "\t", shown_name(path))
    elif suffix in {".jsonl", ".ndjson"}:
        located = read_json_lines(path)
    elif suffix == ".json":  # a list of objects, or one object
        text = read_text(path)
        fix = "name a file .json if it is one JSON document, .jsonl if it has one object per line"
        document = json_in(text, path, fix=fix) if text.strip() else []
        several = isinstance(document, list)
        located = [
            (location_in(path, text, locate(text, (number,)) if several else None), row)
            for number, row in enumerate(document if several else [document])
        ]
    else:
        fix = "use a file that ends in .tsv, .jsonl, .ndjson, .json"
        raise InputError("unknown file format", fix=fix, place=file)
    rows: list[dict[str, Json]] = []
    for at, row in located:
        if not isinstance(row, dict):
            fix = f'write {{"qid": "1", "{needed}": [...]}}'
            raise InputError(f"this row is {describe(row)}, not an object", fix=fix, place=at)
        if needed not in row:
            problem = f"this row has no {needed}, only the fields {', '.join(row)[:200]}"
            raise InputError(problem, fix=f"write qid and {needed}", place=at)
        if needed == "doc_ids" and row[needed] in ("", None):
            raise InputError("doc_ids has no value", fix="write [] if nothing was retrieved", place=at)
        rows.append({**row, "place": at})
    if not rows:
        raise InputError("the file is empty", fix=f"write qid and {needed}", place=file)
    named = [entry for entry in rows if entry.get("qid")]
    whole = (re.fullmatch(r"\s*[+-]?\d+\s*", entry["qid"]) for entry in named)
    if parity and suffix == ".tsv" and all(whole):
        for entry in named:
            entry["qid"] = int(entry["qid"])
    return rows


def write_files(
    result: EvaluationResult, results: Path, folder: Path, name: str, fmt: OutputFormat, command: str = ""
) -> tuple[Path, Path]:
    """Write the aggregates and the rows of a result to two files in `folder`, and return their paths.

    The names are `<stem>.eval<MMDDHHMM>.<name>.aggregated.<fmt>` and `....rows.<fmt>`, with seconds if such
    files exist. The columns are those of LiveRAG's script.
    """
    stem = results.name.removesuffix(".gz").rsplit(".", 1)[0]
    for shape in ("%m%d%H%M", "%m%d%H%M%S", "%m%d%H%M%S%f"):
        base = f"{stem}.eval{result.timestamp.strftime(shape)}.{name}"
        paths = folder / f"{base}.aggregated.{fmt}", folder / f"{base}.rows.{fmt}"
        if not any(path.exists() for path in paths):
            break
    folder.mkdir(parents=True, exist_ok=True)
    aggregated: dict[str, Json] = {
        "evaluator_name": result.evaluator_name,
        "sample_count": result.sample_count,
        "system_name": result.system_name,
        "timestamp": result.timestamp.replace(tzinfo=None).isoformat(),
        "is_aggregated": True,
        "full_command": command or None,
        "total_time_ms": result.total_time_ms,
        **dict.fromkeys(AGGREGATES),
        **result.metrics,
        "processing_time_ms": result.total_time_ms,
    }
    common = {"evaluator_name": result.evaluator_name, "is_aggregated": False, **dict.fromkeys(COLUMNS)}
    rows = [{"qid": row.qid, **common, **row.metrics} for row in result.rows]
    write_whole(paths[0], [_written(list(aggregated), [aggregated], fmt)])
    write_whole(paths[1], [_written(["qid", *common], rows, fmt)])
    return paths


def _written(header: Sequence[str], rows: Iterable[Mapping[str, Json]], fmt: OutputFormat) -> str:
    if fmt == "jsonl":
        return "".join(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)
    return "".join(csv_lines([header, *([row[name] for name in header] for row in rows)], "\t"))


def report(result: EvaluationResult) -> str:
    """Return the aggregates as text, one per line; the first is recall, as in LiveRAG's challenge."""
    questions = counted(len(result.rows), "question")
    lines = [f"{result.evaluator_name}: {result.sample_count} of {questions} scored"]
    width = max(map(len, AGGREGATES))
    for name in AGGREGATES:
        value = result.metrics.get(name)
        percent = name.startswith("pct_")
        text = "-" if value is None else f"{value:.2f} %" if percent else f"{value:.4f}"
        lines.append(f"  {name:{width}}  {text}")
    return "\n".join(lines)


def liverag(
    *,
    results: Path,
    reference: Path,
    evaluator: str,
    output_dir: Path,
    output_prefix: str | None,
    output_format: OutputFormat,
    parity: Parity | None,
) -> None:
    """Score LiveRAG results against gold documents (recall, precision, F1, nDCG@10); writes .aggregated and .rows files."""
    name = evaluator.rpartition(".")[2]
    if name != ContextRecall.__name__:
        raise InputError(f"unknown evaluator {evaluator!r}", fix="write --evaluator ContextRecall")
    retrieved = read_rows(results, "doc_ids", parity=parity)
    gold = read_rows(reference, "document_ids", parity=parity)
    result = ContextRecall(parity=parity).evaluate(retrieved, gold)
    if not result.sample_count:
        fix = "write document_ids in the references, and the same qids in both files"
        raise InputError("no question could be scored", fix=fix)
    print_lines(report(result))
    for note in result.notes:
        say(f"note: {note}")
    command = " ".join(sys.argv)
    for path in write_files(result, results, output_dir, output_prefix or name, output_format, command):
        say(f"wrote {path}")
