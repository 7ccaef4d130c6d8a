"""Gates and the verdict: decided by what was measured and by what could still change."""

from typing import Any

import pytest

from germane import evaluate
from germane.errors import InputError
from germane.reports.gates import Gate, GateResult, check_gate, decide
from germane.reports.summary import MeasureSummary, summarise
from germane.tables.cases import CaseScores
from germane.tables.scores import ScoreTable
from germane.types import Score


def found(*counts: int) -> list[dict[str, Any]]:
    """Queries for which so many of the first twenty documents are relevant."""
    rows = list[dict[str, Any]]()
    for n, count in enumerate(counts):
        gold = {"lost": 1, **{f"d{rank}": 1 for rank in range(count)}}
        contexts = [{"id": f"d{rank}"} for rank in range(20)]
        rows.append({"query": f"q{n}", "contexts": contexts, "qrels": gold, "tags": ["a"]})
    return rows


def score(sample: str, value: float | None, **more: Any) -> Score:
    status: Any = "ok" if value is not None else more.pop("status", "error")
    why = None if value is not None else "for a reason"
    return Score(sample=sample, measure="RR", type="RR", value=value, status=status, why=why, **more)


def check(gate: str, *scores: Score) -> GateResult:
    (result,) = check_gate(Gate.parse(gate), summarise(scores), CaseScores(ScoreTable(scores)), ())
    return result


def summary(*scores: Score) -> list[MeasureSummary]:
    return summarise(scores)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("mean(nDCG@10)>=0.7", "mean(nDCG@10)>=0.7"),
        ("ndcg_cut_10 >= 70%", "mean(nDCG@10)>=0.7"),
        ("max( leaks ) = 0", "max(leaks)=0"),
        ("min(P(rel=2)@5)>0.1", "min(P(rel=2)@5)>0.1"),
        ("context_precision gte 0.7", "mean(context_precision)>=0.7"),
        ("max(leaks) lte 0", "max(leaks)<=0"),
        ("min(RR) eq 1", "min(RR)==1"),
        ("share(RR gt 0.5) gte 90%", "share(RR>0.5)>=0.9"),
        ("contextual precision < 1e-1", "mean(contextual precision)<0.1"),
    ],
)
def test_a_gate_parses_and_prints(text: str, shown: str) -> None:
    """Aliases print canonical, percentages are numbers, names of graders pass as they are."""
    assert str(Gate.parse(text)) == shown


@pytest.mark.parametrize(
    "text", ["", "nDCG@10", "mean(nDCG@10>=0.7", "nDCG@10)>=0.7", "nDCG@10>=", "nDCG@10>=x"]
)
def test_what_is_no_gate_is_refused(text: str) -> None:
    """The message says what to write."""
    with pytest.raises(InputError, match=r"write e\.g\. lower"):
        Gate.parse(text)


@pytest.mark.parametrize(
    ("gate", "scores", "outcome"),
    [
        ("mean(RR)>=0.5", [score("a", 1.0), score("b", 0.0)], "passed"),
        ("mean(RR)>0.5", [score("a", 1.0), score("b", 0.0)], "failed"),
        ("mean(RR)>=0.5", [score("a", 1.0), score("b", None)], "passed"),  # 0.5 to 1.0: passes whatever b is
        ("mean(RR)>=0.6", [score("a", 1.0), score("b", None)], "undecided"),
        (
            "mean(RR)>=0.8",
            [score("a", 0.2), score("b", None, status="incomplete", bounds=(0.1, 0.4))],
            "failed",
        ),
        (
            "mean(RR)>=0.3",
            [score("a", 0.2), score("b", None, status="incomplete", bounds=(0.1, 0.4))],
            "undecided",
        ),
        ("max(RR)=0", [score("a", 0.0), score("b", 0.0)], "passed"),
        ("max(RR)=0", [score("a", 0.0), score("b", None)], "undecided"),
        ("min(RR)>=0.5", [score("a", 0.6), score("b", None, status="skipped")], "passed"),
        ("mean(RR)>=0", [score("a", None, status="skipped")], "failed"),
        ("mean(RR)>=0", [score("a", None)], "undecided"),
    ],
)
def test_a_gate_is_decided_by_the_whole_range(gate: str, scores: list[Score], outcome: str) -> None:
    """Missing scores stand anywhere in their bounds: only what holds for all of them is decided."""
    assert check(gate, *scores).outcome == outcome


def test_a_gate_on_what_was_not_measured_names_what_was() -> None:
    """A gate can only be about a measured name."""
    with pytest.raises(InputError, match="name one of the measures RR"):
        check("AP>=0.5", score("a", 1.0))
    with pytest.raises(InputError, match=r"write min\(mean\(RR\) by tag\)>=0\.5"):
        check("min(mean(RR by tag))>=0.5", score("a", 1.0))


