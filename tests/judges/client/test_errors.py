"""What the errors of endpoints mean, in whatever words, and errors that are sent as a success."""

from __future__ import annotations

import json

import pytest

from germane.judges.client.retry import (
    UNFINISHED,
    UNFIT,
    UNKNOWN,
    Action,
    decide,
    is_over_limit,
    message_of,
    next_action,
)
from germane.types import Json


@pytest.mark.parametrize(
    ("status", "raw"),
    [
        (404, "<html><head><title>404 Not Found</title></head><body><h1>404 Not Found</h1></body></html>"),
        (404, '{"detail":"Not Found"}'),
        (404, "404 page not found"),
        (404, '{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}'),
        (404, '{"type":"error","error":{"type":"not_found_error","message":"model: claude-x"}}'),
        (404, ""),
        (405, '{"detail":"Method Not Allowed"}'),
    ],
)
def test_a_path_where_nobody_is_hints_at_the_base_url(status: int, raw: str) -> None:
    """In words, without a page of HTML."""
    text = message_of(raw.encode(), status)
    assert text.endswith("is there such a model, and is that the whole base URL? Most end in /v1")
    assert "<" not in text


def test_a_model_that_is_not_there_is_another_matter() -> None:
    """The base URL is right then."""
    text = message_of(b'{"error":{"message":"The model `m` does not exist","code":"model_not_found"}}', 404)
    assert text == "The model `m` does not exist (model_not_found)"


def test_a_redirect_names_where_to() -> None:
    """Nothing is sent there: the user decides."""
    text = message_of(b"", 307, {"location": "https://h/v1/chat/completions"})
    assert text == "the server redirects to https://h/v1/chat/completions; write that address as the base URL"


@pytest.mark.parametrize(
    ("raw", "text"),
    [
        (
            '[{"error": {"code": 400, "message": "API key not valid.", "status": "X"}}]',
            "API key not valid. (400)",
        ),
        (
            '{"success": false, "errors": [{"message": "No such model", "code": 5007}]}',
            "No such model (5007)",
        ),
        (
            '{"detail": [{"loc": ["body", "tools"], "msg": "Extra inputs are not permitted", "input": {"seed": 1}}]}',
            "Extra inputs are not permitted (body, tools)",
        ),
        ('{"error": true, "message": "no"}', "no"),
        ('{"status": "ok"}', '{"status": "ok"}'),
        ("[" * 100_000, "[" * 500),
    ],
)
def test_the_words_are_found_wherever_a_server_puts_them(raw: str, text: str) -> None:
    """Google lists one error, Cloudflare several; a body that has no words is shown itself."""
    assert message_of(raw.encode()) == text


CHOICE: Json = {"message": {"content": "x"}}
ERRORS: list[tuple[Json, int]] = [
    ({"error": {"code": 502, "message": "upstream"}}, 502),
    ({"error": {"code": "401", "message": "No auth credentials found"}}, 401),
    ({"error": {"message": "something broke"}}, 500),
    ({"error": {"message": "something broke"}, "choices": [CHOICE]}, 500),
    ({"choices": [{**CHOICE, "error": {"code": 429, "message": "upstream"}}]}, 429),
    ({"choices": [{**CHOICE, "error": "odd"}]}, 500),
    ({"object": "error", "message": "something broke", "code": 40301}, UNKNOWN),
    ({"status": "ok"}, UNKNOWN),
    ({}, UNKNOWN),
]


@pytest.mark.parametrize(("body", "status"), ERRORS)
def test_an_error_that_is_sent_as_a_success_has_the_status_that_it_names(body: Json, status: int) -> None:
    """By number or by words."""
    decision = decide(200, {}, json.dumps(body).encode(), worked=True)
    assert (decision.action == "take", decision.status) == (False, status)


@pytest.mark.parametrize(
    "body",
    [
        {"choices": [CHOICE]},
        {"choices": [{**CHOICE, "error": None}], "error": None},
        {"choices": [7]},
        {"choices": []},
        {"choices": None, "object": "chat.completion"},
    ],
)
def test_a_completion_is_none(body: Json) -> None:
    """Not even an empty one: it may be asked for again."""
    assert decide(200, {}, json.dumps(body).encode(), worked=True).action == "take"


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (400, "invalid model ID (invalid_request_error)"),
        (400, "API key not valid. Please pass a valid API key."),
        (400, "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing."),
        (400, "The model `m` does not exist. (404)"),
        (400, "foo/bar is not a valid model ID (400)"),
        (400, "Invalid model: foo (1500)"),
        (400, "Incorrect API key provided: xa***yz. You can obtain an API key from https://console.x.ai."),
        (400, "API Key not found. Please pass a valid API key."),
        (404, 'model "llama3-groq-tool-use" not found, try pulling it first (not_found_error)'),
        (404, "models/gemini-0 is not found for API version v1beta, or is not supported for generateContent"),
        (404, "There is nothing with those parameters here"),
        (402, "Insufficient credits"),
        (405, "Method Not Allowed"),
        (307, "the server redirects to http://h/v1"),
    ],
)
def test_what_no_other_request_can_mend_is_useless(status: int, text: str) -> None:
    """Whatever status it comes with."""
    assert next_action(status, text, text, worked=False) == "stop"


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (404, "No endpoints found that support tool use. To learn more about provider routing, visit: ..."),
        (404, "No endpoints found that can handle the requested parameters."),
        (404, "This model does not support response_format"),
        (400, "Model m does not support parameter `tools`"),
        (400, "The model did not call a tool: the function 'relevance' was not found in it"),
        (500, "something broke"),
    ],
)
def test_what_is_about_the_request_is_not(status: int, text: str) -> None:
    """Asked in other words, or again, it may be answered."""
    assert next_action(status, text, text, worked=False) != "stop"


