"""LiveRAG's two files - all questions together, and one row a question - and the short report on the screen."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeAlias

from germane.clean import cell
from germane.integrations.liverag.evaluator import AGGREGATES, COLUMNS, EvaluationResult
from germane.types import Json

OutputFormat: TypeAlias = Literal["tsv", "jsonl"]
_WIDTH = max(map(len, AGGREGATES))


def write_files(
    result: EvaluationResult, results: Path, folder: Path, name: str, fmt: OutputFormat
) -> tuple[Path, Path]:
    """Write `<results stem>.eval<MMDDHHMM>.<name>.aggregated` and `.rows`; returns the two paths.

    The time is the original's: month, day, hour, minute. Where that name is taken the seconds follow, so that
    nothing is overwritten.
    """
    stem = results.name.removesuffix(".gz").rsplit(".", 1)[0]
    for shape in ("%m%d%H%M", "%m%d%H%M%S", "%m%d%H%M%S%f"):
        base = f"{stem}.eval{result.timestamp.strftime(shape)}.{name}"
        paths = folder / f"{base}.aggregated.{fmt}", folder / f"{base}.rows.{fmt}"
        if not any(path.exists() for path in paths):
            break
    folder.mkdir(parents=True, exist_ok=True)
    rows = [{"qid": row.qid, **dict.fromkeys(COLUMNS), **row.metrics} for row in result.rows]
    for path, header, content in zip(
        paths, (_IDENTITY + AGGREGATES, ("qid", *COLUMNS)), ([_aggregated(result)], rows), strict=True
    ):
        path.write_text(_tsv(header, content) if fmt == "tsv" else _jsonl(content), "utf-8", newline="")
    return paths


_IDENTITY = ("evaluator_name", "sample_count", "system_name", "timestamp", "is_aggregated")


def _aggregated(result: EvaluationResult) -> dict[str, Json]:
    identity = (
        result.evaluator_name,
        result.sample_count,
        result.system_name,
        result.timestamp.replace(tzinfo=None).isoformat(),
        True,
    )
    return {**dict(zip(_IDENTITY, identity, strict=True)), **dict.fromkeys(AGGREGATES), **result.metrics}


def _tsv(header: Sequence[str], rows: Iterable[Mapping[str, Json]]) -> str:
    out = io.StringIO(newline="")
    writer = csv.writer(out, delimiter="\t", lineterminator="\n")
    writer.writerow(header)
    writer.writerows([cell(row[name]) for name in header] for row in rows)
    return out.getvalue()


def _jsonl(rows: Iterable[Mapping[str, Json]]) -> str:
    return "".join(json.dumps(row, ensure_ascii=False, allow_nan=False) + "\n" for row in rows)


def report(result: EvaluationResult) -> str:
    """The aggregates as text, recall first: it is what the challenge looks at."""
    head = f"{result.evaluator_name}: {result.sample_count} of {len(result.rows)} questions measured"
    values = {name: result.metrics.get(name) for name in AGGREGATES}
    return "\n".join([head, *(f"  {name:{_WIDTH}}  {_shown(name, value)}" for name, value in values.items())])


def _shown(name: str, value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.2f} %" if name.startswith("pct_") else f"{value:.4f}"
