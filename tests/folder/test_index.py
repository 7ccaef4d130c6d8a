"""Lines by name: all bytes of a name decide, and the first line of a name is found."""

import random

from germane.folder.lines import LineIndex


def test_names_that_share_their_first_half_are_told_apart() -> None:
    """Also names with several lines, and names without any."""
    rng = random.Random(0)
    halves = [bytes([n]) * 8 for n in range(3)]
    names = [first + second for first in halves for second in halves if first != second]
    lines = [(rng.choice(names), offset) for offset in range(200)]
    index = LineIndex()
    for name, offset in lines:
        index.add(name, offset)
    first = {name: next(offset for known, offset in lines if known == name) for name in names}
    absent = [half + half for half in halves]
    assert index.find([*names, *absent]) == [*map(first.get, names), -1, -1, -1]
    assert LineIndex().find(names) == [-1] * len(names)
