"""Write the HTML page: its scripts, styles and data in one file, under a strict content security policy."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.resources import files

from germane.encoding import encode
from germane.reports.plots import Chart, dark_colours
from germane.types import Json

_MAIN = "main.js"
_IMPORT = re.compile(r'^import\s+\{[^}]*\}\s+from\s+"\./(?P<file>[\w-]+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|const|let|class)\b)", re.MULTILINE)


def page_html(
    data: Mapping[str, Json], blocks: Iterable[Iterable[bytes]], charts: Mapping[str, Iterable[Chart]]
) -> Iterator[str]:
    """Yield the text of the page: its `data`, the compressed `blocks` and the charts, under one policy."""
    script, style = script_text(), _file("page.css") + dark_colours("main")
    allowed = f"script-src {_hash(script)}; style-src {_hash(style)}"
    policy = f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"
    head, _, tail = _file("page.html").replace("{{policy}}", policy).partition("{{data}}")
    before, _, after = head.partition("{{style}}")
    yield from (before, style, after)
    yield f'<script type="application/json" id="data">{embedded(data)}</script>\n'
    for group, packed in enumerate(blocks):
        for number, block in enumerate(packed):
            text = base64.b85encode(block).translate(_SAFE).decode()
            yield f'<script type="text/plain" id="block-{group}-{number}">{text}</script>\n'
    for kind, drawn in charts.items():
        for number, chart in enumerate(drawn):
            yield f'<template id="chart-{kind}-{number}">{chart.svg()}</template>\n'
    yield tail.replace("{{script}}", script)


def embedded(value: Json) -> str:
    """Return a value as JSON for a script element, escaped so that no string in it can close the element."""
    text = encode(value).decode()
    for char in "<>&\u2028\u2029":
        text = text.replace(char, f"\\u{ord(char):04x}")
    return text


_SAFE = bytes.maketrans(b"<&>", b",./")  # replaces the characters of base 85 that have a meaning in HTML


@cache
def script_text() -> str:
    """Return the page's JavaScript modules as one script, in import order; import and export are removed."""
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


def _hash(text: str) -> str:
    """Return the hash with which a content security policy allows this script or style and no other."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
