"""Tables for a terminal in which no number and no name is cut."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence
from textwrap import wrap

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from germane.clean import clean

_GAP = "  "
_PIECE = re.compile(r"\s+|[-+]\d[\d.]*|[^\s_(,=\-/:@]*[_,=\-/:]*|\(|@")


def plain_text(renderable: RenderableType, width: int) -> str:
    """The output of a console of this width as plain text without colour."""
    out = io.StringIO()
    console = Console(
        file=out, width=width, no_color=True, highlight=False, legacy_windows=False, force_jupyter=False
    )
    console.print(renderable)
    return "\n".join(clean(line).rstrip() for line in out.getvalue().rstrip().split("\n"))


class WholeTable(Table):
    """A table that fits the terminal without cutting anything.

    Where it is too wide and has numbers, the names of each row (columns that stand left) take a line of their own above these,
    wrapped at their joints. Where that is not enough, or there are no numbers, each row becomes a record of its own:
    `heading value` pairs.
    """

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render the table as rich does where it fits the width; else stacked, or as records."""
        if self.__rich_measure__(console, options.update(max_width=100_000)).maximum <= options.max_width:
            yield from super().__rich_console__(console, options)
            return
        cells = [[_text(cell) for cell in (column.header, *column.cells)] for column in self.columns]
        names = [n for n, column in enumerate(self.columns) if column.justify != "right"]
        numbers = [n for n in range(len(cells)) if n not in names]
        fits = names and numbers and self.show_header
        close = self._stacked(cells, names, numbers, options.max_width, inline=True) if fits else []
        stacked = close or (self._stacked(cells, names, numbers, options.max_width) if fits else [])
        yield from stacked or self._records(cells, options.max_width)

    def _stacked(
        self,
        cells: Sequence[Sequence[Text]],
        names: Sequence[int],
        numbers: Sequence[int],
        width: int,
        *,
        inline: bool = False,
    ) -> list[RenderableType]:
        """Each row as two lines, its names and below them its numbers, or `inline` as one; empty where they do not fit."""
        widths = {
            n: max(
                [0, *map(len, _PIECE.findall(cells[n][0].plain)), *(cell.cell_len for cell in cells[n][1:])]
            )
            for n in numbers
        }
        before = [max(cell.cell_len for cell in cells[n]) for n in names] if inline else []
        lead = sum(before) + len(_GAP) * len(before)
        room = width - lead - sum(widths.values()) - len(_GAP) * len(numbers)
        if room < 0:
            return []
        for n in numbers:  # headings on one line, as far as there is room
            more = min(room, max(0, cells[n][0].cell_len - widths[n]))
            widths[n], room = widths[n] + more, room - more
        heads = []  # their lines: cut between words, within them only where one is too wide
        for n in numbers:
            fits = max(map(len, cells[n][0].plain.split()), default=0) <= widths[n]
            text = cells[n][0].plain if fits else _wrapped(cells[n][0], widths[n]).plain
            heads.append(wrap(text, widths[n]) if fits else text.split("\n"))
        tall = max(map(len, heads))
        style = self.header_style or "bold"
        lines: list[RenderableType] = [Text()]
        for line in range(tall):
            parts = [head[line - tall + len(head)] if line >= tall - len(head) else "" for head in heads]
            cells_of_line = (f"{heading:>{widths[n]}}" for n, heading in zip(numbers, parts, strict=True))
            first = _left(cells, names, before, 0) if line == tall - 1 else Text(" " * lead)
            lines.append(Text(style=style) + first + Text(_GAP + _GAP.join(cells_of_line), style=style))
        lines.append(Text("─" * (lead + sum(widths.values()) + len(_GAP) * len(numbers))))
        for row in range(1, len(cells[0])):
            if inline:
                right = [Text(" " * (widths[n] - cells[n][row].cell_len)) + cells[n][row] for n in numbers]
                lines.append(_left(cells, names, before, row) + Text(_GAP) + Text(_GAP).join(right))
                continue
            title = Text("  ").join(name for n in names if (name := cells[n][row]).plain.strip())
            right = [Text(" " * (widths[n] - cells[n][row].cell_len)) + cells[n][row] for n in numbers]
            lines += [_wrapped(title, width), Text(_GAP) + Text(_GAP).join(right)]
        return [*lines, Text()]

    def _records(self, cells: Sequence[Sequence[Text]], width: int) -> RenderResult:
        """Each row as pairs of heading and value, as many on a line as fit; further lines are indented."""
        heads = [column[0].plain for column in cells]
        for row in zip(*(column[1:] for column in cells), strict=True):
            line = Text()
            for head, cell in zip(heads, row, strict=True):
                pair = Text(f"{head} " if head and self.show_header else "", style="dim") + cell
                if line and line.cell_len + 2 + pair.cell_len > width:
                    yield HangingText(line)
                    line = Text("  ")
                line += (Text("  ") if line.plain.strip() else Text()) + pair
            yield HangingText(line)


class CutRows:
    """Rows of cells whose last one is cut to the rest of the line, or to a line below where that is too short."""

    def __init__(self, rows: Sequence[Sequence[Text]], justify: str) -> None:
        """`justify` has an r or an l for each cell but the last."""
        self.rows, self.justify = rows, justify

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render each row on one line, or on two where the last cell had too little room."""
        widths = [max(row[n].cell_len for row in self.rows) for n in range(len(self.justify))]
        used = sum(widths) + len(_GAP) * len(widths) + len(_GAP)
        below = options.max_width - used < _READABLE
        for row in self.rows:
            line = Text()
            for cell, width, side in zip(row, widths, self.justify, strict=False):
                space = Text(" " * (width - cell.cell_len))
                line += Text(_GAP) + (space + cell if side == "r" else cell + space)
            last = row[-1].copy()
            last.truncate(options.max_width - (3 * len(_GAP) if below else used), overflow="ellipsis")
            if not below:
                yield line + Text(_GAP) + last
                continue
            line.rstrip()
            yield line
            yield Text(3 * _GAP) + last


_READABLE = 24
"""Signs of a text that are worth a place on the same line."""

_LEAD = re.compile(r"[a-z]+ {2,}| +")


class HangingText:
    """Lines of text whose continuations are indented: as far as a word in front of them (`judge    `), else by two more."""

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
    """The renderables one below the other; where a line of text goes on, it is indented."""
    return Group(*(HangingText(row) if isinstance(row, Text) else row for row in rows))


def _left(cells: Sequence[Sequence[Text]], names: Sequence[int], widths: Sequence[int], row: int) -> Text:
    """The names of a row, each filled up to its width; nothing where there are no widths."""
    result = Text()
    for n, width in zip(names, widths, strict=False):
        result += Text(_GAP) + cells[n][row] + Text(" " * (width - cells[n][row].cell_len))
    return result


def _text(cell: object) -> Text:
    return cell.copy() if isinstance(cell, Text) else Text(str(cell))


def _wrapped(cell: Text, width: int) -> Text:
    """The text with line breaks at its joints, after a space, _ , = - / : and before ( and @."""
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
