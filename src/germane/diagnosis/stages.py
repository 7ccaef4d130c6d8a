"""Follow relevant documents through the stages of retrieval: which stage found or lost each, at which rank.

A stage is a first-stage retriever, a fusion or a reranker, each with a ranked list. A stage loses a document
that is in the list of the previous stage but not in its own list; the first stage loses the documents that it
does not retrieve. Only the ranks of the relevant documents are kept, as arrays (`DocumentRanks`), so that runs of millions
of rows fit in memory. `germane stages --json` prints the records defined here.

If a sample names no stages, its retrieved list is the first stage, and the first k of this list the second.
An agent's searches are one stage, with each document at its best rank; the agent's final list is another.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from operator import itemgetter
from typing import Any, Literal, TypeAlias

import numpy as np
from msgspec import UNSET, UnsetType, field
from numpy.typing import NDArray
from rich.console import RenderableType
from rich.text import Text

from germane.clean import clean, counted, shorten
from germane.encoding import Line, internal, json_of
from germane.errors import InputError
from germane.places.lists import rankings
from germane.places.table import Bools, Floats, Ints, share_of
from germane.reports.summary import LIKE_THESE, in_digits, interval_in_words
from germane.samples.runs.hits import Hits
from germane.show.table import Stack, Table
from germane.statistics.intervals import IntervalEnds, mean_interval
from germane.statistics.systems import paired_difference
from germane.tables.scores import NO_IDS
from germane.types import Context, Json, Sample

RETURNED, BELOW, LOST, NEVER = "returned", "below k", "lost", "never retrieved"
"""The possible outcomes of a relevant document."""
FIRST = 10
"""The default of k for samples without stages, if their lists are longer than this."""
_CONTEXTS, _CALLS = "contexts", "calls"
_BAR = 24  # the length in characters of a bar that stands for all relevant documents
_SHOWN = 10  # the number of lost documents shown per system

Ranks: TypeAlias = Mapping[str, int]
"""The rank of each document, from 1."""
_Listed: TypeAlias = tuple[Sample, list[tuple[str, Ranks]]]
"""A sample, and for each of its stages the name and the ranked list."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DocumentRanks:
    """The ranks of one system's relevant documents in the list of each retrieval stage, as arrays.

    Attributes:
        names: The names of the stages, in order.
        ranks: The rank of each document in each stage, from 1; 0 if it is not in the list. Shape (stages,
            documents).
        lengths: The length of each stage's list for each query. Shape (stages, queries).
        query: The number of each document's query, ascending.
        queries, documents: The ids of the queries and of the documents.
        grades: The grade of each document.
        clusters: The cluster of each query, for the statistics; None if each query is a cluster of its own.
        cut: True if the last stage is the first k of the previous stage.
        notes: Notes on what was left out, and how often.
    """

    names: Sequence[str]
    ranks: Ints
    lengths: Ints
    query: Ints
    queries: Sequence[str]
    documents: Sequence[str]
    grades: Floats
    clusters: Sequence[str] | None = None
    cut: bool = False
    notes: Sequence[str] = ()


