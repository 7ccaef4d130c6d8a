"""Checks of a test set: each says how much of it has a fault, with examples, or why it cannot be checked."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from collections.abc import Set as AbstractSet
from math import sqrt
from typing import Literal

import numpy as np

from germane.clean import counted, shorten
from germane.encoding import Line
from germane.labelling.testset.questions import overlaps, repeated
from germane.labelling.testset.reading import TestQuery, TestSet
from germane.questions.text import words
from germane.statistics.comparison import POWER
from germane.statistics.distributions import t_quantile
from germane.statistics.intervals import UPPER, mean_interval

EXAMPLES = 10
"""Examples that a check names."""
COPIED = 0.05
"""The share of copied questions from which on they are a warning."""
FOUND, AHEAD = 0.94, 0.1
"""The share of the gold in one system's first k, and the lead over every other system, from which on gold looks drawn from it."""
DEPTHS = (1, 3, 5, 10, 20, 50, 100)
FEWEST = 5
"""Queries with gold below which a system's share of it says nothing."""
SPREAD, SPREAD_OF_DIFFERENCE = 0.3, 0.2
"""Standard deviations of a ranked measure between queries, and of its difference between two systems (docs/benchmarks.md)."""
_COMPARED = 2_000
"""Questions whose passages are compared, evenly spread over a larger set."""


CheckName = Literal["duplicates", "leaks", "one-system gold", "dead gold", "classes", "width"]


class SetCheck(Line):
    """One check of a test set: `count` of `of` queries or gold ids have a fault.

    `width` counts the independent queries. `note` says what the figures mean, or why there are none.
    """

    name: CheckName
    status: Literal["ok", "warning", "not checked"]
    count: int | None
    of: int | None
    examples: list[str]
    note: str

    def __str__(self) -> str:
        examples = f" ({'; '.join(self.examples[:2])})" if self.status == "warning" and self.examples else ""
        return f"{self.name}: {self.status}: {self.note}{examples}"


class ValidationDocument(Line, kw_only=True):
    """The document of `germane validate --json`: faults, what was not checked since it would import code, and the test set's checks."""

    schema_version: Literal[1] = 1
    exit_code: Literal[0, 2]
    files: int
    faults: list[str]
    not_checked: list[str]
    checks: list[SetCheck]


def check_test_set(data: TestSet) -> list[SetCheck]:
    """Return the checks of a test set in order."""
    queries = data.queries
    known = {word for text in data.texts.values() for word in words(text)}
    groups = repeated(
        [query.text for query in queries],
        [query.situation for query in queries],
        [query.gold for query in queries],
        known=known,
    )
    return [
        _duplicates(queries, groups),
        _leaks(data, queries),
        _one_system(queries, data.systems.keys()),
        _dead(data, queries),
        _classes(queries),
        _width(queries, groups),
    ]


def _unchecked(name: CheckName, why: str) -> SetCheck:
    return SetCheck(name, "not checked", None, None, [], why)


def _result(
    name: CheckName,
    count: int,
    of: int,
    examples: Sequence[str],
    *,
    bad: str,
    ok: str = "",
    warn: bool | None = None,
) -> SetCheck:
    """Return a warning with note `bad` if anything counts (or as `warn` says), else `ok`."""
    wrong = count > 0 if warn is None else warn
    return SetCheck(
        name, "warning" if wrong else "ok", count, of, [*examples[:EXAMPLES]], bad if wrong else ok
    )


def _duplicates(queries: Sequence[TestQuery], groups: Sequence[Sequence[int]]) -> SetCheck:
    """Count the questions that repeat an earlier one; repeats within a `cluster` do not matter to statistics."""
    if not any(query.text for query in queries):
        return _unchecked("duplicates", "the text of the queries is not known: give the file of queries, too")
    clusters = [len({queries[at].cluster or f" {at}" for at in group}) for group in groups]
    repeats = [group for group, several in zip(groups, clusters, strict=True) if several > 1]
    count, size = sum(several - 1 for several in clusters), len(queries)
    examples = [
        f"{', '.join(queries[at].id for at in group[:5])}{', ...' * (len(group) > 5)}: {shorten(queries[group[0]].text, 60)}"
        for group in repeats
    ]
    bad = f"{count} of {counted(size, 'query repeats', 'queries repeat')} another one; intervals are too narrow until the same `cluster` is given to each of them"
    ok = f"{counted(size, 'query', 'queries')}, no two the same"
    return _result("duplicates", count, size, examples, bad=bad, ok=ok)


