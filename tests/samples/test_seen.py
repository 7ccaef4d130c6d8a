"""The compact table of identities says what a dict would."""

from hypothesis import given
from hypothesis import strategies as st

from germane.samples.reading import Seen

KEYS = st.one_of(st.integers(), st.text(max_size=3), st.tuples(st.text(max_size=2), st.integers(0, 3)))


@given(st.lists(KEYS, max_size=300))
def test_a_key_keeps_its_first_number(keys: list[object]) -> None:
    """As `dict.setdefault` has it, whatever the keys hash to (0 among them) and however often they come."""
    seen, known = Seen(), dict[int, int]()
    for number, key in enumerate(keys, 1):
        assert seen.first(key, number) == known.setdefault(hash(key) or 1, number)
    assert len(seen) == len(known)


def test_it_grows() -> None:
    """Thousands of keys, each found again."""
    seen = Seen()
    for number in range(20_000):
        assert seen.first(("q", number), number) == number
    assert all(seen.first(("q", number), 0) == number for number in range(20_000))
