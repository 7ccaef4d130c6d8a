"""The charts of a report as SVG: relevance by rank, and differences per query. Colours follow the reader's light or dark mode."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, isfinite, log10
from pathlib import Path

import numpy as np

from germane.clean import clean, counted
from germane.errors import InputError, MissingPart, install_extra
from germane.reports.data import ReportData
from germane.reports.explain import strips as strips_of
from germane.reports.pairing import PairedSystems, sides_of
from germane.reports.summary import higher_is_better, in_digits, interval_in_words
from germane.samples.files import write_whole

WIDTH, HEIGHT = 560, 300
"""The size of a chart, in pixels."""
LEFT, RIGHT, TOP, BOTTOM = 64, 20, 18, 44
"""The space around a chart's own area, for the numbers and names of its axes."""

_SERIES = (
    ("#2b6cb0", "#7db8f0"),
    ("#c05621", "#f2a36b"),
    ("#2f855a", "#7fd6a0"),
    ("#805ad5", "#c4a7f5"),
    ("#97266d", "#f19ac8"),
    ("#5f6b14", "#cfd96a"),
    ("#0f766e", "#6fd8cf"),
    ("#4a5568", "#b8c2cf"),
)
"""The colours of lines, light and dark: told apart by those who do not see red and green too."""
_COLOURS = {
    "paper": ("#ffffff", "#14181c"),
    "ink": ("#1c2329", "#e6eaed"),
    "quiet": ("#566069", "#a3adb5"),
    "grid": ("#e3e8ec", "#2c353c"),
    "axis": ("#8a949c", "#6b767f"),
    "good": ("#1a6b3c", "#7fd6a0"),
    "bad": ("#a32020", "#ff9d94"),
    "none": ("#dfe5ea", "#38424a"),
    **{f"s{number}": pair for number, pair in enumerate(_SERIES)},
}
_DEEPEST = 20
"""The last rank that is drawn."""
_MOST_BARS = 3_000
"""Bars of one chart at most: thinner than a pixel they say no more."""

# elements


def tag(name: str, *children: str, **attributes: object) -> str:
    """Return an SVG element; children are SVG, attributes are escaped.

    `color` names one of our colours, light and dark. A trailing underscore of an attribute's name is dropped, others become
    hyphens: `class_`, `text_anchor`.
    """
    if (colour := attributes.pop("color", None)) is not None:
        attributes = {"class_": f"c-{colour}", "color": _COLOURS[str(colour)][0], **attributes}
    written = "".join(
        f' {key.rstrip("_").replace("_", "-") if key != "viewBox" else key}="{escape(_number(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return f"<{name}{written}>{''.join(children)}</{name}>" if children else f"<{name}{written}/>"


def _number(value: object) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)


def _text(words: object, x: float, y: float, color: str = "quiet", **more: object) -> str:
    """Return a text element at x, y."""
    words = escape(clean(str(words)), quote=False)
    return tag("text", words, x=float(x), y=float(y), color=color, fill="currentColor", **more)


def _rect(x1: float, y1: float, x2: float, y2: float, color: str, words: str = "", **more: object) -> str:
    """Return a rectangle, filled unless `more` says otherwise; `words` is its tooltip."""
    title = [tag("title", escape(clean(words)))] if words else []
    size = {"x": x1, "y": y1, "width": x2 - x1, "height": y2 - y1}
    return tag("rect", *title, **size, **{"color": color, "fill": "currentColor", **more})


_OUTLINE = {"fill": "none", "stroke": "currentColor"}


def _swatch(colour: str) -> str:
    return _rect(-5, -5, 5, 5, colour, rx=2) + _rect(-5, -5, 5, 5, "axis", rx=2, **_OUTLINE)


