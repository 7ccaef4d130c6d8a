"""The HTML page, opened from disk in a browser as a person does."""

import base64
import hashlib
import json
import re
import shutil
from collections.abc import Callable, Iterator
from html import unescape
from importlib.resources import files
from math import inf
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from germane import Sample, compare, evaluate
from germane.cli import main
from germane.comparison.compare import comparison_of
from germane.errors import InputError
from germane.graders import MeasureGrader
from germane.labelling.audit import audit_judge
from germane.measures import RR, measure
from germane.reports.formats import html, write
from germane.reports.page.render import embedded, script_text
from germane.reports.report import Report
from germane.reports.summary import interval_in_words
from germane.tables.labels import load_label, relevance_item
from germane.types import Json
from tests.command import invoke

HOSTILE = "</script><script>window.hit=1</script><img src=x onerror=window.hit=2> \x1b[31mred \u202eright\u2028 🦊 مرحبا"
HOSTILE_ID = f"bad {HOSTILE}"
TEXTS = {f"d{n}": f"Passage {n} tells of topic {n % 7} and of tides." for n in range(20)}


def sample(number: int, *, turned: bool = False) -> dict[str, Json]:
    ids = [f"d{(number + step) % 20}" for step in range(5)]
    contexts = [{"id": name, "text": TEXTS[name], "score": 9.5 - at} for at, name in enumerate(ids)]
    row: dict[str, Json] = {
        "id": f"q{number}",
        "query": f"what of topic {number % 7}, number {number}?",
        "reference": f"It tells of topic {number % 7}. Tides rise twice.",
        "contexts": contexts[::-1] if turned else contexts,
        "qrels": {ids[number % 5]: 2, f"gone{number}": 1} if number % 3 else {ids[0]: 1},
        "tags": ["even" if number % 2 == 0 else "odd"],
    }
    return row


def report_of(rows: list[dict[str, Json]], folder: Path) -> Report:
    measures = "nDCG@5 RR context_precision@5 context_recall"
    return evaluate(rows, measures, judge="lexical", gates=["mean(nDCG@5)>=0.5"]).save(folder)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A report of 60 ordinary queries and a hostile one, its page beside a baseline."""
    path = tmp_path_factory.mktemp("page")
    hostile = {"id": HOSTILE_ID, "query": HOSTILE, "reference": HOSTILE, "tags": [HOSTILE],
               "contexts": [{"id": HOSTILE, "text": HOSTILE}], "qrels": {HOSTILE: 1}}  # fmt: skip
    report = report_of([*map(sample, range(60)), hostile], path / "now")
    before = report_of([sample(number, turned=True) for number in range(50)], path / "before")
    audit, comparison = audit_judge(report).as_json(), comparison_of(before, report)
    write(report, path / "page.html", baseline=before, audit=audit, comparison=comparison)
    return path


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        pytest.skip("no chromium: apt-get install chromium")
    flags = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=flags)
        yield browser
        browser.close()


@pytest.fixture
def page(browser: Browser, folder: Path) -> Iterator[Page]:
    """The page, its first part shown; an error in the browser's console fails the test."""
    context = browser.new_context(viewport={"width": 1200, "height": 800})
    page = context.new_page()
    faults: list[str] = []
    page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on(
        "request",
        lambda asked: None if asked.url.startswith(("file:", "blob:")) else faults.append(asked.url),
    )
    page.goto((folder / "page.html").as_uri())
    page.wait_for_selector("body[data-ready=overview]")
    yield page
    context.close()
    assert faults == []


def go(page: Page, part: str) -> None:
    page.evaluate("part => { document.body.dataset.ready = ''; location.hash = part }", part)
    page.wait_for_selector(f"body[data-ready={part.partition('?')[0]}]")