def _leaks(data: TestSet, queries: Sequence[TestQuery]) -> SetCheck:
    """Return how many questions repeat the words of their gold passage."""
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
    of = f"{len(copied)} of {counted(len(asked), 'question')} with a gold passage"
    bad = f"{of} are copied from it: search by words finds them wherever they are; ask them in a user's words"
    warn = len(copied) >= max(1, COPIED * len(asked))
    return _result("leaks", len(copied), len(asked), examples, bad=bad, ok=f"{of} copied from it", warn=warn)


def shares_by_depth(
    queries: Sequence[TestQuery], systems: AbstractSet[str]
) -> dict[int, dict[str, np.ndarray]]:
    """Return by depth k and system the share of each query's gold in the first k, over queries that all systems have."""
    common = [query for query in queries if query.gold and systems <= query.ranks.keys()]

    def share(query: TestQuery, system: str, k: int) -> float:
        return sum(rank <= k for rank in query.ranks[system].values()) / len(query.gold)

    return {
        k: {system: np.array([share(query, system, k) for query in common]) for system in systems}
        for k in DEPTHS
    }


def _one_system(queries: Sequence[TestQuery], systems: AbstractSet[str]) -> SetCheck:
    """Warn of gold that only one system found, as when only its results were labelled."""
    name: CheckName = "one-system gold"
    if len(systems) < 2:
        return _unchecked(name, f"the data hold {'the results of one system' if systems else 'no results'}")
    shares = shares_by_depth(queries, systems)
    common = len(next(iter(shares[1].values())))
    if common < FEWEST:
        have = counted(common, "query has", "queries have")
        return _unchecked(name, f"{have} gold and results of every system; {FEWEST} are needed")
    if not any(share.any() for share in shares[DEPTHS[-1]].values()):
        return _unchecked(name, "no gold is in the first places of any system, or they have no ids")
    total = sum(len(query.gold) for query in queries)
    for k, of_system in shares.items():
        best = max(of_system, key=lambda system: of_system[system].mean())
        others = {system: share for system, share in of_system.items() if system != best}
        if one_sided(of_system[best], list(others.values())):
            rest = (f"{system or 'the other'} {share.mean():.0%}" for system, share in others.items())
            share = f"{of_system[best].mean():.0%} of the gold in its first {k}"
            example = f"{best or 'the unnamed system'}: {share}; {', '.join(rest)}"
            held = sum(rank <= k for query in queries for rank in query.ranks.get(best, {}).values())
            bad = "nearly all gold is in one system's first places, as where only its results were labelled: label some of every system's"
            return _result(name, held, total, [example], bad=bad)
    ok = f"the gold of {counted(common, 'query', 'queries')} is in no system's results alone"
    return _result(name, 0, total, [], bad="", ok=ok)


def one_sided(
    best: np.ndarray, others: Sequence[np.ndarray], found: float = FOUND, ahead: float = AHEAD
) -> bool:
    """Return True if one system's first ranks hold nearly all gold, and every other system's far less."""
    if best.mean() < found:
        return False
    limits = [mean_interval(best - other, value_range=(-1.0, 1.0), differences=True).ends for other in others]
    return all(ends is not None and ends[0] >= ahead for ends in limits)


def _dead(data: TestSet, queries: Sequence[TestQuery]) -> SetCheck:
    """Return the gold ids that the corpus lacks."""
    if data.absent is None:
        return _unchecked("dead gold", "no corpus is named: --corpus names the documents")
    gold = {name for query in queries for name in query.gold}
    if not gold:
        return _unchecked("dead gold", "no gold names a document")
    fix = "`germane labels move` carries gold to a corpus that has changed"
    if len(data.absent) == len(gold):
        fix = f"its ids are like {data.document}, the gold's like {next(iter(data.absent))}"
    holders: dict[str, list[str]] = {}
    for query in queries:
        for name in data.absent.keys() & query.gold.keys():
            holders.setdefault(name, []).append(query.id)
    examples, some = [f"{name} ({', '.join(holders[name][:3])})" for name in data.absent], len(gold)
    bad = f"{len(data.absent)} of {counted(some, 'gold id')} are not in the corpus: no system can find them; {fix}"
    ok = f"all {counted(some, 'gold id')} are in the corpus"
    return _result("dead gold", len(data.absent), some, examples, bad=bad, ok=ok)


