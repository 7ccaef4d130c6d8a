"""`--dry-run`: what a run would ask and cost, without asking, and without leaving anything behind."""

import json
from collections.abc import Mapping
from pathlib import Path

import pytest

from germane.types import Json
from tests.cli.conftest import Cli, write_jsonl
from tests.server import ModelServer, by_overlap

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


def test_nothing_is_left_behind(inside: Cli, data: Path, tmp_path: Path) -> None:
    """No ledger, no folder, no report; a report file that is asked for is refused, not forgotten."""
    ran = inside(*words(data, "context_precision@3", "--dry-run", "--ledger", "l.sqlite"), env=KEY)
    assert ran.code == 0, ran.err
    refused = inside(*words(data, "context_precision@3", "--dry-run", "-o", "x.json"), env=KEY)
    assert refused.code == 2
    assert "x.json" in refused.err
    assert [path.name for path in tmp_path.iterdir()] == ["data.jsonl"]


def test_where_nobody_is_asked_it_is_free(inside: Cli, data: Path) -> None:
    """Gold labels, people's labels: no calls, free, $0."""
    for more in ([], ["--judge", "labels"]):
        measures = "context_precision@3" if more else "nDCG@3"
        assert "in all 0 requests, free" in inside("run", data, "-m", measures, *more, "--dry-run").out
        found = inside("run", data, "-m", measures, *more, "--dry-run", "--json").json
        assert (found["cost_usd"], found["measures"][measures]["calls"]) == (0.0, 0)


def test_shared_requests_and_estimates_are_explained(inside: Cli, data: Path) -> None:
    """Where the lines do not add up to the total it says why; tokens are estimates and look like it."""
    out = inside(*words(data, "context_precision@3 context_relevancy", "--dry-run"), env=KEY).out
    assert "requests that measures share count once" in out
    assert "~tokens out" in out
    assert "a reasoning model writes more" in out


def test_a_measure_that_no_sample_can_have_is_found_before_anything_is_paid(
    inside: Cli, data: Path, tmp_path: Path
) -> None:
    """Exit 2 in the dry run and in the run, which asks nobody and leaves no report; one sample that has it is enough."""
    with ModelServer() as server:
        asked = words(data, "context_precision@3 faithfulness", "--base-url", server.url, "-o", "r")
        for more in (["--dry-run"], []):
            ran = inside(*asked, *more, env=KEY)
            assert ran.code == 2
            assert "faithfulness cannot be computed for any sample: the sample has no response" in ran.err
        assert server.count == 0
        assert not (tmp_path / "r").exists()
        row = json.loads(data.read_text().splitlines()[0])
        with data.open("a") as file:
            file.write(json.dumps({**row, "id": "last", "response": "Thing 0 is good."}) + "\n")
        assert inside(*asked, "--dry-run", env=KEY).code == 0
        assert inside(*asked, env=KEY).code == 0


