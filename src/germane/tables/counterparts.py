"""Match the cases of two data sets by the texts of their queries if the case ids are only line numbers."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise

from germane.types import Sample


def texts_of(samples: Iterable[Sample]) -> dict[str, str]:
    """Return the query of each case by case id, in order of first appearance; white space is normalized."""
    texts: dict[str, str] = {}
    for sample in samples:
        if sample.id not in texts:
            texts[sample.id] = " ".join(sample.query.split())
    return texts


def are_line_numbers(ids: Iterable[str]) -> bool:
    """Return True if the ids are ascending positive integers, as ids are if the samples have none."""
    names = list(ids)
    whole = bool(names) and all(name.isascii() and name.isdigit() and name[0] != "0" for name in names)
    return whole and all(low < high for low, high in pairwise(map(int, names)))


def ids_of(texts: Mapping[str, str]) -> dict[str, list[str]]:
    """Return a mapping from each query text to the ids of the cases with this query, in order."""
    cases = defaultdict[str, list[str]](list)
    for case, text in texts.items():
        cases[text].append(case)
    return cases


def counterparts(ours: Mapping[str, str], theirs: Mapping[str, str]) -> dict[str, str | None]:
    """Return, for each case id in `theirs`, the id of the same case in `ours`, or None.

    Both arguments map case ids to queries. Returns {} if cases with equal ids are the same. Cases are matched
    by query if all ids may be line numbers and at least one id has different queries in the two sets. Cases
    with equal queries are matched in order if both sets contain the same number of them, else to None.
    Ascending ids other than 1, 2, 3, ... may have been chosen by the user. They are matched by query
    only if one of the differing queries occurs under another id in the other set.
    """
    different = [case for case, text in theirs.items() if ours.get(case, text) != text]
    same = not different and not ours.keys().isdisjoint(theirs)
    if same or not (are_line_numbers(ours) and are_line_numbers(theirs)):
        return {}
    cases_of = ids_of(ours)
    moved = any(theirs[case] in cases_of for case in different or theirs)
    if not moved and not (is_count(ours) and is_count(theirs)):
        return {}
    made: dict[str, str | None] = {}
    for text, cases in ids_of(theirs).items():
        mine: list[str | None] = [*cases_of.get(text, ())]
        made |= zip(cases, mine if len(mine) == len(cases) else [None] * len(cases), strict=True)
    return made


def is_count(ids: Iterable[str]) -> bool:
    """Return True if the ids are 1, 2, 3, ... or 2, 3, ... (line numbers below a header line)."""
    numbers = list(map(int, ids))
    return numbers[0] in {1, 2} and numbers[-1] - numbers[0] == len(numbers) - 1
