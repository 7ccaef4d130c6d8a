"""`germane audit --again`: stored verdicts asked again over real HTTP; a judge that changed is told from one that is noisy."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.command import Ran, invoke
from tests.server import Act, Asked, ModelServer

QUERIES, PASSAGES = 12, 5


def grade(text: str, salt: str = "") -> int:
    """A grade that is a property of the text."""
    return hashlib.sha256(f"{salt}{text}".encode()).digest()[0] % 4


class Model:
    """A model whose grades a test can change: `rule` gives the grade of a passage."""

    def __init__(self) -> None:
        self.rule: Callable[[str], int] = grade

    def __call__(self, kind: str, sections: Mapping[str, str], _schema: Mapping[str, Any]) -> Any:
        assert kind == "relevance"
        return {"reasoning": "", "grade": self.rule(sections["passage"])}


@pytest.fixture
def model() -> Model:
    return Model()


def run(folder: Path, server: ModelServer, *more: str) -> Path:
    """A judged report of one system."""
    data, report = folder / "s.jsonl", folder / "r"
    rows = [
        {"id": f"q{q}", "query": f"question {q}", "contexts": [f"passage {q} {p}" for p in range(PASSAGES)]}
        for q in range(QUERIES)
    ]
    data.write_text("".join(json.dumps(row) + "\n" for row in rows))
    ledger = () if "--no-cache" in more else ("--ledger", folder / "l.sqlite")
    judge = ("--judge", "openai:test", "--base-url", server.url, *ledger)
    measures = () if "-m" in more else ("-m", "P(labels=judge)@5 context_precision")
    ran = invoke("run", data, *measures, *judge, *more, "-o", report, "-q")
    assert ran.code == 0, ran.err
    return report


def bare(asked: Asked) -> str:
    """A request's body, without the code that marks its sections."""
    return re.sub(r"-[a-z2-7]{4}>", ">", json.dumps(asked.json, sort_keys=True))


def again(report: Path, n: int, server: ModelServer, *more: object) -> Ran:
    return invoke("audit", report, "--again", n, "--base-url", server.url, *more, "--json")


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")


def test_the_same_judge(tmp_path: Path, model: Model) -> None:
    """Every drawn verdict is asked of the model, not of the ledger; nothing flips, and no score moves."""
    with ModelServer(answer=model) as server:
        report = run(tmp_path, server)
        before, scores = server.count, (report / "scores.jsonl").read_bytes()
        ran = again(report, 40, server, "-j", 4)
        assert (ran.code, server.count - before) == (0, 40)
        found = ran.json["again"]
        assert (found["asked"], found["of"], found["flips"], found["kappa"]) == (40, 60, 0, 1.0)
        assert found["changed"] is False
        assert found["means"].keys() == {"P(labels=judge)@5", "context_precision"}
        for mean in found["means"].values():
            assert mean["shift"] == 0
            assert mean["interval"][0] < 0 < mean["interval"][1]
        assert invoke("score", report, "-m", "P(labels=judge)@5", "--json").json["measures"]
        assert (report / "scores.jsonl").read_bytes() == scores


def test_stored_among_the_judgements(tmp_path: Path, model: Model) -> None:
    """New rows have the verdict as parent and replica numbers below 0, another time others; the report stays whole."""
    with ModelServer(answer=model) as server:
        report = run(tmp_path, server)
        shown = invoke("report", report, "--json").json
        stored = (report / "judgements.jsonl").read_text().splitlines()
        for _ in range(2):
            assert again(report, 20, server).code == 0
        assert server.count == 60 + 40
        rows = [json.loads(line) for line in (report / "judgements.jsonl").read_text().splitlines()]
        assert [json.dumps(row) for row in rows[:60]] == [json.dumps(json.loads(line)) for line in stored]
        keys = {row["key"] for row in rows[:60]}
        assert all(row["parent"] in keys for row in rows[60:])
        assert [row["replica"] for row in rows[60:]] == [-1] * 20 + [-2] * 20
        assert len({row["key"] for row in rows}) == 100
        assert invoke("report", report, "--json").json["measures"] == shown["measures"]
        assert "again" not in invoke("audit", report, "--json").json
        # continued and scored again, nothing is asked, and the means are what they were
        words = ("-m", "P(labels=judge)@5", "--json")
        resumed = invoke("run", "--resume", report, "--base-url", server.url, *words)
        assert (resumed.code, server.count) == (0, 100)
        assert (report / "judgements.jsonl").read_text().count('"replica":-') == 40
        assert json.loads((report / "manifest.json").read_text())["asked"]["relevance"]["n"] == 60
        first = "P(labels=judge)@5"
        assert resumed.json["measures"][first]["mean"] == shown["measures"][first]["mean"]


def test_a_judge_that_changed(tmp_path: Path, model: Model) -> None:
    """A stricter model: the shift of P@5 is that of all its verdicts, and exit code 1."""
    with ModelServer(answer=model) as server:
        report = run(tmp_path, server)
        texts = [f"passage {q} {p}" for q in range(QUERIES) for p in range(PASSAGES)]
        model.rule = lambda text: min(1, grade(text)) if grade(text, "strict") == 0 else grade(text)
        ran = again(report, 60, server)
        assert ran.code == 1, ran.out
        found = ran.json["again"]
        shift = sum((model.rule(text) >= 2) - (grade(text) >= 2) for text in texts) / len(texts)
        assert found["flips"] == found["confirmed"] == sum(model.rule(text) != grade(text) for text in texts)
        assert found["changed"] is True
        mean = found["means"]["P(labels=judge)@5"]
        assert mean["shift"] == pytest.approx(shift)
        assert mean["interval"][0] < shift < mean["interval"][1]
        assert found["kappa"] < 1
        assert "the judge has changed" in invoke("audit", report, "--again", 60, "--base-url", server.url).out


