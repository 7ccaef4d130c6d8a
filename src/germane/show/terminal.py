"""Text for a terminal: hanging indents, tables that fit the width, and rich output as plain text."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.text import Text

from germane.clean import clean


def plain_text(renderable: RenderableType, width: int) -> str:
    """Return what a console of `width` columns prints for a rich renderable, without colour."""
    out = io.StringIO()
    console = Console(file=out, width=width, no_color=True, legacy_windows=False, force_jupyter=False)
    console.print(renderable, highlight=False)
    return "\n".join(clean(line).rstrip() for line in out.getvalue().rstrip().split("\n"))


_LEAD = re.compile(r"[a-z]+ {2,}| +")


class HangingText:
    """Text with a hanging indent, as wide as a label at its start (`judge    `), else of two columns."""

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


class FittedTable:
    """A table that is printed in the first of its `layouts`, (width, renderables), that fits the terminal."""

    def __init__(self, layouts: Sequence[tuple[int, Sequence[RenderableType]]]) -> None:
        self.layouts = layouts

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Render the first layout that fits the console's width."""
        fitting = next(rows for width, rows in self.layouts if width <= options.max_width)
        yield hanging(fitting)


def hanging(rows: Iterable[RenderableType]) -> RenderableType:
    """Return the renderables one below the other; texts get a hanging indent."""
    return Group(*(HangingText(row) if isinstance(row, Text) else row for row in rows))
