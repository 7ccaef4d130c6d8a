"""Tables fitted to the width of a terminal without cutting a number or a name, and hanging indents."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from textwrap import wrap

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from germane.clean import clean

_GAP = "  "
_PIECE = re.compile(r"\s+|[-+]\d[\d.]*|[^\s_(,=\-/:@]*[_,=\-/:]*|\(|@")


def plain_text(renderable: RenderableType, width: int) -> str:
    """Return the output of a console of this width as plain text without colour."""
    out = io.StringIO()
    console = Console(
        file=out, width=width, no_color=True, highlight=False, legacy_windows=False, force_jupyter=False
    )
    console.print(renderable)
    return "\n".join(clean(line).rstrip() for line in out.getvalue().rstrip().split("\n"))


@dataclass(frozen=True, slots=True)
class FittedTable:
    """A table fitted to the width of a terminal; only the last column of one that is `cut` is cut.

    If it is too wide and has numbers, headings take several lines; then the names of each row (left-aligned columns) take a line
    of their own above its numbers, wrapped at their joints. If that is not enough, or there are no numbers, each row becomes a
    record: `heading value` pairs.
    """

    heads: Sequence[Text]
    rows: Sequence[Sequence[Text]]
    align: str
    title: str
    notes: Sequence[str]
    edge: bool
    cut: bool

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render the title, the rows in the first layout that fits, and the notes."""
        width = options.max_width
        if self.title:
            yield HangingText(Text(self.title))
        if self.cut:
            yield from self._cut(width)
        else:
            rows = self._columns(width) or self._stacked(width, beside=True) or self._stacked(width)
            yield from rows or self._records(width)
        for note in self.notes:
            yield HangingText(Text(f"  {clean(note)}", style="dim"))

    def _widths(self, columns: Iterable[int], *, heads: bool = True) -> list[int]:
        rows = [self.heads, *self.rows] if heads else self.rows
        return [max((row[n].cell_len for row in rows), default=0) for n in columns]

    def _line(self, row: Sequence[Text], columns: Sequence[int], widths: Sequence[int], gap: str) -> Text:
        """Return these cells of a row, each padded to its width."""
        result = Text()
        for at, (n, width) in enumerate(zip(columns, widths, strict=True)):
            space = Text(" " * (width - row[n].cell_len))
            result += Text(gap if at else "") + (row[n] + space if self.align[n] == "l" else space + row[n])
        return result

    def _columns(self, width: int) -> list[RenderableType]:
        """Return the table's lines with columns side by side; none if they are too wide."""
        columns, side = range(len(self.heads)), " " if self.edge else ""
        widths = self._widths(columns)
        total = sum(widths) + 3 * (len(widths) - 1)
        if total + 2 * len(side) > width:
            return []
        head, *rows = (
            Text(side) + self._line(row, columns, widths, "   ") + Text(side)
            for row in (self.heads, *self.rows)
        )
        outer = [Text(" " * (total + 2))] if self.edge else []
        return [*outer, head, Text(f"{side}{'─' * total}{side}"), *rows, *outer]

    def _stacked(self, width: int, *, beside: bool = False) -> list[RenderableType]:
        """Return each row as its names with its numbers below, or `beside` on one line; empty if they do not fit."""
        names = [n for n, side in enumerate(self.align) if side == "l"]
        numbers = [n for n, side in enumerate(self.align) if side == "r"]
        if not names or not numbers:
            return []
        columns = [*names, *numbers] if beside else numbers
        longest = [max([0, *map(len, _PIECE.findall(self.heads[n].plain))]) for n in numbers]
        widths = list(map(max, longest, self._widths(numbers, heads=False)))
        before = self._widths(names) if beside else []
        room = width - sum(before) - sum(widths) - len(_GAP) * len(columns)
        if room < 0:
            return []
        for at, n in enumerate(numbers):  # headings on one line, as far as there is room
            more = min(room, max(0, self.heads[n].cell_len - widths[at]))
            widths[at], room = widths[at] + more, room - more
        lines = [  # of the headings: cut between words, within them only where one is too wide
            wrap(head, size)
            if max(map(len, head.split()), default=0) <= size
            else _wrapped(Text(head), size).plain.split("\n")
            for head, size in zip((self.heads[n].plain for n in numbers), widths, strict=True)
        ]
        widths = [*before, *widths]
        result: list[RenderableType] = [Text()]
        tall = max(map(len, lines))
        for at in range(tall):
            line = [head if at == tall - 1 else Text() for head in self.heads]
            for n, head in zip(numbers, lines, strict=True):
                line[n] = Text(head[at - tall] if at >= tall - len(head) else "", style="bold")
            result.append(Text(_GAP) + self._line(line, columns, widths, _GAP))
        result.append(Text("─" * (sum(widths) + len(_GAP) * len(widths))))
        for row in self.rows:
            if not beside:
                title = Text(_GAP).join(row[n] for n in names if row[n].plain.strip())
                result.append(_wrapped(title, width))
            result.append(Text(_GAP) + self._line(row, columns, widths, _GAP))
        return [*result, Text()]

    def _records(self, width: int) -> RenderResult:
        """Yield each row as pairs of heading and value, as many per line as fit; further lines are indented."""
        for row in self.rows:
            line = Text()
            for head, cell in zip(self.heads, row, strict=True):
                pair = Text(f"{head.plain} " if head else "", style="dim") + cell
                if line and line.cell_len + 2 + pair.cell_len > width:
                    yield HangingText(line)
                    line = Text(_GAP)
                line += Text(_GAP if line.plain.strip() else "") + pair
            yield HangingText(line)

    def _cut(self, width: int) -> RenderResult:
        """Yield each row with its last cell cut, or on a line of its own if it had too little room."""
        every = range(len(self.heads) - 1)
        filled = {n: width for n, width in zip(every, self._widths(every, heads=False), strict=True) if width}
        columns, widths = list(filled), list(filled.values())
        used = sum(widths) + len(_GAP) * (len(widths) + 1)
        below = width - used < _READABLE
        for row in self.rows:
            line, last = Text(_GAP) + self._line(row, columns, widths, _GAP), row[-1].copy()
            last.truncate(width - (3 * len(_GAP) if below else used), overflow="ellipsis")
            if below:
                line.rstrip()
            yield from [line, Text(3 * _GAP) + last] if below else [line + Text(_GAP) + last]


