"""Draw a report's charts as SVG: relevance by rank, and differences per query, in light and dark colours."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path

import numpy as np

from germane.clean import clean, counted, shorten, two_digits
from germane.errors import InputError
from germane.reports.data import ReportData
from germane.reports.explain import strips as strips_of
from germane.reports.pairing import PairedSystems, Side
from germane.reports.summary import higher_is_better, in_digits, interval_in_words
from germane.samples.files import write_whole

WIDTH, HEIGHT = 560, 300  # of a chart, in pixels
LEFT, RIGHT, TOP, BOTTOM = 64, 20, 18, 44  # around the area of a chart
_TITLE, _NOTE = 28, 34  # the height of a title, and of the notes below a chart

_COLOURS = {
    "paper": ("#ffffff", "#14181c"),
    "ink": ("#1c2329", "#e6eaed"),
    "quiet": ("#566069", "#a3adb5"),
    "grid": ("#e3e8ec", "#2c353c"),
    "axis": ("#8a949c", "#6b767f"),
    "good": ("#1a6b3c", "#7fd6a0"),
    "bad": ("#a32020", "#ff9d94"),
    "none": ("#dfe5ea", "#38424a"),
    "mean": ("#2b6cb0", "#7db8f0"),
}
"""The light and the dark variant of each colour, by name."""
_DEEPEST = 20  # the last rank that is drawn
_MOST_BARS = 3_000  # of one chart: more bars would be thinner than a pixel
_MOST_SYSTEMS = 8  # systems that get a chart of relevance by rank


def tag(name: str, *children: str, **attributes: object) -> str:
    """Return an SVG element with escaped attributes; `color` is a key of `_COLOURS`, `_` in a name is `-`."""
    if (colour := attributes.pop("color", None)) is not None:
        attributes = {"class_": f"c-{colour}", "color": _COLOURS[str(colour)][0], **attributes}
    written = ""
    for key, value in attributes.items():
        text = f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
        written += f' {key.rstrip("_").replace("_", "-")}="{escape(text)}"'
    return f"<{name}{written}>{''.join(children)}</{name}>" if children else f"<{name}{written}/>"


def _text(words: object, x: float, y: float, color: str = "quiet", **more: object) -> str:
    words = escape(clean(str(words)), quote=False)
    return tag("text", words, x=float(x), y=float(y), color=color, fill="currentColor", **more)


def _rect(x1: float, y1: float, x2: float, y2: float, color: str, words: str = "", **more: object) -> str:
    """Return a filled rectangle between the corners (x1, y1) and (x2, y2), with the tooltip `words`."""
    title = [tag("title", escape(clean(words)))] if words else []
    size = {"x": x1, "y": y1, "width": x2 - x1, "height": y2 - y1}
    return tag("rect", *title, **size, **{"color": color, "fill": "currentColor", **more})


def _line(y: float, color: str, **more: object) -> str:
    """Return a horizontal SVG line at height `y`, as wide as the chart's plotting area."""
    return tag("path", d=f"M{LEFT} {y:.1f}H{WIDTH - RIGHT}", color=color, stroke="currentColor", **more)


def _scale(value: float, ends: tuple[float, float], start: float, stop: float) -> float:
    """Return the pixel position of a value on an axis from `ends[0]` at `start` to `ends[1]` at `stop`."""
    return start + (stop - start) * (value - ends[0]) / (ends[1] - ends[0])


def _up(value: float, ends: tuple[float, float]) -> float:
    """Return a value's y position in pixels on an axis from `ends[0]` (bottom) to `ends[1]` (top)."""
    return _scale(value, ends, HEIGHT - BOTTOM, TOP)


