"""What errors of endpoints mean: give up, ask for less, or mend the base URL."""

from __future__ import annotations

import json

import pytest

from germane.judging.statuses import broke, fewer, said, too_long, unfinished, unfit, useless


@pytest.mark.parametrize(
    ("status", "text"),
    [
        (400, "invalid model ID (invalid_request_error)"),
        (400, "API key not valid. Please pass a valid API key."),
        (400, "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing."),
        (400, "The model `m` does not exist. (404)"),
        (402, "Insufficient credits"),
        (405, "Method Not Allowed"),
        (307, "the server points to http://h/v1"),
    ],
)
def test_what_no_other_request_can_mend_is_useless(status: int, text: str) -> None:
    """Whatever status it comes with."""
    assert useless(status, text)


def test_no_money_is_not_waited_for() -> None:
    """A credit balance does not come back by waiting."""
    assert broke("Your credit balance is too low to access the Anthropic API.")
    assert not broke("Rate limit reached")


@pytest.mark.parametrize(
    ("status", "raw"),
    [
        (404, "<html><head><title>404 Not Found</title></head><body><h1>404 Not Found</h1></body></html>"),
        (404, '{"detail":"Not Found"}'),
        (404, "404 page not found"),
        (404, '{"error":{"code":404,"message":"File Not Found","type":"not_found_error"}}'),
        (404, ""),
        (405, '{"detail":"Method Not Allowed"}'),
    ],
)
def test_a_path_where_nobody_is_hints_at_the_base_url(status: int, raw: str) -> None:
    """In words, without a page of HTML."""
    text = said(raw.encode(), status)
    assert text.endswith("is that the whole base URL? Most end in /v1")
    assert "<" not in text


def test_a_model_that_is_not_there_is_another_matter() -> None:
    """The base URL is right then."""
    text = said(b'{"error":{"message":"The model `m` does not exist","code":"model_not_found"}}', 404)
    assert text == "The model `m` does not exist (model_not_found)"


def test_a_redirect_names_where_to() -> None:
    """Nothing is sent there: the user decides."""
    text = said(b"", 307, {"location": "https://h/v1/chat/completions"})
    assert text == "the server points to https://h/v1/chat/completions; give the base URL that leads there"


@pytest.mark.parametrize(
    ("text", "asked", "left"),
    [
        ("max_tokens is too large: 8192. This model supports at most 4096 completion tokens", 8192, 4096),
        ("max_tokens: 8192 > 4096, which is the maximum allowed number of output tokens", 8192, 4096),
        ("`max_tokens` must be less than or equal to `8,000`", 9000, 8000),
        ("max_tokens exceeds the limit", 8192, 4096),
        (
            "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens (1000 in the messages, 8000 in the completion).",
            8000,
            7192,
        ),
        (
            "This model's maximum context length is 8192 tokens. However, you requested 17000 tokens (9000 in the messages, 8000 in the completion).",
            8000,
            None,
        ),
        ("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.", 500, None),
        ("temperature must be at most 1", 500, None),
        ("max_tokens is too large", 100, None),
    ],
)
def test_how_much_room_an_error_leaves(text: str, asked: int, left: int | None) -> None:
    """What it says, or half; None where it is about something else or nothing would be left."""
    assert fewer(text, asked) == left


def test_answers_that_the_server_kept_to_itself() -> None:
    """Thrown away for their form, or for their length."""
    said_so = json.dumps("Failed to call a function. (tool_use_failed)")
    assert unfit(said_so)
    assert unfinished("Could not finish the message because max_tokens or model output limit was reached.")
    assert not unfit("This model does not support response format `json_schema`")
    assert not too_long(400, said_so)
