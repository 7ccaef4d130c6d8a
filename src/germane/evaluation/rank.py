"""`germane rank` as a library call: ranked results against gold, query by query, as trec_eval does it.

::

    rank({"q1": {"d1": 2.0, "d2": 1.0}}, {"q1": {"d2": 1}}, "nDCG@10 RR")["RR"].mean    # 0.5

Every query with gold counts: one without results gets 0 (`missing="skip"` leaves it out), as does one without any
relevant document. Results are ordered by score, higher first, compared as doubles; ties by document id, descending.
A list without scores keeps its order. Results of queries without gold are ignored, and counted in the notes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from germane.clean import counted as number_of
from germane.errors import InputError, MeasureError, SourceLocation
from germane.folder.rows import BlockRows, merge
from germane.measures.declaration import parse_measures
from germane.measures.measure import Measure
from germane.measures.ranked import values
from germane.places.table import RankedLabels, relevant_known
from germane.reports.gates import Gate
from germane.reports.report import Report
from germane.samples.contexts import Lists, column_of_documents
from germane.samples.files import (
    BadRows,
    StandardInput,
    on_disk,
    parse_strict_json,
    read_text,
    shown_name,
)
from germane.samples.frames import is_table, records
from germane.samples.runs import bulk
from germane.samples.runs.detecting import format_of
from germane.samples.runs.results import (
    EXAMPLES,
    GOLD,
    MOST_COMPARED,
    RUN,
    Format,
    Hits,
    NotTabular,
    Qrels,
    Results,
    Run,
)
from germane.samples.runs.roles import document_columns, roles_of
from germane.samples.runs.shapes import row_fields
from germane.samples.runs.trec import gold_file, read_qrels, read_run
from germane.tables.scores import Ids, Noted, SampleKey, ScoreTable
from germane.types import Json, Sample

DEFAULT_MEASURES = "nDCG@10 AP RR P@10 R@10 Judged@10"
_ABSENT = "no results for this query"
_LARGE = 1 << 16
"""Bytes from which on a file is read in columns."""

DocumentId: TypeAlias = Callable[[str], str]


@dataclass
class RunFile:
    """The run in a file (`-` = stdin), and how to read it."""

    path: Path | str
    fmt: Format | None = None
    columns: Mapping[str, str] | None = None
    bad: BadRows = field(default_factory=BadRows)

    @cached_property
    def in_columns(self) -> Format | None:
        """The format of a file that is large enough to be read in columns; None for others."""
        path = Path(self.path)
        if not path.is_file() or path.stat().st_size < _LARGE:
            return None
        fmt = format_of(path, self.fmt)
        return None if fmt == "json" else fmt

    def hits(self, gold: GoldFile) -> Hits | None:
        """The ranks of gold documents in a large, plain run; None where the run must be read row by row."""
        if self.in_columns is None or (columns := gold.in_columns) is None:
            return None
        return bulk.read_hits(self.path, columns, self.in_columns, self.columns)

    def lists(self) -> Iterator[Lists]:
        """The retrieved ids of each query of a large, plain run, some queries at a time."""
        assert self.in_columns is not None
        return bulk.read_lists(self.path, self.in_columns, self.columns)


def _beginning(lists: Iterable[Lists]) -> Lists:
    """The first lists of a run, with as many ids as are compared with gold ids that were missed."""
    first: dict[str, Sequence[str]] = {}
    count = 0
    for some in lists:
        first |= some
        count += sum(map(len, some.values()))
        if count >= MOST_COMPARED:
            break
    return first


_MOST_QUERIES = 10_000
"""Queries of a run whose lists are searched for other spellings of gold ids."""
_MOST_LISTED = 100_000
"""Retrieved ids that are compared with gold ids of which none was found."""


@dataclass
class GoldFile:
    """Gold, mostly in a file, which is read when it is needed: in columns for large runs, as a mapping for others."""

    source: Any
    fmt: Format | None = None
    columns: Mapping[str, str] | None = None
    keep_first: bool = False
    bad: BadRows = field(default_factory=BadRows)
    _chosen: bool = field(default=False, init=False)
    _input: StandardInput | None = field(default=None, init=False)

    @cached_property
    def mapping(self) -> Qrels:
        """Query id -> document id -> grade."""
        return read_qrels(
            self.source, fmt=self.fmt, columns=self.columns, keep_first=self.keep_first, bad=self.bad
        )

    def choose_column(self, lists: Mapping[str, Callable[[], Lists]], doc_id: DocumentId | None) -> list[str]:
        """Choose the column of the document's id, where several could be it, by the lists of a run; return the note about it.

        `lists` gives them as read with each of the run's columns. What is chosen stays for the runs that follow.
        """
        if self._chosen or "mapping" in self.__dict__:
            return []
        self._chosen = True
        what, names = "qrels", list[str]()
        if isinstance(self.source, str | Path):
            if str(self.source) == "-":
                self._input = StandardInput()
                self.source = self._input.path
            what = shown_name(file := gold_file(self.source))
            with on_disk(file) as path:
                names = document_columns(path, format_of(path, self.fmt, GOLD), self.columns, GOLD)
        else:
            names = document_columns(self.source, None, self.columns, GOLD)
        if len(names) < 2:
            return []
        made = {name: {**(self.columns or {}), "doc": name} for name in names}
        gold = {name: partial(self._relevant, columns) for name, columns in made.items()}
        note = ""
        for listed in lists.values():
            with suppress(InputError):
                docs = {
                    query: dict.fromkeys(some if doc_id is None else map(doc_id, some), 1)
                    for query, some in listed().items()
                }
                chosen, said, meets = column_of_documents(what, gold, docs, doc_id, other="the run")
                self.columns, note = made[chosen], said
                if meets:
                    break
        return [note] if note else []

    def _relevant(self, columns: Mapping[str, str]) -> Lists:
        """The relevant documents of each query, as read with these columns."""
        qrels = read_qrels(
            self.source, fmt=self.fmt, columns=columns, keep_first=True, bad=BadRows(skip=True)
        )
        return {query: [doc for doc, grade in grades.items() if grade > 0] for query, grades in qrels.items()}

    @cached_property
    def in_columns(self) -> bulk.Gold | None:
        """The same in columns, for a run that is read so; None where it cannot be."""
        gold = None
        if isinstance(self.source, str | Path) and str(self.source) != "-":
            with on_disk(gold_file(self.source)) as path:
                gold = bulk.Gold.read(path, format_of(path, self.fmt, GOLD), self.columns)
        return gold or bulk.Gold.of(self.mapping)


def rank(
    run: Any,
    qrels: Any,
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
    part = rank_part(
        run, qrels, measures, system=system, missing=missing, duplicates=duplicates, doc_id=doc_id
    )
    return ranked_report([part], queries=queries)


def rank_part(
    run: Any,
    qrels: Any,
    measures: str | Iterable[Measure] = DEFAULT_MEASURES,
    *,
    system: str = "",
    missing: Literal["zero", "skip"] = "zero",
    duplicates: Literal["error", "first"] = "error",
    doc_id: DocumentId | None = None,
) -> BlockRows:
    """The scores of one run as a part, which merges with those of other systems; raises what `rank` raises.

    `run` may be a RunFile and `qrels` a GoldFile, which say how files are read.
    """
    checked = _checked(measures)
    if isinstance(qrels, Iterator):
        qrels = list(qrels)
    gold = qrels if isinstance(qrels, GoldFile) else GoldFile(qrels, keep_first=duplicates == "first")
    name, hits = hits_of(run, gold, duplicates=duplicates, doc_id=doc_id)
    return _scored(name, hits, checked, system, missing)


def hits_of(
    run: Any,
    gold: GoldFile,
    *,
    duplicates: Literal["error", "first"] = "error",
    doc_id: DocumentId | None = None,
) -> tuple[str, Hits]:
    """The name of a run, and where its gold documents stand; `run` and the rest are those of `rank_part`.

    A file that is not small is read in columns where it is plain. InputError where no query of the run has gold.
    """
    if isinstance(run, str | Path):
        run = RunFile(run)
    elif not is_table(run) and not isinstance(run, RunFile | Run | Mapping) and isinstance(run, Iterable):
        run = list(run)
    with ExitStack() as files:
        if isinstance(run, RunFile):
            path = files.enter_context(on_disk(run.path))
            run, notes = _with_document_column(replace(run, path=path), gold, doc_id)
        more = partial(_other_values, run)
        if isinstance(run, RunFile):
            if doc_id is None and (hits := run.hits(gold)) is not None:
                name = shown_name(path)
                hits = replace(hits, notes=(*notes, *hits.notes))
                return name, _with_unmet(name, _matched(name, hits), run.lists, more)
            run = read_run(path, fmt=run.fmt, columns=run.columns, bad=run.bad)
            run = replace(run, notes=(*notes, *run.notes))
        elif not isinstance(run, Run):
            columns = {name: {"doc": name} for name in document_columns(run)} or {"": {}}
            lists = {name: partial(_read_lists, run, columns=columns[name]) for name in columns}
            chosen, notes = _document_column("run", lists, gold, doc_id)
            run = read_run(run, columns=columns.get(chosen or ""))
            run = replace(run, notes=(*notes, *run.notes))
        else:
            _, notes = _document_column(run.name, {"": partial(_lists_of, run, None)}, gold, doc_id)
            run = replace(run, notes=(*notes, *run.notes))
        listed = run
        qrels = gold.mapping if doc_id is None else _mapped(gold.mapping, doc_id)
        hits = _matched(listed.name, _hits(listed, qrels, duplicates, doc_id))
        return listed.name, _with_unmet(listed.name, hits, lambda: [_lists_of(listed, doc_id)], more)


def _with_document_column(
    run: RunFile, gold: GoldFile, doc_id: DocumentId | None
) -> tuple[RunFile, list[str]]:
    """The run with the column of its document's id, where several could be it, and the note about that."""
    names = document_columns(run.path, format_of(run.path, run.fmt), run.columns)
    made = {name: replace(run, columns={**(run.columns or {}), "doc": name}) for name in names[1:] and names}
    lists = {name: partial(_first_lists, some) for name, some in (made or {"": run}).items()}
    chosen, notes = _document_column(shown_name(run.path), lists, gold, doc_id)
    return made[chosen] if chosen else run, notes


