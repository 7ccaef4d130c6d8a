"""Judged means corrected with people's labels: which labels count, what is estimated, and what is refused."""

from collections.abc import Callable
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from msgspec.structs import replace

import germane
from germane.evaluation.evaluate import rescore
from germane.judges.judge import Reply
from germane.labelling.audit import audit_judge
from germane.labelling.queue import LabellingSession, LabelQueue, LabelTask, label_tasks
from germane.measures import parse_measures
from germane.questions.question import AnyQuestion
from germane.questions.relevance import Relevance
from germane.reports.report import Report
from germane.reports.summary import corrected_in_words
from germane.statistics.correction import POPULATIONS, Design
from germane.testing import FakeJudge
from tests.labelling.made import PASSAGES, QUERIES, GradeJudge, keep, report_at, rows, truth_of
from tests.statistics.test_correction import corrected_query_mean

REL = "context_relevancy(unit=context)"


def label(
    report: Report, budget: int | None = None, of: Callable[[LabelTask], Any] | None = None, **how: Any
) -> Report:
    """The report after a person labelled it; `of` says what they answer."""
    kind = how.pop("kind", "relevance")
    queue = LabelQueue(tasks=label_tasks(report, kind), budget=budget, **how)
    scale = "graded" if kind == "relevance" else "binary"
    session = LabellingSession(queue, "ann", keep(report), report.labels(), scale=scale)
    while (one := session.next) is not None and session.done < queue.size:
        session.answer(of(one) if of else truth_of(one.passages[0]))
    assert report.folder is not None
    return Report.open(report.folder)


def people_mean(systems: tuple[str, ...] = ("",), system: str = "") -> float:
    mine = [row for row in rows(systems) if row["system"] == system]
    return float(np.mean([truth_of(one["text"]) >= 2 for row in mine for one in row["contexts"]]))


def test_labels_on_some_passages_correct_the_mean(tmp_path: Path) -> None:
    """The same numbers as the estimator on arrays; the mean is calibrated and says so in a sentence."""
    report = report_at(tmp_path / "r")
    assert report[REL].corrected is None
    assert report[REL].corrected_why == "no human labels"
    assert not report[REL].basis.calibrated
    report = label(report, 48)
    found = report[REL].corrected
    assert found is not None
    assert (found.labels, found.total, found.queries) == (48, QUERIES * PASSAGES, QUERIES)
    given = {one.item: one.answer for one in report.labels()}
    tasks = label_tasks(report)
    judged = np.array([task.verdict >= 2 for task in tasks], float)
    known = np.array([given[t.item] >= 2 if t.item in given else np.nan for t in tasks], float)
    of_set, expected = (
        corrected_query_mean(
            judged,
            known,
            [task.sample for task in tasks],
            proxy=[task.verdict for task in tasks],
            population=population,
            value_range=(0, 1),
        )
        for population in POPULATIONS
    )
    assert found.mean == pytest.approx(expected.mean)
    assert found.ends == pytest.approx(expected.ends)
    assert found.set_ends == pytest.approx(of_set.ends)
    assert found.ends is not None
    assert found.set_ends is not None
    assert found.ends[0] < found.set_ends[0] < found.set_ends[1] < found.ends[1]
    (words,) = corrected_in_words([report[REL]])
    assert words.endswith("for queries like these)")
    assert report[REL].basis.calibrated
    line = report.to_json()["measures"][REL]
    assert line["corrected"] is not None
    assert line["corrected"]["mean"] == found.mean
    assert line["basis"]["calibrated"]
    assert "with people's labels on 48 of 72" in " ".join(str(report).split())


def test_the_corrected_mean_is_people_s_and_not_the_judge_s(tmp_path: Path) -> None:
    """Over many draws the corrected means lie around people's own; the judge's lies elsewhere."""
    report = report_at(tmp_path / "r", "context_relevance")
    truth, found, inside = people_mean(), [], 0
    for seed in range(12):
        again = label(report, 36, seed=seed)
        one = again[REL].corrected
        assert one is not None
        assert one.mean is not None
        assert one.ends is not None
        found.append(one.mean)
        inside += one.ends[0] <= truth <= one.ends[1]
        (tmp_path / "r" / "labels.jsonl").write_bytes(b"")
    assert np.mean(found) == pytest.approx(truth, abs=0.03)
    assert inside >= 10
    assert report[REL].mean == pytest.approx(truth + 0.11, abs=0.04)


class YesNoJudge(GradeJudge):
    """Answers yes or no."""

    def one(self, question: AnyQuestion) -> Reply:
        reply = super().one(question)
        if not isinstance(question, Relevance):
            return reply
        assert question.scale == "binary"
        relevant = int(question.passage.split("judge=")[1][0]) >= 2
        return Reply(payload={"relevant": relevant, "reasoning": ""})


