"""`germane rank` as a library call: ranked results against gold, query by query, as trec_eval does it.

::

    rank({"q1": {"d1": 2.0, "d2": 1.0}}, {"q1": {"d2": 1}}, "nDCG@10 RR")["RR"].mean    # 0.5

Every query with gold counts: one without results gets 0 (`missing="skip"` leaves it out), as does one without any
relevant document. Results are ordered by score, higher first, compared as doubles; ties by document id, descending.
A list without scores keeps its order. Results of queries without gold are ignored, and counted in the notes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from germane.errors import InputError, MeasureError, Place
from germane.measures.declaration import parse_measures
from germane.measures.kernel import RankedLabels, relevant_known
from germane.measures.measure import Measure
from germane.measures.ranked import values
from germane.reports.gates import Gate
from germane.reports.report import Report
from germane.samples.bulk import Gold, Hits, NotPlain, read_hits
from germane.samples.files import BadRows, on_disk, shown_name
from germane.samples.trec import (
    Format,
    Qrels,
    Results,
    Run,
    as_run,
    format_of,
    qrels_of_frame,
    read_qrels,
    read_run,
    run_of_frame,
)
from germane.tables.columns import Frame
from germane.tables.part import Part, merge
from germane.tables.scores import Ids, SampleKey, ScoreTable
from germane.types import Sample

DEFAULT_MEASURES = "nDCG@10 AP RR P@10 R@10 Judged@10"
_ABSENT = "no results for this query"
_LARGE = 4 << 20
"""Bytes from which on a run is read in bulk: below, importing polars costs more than it saves."""

Listed: TypeAlias = Run | Mapping[str, Mapping[str, float] | Sequence[str]]
DocumentId: TypeAlias = Callable[[str], str]


@dataclass
class GoldFile:
    """The gold in a file, which is read when it is needed: in columns for large runs, as a mapping for others."""

    path: Path | str
    fmt: Format | None = None
    columns: Mapping[str, str] | None = None
    keep_first: bool = False
    bad: BadRows = field(default_factory=BadRows)

    @cached_property
    def mapping(self) -> Qrels:
        """Query id -> document id -> grade."""
        return read_qrels(
            self.path, fmt=self.fmt, columns=self.columns, keep_first=self.keep_first, bad=self.bad
        )

    @cached_property
    def in_columns(self) -> Gold:
        """The same in columns; NotPlain where it cannot be."""
        if Path(self.path).is_file() and format_of(self.path, self.fmt, gold=True) == "trec":
            with suppress(NotPlain):
                return Gold.read(self.path)
        return Gold.of(self.mapping)


def rank(
    run: Listed | Frame | str | Path,
    qrels: Qrels | Frame | str | Path,
    measures: str | Iterable[Measure] = DEFAULT_MEASURES,
    *,
    system: str = "",
    missing: Literal["zero", "skip"] = "zero",
    duplicates: Literal["error", "first"] = "error",
    doc_id: DocumentId | None = None,
    queries: Iterable[Sample] = (),
) -> Report:
    """The report on one system's run: a score per query with gold and measure.

    Run and gold are mappings, the paths of files, or tables of pandas, polars or Arrow with a row per result and per
    grade (`query_id`, `doc_id`, `score` or `relevance`, or other usual names of these).
    `duplicates`: a document that stands twice in a query is an error, or only its best place counts. `doc_id` maps
    the ids of chunks to those of their documents, on both sides; of several chunks of one document the best counts.
    `queries` bring tags, metadata and clusters, for `report.slices("lang")` and the intervals.
    Raises InputError where no query of the run has gold, and MeasureError for measures that need other labels.
    """
    settings: Any = {"system": system, "missing": missing, "duplicates": duplicates, "doc_id": doc_id}
    first = duplicates == "first"
    if isinstance(qrels, str | Path):
        gold: Qrels | GoldFile = GoldFile(qrels, keep_first=first)
    else:
        gold = qrels_of_frame(qrels, keep_first=first) if hasattr(qrels, "columns") else qrels
    if isinstance(run, str | Path):
        return ranked_report([rank_file(run, gold, measures, **settings)], queries=queries)
    listed = run_of_frame(run) if hasattr(run, "columns") else run
    known = gold.mapping if isinstance(gold, GoldFile) else gold
    return ranked_report([rank_part(listed, known, measures, **settings)], queries=queries)


def rank_part(
    run: Listed,
    qrels: Qrels,
    measures: str | Iterable[Measure] = DEFAULT_MEASURES,
    *,
    system: str = "",
    missing: Literal["zero", "skip"] = "zero",
    duplicates: Literal["error", "first"] = "error",
    doc_id: DocumentId | None = None,
) -> Part:
    """What `rank` reports on, as a part that merges with those of other systems; raises what `rank` raises."""
    listed = run if isinstance(run, Run) else as_run(run)
    wanted = _checked(measures)
    gold = qrels if doc_id is None else _mapped(qrels, doc_id)
    if not any(query in gold for query in listed.queries):
        raise _apart(listed.name, list(listed.queries), list(gold))
    notes = _Notes(listed.name, list(listed.notes))
    hits: list[tuple[int, int, float]] = []
    lengths = np.full(len(gold), -1)
    for row, (query, grades) in enumerate(gold.items()):
        results = listed.queries.get(query)
        if results is not None:
            docs = _documents(results, query, listed.name, duplicates, doc_id, notes)
            hits += [(row, rank, grades[doc]) for rank, doc in enumerate(docs, 1) if doc in grades]
            lengths[row] = len(docs)
    rows, ranks, found = np.array(hits, dtype=np.float64).reshape(-1, 3).T
    known = [grade for some in gold.values() for grade in some.values()]
    table = RankedLabels.of_hits(
        rows.astype(np.int64),
        ranks.astype(np.int64),
        found,
        np.maximum(lengths, 0),
        np.fromiter(map(len, gold.values()), np.int64, len(gold)),
        np.array(known, dtype=np.float64),
    )
    notes.ignored = [query for query in listed.queries if query not in gold]
    queries = list(gold)
    notes.queries(queries, lengths, relevant_known(table, rel=1), missing)
    return _scored(table, wanted, [(query, system, 0) for query in queries], lengths, notes, missing)


def rank_file(
    path: Path | str,
    qrels: Qrels | GoldFile,
    measures: str | Iterable[Measure] = DEFAULT_MEASURES,
    *,
    fmt: Format | None = None,
    columns: Mapping[str, str] | None = None,
    system: str = "",
    missing: Literal["zero", "skip"] = "zero",
    duplicates: Literal["error", "first"] = "error",
    doc_id: DocumentId | None = None,
    on_bad_row: Literal["error", "skip"] = "error",
) -> Part:
    """What `rank_part` makes of the run in a file (`-` = stdin); a large one is read in bulk where polars is installed.

    `on_bad_row`: rows that cannot be read are an InputError, which shows the first ten, or are left out and noted.
    """
    wanted = _checked(measures)
    bad = BadRows(skip=on_bad_row == "skip")
    with on_disk(path) as file:
        found = _in_bulk(file, fmt, columns, qrels) if doc_id is None else None
        if found is None:
            known = qrels.mapping if isinstance(qrels, GoldFile) else qrels
            run = read_run(file, fmt=fmt, columns=columns, bad=bad)
            return rank_part(
                run, known, wanted, system=system, missing=missing, duplicates=duplicates, doc_id=doc_id
            )
    gold, hits = found
    name = shown_name(path)
    if not (hits.lengths >= 0).any():
        raise _apart(name, hits.ignored, gold.queries)
    table = RankedLabels.of_hits(
        hits.row, hits.rank, hits.grade, np.maximum(hits.lengths, 0), gold.sizes, gold.grades
    )
    notes = _Notes(name, ignored=hits.ignored)
    notes.queries(gold.queries, hits.lengths, relevant_known(table, rel=1), missing)
    return _scored(table, wanted, Ids(*gold.ids, system), hits.lengths, notes, missing)


def slow(path: Path | str, fmt: Format | None = None) -> bool:
    """Whether this file would be read faster if polars were installed."""
    return _is_large(path) and find_spec("polars") is None and format_of(path, fmt) == "trec"


def _in_bulk(
    path: Path | str, fmt: Format | None, columns: Mapping[str, str] | None, qrels: Qrels | GoldFile
) -> tuple[Gold, Hits] | None:
    """The gold and the hits of a large and plain run; None where it must be read row by row."""
    if not _is_large(path) or find_spec("polars") is None:
        return None
    kind = format_of(path, fmt)
    if kind not in {"trec", "parquet"}:
        return None
    try:
        gold = qrels.in_columns if isinstance(qrels, GoldFile) else Gold.of(qrels)
        return gold, read_hits(path, gold, fmt=kind, columns=columns)
    except NotPlain:
        return None


def _is_large(path: Path | str) -> bool:
    return Path(path).is_file() and Path(path).stat().st_size >= _LARGE


def _scored(
    table: RankedLabels,
    wanted: Sequence[Measure],
    samples: Sequence[SampleKey] | Ids,
    lengths: NDArray[np.int64],
    notes: _Notes,
    missing: Literal["zero", "skip"],
) -> Part:
    """The scores of the table's rows, one for each query of the gold; `lengths` of their lists, -1 = the run has none."""
    counted = (lengths >= 0) | (missing == "zero")
    computed = {str(measure): values(measure, table) for measure in wanted}
    scores = ScoreTable.of_values(samples, computed, counted=counted, why=_ABSENT)
    return Part(scores=scores, notes=Counter(notes.said))


