"""A table, declared once and rendered for a terminal, as plain text, Markdown, HTML, CSV and TeX."""

from __future__ import annotations

import io
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TextIO

from germane.clean import cell as spreadsheet_cell
from germane.clean import clean, markdown_text, shorten

if TYPE_CHECKING:
    from rich.console import RenderableType

__all__ = ["Markup", "Table", "TextDocument", "csv_lines"]


class Markup(str):
    """HTML that is not escaped."""

    __slots__ = ()


class Table:
    """Columns with headings, rows of text, and notes below; all texts are cleaned.

    `align` has an l (names) or an r (numbers) for each column; its last letter holds for all further columns. `styles` are those of columns in a terminal, by heading. `cut`: in a terminal the last column is cut to the rest of
    the line, and there are no headings.
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
        cut: bool = False,
    ) -> None:
        self.heads = list(map(clean, heads))
        self.align = align + align[-1] * (len(self.heads) - len(align))
        self.title, self.notes, self.styles, self.cut = clean(title), list(notes), styles or {}, cut
        self.rows: list[list[str]] = []
        self.bold: list[Collection[int]] = []
        for row in rows:
            self.add(row)

    def add(self, row: Iterable[object], bold: Collection[int] = ()) -> None:
        """Append a row; None is shown as a dash, and `bold` holds the indices of bold cells."""
        cells = ("-" if value is None else value for value in row)
        self.rows.append([cell if isinstance(cell, Markup) else clean(str(cell)) for cell in cells])
        self.bold.append(bold)

    def plain(self) -> Iterator[str]:
        """Yield the lines with aligned columns of any width, between the title and the notes."""
        yield from filter(None, [self.title])
        widths = [max(map(len, cells)) for cells in zip(self.heads, *self.rows, strict=True)]
        for row in (self.heads, *self.rows):
            cells = zip(row, widths, self.align, strict=True)
            padded = (cell.ljust(width) if side == "l" else cell.rjust(width) for cell, width, side in cells)
            yield "  ".join(padded).rstrip()
        yield from (f"  {clean(note)}" for note in self.notes)

    def rich(self, *, edge: bool = True) -> RenderableType:
        """Return the table for a console, fitted to its width without cutting anything; `edge` adds space around it."""
        from rich.text import Text

        from germane.show.terminal import FittedTable

        heads = [Text(head, style="bold") for head in self.heads]
        styles = [self.styles.get(head, "") for head in self.heads]
        rows = [
            [Text(cell, style="bold" if at in bold else styles[at]) for at, cell in enumerate(row)]
            for row, bold in zip(self.rows, self.bold, strict=True)
        ]
        return FittedTable(heads, rows, self.align, self.title, self.notes, edge, self.cut)

    def print(self, out: TextIO) -> None:
        """Print to a terminal with rules and weight, fitted to its width; else in plain columns."""
        if not out.isatty():
            out.writelines(f"{line}\n" for line in self.plain())
            return
        from rich.console import Console

        Console(file=out, highlight=False).print(self.rich(edge=False))

    def _written(self, escape: Callable[[str], str], bold: str) -> list[list[str]]:
        """Return headings and rows with escaped cells; a bold one replaces @ in `bold`."""
        return [
            [bold.replace("@", escape(cell)) if at in marked else escape(cell) for at, cell in enumerate(row)]
            for row, marked in zip((self.heads, *self.rows), ((), *self.bold), strict=True)
        ]

    def markdown(self, escape: Callable[[str], str] = markdown_text, most: int | None = None) -> str:
        """Return the table in Markdown with its notes below, each cell escaped.

        With `most`: at most this many rows and how many more there are; "" without rows.
        """
        if most is not None and not self.rows:
            return ""
        rules = ["---" if side == "l" else "---:" for side in self.align]
        head, *rows = self._written(escape, "**@**")
        text = "".join(f"| {' | '.join(line)} |\n" for line in (head, rules, *rows[:most]))
        if most is not None:
            text += f"\nand {len(rows) - most} more\n\n" if len(rows) > most else "\n"
        return text + "".join(f"{escape(note)}\n\n" for note in self.notes)

    def html(self) -> str:
        """Return the table for a notebook with title and notes; without scripts, and in the page's light or dark colours."""
        from html import escape  # not at the top: it loads the names of 2,000 characters

        left = "style='text-align:left'"
        head = "".join(f"<th scope='col' {left}>{escape(name)}</th>" for name in self.heads)
        cells = ((cell if isinstance(cell, Markup) else escape(cell) for cell in row) for row in self.rows)
        body = "".join(f"<tr>{''.join(f'<td {left}>{cell}</td>' for cell in row)}</tr>" for row in cells)
        notes = filter(None, map(clean, [self.title, *self.notes]))
        lines = "".join(f"<p>{escape(note)}</p>" for note in notes)
        return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{lines}"

    def tex(self, rules: tuple[str, str, str] = ("toprule", "midrule", "bottomrule")) -> str:
        """Return the table as LaTeX's tabular, with the rules of booktabs or others."""
        head, *rows = (
            " & ".join(row) + r" \\"
            for row in self._written(lambda cell: cell.translate(_TEX), r"\textbf{@}")
        )
        top, middle, bottom = (f"\\{rule}" for rule in rules)
        begin = rf"\begin{{tabular}}{{{self.align}}}"
        return "\n".join([begin, top, head, middle, *rows, bottom, r"\end{tabular}"]) + "\n"


_TEX = str.maketrans(
    {sign: f"\\{sign}" for sign in "&%$#_{}"}
    | {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
)


class TextDocument(list[str | Table]):
    """A document of lines and tables; a line may begin with #, ## or - as in Markdown, and is cleaned."""

    def text(self) -> str:
        """Return the document as plain text: Markdown whose texts are not escaped."""
        return self._joined(clean, lambda text: shorten(text, 200).replace("|", "\\|"))

    def markdown(self) -> str:
        """Return the document as Markdown whose texts are escaped."""
        return self._joined(*[lambda text: markdown_text(text, 1000)] * 2)

    def _joined(self, of_line: Callable[[str], str], of_cell: Callable[[str], str]) -> str:
        return "".join(
            block.markdown(of_cell) if isinstance(block, Table) else f"{block[0]}{of_line(block[1])}\n"
            for block in self._blocks()
        )

    def _blocks(self) -> Iterator[Table | tuple[str, str]]:
        """Yield the tables, and each line as its mark (heading, list) and the rest."""
        for block in self:
            if isinstance(block, str):
                mark = next((mark for mark in ("# ", "## ", "- ") if block.startswith(mark)), "")
                yield mark, block.removeprefix(mark)
            else:
                yield block

    def rich(self) -> RenderableType:
        """Return the document for a console: headings in bold, tables uncut."""
        from rich.text import Text

        from germane.show.terminal import hanging

        return hanging(
            block.rich(edge=False)
            if isinstance(block, Table)
            else Text(clean(block[1]), style="bold")
            if "#" in block[0]
            else Text(block[0] + clean(block[1]))
            for block in self._blocks()
        )


def csv_lines(rows: Iterable[Iterable[object]], delimiter: str = ",") -> Iterator[str]:
    """Iterate over the lines of a CSV file, headings first, with each value as `germane.clean.cell` writes it."""
    import csv  # not at the top: a terminal does not need it

    out = io.StringIO(newline="")
    writer = csv.writer(out, delimiter=delimiter, lineterminator="\n")
    for row in rows:
        writer.writerow(map(spreadsheet_cell, row))
        yield out.getvalue()
        out.seek(out.truncate(0))
