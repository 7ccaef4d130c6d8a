"""Decisions models as judges: each provider's real library against a local server, through the command."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from germane.errors import InputError, MissingPart
from germane.judges import DecisionJudge, LLMJudge, PanelJudge, load_judge
from germane.questions.relevance import Relevance
from tests.command import invoke
from tests.server import Act, ModelServer
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


def test_rounded_probabilities_are_a_distribution(data: Path) -> None:
    """Two digits each, as some providers send them, need not sum to one; what is kept does."""
    with DecisionServer(lambda *_: (0.33, 0.33, 0.33, 0.0)) as server:
        ran = invoke(
            "run", data, "-m", "context_precision", "--json", "--judge", f"{SYSTEM_ONE}@{server.base}"
        )
    for row in judgements(ran.json["report"]):
        assert row["answer"] == {"grade": 0, "probabilities": pytest.approx([1 / 3, 1 / 3, 1 / 3, 0])}


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
    with ModelServer() as server:
        ran = invoke("run", data, "-m", "context_precision", "--judge", f"{SYSTEM_ONE}@{server.url}")
    assert ran.code == 2
    assert "404" in ran.err
    assert server.count <= 2  # both passages at once


class TestKeys:
    def test_another_judge_than_the_chat_model_of_that_name(self) -> None:
        """The same model asked in text has other keys, and so has another wording."""
        question = Relevance(query="q", passage="p")
        chat, decisions = load_judge("openai:gpt-6-luna"), load_judge("openai-decisions:gpt-6-luna")
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
            (lambda: load_judge("typesafe:jev-latest", temperature=0.0), "without temperature"),
            (lambda: load_judge("typesafe:jev-latest", batch=5), "without batch"),
            (lambda: PanelJudge([DecisionJudge("typesafe:jev-1"), LLMJudge()]), "not a member of a panel"),
            (lambda: load_judge("typesafe"), "write typesafe:MODEL"),
            (lambda: load_judge("system-one:clm"), "set SYSTEM_ONE_BASE_URL"),
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
            load_judge("typesafe:jev-latest", prompts={"relevance": path})

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


class TestBeside:
    """Another judge answers what has no decision form."""

    BOTH = ("run", "-m", "context_precision", "-m", "context_recall", "--json")

    @pytest.fixture(autouse=True)
    def reference(self, data: Path) -> None:
        """What context_recall needs."""
        data.write_text(
            json.dumps({**json.loads(data.read_text()), "reference": "The moon makes the tides."})
        )

    @pytest.mark.parametrize("first", [True, False])
    def test_each_answers_its_kinds(self, first: bool, data: Path) -> None:
        """In either order; each answer under the key of its own judge, and nothing is asked twice."""
        with DecisionServer(by_moon) as decisions, ModelServer() as chat:
            names = [f"{SYSTEM_ONE}@{decisions.base}", f"openai:test@{chat.url}"]
            judges = [word for name in (names if first else names[::-1]) for word in ("--judge", name)]
            ran = invoke(*self.BOTH, data, *judges)
            again = invoke(*self.BOTH, data, *judges)
            alone = invoke("run", data, "-m", "context_precision", "--judge", names[0], "--json")
            scored = invoke("score", ran.json["report"], "-m", "context_precision@1 context_recall", "--json")
        assert ran.code == 0, ran.err
        assert (again.json["judge"]["calls"], alone.json["judge"]["calls"]) == (0, 0)
        assert (decisions.count, chat.count) == (2, 2)
        assert {asked.kinds[0] for asked in chat.asked} == {"claims", "support"}
        kinds = {(row["kind"], row["judge"]) for row in judgements(ran.json["report"])}
        assert kinds == {
            ("relevance", "system-one:clm-latest"), ("claims", "openai:test"), ("support", "openai:test"),
        }  # fmt: skip
        assert ran.json["judge"]["source"] == "system-one:clm-latest for relevance, openai:test for the rest"
        recall = "context_recall"
        assert scored.json["measures"][recall]["mean"] == ran.json["measures"][recall]["mean"]

    def test_what_it_judged_is_compared_whoever_judged_the_rest(self, data: Path) -> None:
        """Relevance by the same model is the same beside any judge of the rest, or none; the rest is not."""
        with DecisionServer(by_moon) as decisions, ModelServer() as chat:
            one, names = f"{SYSTEM_ONE}@{decisions.base}", ("test", "other")
            for name in names:
                judges = ("--judge", one, "--judge", f"openai:{name}@{chat.url}")
                assert invoke(*self.BOTH, data, *judges, "-o", name).code == 0
            assert invoke("run", data, "-m", "context_precision", "--judge", one, "-o", "alone").code == 0
        assert invoke("compare", "test", "alone").code == 0
        assert invoke("compare", "test", "other", "-m", "context_precision").code == 0
        ran = invoke("compare", "test", "other", "-m", "context_recall")
        assert (ran.code, "judged by openai:test, other by openai:other" in ran.err) == (2, True)
        assert invoke("compare", "test", "other").code == 2

    def test_alone_it_is_refused_before_anything_is_asked(self, data: Path) -> None:
        """The measures are named, and what to write; a dry run says the same."""
        with DecisionServer(by_moon) as server:
            judge = f"{SYSTEM_ONE}@{server.base}"
            for more in ([], ["--dry-run"]):
                ran = invoke(*self.BOTH, data, "--judge", judge, *more)
                assert ran.code == 2
                assert "context_recall asks others (claims, support" in ran.err
                assert "--judge openai:gpt-4o-mini" in ran.err
        assert server.count == 0

    def test_unnamed_measures_are_those_that_it_can_judge(self, data: Path) -> None:
        """No context_recall, though the data have references."""
        with DecisionServer(by_moon) as server:
            ran = invoke("run", data, "--judge", f"{SYSTEM_ONE}@{server.base}", "--json")
        assert list(ran.json["measures"]) == ["context_precision", "context_relevancy(unit=context)"]

    @pytest.mark.parametrize(
        ("words", "says"),
        [
            (["typesafe:jev-1", "system-one:m@http://localhost:9"], "two decisions models"),
            (["typesafe:jev-1", "labels"], "nothing is left for it"),
            (["typesafe:jev-1", "--repeat", "3"], "answers the same each time"),
            (["typesafe:jev-1", "--temperature", "0"], "without temperature"),
        ],
    )
    def test_what_it_cannot_be_is_said(self, words: list[str], says: str, data: Path) -> None:
        """Exit code 2 and what to do instead."""
        given = [
            part
            for word in words
            for part in (("--judge", word) if ":" in word or word == "labels" else (word,))
        ]
        ran = invoke("run", data, "-m", "context_precision", *given)
        assert ran.code == 2
        assert says in " ".join(ran.err.split())

    def test_a_voting_panel_answers_the_rest(self, data: Path) -> None:
        """Two chat models beside it vote on what is left; what is about text is theirs."""
        with DecisionServer(by_moon) as decisions, ModelServer() as chat:
            names = [f"{SYSTEM_ONE}@{decisions.base}", f"openai:a@{chat.url}", f"openai:b@{chat.url}"]
            judges = [word for name in names for word in ("--judge", name)]
            ran = invoke(*self.BOTH, data, *judges, "--temperature", "0.5")
        assert ran.code == 0, ran.err
        assert (decisions.count, chat.count) == (2, 3)
        assert {asked.json["temperature"] for asked in chat.asked} == {0.5}


def test_explain_shows_the_distribution(data: Path) -> None:
    """In the table of ranks and in --json."""
    with DecisionServer(by_moon) as server:
        ran = invoke(
            "run", data, "-m", "context_precision", "--judge", f"{SYSTEM_ONE}@{server.base}", "--json"
        )
    shown = invoke("explain", ran.json["report"], "q1")
    assert "judge 2 (0: 5%, 1: 15%, 2: 60%, 3: 20%)" in shown.out
    assert "0.6100 / 0.9500 (expected values) = 0.6421" in shown.out
    found = invoke("explain", ran.json["report"], "q1", "--json").json
    labels = [one["labels"][0] for one in found["calls"][0]["contexts"]]
    assert [one["probabilities"] for one in labels] == [list(BAD), list(GOOD)]
    checks = ran.json["scores"][0]
    assert checks["value"] == pytest.approx((0.15 * 1 + 0.8 * 1.15 / 2) / 0.95)