def _disc(x: float, y: float, size: float) -> str:
    return tag("circle", cx=x, cy=y, r=size, fill="currentColor")


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Return round numbers from `low` to `high`, at most `most`."""
    span = high - low
    if not span > 0 or not isfinite(span):
        return [low]
    rough = span / max(most - 1, 1)
    unit = 10.0 ** floor(log10(rough))
    step = next(unit * size for size in (1, 2, 2.5, 5, 10) if unit * size >= rough * 0.999)
    first, last = ceil(low / step - 1e-9), floor(high / step + 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


@dataclass(frozen=True, slots=True)
class Frame:
    """The area of a chart and the range of each of its axes."""

    x: tuple[float, float]
    y: tuple[float, float] = (0.0, 1.0)

    def across(self, value: float) -> float:
        """Return the position of a value on the x axis, in pixels."""
        low, high = self.x
        return LEFT + (WIDTH - LEFT - RIGHT) * (value - low) / ((high - low) or 1.0)

    def up(self, value: float) -> float:
        """Return the position of a value on the y axis, in pixels."""
        low, high = self.y
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - low) / ((high - low) or 1.0)

    def line(self, value: float, color: str, **more: object) -> str:
        """Return a horizontal line at a value of the y axis."""
        path = f"M{LEFT} {self.up(value):.1f}H{WIDTH - RIGHT}"
        return tag("path", d=path, color=color, stroke="currentColor", **more)

    def axes(self, name_x: str, name_y: str, marks_x: Sequence[float] = (), *, signed: bool = False) -> str:
        """Return the grid lines with their numbers, the marks of the x axis, and the names of both axes."""
        bottom, middle = HEIGHT - BOTTOM, (TOP + HEIGHT - BOTTOM) / 2
        drawn = ""
        for value in ticks(*self.y):
            words = f"{value:+g}" if signed and value else f"{value:g}"
            drawn += self.line(value, "grid") + _text(words, LEFT - 8, self.up(value) + 4, text_anchor="end")
        for value in marks_x:
            drawn += _text(f"{value:,.10g}", self.across(value), bottom + 17, text_anchor="middle")
        drawn += self.line(0.0 if self.y[0] <= 0 <= self.y[1] else self.y[0], "axis")
        drawn += _text(name_x, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, text_anchor="middle")
        return drawn + _text(
            name_y, 13, middle, text_anchor="middle", transform=f"rotate(-90 13 {middle:.1f})"
        )

    def polyline(self, points: Sequence[tuple[float, float]], number: int) -> str:
        """Return a line with points, in the colour and dashes of series `number`."""
        placed = [(self.across(x), self.up(y)) for x, y in points]
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in placed)
        dash = (None, "7 3", "2 3", "9 3 2 3")[number % 4]
        line = tag("path", d=path, fill="none", stroke="currentColor", stroke_width=2, stroke_dasharray=dash)
        return tag("g", line, *(_disc(x, y, 3.5) for x, y in placed), color=f"s{number}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart: its title, its content as a sentence, its drawing (WIDTH x HEIGHT), a note, and its series.

    Each series is a mark as SVG, centred on 0 0, and a name.
    """

    title: str
    words: str
    body: str
    series: Sequence[tuple[str, str]] = ()
    note: str = ""

    def svg(self) -> str:
        """Return the chart as an element in the colours of the surrounding page."""
        drawing, height = self.drawn()
        return _element(drawing, WIDTH, height, f"{self.title}: {self.words}")

    def drawn(self) -> tuple[str, float]:
        """Return title, drawing, names and note at the origin, and their height."""
        names, tall = legend(self.series)
        notes = textwrap.wrap(clean(self.note), 88)
        drawing = _text(self.title, LEFT - 44, 18, "ink", font_size=15, font_weight=600)
        drawing += tag("g", self.body, transform="translate(0 28)")
        drawing += tag("g", names, transform=f"translate(0 {HEIGHT + 34})")
        for at, line in enumerate(notes):
            drawing += _text(line, LEFT - 44, HEIGHT + 44 + tall + 16 * at, font_size=11)
        return drawing, HEIGHT + 30 + tall + 16 * len(notes)