def test_a_gate_on_mixed_labels_is_refused_before_anything_is_asked() -> None:
    """labels=best is no corrected estimate: it is known from the gate's name."""
    with pytest.raises(InputError, match="labels=best, which mixes"):
        Gate.parse("RR(labels=best)>=0.5").check_named(["RR(labels=best)"])


@pytest.mark.parametrize(
    ("gates", "scores", "code"),
    [
        ([], [score("a", 1.0)], 0),
        (["passed"], [score("a", 1.0)], 0),
        (["failed"], [score("a", 1.0)], 1),
        (["failed", "undecided"], [score("a", 1.0)], 3),
        ([], [score("a", 1.0), score("b", None)], 3),
        ([], [score("a", None, status="skipped")], 2),
        (["failed"], [score("a", None, status="skipped")], 1),
        (["failed", "undecided"], [score("a", None, status="skipped")], 3),
        (["passed"], [score("a", None, status="skipped")], 2),
    ],
)
def test_the_exit_code_follows_the_order_of_precedence(
    gates: list[str], scores: list[Score], code: int
) -> None:
    """2 before 3 before 1 before 0."""
    results = [GateResult(gate="g", outcome=outcome, detail="") for outcome in gates]  # type: ignore[arg-type]
    verdict = decide(results, summary(*scores))
    assert verdict.exit_code == code
    assert verdict.reasons
    assert verdict.passed is (code == 0)


def test_five_per_cent_may_be_missing() -> None:
    """One of twenty is allowed, one of nineteen is not, and the share can be moved."""
    lost = score("lost", None)
    assert decide([], summary(lost, *(score(str(n), 1.0) for n in range(19)))).exit_code == 0
    assert decide([], summary(lost, *(score(str(n), 1.0) for n in range(18)))).exit_code == 3
    assert (
        decide([], summary(lost, *(score(str(n), 1.0) for n in range(18))), max_unmeasured=0.1).exit_code == 0
    )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("lower(nDCG@10) >= 0.7", "lower(nDCG@10)>=0.7"),
        ("lower( mean( nDCG@10 ) ) >= 0.7", "lower(nDCG@10)>=0.7"),
        ("upper(mean(P(rel=2)@5))<0.1", "upper(P(rel=2)@5)<0.1"),
        ("change(ndcg_cut_10) > -2%", "change(nDCG@10)>-0.02"),
    ],
)
def test_a_gate_may_stand_on_an_end_of_the_interval_or_on_the_change(text: str, shown: str) -> None:
    """`lower(mean(M))` is `lower(M)`."""
    assert str(Gate.parse(text)) == shown


def test_a_gate_that_an_interval_cannot_meet_is_refused() -> None:
    """A change is never exactly a number."""
    with pytest.raises(InputError, match="can never pass"):
        Gate.parse("change(RR)=0")


def test_a_gate_on_the_lower_end_fails_where_the_mean_passes() -> None:
    """0.75 of 20 has a lower end of 0.509; where there is no interval it is undecided."""
    scores = [score(str(n), float(n < 15)) for n in range(20)]
    mean, lower, upper = (check(f"{how}(RR)>=0.7", *scores) for how in ("mean", "lower", "upper"))
    assert (mean.outcome, lower.outcome, upper.outcome) == ("passed", "failed", "passed")
    assert lower.detail == (
        "lower end 0.5089 of 0.5089 to 0.9135, for queries like these; measured on 20 of 20 samples"
    )
    assert check("lower(RR)>=0.7", score("a", None, status="skipped")).outcome == "failed"


@pytest.mark.parametrize(
    "gate", ["P@20>=0.4", "P@20<=0.4", "P@20==0.4", "P@20>=40%", "min(mean(P@20) by a)>=0.4"]
)
def test_a_value_exactly_at_the_limit_meets_it(gate: str) -> None:
    """Although the sum of decimal fractions ends just beside it: these twelve add up to 4.8 less 1e-15."""
    counts = 0, 7, 0, 12, 4, 1, 5, 14, 16, 13, 17, 7
    report = evaluate(found(*counts), "P@20", gates=[gate, "P@20>0.4", "P@20<0.4"])
    assert report["P@20"].mean != 0.4
    assert [one.outcome for one in report.verdict.gates] == ["passed", "failed", "failed"]


@pytest.mark.parametrize(
    ("gate", "never"),
    [
        ("P@20>=65", "pass"),
        ("lower(P@20)>1", "pass"),
        ("share(P@20>=0.5)>=65", "pass"),
        ("P@20<=5", "fail"),
        ("P@20>=0.65", ""),
        ("P@20==1", ""),
    ],
)
def test_a_limit_outside_the_measure_s_range_is_noted(gate: str, never: str) -> None:
    """65 in place of 65% can never pass, 5 in place of 5% never fail."""
    (result,) = evaluate(found(4, 18, 14), "P@20", gates=[gate]).verdict.gates
    note = f"it can never {never}: its values are 0 to 1"
    assert (note in result.detail) == bool(never)
    assert ("never" in result.detail) == bool(never)
