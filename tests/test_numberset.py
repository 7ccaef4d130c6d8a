"""A set of numbers that takes little memory is a set."""

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from germane import numberset
from germane.numberset import NumberSet

numbers = st.integers(-3, 3) | st.integers(-(2**63), 2**63 - 1) | st.integers(0, 8).map(lambda n: n << 20)


@pytest.fixture(autouse=True, scope="module", params=[4, 1 << 15])
def _sorted_after(request: pytest.FixtureRequest) -> Iterator[None]:
    """Numbers are sorted after a few, and after more than there are."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(numberset, "_RECENT", request.param)
        yield


@given(st.lists(numbers))
def test_it_is_a_set_in_order_of_addition(added: list[int]) -> None:
    """What was added is in it once, at the place where it came first; numbers that collide are kept apart."""
    found, known = NumberSet(), dict[int, int]()
    for number in added:
        assert found.add(number) is (number not in known)
        known.setdefault(number, len(known))
    assert len(found) == len(known)
    assert all(found.index(number) == place for number, place in known.items())
    assert all((number in found) is (number in known) for number in range(-4, 5))


def test_it_grows() -> None:
    """Many numbers, neighbours and multiples of a power of two among them."""
    found = NumberSet()
    added = [*range(5_000), *(number << 12 for number in range(1, 1_500))]
    for number in added:
        found.add(number)
    assert len(found) == len(set(added))
    assert all(number in found for number in added)
    assert 1_499 << 13 not in found


@given(st.lists(st.lists(numbers, max_size=2000), max_size=4))
def test_many_are_added_at_once(groups: list[list[int]]) -> None:
    """As one by one, also where a number comes twice among them."""
    together, single = NumberSet(), NumberSet()
    for group in groups:
        new = together.add_all(group)
        assert new == [single.add(number) for number in group]
    assert len(together) == len(single)
    known = {number for group in groups for number in group}
    assert all(together.index(number) == single.index(number) for number in known)
