"""The stages on the HTML page, opened from disk in a browser."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from playwright.sync_api import sync_playwright

from germane import evaluate
from tests.command import invoke

HOSTILE = "</script><script>window.hit=1</script>"


def test_the_page_shows_the_funnel(tmp_path: Path) -> None:
    """A line per stage with its bar, what it lost and saved; a stage's name is text and nothing else."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("no chromium: apt-get install chromium")
    stages = [
        {"name": "bm25", "ids": ["a", "b", "x"]},
        {"name": HOSTILE, "ids": ["a", "c"]},
        {"name": "rerank", "ids": ["a"]},
    ]
    row = {"qrels": {"a": 1, "b": 1, "c": 1, "d": 1}, "stages": stages, "contexts": [{"id": "a"}]}
    evaluate([{"id": f"q{n}", "query": "a", **row} for n in range(3)], "R@5").save(tmp_path / "r")
    assert invoke("report", tmp_path / "r", "-o", tmp_path / "page.html").code == 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=["--no-sandbox", "--disable-gpu"])
        page = browser.new_page()
        faults: list[str] = []
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.goto((tmp_path / "page.html").as_uri())
        page.wait_for_selector("body[data-ready=overview]")
        table = page.get_by_role("table", name="Stages of the retrieval")
        rows = [line.split("\t") for line in table.inner_text().splitlines() if "\t" in line]
        assert "12 relevant documents of 3 queries: 3 returned, 6 lost, 3 never retrieved" in page.inner_text(
            "main"
        )
        assert page.evaluate("window.hit") is None
        assert table.locator("progress").count() == 3
        browser.close()
    assert faults == []
    cells = " ".join(cell for row in rows for cell in row)
    assert HOSTILE in cells
    assert "rerank" in cells


def test_the_page_of_a_report_without_gold_has_no_funnel(tmp_path: Path) -> None:
    """It is written all the same."""
    evaluate([{"id": "q", "query": "a", "contexts": ["b"]}], "context_redundancy").save(tmp_path / "r")
    assert invoke("report", tmp_path / "r", "-o", tmp_path / "page.html").code == 0
    assert '"stages":null' in (tmp_path / "page.html").read_text("utf-8")
