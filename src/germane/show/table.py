"""Tables and texts for a terminal, as plain text, Markdown and TeX, and the lines of CSV files."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TextIO, TypeAlias

from germane.clean import cell as spreadsheet_cell
from germane.clean import clean, markdown_text

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, JustifyMethod, RenderableType, RenderResult

__all__ = ["Stack", "Table", "TextDocument", "csv_lines", "document_lines", "plain_text"]


class Table:
    """A table of text cells with headings, a title above and notes below; control characters are removed.

    `align` contains a letter per column, l (left) or r (right); further columns are aligned like the last
    letter. `styles` maps headings to the rich styles of their columns in a terminal. A rich console prints
    the table in the first of three forms that fits its width: aligned columns, each row's texts above its
    numbers, or one line per row that repeats the headings.
    """

    edge = True
    """Whether a terminal shows the table with space around it."""

    def __init__(
        self,
        heads: Iterable[str],
        align: str = "lr",
        rows: Iterable[Iterable[object]] = (),
        *,
        title: str = "",
        notes: Iterable[str] = (),
        styles: Mapping[str, str] | None = None,
    ) -> None:
        self.heads = list(map(clean, heads))
        self.align = align + align[-1] * (len(self.heads) - len(align))
        self.title, self.notes, self.styles = clean(title), list(notes), styles or {}
        self.rows: list[list[str]] = []
        self.bold: list[Collection[int]] = []
        for row in rows:
            self.add(row)

    def add(self, row: Iterable[object], bold: Collection[int] = ()) -> None:
        """Append a row of cells; None is shown as a dash, the cells with the indices `bold` in bold."""
        cells = ("-" if value is None else value for value in row)
        self.rows.append([clean(str(cell)) for cell in cells])
        self.bold.append(bold)

    def plain(self) -> Iterator[str]:
        """Yield the table as lines of plain text: the title, the rows with aligned columns, and the notes."""
        yield from filter(None, [self.title])
        widths = [max(map(len, cells)) for cells in zip(self.heads, *self.rows, strict=True)]
        for row in (self.heads, *self.rows):
            cells = zip(row, widths, self.align, strict=True)
            padded = (cell.ljust(width) if side == "l" else cell.rjust(width) for cell, width, side in cells)
            yield "  ".join(padded).rstrip()
        yield from (f"  {clean(note)}" for note in self.notes)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.box import SIMPLE_HEAD
        from rich.cells import cell_len
        from rich.table import Table as RichTable
        from rich.text import Text

        forms: list[RenderableType]
        widths = [max(map(cell_len, cells)) for cells in zip(self.heads, *self.rows, strict=True)]
        numbers = [at for at, side in enumerate(self.align) if side == "r"]
        both = 0 < len(numbers) < len(self.align)
        if sum(widths) + 3 * len(widths) - (1 if self.edge else 3) <= options.max_width:
            table = RichTable(box=SIMPLE_HEAD, show_edge=self.edge, pad_edge=False)
            for head, side in zip(self.heads, self.align, strict=True):
                justify: JustifyMethod = "left" if side == "l" else "right"
                table.add_column(Text(head), justify=justify, style=self.styles.get(head))
            for row, bold in zip(self.rows, self.bold, strict=True):
                table.add_row(
                    *(Text(cell, style="bold" if at in bold else "") for at, cell in enumerate(row))
                )
            forms = [table]
        elif both and sum(widths[at] + 2 for at in numbers) <= options.max_width:
            forms = list(self._stacked(widths, numbers))
        else:
            named = (zip(self.heads, row, strict=True) for row in self.rows)
            forms = [Text("  ".join(f"{head} {cell}".strip() for head, cell in cells)) for cells in named]
        title = [Text(self.title)] if self.title else []
        yield Stack([*title, *forms, *(Text(f"  {clean(note)}", style="dim") for note in self.notes)])

    def _stacked(self, widths: Sequence[int], numbers: Sequence[int]) -> Iterable[RenderableType]:
        """Yield the headings and rows in two lines each: the texts, and below them the numbers in columns."""
        from rich.cells import cell_len
        from rich.text import Text

        for row, bold in zip((self.heads, *self.rows), (numbers, *self.bold), strict=True):
            texts = (cell for cell, side in zip(row, self.align, strict=True) if side == "l" and cell)
            yield Text("" if row is self.heads else "  ".join(texts))
            cells = (" " * (widths[at] + 2 - cell_len(row[at])) + row[at] for at in numbers)
            styles = ("bold" if at in bold else self.styles.get(self.heads[at], "") for at in numbers)
            yield Text.assemble(*zip(cells, styles, strict=True))
            if row is self.heads:
                yield Text("─" * sum(widths[at] + 2 for at in numbers))
        yield Text()

    def print(self, out: TextIO) -> None:
        """Print the table: as plain text, or in a terminal fitted to its width, with rules and bold cells."""
        if not out.isatty():
            out.writelines(f"{line}\n" for line in self.plain())
            return
        from rich.console import Console

        self.edge = False
        Console(file=out, highlight=False).print(self)

    def _written(self, escape: Callable[[str], str], bold: str) -> list[list[str]]:
        """Return the escaped headings and rows; in the template `bold`, such as `**@**`, @ is the cell."""
        lines = []
        for row, marked in zip((self.heads, *self.rows), ((), *self.bold), strict=True):
            cells = enumerate(map(escape, row))
            lines.append([bold.replace("@", cell) if at in marked else cell for at, cell in cells])
        return lines

    def markdown(self, escape: Callable[[str], str] = markdown_text, most: int | None = None) -> str:
        """Return the table in Markdown with its notes below; `escape` escapes each cell.

        `most` limits the number of rows; a line then says how many more rows there are. If `most` is given,
        an empty table gives "".
        """
        if most is not None and not self.rows:
            return ""
        rules = ["---" if side == "l" else "---:" for side in self.align]
        head, *rows = self._written(escape, "**@**")
        text = "".join(f"| {' | '.join(line)} |\n" for line in (head, rules, *rows[:most]))
        if most is not None:
            text += f"\nand {len(rows) - most} more\n\n" if len(rows) > most else "\n"
        return text + "".join(f"\n{escape(note)}\n" for note in self.notes)  # a line below a row is a row

    def tex(self, rules: tuple[str, str, str] = ("toprule", "midrule", "bottomrule")) -> str:
        """Return the table as a LaTeX tabular; `rules` are the commands for its three lines."""
        written = self._written(lambda cell: cell.translate(_TEX), r"\textbf{@}")
        head, *rows = (" & ".join(row) + r" \\" for row in written)
        top, middle, bottom = (f"\\{rule}" for rule in rules)
        begin = rf"\begin{{tabular}}{{{self.align}}}"
        return "\n".join([begin, top, head, middle, *rows, bottom, r"\end{tabular}"]) + "\n"


_TEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "&%$#_{}"}
    | {"<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
)


TextDocument: TypeAlias = Sequence[str | Table]
"""The lines and tables of a text. A line may begin with "# ", "## " or "- ", as in Markdown."""


def document_lines(document: TextDocument, *, markdown: bool = False) -> Iterator[str]:
    """Yield a document as plain text with aligned tables, or as Markdown, in which all else is escaped."""
    for block in document:
        if isinstance(block, Table) and markdown:
            yield block.markdown(lambda cell: markdown_text(cell, 1000))
        elif isinstance(block, Table):
            yield from (f"{line}\n" for line in block.plain())
        elif markdown:
            mark = next((mark for mark in ("# ", "## ", "- ") if block.startswith(mark)), "")
            yield f"{mark}{markdown_text(block.removeprefix(mark), 1000)}\n"
        else:
            yield f"{clean(block.lstrip('# '))}\n"


def csv_lines(rows: Iterable[Iterable[object]], delimiter: str = ",") -> Iterator[str]:
    """Yield a CSV line per row; cells that a spreadsheet would run as formulas are escaped."""
    import csv  # not at the top: it is not needed to print in a terminal

    out = io.StringIO(newline="")
    writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
    for row in rows:
        writer.writerow(map(spreadsheet_cell, row))
        yield out.getvalue()
        out.seek(out.truncate(0))


_LABEL = re.compile(r"[a-z]+ {2,}| +")


class Stack:
    """Texts and tables, one below the other, for a rich console.

    Long lines of text are wrapped with a hanging indent. The indent is as wide as the label at the start of
    the line (such as `judge    `), or two columns wider than the line's own indent if it has no label.
    """

    def __init__(self, rows: Iterable[RenderableType]) -> None:
        self.rows = list(rows)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        from rich.text import Text

        for row in self.rows:
            if not isinstance(row, Text) or row.no_wrap:
                yield row
                continue
            for line in row.split("\n", allow_blank=True):
                match = _LABEL.match(line.plain)
                lead = match.end() if match else 0
                indent = lead if match and match[0].strip() else lead + 2
                if line.cell_len <= options.max_width or options.max_width < 2 * indent:
                    yield line
                    continue
                first, *rest = line[lead:].wrap(console, options.max_width - indent)
                yield line[:lead] + first
                yield from (Text(" " * indent) + text for text in rest)


def plain_text(renderable: RenderableType, width: int) -> str:
    """Return the output of a console that is `width` columns wide for a rich renderable, without colour."""
    from rich.console import Console

    out = io.StringIO()
    console = Console(file=out, width=width, no_color=True, legacy_windows=False, force_jupyter=False)
    console.print(renderable, highlight=False)
    return "\n".join(clean(line).rstrip() for line in out.getvalue().rstrip().split("\n"))