def tree(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file with its size and the time of its last change."""
    found = ((path, path.stat()) for path in folder.rglob("*") if path.is_file())
    return {str(path): (status.st_size, status.st_mtime_ns) for path, status in found}


@pytest.mark.parametrize("cache", [[], ["--no-cache"]])
def test_a_continued_run_is_forecast_as_it_goes_on(
    inside: Cli, data: Path, tmp_path: Path, cache: list[str]
) -> None:
    """Stopped after five of twelve: seven are left, with and without the path, whatever ledger; nothing is written."""
    with ModelServer() as server:
        asked = words(data, "context_precision@3", "--base-url", server.url, *cache)
        assert inside(*asked, "--max-calls", 5, "-o", "r", env=KEY).code == 3
        before, calls = tree(tmp_path), server.count
        for run in (["run"], asked):
            again = [*run, "--resume", "r", "--dry-run", "--base-url", server.url]
            found = inside(*again, "--json", env=KEY).json
            assert found["measures"]["context_precision@3"]["calls"] == 7
            assert (found["requests"], found["measures"]["context_precision@3"]["cached"]) == (7, 5)
        assert (tree(tmp_path), server.count) == (before, calls)
        assert inside("run", "--resume", "r", "--base-url", server.url, "--max-calls", 99, env=KEY).code == 0
        assert server.count == calls + 7
        done = inside("run", "--resume", "r", "--dry-run", "--json", env=KEY).json
        assert (done["requests"], done["measures"]["context_precision@3"]["cached"]) == (0, 12)


def test_what_failed_is_forecast_as_it_is_asked_again(inside: Cli, data: Path) -> None:
    """The failures of the run that is resumed are new calls."""

    def answer(kind: str, sections: Mapping[str, str], schema: Mapping[str, Json]) -> Json:
        bad = "thing 2 is" in sections["passage"]
        return {"no": "such"} if bad else by_overlap(kind, sections, schema)

    with ModelServer(answer=answer) as server:
        asked = words(data, "context_precision@3", "--base-url", server.url, "-o", "r")
        assert inside(*asked, env=KEY).code == 3
        again = ["run", "--resume", "r", "--dry-run", "--json"]
        retried = inside(*again, env=KEY).json
        assert (retried["requests"], retried["measures"]["context_precision@3"]["cached"]) == (3, 9)


TARGET = """\
def answer(query):
    with open("asked.txt", "a") as file:
        file.write(query)
    return {"response": "yes", "contexts": [{"text": query + " it is"}]}
"""


def test_a_live_target_is_not_asked(inside: Cli, tmp_path: Path) -> None:
    """What hangs on its answers is not known and said so; what it answered in a run that is continued is used."""
    (tmp_path / "system.py").write_text(TARGET)
    (tmp_path / "targets.yaml").write_text(
        "targets: [{name: mine, provider: python, function: 'system:answer', path: .}]\n"
    )
    write_jsonl(tmp_path / "q.jsonl", *({"id": f"c{n}", "query": f"what is thing {n}"} for n in range(6)))
    (tmp_path / "suite.yaml").write_text("target: mine\nmeasures: [context_precision]\ndata: q.jsonl\n")
    with ModelServer() as server:
        asked = ["run", "suite.yaml", "--judge", "openai:test", "--base-url", server.url, "--price", "1/2"]
        out = inside(*asked, "--dry-run", "--max-calls", 9, env=KEY).out
        assert "6 of 6 samples have no answer from their target yet; a dry run asks no target" in out
        assert "assumes 10 contexts of 150 tokens for each" in out
        found = inside(*asked, "--dry-run", "--max-calls", 9, "--json", env=KEY).json
        assert (found["waiting"], found["cost_usd"] > 0) == (6, True)
        mine = found["measures"]["context_precision"]
        assert (mine["calls"], mine["estimated"]) == (60, 60)
        assert not (tmp_path / "asked.txt").exists()
        assert not list(tmp_path.glob("__pycache__/system*"))  # not even imported

        assert inside(*asked, "--max-calls", 0, "-o", "r", env=KEY).code == 3  # the targets alone
        known = (tmp_path / "asked.txt").read_text()
        found = inside("run", "--resume", "r", "--dry-run", "--max-calls", 9, "--json", env=KEY).json
        assert (found["waiting"], found["requests"], found["cost_usd"] > 0) == (0, 6, True)
        assert (tmp_path / "asked.txt").read_text() == known
        assert server.count == 0


def test_a_recorded_target_is_read(inside: Cli, data: Path, tmp_path: Path) -> None:
    """Answers that stand in a file cost nothing: the forecast knows them."""
    (tmp_path / "targets.yaml").write_text("targets: [{name: old, provider: recorded, path: data.jsonl}]\n")
    write_jsonl(tmp_path / "q.jsonl", *({"id": f"q{n}", "query": f"what is thing {n}"} for n in range(4)))
    (tmp_path / "suite.yaml").write_text("target: old\nmeasures: [context_precision]\ndata: q.jsonl\n")
    found = inside("run", "suite.yaml", "--judge", "openai:test", "--dry-run", "--json", env=KEY).json
    assert (found["waiting"], found["measures"]["context_precision"]["calls"]) == (0, 12)


ALL = "P(labels=judge)@1 nDCG(ideal=retrieved,labels=judge)@2 context_position context_precision@2 context_relevancy context_recall"


@pytest.mark.parametrize("panel", [[], ["--judge", "openai:other"]])
def test_the_forecast_counts_as_the_run_does(
    inside: Cli, data: Path, tmp_path: Path, panel: list[str]
) -> None:
    """Measures that read the same verdicts, equal samples, equal passages, panels: calls, cached, shared, requests.

    A question belongs to the first measure that needs it: the top place to the first, the second to the next.
    """
    row = json.loads(data.read_text().splitlines()[0])
    twice = {**row, "id": "twice", "contexts": [*row["contexts"], {"id": "d9", "text": "thing 0 is 1"}]}
    write_jsonl(data, row, {**row, "id": "again"}, twice)
    with ModelServer() as server:
        asked = words(data, ALL, "--base-url", server.url, *panel, "--json")
        dry = inside(*asked, "--dry-run", env=KEY).json
        run = inside(*asked, env=KEY).json["judge"]
        lines, members = dry["measures"], 1 + len(panel) // 2
        for name in ("calls", "cached", "shared"):
            assert sum(line[name] for line in lines.values()) == run[name], name
        assert dry["requests"] == run["requests"] == server.count
        new = [lines[name]["calls"] for name in ALL.split()[:4]]
        assert new == [members, members, members, 0]
        assert lines["context_precision@2"]["shared"] == 0
        again, ran = inside(*asked, "--dry-run", env=KEY).json, inside(*asked, env=KEY).json["judge"]
        for name in ("calls", "cached", "shared"):
            assert sum(line[name] for line in again["measures"].values()) == ran[name], name


@pytest.mark.parametrize(("measures", "code"), [("['m.py:mine']", 0), ("['m.py:mine', RR]", 0), ("[RR]", 2)])
def test_measures_of_ones_own_are_not_imported(inside: Cli, data: Path, measures: str, code: int) -> None:
    """The others are forecast, if there are any, and gates may be on them; without them it is an unknown measure."""
    text = f"measures: {measures}\ndata: {data.name}\ngates: [mean(mine)>=0.1]\n"
    (data.parent / "e.yaml").write_text(text)
    assert inside("run", "e.yaml", "--dry-run").code == code
