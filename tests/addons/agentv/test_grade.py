"""`germane grade` as a foreign runner's script: both generations of its document, its proxy as judge."""

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from germane.types import Json
from tests.cli.conftest import Cli
from tests.server import Act, Asked, ModelServer

RETRIEVED = [
    {"text": "Coffee steeps for four minutes.", "grade": 3},
    {"text": "Snake plants want dry soil.", "grade": 0},
    {"text": "Four minutes is enough.", "grade": 2},
]
ANSWER = json.dumps({"answer": "four minutes", "retrieved_context": RETRIEVED})
OLDER: dict[str, Json] = {
    "question": "How long should coffee steep?",
    "expected_outcome": "Coffee steeps four minutes.",
    "expected_messages": [{"role": "assistant", "content": "Coffee steeps four minutes."}],
    "reference_answer": "Coffee steeps four minutes.",
    "candidate_answer": ANSWER,
    "output_messages": None,
    "guideline_files": [],
    "input_files": [],
    "input_messages": [{"role": "user", "content": "How long should coffee steep?"}],
    "trace_summary": None,
    "config": None,
}
NEWER: dict[str, Json] = {
    "criteria": "Coffee steeps four minutes.",
    "expected_output": [{"role": "assistant", "content": "Coffee steeps four minutes."}],
    "input": [{"role": "user", "content": "How long should coffee steep?"}],
    "output": [
        {
            "role": "assistant",
            "content": "four minutes",
            "tool_calls": [{"tool": "search", "input": {"query": "steep"}, "output": {"results": RETRIEVED}}],
        }
    ],
    "messages": [],
    "metadata": {},
}
SAMPLE = {"id": "s", "query": "How long should coffee steep?", "contexts": RETRIEVED}


@pytest.mark.parametrize(
    "document",
    [OLDER, NEWER, SAMPLE, {**OLDER, "input_messages": 5}],
    ids=["older", "newer", "sample line", "no messages"],
)
def test_either_generation_and_a_sample_line_are_graded(inside: Cli, document: dict[str, Json]) -> None:
    """Y N Y is .8333, in the result of both generations at once, with the strings that say why."""
    ran = inside("grade", "context_precision", "--judge", "labels", stdin=json.dumps(document))
    assert ran.code == 0, ran.err
    assert ran.out.count("\n") == 1
    result = ran.json
    assert result["score"] == pytest.approx(5 / 6)
    assert result["reasoning"] == "2/3 chunks relevant, precision score: 0.83"
    assert [hit.split(":")[0] for hit in result["hits"]] == ["Position 1", "Position 3"]
    misranked = "Position 3: Relevant but ranked below irrelevant ones"
    assert result["misses"] == ["Position 2: Not relevant", misranked]
    assert [check["passed"] for check in result["assertions"]] == [True, True, False, False]
    checks = result["details"]["relevance_checks"]
    assert [(check["position"], check["grade"], check["relevant"]) for check in checks] == [
        (1, 3, True),
        (2, 0, False),
        (3, 2, True),
    ]
    assert result["details"]["band"] == "good with noise between"
    assert [step["precision"] for step in result["details"]["working"]] == pytest.approx([1, 1 / 2, 2 / 3])


def test_nothing_retrieved_is_zero_and_nobody_is_asked(inside: Cli) -> None:
    """An empty list of contexts scores 0 with the fixed miss."""
    answer = json.dumps({"answer": "?", "retrieved_context": []})
    ran = inside(
        "grade",
        "context_precision",
        "--judge",
        "labels",
        stdin=json.dumps({**OLDER, "candidate_answer": answer}),
    )
    assert (ran.code, ran.json["score"], ran.json["misses"]) == (0, 0.0, ["No context retrieved"])


@pytest.mark.parametrize(
    ("stdin", "why"),
    [
        ("", "not one JSON document"),
        ("[1]", "one JSON object"),
        (json.dumps({**OLDER, "candidate_answer": "just prose"}), "no contexts found"),
        (json.dumps({**OLDER, "question": "", "input_messages": []}), "<stdin>: query is"),
        (json.dumps({**OLDER, "question": "", "input_messages": True}), "<stdin>: query is"),
    ],
)
def test_unusable_input_is_exit_2_with_nothing_on_stdout(inside: Cli, stdin: str, why: str) -> None:
    """The message says what is missing; a runner sees an error, not a score."""
    ran = inside("grade", "context_precision", "--judge", "labels", stdin=stdin)
    assert (ran.code, ran.out) == (2, "")
    assert why in ran.err
    assert "Traceback" not in ran.err