def ranks_in_runs(stages: Mapping[str, Hits], *, rel: int = 1, k: int | None = None) -> DocumentRanks:
    """Return the ranks of the relevant documents (grade `rel` or more) in the run of each stage.

    `stages` maps the names of the stages to their runs, in order. A query without results in a run has an
    empty list in that stage. Queries without relevant documents are left out. The first `k` results of the
    last run are added as one more stage, unless `k` is None. Raises InputError if the gold contains no
    relevant document.
    """
    runs = list(stages.values())
    first, known = runs[0], len(runs[0].gold.queries)
    relevant = np.flatnonzero(first.gold.number >= rel)
    if not len(relevant):
        problem = f"no document in the gold has a grade of {rel} or more"
        raise InputError(problem, fix="give a lower grade, e.g. --rel 1, or other gold")
    kept, query = np.unique(np.repeat(np.arange(known), first.gold.sizes)[relevant], return_inverse=True)
    ranks = np.zeros((len(runs), len(first.gold.number)), np.int64)
    for row, hits in zip(ranks, runs, strict=True):
        row[hits.doc] = hits.rank
    left = known - len(kept)
    have = "has no relevant document and is" if left == 1 else "have no relevant document and are"
    notes = [f"{left} of {counted(known, 'query')} {have} left out"] if left else []
    for name, hits in stages.items():
        if empty := int((hits.lengths[kept] < 0).sum()):
            notes.append(f"{name}: {counted(empty, 'query has', 'queries have')} no results")
        if hits.ignored:
            have = counted(hits.ignored, "query has", "queries have")
            notes.append(f"{name}: {have} no gold and are ignored")
    ranked = DocumentRanks(
        names=list(stages),
        ranks=ranks[:, relevant],
        lengths=np.maximum(np.stack([hits.lengths for hits in runs]), 0)[:, kept],
        query=query.astype(np.int64),
        queries=list(first.gold.queries[kept]),
        documents=list(first.gold.doc[relevant]),
        grades=first.gold.number[relevant],
        notes=notes,
    )
    return _with_cut(ranked, k)


def _with_cut(ranked: DocumentRanks, k: int | None) -> DocumentRanks:
    """Add the first `k` results of the last stage as one more stage, unless `k` is None."""
    if k is None:
        return ranked
    last = ranked.ranks[-1]
    return replace(
        ranked,
        names=[*ranked.names, f"first {k}"],
        ranks=np.vstack([ranked.ranks, np.where(last <= k, last, 0)]),
        lengths=np.vstack([ranked.lengths, np.minimum(ranked.lengths[-1], k)]),
        cut=True,
    )


def _document_ranks(
    samples: Sequence[_Listed], left: Mapping[str, int], rel: int, k: int | None
) -> DocumentRanks:
    """Return the ranks of one system's relevant documents in each stage; `left` counts samples left out.

    If `k` is None, the first 10 results are a stage only for samples without stages whose lists are longer.
    """
    notes = [f"{counted(count, 'sample')} left out: {why}" for why, count in left.items()]
    staged = any(sample.stages for sample, _ in samples)
    last_two = [lists[-2:] for _, lists in samples if len(lists) > 1 and lists[-1][0] == _CONTEXTS]
    if staged and all(before.keys() == after.keys() for (_, before), (_, after) in last_two):
        # the contexts contain the same documents as the last stage, so they are no stage of their own
        samples = [
            (sample, lists[:-1] if len(lists) > 1 and lists[-1][0] == _CONTEXTS else lists)
            for sample, lists in samples
        ]
    names: list[str] = []
    for _, lists in samples:
        at = 0  # a new name is inserted after the name that precedes it in the sample
        for name, _ in lists:
            if name not in names:
                names.insert(len(names) if name == _CONTEXTS else at, name)  # contexts are final
            at = names.index(name) + 1
    if partly := sum(len(lists) < len(names) for _, lists in samples):
        lack, pronoun = ("lacks", "it") if partly == 1 else ("lack", "them")
        affected = f"{partly} of {counted(len(samples), 'sample')} {lack} a stage that others have"
        notes.append(f"{affected}; for {pronoun}, the list of the previous stage (else of the next) is used")
    lengths: list[list[int]] = []
    rows: list[tuple[int, str, int, list[int]]] = []
    for number, (sample, lists) in enumerate(samples):
        ranks_of, filled = dict(lists), list[Ranks]()
        for name in names:
            filled.append(ranks_of.get(name, filled[-1] if filled else lists[0][1]))
        lengths.append([len(ranks) for ranks in filled])
        for document, grade in (sample.qrels or {}).items():
            if grade >= rel:
                rows.append((number, document, grade, [ranks.get(document, 0) for ranks in filled]))
    query, documents, grades, ranks = zip(*rows, strict=True)
    ranked = DocumentRanks(
        names=names,
        ranks=np.array(ranks, np.int64).T.copy(),
        lengths=np.array(lengths, np.int64).T.copy(),
        query=np.array(query, np.int64),
        queries=[sample.id for sample, _ in samples],
        documents=documents,
        grades=np.array(grades, np.float64),
        clusters=[sample.id if sample.cluster is None else sample.cluster for sample, _ in samples],
        notes=notes,
    )
    longer = not staged and int(ranked.lengths[-1].max(initial=0)) > FIRST
    return _with_cut(ranked, FIRST if k is None and longer else k)


