"""Measures that are better when lower: cases, requirements, the worst queries and gates turn them round."""

from __future__ import annotations

import pytest

from germane import evaluate
from germane.errors import InputError
from germane.evaluation.session import Session, evaluate_jobs
from germane.folder.tables import BlockRows
from germane.graders.specs import MeasureGrader
from germane.judging.asker import Asker
from germane.judging.caller import run_coroutine
from germane.measures import Measure
from germane.measures.declaration import Grader
from germane.measures.scoring import Job
from germane.places.lists import Settings
from germane.reports.report import Report
from germane.types import Context, Sample


def leaky(name, *ids, **more):
    contexts = None if "error" in more else tuple(Context(id=i, text=i) for i in ids)
    return Sample(id=name, query="q", contexts=contexts, forbidden=("s1", "s2"), **more)


SAMPLES = [leaky("none", "d1"), leaky("two", "s1", "s2"), leaky("one", "s1")]


@pytest.mark.parametrize(
    ("measure", "value", "good"),
    [("leaks", 0.0, 1.0), ("leaks", 1.0, 0.5), ("noise_sensitivity", 0.25, 0.75), ("nDCG", 0.25, 0.25)],
)
def test_how_good_a_value_is(measure, value, good):
    """1 - a share, 1 / (1 + a count), and what is better when higher as it is."""
    assert Measure.parse(measure).definition.good(value) == good


def test_cases_and_the_worst():
    """No leak is a pass and two are a fail; the worst is the highest."""
    report = evaluate(SAMPLES, "leaks")
    grader = MeasureGrader(measure=Measure.parse("leaks"), name="leaks")
    assert [(case.sample, case.verdict) for case in evaluate(SAMPLES, grader).cases()] == [
        ("none", "pass"),
        ("two", "fail"),
        ("one", "fail"),
    ]
    assert [score.sample for score in report.worst("leaks", 2)] == ["two", "one"]
    assert "two" in str(report)


def test_the_number_of_worst_scores_is_checked():
    """As a slice, -1 was all scores but one."""
    report = evaluate([{"query": "q", "contexts": [{"id": "d"}], "qrels": {"d": 1}}], "RR")
    with pytest.raises(InputError, match="not a number of scores; write n=10"):
        report.worst("RR", -1)
    assert report.worst("RR", 0) == []


def test_required():
    """`required: true` of a count means none at all."""

    async def run(samples):
        grader = Grader(measure=Measure.parse("leaks"), required=0.8)
        async with Asker(None) as asker:
            jobs = (Job(sample=sample, graders=(grader,)) for sample in samples)
            part = await evaluate_jobs(jobs, asker.lookup, BlockRows(), ask=asker.judge)
        return Report.build(part, Session(None, Settings()).manifest())

    assert run_coroutine(run(SAMPLES[:1])).verdict.exit_code == 0
    report = run_coroutine(run(SAMPLES))
    assert report.verdict.exit_code == 1
    assert [case.failed_required for case in report.cases()] == [(), ("leaks",), ("leaks",)]


def test_a_count_that_could_not_be_taken_has_no_upper_bound():
    """A system that failed may have leaked any number: the gate is undecided, JSON says null."""
    samples = [SAMPLES[0], leaky("broken", error="the system failed")]
    report = evaluate(samples, "leaks", gates=["max(leaks)=0"], max_unmeasured=1.0)
    assert report.verdict.exit_code == 3
    assert report.to_json()["measures"]["leaks"]["mean_bounds"] is None
