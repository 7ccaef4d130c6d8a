"""AgentV's `index.jsonl` under `germane compare`."""

from pathlib import Path

import pytest

from tests.command import invoke

FIXTURES = Path(__file__).parents[2] / "fixtures" / "results"
"""Written by AgentV itself (scripts/result_fixtures.py), from the values of a.csv and b.csv."""


def test_rows_of_agentv_give_the_figures_of_the_values() -> None:
    """Each grader is a measure; a case that was not executed is an error, not a zero."""
    a, b, failed = (FIXTURES / f"agentv-4.42.4-{name}.jsonl" for name in ("a", "b", "failed"))
    expected = invoke("compare", FIXTURES / "a.csv", FIXTURES / "b.csv", "--json").json["comparisons"]
    found = invoke("compare", a, b, "--json").json["comparisons"]
    assert {row["measure"]: row["n"] for row in found} == {"nDCG@10": 8, "RR": 8, "P@5": 8}
    theirs = {row["measure"]: row for row in expected}
    for row in found:
        other = theirs[row["measure"]]
        for name in ("difference", "p", "p_holm", "mde", "interval"):
            assert row[name] == pytest.approx(other[name], abs=1e-12)
    rows = invoke("compare", b, failed, "--json").json["comparisons"]
    assert {(row["n"], row["losses"]) for row in rows} == {(7, 0)}
