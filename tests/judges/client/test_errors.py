"""What a body says went wrong: an error's words, and errors that are sent as a success."""

from __future__ import annotations

import pytest

from germane.judges.client.errors import UNKNOWN, failure_in, message_of
from germane.types import Json


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
    text = message_of(raw.encode(), status)
    assert text.endswith("is that the whole base URL? Most end in /v1")
    assert "<" not in text


def test_a_model_that_is_not_there_is_another_matter() -> None:
    """The base URL is right then."""
    text = message_of(b'{"error":{"message":"The model `m` does not exist","code":"model_not_found"}}', 404)
    assert text == "The model `m` does not exist (model_not_found)"


def test_a_redirect_names_where_to() -> None:
    """Nothing is sent there: the user decides."""
    text = message_of(b"", 307, {"location": "https://h/v1/chat/completions"})
    assert text == "the server points to https://h/v1/chat/completions; give the base URL that leads there"


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
        ('{"choices": null, "base_resp": {"status_code": 1004, "status_msg": "login fail"}}', "login fail"),
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
    ({"error": {"code": "rate_limit_exceeded", "message": "slow down"}}, 429),
    ({"error": {"message": "something broke"}}, 500),
    ({"error": {"message": "something broke"}, "choices": [CHOICE]}, 500),
    ({"error": "Unexpected endpoint or method. (POST /chat/completions). Returning 200 anyway"}, 404),
    ({"choices": [{**CHOICE, "error": {"code": 429, "message": "upstream"}}]}, 429),
    ({"choices": [{**CHOICE, "error": "odd"}]}, 500),
    ({"detail": "Unauthorized"}, 401),
    ({"detail": "Not Found"}, 404),
    ({"object": "error", "message": "something broke", "code": 40301}, UNKNOWN),
    ({"status": "ok"}, UNKNOWN),
    ({}, UNKNOWN),
]


@pytest.mark.parametrize(("body", "status"), ERRORS)
def test_an_error_that_is_sent_as_a_success_has_the_status_that_it_names(body: Json, status: int) -> None:
    """By number or by words."""
    found = failure_in(body)
    assert found is not None
    assert found[0] == status


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
    assert failure_in(body) is None
