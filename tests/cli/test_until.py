"""`germane run --until`: cases in random order, until it is enough; every figure says of how many."""

from __future__ import annotations

import json
import random
from pathlib import Path
from zlib import crc32

import pytest

from germane import Report
from tests.server import Act, Asked, ModelServer

from .conftest import Cli, write_jsonl

REL = "context_relevancy(unit=context)"
WORDS = ("-m", "context_relevance", "--judge", "labels")


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """1,200 samples of five graded passages, of which about half are relevant."""
    return write_jsonl(tmp_path / "s.jsonl", *rows(1200))


def rows(count: int, per_cluster: int = 0) -> list[dict[str, object]]:
    rng = random.Random(1)
    found: list[dict[str, object]] = []
    for n in range(count):
        contexts = [{"text": f"passage {k} of {n}", "grade": rng.choice((0, 3))} for k in range(5)]
        row: dict[str, object] = {"id": f"q{n}", "query": f"question {n}", "contexts": contexts}
        found.append({**row, "cluster": f"c{n // per_cluster}"} if per_cluster else row)
    return found


def test_enough_cases_for_a_width(inside: Cli, tmp_path: Path, data: Path) -> None:
    """A pilot of 100, then as many as its spread asks for; terminal, Markdown, page, --json and manifest say the share."""
    words = ("run", data, *WORDS, "--until", "0.03", "--seed", "3")
    done = inside(*words, "-o", "r", "-o", "r.md", "-o", "r.html", "--json")
    assert done.code == 0, done.err
    line = done.json["measures"][REL]
    low, high = line["interval"]
    assert 0.027 < (high - low) / 2 <= 0.03
    assert line["sampled"] == {"n": line["n"], "of": 1200, "seed": 3}
    assert 150 < line["n"] < 400
    manifest = Report.open(tmp_path / "r").manifest
    assert manifest["sampled"] == line["sampled"]
    assert manifest["until"]["stages"][0] == 100
    assert manifest["until"]["stages"][-1] == line["n"]
    share = f"{line['n']}/{line['n']} ({100 * line['n'] / 1200:.3g}%)"
    assert share in inside("report", "r").out
    for note in (
        f"a random sample of {line['n']} of 1,200 cases, seed 3",
        "more cases narrow an interval, but do not improve the judge",
    ):
        assert any(note in one for one in done.json["notes"])
    assert share in (tmp_path / "r.md").read_text("utf-8")
    assert '"of":1200,"seed":3' in (tmp_path / "r.html").read_text("utf-8").replace(" ", "")
    again = inside(*words, "-o", "again", "--json")
    assert again.json["measures"] == done.json["measures"]
    other = inside(*words[:-1], "4", "--json")
    assert other.json["measures"][REL]["mean"] != line["mean"]


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--until", "x"), "--until"),
        (("--until", "0"), "--until"),
        (("-m", "P(labels=human)@5", "--until", "0.1"), "no measure of this run asks a judge"),
    ],
)
def test_goals_that_are_none(inside: Cli, tmp_path: Path, words: tuple[str, ...], problem: str) -> None:
    """What cannot be a goal is an error before anything is judged."""
    data = write_jsonl(tmp_path / "s.jsonl", *rows(3))
    start = ("run", data, "--judge", "labels", *(() if "-m" in words else WORDS[:2]))
    done = inside(*start, *words)
    assert done.code == 2
    assert problem in done.err
    assert not (tmp_path / "germane-reports").exists()