def _first_lists(run: RunFile) -> Lists:
    """The lists of a run, of a large one those at its beginning."""
    if run.in_columns is not None:
        with suppress(NotTabular):
            return _beginning(run.lists())
    return _read_lists(run.path, fmt=run.fmt, columns=run.columns)


def _read_lists(source: Any, **how: Any) -> Lists:
    return _lists_of(read_run(source, **how, bad=BadRows(skip=True)), None)


def _document_column(
    name: str,
    lists: Mapping[str, Callable[[], Lists]],
    gold: GoldFile,
    doc_id: DocumentId | None,
) -> tuple[str | None, list[str]]:
    """The one of some columns whose documents meet the gold, else the first, and the notes about that; None of fewer than two.

    `lists` gives the lists of the run as read with each column. Of a gold file with several columns it is decided first,
    by the first run.
    """
    notes = gold.choose_column(lists, doc_id)
    if len(lists) < 2:
        return None, notes
    qrels = gold.mapping if doc_id is None else _mapped(gold.mapping, doc_id)
    chosen, note, _ = column_of_documents(name, lists, qrels, doc_id)
    return chosen, [*notes, note] if note else notes


def _with_unmet(
    name: str,
    hits: Hits,
    lists: Callable[[], Iterable[Lists]],
    more: Callable[[], Iterable[tuple[str, str]]],
) -> Hits:
    """The hits with the note about gold ids that occur in no list, or only in another spelling.

    `lists` returns the run's lists, some queries at a time. Other spellings are looked for in the first ones. `more` returns
    other values of the results, each with a description.
    """
    relevant = hits.grades > 0
    missed = relevant.copy()
    missed[hits.doc] = False
    note = None
    if (relevant & missed).any() and not (relevant & ~missed).any():
        docs = hits.docs if isinstance(hits.docs, list) else hits.docs.to_list()
        note = _absent_note([docs[at] for at in np.flatnonzero(missed).tolist()], lists(), more)
    if (
        note is None
        and missed.any()
        and (queries := list(_missed_queries(hits, missed, _beginning(lists()))))
    ):
        from germane.labelling.unmatched import near_misses, near_note  # which other runs do without

        if near := near_misses(queries):
            count, text = near_note(near)
            note = f"{count} {text}"
    return hits if note is None else replace(hits, notes=(*hits.notes, f"{name}: {note}"))