_SEVERAL = re.compile(
    r"(?i)(multi|two|three|several|[2-9])[ _-]?(hop|doc|document|passage|source)s?\b|\bbridge\b|\bcross[ _-]?doc"
)
_ONE = re.compile(r"(?i)\b(single|one|1)[ _-]?(hop|doc|document|passage|source)s?\b")
_NO_ANSWER = re.compile(
    r"(?i)\b(un|not[ _-]?)answerable\b|\bno[ _-]?answer\b|\bout[ _-]of[ _-](scope|domain)\b|\boos\b"
)
_ANSWER = re.compile(r"(?i)^(is[ _-])?answerable$")


def _classes(queries: Sequence[TestQuery]) -> SetCheck:
    """Return the queries with tags that contradict their gold."""
    tagged = [
        query for query in queries if query.answerable is False or any(map(_known_class, query.classes))
    ]
    if not tagged:
        return _unchecked("classes", "no tag says how many documents answer a question, or that none does")
    wrong = [(query, why) for query in tagged if (why := next(_contradictions(query), ""))]
    examples, size = [f"{query.id}: {why}" for query, why in wrong], len(tagged)
    bad = f"{len(wrong)} of {counted(size, 'tagged query contradicts its gold', 'tagged queries contradict their gold')}"
    ok = f"{counted(size, 'tagged query agrees', 'tagged queries agree')} with the gold"
    return _result("classes", len(wrong), size, examples, bad=bad, ok=ok)


def _known_class(name: str) -> bool:
    return any(pattern.search(name) for pattern in (_SEVERAL, _ONE, _NO_ANSWER, _ANSWER))


def _contradictions(query: TestQuery) -> Iterator[str]:
    """Yield each contradiction between a query's gold and its tags or `answerable`."""
    pieces = max(len(query.gold), len(query.quotes))
    gold = counted(pieces, "gold document")
    if query.answerable is False and pieces:
        yield f"answerable is false, and has {gold}"
    for name in query.classes:
        if _NO_ANSWER.search(name):
            if pieces or query.answerable:
                yield f"{name}, and has {gold}" if pieces else f"{name}, and answerable is true"
            continue
        if _SEVERAL.search(name):
            if pieces == 1 or query.groups == 1:
                yield f"{name}, and {'has one gold document' if pieces == 1 else 'one group of gold is enough'}"
        elif _ONE.search(name) and query.groups > 1:
            yield f"{name}, and needs {query.groups} groups of gold"
        if _known_class(name) and query.answerable is False:
            yield f"{name}, and answerable is false"


def _width(queries: Sequence[TestQuery], groups: Sequence[Sequence[int]]) -> SetCheck:
    """Return the interval width and smallest difference that this many independent questions can show."""
    above = {at: group[0] for group in groups for at in group}
    n = len({queries[above.get(at, at)].cluster or f" {above.get(at, at)}" for at in range(len(queries))})
    if not n:
        return _unchecked("width", "the data hold no query")
    if n < 2:
        bad = "one independent query: no interval and no difference can be given"
        return _result("width", n, len(queries), [], bad=bad)
    t, of_power = t_quantile(UPPER, n - 1), t_quantile(POWER, n - 1)
    half, difference = t * SPREAD / sqrt(n), (t + of_power) * SPREAD_OF_DIFFERENCE / sqrt(n)
    give = counted(n, "independent query gives", "independent queries give")
    ok = f"{give} an interval of about +-{half:.2g} at best, and a difference of {difference:.2g} can be shown (power {POWER:g})"
    figures = [f"interval +-{half:.3f}", f"difference {difference:.3f}"]
    return _result("width", n, len(queries), figures, bad="", ok=ok, warn=False)
