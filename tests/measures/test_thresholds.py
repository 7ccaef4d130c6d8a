"""What a mean says of its labels: from which grade they count, and over which ideal nDCG is."""

from __future__ import annotations

import pytest

from germane import evaluate
from germane.errors import MeasureError
from germane.measures.measure import Measure

ROWS = [
    {
        "id": f"q{n}",
        "query": f"query {n}",
        "qrels": {"a": 1, "b": 2, "x": 2},
        "contexts": [{"id": "a", "text": f"a {n}", "grade": 1}, {"id": "c", "text": f"c {n}", "grade": 3}],
    }
    for n in range(4)
]


@pytest.mark.parametrize("name", ["nDCG", "nERR"])
@pytest.mark.parametrize("source", ["judge", "human", "best"])
def test_an_ideal_of_what_came_back_has_a_name(name: str, source: str) -> None:
    """The old spelling is accepted and prints canonical; gold may be asked for it, a judge for nothing else."""
    canonical = f"{name}(ideal=retrieved,labels={source})@10"
    assert str(Measure.parse(f"{name}(labels={source})@10")) == canonical
    assert str(Measure.parse(canonical)) == canonical
    assert str(Measure.parse(f"{name}@10")) == f"{name}@10"
    with pytest.raises(MeasureError, match="only the retrieved contexts are labelled"):
        Measure.parse(f"{name}(ideal=all,labels={source})@10")


def test_gold_over_what_came_back() -> None:
    """With both relevant documents of three missing above it, the order of what came back is still perfect."""
    report = evaluate(ROWS, "nDCG@2 nDCG(ideal=retrieved)@2 nERR(ideal=retrieved)@2")
    assert report["nDCG@2"].mean == pytest.approx(1 / (2 + 2 / 1.5849625007211562))
    assert report["nDCG(ideal=retrieved)@2"].mean == pytest.approx(1.0)
    assert report["nERR(ideal=retrieved)@2"].mean == pytest.approx(1.0)


@pytest.mark.parametrize("unlabelled", [0, 1, 30])
def test_a_grade_above_the_scale_is_named_before_missing_labels(unlabelled: int) -> None:
    """The error names a grade that somebody gave, not one that was tried for a passage without a label."""
    contexts = [{"text": "a", "grade": 9}, *({"text": f"b {n}"} for n in range(unlabelled))]
    report = evaluate([{"query": "x", "grade_scale": [0, 10], "contexts": contexts}], "ERR(labels=human)")
    (score,) = report.scores()
    assert score.status == "error"
    assert "the grade 9 is higher than the highest grade, top=3; write top=9" in str(score.why)
