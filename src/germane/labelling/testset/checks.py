"""Check a test set: repeated and copied questions, missing or one-sided gold, wrong tags, and its size."""

from __future__ import annotations

import re
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from math import sqrt
from typing import Literal

import numpy as np

from germane.clean import counted, shorten
from germane.encoding import Line
from germane.labelling.testset.questions import overlaps, repeated
from germane.labelling.testset.reading import TestQuery, TestSet
from germane.questions.text import words
from germane.statistics.distributions import t_quantile
from germane.statistics.intervals import UPPER, mean_interval
from germane.statistics.systems import POWER

_MOST_EXAMPLES = 10
COPIED = 0.05
"""The least proportion of copied questions that gives a warning."""
FOUND, AHEAD = 0.94, 0.1
"""Gold is one-sided if a system found FOUND of it, and at least AHEAD more than every other system."""
DEPTHS = (1, 3, 5, 10, 20, 50, 100)
FEWEST = 5
"""The least number of queries with gold for comparing the proportions of gold that systems found."""
SPREAD, SPREAD_OF_DIFFERENCE = 0.3, 0.2
"""Typical standard deviations over queries: of a ranked measure, and of a difference (docs/benchmarks.md)."""
_COMPARED = 2_000
"""The most questions compared with passages; of a larger set, evenly spaced questions are compared."""


CheckName = Literal["duplicates", "leaks", "one-system gold", "dead gold", "classes", "width"]