def _absent_note(
    docs: Sequence[str], lists: Iterable[Lists], more: Callable[[], Iterable[tuple[str, str]]]
) -> str | None:
    """The note about gold ids none of which occurs in a list; None where one does."""
    absent, listed = dict.fromkeys(docs), dict[str, None]()
    for some in lists:
        for found in some.values():
            if not absent.keys().isdisjoint(found):
                return None
            if len(listed) < _MOST_LISTED:
                listed.update(dict.fromkeys(found))
    if not listed:
        return None
    from germane.labelling.unmatched import absent_note

    return f"{len(absent)} {absent_note(list(absent), len(absent), listed, elsewhere=more())}"


def _other_values(run: Any) -> Iterator[tuple[str, str]]:
    """The values of a run's columns that are not read, and of the other keys in its lists, each with a description."""
    from germane.labelling.moving import other_values
    from germane.samples.fields import read_contexts

    rows, columns = run, None
    if isinstance(run, Mapping | Run):
        rows = [run] if isinstance(run, Mapping) else []
    elif isinstance(run, RunFile):
        rows, columns = _rows_of(run), run.columns
    elif is_table(run):
        rows = records(run)
    with suppress(InputError):
        for fields in islice((row_fields(row, RUN) for row in rows), _MOST_QUERIES):
            if not isinstance(fields, dict):
                continue
            roles = roles_of(list(fields), RUN, columns)
            for name in fields if "query" in roles else ():
                if name not in roles.values() and isinstance(fields[name], str | int):
                    yield f"in the column {name!r} (--columns doc={name} reads it)", str(fields[name])
            listed = [fields.get(roles.get("docs"))] if "query" in roles else list(fields.values())
            for docs in islice(filter(None, listed), _MOST_QUERIES):
                with suppress(ValueError):
                    for context in read_contexts(docs):
                        yield from other_values(context)


