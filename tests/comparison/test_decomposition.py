"""Why a measure moved: planted causes are found each alone, and parts sum to the difference; across judges there are none."""

from __future__ import annotations

import random
from typing import Any

import pytest

from germane import Report, compare, evaluate
from germane.judges.judge import FakeJudge
from germane.questions import AnyQuestion
from germane.types import Json

MEASURES = "nDCG@5 P@3 context_precision@5 context_relevancy(unit=context)"


def rows(seed: int, n: int = 30, *, good: float = 0.5, **more: Any) -> list[dict[str, Json]]:
    """Queries with five of eight documents; the first is relevant with the probability `good`."""
    rng, found = random.Random(seed), []
    for number in range(n):
        ids = [f"d{at}" for at in range(8)]
        rng.shuffle(ids)
        if rng.random() < good:
            ids.remove("d0")
            ids.insert(0, "d0")
        contexts = [{"id": name, "text": f"{name} of {number}"} for name in ids[:5]]
        row = {
            "id": f"q{number}",
            "query": f"query {number}",
            "qrels": {"d0": 2, "d1": 1},
            "contexts": contexts,
        }
        found.append({**row, **more})
    return found


def grading(seed: int | None, name: str = "fake") -> FakeJudge:
    """Grades d0 and d1 as relevant; with a seed a fifth of the verdicts is another one by chance."""
    rng = random.Random(seed)

    def answer(question: AnyQuestion) -> Json:
        relevant = str(getattr(question, "passage", "")).startswith(("d0", "d1"))
        if seed is not None and rng.random() < 0.2:
            relevant = not relevant
        return {"grade": 3 if relevant else 0, "reasoning": ""}

    return FakeJudge(answer, name=name)


def measured(rows: list[dict[str, Json]], judge: FakeJudge | None = None) -> Report:
    return evaluate(rows, MEASURES, judge=judge or grading(None))


def parts(a: Report, b: Report, measure: str) -> tuple[float, dict[str, float]]:
    """The difference, and its parts that are not 0; these sum to the difference."""
    found: Any = compare(a, b, measures=measure, across_judges=True).to_json()["comparisons"][0]
    assert found["difference"] == pytest.approx(sum(found["parts"].values()), abs=1e-12)
    return found["difference"] or 0.0, {name: part for name, part in found["parts"].items() if part}


@pytest.mark.parametrize("measure", MEASURES.split())
def test_other_lists_are_retrieval_alone(measure: str) -> None:
    """The judge is the same, and so is the gold."""
    difference, causes = parts(measured(rows(1, 60, good=0.1)), measured(rows(2, 60, good=0.9)), measure)
    assert causes == {"retrieval": pytest.approx(difference, abs=1e-12)}


def test_across_judges_there_are_no_parts() -> None:
    """Nobody can tell what the lists made of it; gold is split all the same."""
    found = compare(measured(rows(1)), measured(rows(2), grading(None, "other")), across_judges=True)
    split = {row["measure"]: row["parts"] for row in found.to_json()["comparisons"]}
    assert split["context_precision@5"] is None
    assert split["nDCG@5"] is not None
    whys = {row["measure"]: row["parts_why"] for row in found.to_json()["comparisons"]}
    assert "was judged by" in str(whys["context_precision@5"])


def test_other_verdicts_of_the_same_judge_are_labels() -> None:
    """Asked again, a judge that wavers changes scores on the same lists."""
    difference, causes = parts(
        measured(rows(1), grading(1)), measured(rows(1), grading(2)), "context_precision@5"
    )
    assert causes == {"labels": pytest.approx(difference, abs=1e-12)}


def test_other_gold_is_the_labels_alone() -> None:
    """Grades of documents that both lists hold."""
    difference, causes = parts(measured(rows(1)), measured(rows(1, qrels={"d5": 1})), "nDCG@5")
    assert causes == {"labels": pytest.approx(difference, abs=1e-12)}
    assert difference < 0


def by_reference(name: str = "fake") -> FakeJudge:
    """A passage is relevant where it begins as the reference does."""
    return FakeJudge(
        lambda question: {
            "grade": 3 * (str(getattr(question, "passage", ""))[:2] == getattr(question, "reference", "")),
            "reasoning": "",
        },
        name=name,
    )


def test_another_reference_is_not_split() -> None:
    """Verdicts against another reference answer another question."""
    before = measured(rows(1, reference="d0"), by_reference())
    after = measured(rows(1, reference="d5"), by_reference())
    (row,) = compare(before, after, measures="context_precision@5").to_json()["comparisons"]
    assert (row["parts"], row["parts_why"]) == (
        None,
        "the judges were shown different references or criteria",
    )


@pytest.mark.parametrize("seed", range(8))
def test_parts_of_everything_at_once_sum_exactly(seed: int) -> None:
    """Other lists, other verdicts, other gold: each part once, and together the difference."""
    rng = random.Random(seed)
    a = measured(rows(seed, 20), grading(seed))
    changed = rows(seed + 100, 20, good=0.9, qrels={"d1": 2, "d4": 1})
    for row in changed[::2]:
        row["contexts"] = rng.sample(rows(seed, 20)[int(str(row["id"])[1:])]["contexts"], 5)  # no new passage
    b = measured(changed, grading(seed + 1))
    for measure in MEASURES.split():
        parts(a, b, measure)