class SetCheck(Line):
    """The result of one check of a test set: `count` of `of` queries or gold ids have the fault.

    In the check `width`, `count` is the number of independent queries. `note` says what the numbers mean, or
    why the check was not possible.
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
    """The document that `germane validate --json` prints: faults of files, and the checks of the test set.

    `not_checked` names the parts that were not checked, because checking them would import code.
    """

    schema_version: Literal[1] = 1
    exit_code: Literal[0, 2]
    files: int
    faults: list[str]
    not_checked: list[str]
    checks: list[SetCheck]


def check_test_set(data: TestSet) -> list[SetCheck]:
    """Return the results of all checks of a test set: duplicates, leaks, gold, classes and width."""
    queries = data.queries
    known = {word for text in data.texts.values() for word in words(text)}
    groups = repeated(queries, known=known)
    checks = [_duplicates(queries, groups), _leaks(data), _one_system(data), _dead(data), _classes(queries)]
    return [*checks, _width(queries, groups)]


def _unchecked(name: CheckName, why: str) -> SetCheck:
    return SetCheck(name, "not checked", None, None, [], why)


def _checked(
    name: CheckName, count: int, total: int, examples: Sequence[str], note: str, *, warn: bool
) -> SetCheck:
    return SetCheck(name, "warning" if warn else "ok", count, total, [*examples[:_MOST_EXAMPLES]], note)


def _duplicates(queries: Sequence[TestQuery], groups: Sequence[Sequence[int]]) -> SetCheck:
    """Check for repeated questions; repeats within a `cluster` do not count, as statistics allow for them."""
    if not any(query.text for query in queries):
        return _unchecked("duplicates", "the queries have no texts: give the file of queries too")
    count, size, examples = 0, len(queries), list[str]()
    for group in groups:
        repeats = len({queries[at].cluster or f" {at}" for at in group}) - 1
        if repeats:
            ids = ", ".join(queries[at].id for at in group[:5]) + ", ..." * (len(group) > 5)
            examples.append(f"{ids}: {shorten(queries[group[0]].text, 60)}")
            count += repeats
    note = f"no two of {counted(size, 'query', 'queries')} are the same"
    if count:
        repeat = f"{count} of {counted(size, 'query repeats', 'queries repeat')} another query"
        note = f"{repeat}, so that intervals are too narrow; give repeated queries the same `cluster`"
    return _checked("duplicates", count, size, examples, note, warn=count > 0)


def _leaks(data: TestSet) -> SetCheck:
    """Check how many questions are copied from the words of their gold passage."""
    queries, texts_of = data.queries, data.texts
    passages = [
        [*query.quotes, *(texts_of[name] for name in query.gold if name in texts_of)] for query in queries
    ]
    asked = [at for at, texts in enumerate(passages) if texts and queries[at].text]
    if not asked:
        return _unchecked("leaks", "no gold passage has a text: give the documents with --corpus")
    asked = asked[:: -(-len(asked) // _COMPARED)]
    found = overlaps([queries[at].text for at in asked], [passages[at] for at in asked], data.rest)
    copied = [at for at, overlap in zip(asked, found, strict=True) if overlap.copied()]
    examples = [f"{queries[at].id}: {shorten(queries[at].text, 70)}" for at in copied]
    are = "is" if len(copied) == 1 else "are"
    note = f"{len(copied)} of {counted(len(asked), 'question')} {are} copied from the gold passage"
    warn = len(copied) >= max(1, COPIED * len(asked))
    if warn:
        note += ", which makes retrieval by words too easy; ask in a user's words"
    return _checked("leaks", len(copied), len(asked), examples, note, warn=warn)


def shares_by_depth(
    queries: Sequence[TestQuery], systems: AbstractSet[str]
) -> dict[int, dict[str, np.ndarray]]:
    """Return, by depth k and system, the share of gold in the first k results of each common query."""
    common = [query for query in queries if query.gold and systems <= query.ranks.keys()]

    def share(query: TestQuery, system: str, k: int) -> float:
        return sum(rank <= k for rank in query.ranks[system].values()) / len(query.gold)

    return {
        k: {system: np.array([share(query, system, k) for query in common]) for system in systems}
        for k in DEPTHS
    }


def _one_system(data: TestSet) -> SetCheck:
    """Check whether only one system found the gold, as happens if only that system's results were labelled."""
    name: CheckName = "one-system gold"
    queries, systems = data.queries, data.systems.keys()
    if len(systems) < 2:
        have = "the results of only one system" if systems else "no results of a system"
        return _unchecked(name, f"the test set has {have}: add runs or samples of two or more systems")
    shares = shares_by_depth(queries, systems)
    common = len(next(iter(shares[1].values())))
    if common < FEWEST:
        have = counted(common, "query has", "queries have")
        return _unchecked(name, f"only {have} gold and results of every system; {FEWEST} are needed")
    if not any(share.any() for share in shares[DEPTHS[-1]].values()):
        problem = f"no system has a gold document in its first {DEPTHS[-1]} results"
        return _unchecked(name, f"{problem}, or the results have no ids")
    total = sum(len(query.gold) for query in queries)
    for k, of_system in shares.items():
        best = max(of_system, key=lambda system: of_system[system].mean())
        others = {system: share for system, share in of_system.items() if system != best}
        if one_sided(of_system[best], list(others.values())):
            rest = (f"{system or 'the other'} {share.mean():.0%}" for system, share in others.items())
            share = f"{of_system[best].mean():.0%} of the gold in its first {k}"
            example = f"{best or 'the unnamed system'}: {share}; {', '.join(rest)}"
            held = sum(rank <= k for query in queries for rank in query.ranks.get(best, {}).values())
            note = "nearly all gold is in the first results of one system, as if only that system's results "
            note += "were labelled; label results of every system"
            return _checked(name, held, total, [example], note, warn=True)
    note = f"several systems found the gold of {counted(common, 'query', 'queries')}, not one system alone"
    return _checked(name, 0, total, [], note, warn=False)


def one_sided(
    best: np.ndarray, others: Sequence[np.ndarray], found: float = FOUND, ahead: float = AHEAD
) -> bool:
    """Return True if one system found nearly all gold, and every other system far less.

    The arrays hold the proportion of each query's gold in a system's first results: `best` for the best
    system, `others` for the other systems. `found` is the least mean of the best system. `ahead` is the least
    lower end of the interval of its lead over each other system.
    """
    if best.mean() < found:
        return False
    limits = [mean_interval(best - other, value_range=(-1.0, 1.0), differences=True).ends for other in others]
    return all(ends is not None and ends[0] >= ahead for ends in limits)


def _dead(data: TestSet) -> SetCheck:
    """Check which gold ids are not in the corpus."""
    if data.absent is None:
        return _unchecked("dead gold", "there is no corpus to check the gold ids with: give --corpus PATH")
    gold = {name for query in data.queries for name in query.gold}
    if not gold:
        return _unchecked("dead gold", "no query has gold with a document id")
    absent, size, note = len(data.absent), len(gold), f"all {counted(len(gold), 'gold id')} are in the corpus"
    if absent:
        fix = "if the corpus has changed, run `germane labels move`"
        if absent == size:
            fix = f"ids of the corpus are like {data.document}, gold ids like {next(iter(data.absent))}"
        are = f"{absent} of {counted(size, 'gold id')} {'is' if absent == 1 else 'are'}"
        note = f"{are} not in the corpus, so no system can find the documents; {fix}"
    examples = []
    for name in [*data.absent][:_MOST_EXAMPLES]:
        holders = [query.id for query in data.queries if name in query.gold]
        examples.append(f"{name} ({', '.join(holders[:3])})")
    return _checked("dead gold", absent, size, examples, note, warn=absent > 0)