def legend(series: Sequence[tuple[str, str]]) -> tuple[str, float]:
    """Return the names of the series, as many per line as fit, and their height."""
    drawn, x, y = "", float(LEFT), 0.0
    for mark, name in series:
        lines = textwrap.wrap(clean(name), 70) or ["-"]
        wide = 34 + 7.2 * max(map(len, lines))
        if x > LEFT and x + wide > WIDTH - RIGHT:
            x, y = float(LEFT), y + 18
        drawn += tag("g", mark, transform=f"translate({x + 5:.1f} {y + 6:.1f})")
        drawn += "".join(_text(line, x + 16, y + 10 + 16 * at, "ink") for at, line in enumerate(lines))
        x, y = x + wide, y + 16 * (len(lines) - 1)
    return drawn, y + 18 if series else 0.0


def document(charts: Sequence[Chart]) -> str:
    """Return a standalone file with the charts one below the other."""
    placed, y = "", 12.0
    for drawing, height in (chart.drawn() for chart in charts):
        placed += tag("g", drawing, transform=f"translate(12 {y:.0f})")
        y += height + 20
    style = tag("style", dark_colours())
    paper = tag("rect", width="100%", height="100%", color="paper", fill="currentColor")
    words = "; ".join(f"{chart.title}: {chart.words}" for chart in charts)
    return f"{_element(style + paper + placed, 24 + WIDTH, y, words)}\n"


def dark_colours(inside: str = "") -> str:
    """Return the CSS that darkens the colours in dark mode; `inside` limits it to the content of these elements."""
    rules = "".join(f"{inside} .c-{name}{{color:{dark}}}".strip() for name, (_, dark) in _COLOURS.items())
    return f"@media screen and (prefers-color-scheme: dark) {{{rules}}}"


def _element(inside: str, width: float, height: float, words: str) -> str:
    return tag(
        "svg", inside, xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {width:.0f} {height:.0f}",
        width=f"{width:.0f}", height=f"{height:.0f}", role="img", aria_label=clean(words),
        font_family="system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif", font_size=12,
    )  # fmt: skip


# charts