def _lists_of(sample: Sample) -> list[tuple[str, Ranks]]:
    """Return the name and the ranks of each stage of a sample; [] if no stage lists document ids."""
    result = [(stage.name, _ranks(stage.ids)) for stage in sample.stages]
    if not sample.stages and sample.calls:
        lists = (_ids(contexts) for _, contexts in rankings(sample))
        searches = [ranks for ranks in lists if ranks is not None]
        ordered = sorted(chain.from_iterable(ranks.items() for ranks in searches), key=itemgetter(1))
        result = [(_CALLS, dict(reversed(ordered)))] if searches else []
    returned = None if sample.contexts is None or _CONTEXTS in dict(result) else _ids(sample.contexts)
    if returned is not None:
        result.append((_CONTEXTS, returned))
    return result


def _ids(contexts: Sequence[Context]) -> Ranks | None:
    """Return the documents' ranks in a list of contexts, in which all have a place; None if none has an id."""
    if contexts and not any(context.id for context in contexts):
        return None
    return _ranks(context.id or f"\0{number}" for number, context in enumerate(contexts))


def _ranks(ids: Iterable[str]) -> Ranks:
    """Return the rank of each document in a list of ids; a repeated id counts once, at its best rank."""
    return {document: rank for rank, document in enumerate(dict.fromkeys(ids), 1)}


class StageRow(Line):
    """One stage of retrieval, with its recall and its numbers of relevant documents.

    `recall` is the mean over the queries, `difference` the paired difference from the previous stage's
    recall. `in` counts the relevant documents in the stage's lists. `lost` counts the relevant documents that
    are in the previous stage's lists but not in this stage's; for the first stage, those that it did not
    retrieve. `saved` counts the relevant documents that are in this stage's lists but not in the previous
    stage's. `depth` is the length of the stage's longest list.
    """

    name: str
    recall: float | None
    interval: IntervalEnds | None
    relevant: int = field(name="in")
    lost: int
    saved: int
    difference: float | None
    difference_interval: IntervalEnds | None
    depth: int


class DocumentRow(Line):
    """One relevant document of a query: its outcome, the stage that lost it, and its rank in each stage.

    `lost` is null if the document was returned. A rank is null if the stage's list lacks the document.
    """

    sample: str
    document: str
    grade: int
    where: Literal["returned", "below k", "lost", "never retrieved"]
    lost: str | None
    ranks: dict[str, int | None]


class SystemStages(Line, kw_only=True, rename=internal("ranked", relevant="known", rows="documents")):
    """The stages of one system's retrieval, and the outcomes of the relevant documents.

    `known` is the number of relevant documents, `queries` the number of queries. `ends` counts the documents
    by outcome. For one system `germane stages --json` prints this record with a `schema_version`. For several
    systems it prints a list of these records as `systems`.
    """

    schema_version: Literal[1] | UnsetType = UNSET
    system: str | UnsetType = UNSET
    queries: int
    relevant: int
    ends: dict[str, int]
    stages: list[StageRow]
    rows: list[DocumentRow] = field(default_factory=list)
    notes: list[str]
    ranked: Any

    def documents(self, *, lost: bool = False) -> Iterator[DocumentRow]:
        """Yield a row per relevant document, in the order of the queries.

        With `lost`, yield only the documents that are missing from the last stage: highest grade first, then
        best rank in the last stage that found them.
        """
        ranked: DocumentRanks = self.ranked
        last, ends = _ends(ranked)
        order = np.arange(len(last))
        if lost:
            missing = np.flatnonzero(ends != RETURNED)
            before = np.where(last >= 0, ranked.ranks[last, order], np.iinfo(np.int64).max)[missing]
            order = missing[np.lexsort((before, -ranked.grades[missing]))]
        for at in order.tolist():
            ranks = [rank or None for rank in ranked.ranks[:, at].tolist()]
            yield DocumentRow(
                sample=ranked.queries[int(ranked.query[at])],
                document=ranked.documents[at],
                grade=int(ranked.grades[at]),
                where=ends[at].item(),
                lost=None if ends[at] == RETURNED else ranked.names[last[at] + 1],
                ranks=dict(zip(ranked.names, ranks, strict=True)),
            )


