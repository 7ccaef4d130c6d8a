"""The charts of a report: relevance by rank, differences per query."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TypeAlias

import numpy as np

from germane.clean import counted
from germane.errors import InputError, MissingPart, install_extra
from germane.reports.data import ReportData
from germane.reports.explain import strips as strips_of
from germane.reports.pairing import PairedSystems, sides_of
from germane.reports.plots.svg import (
    LEFT,
    OUTLINE,
    RIGHT,
    SERIES,
    WIDTH,
    Chart,
    Frame,
    document,
    marker,
    polyline,
    rect,
    tag,
    text,
)
from germane.reports.summary import higher_is_better, in_digits, interval_in_words
from germane.samples.files import write_whole

_DEEPEST = 20
"""The last rank that is drawn."""
_MOST_SERIES = len(SERIES)
_MOST_POINTS = 3_000
Points: TypeAlias = Sequence[tuple[int, float]]


def _lines(frame: Frame, lines: Mapping[str, Points]) -> tuple[str, list[tuple[str, str]], str]:
    """The lines as far as there are colours for them, their names, and how many are not drawn."""
    drawn_lines = dict(list(lines.items())[:_MOST_SERIES])
    left = len(lines) - len(drawn_lines)
    drawn = "".join(polyline(frame, points, number) for number, points in enumerate(drawn_lines.values()))
    series = [
        (tag("g", marker(0, 0, number, 4.5), color=f"s{number % len(SERIES)}"), name or "-")
        for number, name in enumerate(drawn_lines)
    ]
    return drawn, series, f"{left} more are not drawn" if left else ""


def _thinned(marks: Sequence[int], most: int) -> Sequence[int]:
    step = -(-len(marks) // most)
    return marks if step == 1 else [*marks[:-1:step], marks[-1]]


_SHADES = (("relevant", "good"), ("not relevant", "none"))


def ranks(
    report: ReportData, strips: Sequence[tuple[str, str]] | None = None, whose: str = ""
) -> Chart | None:
    """The share of lists whose context at each rank is relevant, not relevant, or has no label, of those that reach the rank.

    None where no place at all is relevant.

    Args:
        report: The report.
        strips: (system, strip) of each sample: a sign per place, ■ or A to D relevant, □ or a to d not, others not known,
            with a bar between calls. None = as the first ranked measure of the report has them.
        whose: Whose labels they show, in words.
    """
    if strips is None:
        first = [score for score in report.scores() if score.measure == report.measures[0]]
        strips = [(score.system, strip) for strip, score, _ in strips_of(report, first)] if first else []
    kinds = dict.fromkeys("ABCD■", "relevant") | dict.fromkeys("abcd□", "not relevant")
    counts: dict[str, list[Counter[str]]] = {system: [] for system in report.systems}
    for system, strip in strips:
        of = counts.setdefault(system, [])
        for call in strip.split("|"):
            for rank, sign in enumerate(call[:_DEEPEST]):
                if rank == len(of):
                    of.append(Counter())
                of[rank][kinds.get(sign, "no label")] += 1
    counts = {system: of for system, of in counts.items() if of}
    if not any("relevant" in rank for of in counts.values() for rank in of):
        return None
    depth = max(map(len, counts.values()))
    names = "relevant", *["not relevant"] * (len(counts) == 1)
    most = max(sum(rank[name] for name in names) / rank.total() for of in counts.values() for rank in of)
    top = next(end for end in (0.1, 0.2, 0.5, 1.0) if most <= end * 0.95 or end == 1.0)
    frame = Frame((0.5, depth + 0.5), (0.0, top))
    body = frame.axes("rank", "share of the lists", marks_x=_thinned(range(1, depth + 1), 20))
    note = ""
    if len(counts) == 1:
        (of,) = counts.values()
        body += "".join(_bar(frame, rank, count) for rank, count in enumerate(of, 1))
        series = [(_swatch(colour), name) for name, colour in _SHADES]
        if any("no label" in rank for rank in of):
            series.append((_swatch("paper"), "no label"))
    else:
        shares = {
            name: [(rank, _share(count)) for rank, count in enumerate(of, 1)] for name, of in counts.items()
        }
        drawn, series, note = _lines(frame, shares)
        body += drawn
    judged = {
        name: ", ".join(f"rank {rank} {_share(count):.2f}" for rank, count in enumerate(of, 1))
        for name, of in counts.items()
    }
    words = "; ".join(f"{name} {text}" if name else text for name, text in judged.items())
    title = "Relevant at each rank" + (f", by {whose}" if whose else "")
    return Chart(kind="ranks", title=title, words=words, body=body, series=series, note=note)


def _share(count: Counter[str]) -> float:
    return count["relevant"] / count.total()


def _bar(frame: Frame, rank: int, count: Counter[str]) -> str:
    left, right = frame.across(rank - 0.36), frame.across(rank + 0.36)
    below, body = 0.0, rect(left, frame.up(frame.y[1]), right, frame.up(0), "none", **OUTLINE)
    for name, colour in _SHADES:
        if share := count[name] / count.total():
            words = f"rank {rank}: {count[name]} of {count.total()} {name}"
            body += rect(left, frame.up(below + share), right, frame.up(below), colour, words)
            below += share
    if right - left > 26 and count["relevant"]:
        share, at = _share(count), {"text_anchor": "middle", "font_size": 11}
        body += text(f"{share:.0%}", (left + right) / 2, frame.up(share) - 4, color="ink", **at)
    return body


def _swatch(colour: str) -> str:
    return rect(-5, -5, 5, 5, colour, rx=2) + rect(-5, -5, 5, 5, "axis", rx=2, **OUTLINE)


def differences(report: ReportData, baseline: ReportData, measure: str, system: str | None = None) -> Chart:
    """The difference of each query to the baseline, the largest gain first, with the mean and its interval.

    InputError where the two have no query in common.
    """
    system = report.systems[0] if system is None else system
    other = system if system in baseline.systems else baseline.systems[0]
    before, now = sides_of([baseline, report], [other, system])
    pair, name = PairedSystems(before, now), report.reported(measure)
    ours, theirs = pair.values(name)
    gain = theirs.values - ours.values
    labelled = np.flatnonzero(~np.isnan(gain))
    if not len(labelled):
        raise InputError(f"no query has {measure} in both reports", fix="compare the same queries")
    order = labelled[np.argsort(-gain[labelled], kind="stable")]
    change = gain[order]
    comparison = pair.compare(name)
    ends = comparison.interval.ends
    low, high = (end([*change[[0, -1]].tolist(), *(ends or ()), 0.0]) for end in (min, max))
    frame = Frame((0.0, float(len(change))), (low, high) if low < high else (-0.05, 0.05))
    higher = higher_is_better(comparison.type)
    step = max(len(change) / _MOST_POINTS, 1.0)  # bars thinner than a pixel say no more
    gap = 1 if len(change) < 150 else 0
    body = frame.axes("queries, the largest gain first", f"difference in {name}", signed=True, marks_x=())
    for position in np.arange(0, len(change), step).astype(int).tolist():
        if by := float(change[position]):
            words = f"{pair.a.scores.cases[int(ours.case[order[position]])]} {by:+.4f}"
            left, right = frame.across(position), frame.across(position + step) - gap
            foot, top = sorted((frame.up(0), frame.up(by)), reverse=True)
            colour = "good" if (by > 0) is higher else "bad"
            body += rect(left, top, max(right, left + 0.5), foot, colour, words)
    right = WIDTH - RIGHT
    if ends is not None:
        top, foot = frame.up(ends[1]), frame.up(ends[0])
        body += rect(LEFT, top, right, max(foot, top + 1.0), "s0", fill_opacity=0.16)
    body += tag(
        "path", d=f"M{LEFT} {frame.up(float(change.mean())):.1f}H{right}", color="s0", stroke="currentColor",
        stroke_width=1.5, stroke_dasharray="6 3",
    )  # fmt: skip
    interval = "" if ends is None else f", 95% interval {interval_in_words(ends, sign='+')}"
    up, down = (comparison.wins, comparison.losses) if higher else (comparison.losses, comparison.wins)
    words = f"mean {in_digits(comparison.difference, '+')}{interval} over {counted(comparison.n, 'query')}; {up} up, {comparison.ties} the same, {down} down"
    title = f"Difference per query, {name}" + (f", {system}" if system else "")
    return Chart(kind="differences", title=title, words=words, body=body, note=words)


def differences_of(report: ReportData, baseline: ReportData) -> list[Chart]:
    """The differences of each system to a baseline in the report's first measure; InputError where they cannot be drawn."""
    name = baseline.reported(report.measures[0])
    return [differences(report, baseline, name, system) for system in report.systems]


