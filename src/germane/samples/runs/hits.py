"""Finds the ranks of gold documents in a run.

As in trec_eval, a run is sorted by score and then by document id, both descending.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from germane.errors import InputError, SourceLocation
from germane.samples.runs.columns import Floats, Index, Lists, Numbers, Texts, has_duplicates, numbered
from germane.samples.runs.formats import EXAMPLES
from germane.samples.runs.source import Again, RowSource

__all__ = ["read_run"]


@dataclass(frozen=True)
class Hits:
    """The ranks of the gold documents in a run.

    Attributes:
        gold: The gold of all queries.
        lengths: The number of results of each query in the gold, -1 if the query is not in the run.
        ignored, first_ignored: The number of queries in the run without gold, and the ids of a few of them.
        row, rank, doc: For each hit, sorted by query and rank: the index of its query, its rank (from 1), and
            the index of its row in the gold.
        notes: Notes about the run's file.
        repeated: The number of results dropped because the same id also occurs at a better rank.
        folded: The number of results dropped because another chunk of the document has a better rank.
    """

    gold: Lists
    lengths: Numbers
    ignored: int
    first_ignored: Sequence[str]
    row: Numbers
    rank: Numbers
    doc: Numbers
    notes: Sequence[str] = ()
    repeated: int = 0
    folded: int = 0

    @cached_property
    def grade(self) -> Floats:
        """The grade of each hit's document in the gold, with the shape (hits,)."""
        return self.gold.number[self.doc]


def read_run(source: Any, **how: Any) -> dict[str, list[str]]:
    """Read a run and return a mapping from each query id to its document ids, best first.

    The arguments are those of RowSource.
    """
    run = RowSource(source, **how, together=True)
    ranked: dict[str, list[str]] = {}
    for lists in run.lists():
        order = np.argsort(lists.starts[lists.of] + _places(lists))
        ranked |= lists.taken(order, lists.queries, lists.starts).ids()
    return ranked


def find_hits(
    run: RowSource,
    gold: Lists,
    *,
    duplicates: Literal["error", "first"] = "error",
    doc_id: Callable[[str], str] | None = None,
) -> Hits:
    """Return the ranks of the gold documents in a run.

    `doc_id` maps a chunk id in the run to its document id. A document listed twice for a query is an error,
    or, if `duplicates` is "first", its better rank counts.
    """
    try:
        return _hits(run, gold, duplicates, doc_id)
    except Again:  # now with all rows together
        return _hits(run, gold, duplicates, doc_id)


def _hits(
    run: RowSource, gold: Lists, duplicates: Literal["error", "first"], doc_id: Callable[[str], str] | None
) -> Hits:
    """Read a run once and return the ranks of the gold documents, as `find_hits` does.

    Raises Again if the run must be read a second time in another way.
    """
    gold_queries = Index(gold.queries, np.zeros(len(gold.queries), np.int64))
    lengths, others, ignored = np.full(len(gold.sizes), -1), array("Q"), list[str]()
    found: list[tuple[Numbers, Numbers, Numbers]] = [(np.empty(0, np.int64),) * 3]
    repeated = folded = 0
    twice: tuple[int, InputError] | None = None  # the first query in the gold that lists a document twice
    for block in run.lists():
        lists, zeros = block, np.zeros(len(block.queries), np.int64)
        hashed = block.queries.hashed(zeros)
        known, row = gold_queries.find(block.queries, zeros, hashed)
        if len(known) < len(zeros):
            unknown = np.delete(np.arange(len(zeros)), known)
            ignored += block.queries[unknown[: EXAMPLES - len(ignored)]]
            others.frombytes(hashed[unknown].tobytes())
            starts = np.concatenate([[0], np.cumsum(block.sizes[known])])
            lists = block.taken(np.isin(block.of, known), block.queries[known], starts)
        if (lengths[row] >= 0).any() or (not run.together and has_duplicates(row)):
            run.read_together()
        query, place = row[lists.of], _places(lists)
        docs = lists.doc if doc_id is None else Texts.of(map(doc_id, lists.doc))
        keys = docs.hashed(query)
        # only the gold of these queries is searched, which is small
        sizes = gold.sizes[row]
        judged = np.arange(sizes.sum()) + np.repeat(gold.starts[row] - np.cumsum(sizes) + sizes, sizes)
        at, doc = Index(gold.doc[judged], np.repeat(row, sizes)).find(docs, query, keys)
        doc = judged[doc]
        if doc_id is not None or has_duplicates(keys):
            codes, first = numbered(lists.doc, query)
            again = np.flatnonzero(first[codes] != np.arange(len(codes)))
            if len(again) and duplicates == "error":
                worst = again[np.argmin(query[again])]
                if twice is None or query[worst] < twice[0]:
                    twice = int(query[worst]), _twice(run.name, lists, int(worst), int(first[codes[worst]]))
            place = _best_places(lists, place, codes)
            repeated += len(again)
            if doc_id is not None:
                place = _best_places(lists, place, numbered(docs, query)[0])
                folded += int((place == 0).sum()) - len(again)
            at, doc = at[place[at] > 0], doc[place[at] > 0]
        lengths[row] = np.bincount(lists.of[place > 0], minlength=len(row))
        found.append((query[at], place[at], doc))
    if not run.together and has_duplicates(np.asarray(others)):
        run.read_together()
    if twice is not None:
        raise twice[1]
    row, rank, doc = map(np.concatenate, zip(*found, strict=True))
    order = np.argsort((row << 32) | rank)
    return Hits(
        gold=gold,
        lengths=lengths,
        ignored=len(others),
        first_ignored=ignored,
        row=row[order],
        rank=rank[order],
        doc=doc[order],
        notes=run.notes,
        repeated=repeated,
        folded=folded,
    )