class TestParts:
    def test_the_overview_shows_each_measure_with_what_it_rests_on(self, page: Page, folder: Path) -> None:
        """Means are those of the report; skipped, errors, gates, ranks, judge and slices stand beside them."""
        report = Report.open(folder / "now")
        text = page.inner_text("main")
        for summary in report.summaries:
            assert f"{summary.mean:.4f}" in text
            assert f"{summary.n}/{summary.total}" in text
        assert "lexical" in text
        assert "gate >= 0.5" in text
        expect(page.get_by_role("row", name=re.compile("^even"))).to_be_visible()
        assert page.locator("figure svg[role=img]").count() == 1

    @pytest.mark.parametrize(
        ("measures", "gates", "kind", "word", "failed"),
        [
            ("RR", [], "neutral", "○ no gates", None),
            (MeasureGrader(measure=RR, name="first"), [], "neutral", "○ no gates", "2 of 3 cases failed"),
            ("RR", ["mean(RR)>=0"], "good", "✓ passed", None),
            (
                MeasureGrader(measure=RR, name="first", required=True),
                [],
                "bad",
                "✗ failed",
                "2 of 3 cases failed",
            ),
        ],
    )
    def test_no_gates_is_no_pass(
        self,
        browser: Browser,
        tmp_path: Path,
        measures: Any,
        gates: list[str],
        kind: str,
        word: str,
        failed: str,
    ) -> None:
        """Without a declared gate the verdict is neutral; failed cases are counted where cases have a verdict."""
        report = evaluate([sample(number) for number in range(3)], measures, gates=gates)
        assert sum(case.failed for case in report.cases()) == (2 if failed else 0)
        write(report, tmp_path / "p.html")
        page = browser.new_page()
        page.goto((tmp_path / "p.html").as_uri())
        page.wait_for_selector("body[data-ready=overview]")
        assert page.locator(".banner").get_attribute("class") == f"banner {kind}"
        assert page.inner_text(".banner strong") == word
        facts = page.inner_text(".facts-line")
        assert (failed in facts) if failed else ("failed" not in facts)
        page.close()

    def test_a_bar_of_a_histogram_shows_its_queries(self, page: Page, folder: Path) -> None:
        """A click on the lowest bar lists as many queries as stand in it, and the address keeps the filter."""
        bar = page.locator(".histogram button").first
        count = int(re.findall(r"(\d+) queries", bar.get_attribute("aria-label") or "")[0])
        bar.click()
        page.wait_for_selector("body[data-ready=queries]")
        assert page.inner_text("#shown").startswith(f"{count} of 61")
        assert "measure=nDCG" in page.url
        page.reload()
        page.wait_for_selector("body[data-ready=queries]")
        assert page.inner_text("#shown").startswith(f"{count} of 61")

    def test_queries_are_filtered_and_sorted(self, page: Page) -> None:
        """By text, tag, missed gold and first relevant rank; a click on a head sorts, twice the other way."""
        go(page, "queries")
        assert page.inner_text("#shown").startswith("61 of 61")
        page.get_by_role("searchbox", name="Text").fill("NUMBER 7?")
        assert page.inner_text("#shown").startswith("1 of 61 ")
        page.get_by_role("button", name="Clear").click()
        page.get_by_label("Show").select_option("missed")
        assert page.inner_text("#shown").startswith("40 of 61 ")
        page.get_by_role("combobox", name="Tag").select_option("odd")
        assert page.inner_text("#shown").startswith("20 of 61 ")
        assert "only=missed" in page.url
        page.get_by_role("button", name="Clear").click()
        page.get_by_label("First relevant after rank").fill("3")
        assert not page.inner_text("#shown").startswith("61 of 61")
        page.get_by_role("button", name="Clear").click()
        values = "[...document.querySelectorAll('tbody tr:not(.gap)')].map(r => r.cells[3].textContent)"
        rising = page.evaluate(values)  # the worst first, as it opens
        page.get_by_role("button", name="nDCG@5", exact=True).click()
        falling = page.evaluate(values)
        assert rising == sorted(rising)
        assert falling == sorted(falling, reverse=True)
        assert rising[0] < falling[0]
        assert page.locator("th[aria-sort=descending]").count() == 1

    def test_strips_say_whose_labels_they_show_and_can_switch(self, page: Page) -> None:
        """Gold, which the first measure reads, or the judge's, in the table, a query, the comparison and the charts."""
        go(page, "queries")
        strip = "[...document.querySelectorAll('tbody .strip')].map(e => e.getAttribute('aria-label')).join()"
        gold = page.evaluate(strip)
        assert "ranks by gold labels" in page.inner_text("main")
        page.get_by_label("Ranks by").select_option("judge")
        assert "ranks by the judge's labels" in page.inner_text("main")
        assert page.evaluate(strip) != gold
        assert "labels=judge" in page.url
        page.locator("tbody a").first.click()
        page.wait_for_selector("body[data-ready=query]")
        assert "ranks by the judge's labels" in page.inner_text("main")
        go(page, "compare")
        assert "ranks by gold labels" in page.inner_text("main")
        page.get_by_label("Ranks by").select_option("judge")
        assert "ranks by the judge's labels" in page.inner_text("main")
        go(page, "overview")
        expect(page.locator("figure", has_text="by gold labels")).to_be_visible()
        page.get_by_label("Ranks by").select_option("judge")
        assert page.locator("figure", has_text="by gold labels").count() == 0

    def test_columns_are_chosen(self, page: Page) -> None:
        """Three measures at first; the others at a click, kept in the address; the heads stay in their places."""
        go(page, "queries")
        heads = page.locator(".scroller thead th")
        first = heads.all_inner_texts()
        assert [text for text in first if "context_recall" in text or "tags" in text] == []
        page.get_by_text("Columns").click()
        page.get_by_label("context_recall").check()
        page.get_by_label("tags").check()
        assert len(heads.all_inner_texts()) == len(first) + 2
        page.reload()
        page.wait_for_selector("body[data-ready=queries]")
        assert len(heads.all_inner_texts()) == len(first) + 2

    def test_the_top_of_the_page_says_the_answer(self, page: Page, folder: Path) -> None:
        """Verdict, mean, the worst slice and what to do next stand within the first screen."""
        report = Report.open(folder / "now")
        boxes = page.locator(".banner, .lead .panel")
        assert boxes.count() == 4
        for number in range(4):
            box = boxes.nth(number).bounding_box()
            assert box is not None
            assert box["y"] + box["height"] <= 800
        text = page.locator(".lead").inner_text()
        assert f"{report['nDCG@5'].mean:.4f}" in text
        assert "Worst slice: odd" in text or "Worst slice: even" in text
        assert "stands in" in text

    def test_no_chart_is_empty(self, browser: Browser, tmp_path: Path) -> None:
        """Where nothing relevant came back a line says so in the place of a chart."""
        rows = [{**sample(number), "qrels": {"gone": 1, "d1": 0}} for number in range(4)]
        write(evaluate(rows, "nDCG@5"), tmp_path / "p.html")
        page = browser.new_page()
        page.goto((tmp_path / "p.html").as_uri())
        page.wait_for_selector("body[data-ready=overview]")
        assert "No passage at any rank is relevant, by gold labels." in page.inner_text("main")
        assert page.locator("figure", has_text="each rank").count() == 0
        page.close()

    def test_a_printed_overview_has_a_table_of_the_worst_queries(self, page: Page) -> None:
        """Within the paper, and gone afterwards."""
        page.set_viewport_size({"width": 690, "height": 1000})
        page.emulate_media(media="print")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        table = page.get_by_role("table", name="The worst queries")
        assert table.locator("tbody tr").count() == 50
        wide = page.evaluate("document.documentElement.scrollWidth")
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        page.emulate_media(media="screen")
        assert table.count() == 0
        assert wide <= 690

    def test_only_rows_in_view_are_in_the_document(self, page: Page) -> None:
        """Scrolling brings the others."""
        go(page, "queries")
        assert page.locator("tbody tr:not(.gap)").count() <= 40
        page.evaluate("document.querySelector('.scroller').scrollTop = 1e6")
        expect(page.get_by_role("link", name="q57")).to_be_visible()
        assert page.locator("tbody tr:not(.gap)").count() <= 40

    def test_scrolling_keeps_the_rows_that_stay_in_view(self, page: Page) -> None:
        """Their links keep the focus, and a click that began before the list was drawn anew still opens the query."""
        go(page, "queries")
        link = page.get_by_role("link", name="q1", exact=True)
        link.focus()
        scroll = "new Promise(drawn => { document.querySelector('.scroller').scrollTop += 30; requestAnimationFrame(() => requestAnimationFrame(drawn)) })"
        page.evaluate(scroll)
        expect(link).to_be_focused()
        box = link.bounding_box()
        assert box is not None
        page.mouse.move(box["x"] + 5, box["y"] + box["height"] / 2)
        page.mouse.down()
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        page.mouse.up()
        page.wait_for_selector("body[data-ready=query]")

    def test_on_paper_stands_every_query(self, page: Page) -> None:
        """Not the rows in view alone; nothing is wider than the paper."""
        go(page, "queries")
        rows = page.locator(".scroller tbody tr:not(.gap)")
        in_view = rows.count()
        page.set_viewport_size({"width": 718, "height": 1000})
        page.emulate_media(media="print")
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert rows.count() > in_view
        wide = page.evaluate("document.documentElement.scrollWidth")
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert rows.count() < 60
        page.emulate_media(media="screen")
        assert wide <= 718

    def test_a_query_shows_its_contexts_claims_and_numbers(self, page: Page) -> None:
        """Ranked cards with verdicts and reasons, the claims beside the contexts, missed gold, formulas filled in."""
        go(page, "queries")
        page.get_by_role("link", name="q1", exact=True).click()
        page.wait_for_selector("body[data-ready=query]")
        cards = page.locator(".card")
        assert cards.count() == 5
        assert TEXTS["d1"] in cards.first.inner_text()
        assert "judge:" in cards.first.inner_text()
        text = page.inner_text("main")
        assert "gone1 (grade 1)" in text
        assert "1 / 2 = 0.5000" in text
        assert page.locator("table.matrix tbody tr").count() == 2
        assert "score 9.5000" in cards.first.inner_text()
        assert page.url.endswith("#query?id=q1")
        page.get_by_role("link", name="next").click()
        expect(page.get_by_role("heading", level=1)).not_to_have_text(re.compile("number 1\\?"))

    def test_the_baseline_stands_beside_the_report(self, page: Page, folder: Path) -> None:
        """Differences with intervals as `germane compare` has them; wins, ties and losses add up; a query's two lists say what moved."""
        go(page, "compare")
        cells = page.locator("tbody tr").first.locator("td").all_inner_texts()
        assert cells[0] == "50"
        assert sum(map(int, re.findall(r"[▲=▼] (\d+)", cells[-1]))) == 50
        comparison = comparison_of(Report.open(folder / "before"), Report.open(folder / "now"))
        assert comparison is not None
        for row in comparison["comparisons"]:
            shown = page.get_by_role(
                "row", name=re.compile(f"^{re.escape(row['measure'])}")
            ).first.inner_text()
            low, high = row["interval"] or (0.0, 0.0)
            ends = interval_in_words((low, high), sign="+")
            assert f"{abs(row['difference'] or 0.0):.4f}" in shown
            assert ends in shown.replace("\u2212", "-")  # rounded as everywhere else
            if row["p"] is not None and row["p"] >= 0.00005:
                assert f"{row['p']:.4f}" in shown
        expect(page.get_by_role("heading", name="What it is made of")).to_be_visible()
        lists = page.locator(".lists").first
        assert "up 4" in lists.inner_text()
        assert "down 4" in lists.inner_text()
        go(page, "query?id=q55")
        assert "no such query" in page.inner_text("main")

    @pytest.mark.parametrize("width", [1280, 390])
    def test_the_lists_of_a_query_are_read_at_any_width(
        self, browser: Browser, tmp_path: Path, width: int
    ) -> None:
        """Ids of passages have room beside what became of them, and lines join the rows of their ranks."""
        ids = [
            f"https://docs.example.com/{'collections.abc/' * 6}module_{n}.function_name" for n in range(12)
        ]
        contexts = [{"id": name, "text": name} for name in ids]
        rows = [
            {"id": f"q{n}", "query": f"question {n}", "qrels": {ids[3]: 1}, "contexts": contexts[:10]}
            for n in range(6)
        ]
        gold = {ids[3]: 3, ids[4]: 2, ids[9]: 1}
        turned = [{**row, "contexts": contexts[:1:-1], "qrels": gold} for row in rows]
        before, after = (evaluate(of, "RR") for of in (rows, turned))
        compare(before, after).save(tmp_path / "p.html")
        context = browser.new_context(viewport={"width": width, "height": 800})
        page = context.new_page()
        page.goto((tmp_path / "p.html").as_uri() + "#compare")
        page.wait_for_selector("body[data-ready=compare]")
        assert "no difference shown in RR" in page.locator(".outcomes").inner_text()
        widths = page.evaluate(
            "() => [...document.querySelectorAll('.lists li .hostile')].map(one => one.getBoundingClientRect().width)"
        )
        assert len(widths) == 120
        assert min(widths) > 40
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        assert not page.evaluate(
            "() => [...document.querySelectorAll('.lists li')].filter(one => one.scrollWidth > one.clientWidth).length"
        )
        was = page.get_by_title("△ was relevant (1)").first
        expect(was.get_by_role("img", name="relevant (1)")).to_be_visible()
        expect(page.get_by_title("△ was unjudged")).to_have_count(12)
        distances = page.evaluate(
            """() => { const of = document.querySelector(".lists"), line = of.querySelector("path"), to = line.getScreenCTM();
            const ends = [0, line.getTotalLength()].map(at => line.getPointAtLength(at).matrixTransform(to).y);
            return [...of.querySelectorAll("ol")].map((list, side) => Math.min(...[...list.children].map(one => {
              const box = one.getBoundingClientRect(); return Math.abs(box.y + box.height / 2 - ends[side]); }))); }"""
        )
        assert max(distances) < 2
        go(page, "query?id=q1")
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width
        go(page, "queries")
        heads = page.locator("thead th").all_inner_texts()
        assert heads[:2] == ["id", "query"]
        assert any(head.startswith("RR") for head in heads)
        context.close()

    def test_equal_scores_have_not_moved(self, browser: Browser, tmp_path: Path) -> None:
        """Whatever their digits: a report beside itself."""
        ids = [{"id": name, "text": name} for name in "abc"]
        row = {"id": "q", "query": "q", "qrels": {"c": 1}, "contexts": ids}
        report = evaluate([row], "RR nDCG@3", folder=tmp_path / "r")
        comparison = comparison_of(report, report)
        write(report, tmp_path / "page.html", baseline=report, comparison=comparison)
        page = browser.new_page()
        page.goto((tmp_path / "page.html").as_uri() + "#compare")
        expect(page.get_by_text("0 moved, 1 did not")).to_be_visible()
        page.close()


