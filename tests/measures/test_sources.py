"""One measure, four sources of labels, two scales, any threshold: each under its own name, none filled from another."""

from __future__ import annotations

from math import log2
from typing import Any, ClassVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from germane import evaluate
from germane.evaluation.evaluate import rescore
from germane.judges import FakeJudge, Reply
from germane.measures import Measure
from germane.measures.declaration import graders_of, parse_measures
from germane.measures.outcome import applicable
from germane.measures.scoring import Block, Job
from germane.places.lists import Settings
from germane.tables.labels import Label, LabelBook, relevance_item
from germane.types import Context, Sample

SAMPLE = {
    "query": "q",
    "qrels": {"a": 1, "b": 0},
    "contexts": [
        {"id": "a", "text": "a"},
        {"id": "b", "text": "b", "grade": 3},
        {"id": "c", "text": "c", "grade": 0},
        {"id": "d", "text": "d", "grade": 1},
    ],
}
GRADES = {"a": 2, "b": 0, "c": 3, "d": 3}


def judge(question):
    grade = GRADES[question.passage]
    return {"reasoning": "", **({"grade": grade} if question.scale == "graded" else {"relevant": grade > 0})}


@pytest.mark.parametrize(
    ("measure", "value"),
    [
        ("P@4", 1 / 4),
        ("P(labels=gold)@4", 1 / 4),
        ("P(labels=judge)@4", 3 / 4),
        ("P(labels=best)@4", 2 / 4),
        ("P(labels=judge,rel=3)@4", 2 / 4),
        ("P(labels=judge,rel=1)@4", 3 / 4),
        ("P(labels=best,rel=1)@4", 3 / 4),
        ("context_relevance", 3 / 4),
        ("context_relevance(labels=gold)", 1 / 4),
        ("context_relevance(rel=3)", 2 / 4),
    ],
)
def test_whose_labels(measure, value):
    """Gold counts from 1, grades 0-3 from 2, yes or no as it is; best takes people first and the judge else."""
    assert evaluate([SAMPLE], measure, judge=FakeJudge(judge))[measure].mean == value


DEEP = [1, 0, 2, 0, 1, 3, 3, 0, 2, 1]
"""The grades of ten contexts, the best of them below rank 5."""


@pytest.mark.parametrize("source", ["judge", "human", "best"])
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("nDCG(labels={})@5", (1 + 2 / 2 + 1 / log2(6)) / (2 + 1 / log2(3) + 1 / 2)),
        ("nERR(labels={})@5", (1 + 3 * 7 / 8 / 3 + 7 / 8 * 5 / 8 / 5) / (3 + 5 / 8 / 2 + 5 / 8 * 7 / 8 / 3)),
        ("P(holes=condensed,labels={})@5", 1 / 5),
    ],
)
def test_a_score_does_not_depend_on_deeper_measures_of_the_run(tmp_path, source, name, value):
    """The ideal is the best order of the first five places, whatever is labelled below them, or failed there."""

    def judged(question):
        return ValueError("no answer") if question.passage == "7" else {"grade": DEEP[int(question.passage)]}

    contexts = [{"text": str(n), **({} if source == "judge" else {"grade": g})} for n, g in enumerate(DEEP)]
    measure, row, fake = (
        name.format(source),
        {"query": "q", "contexts": contexts},
        FakeJudge({"relevance": judged}),
    )
    deep = evaluate([row], [measure, f"context_precision(labels={source})@10"], judge=fake)
    stored = rescore(deep.save(tmp_path / "r").folder or "", parse_measures([measure]))
    for report in (evaluate([row], measure, judge=fake), deep, stored):
        assert report[measure].mean == pytest.approx(value)


def test_people_alone_are_incomplete_where_they_said_nothing():
    """Three of four labels: bounds, never a guess."""
    (score,) = evaluate([SAMPLE], "P(labels=human)@4").scores()
    assert (score.status, score.bounds) == ("incomplete", (0.25, 0.5))


def test_yes_or_no_is_another_question():
    """The binary scale is asked and keyed on its own, and counts from yes whatever the threshold."""
    fake = FakeJudge(judge)
    report = evaluate([SAMPLE], ["context_relevance", "context_relevance(rel=3)"], judge=fake, scale="binary")
    assert [summary.mean for summary in report.summaries] == [0.75, 0.75]
    assert {question.prompt for question in fake.asked} == {"relevance_binary"}


def test_best_asks_only_where_people_said_nothing():
    """What people labelled costs no judge."""
    fake = FakeJudge(judge)
    evaluate([SAMPLE], "P(labels=best)@4", judge=fake)
    assert [question.about for question in fake.asked] == ["a"]