def _axes(ends: tuple[float, float], name_x: str, name_y: str) -> str:
    """Return the SVG of the axes: five grid lines with their numbers, and the names of both axes."""
    middle, drawn = (TOP + HEIGHT - BOTTOM) / 2, ""
    for value in np.linspace(*ends, 5).tolist():
        at = _up(value, ends)
        drawn += _line(at, "grid") + _text(two_digits(value), LEFT - 8, at + 4, text_anchor="end")
    drawn += _line(_up(0.0, ends), "axis")
    drawn += _text(name_x, (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 6, text_anchor="middle")
    return drawn + _text(name_y, 13, middle, text_anchor="middle", transform=f"rotate(-90 13 {middle:.1f})")


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart: a title, a drawing (`body`, in SVG), a note below it, and `words` for screen readers."""

    title: str
    words: str
    body: str
    note: str

    def svg(self) -> str:
        """Return the chart as an svg element, for an HTML page whose style sheet sets its colours."""
        return _svg(self.drawn(), WIDTH, _TITLE + HEIGHT + _NOTE, f"{self.title}: {self.words}")

    def drawn(self) -> str:
        """Return the SVG of the title, drawing and note, with the top left corner at 0, 0."""
        drawing = _text(shorten(self.title, 58, end=16), 20, 18, "ink", font_size=15, font_weight=600)
        drawing += tag("g", self.body, transform=f"translate(0 {_TITLE})")
        for at, line in enumerate(textwrap.wrap(clean(self.note), 92)[:2]):
            drawing += _text(line, 20, _TITLE + HEIGHT + 12 + 16 * at, font_size=11)
        return drawing


def document(charts: Sequence[Chart]) -> str:
    """Return the text of a standalone SVG file with the charts one below the other."""
    height = _TITLE + HEIGHT + _NOTE + 20
    inside = tag("style", dark_colours())
    inside += tag("rect", width="100%", height="100%", color="paper", fill="currentColor")
    for at, chart in enumerate(charts):
        inside += tag("g", chart.drawn(), transform=f"translate(12 {12 + height * at})")
    words = "; ".join(f"{chart.title}: {chart.words}" for chart in charts)
    return f"{_svg(inside, 24 + WIDTH, 12 + height * len(charts), words)}\n"


def dark_colours(inside: str = "") -> str:
    """Return the CSS of the dark colours; they apply to elements within the CSS selector `inside`."""
    rules = "".join(f"{inside} .c-{name}{{color:{dark}}}".strip() for name, (_, dark) in _COLOURS.items())
    return f"@media screen and (prefers-color-scheme: dark) {{{rules}}}"


def _svg(inside: str, width: int, height: int, words: str) -> str:
    size = {"viewBox": f"0 0 {width} {height}", "width": width, "height": height}
    font = "system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif"
    more = {"role": "img", "aria_label": clean(words), "font_family": font, "font_size": 12}
    return tag("svg", inside, xmlns="http://www.w3.org/2000/svg", **size, **more)


def ranks(
    report: ReportData, strips: Sequence[tuple[str, str]] | None = None, whose: str = ""
) -> list[Chart]:
    """Return a chart per system: the proportion of relevant, irrelevant and unlabelled contexts at each rank.

    Proportions are over the lists that reach the rank. Systems without a relevant context get no chart.
    `strips` contains a pair (system, strip) for each sample; None means the labels of the first measure. A
    strip contains one sign per retrieved context: ■ or A to D for relevant, □ or a to d for not relevant, and
    any other sign for unknown. A bar (|) separates an agent's searches. `whose` is the source of the labels
    for the title, such as "gold labels".
    """
    if strips is None:
        first = [score for score in report.scores() if score.measure == report.measures[0]]
        strips = [(score.system, strip) for strip, score, _ in strips_of(report, first)] if first else []
    kinds = dict.fromkeys("ABCD■", "relevant") | dict.fromkeys("abcd□", "not relevant")
    charts = []
    for system in report.systems[:_MOST_SYSTEMS]:
        lists = [call[:_DEEPEST] for owner, strip in strips if owner == system for call in strip.split("|")]
        depth = max(map(len, lists), default=0)
        signs = (Counter(kinds.get(call[at : at + 1]) for call in lists if call[at:]) for at in range(depth))
        counts = list(signs)
        if any(count["relevant"] for count in counts):
            about = [f"by {whose}"] * bool(whose) + [clean(system)] * (len(report.systems) > 1)
            charts.append(_ranks(counts, ", ".join(["Relevant at each rank", *about])))
    return charts


def _ranks(counts: Sequence[Counter[str | None]], title: str) -> Chart:
    """Return one system's chart; `counts` has, for each rank, the number of lists by label."""
    ends = (0.0, 1.0)
    body = _axes(ends, "rank", "share of the lists")
    step, shares = (WIDTH - LEFT - RIGHT) / len(counts), []
    for rank, count in enumerate(counts, 1):
        left, right = LEFT + step * (rank - 0.86), LEFT + step * (rank - 0.14)
        share, bottom = count["relevant"] / count.total(), 0.0
        shares.append(f"rank {rank} {share:.2f}")
        outline = {"fill": "none", "stroke": "currentColor"}
        body += _rect(left, _up(1.0, ends), right, _up(0.0, ends), "none", **outline)
        for kind, colour in (("relevant", "good"), ("not relevant", "none")):
            top = bottom + count[kind] / count.total()
            words = f"rank {rank}: {count[kind]} of {count.total()} {kind}"
            body += _rect(left, _up(top, ends), right, _up(bottom, ends), colour, words)
            bottom = top
        middle = (left + right) / 2
        body += _text(rank, middle, HEIGHT - BOTTOM + 17, text_anchor="middle")
        if step > 36 and share:
            place = _up(share, ends) - 4
            body += _text(f"{share:.0%}", middle, place, "ink", text_anchor="middle", font_size=11)
    return Chart(title, ", ".join(shares), body, "Filled: relevant; grey: not relevant; empty: no label.")


def differences(report: ReportData, baseline: ReportData, measure: str, system: str | None = None) -> Chart:
    """Return a chart of each query's change from the baseline, largest first, with the mean and interval."""
    system = report.systems[0] if system is None else system
    other = system if system in baseline.systems else baseline.systems[0]
    pair = PairedSystems(Side("the baseline", baseline, other), Side("this report", report, system))
    name = report.reported(measure)
    ours, theirs = pair.values(name)
    gain = theirs.values - ours.values
    labelled = np.flatnonzero(~np.isnan(gain))
    if not len(labelled):
        fix = f"evaluate the same queries with -m {measure}"
        raise InputError(f"no query has a score of {measure} in both reports", fix=fix)
    order = labelled[np.argsort(-gain[labelled], kind="stable")]
    change, comparison = gain[order], pair.compare(name)
    interval, higher = comparison.interval.ends, higher_is_better(comparison.type)
    most = max(float(np.abs(change).max()), *map(abs, interval or (0.0,)), 0.01)
    ends = (-most, most)
    step, gap = max(len(change) / _MOST_BARS, 1.0), 1 if len(change) < 150 else 0
    body = _axes(ends, "queries, the largest gain first", f"difference in {name}")
    across = (0.0, float(len(change)))
    for position in np.arange(0, len(change), step).astype(int).tolist():
        if by := float(change[position]):
            words = f"{pair.a.scores.cases[int(ours.case[order[position]])]} {by:+.4f}"
            left, right = (_scale(at, across, LEFT, WIDTH - RIGHT) for at in (position, position + step))
            top, bottom = sorted((_up(0.0, ends), _up(by, ends)))
            colour = "good" if (by > 0) is higher else "bad"
            body += _rect(left, top, max(right - gap, left + 0.5), bottom, colour, words)
    words = f"mean {in_digits(comparison.difference, '+')}"
    if interval is not None:
        top, bottom = _up(interval[1], ends), _up(interval[0], ends)
        body += _rect(LEFT, top, WIDTH - RIGHT, max(bottom, top + 1.0), "mean", fill_opacity=0.16)
        words += f", 95% interval {interval_in_words(interval, sign='+')}"
    body += _line(_up(float(change.mean()), ends), "mean", stroke_width=1.5, stroke_dasharray="6 3")
    up, down = (comparison.wins, comparison.losses) if higher else (comparison.losses, comparison.wins)
    words += f" over {counted(comparison.n, 'query')}; {up} up, {comparison.ties} the same, {down} down"
    title = f"Difference per query, {name}" + (f", {system}" if system else "")
    return Chart(title, words, body, words)


def differences_of(report: ReportData, baseline: ReportData) -> list[Chart]:
    """Return a chart per system of each query's change from the baseline in the report's first measure."""
    name = baseline.reported(report.measures[0])
    return [differences(report, baseline, name, system) for system in report.systems]


def charts_of(report: ReportData, baseline: ReportData | None = None) -> list[Chart]:
    """Return the charts of ranks and of changes from a baseline. Raises InputError if there are none."""
    if not report.measures:
        problem = "the report has no measure, and so no chart to draw"
        raise InputError(problem, fix="name a report with scores: germane run SAMPLES -m nDCG@10")
    charts = [*ranks(report), *(differences_of(report, baseline) if baseline else [])]
    if not charts:
        problem = "the report has no chart to draw: none of its contexts is labelled relevant"
        fix = "name a report of `germane run` with a ranked measure, e.g. nDCG@10, or give --baseline REPORT"
        raise InputError(problem, fix=fix)
    return charts


def write_picture(report: ReportData, path: Path, baseline: ReportData | None = None) -> None:
    """Write a report's charts to a .svg or .png file."""
    drawn = document(charts_of(report, baseline))
    if path.suffix.lower() != ".png":
        write_whole(path, drawn.encode())
        return
    import resvg_py  # of the extra for .png files

    write_whole(path, bytes(resvg_py.svg_to_bytes(svg_string=drawn, zoom=2)))
