"""One HTML file for the reports of several evaluations: an index, whose links open the page of each from the same file.

The page that is chosen stands behind the ? of the address, so that what it keeps behind the # stays its own.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from germane.clean import clean
from germane.reports.data import ReportData
from germane.reports.page.render import deflated, policy_of, script_text, style_text

_MOST = 4
"""Means that the index shows of each evaluation."""

_STYLE = """
:root { color-scheme: light dark; font: 15px/1.45 system-ui, sans-serif; }
body { margin: 0; }
main { padding: 1rem 1.25rem; overflow-x: auto; }
h1 { font-size: 1.2rem; margin: 0 0 .6rem; }
table { border-collapse: collapse; }
th, td { text-align: left; padding: .25rem 1rem .25rem 0; border-bottom: 1px solid color-mix(in srgb, currentColor 15%, transparent); vertical-align: top; }
th { font-weight: 600; font-size: .85rem; }
td.number { font-variant-numeric: tabular-nums; }
"""

_SCRIPT = """
const chosen = document.getElementById(`page-${location.search.slice(1)}`);
if (chosen !== null) {
  const bytes = Uint8Array.from(atob(chosen.textContent), (sign) => sign.charCodeAt(0));
  const text = await new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate-raw"))).text();
  const back = Object.assign(document.createElement("a"), { href: "?", textContent: document.title });
  document.open();
  document.write(text);
  document.close();
  document.querySelector(".brand").append(" ", back);
}
"""


def several_html(pages: Sequence[tuple[str, ReportData, Iterable[str]]]) -> Iterator[str]:
    """The file in pieces, of each evaluation its name, its report and the pieces of its page."""
    policy = policy_of([_SCRIPT, script_text()], [_STYLE, style_text()])
    title = f"{len(pages)} evaluations"
    yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield f"<title>{title}</title>\n<style>{_STYLE}</style>\n</head>\n<body>\n<main>\n<h1>{title}</h1>\n"
    yield "<table><thead><tr>"
    yield from (f'<th scope="col">{name}</th>' for name in ("evaluation", "result", "queries", "means"))
    yield "</tr></thead>\n<tbody>\n"
    for number, (name, report, _) in enumerate(pages, 1):
        yield f'<tr><td><a href="?{number}">{_shown(name)}</a></td>'
        yield f"<td>{_shown(report.verdict.word)}</td>"
        yield f'<td class="number">{len({key[0] for key in report.tables.scores.samples}):,}</td>'
        yield f'<td class="number">{_means(report)}</td></tr>\n'
    yield "</tbody></table>\n</main>\n"
    for number, (_, _, parts) in enumerate(pages, 1):
        packed = base64.b64encode(deflated(part.encode() for part in parts)).decode()
        yield f'<script type="text/plain" id="page-{number}">{packed}</script>\n'
    yield f'<script type="module">{_SCRIPT}</script>\n</body>\n</html>\n'


def _means(report: ReportData) -> str:
    several = len(report.systems) > 1
    lines = [f"{f'{s.system}: ' if several else ''}{s.measure} {s.in_words()}" for s in report.summaries]
    more = [f"and {len(lines) - _MOST} more"] if len(lines) > _MOST else []
    return "<br>".join(map(_shown, [*lines[:_MOST], *more]))


def _shown(text: str) -> str:
    return escape(clean(text))