class TestLabels:
    def test_the_answers_stay_in_view(self, page: Page) -> None:
        """Whatever is above them, on a small screen too."""
        page.set_viewport_size({"width": 360, "height": 500})
        go(page, "label")
        box = page.locator(".answers").bounding_box()
        assert box is not None
        assert box["y"] + box["height"] <= 500

    def test_ten_contexts_are_labelled_by_keyboard_and_downloaded(self, page: Page, folder: Path) -> None:
        """What is downloaded are rows of labels.jsonl; they survive a reload and name the drawn places."""
        go(page, "label")
        page.get_by_label("Your name").fill("Ada")
        page.locator("main").focus()
        for number in range(10):
            page.keyboard.press(str(number % 4))
            expect(page.locator("main")).to_contain_text(f"{number + 1} of ")
        page.keyboard.press("z")
        expect(page.locator("main")).to_contain_text("9 of ")
        page.keyboard.press("u")
        page.keyboard.press("3")
        expect(page.get_by_role("button", name="Download")).to_contain_text("11 labels")  # "unsure" is one
        page.reload()
        with page.expect_download() as download:
            page.get_by_role("button", name="Download").click()
        assert download.value.suggested_filename == "labels.jsonl"
        rows = [json.loads(line) for line in Path(download.value.path()).read_bytes().splitlines()]
        labels = list(map(load_label, rows))
        assert [label.answer for label in labels] == [0, 1, 2, 3, 0, 1, 2, 3, 0, None, 3]
        samples = {one.id: one for one in Report.open(folder / "now").samples()}
        for label in labels:
            mine = samples[label.sample]
            contexts = mine.contexts or ()
            assert label.item == relevance_item(mine.query, contexts[(label.rank or 0) - 1].text)
            assert (label.who, label.scale, label.queue, label.blind) == ("Ada", "graded", "random", True)
            assert label.design is not None
            assert label.design["probability"] == pytest.approx(11 / label.design["population"])
            assert label.design["design"] == "queries"  # context_precision is in the report
        assert len({label.item for label in labels}) == 11

    def test_what_was_downloaded_is_imported_and_audited(
        self,
        page: Page,
        folder: Path,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        """`germane label --import` adds each row once; the next page shows people beside the judge."""
        go(page, "label")
        page.get_by_label("Your name").fill("Ada")
        page.locator("main").focus()
        for number in range(10):
            page.keyboard.press(str(number % 4))
            expect(page.locator("main")).to_contain_text(f"{number + 1} of ")
        with page.expect_download() as download:
            page.get_by_role("button", name="Download").click()
        download.value.save_as(tmp_path / "labels.jsonl")
        shutil.copytree(folder / "now", tmp_path / "report")
        report = str(tmp_path / "report")
        for words in (
            ["label", report, "--import", str(tmp_path / "labels.jsonl")],
            ["report", report, "-o", str(tmp_path / "r.html")],
        ):
            monkeypatch.setattr("sys.argv", ["germane", *words])
            with pytest.raises(SystemExit) as done:
                main()
            assert done.value.code in {0, None}
        assert "10 labels added" in "".join(capsys.readouterr())
        page.goto((tmp_path / "r.html").as_uri())
        page.wait_for_selector("body[data-ready=overview]")
        expect(page.get_by_text("10 labels in")).to_be_visible()
        assert page.locator("table.confusion tbody tr").count() >= 2

    def test_the_order_is_drawn_when_the_page_is_made(self, folder: Path) -> None:
        """The same report gives the same order, which is not that of the report."""
        report = Report.open(folder / "now")
        first, second = ("".join(html(report)) for _ in range(2))
        assert first == second
        order = data_of(first)["label"]["order"]
        assert order != sorted(order)
        assert len({tuple(place) for place in order}) == 301

    def test_a_verdict_is_hidden_until_the_context_is_labelled(self, page: Page) -> None:
        """Neither the judge nor gold is shown before; afterwards they are, and another answer is not blind."""
        go(page, "label")
        assert "judge:" not in page.inner_text("main")
        page.keyboard.press("1")
        page.keyboard.press("k")
        expect(page.locator("main")).to_contain_text("judge:")


def data_of(text: str) -> Json:
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found
    return json.loads(found[1])


class TestSafety:
    def test_what_stands_in_the_data_is_only_text(self, page: Page) -> None:
        """Script tags, event handlers, escapes, direction overrides and line separators do nothing in any part."""
        for part in ("overview", "queries?text=red", f"query?id={quote(HOSTILE_ID)}", "compare", "label"):
            go(page, part)
            assert page.evaluate("window.hit") is None
            assert page.locator("main img, main script").count() == 0
            assert not set(page.inner_text("main")) & {"\x1b", "\u202e"}
        go(page, f"query?id={quote(HOSTILE_ID)}")
        assert "<img src=x onerror=window.hit=2>" in page.inner_text("main")
        assert "🦊 مرحبا" in page.inner_text("main")

    def test_the_policy_lets_in_nothing_but_its_own_script_and_style(self, folder: Path) -> None:
        """The hashes in the policy are those of the one script and the one style."""
        text = (folder / "page.html").read_text("utf-8")
        found = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
        assert found
        policy = unescape(found[1])
        assert policy.startswith("default-src 'none'; ")
        script = re.search(r'<script type="module">(.*?)</script>', text, re.DOTALL)
        style = re.search(r"<style>(.*?)</style>", text, re.DOTALL)
        assert script
        assert style
        for content in (script[1], style[1]):
            assert base64.b64encode(hashlib.sha256(content.encode()).digest()).decode() in policy
        assert "http:" not in text.replace("http://www.w3.org/2000/svg", "")
        assert "https:" not in text

    def test_no_text_ends_the_embedded_json(self) -> None:
        """What reads back is what was written."""
        value = {"a": f"{HOSTILE}<!--\u2028\u2029&"}
        written = embedded(value)
        assert not set(written) & set("<>&\u2028\u2029")
        assert json.loads(written) == value

    def test_names_are_unique_among_the_modules(self) -> None:
        """They are joined into one script."""
        names = re.findall(r"^(?:async )?(?:function|const|let|class) (\w+)", script_text(), re.MULTILINE)
        assert len(names) == len(set(names))
        modules = [file.name for file in files("germane.reports.page").iterdir() if file.name.endswith(".js")]
        assert len(modules) >= 9
        assert not re.search(r"^(import|export) ", script_text(), re.MULTILINE)
        assert "innerHTML" not in script_text()


AXE = files("axe_playwright_python").joinpath("axe.min.js").read_text("utf-8")
NAMELESS = """() => [
  ...[...document.querySelectorAll('a, button, input, select, svg[role=img], [role=img], [role=region], table, progress')]
    .filter(e => !(e.getAttribute('aria-label') || e.textContent.trim() || e.labels?.length)).map(e => e.outerHTML.slice(0, 100)),
  ...[...document.querySelectorAll('th:not([scope])')].map(e => 'no scope: ' + e.outerHTML.slice(0, 100)),
  ...(document.querySelectorAll('h1').length === 1 ? [] : ['not one h1']),
  ...(document.documentElement.lang && document.title ? [] : ['no language or title']),
  ...[...document.querySelectorAll('[onclick], div[tabindex="-1"]:not(main)')].map(e => 'not by keyboard: ' + e.outerHTML.slice(0, 100)),
]"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_part_can_be_used_without_seeing_it(page: Page, scheme: str) -> None:
    """Everything has a name, tables have heads with a scope; axe finds nothing."""
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    for part in ("overview", "queries", "query?id=q1", f"query?id={quote(HOSTILE_ID)}", "compare", "label"):
        go(page, part)
        assert page.evaluate(NAMELESS) == []
        page.evaluate(AXE)
        found = page.evaluate(
            "async () => (await axe.run()).violations.map(v => [v.id, v.nodes.map(n => n.html.slice(0, 120))])"
        )
        assert found == [], part


BROKEN_WORDS = """() => {
  const found = [];
  const walker = document.createTreeWalker(document.querySelector('main'), NodeFilter.SHOW_TEXT);
  for (let node = walker.nextNode(); node; node = walker.nextNode()) {
    for (const match of node.data.matchAll(/[\\p{L}]{2,20}/gu)) {
      const range = document.createRange();
      range.setStart(node, match.index);
      range.setEnd(node, match.index + match[0].length);
      const tops = new Set([...range.getClientRects()].filter(r => r.width > 1).map(r => Math.round(r.top)));
      if (tops.size > 1 && node.parentElement.checkVisibility()) found.push(match[0]);
    }
  }
  return found;
}"""
"""The words of the page that are broken in the middle."""


def test_the_page_fits_a_phone(page: Page) -> None:
    """Nothing is wider than the screen but what scrolls by itself."""
    page.set_viewport_size({"width": 360, "height": 700})
    for part in ("overview", "queries", "query?id=q1", "compare", "label"):
        go(page, part)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, part
        assert page.evaluate(BROKEN_WORDS) == [], part
        assert not re.search(r"^(false|null|undefined|NaN)$", page.inner_text("main"), re.MULTILINE)


def test_a_page_is_no_name_of_a_reports_own_file(folder: Path) -> None:
    """An unknown ending names html among those that are known."""
    with pytest.raises(InputError, match=r"\.html"):
        write(Report.open(folder / "now"), folder / "page.pdf")


def test_what_would_help_stands_on_the_overview(browser: Browser, tmp_path: Path) -> None:
    """The changes and the queries that would gain most, each with a link to it."""
    evaluate([sample(number) for number in range(12)], "nDCG@5").save(tmp_path / "report")
    assert invoke("report", tmp_path / "report", "-o", tmp_path / "page.html").code == 0
    context = browser.new_context(viewport={"width": 390, "height": 800})
    page = context.new_page()
    page.goto((tmp_path / "page.html").as_uri())
    changes = page.get_by_role("table", name="What would help")
    expect(changes.get_by_role("rowheader").first).to_contain_text(
        "perfect reranking of the retrieved documents"
    )
    gains = page.get_by_role("table", name="Queries that would gain most")
    expect(gains.get_by_text("what of topic").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth") == 390
    gains.get_by_role("link").first.click()
    expect(page.locator("body")).to_have_attribute("data-ready", "query")
    context.close()


def test_a_number_is_the_same_on_the_page_and_in_the_terminal(browser: Browser, tmp_path: Path) -> None:
    """Halves too: they are rounded to even digits."""
    rows: list[Json] = [
        {"id": f"q{hits}", "query": "q", "contexts": [{"id": f"d{n}"} for n in range(32)],
         "qrels": {f"d{n}": 1 for n in range(hits)}}
        for hits in (7, 9, 11)
    ]  # fmt: skip
    report = evaluate(rows, "P@32", gates=["mean(P@32)>=0.5"]).save(tmp_path / "r")
    assert invoke("report", tmp_path / "r", "-o", tmp_path / "r.html").code == 0
    page = browser.new_page()
    page.goto(f"{(tmp_path / 'r.html').as_uri()}#queries")
    expect(page.locator("body")).to_have_attribute("data-ready", "queries")
    expect(page.get_by_role("table").first).to_contain_text("0.3438")
    for score in ("0.2188", "0.2812", "0.3438"):
        assert f"  {score}  " in str(report)
        expect(page.get_by_role("table").first).to_contain_text(score)
    page.close()


def test_one_query_is_one(browser: Browser, tmp_path: Path) -> None:
    """Nowhere does a page of a single query speak of `1 queries`."""
    evaluate([sample(1)], "nDCG@5 RR").save(tmp_path / "r")
    assert invoke("report", tmp_path / "r", "-o", tmp_path / "r.html").code == 0
    page = browser.new_page()
    page.goto((tmp_path / "r.html").as_uri())
    expect(page.locator("body")).to_contain_text("1 query · no judge was asked")
    for view in ("overview", "queries", "query"):
        page.goto(f"{(tmp_path / 'r.html').as_uri()}#{view}?id=q1")
        expect(page.locator("body")).to_have_attribute("data-ready", view)
        assert not re.search(r"\b1 queries", page.locator("main").inner_html())
    page.close()


@pytest.fixture
def shown(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Page]]:
    """A function that writes a report's page and opens one part of it."""
    pages: list[Page] = []

    def shown(report: Report, part: str = "overview", width: int = 1200, **more: Any) -> Page:
        write(report, tmp_path / "p.html", **more)
        page = browser.new_page(viewport={"width": width, "height": 800})
        pages.append(page)
        page.goto(f"{(tmp_path / 'p.html').as_uri()}#{part}")
        page.wait_for_selector(f"body[data-ready={part.partition('?')[0]}]")
        return page

    yield shown
    for page in pages:
        page.close()


Shown: TypeAlias = Callable[..., Page]


def test_each_row_leads_to_its_own_trial_and_system(shown: Shown) -> None:
    """Also where trial 0 is not the first, and where one system has no name."""
    places = [(system, trial) for system in ("dense", "") for trial in (1, 0)]
    rows: list[Json] = [
        {"id": "q", "query": "q", "system": system, "trial": trial, "qrels": {"d0": 1},
         "contexts": [{"id": f"d{rank}"} for rank in range(5)][::-1][number:]}
        for number, (system, trial) in enumerate(places)
    ]  # fmt: skip
    report = evaluate(rows, "num_ret RR")
    page = shown(report)
    expect(page.get_by_role("table", name="Measures")).to_contain_text("2 trials each")
    go(page, "queries")
    links = page.eval_on_selector_all(
        "td.first a", "all => all.map(one => one.getAttribute('href').slice(1))"
    )
    found = set()
    for link in links:
        go(page, link)
        (where,) = re.findall(r"q · (dense|–) · trial (\d)", page.inner_text("main"))
        (number,) = re.findall(r"num_ret\s+(\d)\.0000", page.inner_text("main"))
        found.add((*where, number))
    assert found == {("dense", "1", "5"), ("dense", "0", "4"), ("–", "1", "3"), ("–", "0", "2")}
    go(page, "queries")
    page.get_by_role("combobox", name="System").select_option("–")
    assert page.inner_text("#shown").startswith("2 of 4")


def test_every_bar_lists_the_queries_that_it_counts(shown: Shown) -> None:
    """At the edges of bars too, and where a measure is not from 0 to 1."""

    @measure(needs=("contexts",), range=(-5.0, 0.0))
    def loss(sample: Sample) -> float:
        return -float(len(sample.contexts or ()) / 2)

    rows: list[Json] = [
        {"id": f"q{hits}", "query": "q", "contexts": [{"id": f"d{n}"} for n in range(hits or 1)],
         "qrels": {f"d{n}": 1 for n in range(hits)} | {"x": 0}}
        for hits in range(11)
    ]  # fmt: skip
    page = shown(evaluate(rows, ["P@10", "num_ret", loss]))
    labels = page.eval_on_selector_all(".histogram button", "all => all.map(one => one.ariaLabel)")
    assert len(labels) == 30
    for number, label in enumerate(labels):
        page.locator(".histogram button").nth(number).click()
        page.wait_for_selector("body[data-ready=queries]")
        assert f"{page.inner_text('#shown').split()[0]} quer" in label
        go(page, "overview")


@pytest.mark.parametrize(
    ("measures", "gate", "below"),
    [
        ("leaks@2", "max(leaks@2)=0", 1),
        ("RR", "share(RR>=0.6)>=0.9", 2),
        ("RR", "lower(RR)>0.5", 2),
        (MeasureGrader(measure=RR, name="first", required=0.7), None, 2),
        (MeasureGrader(measure=RR, name="first <b>|x"), "share(RR>=0.6)>=0.9", 2),
        ("RR", "change(RR)>0.9", 0),
    ],
)
def test_queries_below_a_gate(shown: Shown, measures: Any, gate: str | None, below: int) -> None:
    """By the condition on a case, whatever the function of the gate; required graders are gates."""
    rows: list[Json] = [
        {"id": f"q{rank}", "query": "q", "contexts": [{"id": f"d{n}"} for n in range(3)],
         "qrels": {f"d{rank}": 1}, "forbidden": ["d2"] if rank else ["d1"]}
        for rank in range(3)
    ]  # fmt: skip
    report = evaluate(rows, measures, gates=[gate] if gate else ())
    page = shown(report, "queries?only=gate")
    assert page.inner_text("#shown").startswith(f"{below} of 3")


def test_what_a_change_came_to(shown: Shown) -> None:
    """The outcome stands beside the change; a query that the baseline lacks has not stayed; less noise is green."""

    @measure(needs=("contexts",), better="lower", range=(0.0, inf))
    def letters(sample: Sample) -> float:
        return float(sum(len(context.text) for context in sample.contexts or ()))

    def rows(count: int, length: int) -> list[Json]:
        return [
            {
                "id": f"q{n}",
                "query": "q",
                "qrels": {"a": 1},
                "contexts": [{"id": "a", "text": "x" * (length + n * (500 - length) // 100)}],
            }
            for n in range(count)
        ]

    before, now = (evaluate(rows(*size), [letters, RR]) for size in ((9, 500), (11, 400)))
    page = shown(now, baseline=before, comparison=comparison_of(before, now))
    expect(page.get_by_role("row", name=re.compile("^letters"))).to_contain_text(
        "\u221296.0000\nbetter", use_inner_text=True
    )
    go(page, "queries")
    assert page.locator(".scroller td.good", has_text="\u2212").count() == 9
    go(page, "compare")
    expect(page.get_by_text("9 moved, 0 did not")).to_be_visible()
    dots = page.eval_on_selector_all("svg.interval .band", "all => all.map(one => one.getAttribute('width'))")
    assert float(dots[1]) > 30  # an interval of a share is not drawn on the scale of letters


def test_long_names_fit_a_phone(shown: Shown) -> None:
    """Ids, tags and long rankings are broken, not cut; a table of them is no wider for one long id."""
    long: Json = {"id": "x" * 300, "query": "y" * 400, "tags": ["t" * 120], "qrels": {"m" * 200: 1, "d1": 1},
                  "contexts": [{"id": f"d{n}", "text": "z" * 900} for n in range(40)]}  # fmt: skip
    page = shown(evaluate([long], "RR nDCG@5"), width=390)
    for part in (f"query?id={'x' * 300}", "label", "overview"):
        go(page, part)
        assert page.evaluate("document.documentElement.scrollWidth") == 390
    widths = page.eval_on_selector_all(".wrap table", "all => all.map(one => one.offsetWidth)")
    assert max(widths) < 1300


def test_each_person_s_label_is_shown(shown: Shown, tmp_path: Path) -> None:
    """On the card and by explain; the strip has the lower median."""
    evaluate([sample(1)], "context_precision@5", judge="lexical").save(tmp_path / "r")
    for who, keys in (("ann", "33333"), ("bob", "00000"), ("eve", "22222")):
        assert invoke("label", tmp_path / "r", "--who", who, stdin=keys).code == 0
    page = shown(Report.open(tmp_path / "r"), "query?id=q1&labels=human")
    first = page.locator(".card").first
    for words in ("relevant (3) by ann", "not relevant (0) by bob", "relevant (2) by eve"):
        expect(first).to_contain_text(words)
    assert "ranks: 1 relevant (2)" in (page.locator(".strip").first.get_attribute("aria-label") or "")
    assert "human 3, □ human 0, ■ human 2" in invoke("explain", tmp_path / "r", "q1").out


class TestLabellers:
    def test_two_people_at_one_browser(self, shown: Shown) -> None:
        """Each has answers of their own, under their name; answers before the first name get it."""
        page = shown(evaluate([sample(n) for n in range(3)], "context_precision@5", judge="lexical"), "label")
        box = page.get_by_label("Your name")
        page.keyboard.press("3")
        expect(page.locator("main")).to_contain_text("1 of 15 answered;")
        box.fill("Ada")
        page.locator("main").focus()
        page.keyboard.press("2")
        expect(page.locator("main")).to_contain_text("2 of 15 answered by Ada")
        box.fill("Bob")
        page.locator("main").focus()
        expect(page.locator("main")).to_contain_text("0 of 15 answered by Bob")
        page.keyboard.press("1")
        expect(page.locator("main")).to_contain_text("1 of 15 answered by Bob")
        page.reload()
        expect(page.locator("main")).to_contain_text("1 of 15 answered by Bob")
        assert [(row["who"], row["answer"], row["blind"]) for row in downloaded(page)] == [("Bob", 1, True)]
        page.get_by_label("Your name").fill("Ada")
        page.locator("main").focus()
        expect(page.locator("main")).to_contain_text("2 of 15 answered by Ada")
        assert [(row["who"], row["answer"]) for row in downloaded(page)] == [("Ada", 3), ("Ada", 2)]

    def test_answers_stay_with_their_passages(self, shown: Shown, tmp_path: Path) -> None:
        """A page of the same report with other measures draws in another order, and has none of the answers."""
        report = evaluate([sample(n) for n in range(4)], "context_precision@5", judge="lexical")
        report.save(tmp_path / "r")
        page = shown(Report.open(tmp_path / "r"), "label")
        for key in "3210":
            page.keyboard.press(key)
            page.wait_for_timeout(50)
        items = [row["item"] for row in downloaded(page)]
        done = invoke("score", tmp_path / "r", "-m", "P(labels=judge)@3", "-o", tmp_path / "other" / "r")
        assert done.code == 0, done.err
        first = page.url
        write(Report.open(tmp_path / "other" / "r"), tmp_path / "p.html")
        page.reload()
        expect(page.locator("main")).to_contain_text("0 of 12 answered")
        write(Report.open(tmp_path / "r"), tmp_path / "p.html")
        page.goto(first)
        page.reload()
        assert [row["item"] for row in downloaded(page)] == items

    def test_undo_of_a_second_answer_brings_back_the_first(self, shown: Shown) -> None:
        """Only the last answer is taken back."""
        page = shown(evaluate([sample(1)], "context_precision@5", judge="lexical"), "label")
        for key in "3k0z":
            page.keyboard.press(key)
            page.wait_for_timeout(50)
        assert [row["answer"] for row in downloaded(page)] == [3]

    @pytest.mark.parametrize(
        ("against", "shows", "hides"),
        [("auto", "the reference", "the response"), ("response", "the response", "the reference"), ("query", "before", "the reference")],
    )  # fmt: skip
    def test_people_see_what_the_judge_saw(self, shown: Shown, against: Any, shows: str, hides: str) -> None:
        """What was said before the query, and the text that relevance is judged against, on the judge's scale."""
        row: Json = {"id": "q", "query": "and then?", "reference": "the reference", "response": "the response",
                     "history": [{"role": "user", "content": "before"}], "contexts": ["a passage"]}  # fmt: skip
        report = evaluate([row], "context_precision", judge="lexical", against=against, scale="binary")
        page = shown(report, "label")
        expect(page.locator("main")).to_contain_text(shows)
        expect(page.locator("main")).to_contain_text("before")
        assert hides not in page.inner_text("main")
        expect(page.get_by_label("Scale")).to_have_value("binary")

    def test_where_nothing_came_back_nobody_is_asked_to_label(self, shown: Shown) -> None:
        """There is no passage."""
        report = evaluate([{"id": "q", "query": "q", "contexts": []}], "context_precision", judge="lexical")
        page = shown(report, audit={"kinds": [], "warnings": []})
        assert "abel some passages" not in page.inner_text("main")
        assert "Label part" not in page.inner_text("main")


def downloaded(page: Page) -> list[dict[str, Any]]:
    with page.expect_download() as download:
        page.get_by_role("button", name="Download").click()
    return [json.loads(line) for line in Path(download.value.path()).read_bytes().splitlines()]


def test_the_focus_stays_on_a_control_that_redraws_the_page(page: Page) -> None:
    """The keyboard goes on where it was."""
    for part, name in (
        ("compare", "Measure"),
        ("compare", "Ranks by"),
        ("query?id=q7", "Ranks by"),
        ("overview", "Ranks by"),
    ):
        go(page, part)
        control = page.get_by_role("combobox", name=name)
        before = control.input_value()
        control.focus()
        page.keyboard.press("ArrowDown")
        expect(page.get_by_role("combobox", name=name)).not_to_have_value(before)
        expect(page.get_by_role("combobox", name=name)).to_be_focused()
    go(page, "label")
    page.get_by_role("button", name="answers in part").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="answers in part")).to_be_focused()


def test_lines_of_a_comparison_name_their_system(shown: Shown) -> None:
    """In both tables, and above the lists of a query, with its trial."""

    def report(turned: bool) -> Report:
        rows = [
            {**sample(number, turned=turned and number % 2 == 0), "system": system, "trial": trial}
            for number in range(6)
            for system in ("dense", "")
            for trial in (0, 1)
        ]
        return evaluate(rows, "nDCG@5 RR")

    before, now = report(False), report(True)
    page = shown(now, "compare", baseline=before, comparison=comparison_of(before, now))
    for name in ("Paired differences", "Retrieval and labels"):
        heads = page.get_by_role("table", name=name).get_by_role("rowheader").all_inner_texts()
        assert {tuple(head.split()) for head in heads} == {
            (of, which) for of in ("nDCG@5", "RR") for which in ("dense", "–")
        }
    titles = page.locator(".pairs h3").all_inner_texts()
    assert {match[1] for title in titles if (match := re.search(r" · (\S+ · trial \d)", title))} == {
        "dense · trial 0", "dense · trial 1", "– · trial 0", "– · trial 1"
    }  # fmt: skip


def test_corrected_differences_have_lines_of_their_own(browser: Browser, tmp_path: Path) -> None:
    """With the outcome and the adjusted p, which are theirs; the overview has the corrected mean, as `report` does."""
    for name, turned in (("a", True), ("b", False)):
        rows = [sample(number, turned=turned and number % 3 == 0) for number in range(12)]
        evaluate(rows, "context_relevance@3", judge="lexical").save(tmp_path / name)
        assert invoke("label", tmp_path / name, "--who", "ann", stdin="3102" * 20).code == 0
    done = invoke("compare", tmp_path / "a", tmp_path / "b", "-o", tmp_path / "c.html", "--json")
    (found,) = done.json["comparisons"]
    assert found["corrected"]["labels"] > 0
    page = browser.new_page()
    page.goto(f"{(tmp_path / 'c.html').as_uri()}#compare")
    lines = page.get_by_role("table", name="Paired differences").locator("tbody tr")
    expect(lines).to_have_count(2)
    expect(lines.nth(0)).not_to_contain_text("corrected")
    expect(lines.nth(1)).to_contain_text(f"corrected by {found['corrected']['labels']} labels")
    expect(lines.nth(1).locator("strong")).to_have_text(
        f"{found['corrected']['difference']:+.4f}".replace("-", "\u2212")
    )
    page.goto(f"{(tmp_path / 'c.html').as_uri()}#overview")
    corrected = invoke("report", tmp_path / "b", "--json").json["measures"][
        "context_relevancy(unit=context)@3"
    ]["corrected"]
    expect(page.get_by_role("table", name="Measures")).to_contain_text(
        f"{corrected['mean']:.4f}corrected; judge"
    )
    page.close()
