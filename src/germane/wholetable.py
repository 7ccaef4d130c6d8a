"""Tables for a terminal in which no number and no name is cut."""

from __future__ import annotations

import io
import re
from collections.abc import Sequence
from textwrap import wrap

from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

__all__ = ["CutRows", "HangingText", "WholeTable", "plain_text"]

_LEAST, _MOST = 8, 20
"""The width to which a column of names may shrink before the table turns into one record per line of it: its longest word, but
at least and at most so many signs."""
_GAP = "  "
_PIECE = re.compile(r"\s+|[-+]\d[\d.]*|[^\s_(,=\-/:@]*[_,=\-/:]*|\(|@")


def plain_text(renderable: RenderableType, width: int) -> str:
    """The output of a console of this width as plain text without colour."""
    out = io.StringIO()
    console = Console(
        file=out, width=width, no_color=True, highlight=False, legacy_windows=False, force_jupyter=False
    )
    console.print(renderable)
    return "\n".join(line.rstrip() for line in out.getvalue().rstrip().splitlines())


class WholeTable(Table):
    """A table that fits the terminal without cutting anything.

    Where it is too wide and there are numbers, the names of each row (columns that stand left) take a line of their own
    above them. Where that is not enough, or there are no numbers, names wrap at their joints, the widest first, then headings
    of numbers at theirs, then cells of numbers between their words; where that is not enough either each row becomes a record
    of its own: `heading value` pairs.
    """

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The table, fitted."""
        cells = [[_text(cell) for cell in (column.header, *column.cells)] for column in self.columns]
        widths = [max(cell.cell_len for cell in column) for column in cells]
        wide = Measurement.get(console, options.update(max_width=100_000), self._with(cells)).maximum
        excess = wide - options.max_width
        names = [n for n, column in enumerate(self.columns) if column.justify != "right"]
        numbers = [n for n in range(len(cells)) if n not in names]
        if excess > 0 and names and numbers and self.show_header:
            stacked = self._stacked(cells, names, numbers, options.max_width)
            if stacked:
                yield from stacked
                return
        floors = {n: max(_LEAST, min(_MOST, max(map(_longest_piece, cells[n])))) for n in names}
        heads = {n: _longest_piece(cells[n][0]) for n in numbers}
        whole = {n: max([heads[n], *(cell.cell_len for cell in cells[n][1:])]) for n in numbers}
        words = {n: max([heads[n], *map(_widest_word, cells[n][1:])]) for n in numbers}
        for least in (floors, whole, words):
            while excess > 0 and (able := [n for n in least if widths[n] > least[n]]):
                widths[max(able, key=widths.__getitem__)] -= 1
                excess -= 1
        if excess > 0:
            yield from self._records(cells, options.max_width)
            return
        fitted = [
            [_wrapped(cell, width) for cell in column] for column, width in zip(cells, widths, strict=True)
        ]
        yield from self._with(fitted).__rich_console__(console, options)

    def _with(self, cells: Sequence[Sequence[Text]]) -> Table:
        """The table with other cells; each column's first is its heading."""
        made = Table(
            box=self.box, show_edge=self.show_edge, pad_edge=self.pad_edge, show_header=self.show_header,
            padding=self.padding, header_style=self.header_style,
        )  # fmt: skip
        for column, mine in zip(self.columns, cells, strict=True):
            made.add_column(mine[0], justify=column.justify, no_wrap=True, overflow="fold")
        for row in zip(*(column[1:] for column in cells), strict=True):
            made.add_row(*row)
        return made

    def _stacked(
        self, cells: Sequence[Sequence[Text]], names: Sequence[int], numbers: Sequence[int], width: int
    ) -> list[RenderableType]:
        """Each row as two lines, its names and below them its numbers; empty where they do not fit."""
        widths = {
            n: max([_longest_piece(cells[n][0]), *(cell.cell_len for cell in cells[n][1:])]) for n in numbers
        }
        room = width - sum(widths.values()) - len(_GAP) * len(numbers)
        titles = [
            Text("  ").join(part for n in names if (part := cells[n][row]).plain.strip())
            for row in range(len(cells[0]))
        ]
        if room < 0 or max(title.cell_len for title in titles) > width:
            return []
        for n in numbers:  # headings on one line, as far as there is room
            more = min(room, max(0, cells[n][0].cell_len - widths[n]))
            widths[n], room = widths[n] + more, room - more
        heads = [_head_lines(cells[n][0], widths[n]) for n in numbers]
        tall = max(map(len, heads))
        renderable_types: list[RenderableType] = [Text()]
        style = self.header_style or "bold"
        for line in range(tall):
            parts = [head[line - tall + len(head)] if line >= tall - len(head) else "" for head in heads]
            lines = (f"{part:>{widths[n]}}" for n, part in zip(numbers, parts, strict=True))
            renderable_types.append(Text(_GAP + _GAP.join(lines), style=style))
        renderable_types.append(Text("─" * (sum(widths.values()) + len(_GAP) * len(numbers))))
        for row, title in enumerate(titles[1:], 1):
            right = [Text(" " * (widths[n] - cells[n][row].cell_len)) + cells[n][row] for n in numbers]
            renderable_types += [title, Text(_GAP) + Text(_GAP).join(right)]
        return [*renderable_types, Text()]

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
    """Rows of cells of which the last alone is cut, to what is left of the line; where that is too little, to one below."""

    def __init__(self, rows: Sequence[Sequence[Text]], justify: str) -> None:
        """`justify` has an r or an l for each cell but the last."""
        self.rows, self.justify = rows, justify

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """The lines."""
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
        """The lines, wrapped."""
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


def _text(cell: object) -> Text:
    return cell.copy() if isinstance(cell, Text) else Text(str(cell))


def _head_lines(head: Text, width: int) -> list[str]:
    """The lines of a heading: between words, within them only where one is too wide."""
    text = head.plain
    return wrap(text, width) if _widest_word(head) <= width else _wrapped(head, width).plain.split("\n")


def _widest_word(cell: Text) -> int:
    return max((len(word) for word in cell.plain.split()), default=0)


def _longest_piece(cell: Text) -> int:
    return max((len(piece) for piece in _PIECE.findall(cell.plain)), default=0)


def _wrapped(cell: Text, width: int) -> Text:
    """The text with line breaks at its joints, after a space, _ , = - / : and before ( and @."""
    if cell.cell_len <= width:
        return cell
    lines, line = [], ""
    for piece in _PIECE.findall(cell.plain):
        part = piece
        if Text(line + part).cell_len > width and line.strip():
            lines.append(line.rstrip())
            line, part = "", part.lstrip()
        while Text(part).cell_len > width:  # one long word: there is no joint to take
            head = next(n for n in range(len(part), 0, -1) if Text(part[:n]).cell_len <= max(width, 2))
            lines.append(part[:head])
            part = part[head:]
        line += part
    return Text("\n".join(filter(None, [*lines, line.rstrip()])), style=cell.style)
