"""Labels that were drawn for another report correct nothing."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

from germane import compare
from germane.labelling.files import export_labels, import_labels
from germane.labelling.queue import LabellingSession, queue_of
from germane.reports.report import Report
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


def moved(source: Report, target: Report, path: Path) -> Report:
    """The target with the labels of the source."""
    export_labels(path / "labels.jsonl", source)
    target.tables.append_labels(import_labels(path / "labels.jsonl", target, "ann")[0])
    return Report.open(target.folder or "")


def test_labels_drawn_for_another_report_correct_nothing(tmp_path: Path) -> None:
    """However alike its passages are; labels drawn from the report itself count, whatever else was imported."""
    old = labelled(report(tmp_path / "old", slice(0, PASSAGES)), 120)
    new = moved(old, report(tmp_path / "new", slice(1, PASSAGES + 1)), tmp_path)
    assert old[REL].corrected is not None
    assert new[REL].corrected is None
    why = "the labels were drawn for another report: label this one (germane label)"
    assert new[REL].corrected_why == why
    assert compare(old, new)[REL].decided_by == "judged"
    new = labelled(new, 140)
    assert new[REL].corrected is not None
    assert compare(old, new)[REL].decided_by == "corrected"
