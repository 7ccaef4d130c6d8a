"""Tables for a terminal, as plain text, Markdown and TeX, and the lines of CSV files."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, TextIO

from germane.clean import cell as spreadsheet_cell
from germane.clean import clean, markdown_text

if TYPE_CHECKING:
    from rich.console import JustifyMethod, RenderableType

__all__ = ["Table", "TextDocument", "csv_lines"]


class Table:
    """A table of text with headings, rows, a title above and notes below; control characters are removed.

    `align` has a letter per column, l (left) or r (right); further columns are aligned like the last letter.
    `styles` maps headings to the rich styles of their columns in a terminal.
    """

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
        """Append a row of cells; None is shown as a dash. `bold` holds the indices of the cells in bold."""
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

    def rich(self, *, edge: bool = True) -> RenderableType:
        """Return the table for a rich console; `edge` adds space at its left and right edge."""
        from rich.box import SIMPLE_HEAD
        from rich.cells import cell_len
        from rich.table import Table as RichTable
        from rich.text import Text

        from germane.show.terminal import FittedTable, hanging

        table = RichTable(box=SIMPLE_HEAD, show_edge=edge, pad_edge=False)
        for head, side in zip(self.heads, self.align, strict=True):
            justify: JustifyMethod = "left" if side == "l" else "right"
            table.add_column(Text(head), justify=justify, style=self.styles.get(head))
        for row, bold in zip(self.rows, self.bold, strict=True):
            table.add_row(*(Text(cell, style="bold" if at in bold else "") for at, cell in enumerate(row)))
        widths = [max(map(cell_len, cells)) for cells in zip(self.heads, *self.rows, strict=True)]
        records = []
        for row in self.rows:
            cells = (f"{head} {cell}".strip() for head, cell in zip(self.heads, row, strict=True))
            records.append(Text("  ".join(cells)))
        layouts: list[tuple[int, Sequence[RenderableType]]] = [
            (sum(widths) + 3 * len(widths) - 1 - 2 * (not edge), [table]),
            *self._stacked(widths),
            (0, records),
        ]
        title = [Text(self.title)] if self.title else []
        notes = (Text(f"  {clean(note)}", style="dim") for note in self.notes)
        return hanging([*title, FittedTable(layouts), *notes])

    def _stacked(self, widths: Sequence[int]) -> Iterator[tuple[int, Sequence[RenderableType]]]:
        """Yield a layout for narrow terminals, each row's texts above its numbers, if it has both."""
        from rich.cells import cell_len
        from rich.text import Text

        numbers = [at for at, side in enumerate(self.align) if side == "r"]
        if not 0 < len(numbers) < len(self.align):
            return

        def numbers_of(row: Sequence[str], bold: Collection[int] = ()) -> Text:
            """Return the numbers of a row, each as wide as its column."""
            cells = (" " * (widths[at] + 2 - cell_len(row[at])) + row[at] for at in numbers)
            styles = ("bold" if at in bold else self.styles.get(self.heads[at], "") for at in numbers)
            return Text.assemble(*zip(cells, styles, strict=True))

        width = sum(widths[at] + 2 for at in numbers)
        lines = [Text(), numbers_of(self.heads, numbers), Text("─" * width)]
        for row, bold in zip(self.rows, self.bold, strict=True):
            texts = (cell for cell, side in zip(row, self.align, strict=True) if side == "l" and cell)
            lines += [Text("  ".join(texts)), numbers_of(row, bold)]
        yield width, [*lines, Text()]

    def print(self, out: TextIO) -> None:
        """Print the table: fitted to the width of a terminal, with lines and bold, else as plain text."""
        if not out.isatty():
            out.writelines(f"{line}\n" for line in self.plain())
            return
        from rich.console import Console

        Console(file=out, highlight=False).print(self.rich(edge=False))

    def _written(self, escape: Callable[[str], str], bold: str) -> list[list[str]]:
        """Return headings and rows, escaped; a bold cell is put in `bold` in place of @, as in `**@**`."""
        lines = []
        for row, marked in zip((self.heads, *self.rows), ((), *self.bold), strict=True):
            cells = enumerate(map(escape, row))
            lines.append([bold.replace("@", cell) if at in marked else cell for at, cell in cells])
        return lines

    def markdown(self, escape: Callable[[str], str] = markdown_text, most: int | None = None) -> str:
        """Return the table in Markdown with its notes below, each cell escaped by `escape`.

        `most` limits the number of rows: a line says how many more there are, and an empty table becomes "".
        """
        if most is not None and not self.rows:
            return ""
        rules = ["---" if side == "l" else "---:" for side in self.align]
        head, *rows = self._written(escape, "**@**")
        text = "".join(f"| {' | '.join(line)} |\n" for line in (head, rules, *rows[:most]))
        if most is not None:
            text += f"\nand {len(rows) - most} more\n\n" if len(rows) > most else "\n"
        return text + "".join(f"{escape(note)}\n\n" for note in self.notes)

    def tex(self, rules: tuple[str, str, str] = ("toprule", "midrule", "bottomrule")) -> str:
        """Return a LaTeX tabular; `rules` are the commands for its three lines, booktabs' by default."""
        written = self._written(lambda cell: cell.translate(_TEX), r"\textbf{@}")
        head, *rows = (" & ".join(row) + r" \\" for row in written)
        top, middle, bottom = (f"\\{rule}" for rule in rules)
        begin = rf"\begin{{tabular}}{{{self.align}}}"
        return "\n".join([begin, top, head, middle, *rows, bottom, r"\end{tabular}"]) + "\n"


_TEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
)


class TextDocument(list[str | Table]):
    """A document: a list of text lines and tables. A line may begin with #, ## or - as in Markdown."""

    def text(self) -> str:
        """Return the document as plain text, its tables in aligned columns."""
        lines: list[str] = []
        for block in self:
            lines += block.plain() if isinstance(block, Table) else [clean(block.lstrip("# "))]
        return "".join(f"{line}\n" for line in lines)

    def markdown(self) -> str:
        """Return the document as Markdown, with the text of cells and lines escaped, except "# " and "- "."""
        text = ""
        for block in self:
            if isinstance(block, Table):
                text += block.markdown(lambda cell: markdown_text(cell, 1000))
            else:
                mark = next((mark for mark in ("# ", "## ", "- ") if block.startswith(mark)), "")
                text += f"{mark}{markdown_text(block.removeprefix(mark), 1000)}\n"
        return text


def csv_lines(rows: Iterable[Iterable[object]], delimiter: str = ",") -> Iterator[str]:
    """Yield a CSV line per row; cells that a spreadsheet would run as formulas are escaped."""
    import csv  # not at the top: a terminal does not need it

    out = io.StringIO(newline="")
    writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
    for row in rows:
        writer.writerow(map(spreadsheet_cell, row))
        yield out.getvalue()
        out.seek(out.truncate(0))
