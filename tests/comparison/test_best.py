"""The best of three systems or more under `germane compare`."""

import random
from pathlib import Path

import pytest

from tests.command import invoke


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    """Four systems over 40 queries: the last is better in RR and slower; `d` lacks a query and failed at another."""
    rng, paths = random.Random(6), [tmp_path / f"{name}.csv" for name in "abcd"]
    for path in paths:
        more = 0.25 * (path.stem == "d")
        rows = [
            f"q{q},{min(rng.random() * 0.7 + more, 1)},{rng.gauss(100, 5) + 99 * more}" for q in range(40)
        ]
        if path.stem == "d":
            rows[3] = "q3,,"
            del rows[7]
        path.write_text("id,RR,latency_ms\n" + "\n".join(rows) + "\n")
    return paths


def test_best_of_each_measure(files: list[Path]) -> None:
    """Over the queries that all were measured on; a gain is above 0 where less is better, too; primary measures first."""
    done = invoke("compare", *files, "--primary", "latency_ms", "--json")
    latency, rr = done.json["best"]
    assert [set(line) for line in (latency, rr)] == [
        {"system", "measure", "gain", "gain_held_out", "interval"}
    ] * 2
    assert (latency["measure"], rr["measure"], rr["system"]) == ("latency_ms", "RR", "d")
    assert latency["system"] != "d"
    values = [
        [line.split(",") for line in file.read_text().splitlines()[1:]] for file in (files[0], files[3])
    ]
    first, last = ({case: float(value) for case, value, _ in rows if value} for rows in values)
    gain = sum(last[case] - first[case] for case in last) / len(last)
    assert (len(last), rr["gain"]) == (38, pytest.approx(gain, abs=1e-12))
    for line in (latency, rr):
        assert line["gain_held_out"] <= line["gain"] + 1e-9
        assert line["interval"][0] <= line["gain_held_out"] <= line["interval"][1]
    assert invoke("compare", *files, "--primary", "latency_ms", "--json").json["best"] == [latency, rr]


def test_best_in_words(files: list[Path], tmp_path: Path) -> None:
    """A line per primary measure, in files too; of two systems none."""
    out = tmp_path / "change.md"
    done = invoke("compare", *files, "--primary", "RR", "-o", out)
    (line,) = [line for line in done.out.splitlines() if line.startswith("best in")]
    assert line.startswith("best in RR: d, +0.")
    assert "on the held-out half" in out.read_text()
    two = invoke("compare", *files[:2], "--json")
    assert two.json["best"] == []


def test_first_system_may_be_the_best(files: list[Path]) -> None:
    """Its gain over itself is 0, and choosing among the others loses on other queries."""
    line = invoke("compare", files[3], *files[:3], "--json", "-m", "RR").json["best"][0]
    assert (line["system"], line["gain"]) == ("d", 0.0)
    assert line["gain_held_out"] <= 0
