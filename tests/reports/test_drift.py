"""Labels that were drawn for another report: they serve where its passages look alike, else they correct nothing."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace
from scipy import stats

from germane import compare
from germane.labelling.files import export_labels, import_labels
from germane.labelling.queue import queue_of
from germane.labelling.session import LabellingSession
from germane.reports.report import Report
from germane.statistics.sampling import drawn_alike
from germane.types import FrozenDict
from tests.labelling.made import keep, report_at, truth_of

REL = "context_relevancy(unit=context)"
QUERIES, PASSAGES = 20, 8


def samples(seed: int = 0) -> list[dict[str, Any]]:
    rng, found = random.Random(seed), []
    for number in range(QUERIES):
        contexts = []
        for place in range(2 * PASSAGES):
            truth = rng.choice([2, 3]) if rng.random() < (0.8 if place < PASSAGES else 0.1) else 0
            judged = min(3, truth + (rng.random() < 0.3))
            contexts.append(
                {"id": f"d{number}.{place}", "text": f"{number}.{place} truth={truth} judge={judged}"}
            )
        found.append({"id": f"q{number}", "query": f"query {number}", "contexts": contexts})
    return found


def report(path: Path, keep_places: slice) -> Report:
    rows = [{**row, "contexts": row["contexts"][keep_places]} for row in samples()]
    return report_at(path, REL, samples=rows)


def labelled(made: Report, budget: int = 100) -> Report:
    session = LabellingSession(queue_of(made, budget=budget), "ann", keep(made))
    while (one := session.next) is not None:
        session.answer(truth_of(one.passages[0]))
    return Report.open(made.folder or "")


def moved(source: Report, target: Report, path: Path, *, named: bool = True) -> Report:
    """The target with the labels of the source; without names of pools, as other tools write them."""
    export_labels(path / "labels.jsonl", source)
    rows = [
        label
        if named
        else replace(label, design=FrozenDict({k: v for k, v in (label.design or {}).items() if k != "pool"}))
        for label in import_labels(path / "labels.jsonl", target, "ann")[0]
    ]
    target.tables.append_labels(rows)
    return Report.open(target.folder or "")


@pytest.mark.parametrize("named", [True, False])
def test_labels_of_unlike_passages_correct_nothing(tmp_path: Path, named: bool) -> None:
    """The new report holds the good half of the labelled one and as much that is bad: its labels are all of the good."""
    old = labelled(report(tmp_path / "old", slice(0, PASSAGES)), 120)
    new = moved(old, report(tmp_path / "new", slice(0, 2 * PASSAGES)), tmp_path, named=named)
    assert old[REL].corrected is not None
    if named:
        assert new[REL].corrected is None
        assert "drawn for another report, whose passages are unlike these in grade and rank" in (
            new[REL].corrected_why or ""
        )
        found = compare(old, new)[REL]
        assert found.decided_by == "judged"
        assert "drawn for another report" in (found.corrected_why or "")
    else:  # every label stands where it stood: nothing tells these from a draw of the report's own
        assert new[REL].corrected is not None


def test_ranks_that_moved_tell_another_report(tmp_path: Path) -> None:
    """Labels without the name of a pool are foreign where their passages stood elsewhere."""
    old = labelled(report(tmp_path / "old", slice(0, PASSAGES)), 120)
    rows = [{**row, "contexts": row["contexts"][::-1]} for row in samples()]
    new = moved(old, report_at(tmp_path / "new", REL, samples=rows), tmp_path, named=False)
    assert "unlike these" in (new[REL].corrected_why or "")


def test_labels_of_like_passages_serve(tmp_path: Path) -> None:
    """A report with the same passages but for a few is corrected; so is the report's own, whatever was drawn."""
    old = labelled(report(tmp_path / "old", slice(0, PASSAGES)), 100)
    new = moved(old, report(tmp_path / "new", slice(1, PASSAGES + 1)), tmp_path)
    assert new[REL].corrected is not None, new[REL].corrected_why


def test_too_few_are_about_the_new_passages(tmp_path: Path) -> None:
    """Less than half of the draw is about this report."""
    old = labelled(report(tmp_path / "old", slice(0, PASSAGES)), 100)
    new = moved(old, report(tmp_path / "new", slice(6, PASSAGES + 6)), tmp_path)
    assert "of the 100 labels drawn for another report" in (new[REL].corrected_why or "")


def test_the_p_value_is_uniform_and_finds_a_stratum() -> None:
    """Random samples are called unlike as often as the level says; scipy agrees on a single 2 x 2 table."""
    rng = np.random.default_rng(0)
    groups, strata = np.repeat(np.arange(30), 12), rng.integers(0, 6, 360)
    p = [
        drawn_alike(groups, strata, np.concatenate([rng.permutation(12) < 4 for _ in range(30)]))
        for _ in range(600)
    ]
    assert np.mean(np.array(p) < 0.05) == pytest.approx(0.05, abs=0.03)
    assert drawn_alike(groups, strata, (strata < 2) & (rng.random(360) < 0.8)) < 1e-6
    assert drawn_alike(groups, np.zeros(360), rng.random(360) < 0.5) == 1.0
    two, drawn = np.repeat([0, 1], 50), np.r_[np.arange(50) < 30, np.arange(50) < 20]
    table = [[30, 20], [20, 30]]
    chi = stats.chi2_contingency(table, correction=False).statistic * 99 / 100
    assert drawn_alike(np.zeros(100), two, drawn) == pytest.approx(stats.chi2.sf(chi, 1), abs=0.004)