def _rows_of(run: RunFile) -> Iterable[Any]:
    """The rows of a run's file, or its one mapping; none of TREC's columns."""
    from germane.samples.cells import Cells
    from germane.samples.reading import READERS

    if (fmt := format_of(run.path, run.fmt)) == "json":
        document = parse_strict_json(read_text(run.path), infinite=True)
        return document if isinstance(document, list) else [document]
    reader, _ = READERS.get(f".{fmt}", (None, ""))
    cells = Cells(lambda _, among=(): "query")  # noqa: ARG005
    return [] if reader is None else (row for _, row, _ in reader(Path(run.path), cells))


def _missed_queries(
    hits: Hits, missed: NDArray[np.bool_], lists: Lists
) -> Iterator[tuple[list[str], Iterable[str]]]:
    """The gold ids that each query of these lists missed, and its results without gold."""
    ends = np.cumsum(hits.sizes)
    rows = np.unique(np.searchsorted(ends, np.flatnonzero(missed), "right"))
    for row in rows[hits.lengths[rows] > 0][:_MOST_QUERIES].tolist():
        if listed := lists.get(hits.queries[row]):
            first, end = int(ends[row] - hits.sizes[row]), int(ends[row])
            gold = {hits.docs[at]: bool(missed[at]) for at in range(first, end)}
            yield [doc for doc, miss in gold.items() if miss], (doc for doc in listed if doc not in gold)


def _lists_of(run: Run, doc_id: DocumentId | None) -> Lists:
    if doc_id is None:
        return {query: results.ids for query, results in run.queries.items()}
    return {query: list(map(doc_id, results.ids)) for query, results in run.queries.items()}


def _hits(run: Run, gold: Qrels, duplicates: Literal["error", "first"], doc_id: DocumentId | None) -> Hits:
    """The ranks of the gold documents in a run."""
    cells: list[tuple[int, int, int]] = []
    before = 0
    lengths = np.full(len(gold), -1)
    repeated = folded = tied = 0
    for row, (query, grades) in enumerate(gold.items()):
        first, before = before, before + len(grades)
        results = run.queries.get(query)
        if results is None:
            continue
        docs = _ordered(results)
        tied += docs is not results.ids and _ties_moved(results, docs, grades)
        if again := len(docs) - len(set(docs)):
            if duplicates == "error":
                raise _duplicate_error(results, query, run.name)
            repeated += again
            docs = list(dict.fromkeys(docs))
        if doc_id is not None:
            chunks = len(docs)
            docs = list(dict.fromkeys(map(doc_id, docs)))
            folded += chunks - len(docs)
        number = {doc: at for at, doc in enumerate(grades, first)}
        cells += [(row, rank, number[doc]) for rank, doc in enumerate(docs, 1) if doc in grades]
        lengths[row] = len(docs)
    rows, ranks, numbers = np.array(cells, dtype=np.int64).reshape(-1, 3).T
    ignored = [query for query in run.queries if query not in gold]
    return Hits(
        queries=list(gold),
        sizes=np.fromiter(map(len, gold.values()), np.int64, len(gold)),
        docs=[doc for qrel in gold.values() for doc in qrel],
        grades=np.array([grade for qrel in gold.values() for grade in qrel.values()], dtype=np.float64),
        lengths=lengths,
        ignored=len(ignored),
        first_ignored=ignored[:EXAMPLES],
        row=rows,
        rank=ranks,
        doc=numbers,
        notes=run.notes,
        repeated=repeated,
        folded=folded,
        tied=tied,
    )