def charts_of(
    report: ReportData,
    *,
    strips: Sequence[tuple[str, str]] | None = None,
    baseline: ReportData | None = None,
) -> list[Chart]:
    """The charts that a report has data for: relevance by rank, and the differences of its first measure to a baseline.

    Args:
        report: The report.
        strips: As of `ranks`.
        baseline: What differences are to.

    Raises:
        InputError: The report has nothing to draw.
    """
    if not report.measures:
        raise InputError("the report has no measure to draw")
    chart = ranks(report, strips)
    charts = [chart] if chart is not None else []
    if baseline is not None:
        charts += differences_of(report, baseline)
    if not charts:
        fix = "it takes labelled contexts (a ranked measure in a report of germane run), or --baseline REPORT"
        raise InputError("the report holds nothing that could be drawn", fix=fix)
    return charts


def write_picture(report: ReportData, path: Path, baseline: ReportData | None = None) -> None:
    """Write the charts of a report to a .svg or .png file."""
    drawn = document(charts_of(report, baseline=baseline))
    write_whole(path, _png(drawn) if path.suffix.lower() == ".png" else drawn.encode())


def _png(drawn: str) -> bytes:
    """An SVG document as a PNG; MissingPart without the extra `png`."""
    try:
        import resvg_py
    except ImportError:
        fix = f"{install_extra('png')}, or write a .svg"
        raise MissingPart("a .png takes the package resvg-py", fix=fix) from None
    return bytes(resvg_py.svg_to_bytes(svg_string=drawn, zoom=2))
