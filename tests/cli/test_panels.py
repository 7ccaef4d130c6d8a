"""Panels by flag, eval file, environment and config; what is said of their disagreement."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from germane import evaluate
from germane.errors import InputError
from germane.judges import FakeJudge, PanelJudge, repeated
from tests.cli.conftest import Cli, write_jsonl
from tests.server import Act, Asked, ModelServer

ROW = {"id": "q1", "query": "what is it", "contexts": ["it is one"]}
GRADES = {"m1": 3, "m2": 1, "m3": 3}


def _votes(asked: Asked) -> Act:
    model = asked.json["model"]
    return Act(change=lambda answer: {**answer, "reasoning": f"says {model}", "grade": GRADES[model]})


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ModelServer]:
    monkeypatch.setenv("OPENAI_API_KEY", "test")
    with ModelServer(_votes) as running:
        monkeypatch.setenv("OPENAI_BASE_URL", running.url)
        yield running


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return write_jsonl(tmp_path / "data.jsonl", ROW)


def run(inside: Cli, path: Path, *more: object) -> dict[str, Any]:
    result = inside("run", path, *more, "--json", "--no-cache")
    assert result.code == 0, result.err
    return dict(result.json["judge"])


def manifest(folder: Path) -> dict[str, Any]:
    return dict(json.loads((folder / "out" / "manifest.json").read_text("utf-8")))


class TestNaming:
    """Wherever a judge can be named, several can."""

    def test_in_an_eval_file(self, inside: Cli, data: Path, server: ModelServer, tmp_path: Path) -> None:
        """A list of judges, how often each is asked, how they are asked."""
        file = tmp_path / "e.yaml"
        head = "data: data.jsonl\nmeasures: [context_precision@5]\n"
        file.write_text(head + "judge: [openai:m1, openai:m2]\nrepeat: 2\nreading: single\nbatch: 3\n")
        judge = run(inside, file)
        assert judge["source"] == "majority of openai:m1 #1, openai:m1 #2, openai:m2 #1, openai:m2 #2"
        assert server.count == 4
        assert run(inside, file, "--repeat", "3")["source"].count("openai:m1") == 3
        assert run(inside, file, "--judge", "openai:m3")["source"] == (
            "majority of openai:m3 #1, openai:m3 #2"
        )

    @pytest.mark.parametrize(
        ("wrong", "said"),
        [
            ("repeat: 0", "write a number greater than or equal to 1"),
            (f"repeat: {10**15}", "write a whole number from 1 to 100"),
            ("reading: slow", "write 'fused' or 'single'"),
            ("judge: [openai:m1, openai:m1]", "ask one judge several times"),
            ("judge: {a: b}", "judge is a mapping"),
        ],
    )
    def test_what_is_wrong_in_an_eval_file_is_said(
        self, inside: Cli, data: Path, server: ModelServer, tmp_path: Path, wrong: str, said: str
    ) -> None:
        """Each with what to write instead."""
        file = tmp_path / "e.yaml"
        judge = "" if wrong.startswith("judge") else "judge: openai:m1\n"
        file.write_text(f"data: data.jsonl\nmeasures: [context_precision@5]\n{judge}{wrong}\n")
        result = inside("run", file, "--no-cache")
        assert (result.code, server.count) == (2, 0)
        assert said in result.err

    def test_in_the_config(self, inside: Cli, data: Path, server: ModelServer, tmp_path: Path) -> None:
        """A list, or names in one text."""
        config = tmp_path / "germane.toml"
        for spelt in ('["openai:m1", "openai:m2"]', '"openai:m1 openai:m2"'):
            config.write_text(f'judge = {spelt}\nrepeat = 1\nbatch = 2\nreading = "fused"\n')
            assert (
                run(inside, data, "-m", "context_precision@5")["source"] == "majority of openai:m1, openai:m2"
            )
        config.write_text("repeat = 0\n")
        result = inside("run", data, "-m", "context_precision@5", "--judge", "openai:m1")
        assert (
            result.code,
            "germane.toml: invalid value 0 of the setting repeat; write an integer >= 1" in result.err,
        ) == (2, True)

    def test_in_the_environment_and_by_one_flag(
        self, inside: Cli, data: Path, server: ModelServer, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """White space separates them, as it separates measures."""
        monkeypatch.setenv("GERMANE_JUDGE", " openai:m1  openai:m2 ")
        assert run(inside, data, "-m", "context_precision@5")["source"] == "majority of openai:m1, openai:m2"
        more = ("--judge", "openai:m3 openai:m2")
        assert (
            run(inside, data, "-m", "context_precision@5", *more)["source"]
            == "majority of openai:m3, openai:m2"
        )

    def test_in_python(self) -> None:
        """A list of judges or names, and several samples of one; what is not a judge is named."""
        judges = [FakeJudge({"grade": n, "reasoning": ""}, name=f"m{n}") for n in (3, 1)]
        report = evaluate([ROW], "context_precision@5", judge=judges)
        assert report.manifest["judge"]["source"] == "majority of m3, m1"
        report = evaluate([ROW], "context_precision@5", judge=repeated(judges[0], 3))
        assert report.manifest["judge"]["source"] == "majority of m3 #1, m3 #2, m3 #3"
        report = evaluate([ROW], "context_precision@5", judge=["lexical", judges[0]])
        assert report.manifest["judge"]["source"] == "majority of lexical, m3"
        for wrong in (3, [judges[0], None], [], FakeJudge):
            with pytest.raises(InputError, match=r"not a judge|the list of judges is empty"):
                evaluate([ROW], "context_precision@5", judge=wrong)  # type: ignore[arg-type]
        assert isinstance(PanelJudge(judges), PanelJudge)

    def test_a_continued_run_asks_the_same_panel(
        self, inside: Cli, data: Path, server: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Whoever the environment named stands in the folder: with where they are asked, and how they vote."""
        monkeypatch.setenv("GERMANE_JUDGE", f"openai:m1@{server.url} openai:m2")
        words = ("-m", "context_precision@5", "-o", "out", "--ledger", "l.sqlite", "--json")
        assert inside("run", data, *words, "--repeat", "2").code == 0
        first = manifest(tmp_path)
        assert first["options"]["judge"] == f"openai:m1@{server.url} openai:m2"
        assert inside("run", "--resume", "out").code == 0
        assert manifest(tmp_path)["judge"]["identity"] == first["judge"]["identity"]
        assert server.count == 4


