"""Each fault of a provider, from the request to the score."""

import json
from pathlib import Path
from typing import Any

import pytest

from germane import evaluate
from germane.errors import JudgeError
from germane.judges import LLMJudge, Price, RetryPolicy
from germane.reports.summary import MeasureSummary
from tests.server import Act, Asked, ModelServer, storm

SAMPLES = [{"id": "a", "query": "how tall is it", "contexts": ["it is 300 m tall", "cats sleep"]}]


def precision(server: ModelServer, **options: Any) -> MeasureSummary:
    judge = LLMJudge("openai:test", base_url=server.url, **options)
    return evaluate(SAMPLES, "context_precision@5", judge=judge)["context_precision@5"]


def test_what_a_perfect_retriever_scores_over_http() -> None:
    """A constant answer by the kind of question."""
    with ModelServer(answer={"relevance": {"grade": 3}}) as server:
        assert precision(server).mean == 1.0


def test_a_rule_of_ones_own() -> None:
    """A rule reads the sections of the request."""

    def rule(kind, sections, schema):
        return {"grade": 3 if "300 m" in sections["passage"] else 0}

    with ModelServer(answer=rule) as server:
        assert precision(server).mean == 1.0


def test_slow_answers() -> None:
    """They are waited for."""
    with ModelServer(latency=0.2) as server:
        assert precision(server).n == 1


def test_a_429_that_says_when_to_come_back() -> None:
    """It is waited for and costs no attempt."""
    with ModelServer([Act(status=429, headers={"retry-after": 1})]) as server:
        assert precision(server).n == 1
    assert server.count == 3  # the refusal, and an answer for each passage


def test_a_429_that_does_not() -> None:
    """The client backs off."""
    with ModelServer([Act(status=429)]) as server:
        assert precision(server).n == 1


def test_a_500() -> None:
    """It is tried again."""
    with ModelServer([Act(status=500, error="something broke")]) as server:
        assert precision(server).n == 1


def test_a_request_that_is_never_answered() -> None:
    """It is given up after `read` seconds, and asked again."""
    with ModelServer([Act(hang=True)]) as server:
        assert precision(server, retry=RetryPolicy(read=2)).n == 1
    assert server.count == 3


def test_a_connection_that_is_reset_half_way() -> None:
    """It is tried again."""
    with ModelServer([Act(reset=True)]) as server:
        assert precision(server).n == 1


def test_a_truncated_body() -> None:
    """It is tried again."""
    with ModelServer([Act(truncate=True)]) as server:
        assert precision(server).n == 1


def test_an_answer_that_trickles_in() -> None:
    """It is read to its end."""
    with ModelServer([Act(drip=0.001)]) as server:
        assert precision(server).n == 1


def test_malformed_json() -> None:
    """It is asked again with what was wrong."""
    with ModelServer([Act(text='{"grade": 3, "reas')]) as server:
        assert precision(server).n == 1


def test_a_body_that_is_a_web_page() -> None:
    """It is no answer, and asked again."""
    with ModelServer([Act(body="<html>")]) as server:
        assert precision(server).n == 1


def test_nothing_but_web_pages() -> None:
    """What the page says is in the error, and that the base URL may be wrong."""
    page = "\n<!DOCTYPE html><html><head><title>Sign in</title></head><body><p>Corp proxy</p></body></html>"
    with (
        ModelServer(lambda _: Act(body=page)) as server,
        pytest.raises(JudgeError, match=r"a web page: Sign in Corp proxy; is that the whole base URL\?"),
    ):
        precision(server)


def test_an_answer_of_another_schema() -> None:
    """It is asked again."""
    with ModelServer([Act(text='{"verdict": "yes"}')]) as server:
        assert precision(server).n == 1


def test_a_grade_out_of_range() -> None:
    """It is asked again."""
    with ModelServer([Act(change=lambda answer: {**answer, "grade": 9})]) as server:
        assert precision(server).n == 1


def test_a_refusal() -> None:
    """No verdict is never "irrelevant"."""
    refused = Act(refusal="I cannot judge this.")
    answer = {"relevance": {"grade": 3}}
    with ModelServer(lambda asked: refused if "300 m" in asked.user else None, answer=answer) as server:
        score = precision(server)
    assert (score.n, score.incomplete) == (0, 1)  # no verdict is never "irrelevant"


def test_an_answer_cut_at_the_token_limit() -> None:
    """It is asked again with more room."""
    with ModelServer([Act(cut=True)]) as server:
        assert precision(server, max_output_tokens=50).n == 1
    assert server.count == 3  # asked again, with more room


def test_a_dead_endpoint_is_no_zero() -> None:
    """A failure is no 0."""
    with ModelServer(lambda asked: Act(status=500) if "300 m" in asked.user else None) as server:
        score = precision(server, retry=RetryPolicy(backoff=0.01))
    assert (score.mean, score.incomplete) == (None, 1)


