"""The report as a person reads it in a terminal: measures, worst queries, cost, verdict."""

from __future__ import annotations

import io
import re
from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from germane.measures.measure import Measure
from germane.reports.clean import shorten
from germane.reports.looking import strips
from germane.reports.manifest import spent_in_words
from germane.reports.summary import MeasureSummary

if TYPE_CHECKING:
    from germane.reports.report import Report

__all__ = ["render", "render_plain"]

_WORST = 5

_HOW_MUCH = re.compile(r"^\d+ of \d+ ")
"""How the reason of a score that lacks some of its verdicts begins."""


def render_plain(report: Report, width: int = 100) -> str:
    """The report as plain text, without colour."""
    out = io.StringIO()
    Console(file=out, width=width, no_color=True, highlight=False, legacy_windows=False).print(render(report))
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())


def render(report: Report) -> RenderableType:
    """The report for a rich console."""
    return Group(*_parts(report))


def _parts(report: Report) -> Iterator[RenderableType]:
    yield _measures(report)
    yield from _whys(report)
    yield from _worst(report)
    yield from _notes(report)
    yield _cost(report)
    if report.folder is not None:
        yield Text(f"report   {report.folder}")
    yield _verdict(report)


def _measures(report: Report) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    several = len(report.systems) > 1
    if several:
        table.add_column("system")
    table.add_column("measure")
    for name in ("mean", "could be", "n", "skipped", "incomplete", "errors"):
        table.add_column(name, justify="right")
    for summary in report.summaries:
        row = [Text(shorten(summary.measure, 50)), *_numbers(summary)]
        table.add_row(*([Text(shorten(summary.system, 20) or "-"), *row] if several else row))
    return table


def _numbers(summary: MeasureSummary) -> list[Text]:
    doubtful = summary.incomplete + summary.errors > 0 and summary.mean_bounds is not None
    span = "{:.4f}-{:.4f}".format(*summary.mean_bounds) if doubtful and summary.mean_bounds else ""
    return [
        Text("-" if summary.mean is None else f"{summary.mean:.4f}", style="bold"),
        Text(span, style="yellow"),
        Text(f"{summary.n}/{summary.total}"),
        Text(str(summary.skipped or "-"), style="dim"),
        Text(str(summary.incomplete or "-"), style="yellow" if summary.incomplete else "dim"),
        Text(str(summary.errors or "-"), style="red" if summary.errors else "dim"),
    ]


def _whys(report: Report, most: int = 6) -> Iterator[Text]:
    """Why scores are missing: each reason once, with the measures that it concerns."""
    measures: dict[tuple[str, int], list[str]] = {}
    for summary in report.summaries:
        if summary.n < summary.total:
            for reason in _reasons(summary)[:2]:
                measures.setdefault(reason, []).append(summary.measure)
    everything = len({summary.measure for summary in report.summaries})
    for (why, count), concerned in list(measures.items())[:most]:
        names = list(dict.fromkeys(concerned))
        where = "every measure" if len(names) == everything > 1 else ", ".join(names[:3])
        more = f" and {len(names) - 3} more" if where != "every measure" and len(names) > 3 else ""
        yield Text(f"  {count} x {shorten(why, 160)} ({where}{more})", style="dim")


def _reasons(summary: MeasureSummary) -> list[tuple[str, int]]:
    """The reasons and of how many scores, the most frequent first: how much a score lacks makes no other reason."""
    found: Counter[str] = Counter()
    for why, count in summary.why:
        found[_HOW_MUCH.sub("", why)] += count
    return found.most_common()


def _worst(report: Report) -> Iterator[RenderableType]:
    if not report.summaries or report.summaries[0].n == 0:
        return
    first = report.summaries[0]
    good = Measure.remembered(first.type).definition.good
    lowest = [
        score for score in report.worst(first.measure, _WORST, first.system) if good(score.value or 0.0) < 1.0
    ]
    if not lowest:
        return
    table = Table(box=None, pad_edge=False, show_header=False, padding=(0, 2, 0, 0))
    for strip, score, query in strips(report, lowest):
        table.add_row(
            f"  {score.value:.4f}",
            Text(strip),
            Text(shorten(score.sample, 30), style="cyan"),
            Text(shorten(query, 60)),
        )
    yield Text(f"worst by {first.measure}   ■ relevant  □ not relevant  · unjudged  ? no verdict")
    yield table


def _notes(report: Report) -> Iterator[Text]:
    yield Text("")
    judge = report.manifest.get("judge") or {}
    if judge.get("stand_in"):
        yield Text(f"note     {judge['stand_in']}", style="yellow")
    for note, count in (report.manifest.get("notes") or {}).items():
        yield Text(f"note     {count} {note}")


def _cost(report: Report) -> Text:
    judge = report.manifest.get("judge") or {}
    if not judge.get("source"):
        return Text("judge    none asked")
    return Text(f"judge    {judge['source']}: {spent_in_words(judge)}")


def _verdict(report: Report) -> Text:
    verdict = report.verdict
    word, style = {
        0: ("passed", "bold green"),
        1: ("failed", "bold red"),
        2: ("not measurable", "bold red"),
        3: ("undecided", "bold yellow"),
    }.get(verdict.exit_code, ("interrupted", "bold yellow"))
    text = Text("verdict  ").append(word, style=style).append(f" (exit code {verdict.exit_code})")
    reasons = [reason for reason in verdict.reasons if not (verdict.gates and "gate" in reason.split(":")[0])]
    text.append(": " + "; ".join(reasons) if reasons else "")
    for gate in sorted(verdict.gates, key=lambda gate: _ORDER[gate.outcome]):
        text.append(f"\n  {gate.outcome:9}", style=_STYLE[gate.outcome]).append(
            f" {gate.gate}  {gate.detail}"
        )
    return text


_ORDER = {"failed": 0, "undecided": 1, "passed": 2}
_STYLE = {"failed": "red", "undecided": "yellow", "passed": "green"}
