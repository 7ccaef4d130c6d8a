"""Decisions models as judges: each provider's real library against a local server, through the command."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from germane.errors import InputError, MissingPart
from germane.judges import DecisionJudge, LLMJudge, judge_named
from germane.questions.relevance import Relevance
from tests.command import invoke
from tests.server import Act
from tests.server.decisions import DecisionServer

SPECS = (
    "typesafe:jev-1.13.0",
    "openai-decisions:gpt-6-luna",
    "google-decisions:gemini-decision-1",
    "system-one:clm-latest",
)
SYSTEM_ONE = SPECS[-1]
GOOD, BAD = (0.05, 0.15, 0.6, 0.2), (0.6, 0.25, 0.1, 0.05)


def by_moon(shown: dict[str, str], levels: int) -> tuple[float, ...]:
    """The grades of passages that name the moon, and of others; or yes and no."""
    good = "moon" in shown["passage"]
    if levels == 2:
        return (0.2, 0.8) if good else (0.9, 0.1)
    return GOOD if good else BAD


@pytest.fixture(autouse=True)
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two passages of one query, and keys that no provider knows."""
    for name in [name for name in os.environ if name.startswith(("GOOGLE_", "TYPESAFE_", "SYSTEM_ONE_"))]:
        monkeypatch.delenv(name)
    for name in ("TYPESAFE_API_KEY", "OPENAI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.setenv(name, "sk-secret-0123")
    monkeypatch.chdir(tmp_path)
    sample = {"id": "q1", "query": "what makes the tides", "contexts": ["bread needs yeast", "the moon does"]}
    path = tmp_path / "data.jsonl"
    path.write_text(json.dumps(sample))
    return path


def judgements(report: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(report, "judgements.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("spec", SPECS)
def test_the_distribution_is_kept(spec: str, data: Path) -> None:
    """Every wire form: the prompt's levels are asked for, the grade is the mode, and a second run asks nothing."""
    words = ["run", data, "-m", "context_precision", "--json", "--judge"]
    with DecisionServer(by_moon) as server:
        first = invoke(*words, f"{spec}@{server.base}")
        again = invoke(*words, f"{spec}@{server.base}")
        dry = invoke(*words, f"{spec}@{server.base}", "--dry-run")
    assert (first.code, again.code, server.count) == (0, 0, 2)
    assert dry.json["measures"]["context_precision"]["cached"] == 2
    assert again.json["judge"]["calls"] == 0
    assert "it is dedicated to the query and holds the exact answer" in server.asked[0].raw.decode()
    rows = judgements(first.json["report"])
    assert sorted(row["answer"]["grade"] for row in rows) == [0, 2]
    assert {tuple(row["answer"]["probabilities"]) for row in rows} == {GOOD, BAD}
    assert {row["mode"] for row in rows} == {"score"}
    assert first.json["judge"]["tokens"]["input"] > 0


def test_a_yes_or_no_has_two_levels(data: Path) -> None:
    """No below yes."""
    words = ["run", data, "-m", "context_precision", "--json", "--scale", "binary"]
    with DecisionServer(by_moon) as server:
        ran = invoke(*words, "--judge", f"{SYSTEM_ONE}@{server.base}")
    answers = {
        row["answer"]["relevant"]: row["answer"]["probabilities"] for row in judgements(ran.json["report"])
    }
    assert answers == {True: [0.2, 0.8], False: [0.9, 0.1]}


@pytest.mark.parametrize("spec", SPECS)
def test_an_answer_that_is_no_distribution_is_an_error(spec: str, data: Path) -> None:
    """Never a grade: the score is unmeasured, and the run says so."""
    with DecisionServer(lambda _, levels: (0.9,) * levels) as server:
        ran = invoke("run", data, "-m", "context_precision", "--json", "--judge", f"{spec}@{server.base}")
    assert ran.code == 3
    assert [one["status"] for one in ran.json["scores"]] == ["error"]
    assert "0.9" in ran.json["scores"][0]["why"]


def test_a_refusal_is_the_questions_error(data: Path) -> None:
    """One request, not three."""
    acts = [Act(refusal="no")] * 2
    with DecisionServer(by_moon, acts) as server:
        judge = f"openai-decisions:gpt-6-luna@{server.base}"
        ran = invoke("run", data, "-m", "context_precision", "--json", "--judge", judge)
    assert (ran.code, server.count) == (3, 2)
    assert "declined" in ran.json["scores"][0]["why"]


def test_a_chat_server_is_no_decisions_server(data: Path) -> None:
    """A 404 ends the run before anything is judged."""
    from tests.server import ModelServer

    with ModelServer() as server:
        ran = invoke("run", data, "-m", "context_precision", "--judge", f"{SYSTEM_ONE}@{server.url}")
    assert ran.code == 2
    assert "404" in ran.err
    assert server.count <= 2  # both passages at once


class TestKeys:
    def test_another_judge_than_the_chat_model_of_that_name(self) -> None:
        """The same model asked in text has other keys, and so has another wording."""
        question = Relevance(query="q", passage="p")
        chat, decisions = judge_named("openai:gpt-6-luna"), judge_named("openai-decisions:gpt-6-luna")
        assert (type(chat), type(decisions)) == (LLMJudge, DecisionJudge)
        assert chat.key(question) != decisions.key(question)
        assert chat.prompt_hash(question) != decisions.prompt_hash(question)

    @pytest.mark.parametrize(
        ("made", "says"),
        [
            (lambda: LLMJudge("typesafe:jev-latest"), "writes no text"),
            (lambda: LLMJudge("openrouter:typesafe/jev-1.13.0"), "write typesafe:jev-1.13.0"),
            (lambda: LLMJudge("google:gemini-decision-1"), "write google-decisions:gemini-decision-1"),
            (lambda: DecisionJudge("openai:gpt-4o-mini"), "is not a decisions model"),
            (lambda: judge_named("typesafe:jev-latest", temperature=0.0), "without temperature"),
            (lambda: judge_named("typesafe:jev-latest", batch=5), "without batch"),
            (lambda: judge_named("typesafe"), "write typesafe:MODEL"),
            (lambda: judge_named("system-one:clm"), "set SYSTEM_ONE_BASE_URL"),
        ],
    )
    def test_neither_is_taken_for_the_other(self, made, says: str) -> None:
        """Said before anything is sent, with what to write."""
        with pytest.raises(InputError, match=says):
            made()

    def test_a_wording_without_levels_is_refused(self, tmp_path: Path) -> None:
        """The levels are all that a decisions model can answer with."""
        path = tmp_path / "mine.md"
        path.write_text("Grade the passage.\n0: bad\n3: good")
        with pytest.raises(InputError, match=r'write a line for each level, "0: \.\.\."'):
            judge_named("typesafe:jev-latest", prompts={"relevance": path})

    def test_a_url_from_a_file_gets_none(self, monkeypatch: pytest.MonkeyPatch, data: Path) -> None:
        """Nor the headers that OpenAI's library reads from the environment."""
        monkeypatch.setenv("OPENAI_CUSTOM_HEADERS", "x-team: teams-secret")
        monkeypatch.setenv("OPENAI_ORG_ID", "orgs-secret")
        with DecisionServer(by_moon) as server:
            for spec in SPECS:
                Path("germane.toml").write_text(f'judge = ["{spec}@{server.base}"]')
                ran = invoke("run", data, "-m", "context_precision", "--no-cache")
                assert ran.code == 0, ran.err
        assert server.count == 2 * len(SPECS)
        assert "secret" not in str([asked.headers for asked in server.asked])


@pytest.mark.parametrize("spec", SPECS)
def test_a_missing_extra_is_named(spec: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the line to type."""
    judge = DecisionJudge(f"{spec}@http://127.0.0.1:9")
    for name in [name for name in sys.modules if name.startswith("pydantic_ai")] + ["pydantic_ai"]:
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingPart, match=r"pip install '\.\[decisions\]'"):
        judge.ready()
