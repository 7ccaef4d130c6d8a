"""Where the noise of a report's mean comes from."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from germane import Report, evaluate
from germane.comparison.planning import plan_power
from germane.judges import Judge
from germane.judges.judge import Reply
from germane.judges.panel import PanelJudge, repeated
from germane.questions.question import AnyQuestion
from tests.command import invoke


@pytest.fixture(autouse=True)
def few_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    """How well power is simulated is held by tests/statistics/test_power.py."""
    monkeypatch.setattr("germane.statistics.power._MORE_DRAWS", 250)


class Dice(Judge):
    """A judge that says 3 or 0 at random, 3 as often as the passage says."""

    name = "dice"

    def __init__(self) -> None:
        self.rng = random.Random(0)

    async def answer(self, questions: Sequence[AnyQuestion]) -> Sequence[Reply]:
        return [
            Reply(
                payload={
                    "grade": 3 * (self.rng.random() < float(one.inputs()["passage"].split()[-1])),
                    "reasoning": "",
                }
            )
            for one in questions
        ]


def samples(queries: int, trials: int, places: int = 4) -> list[dict[str, Any]]:
    """Queries of their own level, each searched several times."""
    rng = random.Random(1)
    return [
        {
            "id": f"q{query}",
            "query": f"q{query}",
            "trial": trial,
            "qrels": {"other": 3}
            | {f"d{place}": 3 for place in range(places) if rng.random() < (query % 5) / 4},
            "contexts": [
                {"id": f"d{place}", "text": f"{query} {trial} {place} .5"} for place in range(places)
            ],
        }
        for query in range(queries)
        for trial in range(trials)
    ]


def test_trials_are_told_apart_from_queries() -> None:
    """With three trials of each query the variance has two parts; the shares sum to one."""
    plan = plan_power(evaluate(samples(40, 3), "P@4"), "P@4", 0.05)
    assert plan.variance is not None
    assert (plan.variance.components["trials"] or 0) > 0
    assert plan.variance.components["replicas"] is None
    assert plan.variance.counts == {"queries": 40, "trials": 3, "replicas": 1}
    assert sum(plan.variance.shares.values()) == pytest.approx(1)
    assert "trial of every query -" in str(plan)


def test_replicas_of_a_judge_are_told_apart(tmp_path: Path) -> None:
    """A judge of dice, asked three times: all of the noise is its own, and the command line says so."""
    judge = PanelJudge(repeated(Dice(), 3))
    evaluate(samples(60, 1), "P(labels=judge)@4", judge=judge).save(tmp_path / "r")
    report = Report.open(tmp_path / "r")
    votes = [one for one in report.judgements() if one.parent is not None]
    assert len(votes) == 60 * 4 * 3
    done = invoke("power", str(tmp_path / "r"), "--json")
    assert done.code == 0
    (plan,) = (one for one in done.json["measures"] if one["measure"] == "P(labels=judge)@4")
    found = plan["variance"]
    # Of four fair coins a share has the variance .25 / 4.
    assert found["components"]["replicas"] == pytest.approx(0.25 / 4, rel=0.25)
    assert found["components"]["queries"] < 0.02
    assert found["counts"]["replicas"] == 3
    assert found["one_more"]["replicas"] > found["one_more"]["queries"]


def test_one_trial_and_one_replica_tell_nothing() -> None:
    """The variance of queries is all that is seen: nothing to split."""
    plan = plan_power(evaluate(samples(40, 1), "P@4"), "P@4", 0.05)
    assert plan.variance is None
    assert np.isfinite(plan.deviation)
