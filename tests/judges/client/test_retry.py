"""How long a response asks to wait, in whatever way it says so."""

from __future__ import annotations

import pytest

from germane.judges.client.retry import retry_after


@pytest.mark.parametrize(
    ("body", "seconds"),
    [
        ("Quota exceeded, limit: 15 Please retry in 1.074824224s.", 1.074824224),
        ('{"details": [{"@type": "RetryInfo", "retryDelay": "31s"}]}', 31),
        ('Please retry in 30.7s. {"retryDelay":"30s"}', 30.7),
        (r'{"raw": "{\"retryDelay\": \"23s\"}"}', 23),
        ("Rate limit reached. Please try again in 20ms.", 0.02),
        ("Please try again in 7m26.4s. Visit ...", 446.4),
        ("Please try again in 1h2m3s.", 3723),
        ("Please retry after 26 seconds. To increase", 26),
        ("try again in about 2 minutes", 120),
        ("try again in a while", None),
        ("retry in 5 steps", None),
        ("", None),
    ],
)
def test_the_body_says_it_where_no_header_does(body: str, seconds: float | None) -> None:
    """In words, or in Google's details; the longest where both are there."""
    assert retry_after({}, body) == (seconds if seconds is None else pytest.approx(seconds))


def test_a_header_is_believed_first() -> None:
    """Words that differ are not looked at."""
    assert retry_after({"retry-after": "3"}, "retry in 9s") == 3