@pytest.mark.parametrize(
    ("status", "text", "still"),
    [
        (401, "expired", True),
        (400, "API key expired. Please renew the API key.", True),
        (403, "no", False),
        (404, "no route", False),
        (400, "the model A4 does not exist", False),
    ],
)
def test_what_has_worked_is_given_up_for_its_key_alone(status: int, text: str, still: bool) -> None:
    """A model does not cease to exist between two requests: the error is about this one."""
    assert next_action(status, text, text, worked=False) == "stop"
    assert (next_action(status, text, text, worked=True) == "stop") == still


QUOTA = "You exceeded your current quota, please check your plan and billing details."


@pytest.mark.parametrize(
    ("text", "body", "gone"),
    [
        (f"{QUOTA} (insufficient_quota)", "", True),
        (QUOTA, "", True),
        (f"{QUOTA} Please retry in 1.07s.", "", False),
        (QUOTA, f'{{"message": "{QUOTA}", "details": [{{"retryDelay": "1s"}}]}}', False),
        (QUOTA, f'{QUOTA} "GenerateRequestsPerMinutePerProjectPerModel-FreeTier"', False),
        (QUOTA, f'{QUOTA} "GenerateRequestsPerDayPerProjectPerModel-FreeTier" Please retry in 23s', True),
        (f"{QUOTA} limit: 0, model: m Please retry in 59s", "", True),
        (f"{QUOTA} limit: 15 Please retry in 59s", "", False),
    ],
)
def test_an_allowance_a_minute_is_no_empty_account(text: str, body: str, gone: bool) -> None:
    """Google says the same words for both; what its body tells besides makes the difference."""
    assert next_action(429, text, body, worked=True) == ("stop" if gone else "wait")


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (429, "Your credit balance is too low to access the Anthropic API."),
        (429, "This request would exceed your account's monthly spend limit."),
        (429, "Your team has either used all available credits or reached its monthly spending limit."),
        (429, "Budget has been exceeded! Current cost: 10.1, Max budget: 10.0"),
        (400, "Billing hard limit has been reached (billing_hard_limit_reached)"),
        (403, "Key limit exceeded (total limit). Manage it using https://openrouter.ai/settings/keys"),
    ],
)
def test_no_money_is_not_waited_for(status: int, text: str) -> None:
    """Credit does not come back by waiting, and no other request has any."""
    assert next_action(status, text, "", worked=True) == "stop"
    assert next_action(429, "API key limit exceeded (60/minute)", "", worked=True) == "wait"


@pytest.mark.parametrize(
    ("text", "over"),
    [
        ("max_tokens is too large: 8192. This model supports at most 4096 completion tokens", True),
        ("max_tokens: 8192 > 4096, which is the maximum allowed number of output tokens", True),
        ("`max_tokens` must be less than or equal to `8,000`", True),
        ("max_tokens exceeds the limit", True),
        ("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.", False),
        ("temperature must be at most 1", False),
    ],
)
def test_an_error_about_the_length_of_the_answer(text: str, over: bool) -> None:
    """None that is about the name of the limit, or about another parameter."""
    assert is_over_limit(text) == over


def test_answers_that_the_server_kept_to_itself() -> None:
    """Thrown away for their form, or for their length."""
    said_so = json.dumps("Failed to call a function. (tool_use_failed)")
    assert UNFIT.search(said_so)
    assert UNFINISHED.search(
        "Could not finish the message because max_tokens or model output limit was reached."
    )
    assert not UNFIT.search("This model does not support response format `json_schema`")
    assert next_action(400, said_so, said_so, worked=False) == "ask again"


@pytest.mark.parametrize(
    ("status", "message", "action"),
    [
        (200, None, "take"),
        (500, "internal error", "retry"),
        (408, "timeout", "retry"),
        (429, "slow down", "wait"),
        (503, "overloaded", "wait"),
        (529, "overloaded", "wait"),
        (429, "insufficient_quota", "stop"),
        (401, "no such key", "stop"),
        (404, "the model `m` does not exist", "stop"),
        (400, "maximum context length is 4096 tokens", "too long"),
        (500, "the input is too long", "too long"),
        (413, "payload", "too long"),
        (400, "output limit was reached", "more room"),
        (400, "content_filter", "filtered"),
        (403, "flagged by moderation", "filtered"),
        (400, "json_validate_failed", "ask again"),
        (500, "json_validate_failed", "ask again"),
        (400, "'temperature' is not supported", "change"),
        (500, "response_format is not supported", "change"),
        (503, "'temperature' is not supported", "change"),
        (422, "something else", "change"),
    ],
)
def test_one_table_decides_what_follows_a_response(status: int, message: str | None, action: Action) -> None:
    """The same decision whether the error comes with its status or as a success that holds it."""
    error = {"error": {"message": message, "code": status}}
    body = json.dumps({"choices": [{"message": {"content": "{}"}}]} if message is None else error).encode()
    assert decide(status, {}, body, worked=False).action == action
    assert decide(200, {}, body, worked=False).action == action


def test_an_endpoint_that_has_worked_is_not_stopped_by_a_missing_path() -> None:
    """It may be a hiccup: the next form of the request is tried."""
    assert decide(404, {}, b"not found", worked=False).action == "stop"
    assert decide(404, {}, b"not found", worked=True).action == "change"