def _scored(
    name: str, hits: Hits, measures: Sequence[Measure], system: str, missing: Literal["zero", "skip"]
) -> BlockRows:
    """The scores of the queries of the gold, and the remarks about the run of this name."""
    counted = (hits.lengths >= 0) | (missing == "zero")
    lengths = np.maximum(hits.lengths, 0)
    table = RankedLabels.of_hits(hits.row, hits.rank, hits.grade, lengths, hits.sizes, hits.grades)
    computed = np.empty((len(counted), len(measures)))
    for number, measure in enumerate(measures):
        computed[:, number] = np.where(counted, values(measure, table), np.nan)
    noted: dict[int, Noted] = {}
    for row in np.flatnonzero(~counted).tolist():
        rows = range(row * len(measures), (row + 1) * len(measures))
        noted |= dict.fromkeys(rows, ("skipped", _ABSENT, None))
    samples: Sequence[SampleKey] | Ids
    samples = [(q, system, 0) for q in hits.queries] if hits.ids is None else Ids(*hits.ids, system)
    columns = [(str(measure), str(measure)) for measure in measures]
    scores = ScoreTable.of_columns(samples, columns, computed, noted)
    return BlockRows(
        scores=scores, notes=Counter(_remarks(name, hits, relevant_known(table, rel=1) == 0, missing))
    )


def _remarks(
    name: str, hits: Hits, nothing: NDArray[np.bool_], missing: Literal["zero", "skip"]
) -> Iterator[str]:
    """The remarks about the run of this name: queries that count 0 or are left out, and results that were dropped.

    `nothing` marks the queries without relevant documents.
    """
    yield from hits.notes
    absent, empty = hits.lengths < 0, hits.lengths == 0
    left_out = "left out" if missing == "skip" else "counted as 0 (--missing skip leaves them out)"
    for count, first, what in (
        (*_first(hits, absent), f"of {len(hits.queries)} with gold but without results, {left_out}"),
        (*_first(hits, empty), "with an empty list, counted as 0"),
        (hits.ignored, hits.first_ignored, "with results but without gold, ignored"),
        (*_first(hits, nothing), "without any relevant document in the gold, counted as 0"),
    ):
        if count:
            more = ", ..." if count > EXAMPLES else ""
            yield f"{name}: {count} {'query' if count == 1 else 'queries'} {what}: {', '.join(first)}{more}"
    for count, what in (
        (hits.repeated, "naming a document again, dropped"),
        (hits.folded, "from further chunks of a document, dropped"),
    ):
        if count:
            yield f"{name}: {count} {'result' if count == 1 else 'results'} {what}"
    if hits.tied:
        what = "tied scores, ordered by document id as in trec_eval (germane run keeps the order of the list)"
        yield f"{name}: {number_of(hits.tied, 'query')} with {what}"


def _first(hits: Hits, marked: NDArray[np.bool_]) -> tuple[int, list[str]]:
    """How many queries are marked, and the first of them."""
    rows = np.flatnonzero(marked)
    return len(rows), [hits.queries[row] for row in rows[:EXAMPLES].tolist()]


def ranked_report(
    parts: Iterable[BlockRows],
    gates: Sequence[Gate] = (),
    queries: Iterable[Sample] = (),
    by: str | None = None,
    *,
    notes: Iterable[str] = (),
    corpus: Mapping[str, Json] | None = None,
) -> Report:
    """One report on the runs of one or more systems.

    `queries` tell what is known of them: tags, metadata and clusters, in slices of which (`by`) the report is shown.
    `notes` are remarks about the gold, `corpus` is the identity of what was searched.
    InputError where none of them was scored.
    """
    made = list(parts)
    merged = made[0] if len(made) == 1 else merge(made)
    samples = list(queries)
    scored = {query for query, _, _ in merged.scores.samples} if samples else set[str]()
    merged.samples.extend(sample for sample in samples if sample.id in scored)
    if samples and not merged.samples:
        ours, theirs = (
            ", ".join(map(repr, some)) for some in (sorted(scored)[:3], [s.id for s in samples][:3])
        )
        raise InputError(
            f"none of the queries is in the gold: their ids are like {theirs}, the gold's like {ours}",
            fix="name the queries alike",
        )
    manifest: dict[str, Json] = {"judge": {"source": "gold"}, "notes": [*notes, *merged.notes], "by": by}
    if corpus is not None:
        manifest["corpus"] = corpus
    report = Report.build(merged, manifest, gates=gates)
    if by is not None:
        report.slices(by)  # an unknown name is an error here
    return report