def test_a_yes_or_no_judge_is_corrected_by_grades(tmp_path: Path) -> None:
    """With everything labelled, the corrected mean is people's; the judge's mean is a number too."""
    answers = [dict(row) for row in rows()]
    made = germane.evaluate(answers, f"{REL} P(labels=judge)@6", judge=YesNoJudge(), scale="binary")
    made.save(tmp_path / "r")
    report = label(Report.open(tmp_path / "r"))
    for measure in (REL, "P(labels=judge)@6"):
        found = report[measure].corrected
        assert found is not None, report[measure].corrected_why
        assert found.mean == pytest.approx(people_mean())
        assert found.ends is not None
        assert all(map(isfinite, found.ends))


def test_cut_offs_and_systems_have_their_own_passages(tmp_path: Path) -> None:
    """P@3 rests on the first three passages of its own system, whatever was labelled of others."""
    report = label(report_at(tmp_path / "r", "P(labels=judge)@3 P(labels=judge)@9", systems=("a", "b")))
    for system in ("a", "b"):
        found = report["P(labels=judge)@3", system].corrected
        assert found is not None
        assert found.total == 3 * QUERIES
        mine = [row for row in rows(("a", "b")) if row["system"] == system]
        truth = np.mean([truth_of(one["text"]) >= 2 for row in mine for one in row["contexts"][:3]])
        assert found.mean == pytest.approx(truth)
        longer = report["P(labels=judge)@9", system].corrected
        assert longer is not None
        assert longer.mean == pytest.approx(people_mean(("a", "b"), system) * PASSAGES / 9)


def test_everything_labelled_leaves_no_doubt(tmp_path: Path) -> None:
    """Whatever queue the labels come from: nothing was chosen. Measures of order are corrected as well."""
    report = label(report_at(tmp_path / "r"), queue="targeted")
    found = report[REL].corrected
    assert found is not None
    assert found.method == "labels of all"
    assert found.mean == pytest.approx(people_mean())
    assert found.set_ends == (found.mean, found.mean)
    assert found.ends is not None
    assert found.mean is not None
    assert found.ends[0] < found.mean < found.ends[1]
    line = report.to_json()["measures"][REL]["corrected"]
    assert line is not None
    assert (line["estimand"], line["set_interval"]) == ("queries", [found.mean, found.mean])
    ordered = report["context_precision"].corrected
    human = rescore(report.folder or "", parse_measures(["context_precision(labels=human)"])).summaries[0]
    assert ordered is not None
    assert ordered.mean == pytest.approx(human.mean)


@pytest.mark.parametrize("design", ["passages", "queries"])
def test_people_who_differ_leave_a_measure_of_one_grade_uncorrected(tmp_path: Path, design: Design) -> None:
    """The report opens, says why, and corrects its other means."""
    report = report_at(tmp_path / "r", f"{REL} ERR(labels=judge)@5 nDCG(labels=judge,dcg=exp-log2)@5")
    label(report, design=design)
    tasks = label_tasks(report)
    session = LabellingSession(LabelQueue(tasks=tasks, budget=None, design=design), "bob", keep(report), [])
    while (one := session.next) is not None and session.done < len(tasks):
        session.answer(3 - truth_of(one.passages[0]))
    report = Report.open(tmp_path / "r")
    assert report[REL].corrected is not None
    for line in report.summaries:
        if line.measure != REL:
            assert line.corrected is None
            why = "2**grade" if design == "queries" else "label whole queries"
            assert why in (line.corrected_why or "")


@pytest.mark.parametrize(
    "measure", ["ERR(labels=human)@6", "nERR(labels=human)@6", "nDCG(labels=human,dcg=exp-log2)@6"]
)
def test_one_person_who_is_unsure_bounds_a_measure_of_one_grade(tmp_path: Path, measure: str) -> None:
    """Nobody differs, so it is no error; two people who agree have the score of one."""
    report = label(report_at(tmp_path / "r"))
    (one,) = rescore(tmp_path / "r", parse_measures([measure])).summaries
    labels = list(report.labels())
    keep(report)(replace(labels[0], who="bob"))
    (two,) = rescore(tmp_path / "r", parse_measures([measure])).summaries
    assert (two.mean, two.n) == (one.mean, QUERIES)
    keep(report)(replace(labels[-1], answer=None, at="2999-01-01T00:00:00+00:00"))
    (unsure,) = rescore(tmp_path / "r", parse_measures([measure])).summaries
    assert (unsure.errors, unsure.incomplete) == (0, 1)
    assert unsure.mean_bounds is not None
    assert unsure.mean_bounds[0] <= (one.mean or 0) <= unsure.mean_bounds[1]


