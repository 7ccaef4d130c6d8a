"""What a user says about waiting and prices is checked where it is said."""

from __future__ import annotations

from typing import Any

import pytest

from germane.errors import InputError
from germane.judges import Price, RetryPolicy


@pytest.mark.parametrize(
    ("kind", "wrong", "fix"),
    [
        (RetryPolicy, {"read": 0}, "write seconds: a number more than 0"),
        (RetryPolicy, {"deadline": "60"}, "write seconds: a number more than 0"),
        (RetryPolicy, {"connect": float("nan")}, "write seconds: a number more than 0"),
        (RetryPolicy, {"backoff": -1}, "write seconds: a number more than 0"),
        (RetryPolicy, {"attempts": 0}, "write a whole number from 1"),
        (RetryPolicy, {"attempts": 1.5}, "write a whole number from 1"),
        (Price, {"input": "1", "output": 2}, "write dollars for a million tokens, from 0"),
        (Price, {"input": 1, "output": -2}, "write dollars for a million tokens, from 0"),
        (Price, {"input": 1, "output": 2, "cached": True}, "write dollars for a million tokens, from 0"),
    ],
)
def test_a_setting_that_is_none_is_an_error_at_once(kind: Any, wrong: dict[str, Any], fix: str) -> None:
    """Not after the first paid answer; with what to write instead."""
    with pytest.raises(InputError, match=f"is not possible; {fix}"):
        kind(**wrong)


def test_what_is_possible_is_taken() -> None:
    """Whole seconds, nothing to pay, no price of its own for what a provider caches."""
    assert RetryPolicy(read=1, attempts=1).read == 1
    assert Price(input=0, output=0).cost(1000, 10, cached_tokens=5) == 0