def _checked(measures: str | Iterable[Measure]) -> tuple[Measure, ...]:
    """The measures; MeasureError where there is none, or where one cannot be computed from gold labels alone."""
    values = parse_measures([measures]) if isinstance(measures, str) else tuple(measures)
    if not values:
        raise MeasureError("no measure is given", fix=f"write -m '{DEFAULT_MEASURES}'")
    result: dict[Measure, None] = {}
    for measure in values:
        measure.require_cutoff()
        ranked = measure.definition.family == "ranked"
        if not ranked or measure.labels != "gold":
            fix = f"write {measure(labels='gold')}" if ranked else "use germane run"
            raise MeasureError(f"{measure} reads other labels than gold, and rank has nothing else", fix=fix)
        if measure.budget is not None:
            problem = f"{measure} counts tokens, and a run has no texts"
            raise MeasureError(problem, fix="use germane run with samples")
        if measure.settings.get("holes") == "bounds":
            problem = f"{measure} is an interval, and rank prints one value per query"
            raise MeasureError(problem, fix="use germane run")
        result[measure] = None
        if measure.settings.get("part") == "score":  # how much more RBP could be belongs beside it
            result[measure(part="residual")] = None
    return tuple(result)


def _mapped(qrels: Qrels, doc_id: DocumentId) -> Qrels:
    """Gold with mapped ids; a document takes the best grade of its chunks."""
    mapped: dict[str, dict[str, int]] = {}
    for query, grades in qrels.items():
        best = mapped.setdefault(query, {})
        for chunk, grade in grades.items():
            document = doc_id(chunk)
            best[document] = max(grade, best.get(document, grade))
    return mapped


def _matched(name: str, hits: Hits) -> Hits:
    """The hits of a run; InputError where none of its queries is in the gold."""
    if (hits.lengths >= 0).any():
        return hits
    if not hits.ignored:
        raise InputError("no results in this file", place=SourceLocation(name))
    theirs, ours = (", ".join(map(repr, some[:EXAMPLES])) for some in (hits.first_ignored, hits.queries))
    raise InputError(
        f"no query of the run has gold: the run's query ids are like {theirs}, the gold's like {ours}",
        fix="both files must name the queries alike (--columns chooses the columns of a table)",
        place=SourceLocation(name),
    )


def _ordered(results: Results) -> list[str]:
    ids, scores = results.ids, results.scores
    if not scores:
        return ids
    values = np.frombuffer(scores)
    if (values[1:] < values[:-1]).all():
        return ids
    order = np.argsort(-values, kind="stable")
    best_first = values[order]
    if (best_first[1:] == best_first[:-1]).any():
        return [doc for _, doc in sorted(zip(scores, ids, strict=True), reverse=True)]
    return [ids[position] for position in order.tolist()]


def _ties_moved(results: Results, docs: Sequence[str], grades: Mapping[str, int]) -> bool:
    """True if a relevant document stands elsewhere than in a list whose scores never rise."""
    values = np.frombuffer(results.scores)
    if (values[1:] > values[:-1]).any():
        return False
    return any(
        old != new and max(grades.get(old, 0), grades.get(new, 0)) > 0
        for old, new in zip(results.ids, docs, strict=True)
    )


def _duplicate_error(results: Results, query: str, name: str) -> InputError:
    seen: set[str] = set()
    at = next(i for i, doc in enumerate(results.ids) if doc in seen or seen.add(doc))  # type: ignore[func-returns-value]
    first = results.lines[results.ids.index(results.ids[at])]
    before = f" (first in line {first})" if first else ""
    return InputError(
        f"document {results.ids[at]} stands twice in query {query}{before}",
        fix="drop one, or give --duplicates first to count its best place",
        place=SourceLocation(name, results.lines[at]),
    )