def test_measures_that_labels_cannot_correct_say_so(tmp_path: Path) -> None:
    """Statements have no labels, whoever labels passages."""
    report = label(report_at(tmp_path / "r", f"{REL} context_relevancy", judge=FakeJudge()))
    assert report[REL].corrected is not None
    assert report["context_relevancy"].corrected_why == "people's labels cannot correct this measure"


def test_chosen_labels_correct_nothing(tmp_path: Path) -> None:
    """Targeted labels are where the judge is doubtful: their mean is not a mean of all."""
    report = label(report_at(tmp_path / "r"), 40, queue="targeted")
    assert report[REL].corrected is None
    assert report[REL].corrected_why == "no labels were drawn at random"
    assert "not corrected: no labels were drawn at random" in str(report)


def test_a_measure_of_order_needs_whole_queries(tmp_path: Path) -> None:
    """Some passages of each query do not give it; whole queries do, and give means over passages, too."""
    report = label(report_at(tmp_path / "r"), 30)
    assert report["context_precision"].corrected is None
    assert "label whole queries" in (report["context_precision"].corrected_why or "")
    (tmp_path / "r" / "labels.jsonl").write_bytes(b"")
    report = label(report, 10 * PASSAGES, design="queries")
    for name in ("context_precision", REL):
        found = report[name].corrected
        assert found is not None
        assert (found.queries, found.labels) == (10, 60)
        assert found.mean is not None
        assert found.mean < (report[name].mean or 0)


@pytest.mark.parametrize(("queries", "have"), [(3, "3 queries"), (1, "1 query")])
def test_few_whole_queries_are_too_few(tmp_path: Path, queries: int, have: str) -> None:
    """Why is said in the unit that was drawn."""
    report = label(report_at(tmp_path / "r"), queries * PASSAGES, design="queries")
    assert report[REL].corrected_why == f"{have} labelled whole: at least 10 are needed"


def test_labels_of_relevance_correct_no_measure_of_claims(tmp_path: Path) -> None:
    """Kinds must match; labels on claims do correct it."""
    report = label(report_at(tmp_path / "r", "context_recall context_relevance"), 40)
    assert report["context_recall"].corrected is None
    assert "people labelled relevance" in (report["context_recall"].corrected_why or "")
    report = label(report, 30, kind="support", of=lambda task: task.claim == "a yes")
    found = report["context_recall"].corrected
    assert found is not None
    assert (found.labels, found.total) == (30, 3 * QUERIES)
    assert found.mean == pytest.approx(1 / 3, abs=0.1)
    assert report[REL].corrected is not None


def test_gates_stand_on_the_corrected_mean(tmp_path: Path) -> None:
    """On it and on the ends of its interval; without labels they are undecided, and labels decide without a judge."""
    gates = [
        f"corrected({REL})>=0.3",
        f"lower(corrected({REL}))>=0.01",
        f"upper(corrected({REL}))<=0.2",
        f"{REL}>=0.2",
    ]
    report = report_at(tmp_path / "r", "context_relevance", gates=gates)
    assert [gate.outcome for gate in report.verdict.gates] == ["undecided"] * 3 + ["passed"]
    assert report.verdict.exit_code == 3
    assert report.verdict.gates[0].detail.startswith(
        f"{REL} has no corrected mean: no human labels; measured on 12 of"
    )
    assert "uncalibrated" in report.verdict.gates[3].detail
    report = label(report, 48)
    assert [gate.outcome for gate in report.verdict.gates] == ["passed", "passed", "failed", "passed"]
    assert "48 labels" in report.verdict.gates[0].detail
    assert "uncalibrated" not in report.verdict.gates[3].detail
    again = rescore(report.folder or "", parse_measures(["context_relevance"]), gates=gates[:1])
    assert again.verdict.exit_code == 0


def test_scoring_again_keeps_people_s_labels(tmp_path: Path) -> None:
    """labels=human and labels=best read them by item, and the new report holds them."""
    label(report_at(tmp_path / "r"))
    measures = parse_measures(["P(labels=human)@6", "P(labels=best)@6", "context_relevance"])
    again = rescore(tmp_path / "r", measures)
    assert again["P(labels=human)@6"].mean == pytest.approx(people_mean())
    assert again["P(labels=best)@6"].mean == pytest.approx(people_mean())
    again.save(tmp_path / "s")
    kept = Report.open(tmp_path / "s")
    assert len(list(kept.labels())) == QUERIES * PASSAGES
    assert kept[REL].corrected is not None


