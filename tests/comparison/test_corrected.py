"""Differences of judged measures decided by people's labels: from both reports, each passage once, or said not to be."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from germane import Report, compare
from germane.comparison.regression import change_gates, pairs_with, regressions
from germane.labelling.queue import LabellingSession, LabelTask, queue_of
from germane.reports.gates import Gate
from germane.reports.label_draws import Draw, chance_of
from germane.statistics.differences import corrected_difference
from germane.tables.labels import Label
from germane.types import FrozenDict
from tests.labelling.made import keep, report_at, truth_of

LINEAR, ORDER = "context_relevancy(unit=context)", "context_precision"
QUERIES, PASSAGES = 20, 8


def system(good: float, seed: int) -> list[dict[str, Any]]:
    """Lists of which this share is relevant to people; the judge is fooled by every passage that is not."""
    rng = np.random.default_rng(seed)
    found = []
    for number in range(QUERIES):
        texts = []
        for place in range(PASSAGES):
            truth = int(rng.choice([2, 3])) if rng.random() < good else int(rng.integers(0, 2))
            judged = truth if truth >= 2 else int(rng.choice([1, 3]))
            texts.append(f"{seed} passage {number}.{place} truth={truth} judge={judged}")
        contexts = [{"id": text.partition(" truth")[0], "text": text} for text in texts]
        found.append({"id": f"q{number}", "query": f"query {number}", "contexts": contexts})
    return found


def pair_at(path: Path, a: float = 0.5, b: float = 0.8, *, shared: int = 0) -> tuple[Report, Report]:
    """Two reports, of whose lists the first places may be the same passages."""
    before, after = system(a, 1), system(b, 2)
    for ours, theirs in zip(before, after, strict=True):
        theirs["contexts"][:shared] = ours["contexts"][:shared]
    measures = f"{LINEAR} {ORDER}"
    return report_at(path / "A", measures, samples=before), report_at(path / "B", measures, samples=after)


def label(reports: Sequence[Report], budget: int, answer: Any = None, **how: Any) -> list[Report]:
    """The reports after a person labelled so much of each one's queue."""
    for report in reports:
        queue = queue_of(report, budget=budget, **how)
        session = LabellingSession(queue, "ann", keep(report), report.labels())
        while (one := session.next) is not None and session.done < session.total:
            session.answer(answer(one) if answer else truth_of(one.passages[0]))
    return [Report.open(report.folder or "") for report in reports]


def people(report: Report) -> float:
    """What people would say of all: the mean share that is relevant."""
    return float(np.mean([truth_of(c.text) >= 2 for s in report.samples() for c in s.contexts or ()]))


def wrong_way(task: LabelTask) -> int:
    """A person who finds relevant what stands in A's list alone: the judge had the sign wrong."""
    return 3 if task.passages[0].startswith("1 ") else 0


def test_labels_decide_against_the_judge(tmp_path: Path) -> None:
    """The judge says that B is better; people say that it is worse: the corrected figure decides the margin, the gates, p."""
    a, b = pair_at(tmp_path)
    raw = compare(a, b)[LINEAR]
    assert (raw.decided_by, raw.corrected, raw.corrected_why) == ("judged", None, "no human labels")
    assert raw.difference is not None
    assert raw.difference > 0.1
    (a,), (b,) = label([a], 80, wrong_way), label([b], 80, wrong_way)
    found = compare(a, b, measures=LINEAR, margin={LINEAR: 0.02})
    one = found[LINEAR]
    assert one.decided_by == "corrected"
    assert one.difference == raw.difference
    assert one.corrected is not None
    assert one.corrected.difference == pytest.approx(-1.0)
    assert (one.corrected.labels, one.corrected.queries) == (160, QUERIES)
    assert found.verdict == "fail"
    assert (raw.outcome, one.outcome) == ("better", "worse")
    assert "-1.00" in found.sentences[0]
    assert "corrected by 160 labels" in found.sentences[0]
    assert one.p_holm == one.corrected.p
    row = json.loads(json.dumps(found.to_json()))["comparisons"][0]
    assert (row["decided_by"], row["estimand"], row["difference"]) == ("corrected", "queries", raw.difference)
    assert row["corrected"]["difference"] == one.corrected.difference
    assert row["corrected"].keys() >= {"interval", "p", "labels", "queries"}
    assert "decided by the corrected difference (160 labels in 20 queries)" in " ".join(str(found).split())
    (gate,) = change_gates([Gate.parse(f"change({LINEAR})>-0.02")], pairs_with(b, a))
    assert (gate.outcome, gate.decided_by) == ("failed", "corrected")
    assert "judged change +" in gate.detail
    outcomes = {one.gate: one.outcome for one in regressions(pairs_with(b, a))}
    assert outcomes[f"not significantly worse in {LINEAR}"] == "failed"


