"""The judge that a script is lent: over real HTTP, with a model at the far end of real HTTP."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from germane.addons.agentv.graders import CodeGrader
from germane.errors import LimitReached
from germane.evalfiles import Case
from germane.graders import GraderResult
from germane.judging.spending import Budget
from germane.ledger.sqlite import SQLiteLedger
from germane.types import Sample
from tests.addons.agentv.running import graded, judge_of, told
from tests.server import Act, ModelServer

CASE = Case(sample=Sample(id="1", query="q", response="r"))
CLIENT = """
import json, os, sys, urllib.error, urllib.request
URL, TOKEN = os.environ["AGENTV_TARGET_PROXY_URL"], os.environ["AGENTV_TARGET_PROXY_TOKEN"]
def call(path, body=None, token=TOKEN):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(URL + path, data, {"Authorization": "Bearer " + token})
    try:
        with urllib.request.urlopen(request) as response: return [response.status, json.load(response)]
    except urllib.error.HTTPError as error: return [error.code, json.load(error)]
def done(**details): print(json.dumps({"score": 1, "details": details}))
"""


def answering(text: str) -> Act:
    return Act(text=text)


def run(code: str, server: ModelServer | None, max_calls: int = 50, **more: Any) -> GraderResult:
    grader = CodeGrader(script=(sys.executable, "-c", CLIENT + code), max_calls=max_calls)
    return graded(grader, CASE, judge_of(server) if server else None, **more)


def test_a_script_asks_the_evaluation_s_judge() -> None:
    """The question and the system prompt reach the model as they are; its text comes back in both protocols' words."""
    with ModelServer([answering('{"relevant": true}')]) as server:
        found = run(
            "done(it=call('/invoke', {'question': 'Is <b>it</b>?', 'systemPrompt': 'Be brief.'}))", server
        )
        (asked,) = server.asked
    status, said = told(found)["it"]
    assert status == 200
    assert said["rawText"] == '{"relevant": true}'
    assert (
        said["outputMessages"] == said["output"] == [{"role": "assistant", "content": '{"relevant": true}'}]
    )
    assert asked.user == "Is <b>it</b>?"
    assert asked.system.startswith("Be brief.")


@pytest.mark.parametrize("schema", [True, False])
def test_the_model_s_own_text_comes_back(schema: bool) -> None:
    """Whatever it is, in one request that asks for no schema of ours; not even where the endpoint has refused one."""
    text = '<think>hm</think> Rather: {not json} {"grade": 1} but no'
    code = "done(it=[call('/invoke', {'question': q})[1]['rawText'] for q in 'ab'])"
    with ModelServer([answering(text), answering("")], schema=schema) as server:
        found = run(code, server)
        assert server.count == 2
        for asked in server.asked:
            assert asked.json.keys() == {"model", "messages", "temperature"}
            assert [message["role"] for message in asked.json["messages"]] == ["system", "user"]
            assert "JSON" not in str(asked.json["messages"])
    assert told(found)["it"] == [text, ""]


def test_a_text_that_was_cut_off_is_the_model_s_own() -> None:
    """It is not asked for again."""
    with ModelServer([Act(text="one two three four", cut=True)]) as server:
        found = run("done(it=call('/invoke', {'question': 'a'}))", server)
        assert server.count == 1
    assert told(found)["it"][1]["rawText"] == "one two t"


def test_past_the_limit_it_answers_429() -> None:
    """No further request reaches the model, alone or in a batch; /info counts."""
    code = """
one = call('/invoke', {'question': 'a'})
batch = call('/invokeBatch', {'requests': [{'question': 'b'}, {'question': 'c'}]})
two = call('/invoke', {'question': 'd'})
three = call('/invoke', {'question': 'e'})
done(codes=[one[0], batch[0], two[0], three[0]], info=call('/info')[1], error=three[1]['error'])
"""
    with ModelServer([answering("x")] * 9) as server:
        found = run(code, server, max_calls=2)
        assert server.count == 2
    assert told(found)["codes"] == [200, 429, 200, 429]
    assert (told(found)["info"]["maxCalls"], told(found)["info"]["callCount"]) == (2, 2)
    assert "limit: 2" in told(found)["error"]


def test_a_batch_is_asked_at_once() -> None:
    """One response per request, in their order; a bad request among them is its own error."""
    code = "done(it=call('/invokeBatch', {'requests': [{'question': 'a'}, {}, {'question': 'b'}]}))"
    with ModelServer(lambda asked: answering(f"to {asked.user}")) as server:
        found = run(code, server)
    texts = [one["rawText"] for one in told(found)["it"][1]["responses"]]
    assert texts == ["to a", "Error: Missing required field: question", "to b"]


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        ("call('/invoke', {'question': 'a'}, token='wrong')", 401),
        ("call('/info', token='')", 401),
        ("call('/nowhere')", 404),
        ("call('/invoke', {})", 400),
        ("call('/invoke', [1])", 400),
        ("call('/invokeBatch', {'requests': 1})", 400),
    ],
)
def test_bad_requests_are_refused(request_: str, status: int) -> None:
    """With a status and why; the model is not asked."""
    with ModelServer() as server:
        found = run(f"done(it={request_})", server)
        assert server.count == 0
    assert told(found)["it"][0] == status
    assert told(found)["it"][1]["error"]


def test_a_model_that_fails_is_an_error_of_the_call() -> None:
    """The script may go on."""
    with ModelServer(lambda _: Act(status=400, error="no")) as server:
        found = run("done(it=call('/invoke', {'question': 'a'}))", server)
    assert told(found)["it"][0] == 500


def test_its_answers_are_kept_in_the_ledger(tmp_path: Path) -> None:
    """A second run of the script asks the model nothing."""
    with ModelServer([answering("x")]) as server:
        for _ in range(2):
            ledger = SQLiteLedger(tmp_path / "ledger.sqlite")
            found = run("done(it=call('/invoke', {'question': 'a'}))", server, ledger=ledger)
            ledger.close()
            assert told(found)["it"][1]["rawText"] == "x"
        assert server.count == 1


def test_its_calls_count_against_the_budget() -> None:
    """Where the evaluation's calls are used up the script is told so, and the evaluation stops."""
    with ModelServer([answering("x")] * 3) as server, pytest.raises(LimitReached):
        run(
            "[call('/invoke', {'question': str(n)}) for n in range(3)]; done()",
            server,
            budget=Budget(None, 1),
        )
    assert server.count == 1


def test_without_a_judge_the_script_is_not_run() -> None:
    """It says how to name one."""
    found = run("done()", None)
    assert found.status == "error"
    assert "--judge" in str(found.why)