@pytest.mark.parametrize("name", ["contains", "llm_judge", "composite"])
def test_a_grader_of_eval_files_is_no_measure(inside: Cli, name: str) -> None:
    """It needs the settings that an eval file gives it."""
    ran = inside("grade", name, stdin=json.dumps({"query": "q", "contexts": ["t"], "response": "r"}))
    assert (ran.code, ran.out) == (2, "")
    assert f"{name} is a grader of eval files, not a measure" in ran.err


def test_options_come_in_the_config_in_either_spelling(inside: Cli) -> None:
    """Strict fails the verdict and leaves the score; a count that is not reached is a miss; the judge can be named."""
    config = {"strict": True, "expectedRelevantCount": 3, "judge": "labels"}
    ran = inside("grade", "context_precision", stdin=json.dumps({**OLDER, "config": config}))
    assert ran.code == 0, ran.err
    assert ran.json["score"] == pytest.approx(5 / 6)
    assert ran.json["details"]["verdict"] == "fail"
    assert "Expected 3 relevant contexts, found 2" in ran.json["misses"]


@pytest.mark.parametrize(
    "document",
    [
        {"strictMode": True, "expectedRelevantCount": 3},
        {"strict": True, "config": {"expected_relevant_count": 3, "strict_mode": True}},
    ],
)
def test_options_stand_beside_the_answer_or_in_the_config(inside: Cli, document: dict[str, Json]) -> None:
    """The words of AgentV's design note, in any spelling."""
    ran = inside("grade", "context_precision", "--judge", "labels", stdin=json.dumps({**OLDER, **document}))
    assert ran.code == 0, ran.err
    assert ran.json["details"]["verdict"] == "fail"
    assert "Expected 3 relevant contexts, found 2" in ran.json["misses"]


def test_explicit_contexts_override_those_of_the_answer(inside: Cli) -> None:
    """`retrieval_context` beside a candidate answer or in the config, in the older generation's document too."""
    row = {**OLDER, "retrieval_context": [{"text": "good", "grade": 3}]}
    ran = inside("grade", "context_precision", "--judge", "labels", stdin=json.dumps(row))
    assert (ran.json["score"], len(ran.json["details"]["relevance_checks"])) == (1.0, 1)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"strikt": True}, "config has the unknown key 'strikt': it is ignored; did you mean 'strict'?"),
        (
            {"zz": 1},
            "config has the unknown key 'zz': it is ignored; remove it",
        ),
        ({"strict": "yes"}, "strict is the string 'yes'; write a valid boolean"),
        (
            {"expected_relevant_count": -1},
            "expected_relevant_count is the number -1; write a number greater than or equal to 0",
        ),
    ],
)
def test_options_that_are_not_understood(inside: Cli, config: dict[str, Json], said: str) -> None:
    """A key that is not known is a warning, a value that cannot be is an error."""
    ran = inside(
        "grade", "context_precision", "--judge", "labels", stdin=json.dumps({**OLDER, "config": config})
    )
    assert said in ran.err
    assert ran.code == (0 if "ignored" in said else 2)


@pytest.mark.parametrize(
    ("measure", "said"),
    [("latncy", "did you mean 'latency'?"), ("yncLate", "did you mean 'latency'?"), ("nDGC", "did you mean nDCG?"),
],
)  # fmt: skip
def test_an_unknown_name_is_answered_with_what_there_is(inside: Cli, measure: str, said: str) -> None:
    """Measures and graders; the same letters in another order are near, however short the name."""
    ran = inside("grade", measure, stdin='{"question": "q"}')
    assert (ran.code, ran.out, said in ran.err) == (2, "", True), ran.err


def test_no_judge_named_is_exit_2(inside: Cli) -> None:
    """Outside a runner with a proxy, a judge must be named."""
    ran = inside("grade", "context_precision", stdin=json.dumps(OLDER))
    assert (ran.code, ran.out) == (2, "")
    assert "--judge labels | lexical" in ran.err


