"""Checks of a test set: each says how much of it is at fault, with examples, or why that cannot be checked."""

from __future__ import annotations

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from math import sqrt
from typing import Literal

import numpy as np

from germane.clean import counted, shorten
from germane.labelling.schema import CheckName, SetCheck
from germane.labelling.testset.copies import overlaps
from germane.labelling.testset.reading import TestQuery, TestSet
from germane.labelling.testset.repeats import repeated
from germane.questions.text import words
from germane.statistics.distributions import t_quantile
from germane.statistics.intervals import UPPER, mean_interval
from germane.statistics.power import POWER

EXAMPLES = 10
"""Examples that a check names."""
COPIED = 0.05
"""The share of copied questions from which on they are a warning."""
FOUND, AHEAD = 0.94, 0.1
"""The share of the gold in one system's first k, and by how much its interval is above every other's, from which on gold looks drawn from it."""
DEPTHS = (1, 3, 5, 10, 20, 50, 100)
FEWEST = 5
"""Queries with gold below which a system's share of it says nothing."""
SPREAD, SPREAD_OF_DIFFERENCE = 0.3, 0.2
"""Standard deviations of a ranked measure between queries, and of its difference between two systems (docs/benchmarks.md)."""
_COMPARED = 2_000
"""Questions whose passages are compared, evenly spread over a larger set."""


def check_test_set(data: TestSet) -> list[SetCheck]:
    """The checks of a test set, in the order in which they are printed."""
    queries = data.queries
    groups = _repeats(data, queries)
    return [
        _duplicates(queries, groups),
        _leaks(data, queries),
        _one_system(data, queries),
        _dead(data, queries),
        _classes(queries),
        _width(queries, groups),
    ]


def _unchecked(name: CheckName, why: str) -> SetCheck:
    return SetCheck(name=name, status="not checked", count=None, of=None, examples=[], note=why)


def _result(
    name: CheckName,
    count: int,
    of: int,
    examples: Sequence[str],
    note: str,
    *,
    ok: str = "",
    warn: bool | None = None,
) -> SetCheck:
    wrong = count > 0 if warn is None else warn
    status: Literal["ok", "warning"] = "warning" if wrong else "ok"
    return SetCheck(
        name=name,
        status=status,
        count=count,
        of=of,
        examples=list(examples[:EXAMPLES]),
        note=note if wrong else ok,
    )


def _repeats(data: TestSet, queries: Sequence[TestQuery]) -> list[list[int]]:
    known = {word for text in data.texts.values() for word in words(text)}
    return repeated(
        [query.text for query in queries],
        [query.situation for query in queries],
        [query.gold for query in queries],
        known=known,
    )


def _duplicates(queries: Sequence[TestQuery], groups: Sequence[Sequence[int]]) -> SetCheck:
    """Questions that repeat an earlier one; those of one `cluster` are known to, and statistics take them as one."""
    if not any(query.text for query in queries):
        return _unchecked("duplicates", "the text of the queries is not known: give the file of queries, too")
    open_groups = [group for group in groups if len({queries[at].cluster or f" {at}" for at in group}) > 1]
    count = sum(len({queries[at].cluster or f" {at}" for at in group}) - 1 for group in open_groups)
    examples = [
        f"{', '.join(queries[at].id for at in group[:5])}{', ...' if len(group) > 5 else ''}: {shorten(queries[group[0]].text, 60)}"
        for group in open_groups
    ]
    note = (
        f"{count} of {counted(len(queries), 'query repeats', 'queries repeat')} another one; "
        "intervals are too narrow until the same `cluster` is given to each of them"
    )
    ok = f"{counted(len(queries), 'query', 'queries')}, no two the same"
    return _result("duplicates", count, len(queries), examples, note, ok=ok)


