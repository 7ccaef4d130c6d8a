"""How long a response asks to wait, and which settings of waiting and prices are possible."""

from __future__ import annotations

from typing import Any

import pytest

from germane.errors import InputError
from germane.judges import Price, RetryPolicy
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


@pytest.mark.parametrize(
    ("kind", "wrong", "fix"),
    [
        (RetryPolicy, {"read": 0}, "write a number above 0"),
        (RetryPolicy, {"deadline": "60"}, "write a number above 0"),
        (RetryPolicy, {"connect": float("nan")}, "write a number above 0"),
        (RetryPolicy, {"attempts": 0}, "write a whole number from 1"),
        (RetryPolicy, {"attempts": 1.5}, "write a whole number from 1"),
        (Price, {"input": "1", "output": 2}, "write a number from 0"),
        (Price, {"input": 1, "output": 2, "cached": True}, "write a number from 0"),
    ],
)
def test_a_setting_that_is_none_is_an_error_at_once(kind: Any, wrong: dict[str, Any], fix: str) -> None:
    """Not after the first paid answer; with what to write instead."""
    with pytest.raises(InputError, match=f"invalid .*; {fix}"):
        kind(**wrong)


def test_what_is_possible_is_taken() -> None:
    """Whole seconds, nothing to pay, no price of its own for what a provider caches."""
    assert RetryPolicy(read=1, attempts=1).read == 1
    assert Price(input=0, output=0).cost(1000, 10, cached_tokens=5) == 0


@pytest.mark.parametrize(("asked", "most"), [(4.0, 4.4), (10.0, 11.0), (100.0, 101.0)])
def test_a_named_wait_is_never_shortened_and_spread(asked: float, most: float) -> None:
    """Those who were asked to wait the same time come back over a tenth of it, a second at most."""
    waits = [RetryPolicy().wait(asked, 1) for _ in range(300)]
    assert asked <= min(waits)
    assert max(waits) <= most
    assert max(waits) - min(waits) > 0.8 * (most - asked)


def test_a_wait_that_names_no_time_is_a_backoff() -> None:
    """A second wait is no shorter than the backoff."""
    policy = RetryPolicy(backoff=8)
    waits = [policy.wait(None, 1) for _ in range(300)]
    assert min(waits) < 4  # anywhere up to the backoff: full jitter
    assert 8 < max(waits) <= 16
    assert max(policy.wait(1.0, 2) for _ in range(300)) > 16
    assert min(policy.wait(1.0, 2) for _ in range(300)) >= 1


@pytest.mark.parametrize("asked", [None, 0.0])
def test_the_wait_stays_short_after_thousands_of_refusals(asked: float | None) -> None:
    """A server that asks to come back at once can be asked thousands of times before the deadline."""
    assert 0 <= RetryPolicy(longest=0.01).wait(asked, 5000) <= 0.01
