"""What is labelled in which order: random draws with known probabilities that can stop and go on."""

from collections import Counter
from pathlib import Path

import pytest

from germane.errors import InputError
from germane.labelling.queue import LabelQueue, LabelTask, label_tasks
from tests.labelling.made import PASSAGES, QUERIES, report_at


def tasks(sizes: list[int]) -> list[LabelTask]:
    return [
        LabelTask(item=f"{q}.{p}", kind="relevance", sample=f"q{q}", query="?", passages=("!",), verdict=(p + q) % 4,
                  doubt=p / 10)
        for q, size in enumerate(sizes)
        for p in range(size)
    ]  # fmt: skip


def order(queue: LabelQueue) -> list[str]:
    return [one.item for one in queue.drawn]


def test_a_report_gives_each_passage_of_a_query_once(tmp_path: Path) -> None:
    """Passages of both systems are pooled; what both retrieved is labelled once."""
    first = [{"id": "q", "query": "x", "system": s, "contexts": [f"{c} judge=1" for c in texts]}
             for s, texts in (("a", "mn"), ("b", "no"))]  # fmt: skip
    report = report_at(tmp_path / "r", "context_relevance", samples=first)
    assert sorted(task.passages[0][0] for task in label_tasks(report)) == ["m", "n", "o"]
    with pytest.raises(InputError, match="no claims to label"):
        label_tasks(report, "support")


def test_claims_can_be_labelled(tmp_path: Path) -> None:
    """Each claim with the passages that it was held against."""
    found = label_tasks(report_at(tmp_path / "r", "context_recall"), "support")
    assert len(found) == 3 * QUERIES
    assert {task.claim for task in found} == {"a yes", "b no", "c yes", "c no"}
    assert all(len(task.passages) == PASSAGES for task in found)


def test_a_random_draw_takes_passages_from_every_query_in_turn() -> None:
    """Whatever the budget, no query is more than one passage ahead, but where it has no more."""
    queue = LabelQueue(tasks=tasks([6, 6, 2, 6]), budget=13)
    taken = Counter(item.split(".")[0] for item in order(queue))
    assert taken["2"] == 2
    assert sorted(taken[q] for q in "013") == [3, 4, 4]


@pytest.mark.parametrize("design", ["passages", "queries"])
def test_a_larger_budget_goes_on_where_the_smaller_one_ended(design: str) -> None:
    """Orders are nested: early labels are never wasted. Another seed is another order."""
    known = tasks([3, 5, 4, 4, 4])
    small, large = (order(LabelQueue(tasks=known, design=design, budget=n)) for n in (9, 16))  # type: ignore[arg-type]
    assert large[: len(small)] == small
    assert order(LabelQueue(tasks=known, design=design, budget=16, seed=1)) != large  # type: ignore[arg-type]


@pytest.mark.parametrize(("design", "budget"), [("passages", 7), ("queries", 9)])
def test_probabilities_are_those_of_the_draw(design: str, budget: int) -> None:
    """The share of seeds in which a task is drawn is the probability that stands in its design."""
    known = tasks([3, 4, 4, 4] if design == "passages" else [4, 4, 4, 4])
    drawn: Counter[str] = Counter()
    chances: dict[str, float] = {}
    seeds = 1500
    for seed in range(seeds):
        for one in LabelQueue(tasks=known, design=design, budget=budget, seed=seed).drawn:  # type: ignore[arg-type]
            assert one.design is not None
            drawn[one.item] += 1
            chances[one.item] = one.design["probability"]
    assert len(chances) == len(known)
    for item, chance in chances.items():
        assert drawn[item] / seeds == pytest.approx(chance, abs=0.05)


def test_whole_queries_come_one_after_the_other() -> None:
    """No query is left half labelled by the budget."""
    found = [
        item.split(".")[0] for item in order(LabelQueue(tasks=tasks([4] * 5), design="queries", budget=10))
    ]
    assert len(found) == 8
    assert found[:4] == [found[0]] * 4


def test_targeted_takes_the_most_doubtful_first_and_has_no_design() -> None:
    """It finds errors, and corrects no mean."""
    drawn = LabelQueue(tasks=tasks([5, 5]), queue="targeted", budget=4).drawn
    assert [one.doubt for one in drawn] == [0.4, 0.4, 0.3, 0.3]
    assert all(one.design is None for one in drawn)