def _ends(ranked: DocumentRanks) -> tuple[Ints, NDArray[np.str_]]:
    """Return the last stage that found each relevant document (-1 = none), and the document's outcome."""
    stages = len(ranked.ranks)
    last = np.where(ranked.ranks > 0, np.arange(stages)[:, None], -1).max(axis=0, initial=-1)
    ends = [last == stages - 1, last < 0, (last == stages - 2) & ranked.cut]
    return last, np.select(ends, [RETURNED, NEVER, BELOW], LOST)


def stage_report(ranked: DocumentRanks, system: str = "") -> SystemStages:
    """Return one system's stages: relevant documents found, lost and saved, and recall with an interval.

    The recall of a query is the proportion of its relevant documents that are in the stage's whole list.
    Queries of one cluster, and the trials of a case, count as one unit in the intervals. `system` is the name
    of the system in the result.
    """
    rows, row = len(ranked.queries), ranked.query
    mask, clusters = np.ones(len(row), np.bool_), ranked.clusters
    lines, narrow, before = list[StageRow](), dict[str, None](), mask
    recall_before: Floats | None = None
    for number, name in enumerate(ranked.names):
        found_by: Bools = ranked.ranks[number] > 0
        recall = share_of(found_by, mask, row, rows)
        interval = mean_interval(recall, clusters=clusters, value_range=(0.0, 1.0))
        narrow |= dict.fromkeys(filter(None, [interval.note]))
        gain = None
        if recall_before is not None:
            gain = paired_difference(recall_before, recall, clusters=clusters, value_range=(0.0, 1.0))
        line = StageRow(
            name=name,
            recall=interval.mean,
            interval=interval.ends,
            relevant=int(found_by.sum()),
            lost=int((before & ~found_by).sum()),
            saved=int((found_by & ~before).sum()) if number else 0,
            difference=gain.difference if gain else None,
            difference_interval=gain.interval.ends if gain else None,
            depth=int(ranked.lengths[number].max(initial=0)),
        )
        lines.append(line)
        before, recall_before = found_by, recall
    ends = Counter(_ends(ranked)[1].tolist())
    return SystemStages(
        system=system,
        queries=len(set(clusters or ranked.queries)),
        relevant=len(row),
        ends={end: ends[end] for end in (RETURNED, BELOW, LOST, NEVER) if end in ends},
        stages=lines,
        notes=[*ranked.notes, *narrow],
        ranked=ranked,
    )


