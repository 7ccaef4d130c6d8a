"""`germane compare`, `power` and `overlap`: did the change help, could we have seen it, and are the lists alike at all?"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from germane.cli.values import print_document, print_lines, say


def compare(reports: Sequence[Path], *, output: Sequence[Path], json: bool, **flags: Any) -> int:
    """Compare systems over the same queries, each against the first: paired differences, tests, what moved.

    It begins with who won, a sentence per measure. Without REPORT it compares the two latest in germane-reports.
    Exit codes with --margin and --fail-on-regression: 0 no worse, 1 worse, 3 undecided: with the number of queries that
    would decide it, where fewer than half of either side's queries are in both, or where a stand-in judged.
    """
    from germane.cli.printing import latest_reports, page_sections, print_console
    from germane.comparison.compare import check_same_data
    from germane.comparison.compare import compare as compare_reports
    from germane.comparison.formats import COMPARISON_FORMATS, render_comparison

    named = list(reports) or latest_reports("compare", 2)
    if not reports:
        check_same_data(*named)
    comparison = compare_reports(*named, **{name: value for name, value in flags.items() if value != []})
    for path in output:
        sections = page_sections(comparison.reports[-1]) if path.suffix.lower() == ".html" else {}
        comparison.save(path, **sections)
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a", encoding="utf-8") as page:
            page.write(COMPARISON_FORMATS[".md"](comparison))
    if json:
        print_document(comparison.to_json())
    else:
        print_console(render_comparison(comparison))
    for path in output:
        say(f"wrote {path}")
    return comparison.exit_code


def power(
    report: Path,
    other: Path | None,
    *,
    measures: Sequence[str],
    detect: float,
    margin: float | None,
    correlation: float,
    json: bool,
) -> None:
    """Compute the queries that would show a difference or pass a margin, and the smallest one that these show, at 0.05 with power 0.8."""
    import msgspec

    from germane.comparison.planning import PowerDocument, plan_power
    from germane.measures.declaration import parse_measures
    from germane.reports.report import find_report

    first = find_report(report)
    second = None if other is None else find_report(other)
    names = list(map(str, parse_measures(measures))) if measures else first.measures
    plans = [plan_power(first, name, detect, second, correlation, margin) for name in names]
    if json:
        print_document(msgspec.to_builtins(PowerDocument(schema_version=1, measures=plans), enc_hook=float))
    else:
        print_lines("\n".join(map(str, plans)))


def overlap(a: Path, b: Path, *, k: int, p: float, json: bool) -> None:
    """Compare the lists of two systems: rank-biased overlap, overlap@k, and which queries differ at all."""
    from germane.comparison.planning import overlap as overlap_of

    overlap = overlap_of(_lists(a), _lists(b), k=k, p=p)
    if json:
        print_document(overlap.as_json())
    else:
        print_lines(str(overlap))


def _lists(path: Path) -> Mapping[str, Sequence[str]]:
    """The ids of each query's results, best first; ties in score by id, descending, as in trec_eval."""
    if path.is_dir():
        from germane.measures.labels import distinct_contexts
        from germane.reports.report import Report

        return {
            sample.id: [context.id or context.text for context in distinct_contexts(sample)]
            for sample in Report.open(path).samples()
        }
    from germane.samples.trec import read_run

    lists = {}
    for query, results in read_run(path).queries.items():
        pairs = zip(results.scores, results.ids, strict=True) if results.scores else ()
        lists[query] = [name for _, name in sorted(pairs, reverse=True)] or list(results.ids)
    return lists