def _leaks(data: TestSet, queries: Sequence[TestQuery]) -> SetCheck:
    """Questions whose words are those of their gold passage."""
    passages = [
        [*query.quotes, *(data.texts[name] for name in query.gold if name in data.texts)] for query in queries
    ]
    asked = [at for at, texts in enumerate(passages) if texts and queries[at].text]
    if not asked:
        return _unchecked("leaks", "no text of a gold passage is at hand: --corpus names the documents")
    asked = asked[:: -(-len(asked) // _COMPARED)]
    found = overlaps([queries[at].text for at in asked], [passages[at] for at in asked], data.rest)
    copied = [at for at, overlap in zip(asked, found, strict=True) if overlap.copied()]
    examples = [f"{queries[at].id}: {shorten(queries[at].text, 70)}" for at in copied]
    note = (
        f"{len(copied)} of {counted(len(asked), 'question')} with a gold passage are copied from it: "
        "search by words finds them wherever they are; ask them in a user's words"
    )
    ok = f"{len(copied)} of {counted(len(asked), 'question')} with a gold passage copied from it"
    return _result(
        "leaks",
        len(copied),
        len(asked),
        examples,
        note,
        ok=ok,
        warn=len(copied) >= max(1, COPIED * len(asked)),
    )


def shares_by_depth(
    queries: Sequence[TestQuery], systems: AbstractSet[str]
) -> dict[int, dict[str, np.ndarray]]:
    """By depth k and system, the share of each query's gold within the first k; queries with results of all systems count."""
    common = [query for query in queries if query.gold and systems <= query.ranks.keys()]
    return {
        k: {
            system: np.array(
                [
                    sum(rank <= k for rank in query.ranks[system].values()) / len(query.gold)
                    for query in common
                ]
            )
            for system in systems
        }
        for k in DEPTHS
    }


def _one_system(data: TestSet, queries: Sequence[TestQuery]) -> SetCheck:
    """Gold that one system found and others did not, as where its own results were what was labelled."""
    systems = data.systems.keys()
    if len(systems) < 2:
        return _unchecked(
            "one-system gold",
            "the data hold the results of one system" if systems else "the data hold no results",
        )
    shares = shares_by_depth(queries, systems)
    common = len(next(iter(shares[1].values())))
    if common < FEWEST:
        return _unchecked(
            "one-system gold",
            f"{counted(common, 'query has', 'queries have')} gold and results of every system; {FEWEST} are needed",
        )
    if not any(share.any() for share in shares[DEPTHS[-1]].values()):
        return _unchecked(
            "one-system gold", "no gold is in the first places of any system, or they have no ids"
        )
    for k, of_system in shares.items():
        best = max(of_system, key=lambda system: of_system[system].mean())
        others = {system: share for system, share in of_system.items() if system != best}
        if one_sided(of_system[best], list(others.values())):
            rest = ", ".join(
                f"{system or 'the other'} {share.mean():.0%}" for system, share in others.items()
            )
            example = f"{best or 'the unnamed system'}: {of_system[best].mean():.0%} of the gold in its first {k}; {rest}"
            total = sum(len(query.gold) for query in queries)
            held = sum(rank <= k for query in queries for rank in query.ranks.get(best, {}).values())
            return _result(
                "one-system gold",
                held,
                total,
                [example],
                "nearly all gold is in one system's first places, as where only its results were labelled: label some of every system's",
            )
    total = sum(len(query.gold) for query in queries)
    return _result(
        "one-system gold",
        0,
        total,
        [],
        "",
        ok=f"the gold of {counted(common, 'query', 'queries')} is in no system's results alone",
    )


def one_sided(
    best: np.ndarray, others: Sequence[np.ndarray], found: float = FOUND, ahead: float = AHEAD
) -> bool:
    """True if nearly all gold is in one system's first places, and far less of it in those of each other system."""
    if best.mean() < found:
        return False
    limits = [mean_interval(best - other, value_range=(-1.0, 1.0), differences=True).ends for other in others]
    return all(ends is not None and ends[0] >= ahead for ends in limits)


def _dead(data: TestSet, queries: Sequence[TestQuery]) -> SetCheck:
    """Gold ids that the corpus does not hold."""
    if data.absent is None:
        return _unchecked("dead gold", "no corpus is named: --corpus names the documents")
    gold = {name for query in queries for name in query.gold}
    if not gold:
        return _unchecked("dead gold", "no gold names a document")
    if len(data.absent) == len(gold):
        fix = f"its ids are like {data.document}, the gold's like {next(iter(data.absent))}"
    else:
        fix = "`germane labels move` carries gold to a corpus that has changed"
    holders: dict[str, list[str]] = {}
    for query in queries:
        for name in data.absent.keys() & query.gold.keys():
            holders.setdefault(name, []).append(query.id)
    examples = [f"{name} ({', '.join(holders[name][:3])})" for name in data.absent]
    note = f"{len(data.absent)} of {counted(len(gold), 'gold id')} are not in the corpus: no system can find them; {fix}"
    return _result(
        "dead gold",
        len(data.absent),
        len(gold),
        examples,
        note,
        ok=f"all {counted(len(gold), 'gold id')} are in the corpus",
    )


_SEVERAL = re.compile(
    r"(multi|two|three|several|[2-9])[ _-]?(hop|doc|document|passage|source)s?\b|\bbridge\b|\bcross[ _-]?doc",
    re.IGNORECASE,
)
_ONE = re.compile(r"\b(single|one|1)[ _-]?(hop|doc|document|passage|source)s?\b", re.IGNORECASE)
_NO_ANSWER = re.compile(
    r"\b(un|not[ _-]?)answerable\b|\bno[ _-]?answer\b|\bout[ _-]of[ _-](scope|domain)\b|\boos\b",
    re.IGNORECASE,
)
_ANSWER = re.compile(r"^(is[ _-])?answerable$", re.IGNORECASE)


def _classes(queries: Sequence[TestQuery]) -> SetCheck:
    """Queries whose tags say something of the gold that the gold does not."""
    tagged = [
        query for query in queries if query.answerable is False or any(map(_known_class, query.classes))
    ]
    if not tagged:
        return _unchecked("classes", "no tag says how many documents answer a question, or that none does")
    wrong = [(query, why) for query in tagged if (why := _unanswerable(query) or _contradiction(query))]
    examples = [f"{query.id}: {why}" for query, why in wrong]
    note = f"{len(wrong)} of {counted(len(tagged), 'tagged query contradicts its gold', 'tagged queries contradict their gold')}"
    return _result(
        "classes",
        len(wrong),
        len(tagged),
        examples,
        note,
        ok=f"{counted(len(tagged), 'tagged query agrees', 'tagged queries agree')} with the gold",
    )


def _known_class(name: str) -> bool:
    return any(pattern.search(name) for pattern in (_SEVERAL, _ONE, _NO_ANSWER, _ANSWER))


def _unanswerable(query: TestQuery) -> str:
    pieces = max(len(query.gold), len(query.quotes))
    contradicts = query.answerable is False and pieces
    return f"answerable is false, and has {counted(pieces, 'gold document')}" if contradicts else ""


def _contradiction(query: TestQuery) -> str:
    pieces = max(len(query.gold), len(query.quotes))
    for name in query.classes:
        if _NO_ANSWER.search(name):
            if pieces or query.answerable:
                return (
                    f"{name}, and has {counted(pieces, 'gold document')}"
                    if pieces
                    else f"{name}, and answerable is true"
                )
        elif _SEVERAL.search(name):
            if pieces == 1 or query.groups == 1:
                return (
                    f"{name}, and has one gold document"
                    if pieces == 1
                    else f"{name}, and one group of gold is enough"
                )
        elif _ONE.search(name) and query.groups > 1:
            return f"{name}, and needs {query.groups} groups of gold"
        if not _NO_ANSWER.search(name) and _known_class(name) and query.answerable is False:
            return f"{name}, and answerable is false"
    return ""


def _width(queries: Sequence[TestQuery], groups: Sequence[Sequence[int]]) -> SetCheck:
    """How narrow an interval, and how small a difference, as many independent questions can show."""
    above = {at: group[0] for group in groups for at in group}
    units = {queries[above.get(at, at)].cluster or f" {above.get(at, at)}" for at in range(len(queries))}
    n = len(units)
    if not n:
        return _unchecked("width", "the data hold no query")
    if n < 2:
        return _result(
            "width", n, len(queries), [], "one independent query: no interval and no difference can be given"
        )
    half = t_quantile(UPPER, n - 1) * SPREAD / sqrt(n)
    difference = (t_quantile(UPPER, n - 1) + t_quantile(POWER, n - 1)) * SPREAD_OF_DIFFERENCE / sqrt(n)
    figures = [f"interval +-{half:.3f}", f"difference {difference:.3f}"]
    ok = (
        f"{counted(n, 'independent query gives', 'independent queries give')} an interval of about +-{half:.2g} at best, "
        f"and a difference of {difference:.2g} can be shown (power {POWER:g})"
    )
    return SetCheck(name="width", status="ok", count=n, of=len(queries), examples=figures, note=ok)
