"""Labels of several people, and of those who cannot tell: shares, mean gains, order per person, bounds."""

from __future__ import annotations

import json
import random
from pathlib import Path
from time import process_time

import numpy as np
import pytest

from germane.labelling.audit import audit_judge
from germane.measures.declaration import graders_of
from germane.measures.measure import Measure
from germane.measures.outcome import Outcome
from germane.measures.scoring import Block, Job
from germane.places.lists import Settings
from germane.places.places import Places
from germane.questions.asking import replay
from germane.reports.report import Report
from germane.tables.labels import Label, LabelBook, relevance_item
from germane.types import Context, FrozenDict, Sample
from tests.command import invoke
from tests.labelling.made import QUERIES, report_at, truth_of

DESIGN = FrozenDict(design="passages", seed=0, budget=99, probability=0.5)
REL = "context_relevancy(unit=context)"


def said(answers: dict[str, dict[str, int | None]]) -> LabelBook:
    """The labels that people gave to the passages a, b, ... of the query q; None = unsure."""
    return LabelBook(
        Label(item=relevance_item("q", text), kind="relevance", answer=answer, scale="graded", who=who,
              reason=None if answer is not None else "unsure")
        for who, given in answers.items()
        for text, answer in given.items()
    )  # fmt: skip


def outcome(measure: str, texts: str, book: LabelBook) -> Outcome:
    sample = Sample(id="s", query="q", contexts=tuple(Context(text=text) for text in texts))
    job = Job(sample=sample, graders=graders_of((Measure.parse(measure),)))
    block = Block([job], Settings(labels=book))
    found = block.outcomes([replay(program, lambda _: ())[0] for program in block.programs])
    return found[0][str(Measure.parse(measure))]


TWO: dict[str, dict[str, int | None]] = {"ann": {"a": 3, "b": 0, "c": 2}, "ben": {"a": 0, "b": 3, "c": 1}}


@pytest.mark.parametrize(
    ("measure", "value"),
    [
        ("P(labels=human)@3", (2 / 3 + 1 / 3) / 2),  # the share of people whose grade reaches 2
        ("P(labels=human,rel=1)@3", (2 / 3 + 2 / 3) / 2),
        ("context_precision(labels=human)", ((1 + 2 / 3) / 2 + 1 / 2) / 2),  # per person: Y N Y and N Y N
        ("RR(labels=human)", (1 + 1 / 2) / 2),
        ("nDCG(labels=human)", 1.0),  # mean gains 1.5, 1.5, 1.5
    ],
)
def test_everybody_counts(measure: str, value: float) -> None:
    """A threshold is held against each person's grade; gains are averaged first."""
    assert outcome(measure, "abc", said(TWO)).value == pytest.approx(value)


ANN_BOB: dict[str, dict[str, int | None]] = {"ann": {"a": 3, "b": 0, "c": 3}, "bob": {"a": 0, "b": 3}}


@pytest.mark.parametrize(("more", "value"), [({}, 0.7083), ({"eve": {"c": 0}}, 0.6667)])
def test_a_missing_label_is_the_share_of_the_others(
    more: dict[str, dict[str, int | None]], value: float
) -> None:
    """Persons go by name: context precision is the expectation over the passages that a person did not label."""
    found = outcome("context_precision(labels=human)", "abc", said({**ANN_BOB, **more}))
    assert found.value == pytest.approx(value, abs=5e-5)


def test_many_raters_are_read_once_each() -> None:
    """Passages with 5, 7, 8, 9, 11 and 13 raters need 13 rankings, not their least common multiple."""
    book = said({f"r{n}": {text: 3 * ((n + at) % 2) for at, text in enumerate("abcdef") if n < (5, 7, 8, 9, 11, 13)[at]}
                 for n in range(13)})  # fmt: skip
    started = process_time()
    assert 0 < (outcome("context_precision(labels=human)", "abcdef", book).value or 0) < 1
    assert process_time() - started < 1


def test_people_who_saw_different_passages() -> None:
    """Each passage's share is over those who labelled it: one, two or three people."""
    book = said({"ann": {"a": 3}, "ben": {"a": 0, "b": 3}, "cat": {"a": 3, "b": 3, "c": 0}})
    assert outcome("P(labels=human)@3", "abc", book).value == pytest.approx((2 / 3 + 1 + 0) / 3)