def test_a_model_without_json_schema() -> None:
    """The next mode is tried."""
    with ModelServer(schema=False) as server:
        assert precision(server).n == 1
    assert server.asked[-1].mode == "tool"


def test_a_model_without_tools_either() -> None:
    """The prompt says the shape."""
    with ModelServer(schema=False, tools=False) as server:
        assert precision(server).n == 1
    assert server.asked[-1].mode == "prompt"


def test_a_model_without_system_message_or_temperature() -> None:
    """Both are left out."""
    with ModelServer(system=False, temperature=False) as server:
        assert precision(server).n == 1
    assert "temperature" not in server.asked[-1].json


def test_the_price_of_a_run() -> None:
    """Tokens times price."""
    with ModelServer(lambda asked: Act(usage={"prompt_tokens": 1000, "completion_tokens": 100})) as server:
        judge = LLMJudge("openai:test", base_url=server.url, price=Price(input=1.0, output=10.0))
        report = evaluate(SAMPLES, "context_precision@5", judge=judge)
    assert report.manifest["judge"]["cost_usd"] == 0.004  # two passages


def test_a_provider_that_has_a_bad_day() -> None:
    """429 above all: nothing is lost."""
    with ModelServer(storm(throttled=0.3, retry_after=0.1, hanging=0)) as server:
        assert precision(server).n == 1


def test_nothing_is_asked_twice(tmp_path: Path) -> None:
    """The ledger has it."""
    with ModelServer() as server:
        judge = LLMJudge("openai:test", base_url=server.url)
        for _ in range(2):
            evaluate(SAMPLES, "context_precision@5", judge=judge, ledger=tmp_path / "ledger.sqlite")
    assert sorted(asked.sections["passage"] for asked in server.asked) == ["cats sleep", "it is 300 m tall"]


def refused(status: int, message: str, **error: Any) -> Act:
    return Act(status=status, body=json.dumps({"error": {"message": message, **error}}))


UNSUPPORTED = "Unsupported value: 'temperature' does not support 0 with this model."


@pytest.mark.parametrize(
    "act",
    [
        *(refused(status, UNSUPPORTED, param="temperature") for status in (400, 500, 502, 503)),
        refused(500, "This value is refused.", param="temperature", code="unsupported_value"),
        refused(400, "Provider returned error", metadata={"raw": json.dumps({"error": UNSUPPORTED})}),
        refused(502, "Provider returned error", cause={"message": UNSUPPORTED}),
        refused(500, "Internal error", innererror={"message": UNSUPPORTED}),
        refused(500, "`temperature` may only be set to 1 when thinking is enabled."),
        refused(502, "temperature: this field is deprecated for this model"),
    ],
)
def test_a_refused_parameter_is_left_out_whatever_the_status(act: Act) -> None:
    """One request learns it: no attempt is repeated as after an outage."""
    with ModelServer(
        lambda asked: act if "temperature" in asked.json else None, answer={"relevance": {"grade": 3}}
    ) as server:
        assert precision(server, temperature=0, concurrency=1).mean == 1.0
    assert server.count == 3


@pytest.mark.parametrize(
    "act",
    [
        refused(500, "response_format is not supported"),
        *(refused(500, f"{words} grammar") for words in ("failed to parse", "Failed to compile")),
        refused(500, "JSON schema conversion failed:\nUnrecognized schema"),
        refused(500, "invalid format"),
        refused(
            503, "Provider returned error", metadata={"raw": "json_schema is not supported: response_format"}
        ),
        refused(400, "Failed to generate JSON", code="json_validate_failed"),
        refused(500, "Failed to generate JSON", code="json_validate_failed"),
    ],
)
def test_a_refused_schema_is_asked_for_in_words(act: Act) -> None:
    """Whatever the status, and where the server throws every answer with a schema away."""
    with ModelServer(
        lambda asked: None if asked.mode == "prompt" else act, answer={"relevance": {"grade": 3}}
    ) as server:
        assert precision(server).mean == 1.0


def test_one_passage_whose_structured_answers_are_thrown_away() -> None:
    """It alone is asked without a schema."""
    act = refused(400, "Failed to generate JSON", code="json_validate_failed")

    def script(asked: Asked) -> Act | None:
        return act if "cats" in asked.user and asked.mode != "prompt" else None

    def rule(kind, sections, schema):
        return {"grade": 3 if "cats" in sections["passage"] else 0}

    with ModelServer(script, answer=rule) as server:
        assert precision(server, concurrency=1).mean == 0.5
    assert [asked.mode for asked in server.asked] == ["schema", "schema", "schema", "prompt"]


def test_the_reason_within_a_provider_error_is_shown() -> None:
    """OpenRouter passes the words of the provider on in metadata."""
    act = refused(400, "Provider returned error", metadata={"raw": '{"message": "the moon is full"}'})
    with ModelServer(lambda asked: act) as server:
        judge = LLMJudge("openai:test", base_url=server.url)
        report = evaluate(SAMPLES, "context_precision@5", judge=judge)
    assert "the moon is full" in str([score.why for score in report.scores()])
