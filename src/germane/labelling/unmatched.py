"""Gold ids that no retrieved document has: examples of both sides, and how they differ if that can be seen."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, TypeAlias
from urllib.parse import unquote

import numpy as np

from germane.clean import counted, some_of
from germane.samples.runs.results import MOST_COMPARED
from germane.types import Context, Sample

if TYPE_CHECKING:
    from germane.labelling.corpus import Corpus
    from germane.reports.data import ReportData
    from germane.tables.scores import SampleKey

Pair: TypeAlias = tuple[str, str]
"""A gold id, and the id of a retrieved document that may be the same document's."""
_Step: TypeAlias = tuple[str, Callable[[str], str]]

_EXAMPLES = 3
_MOST = 2_000
"""Ids of a side in which a common prefix or ending is looked for."""
_LEAST_CUT = 8
"""The fewest characters to which ids are taken to be cut."""
_MOST_SAMPLES = 1_000
"""Samples in which gold ids are compared with the retrieved ids in the search for other spellings."""


def _visible(name: str) -> str:
    return name if name.isascii() else "".join(c for c in name if unicodedata.category(c) != "Cf")


_SPELLINGS: tuple[_Step, ...] = (
    ("Unicode form (NFC and NFD)", lambda name: unicodedata.normalize("NFC", name)),
    ("invisible characters", _visible),
    ("blanks", lambda name: " ".join(name.split())),
    ("letter case", str.casefold),
    ("a trailing .0", lambda name: re.sub(r"^(-?\d+)\.0+$", r"\1", name)),
)
"""The differences of two spellings of one id."""
_FORMS: tuple[_Step, ...] = (
    *_SPELLINGS,
    ("percent-encoding", unquote),
    ("the folder", lambda name: re.split(r"[/\\]", name.rstrip("/\\"))[-1]),
    ("the file ending", lambda name: re.sub(r"(?<=.)\.[a-z][a-z0-9]{0,4}$", "", name, flags=re.IGNORECASE)),
    ("punctuation", lambda name: re.sub(r"[\W_]+", "", name) or name),
    ("leading zeros", lambda name: re.sub(r"^0+(?=\d+$)", "", name)),
)
"""These, and the forms that a document's id has in two systems."""


def absent_note(
    absent: Sequence[str],
    total: int,
    listed: Collection[str],
    *,
    where: str = "no list",
    elsewhere: Iterable[tuple[str, str]] = (),
) -> str:
    """Return the note that gold ids occur in no list, without its leading number: `of 7 gold ids occur in ...`.

    `listed` are the ids that were retrieved, `elsewhere` other values of the retrieved passages, each with a description.
    """
    cause, pairs = _cause(absent, listed, elsewhere)
    ours, theirs = (
        list(dict.fromkeys(some)) for some in ([gold for gold, _ in pairs], [doc for _, doc in pairs])
    )
    note = f"of {total} gold ids {'occurs' if len(absent) == 1 else 'occur'} in {where}: "
    note += some_of(list(dict.fromkeys([*ours, *absent])), _EXAMPLES)
    if listed:
        note += f"; the lists have ids like {some_of(list(dict.fromkeys([*theirs, *listed]))[:_EXAMPLES])}"
    return f"{note}; {cause}" if cause else note


def near_misses(queries: Iterable[tuple[Iterable[str], Iterable[str]]]) -> list[Pair]:
    """Return the gold ids that a query missed but retrieved in another spelling.

    `queries` are the gold ids that each query missed, and the other ids that it retrieved, of which the first are compared.
    """
    pairs, left = dict[Pair, None](), MOST_COMPARED
    for missed, listed in queries:
        wanted = {_normal(name, _SPELLINGS): name for name in missed}
        compared = list(islice(listed, left))
        left -= len(compared)
        for name in compared:
            if gold := wanted.get(name.lower() if _is_plain(name) else _normal(name, _SPELLINGS)):
                pairs[gold, name] = None
    return list(pairs)


def _is_plain(name: str) -> bool:
    """Return True if an id can be spelled differently only in letter case."""
    return name.isascii() and name.isprintable() and " " not in name and "." not in name