def test_the_shift_of_a_measure_of_ranks(tmp_path: Path, model: Model) -> None:
    """With every verdict asked again the shift of nDCG and context_precision is close to that of a report judged anew."""
    with ModelServer(answer=model) as server:
        report = run(tmp_path, server, "-m", "nDCG(labels=judge)@5 context_precision@5")
        model.rule = lambda text: max(0, grade(text) - 2) if grade(text, "which") == 0 else grade(text)
        found = again(report, 60, server).json["again"]
        means = invoke("report", report, "--json").json["measures"]
        now = run(tmp_path, server, "-m", "nDCG(labels=judge)@5 context_precision@5", "--no-cache", "--force")
        later = invoke("report", now, "--json").json["measures"]
    assert len(means) == 2
    for measure, before in means.items():
        shift = later[measure]["mean"] - before["mean"]
        assert abs(shift) > 0.01
        assert found["means"][measure]["shift"] == pytest.approx(shift, abs=0.01)


def test_noise_is_no_change(tmp_path: Path, model: Model) -> None:
    """A model that tosses a coin now and then flips verdicts, and its third answers take as many back."""
    times = Counter[str]()

    def tossed(text: str) -> int:
        times[text] += 1
        return grade(text, str(times[text])) if grade(text, "doubt") == 0 else grade(text)

    model.rule = tossed
    with ModelServer(answer=model) as server:
        report = run(tmp_path, server)
        found = [again(report, 60, server).json["again"] for _ in range(5)]
    assert sum(one["flips"] for one in found) > 10
    assert sum(one["changed"] is True for one in found) == 0


def test_what_cannot_be_said(tmp_path: Path, model: Model) -> None:
    """Too few verdicts, and a model that fails, are exit code 3 with the reason."""
    fails = [False]
    with ModelServer(lambda _: Act(status=400) if fails[0] else None, answer=model) as server:
        report = run(tmp_path, server)
        ran = again(report, 3, server)
        assert (ran.code, ran.json["again"]["changed"], ran.json["again"]["asked"]) == (3, None, 3)
        assert "too few" in ran.json["again"]["why"]
        fails[0] = True
        ran = again(report, 20, server)
        assert (ran.code, ran.json["again"]["changed"], ran.json["again"]["asked"]) == (3, None, 0)
        assert ran.json["again"]["why"]


def test_the_settings_of_the_run(tmp_path: Path, model: Model) -> None:
    """Requests are those of the run but for the order; headers and limits are as in a run."""
    with ModelServer(answer=model) as server:
        report = run(tmp_path, server, "--temperature", "0.7", "--model-parameter", "seed=7")
        first = {bare(asked) for asked in server.asked}
        begun = len(server.asked)
        assert again(report, 20, server, "--header", "x-team=search").code == 0
        later = server.asked[begun:]
        assert {bare(asked) for asked in later} <= first
        assert all(asked.headers["x-team"] == "search" for asked in later)
        ran = again(report, 60, server, "--max-cost", "0.1", "--price", "10/10", "--seed", 1)
        assert ran.code == 3, ran.err
        assert ran.json["again"]["changed"] is None
        assert 0 < ran.json["again"]["asked"] < 60
        assert "--max-cost" in ran.json["again"]["why"]


def test_a_panel_is_asked_as_one(tmp_path: Path, model: Model) -> None:
    """Each member is asked again; the panel's verdict is compared, with the members' answers stored under it."""
    with ModelServer(answer=model) as server:
        report = run(tmp_path, server, "--repeat", "3")
        assert server.count == 180
        ran = again(report, 20, server)
        assert (ran.code, ran.json["again"]["asked"], server.count) == (0, 20, 240)
        rows = [json.loads(line) for line in (report / "judgements.jsonl").read_text().splitlines()]
        replicas = [row["replica"] for row in rows if row.get("replica", 1) < 0]
        assert {replica: replicas.count(replica) for replica in replicas} == {-1: 20, -2: 20, -3: 20}
        assert again(report, 20, server).json["again"]["flips"] == 0
        # continued, the report's note counts the questions of its own verdicts
        assert invoke("run", "--resume", report, "--base-url", server.url, "-q").code == 0
        assert "60 questions to the panel" in invoke("report", report).out


def test_what_is_refused(tmp_path: Path, model: Model) -> None:
    """Another model, a report without a judge, two reports, and --gold beside it: exit code 2."""
    with ModelServer(answer=model) as server:
        report = run(tmp_path, server)
        before = server.count
        ran = again(report, 20, server, "--judge", "openai:other")
        assert ran.code == 2
        assert "model was test and is now other" in ran.err
        assert invoke("audit", report, report, "--again", 20).code == 2
        assert invoke("audit", report, "--again", 20, "--gold").code == 2
        for words in (("--base-url", server.url), ("--header", "a=b"), ("-j", 3), ("--seed", 3)):
            ran = invoke("audit", report, *words)
            assert (ran.code, "works only with --again" in ran.err) == (2, True), ran.err
        assert server.count == before
    gold = tmp_path / "gold.jsonl"
    gold.write_text('{"query": "a", "qrels": {"d": 1}, "contexts": [{"id": "d"}]}\n')
    assert invoke("run", gold, "-m", "RR", "-o", tmp_path / "g", "-q").code == 0
    ran = invoke("audit", tmp_path / "g", "--again", 20)
    assert (ran.code, "ask a judge" in ran.err) == (2, True)
