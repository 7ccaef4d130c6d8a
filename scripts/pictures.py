"""Renew the pictures in docs/images: the terminal and the overview of the page, light and dark, its other parts, and the charts.

    .venv/bin/python scripts/pictures.py

Needs chromium. Each is looked at before it is committed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright
from rich.console import Console
from rich.terminal_theme import DIMMED_MONOKAI, TerminalTheme
from rich.text import Text

ROOT = Path(__file__).parents[1]
IMAGES = ROOT / "docs" / "images"
EXAMPLE = "examples/rag-evaluation/evals/retrieval-set.yaml"
PARTS = ("overview", "queries", "query?id=tyre-pressure", "compare", "label")
LIGHT = TerminalTheme(
    (255, 255, 255), (28, 35, 41),
    [(28, 35, 41), (163, 32, 32), (26, 107, 60), (122, 82, 0), (11, 83, 148), (128, 90, 213), (15, 118, 110), (86, 96, 105)],
)  # fmt: skip


def germane(*words: str, color: bool = False) -> str:
    """What a command of this clone prints."""
    more = {"FORCE_COLOR": "1", "COLUMNS": "100", "TERM": "xterm-256color"} if color else {}
    command = [sys.executable, "-m", "germane", *words]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **more}, capture_output=True, text=True, check=False
    )
    if done.returncode not in {0, 1}:
        sys.exit(done.stderr)
    return done.stdout


def terminal(browser: Browser, text: str, scheme: str) -> None:
    """What a terminal shows, as a picture."""
    theme = LIGHT if scheme == "light" else DIMMED_MONOKAI
    console = Console(record=True, width=100, file=open(os.devnull, "w"), force_terminal=True)  # noqa: PTH123, SIM115
    console.print(Text.from_ansi(text))
    body = console.export_html(theme=theme, inline_styles=True, code_format="<pre>{code}</pre>")
    back = "#ffffff" if scheme == "light" else "#15191d"
    front = "#1c2329" if scheme == "light" else "#dfe5ea"
    page = browser.new_page(viewport={"width": 900, "height": 100}, device_scale_factor=2)
    page.set_content(
        f"<title>{escape('germane')}</title><style>body{{margin:0;background:{back};color:{front}}}"
        "pre{font:13px/1.45 'DejaVu Sans Mono',monospace;padding:16px 20px;margin:0}</style>" + body
    )
    page.screenshot(path=IMAGES / f"terminal-{scheme}.png", full_page=True)
    page.close()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        now, before = f"{folder}/bm25", f"{folder}/bm25-poor-index"
        shown = germane("run", EXAMPLE, "-o", now, "--no-cache", color=True)
        germane("run", EXAMPLE, "--target", "bm25_worse", "-o", before, "--no-cache")
        germane("report", now, "--baseline", before, "-o", f"{folder}/page.html")
        germane("report", now, "--baseline", before, "-o", str(IMAGES / "plot.svg"))
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for scheme in ("light", "dark"):
            terminal(browser, shown.replace(folder, "germane-reports"), scheme)
            page = browser.new_page(
                viewport={"width": 1240, "height": 860}, color_scheme="light" if scheme == "light" else "dark"
            )
            page.goto(f"file://{folder}/page.html")
            for part in PARTS if scheme == "light" else PARTS[:1]:
                name = part.partition("?")[0]
                page.evaluate("part => { document.body.dataset.ready = ''; location.hash = part }", part)
                page.wait_for_selector(f"body[data-ready={name}]")
                page.wait_for_timeout(200)
                page.screenshot(path=IMAGES / f"page-{name}-{scheme}.png")
            page.close()
        browser.close()


if __name__ == "__main__":
    main()
