"""Score ranked results against gold, query by query, as trec_eval does.

::

    rank({"q1": {"d1": 2.0, "d2": 1.0}}, {"q1": {"d2": 1}}, "nDCG@10 RR")["RR"].mean    # 0.5

Every query with gold counts. A query without results scores 0, unless `missing="skip"` leaves it out. A query
without any relevant document scores 0. Results are ordered by score, highest first, compared as doubles;
results with equal scores are ordered by document id, descending. A list without scores keeps its order.
Results of queries without gold are ignored, and counted in the notes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import repeat
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from germane.errors import InputError, MeasureError, SourceLocation
from germane.folder.tables import BlockRows, merge
from germane.measures.bounds import values
from germane.measures.declaration import listed_measures
from germane.measures.measure import Measure
from germane.places.table import RankedLabels, relevant_known
from germane.reports.gates import Gate
from germane.reports.report import Report
from germane.samples.runs.formats import EXAMPLES, GOLD
from germane.samples.runs.hits import Hits, find_hits
from germane.samples.runs.source import RowSource
from germane.tables.scores import Noted, ScoreTable

DEFAULT_MEASURES = "nDCG@10 AP RR P@10 R@10 Judged@10"
_ABSENT = "no results for this query"
_MOST_QUERIES = 10_000
"""The number of queries whose results are searched for other spellings of gold ids."""
_MOST_LISTED = 100_000
"""The number of retrieved ids that are compared with the gold ids if no gold id was retrieved."""

_QUERIES_AT_ONCE = 1 << 16
"""The number of queries whose scores are computed in one step."""

DocumentId: TypeAlias = Callable[[str], str]


def rank(
    run: Any,
    qrels: Any,
    measures: Measure | str | Iterable[Measure | str] = DEFAULT_MEASURES,
    *,
    system: str = "",
    missing: Literal["zero", "skip"] = "zero",
    duplicates: Literal["error", "first"] = "error",
    doc_id: DocumentId | None = None,
) -> Report:
    """Score one system's run against gold; return a report with a score per query and measure.

    Args:
        run: A mapping, a file's path, or a table (pandas, polars, Arrow) of `query_id`, `doc_id`, `score`.
        qrels: The gold labels, in one of the same forms, with `relevance` in place of `score`.
        measures: Measures of gold labels.
        system: The name of the system.
        missing: Score queries without results as 0 ("zero"), or leave them out ("skip").
        duplicates: Reject a document that a query lists twice ("error"), or count its best rank ("first").
        doc_id: A function that maps the ids of chunks, in run and gold, to ids of documents. The rank of a
            document is that of its best chunk.

    Raises:
        InputError: No query of the run has gold, or a file cannot be read.
        MeasureError: A measure needs other labels than gold.
    """
    gold = RowSource(qrels, GOLD, keep_first=duplicates == "first")
    part = rank_part(
        run, gold, measures, system=system, missing=missing, duplicates=duplicates, doc_id=doc_id
    )
    return ranked_report([part], notes=gold.notes)


def rank_part(
    run: Any,
    qrels: Any,
    measures: Measure | str | Iterable[Measure | str] = DEFAULT_MEASURES,
    *,
    system: str = "",
    missing: Literal["zero", "skip"] = "zero",
    **how: Any,
) -> BlockRows:
    """Return the scores of one run as rows that can be merged with the rows of other systems.

    `run` and `qrels` may also be RowSources, so that the gold is read only once for several runs. `how` may
    contain `duplicates` and `doc_id`. Raises the same errors as `rank`.
    """
    checked = _checked(measures)
    name, hits = hits_of(run, qrels, **how)
    gold, counted = hits.gold, (hits.lengths >= 0) | (missing == "zero")
    columns = np.full((len(counted), len(checked)), np.nan)
    nothing = np.zeros(len(counted), np.bool_)
    for first in range(0, len(counted), _QUERIES_AT_ONCE):  # a table of all queries would need much memory
        queries = slice(first, min(first + _QUERIES_AT_ONCE, len(counted)))
        found = slice(*np.searchsorted(hits.row, [queries.start, queries.stop]))
        grades = gold.number[gold.starts[queries.start] : gold.starts[queries.stop]]
        lengths = np.maximum(hits.lengths[queries], 0)
        table = RankedLabels.of_hits(
            hits.row[found] - first, hits.rank[found], hits.grade[found], lengths, gold.sizes[queries], grades
        )
        nothing[queries] = relevant_known(table, rel=1) == 0
        for at, measure in enumerate(checked):
            columns[queries, at] = np.where(counted[queries], values(measure, table), np.nan)
    skipped: Noted = ("skipped", _ABSENT, None)
    left_out = np.flatnonzero(np.repeat(~counted, len(checked))).tolist()
    scores = ScoreTable.of_columns(
        (gold.queries, repeat(system, len(gold.queries)), repeat(0, len(gold.queries))),
        [(str(measure), str(measure)) for measure in checked],
        columns,
        dict.fromkeys(left_out, skipped),
    )
    return BlockRows(scores=scores, notes=Counter(_remarks(name, hits, nothing, missing)))


def hits_of(
    run: Any, qrels: Any, *, duplicates: Literal["error", "first"] = "error", doc_id: DocumentId | None = None
) -> tuple[str, Hits]:
    """Return the run's name, and the ranks at which it contains the gold documents of each query.

    Raises InputError if no query of the run has gold.
    """
    run = run if isinstance(run, RowSource) else RowSource(run)
    if not isinstance(qrels, RowSource):
        qrels = RowSource(qrels, GOLD, keep_first=duplicates == "first")
    gold = qrels.gold if doc_id is None else qrels.gold.by_document(doc_id)
    hits = find_hits(run, gold, duplicates=duplicates, doc_id=doc_id)
    if not (hits.lengths >= 0).any():
        raise _no_gold(run.name, hits)
    return run.name, _with_unmet(run, hits, doc_id)


def _with_unmet(run: RowSource, hits: Hits, doc_id: DocumentId | None) -> Hits:
    """Return `hits`; add a note if no relevant gold id was retrieved, or some only in another spelling."""
    relevant = hits.gold.number > 0
    missed = relevant.copy()
    missed[hits.doc] = False
    note = None
    if (relevant & missed).any() and not (relevant & ~missed).any():
        note = _absent_note(list(hits.gold.doc[np.flatnonzero(missed)]), run, doc_id)
    if note is None and missed.any():
        first = run.first_ids()
        if doc_id is not None:
            first = {query: list(map(doc_id, docs)) for query, docs in first.items()}
        if queries := list(_missed_queries(hits, missed, first)):
            from germane.labelling.unmatched import near_misses, near_note  # most runs do not need it

            if near := near_misses(queries):
                count, text = near_note(near)
                note = f"{count} {text}"
    return hits if note is None else replace(hits, notes=(*hits.notes, f"{run.name}: {note}"))


def _absent_note(docs: Sequence[str], run: RowSource, doc_id: DocumentId | None) -> str | None:
    """Return a note if no id in `docs`, the relevant gold ids, was retrieved for any query of `run`."""
    absent, listed = dict.fromkeys(docs), dict[str, None]()
    for _, docs_of in run.ids():
        found = docs_of if doc_id is None else list(map(doc_id, docs_of))
        if not absent.keys().isdisjoint(found):
            return None
        if len(listed) < _MOST_LISTED:
            listed.update(dict.fromkeys(found))
    if not listed:
        return None
    from germane.labelling.unmatched import absent_note

    return f"{len(absent)} {absent_note(list(absent), listed)}"


def _missed_queries(
    hits: Hits, missed: NDArray[np.bool_], lists: Mapping[str, Sequence[str]]
) -> Iterator[tuple[list[str], Iterable[str]]]:
    """Yield, for each query with missed gold documents, their ids and the retrieved ids that are not gold."""
    ends = np.cumsum(hits.gold.sizes)
    rows = np.searchsorted(ends, np.flatnonzero(missed), "right")
    rows = rows[np.diff(rows, prepend=-1) > 0]
    for row in rows[hits.lengths[rows] > 0][:_MOST_QUERIES].tolist():
        if listed := lists.get(hits.gold.queries[row]):
            first, end = int(ends[row] - hits.gold.sizes[row]), int(ends[row])
            gold = {hits.gold.doc[at]: bool(missed[at]) for at in range(first, end)}
            yield [doc for doc, miss in gold.items() if miss], (doc for doc in listed if doc not in gold)


def _remarks(
    name: str, hits: Hits, nothing: NDArray[np.bool_], missing: Literal["zero", "skip"]
) -> Iterator[str]:
    """Yield the notes on the run `name`: queries without results or gold, and ignored results."""
    yield from hits.notes
    absent, empty = hits.lengths < 0, hits.lengths == 0
    left_out = "left out" if missing == "skip" else "counted as 0 (--missing skip leaves them out)"
    for count, first, what in (
        (*_first(hits, absent), f"of {len(hits.gold.queries)} with gold but without results, {left_out}"),
        (*_first(hits, empty), "with an empty list, counted as 0"),
        (hits.ignored, hits.first_ignored, "with results but without gold, ignored"),
        (*_first(hits, nothing), "without any relevant document in the gold, counted as 0"),
    ):
        if count:
            more = ", ..." if count > EXAMPLES else ""
            yield f"{name}: {count} {'query' if count == 1 else 'queries'} {what}: {', '.join(first)}{more}"
    for count, what in (
        (hits.repeated, "for a document that is already ranked higher, ignored"),
        (hits.folded, "for a further chunk of a document, ignored"),
    ):
        if count:
            yield f"{name}: {count} {'result' if count == 1 else 'results'} {what}"


def _first(hits: Hits, marked: NDArray[np.bool_]) -> tuple[int, list[str]]:
    """Return the number of queries for which `marked` is True, and the ids of the first few of them."""
    rows = np.flatnonzero(marked)
    return len(rows), [hits.gold.queries[row] for row in rows[:EXAMPLES].tolist()]


def ranked_report(
    parts: Iterable[BlockRows], gates: Sequence[Gate] = (), *, notes: Iterable[str] = ()
) -> Report:
    """Return one report on several systems; `parts` are their scores, and `notes` are remarks on the gold."""
    first, *others = parts
    # merging copies, and one run may have millions of queries
    merged = merge([first, *others]) if others else first
    manifest = {"judge": {"source": "gold"}, "notes": [*notes, *merged.notes]}
    return Report.build(merged, manifest, gates=gates)


def _checked(measures: Measure | str | Iterable[Measure | str]) -> tuple[Measure, ...]:
    """Return the parsed measures, each once; the residual of RBP is added after RBP."""
    result: dict[Measure, None] = {}
    for measure in listed_measures(measures):
        ranked = measure.definition.family == "ranked"
        if not ranked or measure.labels != "gold":
            problem = f"{measure} needs a judge or people's labels, but `germane rank` has only gold"
            fix = f"write {measure(labels='gold')}" if ranked else "use germane run"
            raise MeasureError(problem, fix=fix)
        result[measure] = None
        if measure.settings.get("part") == "score":  # the residual: how much higher RBP could be
            result[measure(part="residual")] = None
    if not result:
        raise MeasureError("no measure is given", fix=f"write -m '{DEFAULT_MEASURES}'")
    return tuple(result)


def _no_gold(name: str, hits: Hits) -> InputError:
    """Return the error for a run in which no query has gold."""
    if not hits.ignored:
        return InputError("the run has no results", place=SourceLocation(name))
    theirs, ours = (", ".join(map(repr, ids[:EXAMPLES])) for ids in (hits.first_ignored, hits.gold.queries))
    return InputError(
        f"no query of the run has gold: the run's query ids are like {theirs}, the gold's like {ours}",
        fix="use the same query ids in both files (--columns chooses the columns of a table)",
        place=SourceLocation(name),
    )