MIXED: dict[str, Any] = {
    "query": "q",
    "contexts": [
        {"text": "a", "relevant": True},
        {"text": "b", "grade": 3},
        {"text": "c", "grade": 2},
        {"text": "d", "grade": 1},
    ],
}


@pytest.mark.parametrize("source", ["human", "judge"])
def test_labels_on_two_scales_count_as_yes_or_no(source):
    """A yes is no grade of 1: a perfect ranking scores 1, thresholds stay what they are, and the report says so."""
    names = [f"{name}(labels={source})" for name in ("nDCG", "context_precision", "context_relevance")]
    report = evaluate([MIXED], [*names, f"P(labels={source},rel=1)@4", "P(labels=human)@1"], judge="labels")
    assert [summary.mean for summary in report.summaries] == [1.0, 1.0, 0.75, 1.0, 1.0]
    assert report.manifest["notes"] == {"x labels on two scales in a sample: all count as yes or no": 1}


@pytest.mark.parametrize(
    ("contexts", "scale"),
    [(MIXED["contexts"], "graded"), (MIXED["contexts"][:1], "graded"), (MIXED["contexts"][1:], "binary")],
)
def test_best_needs_one_scale(contexts, scale):
    """People's and the judge's labels in one ranking are on one scale, or the sample is skipped and says why."""
    sample = {"query": "q", "contexts": [*contexts, {"text": "e"}]}
    fine = {"query": "q", "contexts": [{"text": "a"}]}
    report = evaluate([sample, fine], "nDCG(labels=best)", judge=FakeJudge(), scale=scale)
    refused, scored = report.scores()
    assert (refused.status, scored.status) == ("skipped", "ok")
    assert (refused.why or "").startswith("labels=best needs one scale, but people's labels are ")


def test_best_says_how_much_people_labelled():
    """The note of the score tells a mix from a ranking that the judge labelled alone."""
    samples: list[dict[str, Any]] = [SAMPLE, {"query": "q", "contexts": [{"text": "a"}]}]
    mixed, judged = evaluate(samples, "P(labels=best)@4", judge=FakeJudge(judge)).scores()
    assert (mixed.why, judged.why) == ("mixed: 75% human", None)


def book(**labels: tuple[Any, str]) -> LabelBook:
    """People's labels of passages of the query "q", as a report keeps them."""
    return LabelBook(
        Label(item=relevance_item("q", passage), kind="relevance", answer=answer, scale=scale)
        for passage, (answer, scale) in labels.items()
    )


def labelled(measure, sample, labels):
    """The outcome over the labels of a book."""
    block = Block(
        [Job(sample=sample, graders=graders_of((Measure.parse(measure),)))], Settings(labels=labels)
    )
    assert not block.programs  # labels ask nobody
    ((outcome,),) = (found.values() for found in block.outcomes([]))
    return outcome


def test_labels_are_found_by_their_item():
    """The label that counts for an item stands before the one on the context; where it has none, that one is read."""
    contexts = (Context(text="a", grade=0), Context(text="b", grade=3), Context(text="c"), Context(id="d"))
    sample = Sample(id="1", query="q", contexts=contexts)
    labels = book(a=(3, "graded"), c=(2, "graded"), d=(0, "graded"))
    assert labelled("P(labels=human)@4", sample, labels).value == 3 / 4
    assert labelled("P(labels=human)@4", sample, book()).bounds == (1 / 4, 3 / 4)


def test_another_scale_needs_a_threshold():
    """Grades from 0 to 4 say nothing of relevance without `rel=`; a measure of grades needs none."""
    sample = Sample(id="1", query="q", contexts=(Context(text="a"), Context(text="b")))
    labels = book(a=(4, "0-4"), b=(2, "0-4"))
    outcome = applicable(Measure.parse("P(labels=human)@2"), sample, Settings(labels=labels))
    assert outcome is not None
    assert outcome.why == "people's grades are on the scale 0-4: set the lowest relevant grade, e.g. rel=2"
    assert labelled("P(labels=human,rel=3)@2", sample, labels).value == 0.5
    assert labelled("nDCG(labels=human)", sample, labels).value == 1.0
    half = labelled("nDCG(labels=human)", sample, book(b=(2, "0-4")))
    assert half.bounds == pytest.approx(((2 / log2(3)) / 2, 1.0))
    assert half.status == "incomplete"


@pytest.mark.parametrize("contexts", [MIXED["contexts"][:1], MIXED["contexts"][1:]])
def test_labels_on_one_scale_are_worth_what_they_say(contexts):
    """Nothing is reduced, and there is nothing to say."""
    report = evaluate([{"query": "q", "contexts": contexts[::-1]}], "nDCG(labels=human)")
    ((score,), notes) = report.scores(), report.manifest["notes"]
    assert score.value is not None
    assert (score.value == 1.0, notes) == (len(contexts) == 1, {})


