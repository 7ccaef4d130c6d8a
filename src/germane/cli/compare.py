"""The command `germane compare`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from germane.cli.finishing import annotate, latest_reports, page_sections, print_console
from germane.cli.output import print_document, refuse_input, say
from germane.comparison.compare import check_same_data
from germane.comparison.compare import compare as compare_reports
from germane.comparison.formats import COMPARISON_FORMATS, render_comparison
from germane.reports.formats import gate_commands


def compare(
    reports: Sequence[Path], *, output: Sequence[Path], verbose: bool, json: bool, **flags: Any
) -> int:
    """Compare systems on the same queries, each with the first: paired differences, tests, changed queries.

    The first lines say which system is better, per measure. Default: the two latest reports in germane-reports.
    Exit codes with --margin and --fail-on-regression: 0 no worse, 1 worse, 3 undecided (printed with the number of queries
    that would decide it), too few common queries, or judged by a stand-in.
    """
    named = list(reports) or latest_reports("compare", 2)
    for path in output:
        refuse_input(path, named)
    if not reports:
        check_same_data(*named)
    comparison = compare_reports(*named, **{name: value for name, value in flags.items() if value != []})
    for path in output:
        sections = page_sections(comparison.last_report()) if path.suffix.lower() == ".html" else {}
        comparison.save(path, **sections)
    if summary := os.environ.get("GITHUB_STEP_SUMMARY"):
        with Path(summary).open("a", encoding="utf-8") as page:
            page.write(f"{COMPARISON_FORMATS['.md'](comparison)}\n")  # a blank line, should more follow
    annotate(gate_commands(comparison.gates))
    if json:
        print_document(comparison.to_json())
    else:
        print_console(render_comparison(comparison, every=verbose))
    for path in output:
        say(f"wrote {path}")
    return comparison.exit_code