_SEVERAL = re.compile(
    r"(?i)(multi|two|three|several|[2-9])[ _-]?(hop|doc|document|passage|source)s?\b|\bbridge\b|\bcross[ _-]?doc"
)
_ONE = re.compile(r"(?i)\b(single|one|1)[ _-]?(hop|doc|document|passage|source)s?\b")
_NO_ANSWER = re.compile(
    r"(?i)\b(un|not[ _-]?)answerable\b|\bno[ _-]?answer\b|\bout[ _-]of[ _-](scope|domain)\b|\boos\b"
)
_PATTERNS = (_SEVERAL, _ONE, _NO_ANSWER, re.compile(r"(?i)^(is[ _-])?answerable$"))


def _classes(queries: Sequence[TestQuery]) -> SetCheck:
    """Check which queries have tags (e.g. multi-hop, unanswerable) that contradict their gold."""
    tagged, examples = 0, list[str]()
    for query in queries:
        pieces, answerable = max(len(query.gold), len(query.quotes)), query.answerable
        gold, why = counted(pieces, "gold document"), list[str]()
        if answerable is False and pieces:
            why.append(f"answerable is false, but the query has {gold}")
        known = [name for name in query.classes if any(pattern.search(name) for pattern in _PATTERNS)]
        tagged += answerable is False or bool(known)
        for name in known:
            if _NO_ANSWER.search(name):
                if pieces:
                    why.append(f"tag {name}, but the query has {gold}")
                elif answerable:
                    why.append(f"tag {name}, but answerable is true")
                continue
            if _SEVERAL.search(name):
                if pieces == 1 or query.groups == 1:
                    piece = "gold document" if pieces == 1 else "group of gold documents"
                    why.append(f"tag {name}, but the query has only one {piece}")
            elif _ONE.search(name) and query.groups > 1:
                why.append(f"tag {name}, but the query needs {query.groups} groups of gold documents")
            if answerable is False:
                why.append(f"tag {name}, but answerable is false")
        examples += [f"{query.id}: {why[0]}"] if why else []
    if not tagged:
        text = "no tag says how many documents answer a query, e.g. multi-hop, or that none does, e.g. unanswerable"
        return _unchecked("classes", text)
    note = f"{counted(tagged, 'tagged query agrees', 'tagged queries agree')} with the gold"
    if examples:
        contradict = "tagged query contradicts its gold", "tagged queries contradict their gold"
        note = f"{len(examples)} of {counted(tagged, *contradict)}"
    return _checked("classes", len(examples), tagged, examples, note, warn=bool(examples))


def _width(queries: Sequence[TestQuery], groups: Sequence[Sequence[int]]) -> SetCheck:
    """Return the width of intervals and the smallest detectable difference for this number of queries."""
    above = {at: group[0] for group in groups for at in group}
    n = len({queries[above.get(at, at)].cluster or f" {above.get(at, at)}" for at in range(len(queries))})
    if not n:
        return _unchecked("width", "the test set has no queries")
    if n < 3:
        has = "one independent query" if n == 1 else "two independent queries"
        note = f"the test set has {has}, too few to show a difference; add queries"
        return _checked("width", n, len(queries), [], note, warn=True)
    t, of_power = t_quantile(UPPER, n - 1), t_quantile(POWER, n - 1)
    half, difference = t * SPREAD / sqrt(n), (t + of_power) * SPREAD_OF_DIFFERENCE / sqrt(n)
    note = f"{counted(n, 'independent query gives', 'independent queries give')} an interval of about +-{half:.2g}"
    note += f" at best, and can show a difference of {difference:.2g} (power {POWER:g})"
    figures = [f"interval +-{half:.3f}", f"difference {difference:.3f}"]
    return _checked("width", n, len(queries), figures, note, warn=False)
