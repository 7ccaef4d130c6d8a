"""Charts as SVG text: axes, bars, lines, points. Colours are light or dark as the reader's system is."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from math import ceil, floor, isfinite, log10

from germane.clean import clean

WIDTH, HEIGHT = 560, 300
"""The size of a chart, in pixels."""
LEFT, RIGHT, TOP, BOTTOM = 64, 20, 18, 44
"""The space around a chart's own area: for the numbers and names of its axes."""

SERIES = (
    ("#2b6cb0", "#7db8f0"),
    ("#c05621", "#f2a36b"),
    ("#2f855a", "#7fd6a0"),
    ("#805ad5", "#c4a7f5"),
    ("#97266d", "#f19ac8"),
    ("#5f6b14", "#cfd96a"),
    ("#0f766e", "#6fd8cf"),
    ("#4a5568", "#b8c2cf"),
)
"""The colours of lines and points, light and dark: told apart by those who do not see red and green too."""
_NAMED = {
    "paper": ("#ffffff", "#14181c"),
    "ink": ("#1c2329", "#e6eaed"),
    "quiet": ("#566069", "#a3adb5"),
    "grid": ("#e3e8ec", "#2c353c"),
    "axis": ("#8a949c", "#6b767f"),
    "good": ("#1a6b3c", "#7fd6a0"),
    "bad": ("#a32020", "#ff9d94"),
    "none": ("#dfe5ea", "#38424a"),
}
_COLOURS = _NAMED | {f"s{number}": pair for number, pair in enumerate(SERIES)}


def tag(name: str, *children: str, **attributes: object) -> str:
    """An element; children are SVG already, attributes are not. `color` names one of our colours, light and dark.

    A trailing underscore of a name is dropped, the others become hyphens: `class_`, `text_anchor`.
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


def text(words: object, x: float, y: float, *, color: str = "quiet", **more: object) -> str:
    """A text element with these words at x, y."""
    text = escape(clean(str(words)), quote=False)
    return tag("text", text, x=float(x), y=float(y), color=color, fill="currentColor", **more)


def rect(x1: float, y1: float, x2: float, y2: float, color: str, words: str = "", **more: object) -> str:
    """A rectangle, filled unless `more` says otherwise; `words` are shown where it is pointed at."""
    title = [tag("title", escape(clean(words)))] if words else []
    size = {"x": x1, "y": y1, "width": x2 - x1, "height": y2 - y1}
    return tag("rect", *title, **size, **{"color": color, "fill": "currentColor", **more})


OUTLINE = {"fill": "none", "stroke": "currentColor"}
"""The attributes that make a shape an outline."""


def ticks(low: float, high: float, most: int = 6) -> list[float]:
    """Round numbers from `low` to `high`, at most `most`."""
    span = high - low
    if not span > 0 or not isfinite(span):
        return [low]
    rough = span / max(most - 1, 1)
    unit = 10.0 ** floor(log10(rough))
    step = next(unit * size for size in (1, 2, 2.5, 5, 10) if unit * size >= rough * 0.999)
    first = ceil(low / step - 1e-9)
    return [round(number * step, 12) for number in range(first, floor(high / step + 1e-9) + 1)]


@dataclass(frozen=True, slots=True)
class Frame:
    """The area of a chart and the range of each of its axes."""

    x: tuple[float, float]
    y: tuple[float, float] = (0.0, 1.0)

    def across(self, value: float) -> float:
        """The place of a value on the x axis, in pixels."""
        low, high = self.x
        return LEFT + (WIDTH - LEFT - RIGHT) * (value - low) / ((high - low) or 1.0)

    def up(self, value: float) -> float:
        """The place of a value on the y axis, in pixels."""
        low, high = self.y
        return HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - low) / ((high - low) or 1.0)

    def axes(
        self, name_x: str, name_y: str, *, marks_x: Sequence[float] | None = None, signed: bool = False
    ) -> str:
        """Grid lines, their numbers, and the names of the axes."""
        left, right, bottom = LEFT, WIDTH - RIGHT, HEIGHT - BOTTOM
        parts = []
        for value in ticks(*self.y):
            y = self.up(value)
            parts.append(tag("path", d=f"M{left} {y:.1f}H{right}", color="grid", stroke="currentColor"))
            words = f"{value:+g}" if signed and value else f"{value:g}"
            parts.append(text(words, left - 8, y + 4, text_anchor="end"))
        parts += [
            text(f"{value:,.10g}", self.across(value), bottom + 17, text_anchor="middle")
            for value in (ticks(*self.x) if marks_x is None else marks_x)
        ]
        base = self.up(0.0) if self.y[0] <= 0 <= self.y[1] else bottom
        parts.append(tag("path", d=f"M{left} {base:.1f}H{right}", color="axis", stroke="currentColor"))
        parts.append(text(name_x, (left + right) / 2, HEIGHT - 6, text_anchor="middle"))
        middle = (TOP + bottom) / 2
        turned = f"rotate(-90 13 {middle:.1f})"
        parts.append(text(name_y, 13, middle, text_anchor="middle", transform=turned))
        return "".join(parts)


def polyline(frame: Frame, points: Iterable[tuple[float, float]], number: int) -> str:
    """A line with its points, in the colour, dashes and marks of series `number`."""
    placed = [(frame.across(x), frame.up(y)) for x, y in points]
    path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in placed)
    dash = (None, "7 3", "2 3", "9 3 2 3")[number % 4]
    line = tag("path", d=path, fill="none", stroke="currentColor", stroke_width=2, stroke_dasharray=dash)
    marks = "".join(marker(x, y, number) for x, y in placed)
    return tag("g", line, marks, color=f"s{number % len(SERIES)}")


def marker(x: float, y: float, number: int, size: float = 3.5, opacity: float | None = None) -> str:
    """The mark of a series: a disc, a square, a triangle or a diamond."""
    shape = number % 4
    if shape == 0:
        return tag("circle", cx=x, cy=y, r=size, fill="currentColor", fill_opacity=opacity)
    corners = {
        1: ((-1, -1), (1, -1), (1, 1), (-1, 1)),
        2: ((0, -1.2), (1.1, 0.9), (-1.1, 0.9)),
        3: ((0, -1.3), (1.3, 0), (0, 1.3), (-1.3, 0)),
    }[shape]
    path = "M" + "L".join(f"{x + size * dx:.1f} {y + size * dy:.1f}" for dx, dy in corners) + "Z"
    return tag("path", d=path, fill="currentColor", fill_opacity=opacity)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart: its title, what it says in words, its drawing (WIDTH x HEIGHT), and the names of its series."""

    kind: str
    title: str
    words: str
    body: str
    series: Sequence[tuple[str, str]] = ()
    """(mark as SVG, centred on 0 0; name)."""
    note: str = ""

    def svg(self) -> str:
        """The chart as an element, whose colours are those of the page that it stands in."""
        drawing, height = self.drawn()
        return _element(drawing, WIDTH, height, f"{self.title}: {self.words}")

    def drawn(self) -> tuple[str, float]:
        """Title, drawing, names and note, from 0 0, and how high they are."""
        names, tall = legend(self.series)
        notes = textwrap.wrap(clean(self.note), 88)
        parts = [
            text(self.title, LEFT - 44, 18, color="ink", font_size=15, font_weight=600),
            tag("g", self.body, transform="translate(0 28)"),
            tag("g", names, transform=f"translate(0 {HEIGHT + 34})"),
        ]
        parts += [
            text(line, LEFT - 44, HEIGHT + 44 + tall + 16 * at, font_size=11) for at, line in enumerate(notes)
        ]
        return "".join(parts), HEIGHT + 30 + tall + 16 * len(notes)


