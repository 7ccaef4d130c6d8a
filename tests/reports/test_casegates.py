"""Gates on percentiles, shares and slices, each with its number of cases; too small a slice decides nothing."""

from __future__ import annotations

import re

import pytest
from scipy.stats import binom

from germane import evaluate
from germane.errors import InputError
from germane.folder.tables import BlockRows
from germane.reports.gates import Gate
from germane.reports.report import Report
from germane.tables.scores import ScoreTable
from germane.types import FrozenDict, Sample, Score

VALUES = [0.0, 0.1, *[0.5] * 4, *[0.9] * 6]


def verdict(gate: str, values: list[float | None] | None = None) -> tuple[str, str]:
    """What becomes of a gate over twelve cases: six of tag a and language de, five of b, one of c."""
    given = list(VALUES) if values is None else values
    tags = ["a"] * 6 + ["b: x"] * 5 + ["c"]
    part = BlockRows(
        samples=[
            Sample(id=str(n), query="q", tags=(tag,), metadata=FrozenDict(lang="de" if tag == "a" else "en"))
            for n, tag in enumerate(tags)
        ],
        scores=ScoreTable(
            [Score(sample=str(n), measure="RR", type="RR", value=value, status="error" if value is None else "ok",
                   why="no answer" if value is None else None)
             for n, value in enumerate(given)]
        ),
    )  # fmt: skip
    parsed = Gate.parse(gate)
    assert Gate.parse(str(parsed)) == parsed
    (result,) = Report.build(part, {}, gates=[parsed], max_unmeasured=1.0).verdict.gates
    return result.outcome, result.detail


@pytest.mark.parametrize(
    ("gate", "outcome", "shown"),
    [
        ("share(RR>=0.5)>=0.8", "passed", "share 0.8333"),
        ("share(RR >= 0.5) >= 90%", "failed", "share 0.8333"),
        ("min(mean(RR) by tag)>=0.3", "passed", "a 0.3500 (n=6)"),
        ("min(mean(RR) by lang)>=0.4", "failed", "de 0.3500 (n=6)"),
        ("min(mean(RR) by b: x)>=0.5", "failed", "not b: x 0.4286 (n=7), b: x 0.9000 (n=5)"),
        ("max(mean(RR) by tag)<=0.95", "passed", "c 0.9000 (n=1)"),
    ],
)
def test_the_functions_of_gates(gate: str, outcome: str, shown: str) -> None:
    """By numbers that were worked out by hand."""
    found = verdict(gate)
    assert found[0] == outcome
    assert shown in found[1]


def test_each_system_has_its_slices() -> None:
    """A result per system, from the same samples."""
    samples = [Sample(id=str(n), query="q", system=system, tags=("a",)) for system in "xy" for n in range(6)]
    scores = [
        Score(sample=s.id, system=s.system, measure="RR", type="RR", value=float(s.system == "x"))
        for s in samples
    ]
    part = BlockRows(samples=samples, scores=ScoreTable(scores))
    gates = Report.build(part, {}, gates=[Gate.parse("min(mean(RR) by tag)>=0.5")]).verdict.gates
    assert [(one.gate[-3:], one.outcome) for one in gates] == [("[x]", "passed"), ("[y]", "failed")]


def test_what_is_missing_leaves_open_what_hangs_on_it() -> None:
    """A failed case may be anything from 0 to 1."""
    values = [None, *VALUES[1:]]
    assert verdict("share(RR>=0.5)>=0.9", values)[0] == "undecided"
    assert verdict("share(RR>=0.5)>=0.95", values)[0] == "failed"


def test_a_small_slice_decides_nothing() -> None:
    """One case of a tag is no evidence: undecided where it alone would fail the gate."""
    outcome, detail = verdict("min(mean(RR) by tag)>=0.3", [*VALUES[:11], 0.0])
    assert outcome == "undecided"
    assert "c 0.0000 (n=1)" in detail


def test_a_gate_on_slices_says_how_often_chance_fails_it() -> None:
    """As the binomial distribution has it where the slices are alike; not where the mean of all fails too."""
    rows = [
        {"id": f"q{n}", "query": f"q{n}", "qrels": {"d": 1}, "metadata": {"team": f"t{n // 8}"},
         "retrieved_context_ids": ["d" if n % 10 else "x"]} for n in range(240)
    ]  # fmt: skip
    (gate,) = evaluate(rows, "RR", gates=["min(mean(RR) by team)>=0.75"]).verdict.gates
    share = re.search(
        r"if all 30 slices had one true mean, chance would fail it in (\d+)% of sets", gate.detail
    )
    assert share is not None
    assert int(share[1]) == pytest.approx(100 * (1 - float(binom.sf(5, 8, 0.9)) ** 30), abs=4)
    (gate,) = evaluate(rows, "RR", gates=["min(mean(RR) by team)>=0.95"]).verdict.gates
    assert "chance" not in gate.detail


@pytest.mark.parametrize(
    ("gate", "problem"),
    [
        ("median(RR)>=0.5", r"unknown function, median; write one of mean, .*, change, e.g. mean\(RR\)>=0.5"),
        ("min(AP)>=0.5", "names AP, which is not measured; name one of the measures RR"),
        ("min(mean(RR) by team)>=0.5", "metadata field 'team'"),
    ],
)
def test_unknown_names_are_told_what_there_is(gate: str, problem: str) -> None:
    """Functions, measures and fields."""
    with pytest.raises(InputError, match=problem):
        verdict(gate)