@contextlib.contextmanager
def proxy(
    answer: Callable[[dict[str, Any]], tuple[int, Json]],
) -> Iterator[tuple[dict[str, str], list[dict[str, Any]]]]:
    """A runner's judge proxy on a loopback address, and what it was asked."""
    asked: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["content-length"])))
            asked.append({**body, "path": self.path, "authorization": self.headers["authorization"]})
            status, payload = answer(body)
            raw = json.dumps(payload).encode()
            self.send_response(status)
            self.send_header("content-length", str(len(raw)))
            self.end_headers()
            self.wfile.write(raw)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        url = f"http://127.0.0.1:{server.server_address[1]}"
        yield {"AGENTV_TARGET_PROXY_URL": url, "AGENTV_TARGET_PROXY_TOKEN": "secret"}, asked
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_a_runners_proxy_is_the_judge(inside: Cli) -> None:
    """With no judge named, questions go to the proxy with its token; fenced JSON in its raw text is understood."""

    def answer(body: dict[str, Any]) -> tuple[int, Json]:
        grade = 3 if "minutes" in body["question"].split("<passage-")[-1].split("</passage-")[0] else 0
        return 200, {
            "rawText": f'Sure!\n```json\n{{"reasoning": "seen", "grade": {grade}}}\n```',
            "outputMessages": [],
        }

    with proxy(answer) as (env, asked):
        ran = inside("grade", "context_precision", stdin=json.dumps(OLDER), env=env)
    assert ran.code == 0, ran.err
    assert ran.json["score"] == pytest.approx(5 / 6)
    assert len(asked) == 3
    assert {(one["path"], one["authorization"]) for one in asked} == {("/invoke", "Bearer secret")}
    assert all(one["systemPrompt"] for one in asked)


def test_a_proxy_that_refuses_is_exit_3(inside: Cli) -> None:
    """429 past the runner's limit: the judge failed, no score is printed."""
    with proxy(lambda _: (429, {"error": "too many calls"})) as (env, asked):
        ran = inside("grade", "context_precision", stdin=json.dumps(OLDER), env=env)
    assert (ran.code, ran.out) == (3, "")
    assert "429" in ran.err
    assert len(asked) == 3


def test_an_unusable_answer_is_asked_again(inside: Cli) -> None:
    """Prose instead of JSON is told what was wrong; the second answer counts."""
    turns: dict[str, int] = {}

    def answer(body: dict[str, Any]) -> tuple[int, Json]:
        key = body["question"].split("\n\nYou answered")[0]
        turns[key] = turns.get(key, 0) + 1
        text = "It is relevant, 3 of 3." if turns[key] == 1 else '{"reasoning": "", "grade": 3}'
        return 200, {"rawText": text}

    with proxy(answer) as (env, asked):
        ran = inside("grade", "context_precision", stdin=json.dumps(OLDER), env=env)
    assert (ran.code, ran.json["score"]) == (0, 1.0)
    assert len(asked) == 6


@pytest.mark.parametrize("measure", ["context_recall", "context_entity_recall"])
def test_an_expected_message_that_is_only_contexts_is_no_reference(inside: Cli, measure: str) -> None:
    """AgentV sends it as the reference answer all the same; the expected outcome is no reference either."""
    contexts = json.dumps({"retrieved_context": ["Coffee steeps for four minutes."]})
    document = {
        **OLDER,
        "expected_messages": [{"role": "assistant", "content": contexts}],
        "reference_answer": contexts,
    }
    ran = inside("grade", measure, "--judge", "lexical", stdin=json.dumps(document))
    assert (ran.code, ran.out) == (2, "")
    assert "no reference" in ran.err
    assert inside("grade", "context_precision", "--judge", "labels", stdin=json.dumps(document)).code == 0


def test_the_votes_of_a_panel(inside: Cli, monkeypatch: pytest.MonkeyPatch) -> None:
    """They stand with the place that they are about."""
    grades = {"m1": 3, "m2": 1}

    def vote(asked: Asked) -> Act:
        return Act(change=lambda answer: {**answer, "grade": grades[asked.json["model"]]})

    monkeypatch.setenv("OPENAI_API_KEY", "test")
    monkeypatch.setenv("GERMANE_JUDGE", "openai:m1 openai:m2")
    row = {"id": "q1", "query": "what is it", "contexts": ["it is one"]}
    with ModelServer(vote) as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.url)
        ran = inside("grade", "context_precision@5", "--no-cache", stdin=json.dumps(row))
    (check,) = ran.json["details"]["relevance_checks"]
    assert check["grade"] == 1


def test_hostile_text_on_stdin(inside: Cli, tmp_path: Path) -> None:
    """An error that quotes it has no escape in it; nor is a ledger made that cannot be kept."""
    ran = inside("grade", "context_precision", "--judge", "labels", stdin='{"[31m\\u001b\\u202e": 1}')
    assert ran.code == 2
    assert not set(ran.out + ran.err) & {"\x1b", "\u202e"}
    before = sorted(tmp_path.iterdir())
    words = ("--judge", "lexical", "--ledger", "mysql://u:secret@h/d")
    ran = inside("grade", "context_precision@2", *words, stdin=json.dumps(SAMPLE))
    assert (ran.code, "a ledger cannot be stored at mysql://...; write a file" in ran.err) == (2, True)
    assert sorted(tmp_path.iterdir()) == before
