"""The mean over everything that was judged, each thing once, corrected by labels of any random draw."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from germane.labelling.audit import audit_judge, audit_lines
from germane.labelling.queue import label_tasks
from germane.labelling.session import LabellingSession
from germane.labelling.setmeans import set_means
from germane.reports.report import Report
from germane.statistics.correction import corrected_query_mean
from germane.tables.labels import Label
from tests.labelling.made import PASSAGES, QUERIES, keep, report_at, truth_of
from tests.labelling.stratified import queue_of


def labelled(path: Path, budget: int, **how: Any) -> Report:
    report = report_at(path)
    session = LabellingSession(
        queue_of(tasks=label_tasks(report), budget=budget, **how), "ann", keep(report), report.labels()
    )
    while (one := session.next) is not None and session.done < budget:
        session.answer(truth_of(one.task.passages[0]))
    return Report.open(path)


@pytest.mark.parametrize(
    ("budget", "how"),
    [(48, {}), (14, {"seed": 1}), (48, {"queue": "stratified"}), (60, {"design": "queries"})],
)
def test_the_share_and_the_mean_grade_are_corrected(tmp_path: Path, budget: int, how: dict[str, Any]) -> None:
    """Whatever the draw, both intervals hold what people would say of all passages, and are no wider than the range."""
    report = labelled(tmp_path / "r", budget, **how)
    share, mean = audit_judge(report)["passages"]
    truth = np.array([truth_of(task.passages[0]) for task in label_tasks(report)])
    for line, true in ((share, (truth >= 2).mean()), (mean, truth.mean())):
        assert line["total"] == QUERIES * PASSAGES
        assert line["corrected"]["labels"] == budget
        low, high = line["corrected"]["interval"]
        assert low <= true <= high
        assert low < line["corrected"]["mean"] < high
    assert mean["judged"] > truth.mean() + 0.2  # the judge is too high
    assert "Means over everything that was judged" in "\n".join(audit_lines(audit_judge(report)))


def test_every_passage_counts_once(tmp_path: Path) -> None:
    """Where all queries hold as many passages, the mean over the set is that over queries."""
    report = labelled(tmp_path / "r", 48)
    tasks, given = label_tasks(report), {one.item: one.answer for one in report.labels()}
    grades = np.array([task.verdict for task in tasks])
    people = [float(given.get(task.item, np.nan)) for task in tasks]
    expected = corrected_query_mean(grades, people, [task.case for task in tasks], value_range=(0, 3))
    found = audit_judge(report)["passages"][1]["corrected"]
    assert found["mean"] == pytest.approx(expected.mean)
    assert found["interval"] == pytest.approx(expected.ends)


def test_without_labels_there_is_a_reason(tmp_path: Path) -> None:
    """The judge's own means stand alone."""
    share, mean = audit_judge(report_at(tmp_path / "r"))["passages"]
    assert share["judged"] > 0
    assert mean["corrected"] is None
    assert mean["why"] == "no labels that count"


def test_no_interval_leaves_the_range() -> None:
    """Where a short query has no label, and people call relevant everything that they saw of the longer ones."""
    rng, sizes = random.Random(0), [2, *[5] * 16, *[4] * 4, *[3] * 3]
    cases = {f"{query} {n}": str(query) for query, size in enumerate(sizes) for n in range(size)}
    graded = {item: (float(rng.choice((0, 0, 0, 1, 2))), "graded") for item in cases}
    labels = [
        Label(f"{query} {n}", "relevance", 2, "graded", queue="random", design={"design": "passages"})
        for query in range(1, 24)
        for n in range(2 if query % 3 else 1)
    ]
    for line in set_means("relevance", graded, cases, labels):
        low, high = line["corrected"]["interval"]
        top = 1 if line["value"].startswith("share") else 3
        assert 0 <= low <= line["corrected"]["mean"] <= high <= top


@pytest.mark.parametrize("grade", [0, 2, 3])
def test_what_everybody_said_is_the_mean(grade: int) -> None:
    """Where queries of other sizes have no label: their size alone moves nothing."""
    sizes = [2, 9, *[5] * 16, *[4] * 4, 1]
    cases = {f"{query} {n}": str(query) for query, size in enumerate(sizes) for n in range(size)}
    graded = {item: (float(number % 4), "graded") for number, item in enumerate(cases)}
    labels = [
        Label(f"{query} {n}", "relevance", grade, "graded", queue="random", design={"design": "passages"})
        for query in range(2, 22)
        for n in range(2)
    ]
    share, mean = set_means("relevance", graded, cases, labels)
    assert share["corrected"]["mean"] == pytest.approx(float(grade >= 2))
    assert mean["corrected"]["mean"] == pytest.approx(grade)
    low, high = mean["corrected"]["interval"]
    assert 0 <= low <= grade <= high <= 3
    assert low < high


def test_grades_and_yes_or_no_have_no_mean_together() -> None:
    """A judge that gave both gives no line; either alone gives its own."""
    cases = {"a": "1", "b": "2"}
    both = {"a": (1.0, "binary"), "b": (3.0, "graded")}
    assert list(set_means("relevance", both, cases, [])) == []
    names = {
        scale: [line["value"] for line in set_means("relevance", {"a": (1.0, scale)}, cases, [])]
        for scale in ("binary", "graded")
    }
    assert names == {"binary": ["share of yes"], "graded": ["share of grades 2 and more", "mean grade"]}


def test_each_claim_of_a_support_verdict_counts_once(tmp_path: Path) -> None:
    """As an item of its own, which people label: one claim of two is supported in every query."""
    report = report_at(tmp_path / "r", "context_recall")
    claims = [row for row in report.items() if row.kind == "support" and row.of is not None]
    (line,) = [line for line in audit_judge(report)["passages"] if line["kind"] == "support"]
    assert line["total"] == len({row.item for row in claims}) > 0
    assert line["judged"] == pytest.approx(report["context_recall"].mean)