def ranked_report(
    parts: Iterable[Part],
    gates: Sequence[Gate] = (),
    queries: Iterable[Sample] = (),
    by: str | None = None,
    *,
    notes: Iterable[str] = (),
) -> Report:
    """One report on the runs of one or more systems.

    `queries` tell what is known of them: tags, metadata and clusters, in slices of which (`by`) the report is shown.
    `notes` are remarks about the gold.
    InputError where none of them was scored.
    """
    made = list(parts)
    merged = made[0] if len(made) == 1 else merge(made)
    told = list(queries)
    scored = {query for query, _, _ in merged.scores.samples} if told else set[str]()
    merged.samples.extend(sample for sample in told if sample.id in scored)
    if told and not merged.samples:
        ours, theirs = (", ".join(map(repr, some)) for some in (sorted(scored)[:3], [s.id for s in told][:3]))
        raise InputError(
            f"none of the queries is in the gold: their ids are like {theirs}, the gold's like {ours}",
            fix="name the queries alike",
        )
    manifest = {"judge": {"source": "gold"}, "notes": [*notes, *merged.notes], "by": by}
    report = Report.build(merged, manifest, gates=gates)
    if by is not None:
        report.slices(by)  # an unknown name is an error here
    return report


def document_ids(pattern: str) -> DocumentId:
    """A mapping of chunk ids to document ids: what the pattern (or its first group) matches, else the id itself."""
    try:
        found = re.compile(pattern)
    except re.error as fault:
        raise InputError(
            f"--doc-id {pattern!r} is no regular expression: {fault}", fix="write e.g. '^[^#]+'"
        ) from None

    def document_id(chunk: str) -> str:
        match = found.search(chunk)
        return (match[1 if found.groups else 0] or chunk) if match else chunk

    return document_id