def _twice(name: str, lists: Lists, at: int, first: int) -> InputError:
    """Return the InputError for a document that a run lists twice for a query, in rows `first` and `at`."""
    line, earlier = lists.line[[at, first]].tolist()
    before = f" (first in line {earlier})" if earlier else ""
    query, doc = lists.queries[lists.of[at]], lists.doc[at]
    problem = f"the query {query} lists the document {doc} twice{before}"
    fix = "remove one of the two rows, or count the better rank with --duplicates first"
    return InputError(problem, fix=fix, place=SourceLocation(name, line))


def _best_places(lists: Lists, place: Numbers, codes: Numbers) -> Numbers:
    """Return the rank of each result after all but the best result of each document in a query are dropped.

    `place` holds the old rank of each result. Results with the same number in `codes` are of the same query
    and document. The rank 0 marks a dropped result, both in `place` and in the new ranks.
    """
    order = np.argsort(lists.starts[lists.of] + place)
    order = order[place[order] > 0]
    kept = order[np.sort(np.unique(codes[order], return_index=True)[1])]
    counts = np.bincount(lists.of[kept], minlength=len(lists.queries))
    result = np.zeros(len(place), np.int64)
    result[kept] = np.arange(1, len(kept) + 1) - np.repeat(np.cumsum(counts) - counts, counts)
    return result


def _places(lists: Lists) -> Numbers:
    """Return the rank (from 1) of each result within its query."""
    score, query = lists.number, lists.of
    positions = np.arange(1, len(score) + 1) - lists.starts[query]
    if len(score) and np.isnan(score).any():  # results without scores keep their order
        score = np.where(np.isnan(score), -positions, score)
    falls = score[1:] < score[:-1]
    falls[lists.starts[(lists.starts > 0) & (lists.starts < len(score))] - 1] = True
    if falls.all():
        return positions
    score = score + 0.0  # -0.0 + 0.0 is 0.0
    bits = np.uint64(max(1, (len(lists.queries) - 1).bit_length()))
    raw, sign = score.view(np.uint64), np.uint64(1 << 63)
    raw = np.where(raw & sign, raw, ~(raw | sign))  # greater scores first
    # one integer that sorts by query and then score, without the last bits of the score
    composite = (query.astype(np.uint64) << (np.uint64(64) - bits)) | (raw >> bits)
    order = np.argsort(composite)
    ordered = composite[order]
    same = ordered[1:] == ordered[:-1]
    if same.any():
        tied = np.flatnonzero(np.append(same, False) | np.insert(same, 0, False))
        members = order[tied]
        docs = lists.doc[members]
        size = (docs.end - docs.start).astype(np.uint64)
        bytes_down = [~size, *(~word.byteswap() for word in docs.words[::-1])]  # the least important first
        keys = (*bytes_down, -score[members], ordered[tied])
        order[tied] = members[np.lexsort(keys)]
    place = np.empty(len(score), dtype=np.int64)
    place[order] = positions
    return place
