"""Large reports: what their page and Markdown show of them, and what that is worth."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from germane import evaluate
from germane.reports.explain import Explainer
from germane.reports.formats import write
from germane.reports.page.data import Excerpt, answer, next_steps, weakest
from germane.reports.report import Report
from germane.types import Json

SIZE = 25


def row(number: int, *, bad: bool = False) -> dict[str, Json]:
    texts = [f"Passage {(number + step) % 11} of tides and {number}." for step in range(4)]
    contexts = [{"id": f"d{number}-{at}", "text": text} for at, text in enumerate(texts)]
    return {
        "id": f"q{number}",
        "query": f"what of tides, number {number}?",
        "reference": f"Tides and {number}. They rise.",
        "contexts": contexts,
        "qrels": {"gone": 1} if bad else {f"d{number}-{number % 3}": 1},
        "tags": ["rare" if bad else "usual"],
    }


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """100 queries in a folder; the last eight find nothing."""
    rows = [row(number, bad=number >= 92) for number in range(100)]
    folder = tmp_path_factory.mktemp("excerpt") / "r"
    report = evaluate(rows, "nDCG@4 context_precision@4 context_recall", judge="lexical").save(folder)
    return Report.open(report.folder or folder)


def test_a_random_sample_is_shown(report: Report) -> None:
    """As many as asked for; the same every time."""
    excerpt = Excerpt(report, SIZE)
    ids = [sample.id for sample in excerpt.report.samples()]
    assert (excerpt.kept, excerpt.total, len(ids)) == (25, 100, 25)
    assert ids == [sample.id for sample in Excerpt(report, SIZE).report.samples()]
    assert excerpt.share == 0.25
    assert Excerpt(report).kept == 100


@pytest.mark.parametrize("size", [SIZE, 1000])
def test_all_that_is_known_of_a_query_is_in_the_excerpt(report: Report, size: int) -> None:
    """Its scores, labels, claims and working, as in the whole report."""
    cut = Excerpt(report, size).report
    whole, part = Explainer(report), Explainer(cut)
    for sample in cut.samples():
        scores = list(report.tables.scores.of_samples([sample.key]))
        assert list(cut.tables.scores.of_samples([sample.key])) == scores
        assert part.facts(sample, scores) == whole.facts(sample, scores)


def test_an_excerpt_of_a_report_in_memory_is_that_of_its_folder(report: Report) -> None:
    """Row by row."""
    rows = [row(number, bad=number >= 92) for number in range(100)]
    memory = evaluate(rows, "nDCG@4 context_precision@4 context_recall", judge="lexical")
    one, other = (Excerpt(of, SIZE).report.tables for of in (memory, report))
    assert list(one.scores) == list(other.scores)
    assert list(one.places) == list(other.places)
    assert {row.key for row in one.judgements} == {row.key for row in other.judgements}


def test_a_page_of_some_queries_has_the_figures_of_all(report: Report, tmp_path: Path) -> None:
    """Means, bars and slices are of all queries; the page says how many it holds, and what its labels stand for."""
    write(report, tmp_path / "p.html", excerpt=Excerpt(report, SIZE))
    text = (tmp_path / "p.html").read_text("utf-8")
    found = re.search(r'<script type="application/json" id="data">(.*?)</script>', text, re.DOTALL)
    assert found
    data = json.loads(found[1])
    assert (data["total"], data["capped"], len(data["queries"]["id"])) == (100, "25 of 100", 25)
    assert [sum(line["bars"]) for line in data["measures"]] == [100, 100, 100]
    assert [line["mean"] for line in data["measures"]] == [line.mean for line in report.summaries]
    assert {line["name"]: line["n"] for line in data["slices"]} == {"rare": 8, "usual": 92}
    assert data["label"]["share"] == 0.25
    assert data["label"]["population"] == 100


class TestHeadline:
    """What stands at the top of the page."""

    def test_the_answer_is_the_first_measure(self, report: Report) -> None:
        """Its mean, what it means, and its interval."""
        found = answer(report)
        assert found["name"] == "nDCG@4"
        assert found["mean"] == f"{report['nDCG@4'].mean:.4f}"
        words = " ".join(found["text"])
        assert "over that of the ideal one" in words
        assert "95% interval" in words

    def test_the_worst_slice_is_named(self, report: Report) -> None:
        """With its interval, and whether that is beyond chance; none where there is one slice."""
        slices = report.slices("tags")
        found = weakest(report, [line for one in slices for line in one.summaries])
        assert (found["name"], found["mean"]) == ("rare", "0.0000")
        assert "8 queries" in found["text"][0]
        assert weakest(report, slices[0].summaries) is None

    def test_the_worst_slice_of_a_corrected_mean_is_the_judge_s(self) -> None:
        """The headline is corrected by people's labels, slices are not."""
        rows = [row(number, bad=number > 5) for number in range(12)]
        for context in (context for one in rows for context in one["contexts"]):
            context["grade"] = 0
        report = evaluate(rows, "P(labels=judge)@4", judge="lexical")
        assert answer(report)["mean"].endswith("corrected")
        found = weakest(report, [line for one in report.slices("tags") for line in one.summaries])
        assert found["text"][0].startswith("The judge's P(labels=judge)@4 over 6 queries")

    def test_the_next_thing_to_do_fits_the_report(self, report: Report) -> None:
        """Labels that are missing, a judge that is none, then the worst queries; a failed gate comes first."""
        steps = [step["text"] for step in next_steps(report)]
        assert "25% of the results have a gold label" not in steps[-1]
        assert any("stands in" in step for step in steps)
        assert steps[-1] == "Read the worst queries."
        failing = evaluate([row(1)], "nDCG@4", gates=["mean(nDCG@4)>=1"])
        assert next_steps(failing)[0]["link"] == "queries?only=gate"

    def test_labels_that_are_missing_are_for_people_to_give(self) -> None:
        """Asking again brings none."""
        contexts = [{"text": "a"}, {"text": "b", "relevant": True}]
        report = evaluate(
            [{"id": "q", "query": "q", "contexts": contexts}], "context_precision", judge="labels"
        )
        first = next_steps(report)[0]
        assert first["text"] == "Label more passages: 1 score could not be measured without their labels."
        assert first["command"] == "germane label REPORT"