def _with_residual(measure: Measure) -> tuple[Measure, ...]:
    """RBP with how much more it could be, which belongs beside it."""
    return (measure, measure(part="residual")) if measure.settings.get("part") == "score" else (measure,)


def _checked(measures: str | Iterable[Measure]) -> tuple[Measure, ...]:
    """The measures; MeasureError where there is none, or where one cannot be computed from gold labels alone."""
    wanted = parse_measures([measures]) if isinstance(measures, str) else tuple(measures)
    if not wanted:
        raise MeasureError("no measure is given", fix=f"write -m '{DEFAULT_MEASURES}'")
    wanted = tuple(dict.fromkeys(one for measure in wanted for one in _with_residual(measure)))
    for measure in wanted:
        measure.require_cutoff()
        if measure.definition.family != "ranked" or measure.labels != "gold":
            raise MeasureError(
                f"{measure} reads other labels than gold, and rank has nothing else",
                fix=f"write {measure(labels='gold')}"
                if measure.definition.family == "ranked"
                else "use germane run",
            )
        if measure.settings.get("holes") == "bounds":
            raise MeasureError(
                f"{measure} is an interval, and rank prints one value per query", fix="use germane run"
            )
    return wanted


def _mapped(qrels: Qrels, doc_id: DocumentId) -> Qrels:
    """Gold with mapped ids; a document takes the best grade of its chunks."""
    mapped: dict[str, dict[str, int]] = {}
    for query, grades in qrels.items():
        known = mapped.setdefault(query, {})
        for chunk, grade in grades.items():
            document = doc_id(chunk)
            known[document] = max(grade, known.get(document, grade))
    return mapped


