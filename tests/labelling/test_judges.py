"""Which judge: several judges' reports on the same items against the same labels."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest
from msgspec.structs import replace
from sklearn.metrics import cohen_kappa_score

from germane import evaluate
from germane.errors import InputError
from germane.judges import Judge
from germane.judges.judge import Reply
from germane.labelling.audit import audit_judges, judges_document
from germane.labelling.queue import LabellingSession, queue_of
from germane.questions.question import AnyQuestion
from germane.reports.report import Report
from germane.show.table import document_lines
from germane.types import Usage
from tests.labelling.made import keep, report_at, rows, truth_of

REL = "context_relevancy(unit=context)"


class NoisyJudge(Judge):
    """Says what is true, but of a share of the passages, by their place, the opposite."""

    def __init__(self, name: str, wrong: int) -> None:
        self.name, self._wrong = name, wrong

    async def answer(self, questions: Sequence[AnyQuestion]) -> Sequence[Reply]:
        replies = []
        for question in questions:
            passage = question.inputs()["passage"]
            grade = truth_of(passage)
            if sum(map(ord, passage + self.name)) % 10 < self._wrong:
                grade = 3 - grade
            replies.append(Reply(payload={"grade": grade, "reasoning": ""}))
        return replies


class FailingJudge(NoisyJudge):
    """The same, but without an answer on most of what it gets wrong, and on a few others."""

    async def answer(self, questions: Sequence[AnyQuestion]) -> Sequence[Reply]:
        replies = await super().answer(questions)
        return [
            Reply(error="no answer")
            if sum(map(ord, question.inputs()["passage"] + self.name)) % 10 < self._wrong
            else reply
            for question, reply in zip(questions, replies, strict=True)
        ]


def three(path: Path, bad: type[NoisyJudge] = NoisyJudge) -> list[Report]:
    """Reports by a good, a middling and a bad judge, of which the first is labelled."""
    found = [
        report_at(
            path / name,
            REL,
            judge=(bad if name == "bad" else NoisyJudge)(name, wrong),
            samples=rows(),
        )
        for name, wrong in (("good", 1), ("middling", 3), ("bad", 6))
    ]
    session = LabellingSession(queue_of(found[0], budget=60), "ann", keep(found[0]))
    while (one := session.next) is not None:
        session.answer(truth_of(one.passages[0]))
    return [Report.open(one.folder or "") for one in found]


def test_judges_are_held_against_the_same_labels(tmp_path: Path) -> None:
    """Kappa of each as scikit-learn has it, the best, who cannot be told from it, bias and calls."""
    reports = three(tmp_path)
    found = audit_judges(reports).as_json()
    assert found["best"] == "good"
    assert "bad" not in found["not_distinguishable"]
    assert found["items"] == 60
    labels = {label.item: float(label.answer) >= 2 for label in reports[0].labels()}
    for report, line in zip(reports, found["judges"], strict=True):
        grades = {one.item: one.answer["grade"] >= 2 for one in report.judgements()}
        people, judge = zip(*[(labels[item], grades[item]) for item in labels], strict=True)
        assert line["kappa"] == pytest.approx(cohen_kappa_score(people, judge))
        assert line["calls"] == 72
        assert line["bias"]["interval"][0] <= line["bias"]["mean"] <= line["bias"]["interval"][1]
    good, _, bad = found["judges"]
    assert good["difference"] is None
    assert bad["difference"] < 0
    assert bad["distinguishable"]
    assert bad["p"] < 0.05
    text = "".join(document_lines(judges_document(audit_judges(reports))))
    assert "best: good; not distinguishable from it: middling\n" in text


@pytest.mark.parametrize(("price", "cost"), [(0.5, 36.0), (None, None)])
def test_the_price_counts_answers_that_an_earlier_run_paid_for(
    tmp_path: Path, price: float | None, cost: float | None
) -> None:
    """The second report asked nothing, and its 72 verdicts are as dear; an unknown price is not 0."""

    class PricedJudge(NoisyJudge):
        async def answer(self, questions: Sequence[AnyQuestion]) -> Sequence[Reply]:
            used = Usage(requests=1, cost_usd=price)
            return [Reply(payload=reply.payload, usage=used) for reply in await super().answer(questions)]

    reports = [
        evaluate(
            rows(),
            REL,
            judge=PricedJudge("priced", 1),
            folder=tmp_path / name,
            ledger=tmp_path / "ledger.sqlite",
        )
        for name in ("paid", "cached")
    ]
    assert reports[1].judge.calls == 0
    session = LabellingSession(queue_of(reports[0], budget=20), "ann", keep(reports[0]))
    while (one := session.next) is not None:
        session.answer(truth_of(one.passages[0]))
    found = audit_judges([Report.open(one.folder or "") for one in reports]).as_json()
    assert [line["cost_usd"] for line in found["judges"]] == [cost, cost]


def test_failures_do_not_flatter(tmp_path: Path) -> None:
    """A judge without an answer on what it gets wrong has the kappa of one that answers; the others keep theirs."""
    of_honest, of_failing = (
        audit_judges(three(tmp_path / kind.__name__, bad=kind)) for kind in (NoisyJudge, FailingJudge)
    )
    honest, failing = of_honest.as_json(), of_failing.as_json()
    assert failing["items"] == honest["items"] == 60
    assert failing["judges"][:2] == [
        {**line, "report": now["report"]}
        for line, now in zip(honest["judges"], failing["judges"][:2], strict=False)
    ]
    bad, truth = failing["judges"][2], honest["judges"][2]
    assert {line["failed"] for line in honest["judges"]} == {0}
    assert bad["failed"] > 20
    assert bad["n"] == 60
    assert bad["kappa"] == pytest.approx(truth["kappa"])
    assert "bad" not in failing["not_distinguishable"]
    (said,) = [warning for warning in failing["warnings"] if "no usable answer" in warning]
    assert said.startswith(
        f"the judge bad has no usable answer for {bad['failed']} of 60 labels, which count as wrong"
    )
    text = "".join(document_lines(judges_document(of_failing)))
    assert "judge     failed  kappa" in text
    assert said in text


def test_labels_that_do_not_count_have_their_reason(tmp_path: Path) -> None:
    """Labels of a targeted queue were chosen."""
    good, middling, _ = three(tmp_path)
    label = next(iter(good.labels()))
    keep(good)(replace(label, design=None, queue="targeted", who="eve", at="2030-01-01"))
    found = audit_judges([Report.open(one.folder or "") for one in (good, middling)]).as_json()
    assert (
        "1 label is not counted: only labels drawn at random count, not targeted or imported ones; --all counts all"
        in found["warnings"]
    )


def test_reports_without_a_labelled_item_in_common(tmp_path: Path) -> None:
    """Exit code 2 with what to do."""
    one, two = (report_at(tmp_path / str(n), REL, samples=rows(seed=n)) for n in (1, 2))
    with pytest.raises(InputError, match="no passage is both judged in all of these reports"):
        audit_judges([one, two])