def legend(series: Sequence[tuple[str, str]]) -> tuple[str, float]:
    """The names of the series, as many on a line as there is room for, and how high that is. No name is cut."""
    parts, x, y = [], float(LEFT), 0.0
    for mark, name in series:
        lines = textwrap.wrap(clean(name), 70) or ["-"]
        wide = 34 + 7.2 * max(map(len, lines))
        if x > LEFT and x + wide > WIDTH - RIGHT:
            x, y = float(LEFT), y + 18
        parts.append(tag("g", mark, transform=f"translate({x + 5:.1f} {y + 6:.1f})"))
        parts += [text(line, x + 16, y + 10 + 16 * at, color="ink") for at, line in enumerate(lines)]
        x += wide
        y += 16 * (len(lines) - 1)
    return "".join(parts), y + 18 if series else 0.0


def document(charts: Sequence[Chart]) -> str:
    """A file of its own: the charts in two columns, or below each other where there are two or fewer."""
    columns = 2 if len(charts) > 2 else 1
    placed, y = [], 12.0
    for start in range(0, len(charts), columns):
        row = [chart.drawn() for chart in charts[start : start + columns]]
        for column, (drawing, _) in enumerate(row):
            location = f"translate({12 + column * (WIDTH + 24)} {y:.0f})"
            placed.append(tag("g", drawing, transform=location))
        y += max(height for _, height in row) + 20
    width = 24 + columns * WIDTH + (columns - 1) * 24
    paper = tag("rect", width="100%", height="100%", color="paper", fill="currentColor")
    words = "; ".join(f"{chart.title}: {chart.words}" for chart in charts)
    return f"{_element(_STYLE + paper + ''.join(placed), width, y, words)}\n"


def dark_colours(inside: str = "") -> str:
    """The style by which our colours are dark where the system is; `inside` limits it to what stands in these elements."""
    rules = "".join(f"{inside} .c-{name}{{color:{dark}}}".strip() for name, (_, dark) in _COLOURS.items())
    return f"@media screen and (prefers-color-scheme: dark) {{{rules}}}"


_STYLE = tag("style", dark_colours())


def _element(inside: str, width: float, height: float, words: str) -> str:
    return tag(
        "svg", inside, xmlns="http://www.w3.org/2000/svg", viewBox=f"0 0 {width:.0f} {height:.0f}",
        width=f"{width:.0f}", height=f"{height:.0f}", role="img", aria_label=clean(words),
        font_family="system-ui, 'Segoe UI', 'DejaVu Sans', sans-serif", font_size=12,
    )  # fmt: skip