def test_clusters_are_judged_whole(inside: Cli, tmp_path: Path) -> None:
    """All cases of a cluster, in every system, belong to one stage."""
    both = [{**row, "system": system} for row in rows(400, per_cluster=4) for system in ("a", "b")]
    data = write_jsonl(tmp_path / "s.jsonl", *both)
    done = inside("run", data, *WORDS, "--until", "0.06", "-o", "r", "--json")
    assert done.code == 0, done.err
    judged = [sample.cluster for sample in Report.open(tmp_path / "r").samples()]
    assert 200 <= len(judged) < 800
    assert {judged.count(name) for name in judged} == {8}
    sampled = done.json["systems"][0]["measures"][REL]["sampled"]
    assert sampled == {"n": len(judged) // 2, "of": 400, "seed": 0}  # cases, whatever the number of systems


def test_what_is_missing_is_not_made_up_for_by_more_cases(inside: Cli, data: Path, tmp_path: Path) -> None:
    """Where missing verdicts alone leave more than the width, the pilot is all, and that is said; mended, the run goes on."""
    bad = True

    def failing(asked: Asked) -> Act | None:
        return Act(status=400, error="no") if bad and crc32(asked.content) % 4 == 0 else None

    env, words = (
        {"OPENAI_API_KEY": "k"},
        ("-m", "context_relevance", "--judge", "openai:m", "--until", "0.03"),
    )
    with ModelServer(failing, answer=lambda *_: {"grade": 3, "reasoning": ""}) as server:
        done = inside("run", data, *words, "--base-url", server.url, "-o", "r", "--json", env=env)
        assert done.code == 3
        assert done.json["measures"][REL]["sampled"] == {"n": 100, "of": 1200, "seed": 0}
        notes = " ".join(done.json["notes"])
        assert "is wider than --until asked for, +-0.03" in notes
        bad = False
        more = ("--base-url", server.url, "--json")
        again = inside("run", "--resume", "r", *more, env=env)
        assert again.code == 0
        assert "is wider than" not in " ".join(again.json["notes"])


def test_the_share_of_a_run_that_was_stopped(inside: Cli, data: Path) -> None:
    """Of all cases, those that were judged by then; of a sample that was drawn, too."""
    env = {"OPENAI_API_KEY": "k"}
    with ModelServer() as server:
        words = ("run", data, "-m", "context_relevance", "--judge", "openai:m", "--base-url", server.url)
        for more in (("--until", "0.0001"), ("--sample", "1100")):
            limit = ("--max-calls", "2900", "--no-cache", "--json")
            done = inside(*words, *more, *limit, "-o", more[0].strip("-"), env=env)
            assert done.code == 3
            line = done.json["measures"][REL]
            assert 0 < line["n"] < 600
            assert line["sampled"] == {"n": line["total"], "of": 1200, "seed": 0}


def test_eval_files_and_a_run_that_is_continued(inside: Cli, tmp_path: Path) -> None:
    """Stopped by --max-calls in its second stage, a run goes on where it was, and pays for nothing twice."""
    texts = (
        {"id": f"q{n}", "query": f"question {n}", "contexts": [{"text": f"text {n}"}]} for n in range(150)
    )
    write_jsonl(tmp_path / "s.jsonl", *texts)
    (tmp_path / "e.yaml").write_text("measures: [context_relevance]\ndata: s.jsonl\n", "utf-8")
    env = {"OPENAI_API_KEY": "k"}
    with ModelServer() as server:
        words = (
            "run",
            "e.yaml",
            "--judge",
            "openai:m",
            "--base-url",
            server.url,
            "--no-cache",
            "--until",
            "0.0001",
        )
        inside(*words, "--dry-run", env=env)
        stopped = inside(*words, "--max-calls", "120", "-o", "r", env=env)
        assert stopped.code == 3, stopped.err
        assert json.loads((tmp_path / "r" / "manifest.json").read_text())["until"]["stages"] == [100, 150]
        again = ("run", "--resume", "r", "--base-url", server.url, "--max-calls", "1000", "--json")
        first, second = (inside(*again, env=env) for _ in range(2))
        assert first.json["measures"] == second.json["measures"]
        assert first.json["measures"][REL]["sampled"] == {"n": 150, "of": 150, "seed": 0}
        assert server.count == 150