def test_what_is_missing_beside_a_yes_will_be_a_yes_or_no():
    """Bounds are of what the score can become: with the second place a no or a yes."""
    sample = {"query": "q", "contexts": [{"text": "a"}, {"text": "b", "relevant": True}]}
    failing = FakeJudge({"relevance": Reply(error="down")})
    (score,) = evaluate([sample], "nDCG(labels=best)", judge=failing, scale="binary").scores()
    assert score.bounds == pytest.approx((1 / log2(3), 1.0))


class TestHoles:
    """A place that nobody judged, over gold and over people's labels."""

    HALF: ClassVar = {
        "query": "q",
        "contexts": [{"text": "a", "grade": 3}, {"text": "b"}, {"text": "c", "grade": 0}],
    }

    @pytest.mark.parametrize(
        ("measure", "status", "value", "bounds"),
        [
            ("Judged(labels=human)", "ok", 2 / 3, None),
            ("Judged(labels=human)@1", "ok", 1.0, None),
            ("P(labels=human)@3", "incomplete", None, (1 / 3, 2 / 3)),
            ("P(labels=human)@1", "ok", 1.0, None),
            ("P(holes=condensed,labels=human)@2", "ok", 0.5, None),
            ("context_precision(holes=condensed,labels=human)", "ok", 1.0, None),
            ("RR(labels=human)", "ok", 1.0, None),
            ("Success(labels=human)@3", "ok", 1.0, None),
            ("num_ret(labels=human)", "ok", 3.0, None),
        ],
    )
    def test_over_labels_of_people(self, measure, status, value, bounds):
        """An unlabelled place leaves a score open only where it could change it; condensed drops it."""
        (score,) = evaluate([self.HALF], measure).scores()
        assert (score.status, score.value, score.bounds) == (status, value, bounds)

    def test_holes_alone_leave_everything_open(self):
        """Where people labelled nothing of what a measure reads, nobody failed: the score is anything it can be."""
        sample = {"query": "q", "contexts": self.HALF["contexts"][1:]}
        (score,) = evaluate([sample], "P(labels=human)@1").scores()
        assert (score.status, score.bounds) == ("incomplete", (0.0, 1.0))


MEASURES = ["context_precision", "context_position", "context_relevance", "nDCG", "RR"]


@given(st.lists(st.integers(0, 3), min_size=2, max_size=7), st.data())
def test_raising_a_more_relevant_context_never_hurts(grades, data):
    """Swapping a context with a less relevant one directly above it lowers no ranked measure."""
    at = data.draw(st.integers(1, len(grades) - 1))
    if grades[at] <= grades[at - 1]:
        return
    better = [*grades[: at - 1], grades[at], grades[at - 1], *grades[at + 1 :]]
    samples = [{"id": str(n), "query": "q", "contexts": [{"text": f"{g}-{i}", "grade": g} for i, g in enumerate(row)]}
               for n, row in enumerate((grades, better))]  # fmt: skip
    names = [f"{name}(labels=human)" for name in MEASURES]
    values: dict[str, list[float]] = {}
    for score in evaluate(samples, names).scores():
        assert score.value is not None
        values.setdefault(score.measure, []).append(score.value)
    for low, high in values.values():
        assert 0.0 <= low <= high + 1e-12 <= 1.0 + 2e-12


@pytest.mark.parametrize(("contexts", "value"), [
    ([{"text": "a", "relevant": True}, {"text": "b", "grade": 2}], 7 / 8 + 1 / 8 * 7 / 8 / 2),
    ([{"text": "a", "grade": 3}, {"text": "b", "relevant": True}, {"text": "c", "grade": 1}], 7 / 8 + 1 / 8 * 7 / 8 / 2),
])  # fmt: skip
def test_grades_beside_yes_or_no_stop_the_reader_alike(contexts, value):
    """Where labels of a sample are on two scales all count as yes or no, in ERR as in nDCG."""
    (score,) = evaluate([{"query": "q", "contexts": contexts}], "ERR(labels=human)").scores()
    assert score.value == pytest.approx(value)


@pytest.mark.parametrize("texts", ["abb", "abab"])
def test_one_passage_twice_has_one_missing_label(texts):
    """Copies of a passage that nobody labelled are tried together: their label will be one."""
    contexts = [{"text": text, "grade": 3} if text == "a" else {"text": text} for text in texts]
    (score,) = evaluate([{"query": "q", "contexts": contexts}], "context_precision(labels=human)").scores()
    found = (score.value, score.bounds)
    assert found == ((1.0, None) if texts == "abb" else (None, (pytest.approx((1 + 2 / 3) / 2), 1.0)))
