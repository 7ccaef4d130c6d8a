"""The audit of a judge: against people, itself and how it was asked."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from sklearn.metrics import cohen_kappa_score

from germane import evaluate
from germane.judges import Judge
from germane.judges.judge import Reply
from germane.labelling.audit import audit_document, audit_judge
from germane.labelling.queue import LabellingSession, LabelQueue, LabelTask, label_tasks
from germane.questions.question import AnyQuestion
from germane.reports.report import Report
from germane.show.table import document_lines
from germane.types import FrozenDict
from tests.labelling.made import PASSAGES, QUERIES, GradeJudge, keep, report_at, truth_of


def label(report: Report, who: str = "ann", add: int = 0, scale: str = "graded", **how: Any) -> Report:
    session = LabellingSession(LabelQueue(tasks=label_tasks(report), **how), who, keep(report), scale=scale)
    while (one := session.next) is not None:
        session.answer(_said(one, add, scale))
    assert report.folder is not None
    return Report.open(report.folder)


def _said(task: LabelTask, add: int, scale: str) -> int:
    grade = min(3, truth_of(task.passages[0]) + add)
    return grade if scale == "graded" else grade >= 2


def test_the_judge_is_held_against_people(tmp_path: Path) -> None:
    """Kappas are scikit-learn's, beside the base rate, the confusion and the bias of the mean."""
    report = label(report_at(tmp_path / "r", systems=("a", "b")))
    found = audit_judge(report).as_json()
    (line,) = found["kinds"]
    tasks = label_tasks(report)
    judge, people = [int(t.verdict) for t in tasks], [truth_of(t.passages[0]) for t in tasks]
    assert (line["kind"], line["scale"], line["n"], line["queries"]) == (
        "relevance",
        "graded",
        len(tasks),
        QUERIES,
    )
    assert line["kappa"] == pytest.approx(cohen_kappa_score(judge, people))
    assert line["kappa_quadratic"] == pytest.approx(cohen_kappa_score(judge, people, weights="quadratic"))
    assert line["raw"] == pytest.approx(sum(map(int.__eq__, judge, people)) / len(tasks))
    assert line["bias"]["mean"] == pytest.approx((sum(judge) - sum(people)) / len(tasks))
    low, high = line["bias"]["interval"]
    assert low < line["bias"]["mean"] < high
    assert sum(map(sum, line["confusion"]["people_by_judge"])) == len(tasks)
    assert line["illegal"] == {}
    assert json.loads(json.dumps(found)) == found
    text = "".join(document_lines(audit_document(audit_judge(report))))
    assert "Cohen's kappa" in text
    assert "people \\ judge" in text


def test_chosen_labels_are_not_counted_unless_asked_for(tmp_path: Path) -> None:
    """Targeted labels say how the judge does where it is doubtful."""
    report = label(report_at(tmp_path / "r"), queue="targeted", budget=10)
    found = audit_judge(report).as_json()
    assert found["kinds"] == []
    assert "10 labels are not counted" in found["warnings"][0]
    assert audit_judge(report, every=True).as_json()["kinds"][0]["n"] == 10


def test_a_yes_is_compared_with_a_grade_as_a_yes(tmp_path: Path) -> None:
    """Two scales have only the binary one in common."""
    found = audit_judge(label(report_at(tmp_path / "r"), scale="binary", budget=30)).as_json()
    assert [(line["scale"], line["n"]) for line in found["kinds"]] == [("binary", 30)]


class Wavering(GradeJudge):
    """Asked again it gives one more now and then."""

    name = "wavering"
    identity = FrozenDict(model="openai/gpt-5-mini", judge="wavering")

    def __init__(self) -> None:
        self.asked = 0

    async def answer(self, questions: Sequence[AnyQuestion]) -> Sequence[Reply]:
        replies = []
        for question in questions:
            reply = self.one(question)
            self.asked += 1
            if "replica" in question.kind or self.asked > QUERIES * PASSAGES:
                reply.payload["grade"] = min(3, reply.payload["grade"] + self.asked % 2)
            replies.append(reply)
        return replies


class Mute(Judge):
    name = "mute"

    async def answer(self, questions: Sequence[AnyQuestion]) -> Sequence[Reply]:
        return [Reply(error="no answer") for _ in questions]


def test_an_audit_without_labels_says_what_to_do(tmp_path: Path) -> None:
    """And counts what the judge did not answer."""
    warnings = audit_judge(report_at(tmp_path / "r", "context_relevance", judge=Mute())).as_json()["warnings"]
    assert warnings[0].startswith("there are no people's labels to compare the judge with; run germane label")
    assert (
        warnings[1]
        == f"{QUERIES * PASSAGES} questions to the judge have no usable answer (relevance); run germane run --resume REPORT"
    )


def test_an_audit_without_a_judge_says_so(tmp_path: Path) -> None:
    """Labels would help nothing where only gold was read."""
    row = {"query": "q", "qrels": {"a": 1}, "contexts": [{"id": "a", "text": "x"}]}
    audit = audit_judge(evaluate([row], "RR", folder=tmp_path / "r"))
    assert [warning.split(",")[0] for warning in audit.warnings] == ["no judge was asked"]
    assert audit_document(audit)[0] == "# Audit without a judge"


class Beyond(GradeJudge):
    """Grades 5 where it should say 3."""

    def one(self, question: AnyQuestion) -> Reply:
        reply = super().one(question)
        return Reply(payload={"grade": 5, "reasoning": ""}) if reply.payload["grade"] == 3 else reply


def test_grades_outside_the_scale_are_told_and_not_clipped(tmp_path: Path) -> None:
    """They are errors in the scores, and grades of their own in the agreement."""
    report = label(report_at(tmp_path / "r", "context_relevance", judge=Beyond()))
    found = audit_judge(report).as_json()
    (line,) = found["kinds"]
    threes = sum("judge=3" in task.passages[0] for task in label_tasks(report))
    assert line["illegal"] == {"5": threes}
    assert line["confusion"]["grades"] == [0, 1, 2, 3, 5]
    assert f"relevance: the judge gave grades outside the scale: 5 ({threes})" in found["warnings"]


def test_labels_of_one_grade_do_not_condemn_a_judge(tmp_path: Path) -> None:
    """Kappa is 0 then, whatever the judge says: that is what the warning names."""
    report = report_at(tmp_path / "r")
    session = LabellingSession(LabelQueue(tasks=label_tasks(report)), "ann", keep(report), scale="graded")
    while session.next is not None:
        session.answer(3)
    warnings = audit_judge(Report.open(tmp_path / "r")).warnings
    assert warnings == ["relevance: people's labels are all equal, so kappa cannot rate the judge"]