PANEL = ("--judge", "openai:m1", "--judge", "openai:m2", "--ledger", "l.sqlite")


def votes(folder: Path) -> dict[str, Any]:
    """What each member answered, or why it did not, by its judge."""
    rows = [
        json.loads(line) for line in (folder / "out" / "judgements.jsonl").read_text("utf-8").splitlines()
    ]
    return {row["judge"]: row.get("error") or row["answer"]["grade"] for row in rows if row.get("parent")}


class TestDisagreement:
    """It is said wherever a verdict is."""

    def test_a_member_alone_is_answered_by_its_vote(
        self, inside: Cli, data: Path, server: ModelServer, tmp_path: Path
    ) -> None:
        """In a ledger with what the panel's report holds, and its report can be scored again."""
        words = ["run", data, "-m", "context_precision@5", "-q"]
        panel = [*words, "--judge", "openai:m1", "--judge", "openai:m2", "--no-cache", "-o", "p"]
        assert inside(*panel).code == 0
        alone = [*words, "--judge", "openai:m2", "--ledger", "l.sqlite", "-o", "s"]
        assert inside("ledger", "import", "p/judgements.jsonl", "--ledger", "l.sqlite").code == 0
        assert (inside(*alone).code, server.count) == (0, 2)
        scored = inside("score", "s", "-m", "context_precision@1", "--json")
        assert [row["status"] for row in scored.json["scores"]] == ["ok"]

    def test_the_report_holds_the_votes(
        self, inside: Cli, data: Path, server: ModelServer, tmp_path: Path
    ) -> None:
        """And says how far the members agreed; explain prints the grade that they became."""
        ran = inside("run", data, "-m", "context_precision@5", *PANEL, "-o", "out")
        assert "note     1 questions to the panel: mean agreement 0.50, every member answered" in ran.out
        lines = [line.strip() for line in inside("explain", "out", "q1").out.splitlines()]
        at = next(at for at, line in enumerate(lines) if "judge 1" in line)
        assert lines[at + 1] == "judge: says m2"
        assert votes(tmp_path) == {"openai:m1": 3, "openai:m2": 1}

    def test_who_failed_is_named_and_asked_again(self, inside: Cli, data: Path, tmp_path: Path) -> None:
        """In the report, and by --resume: a verdict that a member is missing from is no whole one."""
        broken = {"m2"}

        def script(asked: Asked) -> Act:
            model = asked.json["model"]
            return Act(status=400, error="a bad day") if model in broken else _votes(asked)

        with ModelServer(script) as server:
            more = ("-m", "context_precision@5", *PANEL, "--base-url", server.url, "-o", "out")
            ran = inside("run", data, *more)
            assert "note     1 questions to the panel: mean agreement" not in ran.out
            assert (
                "1 questions to the panel: no question was put to a vote, 1 without the answer of a member"
                in ran.out
            )
            assert "judge 3" in inside("explain", "out", "q1").out
            told = votes(tmp_path)
            assert told["openai:m1"] == 3
            assert "a bad day" in told["openai:m2"]
            broken.clear()
            before = server.count
            assert inside("run", "--resume", "out").code == 0
            assert server.count == before + 1
        assert "judge 1" in inside("explain", "out", "q1").out
        assert votes(tmp_path) == {"openai:m1": 3, "openai:m2": 1}

    def test_members_that_answer_each_in_their_way(self, inside: Cli, data: Path) -> None:
        """No reasons, or more keys than were asked for: a panel votes all the same."""

        def script(asked: Asked) -> Act:
            if asked.json["model"] == "m1":
                return Act(text='{"grade": 2, "confidence": 7}')
            return Act(text='{"grade": 2, "reasoning": "says m2", "extra": [1]}')

        with ModelServer(script) as server:
            ran = inside(
                "run", data, "-m", "context_precision@5", *PANEL, "--base-url", server.url, "-o", "out"
            )
        assert ran.code == 0, ran.err
        assert "mean agreement 1.00" in ran.out