def test_a_label_taken_back_counts_no_more(tmp_path: Path) -> None:
    """Nor does one of a person who is unsure."""
    report = label(report_at(tmp_path / "r", "context_relevance"), 30)
    last = list(report.labels())[-1]
    keep(report)(replace(last, answer=None, reason="taken back", at="2999-01-01T00:00:00+00:00"))
    found = Report.open(tmp_path / "r")[REL].corrected
    assert found is not None
    assert found.labels == 29


@pytest.mark.parametrize("people", [1, 2])
@pytest.mark.parametrize(
    ("design", "budget", "measures"),
    [
        ("passages", 48, (REL, "P(labels=judge)@6")),
        ("passages", QUERIES * PASSAGES, (REL, "context_precision")),
        ("queries", 60, (REL, "context_precision")),
        ("queries", QUERIES * PASSAGES, (REL, "context_precision")),
    ],
)
def test_both_intervals_cover_what_the_unsure_could_say(
    tmp_path: Path, design: str, budget: int, measures: tuple[str, ...], people: int
) -> None:
    """Those for queries like these and for these queries contain the mean, and the means and intervals with "unsure" as 0 and as 1."""

    def labelled(name: str, answer: int | None) -> Report:
        """The report with `answer` in place of the grade 1 of the first person."""
        report = report_at(tmp_path / name)
        texts = {task.item: task.passages[0] for task in label_tasks(report)}

        def said(task: LabelTask) -> int | None:
            truth = truth_of(task.passages[0])
            return answer if truth == 1 else truth

        report = label(report, budget, said, design=design)
        for one in list(report.labels()) if people == 2 else ():
            keep(report)(replace(one, who="ben", answer=truth_of(texts[one.item]), reason=None))
        return Report.open(tmp_path / name)

    open_, least, most = labelled("open", None), labelled("least", 0), labelled("most", 3)
    for name in measures:
        found, low, high = (report[name].corrected for report in (open_, least, most))
        assert found is not None
        assert low is not None
        assert high is not None
        assert found.set_ends is not None
        assert found.unsure > 0
        assert low.mean < high.mean
        for ends in ("ends", "set_ends"):
            (from_, to), first, last = (getattr(mean, ends) for mean in (found, low, high))
            assert from_ <= min(first[0], last[0])
            assert to >= max(first[1], last[1])
            assert from_ <= min(low.mean, found.mean) < max(high.mean, found.mean) <= to
        assert found.ends[0] <= found.set_ends[0] < found.set_ends[1] <= found.ends[1]


def test_sufficiency_is_labelled_and_corrected_query_by_query(tmp_path: Path) -> None:
    """One verdict per query: labels of its kind correct its mean, and the audit holds the judge against them."""
    report = report_at(tmp_path / "r", "context_sufficiency context_relevance")
    tasks = label_tasks(report, "sufficiency")
    assert len(tasks) == QUERIES
    assert len(tasks[0].passages) == PASSAGES
    report = label(report, 11, kind="sufficiency", of=lambda task: "truth=3" in task.passages[0])
    found = report["context_sufficiency"].corrected
    assert found is not None
    assert (found.labels, found.total, found.queries) == (11, QUERIES, 11)
    assert "people labelled sufficiency" in (report[REL].corrected_why or "")
    (line,) = (one for one in audit_judge(report).as_json()["kinds"] if one["kind"] == "sufficiency")
    assert (line["n"], line["scale"]) == (11, "binary")


class SilentOnce(GradeJudge):
    """Has no answer for one passage."""

    def one(self, question: AnyQuestion) -> Reply:
        lost = isinstance(question, Relevance) and "passage 3.2 " in question.passage
        return Reply(error="no answer") if lost else super().one(question)


def test_a_missing_verdict_leaves_the_corrected_mean_in_doubt(tmp_path: Path) -> None:
    """The query could have any score: a gate on the mean, or on an end of its interval, is undecided if that decides."""
    report = label(report_at(tmp_path / "r", "context_relevance", judge=SilentOnce()))
    found = report[REL].corrected
    assert found is not None
    low, high = found.mean * (QUERIES - 1) / QUERIES, (found.mean * (QUERIES - 1) + 1) / QUERIES
    outcomes = {}
    for limit in (low - 0.01, found.mean - 0.01, high + 0.01):
        again = rescore(tmp_path / "r", parse_measures(["context_relevance"]), gates=[f"{REL}>={limit}"])
        (gate,) = again.verdict.gates
        outcomes[gate.outcome] = gate.detail
    assert list(outcomes) == ["passed", "undecided", "failed"]
    assert f"could be {low:.4f} to {high:.4f} once everything is judged" in outcomes["undecided"]
    end = rescore(
        tmp_path / "r", parse_measures(["context_relevance"]), gates=[f"lower({REL})>={found.ends[0]}"]
    )
    assert [gate.outcome for gate in end.verdict.gates] == ["undecided"]
