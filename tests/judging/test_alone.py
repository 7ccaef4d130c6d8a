"""With `batch`: what happens to be asked alone shares its key with everybody who asks alone."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from germane import evaluate
from germane.forecasting import Known
from germane.judges.llm import LLMJudge
from germane.judging.alone import ListedToo
from germane.judging.judges.panel import Replica
from germane.judging.ledger import SQLiteLedger
from germane.judging.questions import Claims, Relevance, key_of
from germane.judging.questions.base import Listed
from germane.measures import context_relevance
from germane.rescoring import rescore
from germane.testing import Act, ModelServer
from germane.types import Judgement, freeze

MEASURE = "context_precision@10"


@pytest.fixture
def ledger(tmp_path: Path) -> Path:
    return tmp_path / "l.sqlite"


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


def sample(count: int) -> dict[str, object]:
    return {
        "id": "a",
        "query": "why is the sky blue",
        "contexts": [f"the sky is blue {n}" for n in range(count)],
    }


def asked(server: ModelServer, ledger: Path, count: int, batch: int = 1) -> list[str]:
    """The requests of one evaluation by the names of their answers."""
    before = server.count
    report = evaluate(
        [sample(count)], MEASURE, judge=LLMJudge("openai:m", base_url=server.url, batch=batch), ledger=ledger
    )
    assert report[MEASURE].n == 1
    return [one.named[0] for one in server.asked[before:]]


@pytest.mark.parametrize(("first", "second"), [(1, 10), (10, 1)])
def test_a_list_of_one_is_no_list(server: ModelServer, ledger: Path, first: int, second: int) -> None:
    """One context: the request is the same with and without lists, and paid for once."""
    assert asked(server, ledger, 1, batch=first) == ["relevance"]
    assert asked(server, ledger, 1, batch=second) == []


def test_the_odd_one_serves_who_asks_one_by_one(server: ModelServer, ledger: Path) -> None:
    """Seven by two: three lists, and one alone that is not asked again."""
    assert sorted(asked(server, ledger, 7, batch=2)) == ["relevance", *["relevance_list"] * 3]
    assert asked(server, ledger, 7) == ["relevance"] * 6


def test_what_a_list_left_open_serves_too(ledger: Path) -> None:
    """Asked by itself, it has the key of what is asked by itself."""
    short = Act(change=lambda payload: {"items": payload["items"][1:]})
    with ModelServer([short]) as server:
        assert asked(server, ledger, 3, batch=3) == ["relevance_list", "relevance"]
        assert asked(server, ledger, 3) == ["relevance"] * 2


def test_a_lone_answer_serves_where_a_list_would_be_asked(server: ModelServer, ledger: Path) -> None:
    """It is the better one. A verdict from a list serves lists alone, whatever their length."""
    assert asked(server, ledger, 3) == ["relevance"] * 3
    assert asked(server, ledger, 4, batch=10) == ["relevance"]
    assert asked(server, ledger, 9, batch=10) == ["relevance_list"]
    assert asked(server, ledger, 9, batch=3) == []
    assert asked(server, ledger, 9) == ["relevance"] * 5


def test_a_report_has_one_kind_of_key(server: ModelServer, ledger: Path) -> None:
    """Whatever came alone: it can be scored and explained again, and a run again has the same rows."""
    judge = LLMJudge("openai:m", base_url=server.url, batch=2)
    reports = [evaluate([sample(7)], MEASURE, judge=judge, ledger=ledger) for _ in range(2)]
    keys = [sorted(judgement.key for judgement in report.judgements()) for report in reports]
    assert keys[0] == keys[1]
    assert len(server.asked) == 4
    for report in reports:
        prompts = {judgement.prompt for judgement in report.judgements()}
        assert prompts == {report.manifest["prompts"]["relevance"]}
        scored = rescore(report, [context_relevance])
        assert [summary.n for summary in scored.summaries] == [1]


def test_the_place_in_a_list_is_written_down(server: ModelServer, ledger: Path) -> None:
    """How many there were and which one it was; nothing of what was asked alone."""
    judge = LLMJudge("openai:m", base_url=server.url, batch=2)
    report = evaluate([sample(5)], MEASURE, judge=judge, ledger=ledger)
    told = [dict(judgement.provenance) for judgement in report.judgements()]
    assert sorted((one.get("list_size", 1), one.get("place", 0)) for one in told) == [
        (1, 0),
        (2, 1),
        (2, 1),
        (2, 2),
        (2, 2),
    ]


def test_a_sample_of_a_judge_has_lone_keys_of_its_own() -> None:
    """The second answer to a question is no answer to the first."""
    judge = LLMJudge("openai", batch=3)
    question = Relevance(query="q", passage="p")
    one, two = (
        key_of(question, member.identity, member.prompt_hash(question))
        for member in (judge, Replica(judge, 2))
    )
    assert isinstance(one, Listed)
    assert isinstance(two, Listed)
    assert len({one, two, one.alone, two.alone}) == 4
    alone = LLMJudge("openai")
    assert one.alone == key_of(question, alone.identity, alone.prompt_hash(question))


def test_an_unusable_lone_answer_makes_room(ledger: Path) -> None:
    """Wherever it lay."""
    question, judge = Claims("t"), LLMJudge("openai", batch=3)
    key = key_of(question, judge.identity, judge.prompt_hash(question))
    assert isinstance(key, Listed)
    assert isinstance(key.prompt, Listed)
    with SQLiteLedger(ledger) as below:
        below.put(
            [Judgement(key=key.alone, kind="claims", judge="m", prompt=key.prompt.alone, answer=freeze({}))]
        )
        above = ListedToo(below)
        useless = above.get([key])
        assert useless[key].prompt == key.prompt
        good = Judgement(key=key, kind="claims", judge="m", prompt=key.prompt, answer=freeze({"claims": []}))
        assert above.put([good], replacing=useless) == {key: good}
        assert below.get([key, key.alone])[key.alone].answer == good.answer
        assert len(below) == 1


def test_a_forecast_knows_lone_answers(server: ModelServer, ledger: Path) -> None:
    """As the run does."""
    assert asked(server, ledger, 1) == ["relevance"]
    judge = LLMJudge("openai:m", base_url=server.url, batch=3)
    question = Relevance(query="why is the sky blue", passage="the sky is blue 0")
    key = key_of(question, judge.identity, judge.prompt_hash(question))
    with SQLiteLedger(ledger) as opened:
        assert Known(ledger=opened).find(question, judge, key) is not None