_READABLE = 24
"""Signs of a text that are worth a place on the same line."""

_LEAD = re.compile(r"[a-z]+ {2,}| +")


class HangingText:
    """Lines of text with hanging indents: by the width of the first word (`judge `), else two more than the line's own."""

    def __init__(self, text: Text) -> None:
        self.text = text

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render each line, wrapped to the width with its continuations indented."""
        for line in self.text.split("\n", allow_blank=True):
            match = _LEAD.match(line.plain)
            lead = match.end() if match else 0
            indent = lead if match and match[0].strip() else lead + 2
            if line.cell_len <= options.max_width or options.max_width < 2 * indent:
                yield line
                continue
            first, *rest = line[lead:].wrap(console, options.max_width - indent)
            yield line[:lead] + first
            yield from (Text(" " * indent) + text for text in rest)


def hanging(rows: Iterable[RenderableType]) -> RenderableType:
    """Return the renderables one below the other; continuation lines of text are indented."""
    return Group(*(HangingText(row) if isinstance(row, Text) else row for row in rows))


def _wrapped(cell: Text, width: int) -> Text:
    """Return the text with line breaks at its joints: after a space, _ , = - / : and before ( and @."""
    if cell.cell_len <= width:
        return cell
    lines, line = [], ""
    for piece in _PIECE.findall(cell.plain):
        rest = piece
        if Text(line + rest).cell_len > width and line.strip():
            lines.append(line.rstrip())
            line, rest = "", rest.lstrip()
        while Text(rest).cell_len > width:  # one long word: there is no joint to take
            head = next(n for n in range(len(rest), 0, -1) if Text(rest[:n]).cell_len <= max(width, 2))
            lines.append(rest[:head])
            rest = rest[head:]
        line += rest
    return Text("\n".join(filter(None, [*lines, line.rstrip()])), style=cell.style)
