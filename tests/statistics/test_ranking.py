import pytest
from hypothesis import given
from hypothesis import strategies as st

from germane.statistics.systems import (
    rank_biased_overlap,
)


def rbo_by_definition(a: str, b: str, p: float) -> float:
    """RBO of the lists continued at the agreement they end with, summed over 2,000 ranks: lists of equal length."""
    agreement = [len(set(a[:d]) & set(b[:d])) / d for d in range(1, len(a) + 1)]
    agreement += [agreement[-1]] * 2000
    return (1 - p) * sum(p**d * x for d, x in enumerate(agreement))


@pytest.mark.parametrize(
    ("a", "b"), [("abcde", "abcde"), ("abcde", "badfe"), ("abc", "xyz"), ("abcd", "dcba")]
)
@pytest.mark.parametrize("p", [0.5, 0.9, 0.98])
def test_rbo_of_lists_of_equal_length_is_its_definition(a: str, b: str, p: float) -> None:
    """The extrapolated value is the infinite sum with the last agreement carried on."""
    assert rank_biased_overlap(a, b, p) == pytest.approx(rbo_by_definition(a, b, p))


def test_rbo_of_lists_of_unequal_length() -> None:
    """Formula 32 by hand: abc against bacde, p = .9."""
    p, overlaps = 0.9, [0, 2, 3, 3, 3]
    first = sum(x / d * p**d for d, x in enumerate(overlaps, 1))
    second = sum(3 * (d - 3) / (3 * d) * p**d for d in (4, 5))
    expected = (1 - p) / p * (first + second) + ((3 - 3) / 5 + 3 / 3) * p**5
    assert rank_biased_overlap("abc", "bacde", p) == pytest.approx(expected)
    assert rank_biased_overlap("bacde", "abc", p) == pytest.approx(expected)


@given(st.permutations("abcdef"), st.permutations("cdefgh"), st.integers(0, 6), st.floats(0.1, 0.99))
def test_rbo_is_symmetric_and_between_0_and_1(a: list[str], b: list[str], cut: int, p: float) -> None:
    """Whatever the lists and the persistence; a list against itself is 1."""
    found = rank_biased_overlap(a[:cut], b, p)
    assert found == pytest.approx(rank_biased_overlap(b, a[:cut], p))
    assert -1e-12 <= found <= 1 + 1e-12
    assert rank_biased_overlap(a[:cut], a[:cut], p) == pytest.approx(1)


def test_rbo_of_repeated_items_counts_the_first() -> None:
    """A repeated passage cannot make lists more alike."""
    assert rank_biased_overlap("aab", "ab") == rank_biased_overlap("ab", "ab")