def test_being_unsure_is_a_bound() -> None:
    """Who cannot tell might have said anything; a passage of which everybody is unsure is no passage without relevance."""
    one = outcome("P(labels=human)@2", "ab", said({"ann": {"a": 3, "b": None}, "ben": {"a": 3, "b": 3}}))
    assert one.status == "incomplete"
    assert one.bounds == pytest.approx((0.75, 1.0))
    none = outcome("P(labels=human)@2", "ab", said({"ann": {"a": None, "b": 3}}))
    assert none.bounds == pytest.approx((0.5, 1.0))


def test_a_single_ranking_for_one_person() -> None:
    """Nothing is repeated where nobody disagrees."""
    sample = Sample(id="s", query="q", contexts=(Context(text="a"), Context(text="b")))
    settings = Settings(labels=said({"ann": {"a": 3, "b": 0}}))
    places = Places(Measure.parse("P(labels=human)@2").choice, settings)
    places.add([sample])
    assert len(places.pointers) == 2


def labelled(path: Path, people: int, *, unsure: float = 0.0, noise: int = 1) -> tuple[Report, float]:
    """A report of which half of everything was drawn; each person is off by up to `noise` grades, unbiased at the threshold."""
    report, rng = report_at(path, REL), random.Random(5)
    rows = []
    for row in list(report.places())[::2]:
        (sample,) = (s for s in report.samples() if s.id == row.sample)
        text = (sample.contexts or ())[(row.rank or 1) - 1].text
        for who in range(people):
            flipped = rng.random() < 0.2 * noise
            answer: int | None = truth_of(text)
            answer = (3 - answer if answer is not None else 0) if flipped else answer
            answer = None if rng.random() < unsure else answer
            rows.append(
                Label(item=row.item, kind="relevance", answer=answer, scale="graded", who=f"p{who}", queue="random",
                      design=DESIGN, blind=True, reason=None if answer is not None else "unsure", sample=row.sample)
            )  # fmt: skip
    report.tables.append_labels(rows)
    votes = [float((row.answer or 0) >= 2) for row in rows if row.answer is not None]
    return Report.open(path), float(np.mean(votes))


def test_two_people_are_not_their_lower_median(tmp_path: Path) -> None:
    """The labels' own mean is the share of all votes, not of the passages that both call relevant."""
    report, share = labelled(tmp_path / "r", 2)
    found = report[REL].corrected
    assert found is not None
    assert found.human == pytest.approx(share)
    assert audit_judge(report).as_json()["kinds"][0]["n"] == 2 * found.labels  # the audit counts each label


def test_unsure_is_counted_in_the_corrected_mean(tmp_path: Path) -> None:
    """The interval covers what the unsure ones could be; --json says how many they are."""
    sure, _ = labelled(tmp_path / "sure", 1)
    unsure, _ = labelled(tmp_path / "unsure", 1, unsure=0.3)
    one, other = sure[REL].corrected, unsure[REL].corrected
    assert one is not None
    assert other is not None
    assert one.ends is not None
    assert other.ends is not None
    assert other.unsure > 0
    assert other.labels + other.unsure == one.labels == QUERIES * 3
    assert np.ptp(other.ends) > np.ptp(one.ends)
    assert unsure.to_json()["measures"][REL]["corrected"]["unsure"] == other.unsure


@pytest.mark.parametrize("source", ["human", "judge"])
def test_who_labelled_the_sample_does_not_depend_on_the_measures_of_the_run(
    tmp_path: Path, source: str
) -> None:
    """Eve, who only labelled the third passage, is one of the sample's people at every cut-off."""
    contexts = [{"id": f"p{n}", "text": f"t{n}"} for n in (1, 2, 3)]
    labels = ["sample,id,relevant,who", "s,p1,true,ann", "s,p2,false,ann", "s,p1,false,bob", "s,p2,true,bob"]
    (tmp_path / "l.csv").write_text("\n".join([*labels, "s,p3,false,eve"]))
    (tmp_path / "s.jsonl").write_text(json.dumps({"id": "s", "query": "q", "contexts": contexts}))
    scores = list[float]()
    for more in ([], [f"RR(labels={source})"], [f"context_precision(labels={source})"]):
        measures = " ".join([f"context_precision(labels={source})@2", *more])
        arguments = [
            "run",
            tmp_path / "s.jsonl",
            "--judge",
            "labels",
            "--labels",
            tmp_path / "l.csv",
            "-m",
            measures,
        ]
        ran = invoke(*arguments, "--no-cache", "--json", "-o", tmp_path / str(len(scores)))
        scores.append(json.loads(ran.out)["scores"][0]["value"])
    assert scores == [pytest.approx((1 + 0.5 + (1 + 1 + 0.5 + 0) / 4) / 3)] * 3
