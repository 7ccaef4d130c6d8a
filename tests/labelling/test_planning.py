"""How many labels make corrected means precise enough."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from germane.errors import InputError
from germane.labelling.planning import plan_labels
from germane.labelling.queue import LabelQueue, label_tasks
from germane.reports.report import Report
from germane.statistics.correction import POPULATIONS, LabelPilot
from germane.tables.labels import Label
from tests.command import invoke
from tests.labelling.made import report_at, truth_of
from tests.statistics.test_correction import corrected_query_mean

REL = "P(labels=judge)@6"


def labelled(path: Path, budget: int, measures: str = REL) -> Report:
    """The report with so many labels of a random draw."""
    report = report_at(path, measures)
    drawn = LabelQueue(tasks=label_tasks(report), budget=budget).drawn
    labels = [
        Label(item=task.item, kind=task.kind, answer=truth_of(task.passages[0]), scale="graded", who="ann",
              queue="random", design=task.design)
        for task in drawn
    ]  # fmt: skip
    report.tables.append_labels(labels)
    return Report.open(path)


def test_labels_for_a_width_are_told_from_those_that_there_are(tmp_path: Path) -> None:
    """A narrower interval needs more labels; one that all labels do not reach says how many are not enough."""
    report = labelled(tmp_path / "r", 30)
    wide, narrow, never = (plan_labels(report, width)[0] for width in (0.5, 0.25, 0.001))
    assert wide.set_labels is not None
    assert narrow.set_labels is not None
    assert wide.set_labels <= narrow.set_labels <= 72
    assert never.labels is None
    assert "more queries are needed" in str(never)
    done = invoke("label", str(tmp_path / "r"), "--for-width", "0.25", "--json")
    assert done.code == 0
    (line,) = done.json["measures"]
    assert (line["measure"], line["set_labels"], line["labelled"]) == (REL, narrow.set_labels, 30)


def test_nothing_is_told_without_a_pilot(tmp_path: Path) -> None:
    """No labels, or one per query: what to label first is said; a width must be above 0."""
    report = report_at(tmp_path / "r", REL)
    (plan,) = plan_labels(report, 0.1)
    assert plan.labels is None
    assert "label two or more passages of every query" in str(plan)
    (ordered,) = plan_labels(labelled(tmp_path / "ordered", 12, measures="context_precision"), 0.1)
    assert "--design queries" in str(ordered)
    assert "--design passages" not in str(ordered)
    (plan,) = plan_labels(labelled(tmp_path / "one", 12), 0.1)
    assert plan.why is not None
    with pytest.raises(InputError, match="--for-width"):
        plan_labels(report, 0)


def test_a_width_is_told_only_where_the_spread_between_queries_is_known_well_enough() -> None:
    """Few labels per query do not tell a width close to the limit that the queries set; more of them do, and one far from it."""
    pilot = LabelPilot(sizes=(40,) * 25, within=0.13, between=0.02, doubt=0.0, labels=100)
    limit = pilot.width(1000)
    assert pilot.width(1000, off=-1) < limit < pilot.width(1000, off=1)
    near, far = pilot.labels_for(limit * 1.1), pilot.labels_for(limit * 2)
    assert near is not None
    assert far is not None
    assert not pilot.is_reliable(near)
    assert pilot.is_reliable(far)
    assert replace(pilot, labels=600).is_reliable(near)
    assert pilot.is_reliable(near, "report")


@pytest.mark.parametrize("population", POPULATIONS)
def test_the_promised_width_comes(population: str) -> None:
    """Over 60 reports of 40 queries, the width that comes is within 15% of the promised one on average."""
    rng = np.random.default_rng(0)
    query, place = np.divmod(np.arange(40 * 20), 20)
    found = []
    for _ in range(60):
        people = (rng.random(800) < np.repeat(rng.uniform(0.1, 0.9, 40), 20)).astype(float)
        judge = np.where(rng.random(800) < 0.25, 1 - people, people)
        pilot = corrected_query_mean(
            judge, np.where(place < 3, people, np.nan), query, value_range=(0, 1)
        ).pilot
        assert pilot is not None
        labels = 40 * 8
        known = np.where(place < 8, people, np.nan)
        ends = corrected_query_mean(judge, known, query, population=population, value_range=(0, 1)).ends
        found.append((ends[1] - ends[0]) / pilot.width(labels, population))
    assert np.mean(found) == pytest.approx(1, abs=0.15)