def _apart(name: str, queries: Sequence[str], gold: Sequence[str]) -> InputError:
    """Why a run none of whose queries is in the gold cannot be ranked."""
    if not queries:
        return InputError("there are no results in this file", place=Place(name))
    theirs, ours = (", ".join(map(repr, some[:3])) for some in (queries, gold))
    return InputError(
        f"no query of the run has gold: the run's query ids are like {theirs}, the gold's like {ours}",
        fix="both files must name the queries alike (--columns chooses the columns of a table)",
        place=Place(name),
    )


def _documents(
    results: Results,
    query: str,
    name: str,
    duplicates: Literal["error", "first"],
    doc_id: DocumentId | None,
    notes: _Notes,
) -> list[str]:
    """A query's documents, best first, each once."""
    again = len(results.ids) - len(set(results.ids))
    if again and duplicates == "error":
        raise _twice(results, query, name)
    notes.repeated += again
    ids = _ordered(results)
    if not again and doc_id is None:
        return ids
    distinct = dict.fromkeys(ids)
    if doc_id is None:
        return list(distinct)
    documents = dict.fromkeys(map(doc_id, distinct))
    notes.folded += len(distinct) - len(documents)
    return list(documents)


def _ordered(results: Results) -> list[str]:
    ids, scores = results.ids, results.scores
    if not scores:
        return ids
    given = np.frombuffer(scores)
    if (given[1:] < given[:-1]).all():
        return ids
    order = np.argsort(-given, kind="stable")
    best_first = given[order]
    if (best_first[1:] == best_first[:-1]).any():
        return [doc for _, doc in sorted(zip(scores, ids, strict=True), reverse=True)]
    return [ids[position] for position in order.tolist()]


def _twice(results: Results, query: str, name: str) -> InputError:
    seen: set[str] = set()
    at = next(i for i, doc in enumerate(results.ids) if doc in seen or seen.add(doc))  # type: ignore[func-returns-value]
    first = results.lines[results.ids.index(results.ids[at])]
    before = f" (first in line {first})" if first else ""
    return InputError(
        f"document {results.ids[at]} stands twice in query {query}{before}",
        fix="drop one, or give --duplicates first to count its best place",
        place=Place(name, results.lines[at]),
    )


@dataclass(slots=True)
class _Notes:
    """What the user should know about the input, counted while it is read."""

    name: str
    said: list[str] = field(default_factory=list)
    repeated: int = 0
    folded: int = 0
    ignored: Sequence[str] = ()

    def queries(
        self,
        queries: Sequence[str],
        lengths: NDArray[np.int64],
        relevant: NDArray[np.int64],
        missing: Literal["zero", "skip"],
    ) -> None:
        """Say which queries count 0 or are left out, and what was dropped on the way."""
        found = [np.flatnonzero(rows) for rows in (lengths < 0, lengths == 0, relevant == 0)]
        counts = [len(rows) for rows in found]
        absent, empty, nothing = ([queries[row] for row in rows[:4].tolist()] for rows in found)
        what = "left out" if missing == "skip" else "counted as 0 (--missing skip leaves them out)"
        self._say(counts[0], "query", f"of {len(queries)} with gold but without results, {what}", absent)
        self._say(counts[1], "query", "with an empty list, counted as 0", empty)
        self._say(len(self.ignored), "query", "with results but without gold, ignored", self.ignored)
        self._say(counts[2], "query", "without any relevant document in the gold, counted as 0", nothing)
        self._say(self.repeated, "result", "naming a document again, dropped")
        self._say(self.folded, "result", "from further chunks of a document, dropped")

    def _say(self, count: int, of: str, what: str, examples: Sequence[str] = ()) -> None:
        if count:
            plural = {"query": "queries"}.get(of, of + "s")
            shown = ": " + ", ".join(examples[:3]) + (", ..." if count > 3 else "") if examples else ""
            self.said.append(f"{self.name}: {count} {of if count == 1 else plural} {what}{shown}")