def stages_of(samples: Iterable[Sample], *, rel: int = 1, k: int | None = None) -> list[SystemStages]:
    """Return, for each system, its retrieval stages and which stage lost each relevant document.

    A document is relevant if its grade in `qrels` is `rel` or more. If a sample lacks a stage that other
    samples have, the list of its previous stage is used. The contexts are one more stage if they contain
    other documents than the last stage. Unanswerable questions and samples without a relevant document are
    left out. The first `k` results are added as the last stage. If `k` is None, the first 10 are added if the
    samples name no stages and their lists are longer. Raises InputError if no sample has both a relevant
    document and a ranked list with ids.
    """
    systems: dict[str, list[_Listed]] = {}
    left: dict[str, Counter[str]] = {}
    for sample in samples:
        lists = _lists_of(sample)
        reasons = {
            f"the system failed: {sample.error}": sample.error is not None,
            "the sample has no qrels": not sample.qrels,
            "the question is unanswerable": sample.answerable is False,
            f"no document in qrels has grade {rel} or more": max((sample.qrels or {}).values(), default=0)
            < rel,
            NO_IDS if sample.contexts else "the sample has no contexts": not lists,
        }
        if why := next((why for why, holds in reasons.items() if holds), ""):
            left.setdefault(sample.system, Counter())[why] += 1
        else:
            systems.setdefault(sample.system, []).append((sample, lists))
    if not systems:
        whys = "; ".join(dict.fromkeys(chain.from_iterable(left.values()))) or "there are no samples"
        fix = 'give samples gold ("qrels": {"d7": 1}) and contexts with ids, or "stages"'
        raise InputError(f"there is no relevant document to follow through the stages: {whys}", fix=fix)
    return [
        stage_report(_document_ranks(samples_of_system, left.get(system, Counter()), rel, k), system)
        for system, samples_of_system in systems.items()
    ]


def document_of(systems: Sequence[Any]) -> Json:
    """Return the JSON document of one system's record, or of several under `systems`."""
    if len(systems) > 1:
        return {"schema_version": 1, "systems": json_of(systems)}
    return systems[0].replace(schema_version=1, system=UNSET).as_json()


def stages_document(systems: Sequence[SystemStages]) -> Json:
    """Return the document that `germane stages --json` prints, with a row for every relevant document."""
    return document_of([system.replace(rows=list(system.documents())) for system in systems])


def render_stages(reports: Sequence[SystemStages], *, every: bool = False) -> RenderableType:
    """Return each system's stages for a rich console, with the lost documents, or all if `every` is true."""
    return Stack(line for report in reports for line in _stages(report, every=every))


def _stages(report: SystemStages, *, every: bool) -> Iterator[RenderableType]:
    if report.system:
        yield Text(f"\n{clean(report.system)}", style="bold")
    yield Text(f"{counted(report.relevant, 'relevant document')} of {counted(report.queries, 'query')}")
    heads = ["stage", "share of them", "in", "lost", "saved", "recall", "interval"]
    changes = ["change", "interval of the change"] if len(report.stages) > 1 else []
    table = Table([*heads, *changes], "llr", notes=[f"95% confidence intervals ({LIKE_THESE})"])
    for stage in report.stages:
        bar = "█" * round(_BAR * stage.relevant / report.relevant)
        counts = [f"{n:,}" if n else "-" for n in (stage.lost, stage.saved)]
        recall = in_digits(stage.recall), interval_in_words(stage.interval)
        row = [stage.name, bar, f"{stage.relevant:,}", *counts, *recall]
        if stage is not report.stages[0]:
            row += [in_digits(stage.difference, "+"), interval_in_words(stage.difference_interval, sign="+")]
        table.add(row + [""] * (len(table.heads) - len(row)), {5})
    yield table
    yield Text("ends     " + ", ".join(f"{count:,} {where}" for where, count in report.ends.items()))
    documents = list(report.documents()) if every else list(islice(report.documents(lost=True), _SHOWN))
    more = report.relevant - report.stages[-1].relevant - len(documents)
    heads = ["query", "document", "outcome", "grade", *report.ranked.names]
    table = Table(
        heads, "lllr", title="every relevant document" if every else "lost documents, best ranks first"
    )
    if more > 0 and not every:
        table.notes.append(f"and {more:,} more: -q or --json prints every document")
    for document in documents:
        where = f"lost at {document.lost}" if document.where == "lost" else document.where
        names = shorten(document.sample, 40), shorten(document.document, 60, end=30), where
        table.add([*names, document.grade, *(rank or "-" for rank in document.ranks.values())])
    if documents:
        yield table
    yield from (Text(f"note     {clean(note)}") for note in report.notes)