def test_the_correction_is_unbiased_and_covers(tmp_path: Path) -> None:
    """Over draws the corrected differences lie around people's own, which the intervals hold."""
    a, b = pair_at(tmp_path, shared=3)
    truth = people(b) - people(a)
    found, inside = list[float](), 0
    for seed in range(8):
        one = compare(*label([a, b], 60, seed=seed))[LINEAR].corrected
        assert one is not None
        assert one.set_ends is not None
        assert one.difference is not None
        found.append(one.difference)
        inside += one.set_ends[0] <= truth <= one.set_ends[1]
        for report in (a, b):
            (Path(report.folder or "") / "labels.jsonl").write_bytes(b"")
    assert np.mean(found) == pytest.approx(truth, abs=0.05)
    assert inside >= 6


def test_a_passage_of_both_draws_has_the_chance_of_either() -> None:
    """1 - (1 - pA)(1 - pB), of the labels that were given and not of those that were planned."""

    def draw(n: int, of: int) -> Draw:
        design = FrozenDict(design="passages", seed=0, budget=99, probability=0.99)
        items = [f"i{k}" for k in range(of)]
        labels = [
            Label(item=i, kind="relevance", answer=1, scale="binary", queue="random", design=design)
            for i in items[:n]
        ]
        return Draw(labels, {"q": frozenset(items)})

    assert chance_of([draw(2, 10), draw(5, 10)], "q", "i0") == pytest.approx(1 - 0.8 * 0.5)
    assert chance_of([draw(2, 10), draw(5, 8)], "q", "i9") == pytest.approx(0.2)
    assert chance_of([draw(2, 10)], "other", "i0") == 0


def test_measures_of_order_need_whole_queries(tmp_path: Path) -> None:
    """Passages here and there leave them to the judge, and the comparison says so; whole queries correct them."""
    a, b = pair_at(tmp_path, shared=2)
    a, b = label([a, b], 60)
    found = compare(a, b)
    assert found[LINEAR].decided_by == "corrected"
    assert found[ORDER].decided_by == "judged"
    assert any("uncalibrated: context_precision is not a mean" in note for note in found.notes)
    for report in (a, b):
        (Path(report.folder or "") / "labels.jsonl").write_bytes(b"")
    a, b = label([a, b], 112, design="queries")
    for name in (LINEAR, ORDER):
        one = compare(a, b)[name]
        assert one.decided_by == "corrected", one.corrected_why
        assert one.corrected is not None
        assert 10 <= one.corrected.queries < QUERIES


def test_labels_of_one_side_decide_nothing(tmp_path: Path) -> None:
    """The judge's figure stays, uncalibrated, with the reason."""
    a, b = pair_at(tmp_path)
    (a,) = label([a], 60)
    found = compare(a, b)
    assert found[LINEAR].decided_by == "judged"
    assert "uncalibrated: only one of the two reports has human labels" in " ".join(found.notes)
    (gate,) = change_gates([Gate.parse(f"change({LINEAR})>-0.5")], pairs_with(b, a))
    assert "uncalibrated" in gate.detail


def test_unsure_answers_widen_the_interval() -> None:
    """What nobody can tell is bounded by what it could be, and counted."""
    rng = np.random.default_rng(0)
    queries = np.repeat(np.arange(25), 20)
    weights, grades = np.tile([0.1, -0.1], 250), rng.integers(0, 4, 500).astype(float)
    hits = (rng.random(500) < grades / 3).astype(float)
    known = rng.random(500) < 0.5
    labels, chances = np.where(known, hits, np.nan), np.full(500, 0.5)
    sure = corrected_difference(weights, labels, grades, chances, queries, 25)
    assert not isinstance(sure, str)
    unsure = known & (rng.random(500) < 0.2)
    least, most = (np.where(unsure, end, labels) for end in (0.0, 1.0))
    open_ = corrected_difference(weights, least, grades, chances, queries, 25, most=most)
    assert not isinstance(open_, str)
    assert sure.interval.ends is not None
    assert open_.interval.ends is not None
    assert open_.unsure == unsure.sum()
    assert np.ptp(open_.interval.ends) > np.ptp(sure.interval.ends)
    assert open_.interval.ends[0] < (weights * hits).sum() / 25 < open_.interval.ends[1]


def test_gates_on_means_decide_on_the_corrected_mean(tmp_path: Path) -> None:
    """`judged(M)` insists on the judge's own; both figures are in the detail, and who decided in the document."""
    gates = [
        f"{LINEAR}>=0.7",
        f"lower({LINEAR})>=0.6",
        f"judged({LINEAR})>=0.7",
        f"lower(judged({LINEAR}))>=0.6",
    ]
    report = report_at(tmp_path / "r", LINEAR, samples=system(0.5, 1), gates=gates)
    assert [(gate.outcome, gate.decided_by) for gate in report.verdict.gates] == [("passed", "judged")] * 4
    (report,) = label([report], 80, lambda _: 0)
    by = [(gate.outcome, gate.decided_by) for gate in report.verdict.gates]
    assert by == [("failed", "corrected")] * 2 + [("passed", "judged")] * 2
    assert "judged 0." in report.verdict.gates[0].detail
    assert "uncalibrated (corrected 0.0000)" in report.verdict.gates[2].detail
    rows = report.verdict.as_json()["gates"]
    assert [row["decided_by"] for row in rows] == ["corrected", "corrected", "judged", "judged"]
    assert [str(Gate.parse(text)) for text in gates[2:]] == gates[2:]
