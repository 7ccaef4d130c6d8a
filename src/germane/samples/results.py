"""What every reader of ranked results and gold fills: the results of one system, and the grades of its queries."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from germane.errors import InputError, Place

__all__ = ["Found", "Graded", "Qrels", "Results", "Run", "as_run", "collect_qrels", "collect_run"]


class Found(NamedTuple):
    """One result as it stands in a file; `doc` None = the query is there and nothing came back."""

    line: int
    query: str
    doc: str | None
    score: float | None


class Graded(NamedTuple):
    """One gold grade as it stands in a file; `doc` None = the query is there and nothing is known to be judged."""

    line: int
    query: str
    doc: str | None
    grade: int


@dataclass(slots=True)
class Results:
    """What came back for one query, in the order of the file; `scores` is empty for a list without scores."""

    ids: list[str] = field(default_factory=list)
    scores: array[float] = field(default_factory=lambda: array("d"))
    lines: array[int] = field(default_factory=lambda: array("q"))


@dataclass(slots=True)
class Run:
    """The ranked results of one system: query id -> results. `name` is the file, `notes` what to say about it."""

    name: str
    queries: dict[str, Results] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


Qrels: TypeAlias = Mapping[str, Mapping[str, int]]
"""Gold: query id -> document id -> grade."""


def collect_run(name: str, found: Iterable[Found]) -> Run:
    """A run from its results; a NaN score, and a list with scores on some of its places only, are errors."""
    queries: dict[str, Results] = {}
    last, results = None, Results()
    for line, query, doc, score in found:
        if query != last:
            last, results = query, queries.setdefault(query, Results())
        if doc is None:
            continue
        if (score is None) == bool(results.scores) and results.ids:
            raise InputError(
                f"query {query} has results with and without scores",
                fix="give each of them a score, or none",
                place=Place(name, line),
            )
        results.ids.append(doc)
        results.lines.append(line)
        if score is not None:
            if score != score:  # noqa: PLR0124 - the test for NaN
                raise InputError(
                    f"the score of document {doc} in query {query} is NaN, which has no place in an order",
                    fix="write a number (inf and -inf are allowed) or drop the line",
                    place=Place(name, line),
                )
            results.scores.append(score)
    return Run(name, queries)


def as_run(results: Mapping[str, Mapping[str, float] | Sequence[str]], name: str = "run") -> Run:
    """A run from a mapping: query id -> {document id: score}, or a list of document ids, best first."""
    return collect_run(name, _found(results))


def _found(results: Mapping[str, Mapping[str, float] | Sequence[str]]) -> Iterator[Found]:
    for query, listed in results.items():
        yield Found(0, query, None, None)
        scored = listed.items() if isinstance(listed, Mapping) else ((doc, None) for doc in listed)
        for doc, score in scored:
            yield Found(0, query, doc, None if score is None else float(score))


def collect_qrels(
    name: str, graded: Iterable[Graded], *, keep_first: bool = False
) -> dict[str, dict[str, int]]:
    """Gold from its grades; two different grades of one document are an error unless the first is to be kept."""
    qrels: dict[str, dict[str, int]] = {}
    for line, query, doc, grade in graded:
        known = qrels.setdefault(query, {})
        if doc is None:
            continue
        if known.setdefault(doc, grade) != grade and not keep_first:
            raise InputError(
                f"document {doc} of query {query} has grade {grade} here and {known[doc]} above",
                fix="keep one of them, or give --duplicates first",
                place=Place(name, line),
            )
    return qrels