def near_note(pairs: Sequence[Pair]) -> tuple[int, str]:
    """Return the number of gold ids in these near misses, and the note that follows the number."""
    count = len({gold for gold, _ in pairs})
    what = "gold id differs from a retrieved id" if count == 1 else "gold ids differ from retrieved ids"
    return (
        count,
        f"{what} only in {_difference(pairs, _SPELLINGS)}, and {'counts' if count == 1 else 'count'} as not retrieved: {_examples(pairs)}",
    )


def _cause(
    absent: Sequence[str], listed: Collection[str], elsewhere: Iterable[tuple[str, str]]
) -> tuple[str, list[Pair]]:
    """Return how the ids of both sides differ ("" if unknown), and pairs of ids that show it."""
    for steps in (_SPELLINGS, _FORMS):
        known: dict[str, str] = {}
        for name in listed:
            known.setdefault(_normal(name, steps), name)
        if pairs := [(gold, known[key]) for gold in absent if (key := _normal(gold, steps)) in known]:
            return f"they differ in {_difference(pairs, steps)}: {_examples(pairs)}", pairs
    if found := _affix(absent, listed):
        return found
    wanted, places = set(absent), dict[str, None]()
    for description, value in elsewhere:
        if value in wanted:
            places[description] = None
    return f"the gold's ids are {' and '.join(places)}" if places else "", []


def _normal(name: str, steps: Iterable[_Step]) -> str:
    for _, step in steps:
        name = step(name)
    return name


def _difference(pairs: Iterable[Pair], steps: Sequence[_Step]) -> str:
    """Return the normalization steps without which the pairs' ids would differ."""
    names = dict[str, None]()
    for pair in islice(pairs, _MOST):
        for left_out in steps:
            a, b = (_normal(name, (step for step in steps if step is not left_out)) for name in pair)
            if a != b:
                names[left_out[0]] = None
    return " and ".join(names) or "their spelling"


def _examples(pairs: Sequence[Pair]) -> str:
    """Return the first pairs, with invisible characters escaped."""
    shown = [f"{_quoted(gold)} in the gold, {_quoted(doc)} in the lists" for gold, doc in pairs[:1]]
    return shown[0] + (f" and {len(pairs) - 1:,} more" if len(pairs) > 1 else "")


def _quoted(name: str) -> str:
    return ascii(name if len(name) <= 60 else f"{name[:59]}…")


def _affix(absent: Sequence[str], listed: Collection[str]) -> tuple[str, list[Pair]] | None:
    """Return a prefix, suffix or cut that one side's ids have and the other's have not."""
    gold, docs = set(absent), set(listed)
    begins = defaultdict[tuple[bool, str], list[Pair]](list)
    ends = defaultdict[bool, list[tuple[str, Pair]]](list)
    for of_gold, longer, shorter in ((True, absent, docs), (False, listed, gold)):
        for name in islice(longer, _MOST):
            for at in range(1, min(len(name), 300)):
                head, tail = name[:at], name[at:]
                if tail in shorter:
                    begins[of_gold, head].append((name, tail) if of_gold else (tail, name))
                if head in shorter:
                    ends[of_gold].append((tail, (name, head) if of_gold else (head, name)))
    if usable := [key for key, pairs in begins.items() if _is_prefix(key[1], pairs, of_gold=key[0])]:
        of_gold, prefix = max(usable, key=lambda key: len(begins[key]))
        return f"{_side(of_gold)} begin with {_quoted(prefix)}", begins[of_gold, prefix]
    for of_gold, found in ends.items():
        if ending := _ending(found, of_gold=of_gold, longest=max(map(len, docs if of_gold else gold))):
            return ending, [pair for _, pair in found]
    return None


def _ending(found: Sequence[tuple[str, Pair]], *, of_gold: bool, longest: int) -> str | None:
    """Return the suffix of one side's ids beyond the other's, which have at most `longest` characters."""
    endings = list(dict.fromkeys(ending for ending, _ in found))
    marked = all(not ending[0].isalnum() for ending in endings)
    if not marked and longest >= _LEAST_CUT and all(len(pair[of_gold]) == longest for _, pair in found):
        return f"{_side(not of_gold)} are cut at {counted(longest, 'character')}"
    if not marked and (len(endings) > 1 or len(found) == 1):
        return None
    more = " and others" * (len(endings) > 1)
    more += "" if of_gold else " (--doc-id maps the ids of chunks to those of documents)"
    return f"{_side(of_gold)} end in {_quoted(endings[0])}{more}"


