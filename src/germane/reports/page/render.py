"""The HTML file: the page's modules, styles and data under a strict content policy; and one page for several reports."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from html import escape
from importlib.resources import files

from germane.clean import clean
from germane.encoding import deflated, encode
from germane.reports.data import ReportData
from germane.reports.plots import dark_colours
from germane.types import FrozenDict, Json

_MAIN = "main.js"
_IMPORT = re.compile(r'^import\s+\{[^}]*\}\s+from\s+"\./(?P<file>[\w-]+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|let|class)\b)", re.MULTILINE)


def page_html(
    data: Mapping[str, Json],
    blocks: Iterable[Iterable[bytes]] = (),
    charts: Mapping[str, str] = FrozenDict(),
) -> Iterator[str]:
    """Yield the HTML file in pieces.

    Args:
        data: What the page shows at once; written as JSON in which no text can end its element.
        blocks: What it reads later, in several groups of compressed blocks (JSON, deflated).
        charts: SVG elements by their kind.
    """
    script, style = script_text(), style_text()
    policy = policy_of([script], [style])
    head, _, tail = _file("page.html").replace("{{policy}}", policy).partition("{{data}}")
    before, _, after = head.partition("{{style}}")
    yield from (before, style, after)
    yield f'<script type="application/json" id="data">{embedded(data)}</script>\n'
    for group, packed in enumerate(blocks):
        for number, block in enumerate(packed):
            text = base64.b85encode(block).translate(_SAFE).decode()
            yield f'<script type="text/plain" id="block-{group}-{number}">{text}</script>\n'
    for kind, svg in charts.items():
        yield f'<template id="chart-{kind}">{svg}</template>\n'
    yield tail.replace("{{script}}", script)


def embedded(value: Json) -> str:
    """Return JSON for use in a script element, escaped so that no text can end the element or open a comment."""
    text = encode(value).decode()
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


_SAFE = bytes.maketrans(b"<&>", b",./")
"""In base 85, which is a quarter longer than the bytes are: other signs for those that HTML reads."""


@cache
def script_text() -> str:
    """Return all modules as one script, in the order of their imports, without import and export statements."""
    done: dict[str, str] = {}

    def add(name: str) -> None:
        if name not in done:
            text = _file(name)
            for match in _IMPORT.finditer(text):
                add(match["file"])
            done[name] = _EXPORT.sub("", _IMPORT.sub("", text))

    add(_MAIN)
    return "\n".join(done.values())


@cache
def _file(name: str) -> str:
    return files(__package__).joinpath(name).read_text("utf-8")


@cache
def style_text() -> str:
    """Return the page's style sheet, with the colours of the dark theme."""
    return _file("page.css") + dark_colours("main")


def policy_of(scripts: Iterable[str], styles: Iterable[str]) -> str:
    """Return the content security policy that allows only these scripts and styles, by their hashes."""

    def hashes(texts: Iterable[str]) -> str:
        digests = (hashlib.sha256(text.encode()).digest() for text in texts)
        return " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)

    scripts_and_styles = f"script-src {hashes(scripts)}; style-src {hashes(styles)}"
    return f"default-src 'none'; {scripts_and_styles}; base-uri 'none'; form-action 'none'"


_MOST = 4
"""Means that the index shows of each evaluation."""


def several_html(pages: Sequence[tuple[str, ReportData, Iterable[str]]]) -> Iterator[str]:
    """Yield one file for several evaluations: an index that links to each one's page in the same file.

    The number of the page follows the ? of the address; what a page keeps there follows the #. Each evaluation has its name, its
    report and the pieces of its page.
    """
    script, style = _file("index.js"), _file("index.css")
    policy = policy_of([script, script_text()], [style, style_text()])
    title = f"{len(pages)} evaluations"
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield f"<title>{title}</title>\n<style>{style}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
    yield "<table><thead><tr>"
    yield from (f'<th scope="col">{name}</th>' for name in ("evaluation", "result", "queries", "means"))
    yield "</tr></thead>\n<tbody>\n"
    for number, (name, report, _) in enumerate(pages, 1):
        yield f'<tr><td><a href="?{number}">{_escaped(name)}</a></td>'
        yield f"<td>{_escaped(report.verdict.word)}</td>"
        yield f'<td class="number">{len({key[0] for key in report.tables.scores.samples}):,}</td>'
        yield f'<td class="number">{_means(report)}</td></tr>\n'
    yield "</tbody></table>\n</main>\n"
    for number, (_, _, pieces) in enumerate(pages, 1):
        packed = base64.b64encode(deflated(piece.encode() for piece in pieces)).decode()
        yield f'<script type="text/plain" id="page-{number}">{packed}</script>\n'
    yield f'<script type="module">{script}</script>\n</body>\n</html>\n'


def _means(report: ReportData) -> str:
    several = len(report.systems) > 1
    lines = [f"{f'{s.system}: ' if several else ''}{s.measure} {s.in_words()}" for s in report.summaries]
    more = [f"and {len(lines) - _MOST} more"] if len(lines) > _MOST else []
    return "<br>".join(map(_escaped, [*lines[:_MOST], *more]))


def _escaped(text: str) -> str:
    return escape(clean(text))
