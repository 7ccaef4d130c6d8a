"""`--dry-run`: what a run would ask and cost, without asking, and without leaving anything behind."""

import json
from pathlib import Path

import pytest

from germane.testing import ModelServer
from tests.cli.conftest import Cli, write_jsonl

KEY = {"OPENAI_API_KEY": "test"}


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rows = [
        {
            "id": f"q{n}",
            "query": f"what is thing {n}",
            "reference": f"Thing {n} is good.",
            "qrels": {"d0": 1},
            "contexts": [{"id": f"d{k}", "text": f"thing {n} is {k}"} for k in range(3)],
        }
        for n in range(4)
    ]
    return write_jsonl(tmp_path / "data.jsonl", *rows)


def words(data: Path, measures: str, *more: object) -> list[object]:
    return ["run", data, "-m", measures, "--judge", "openai:test", "--price", "1/2", *more]


def test_nothing_is_left_behind(cli: Cli, data: Path, tmp_path: Path) -> None:
    """No ledger, no folder, no report; a report file that is asked for is refused, not forgotten."""
    ran = cli(*words(data, "context_precision@3", "--dry-run", "--ledger", "l.sqlite"), env=KEY)
    assert ran.code == 0, ran.err
    refused = cli(*words(data, "context_precision@3", "--dry-run", "-o", "x.json"), env=KEY)
    assert refused.code == 2
    assert "x.json" in refused.err
    assert [path.name for path in tmp_path.iterdir()] == ["data.jsonl"]


def test_where_nobody_is_asked_it_is_free(cli: Cli, data: Path) -> None:
    """Gold labels, people's labels: no calls, free, $0."""
    for more in ([], ["--judge", "labels"]):
        measures = "context_precision@3" if more else "nDCG@3"
        assert "in all 0 requests, free" in cli("run", data, "-m", measures, *more, "--dry-run").out
        found = cli("run", data, "-m", measures, *more, "--dry-run", "--json").json
        assert (found["cost_usd"], found["measures"][measures]["calls"]) == (0.0, 0)


def test_shared_requests_and_estimates_are_explained(cli: Cli, data: Path) -> None:
    """Where the lines do not add up to the total it says why; tokens are estimates and look like it."""
    out = cli(*words(data, "context_precision@3 context_relevancy", "--dry-run"), env=KEY).out
    assert "measures share requests" in out
    assert "~tokens out" in out
    assert "a model that reasons writes more" in out
    out = cli(*words(data, "context_precision@3", "--dry-run"), env=KEY).out
    assert "measures share requests" not in out


@pytest.mark.parametrize(("calls", "cost", "reached"), [(11, 0.0001, True), (12, 10, False)])
def test_limits_that_would_be_reached_are_named(
    cli: Cli, data: Path, calls: int, cost: float, reached: bool
) -> None:
    """--max-calls and --max-cost: whether they would stop the run, in words and in JSON."""
    asked = words(data, "context_precision@3", "--dry-run", "--max-calls", calls, "--max-cost", cost)
    out = cli(*asked, env=KEY).out
    assert f"--max-calls {calls} would {'stop this run' if reached else 'be enough'}" in out
    assert f"--max-cost {cost:g} would {'stop this run' if reached else 'be enough'}" in out
    limits = cli(*asked, "--json", env=KEY).json["limits"]
    assert limits == {"max_calls": {"reached": reached}, "max_cost": {"reached": reached}}


def test_a_measure_that_no_sample_can_have_is_found_before_anything_is_paid(
    cli: Cli, data: Path, tmp_path: Path
) -> None:
    """Exit 2 in the dry run and in the run, which asks nobody and leaves no report; one sample that has it is enough."""
    with ModelServer() as server:
        asked = words(data, "context_precision@3 faithfulness", "--base-url", server.url, "-o", "r")
        for more in (["--dry-run"], []):
            ran = cli(*asked, *more, env=KEY)
            assert ran.code == 2
            assert "faithfulness cannot be computed for any sample: no response" in ran.err
        assert server.count == 0
        assert not (tmp_path / "r").exists()
        row = json.loads(data.read_text().splitlines()[0])
        with data.open("a") as file:
            file.write(json.dumps({**row, "id": "last", "response": "Thing 0 is good."}) + "\n")
        assert cli(*asked, "--dry-run", env=KEY).code == 0
        assert cli(*asked, env=KEY).code == 0
