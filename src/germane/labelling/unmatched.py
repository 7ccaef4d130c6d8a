"""Notes on gold ids that were not retrieved at all, with examples of gold ids and retrieved ids."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from germane.clean import counted, some_of
from germane.samples.contexts import hint_at_gold
from germane.samples.runs.formats import MOST_COMPARED
from germane.types import Sample

if TYPE_CHECKING:
    from germane.reports.data import ReportData

Pair: TypeAlias = tuple[str, str]
"""A gold id, and the id of a retrieved document in another spelling."""

_EXAMPLES = 3
_MOST_SAMPLES = 1_000
"""The most samples with a score of 0 whose gold ids are compared with the retrieved ids, to find other spellings."""


def _spellings(names: Sequence[str]) -> list[str]:
    """Return ids in lower case, without invisible characters, repeated blanks or a trailing .0."""
    joined = " ".join(names)
    if joined.isascii() and joined.isprintable() and "." not in joined and joined.count(" ") < len(names):
        return joined.lower().split(" ")
    return list(map(_spelling, names))


def _spelling(name: str) -> str:
    visible = "".join(c for c in unicodedata.normalize("NFC", name) if unicodedata.category(c) != "Cf")
    return re.sub(r"^(-?\d+)\.0+$", r"\1", " ".join(visible.split()).casefold())


def absent_note(absent: Sequence[str], listed: Collection[str]) -> str:
    """Return a note, printed after their number, that no list contains the gold ids `absent`."""
    occur, some = "occurs" if len(absent) == 1 else "occur", some_of(absent, _EXAMPLES)
    note = f"of {counted(len(absent), 'gold id')} {occur} in no retrieved list: {some}"
    if listed:
        note += f"; the retrieved ids are like {some_of(list(islice(listed, _EXAMPLES)))}"
    pairs = near_misses([(absent, listed)])
    if pairs:
        return f"{note}; the ids differ only in spelling: {_example(pairs)}"
    documents = set(absent)
    for name in islice(listed, MOST_COMPARED):
        for mark in ("::", "#", ":", "|", "_", "-", "/"):
            if (document := name.rpartition(mark)[0]) in documents:
                pattern = f"^(.+){re.escape(mark)}"
                return f"{note}; {name!r} may be a chunk of {document!r}: give --doc-id '{pattern}'"
    return note


def near_misses(queries: Iterable[tuple[Iterable[str], Iterable[str]]]) -> list[Pair]:
    """Return (gold id, retrieved id) for each gold id that was retrieved only in another spelling.

    `queries` holds, for each query, the gold ids that were not retrieved, and the retrieved ids that are not
    gold. Only the first `MOST_COMPARED` retrieved ids of all queries together are compared.
    """
    pairs, left = dict[Pair, None](), MOST_COMPARED
    for missed, listed in queries:
        missing, compared = list(missed), list(islice(listed, left))
        wanted = dict(zip(_spellings(missing), missing, strict=True))
        left -= len(compared)
        for name, spelling in zip(compared, _spellings(compared), strict=True):
            if gold := wanted.get(spelling):
                pairs[gold, name] = None
    return list(pairs)


def near_note(pairs: Sequence[Pair]) -> tuple[int, str]:
    """Return the number of gold ids in `pairs` (gold id, retrieved id), and the note printed after it."""
    count = len({gold for gold, _ in pairs})
    ids, counts = ("id differs", "counts") if count == 1 else ("ids differ", "count")
    where = "from retrieved ids only in spelling (case, blanks, Unicode form)"
    return count, f"gold {ids} {where} and {counts} as not retrieved: {_example(pairs)}"


def _example(pairs: Sequence[Pair]) -> str:
    """Return the first pair as text, with "and N more" if there are; invisible characters are escaped."""
    gold, doc = (ascii(name if len(name) <= 60 else f"{name[:59]}…") for name in pairs[0])
    more = f" and {len(pairs) - 1:,} more" if len(pairs) > 1 else ""
    return f"{gold} in the gold, {doc} in the retrieved lists{more}"


def gold_ids(sample: Sample) -> list[str]:
    """Return the ids of a sample's gold: the graded documents (`qrels`), and the members of `gold` groups."""
    members = (name for group in sample.gold or () for name in group)
    return list(dict.fromkeys([*(sample.qrels or ()), *members]))


def _relevant(sample: Sample) -> list[str]:
    """Return the gold ids of a sample whose grade is positive, or that have none."""
    return [name for name in gold_ids(sample) if (sample.qrels or {}).get(name, 1) > 0]


def gold_notes(report: ReportData) -> Iterator[tuple[int, str]]:
    """Yield (n, note): a note that n gold ids were not retrieved, or only in another spelling."""
    of_gold = {(line.measure, line.mean) for line in report.summaries if line.basis.source == "gold"}
    if any(mean == 0 for _, mean in of_gold):
        absent, listed, hint = dict[str, None](), dict[str, None](), ""
        for sample in report.samples():
            absent |= dict.fromkeys(_relevant(sample))
            listed |= dict.fromkeys(context.id for context in sample.retrieved() if context.id is not None)
            hint = hint or hint_at_gold(sample)
        if absent and listed and absent.keys().isdisjoint(listed):
            yield len(absent), absent_note(list(absent), listed) + hint
            return
    table = report.tables.scores
    numbers = [number for number, (name, _) in enumerate(table.measures) if name in dict(of_gold)]
    rows = np.flatnonzero((table.value == 0) & np.isin(table.measure, numbers))
    zero = set(map(table.key, np.unique(table.sample[rows])[:_MOST_SAMPLES].tolist()))
    queries = []
    for sample in report.tables.samples_of(zero):
        found = dict.fromkeys(context.id for context in sample.retrieved() if context.id is not None)
        gold = gold_ids(sample)
        missed = [name for name in _relevant(sample) if name not in found]
        queries.append((missed, [name for name in found if name not in gold]))
    if pairs := near_misses(queries):
        yield near_note(pairs)