def ranks(
    report: ReportData, strips: Sequence[tuple[str, str]] | None = None, whose: str = ""
) -> Chart | None:
    """Return the shares of lists whose context at each rank is relevant, not relevant, or unlabelled.

    Shares are of the lists that reach the rank. None if no context at all is relevant.

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
    shares = {
        name: [(rank, count["relevant"] / count.total()) for rank, count in enumerate(of, 1)]
        for name, of in counts.items()
    }
    names = "relevant", *["not relevant"] * (len(counts) == 1)
    most = max(sum(rank[name] for name in names) / rank.total() for of in counts.values() for rank in of)
    top = next(end for end in (0.1, 0.2, 0.5, 1.0) if most <= end * 0.95 or end == 1.0)
    depth = max(map(len, counts.values()))
    frame, note = Frame((0.5, depth + 0.5), (0.0, top)), ""
    body = frame.axes("rank", "share of the lists", range(1, depth + 1))
    if len(counts) == 1:
        (of,) = counts.values()
        body += "".join(_bar(frame, rank, count) for rank, count in enumerate(of, 1))
        colours = [*_SHADES.items(), *[("no label", "paper")] * any("no label" in rank for rank in of)]
        series = [(_swatch(colour), name) for name, colour in colours]
    else:
        drawn = list(shares.items())[: len(_SERIES)]
        body += "".join(frame.polyline(points, number) for number, (_, points) in enumerate(drawn))
        discs = (tag("g", _disc(0, 0, 4.5), color=f"s{number}") for number in range(len(drawn)))
        series = [(disc, name or "-") for disc, (name, _) in zip(discs, drawn, strict=True)]
        left = len(shares) - len(drawn)
        note = f"{left} more are not drawn" if left else ""
    judged = {
        name: ", ".join(f"rank {rank} {share:.2f}" for rank, share in of) for name, of in shares.items()
    }
    words = "; ".join(f"{name} {text}" if name else text for name, text in judged.items())
    title = "Relevant at each rank" + (f", by {whose}" if whose else "")
    return Chart(title=title, words=words, body=body, series=series, note=note)


_SHADES = {"relevant": "good", "not relevant": "none"}


def _bar(frame: Frame, rank: int, count: Counter[str]) -> str:
    left, right = frame.across(rank - 0.36), frame.across(rank + 0.36)
    below, body = 0.0, _rect(left, frame.up(frame.y[1]), right, frame.up(0), "none", **_OUTLINE)
    for name, colour in _SHADES.items():
        if share := count[name] / count.total():
            words = f"rank {rank}: {count[name]} of {count.total()} {name}"
            body += _rect(left, frame.up(below + share), right, frame.up(below), colour, words)
            below += share
    if right - left > 26 and (share := count["relevant"] / count.total()):
        at = (left + right) / 2, frame.up(share) - 4
        body += _text(f"{share:.0%}", *at, "ink", text_anchor="middle", font_size=11)
    return body


def differences(report: ReportData, baseline: ReportData, measure: str, system: str | None = None) -> Chart:
    """Return the difference of each query to the baseline, the largest gain first, with the mean and its interval.

    InputError if the two have no query in common.
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
    change, comparison = gain[order], pair.compare(name)
    ends, higher = comparison.interval.ends, higher_is_better(comparison.type)
    low, high = (end([*change[[0, -1]].tolist(), *(ends or ()), 0.0]) for end in (min, max))
    frame = Frame((0.0, float(len(change))), (low, high) if low < high else (-0.05, 0.05))
    step, gap = max(len(change) / _MOST_BARS, 1.0), 1 if len(change) < 150 else 0
    body = frame.axes("queries, the largest gain first", f"difference in {name}", signed=True)
    for position in np.arange(0, len(change), step).astype(int).tolist():
        if by := float(change[position]):
            words = f"{pair.a.scores.cases[int(ours.case[order[position]])]} {by:+.4f}"
            left, right = frame.across(position), frame.across(position + step) - gap
            foot, top = sorted((frame.up(0), frame.up(by)), reverse=True)
            colour = "good" if (by > 0) is higher else "bad"
            body += _rect(left, top, max(right, left + 0.5), foot, colour, words)
    interval = ""
    if ends is not None:
        top, foot = frame.up(ends[1]), frame.up(ends[0])
        body += _rect(LEFT, top, WIDTH - RIGHT, max(foot, top + 1.0), "s0", fill_opacity=0.16)
        interval = f", 95% interval {interval_in_words(ends, sign='+')}"
    body += frame.line(float(change.mean()), "s0", stroke_width=1.5, stroke_dasharray="6 3")
    up, down = (comparison.wins, comparison.losses) if higher else (comparison.losses, comparison.wins)
    words = f"mean {in_digits(comparison.difference, '+')}{interval} over {counted(comparison.n, 'query')}; {up} up, {comparison.ties} the same, {down} down"
    title = f"Difference per query, {name}" + (f", {system}" if system else "")
    return Chart(title=title, words=words, body=body, note=words)


def differences_of(report: ReportData, baseline: ReportData) -> list[Chart]:
    """Return the differences of each system to a baseline in the report's first measure; InputError as of `differences`."""
    name = baseline.reported(report.measures[0])
    return [differences(report, baseline, name, system) for system in report.systems]


def charts_of(report: ReportData, baseline: ReportData | None = None) -> list[Chart]:
    """Return the charts that a report has data for: relevance by rank, and the differences to a baseline.

    InputError if there are none.
    """
    if not report.measures:
        raise InputError("the report has no measure to draw")
    chart = ranks(report)
    charts = [*([chart] if chart else []), *(differences_of(report, baseline) if baseline else [])]
    if not charts:
        fix = "it takes labelled contexts (a ranked measure in a report of germane run), or --baseline REPORT"
        raise InputError("the report holds nothing that could be drawn", fix=fix)
    return charts


def write_picture(report: ReportData, path: Path, baseline: ReportData | None = None) -> None:
    """Write the charts of a report to a .svg or .png file; MissingPart if a .png lacks its extra."""
    drawn = document(charts_of(report, baseline))
    if path.suffix.lower() != ".png":
        write_whole(path, drawn.encode())
        return
    try:
        import resvg_py
    except ImportError:
        fix = f"{install_extra('png')}, or write a .svg"
        raise MissingPart("a .png takes the package resvg-py", fix=fix) from None
    write_whole(path, bytes(resvg_py.svg_to_bytes(svg_string=drawn, zoom=2)))