def _side(of_gold: bool) -> str:
    return "the gold's ids" if of_gold else "the lists' ids"


def _is_prefix(prefix: str, pairs: Sequence[Pair], *, of_gold: bool) -> bool:
    """Return True if one side of the pairs seems to write ids with this prefix (gold: `of_gold`); a digit before digits does not count, since it makes another number."""
    rest = pairs[0][of_gold]
    marked = not prefix[-1].isalnum() or (prefix[-1].isalpha() and rest[0].isdigit())
    return marked or (len(pairs) > 1 and not (prefix[-1].isdigit() and rest[0].isdigit()))


def gold_ids(sample: Sample) -> list[str]:
    """Return the ids of a sample's gold: graded documents, and the members of groups."""
    members = (name for group in sample.gold or () for name in group)
    return list(dict.fromkeys([*(sample.qrels or ()), *members]))


def gold_notes(report: ReportData, corpus: Corpus | None) -> Iterator[tuple[int, str]]:
    """Yield the notes on gold ids that occur nowhere, or that were retrieved in another spelling.

    Each comes with its count, which is to be written in front of it.
    """
    of_gold = [line for line in report.summaries if line.basis.source == "gold"]
    if corpus is not None or any(line.mean == 0 for line in of_gold):
        samples = list(report.samples())
        absent, total = unknown_gold(samples, corpus)
        if absent:
            passages = [context for sample in samples for context in sample.retrieved()]
            listed = dict.fromkeys(context.id for context in passages if context.id is not None)
            values = chain.from_iterable(map(other_values, passages))
            where = "no list" if corpus is None else "no list and not in the corpus"
            yield len(absent), absent_note(absent, total, listed, where=where, elsewhere=values)
            return
    if pairs := near_misses(
        map(_missed, report.tables.samples_of(_missing_gold(report, {line.measure for line in of_gold})))
    ):
        yield near_note(pairs)


def other_values(context: Context) -> Iterator[tuple[str, str]]:
    """Yield the text of a passage and the values of its metadata, each with a description."""
    yield "the texts of contexts", context.text
    for name, value in context.metadata.items():
        if isinstance(value, str | int):
            yield f"in the field {name!r} of contexts (name it id)", str(value)


def _missing_gold(report: ReportData, names: set[str]) -> set[SampleKey]:
    """Return the samples that score 0 by some of these gold measures."""
    table = report.tables.scores
    numbers = [number for number, (name, _) in enumerate(table.measures) if name in names]
    rows = np.flatnonzero((table.value == 0) & np.isin(table.measure, numbers))
    return {table.keys[sample] for sample in np.unique(table.sample[rows])[:_MOST_SAMPLES].tolist()}


def _missed(sample: Sample) -> tuple[list[str], list[str]]:
    """Return the relevant gold ids missing in a sample's lists, and the other ids there."""
    listed = {context.id: None for context in sample.retrieved()}
    gold = gold_ids(sample)
    missed = [name for name in _relevant(sample) if name not in listed]
    return missed, [name for name in listed if name is not None and name not in gold]


def _relevant(sample: Sample) -> list[str]:
    return [name for name in gold_ids(sample) if (sample.qrels or {}).get(name, 1) > 0]


def unknown_gold(samples: Iterable[Sample], corpus: Corpus | None) -> tuple[list[str], int]:
    """Return the relevant gold ids that occur in no list and not in the corpus, and the number of all relevant gold ids.

    Without a corpus none is named unless all of them occur in no list, and lists have ids at all.
    """
    gold: dict[str, None] = {}
    listed: set[str] = set()
    for sample in samples:
        gold |= dict.fromkeys(_relevant(sample))
        listed.update(context.id for context in sample.retrieved() if context.id is not None)
    absent = [name for name in gold if name not in listed]
    if corpus is not None and absent:
        texts = corpus.texts_of(set(absent))
        return [name for name in absent if name not in texts], len(gold)
    return (absent if listed and len(absent) == len(gold) else []), len(gold)
