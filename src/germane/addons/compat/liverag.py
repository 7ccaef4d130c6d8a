"""LiveRAG's evaluator: `ContextRecall().evaluate(results, references).metrics["avg_context_recall"]`.

The values are corrected. With `parity="liverag"`, they are exactly those of LiveRAG's own script
(rmit-ir/G-RAG-LiveRAG).
"""

from __future__ import annotations

import ast
import datetime
import re
import statistics
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeAlias

from germane.clean import counted
from germane.errors import InputError, Invalid, SourceLocation, describe
from germane.measures import RankedLabels, SetF, SetP, SetR, nDCG, values
from germane.samples import looks_listed, refuse_printed_array
from germane.samples.strictjson import JsonFault, parse_strict_json

Id: TypeAlias = str | int
Parity: TypeAlias = Literal["liverag"]
Number: TypeAlias = float | int | None
"""One value of a row or an aggregate; None if it could not be computed."""

_SHARES = ("context_recall", "context_precision", "context_f1")
_COUNTS = ("retrieved_docs_count", "gold_docs_count", "correct_docs_count")
COLUMNS = (*_SHARES, *_COUNTS, "ndcg_10")
_RECORDS = ("pct_records_with_at_least_one_ref", "pct_records_with_all_refs")
AGGREGATES = (*(f"avg_{name}" for name in _SHARES), "ndcg_10", *_RECORDS)


@dataclass(frozen=True, slots=True)
class RAGResult:
    """The results for one question.

    Only `qid` and the ranked `doc_ids` are used. Without `qid`, the position of the result, from 1, is used.
    """

    question: str = ""
    answer: str = ""
    context: Sequence[str] = ()
    doc_ids: Sequence[Id] = ()
    total_time_ms: float = 0.0
    qid: Id | None = None
    timestamp: Any = None
    generated_queries: Sequence[str] | None = None
    rewritten_docs: Sequence[str] | None = None
    question_words_count: int | None = None
    answer_words_count: int | None = None
    system_name: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class QAPair:
    """A question with its gold documents; only `qid` and `document_ids` are used."""

    question: str = ""
    answer: str = ""
    context: Sequence[str] = ()
    question_categories: Sequence[Any] = ()
    user_categories: Sequence[Any] = ()
    document_ids: Sequence[Id] = ()
    qid: Id | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRow:
    """The metrics of one question; all are None if the question has no gold document and was skipped."""

    qid: Id
    metrics: Mapping[str, Number]
    evaluator_name: str = "ContextRecall"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationResult:
    """The result for all questions.

    `metrics` are the means and percentages, `rows` the metrics of each question, `sample_count` the number of
    scored questions, and `notes` remarks such as how many records were left out.
    """

    metrics: Mapping[str, Number]
    rows: tuple[EvaluationRow, ...]
    sample_count: int
    notes: tuple[str, ...] = ()
    evaluator_name: str = "ContextRecall"
    system_name: str | None = None
    total_time_ms: float | None = None
    timestamp: datetime.datetime = field(default_factory=lambda: datetime.datetime.now().astimezone())


class ContextRecall:
    """Recall, precision, F1 and nDCG@10 of retrieved documents against gold documents.

    Every reference counts. Chunks are mapped to their documents, and each document counts once. The ideal
    ranking of nDCG@10 contains all gold documents.

    With `parity="liverag"`, values are computed as by LiveRAG's own script. nDCG is then computed over
    chunks, its ideal ranking contains only the relevant chunks that were retrieved, and questions without
    results are left out of its mean. References without results are left out. A qid of 0 never matches. If
    one chunk id is repeated or contains a blank, the mean nDCG is 0. Gold ids are not mapped to documents. A
    question without gold counts as one whose gold was all found.
    """

    def __init__(self, *, parity: Parity | None = None) -> None:
        if parity not in {None, "liverag"}:
            raise InputError(
                f"unknown value parity={parity!r}", fix='write parity="liverag", or leave it out'
            )
        self.parity = parity

    def evaluate(self, results: Iterable[Any], references: Iterable[Any]) -> EvaluationResult:
        """Return the metrics of every question, and their means.

        `results` are RAGResults, or other objects or mappings with `qid` and `doc_ids`. `references` are
        QAPairs, or other objects or mappings with `qid` and `document_ids`. Raises InputError if an id or qid
        is invalid or, without parity, if a qid is repeated.
        """
        started = time.monotonic()
        results, strict = list(results), self.parity is None
        retrieved = list(_listed(results, "doc_ids", strict=strict))
        gold = list(_listed(references, "document_ids", strict=strict))
        metrics, rows, notes = _corrected(retrieved, gold) if strict else _as_the_original(retrieved, gold)
        system = (_get(results[0], "system_name") or None) if results else None
        return EvaluationResult(
            metrics=metrics,
            rows=tuple(EvaluationRow(qid=qid, metrics=values) for qid, values in rows),
            sample_count=sum(values["context_recall"] is not None for _, values in rows),
            notes=tuple(notes),
            system_name=None if system is None else str(system),
            total_time_ms=(time.monotonic() - started) * 1000,
        )


_URN = re.compile(r"<(urn:uuid:[^>]+)>")
_LIST = 'write a JSON list: ["<urn:uuid:...>"], or [] if there is no document'


def document_of(chunk: Id) -> str:
    """Return the document id in a chunk id: `<urn:uuid:U>` in `doc-<urn:uuid:U>::chunk-3`.

    An id of another form is returned unchanged.
    """
    match = _URN.search(str(chunk))
    return match[0] if match else str(chunk)


def ids_in(value: object, *, strict: bool = True) -> tuple[Id, ...]:
    """Return the ids in a list, or in a string that is a JSON list, a Python list literal, or one id.

    Raises Invalid if an id is invalid, or if a string begins like a list but is not a list. With
    `strict=False`, such a string is one id.
    """
    if isinstance(value, str):
        text = value.strip()
        if strict:
            refuse_printed_array(text)
        for read in (parse_strict_json, ast.literal_eval) if text else ():
            try:
                value = read(text)
            except (JsonFault, SyntaxError, ValueError, MemoryError, RecursionError):
                continue
            text = value if isinstance(value, str) else text
            break
        if not (value is None or isinstance(value, list | tuple | set | dict)):  # one id
            if strict and looks_listed(text):
                raise Invalid(f"is not a valid list of ids: {describe(text)}", _LIST)
            value = [text] if text else []
    value = () if value is None else value
    if isinstance(value, dict) or not isinstance(value, Iterable):
        raise Invalid(f"is {describe(value)}, not a list", _LIST)
    ids = tuple(value)
    for id_ in ids:
        if isinstance(id_, bool) or not isinstance(id_, str | int) or id_ == "":
            raise Invalid(f"contains {describe(id_)}", "write ids as non-empty strings")
        if strict and len(_URN.findall(str(id_))) > 1:
            raise Invalid(f"has several document ids in one string: {describe(id_)}", _LIST)
    return ids


class _Listed(NamedTuple):
    """One result or reference: its qid, its ids as they were written, and its location in the input."""

    qid: Id | None
    ids: tuple[Id, ...]
    location: SourceLocation

    @property
    def documents(self) -> tuple[str, ...]:
        """The distinct document ids in `ids`, in order."""
        return tuple(dict.fromkeys(map(document_of, self.ids)))


_ABSENT = object()


def _listed(records: Iterable[Any], name: str, *, strict: bool) -> Iterator[_Listed]:
    """Yield the qid and the ids of each record; the ids are in its attribute or key `name`.

    Raises InputError if the qid or the ids are invalid; `strict` is explained at `ids_in`.
    """
    for number, record in enumerate(records, 1):
        what = "results" if name == "doc_ids" else "references"
        location, qid, value = _get(record, "place"), _get(record, "qid"), _get(record, name, _ABSENT)
        if not isinstance(location, SourceLocation):
            location = SourceLocation(what, number)
        if isinstance(qid, bool) or not isinstance(qid, str | int | None):
            fix = "write a string or an integer"
            raise InputError(f"qid is {describe(qid)}, not an id", fix=fix, place=location)
        if value is _ABSENT or (value is None and what == "results"):
            raise InputError(f"no {name}", fix=f'write "{name}": [...]', place=location)
        try:
            yield _Listed(qid, ids_in(value, strict=strict), location)
        except Invalid as wrong:
            raise wrong.under(name).error(location) from None


def _get(record: Any, name: str, default: Any = None) -> Any:
    return record.get(name, default) if isinstance(record, Mapping) else getattr(record, name, default)


_Rows: TypeAlias = list[tuple[Id, dict[str, Number]]]
_Found: TypeAlias = tuple[dict[str, Number], _Rows, list[str]]
"""The aggregates, a pair (qid, values) for each row, and notes."""


def _corrected(results: Sequence[_Listed], references: Sequence[_Listed]) -> _Found:
    """Return the metrics over all questions and of each reference, without the errors of LiveRAG's script.

    Records without a qid are matched by position.
    """
    gold, result = _by_qid(references, "reference"), _by_qid(results, "result")
    common = [qid for qid in result if qid in gold]
    if gold and result and not common:
        text = f"the results have {describe(next(iter(result)))}, the references {describe(next(iter(gold)))}"
        raise InputError(f"results and references have no qid in common: {text}", fix="use the same qids")
    qids: list[Id] = [*common, *(qid for qid in gold if qid not in result)]
    relevant = [frozenset(gold[qid].documents) for qid in qids]
    values = _values([result[qid].documents if qid in result else () for qid in qids], relevant)
    pairs = list(zip(qids, values, relevant, strict=True))
    rows: _Rows = [(qid, row if is_valid else dict.fromkeys(COLUMNS)) for qid, row, is_valid in pairs]
    counts = {
        "questions with gold but without a result, counted as 0": len(qids) - len(common),
        "results without a reference, ignored": len(result) - len(common),
        "chunks whose document is already ranked higher, ignored": sum(
            len(result[qid].ids) - len(result[qid].documents) for qid in common
        ),
        "gold ids that contain a document id, read as that document": sum(
            document_of(id_) != id_ for entry in gold.values() for id_ in entry.ids
        ),
        "references without a document, skipped": relevant.count(frozenset()),
    }
    notes = [f"{what}: {count}" for what, count in counts.items() if count]
    counted = [row for _, row, is_valid in pairs if is_valid]
    if not counted:
        return dict.fromkeys(AGGREGATES), rows, notes
    notes.append(
        "nDCG@10 ranks documents against all gold; LiveRAG ranks chunks against the retrieved gold only"
    )
    ndcg = statistics.fmean(row["ndcg_10"] or 0.0 for row in counted)
    return _aggregates(counted, ndcg, statistics.fmean), rows, notes


def _by_qid(entries: Iterable[_Listed], what: str) -> dict[Id, _Listed]:
    results: dict[Id, _Listed] = {}
    for number, entry in enumerate(entries, 1):
        qid = str(number) if entry.qid in {None, ""} else str(entry.qid)
        if qid in results:
            problem = f"qids must be unique; {qid!r} also occurs at {results[qid].location}"
            raise InputError(problem, fix=f"keep one {what} per question", place=entry.location)
        results[qid] = entry
    return results


def _as_the_original(results: Sequence[_Listed], references: Sequence[_Listed]) -> _Found:
    """Return the same as `_corrected` (metrics over all questions and of each, notes) by LiveRAG's script.

    Two qids match if their values and types are equal; 0 and "" never match.
    """
    gold_of = {entry.qid: frozenset(entry.ids) for entry in references}
    pairs = [(entry, gold_of[entry.qid]) for entry in results if entry.qid and entry.qid in gold_of]
    gold = [ids for _, ids in pairs]
    rows: _Rows = []
    alone = _own_ideal_ndcg([entry.ids for entry, _ in pairs], gold)
    values = _values([entry.documents for entry, _ in pairs], gold)
    for (entry, _), row, value in zip(pairs, values, alone, strict=True):
        del row["ndcg_10"]
        if entry.ids:
            row["ndcg_10"] = 0.0 if _breaks_the_run(str(entry.qid), entry.ids) else value
        rows.append((entry.qid or "", row))
    answered = {entry.qid for entry, _ in pairs}
    without = sum(entry.qid not in answered for entry in references)
    left = f"{counted(len(results) - len(pairs), 'result')} and {counted(without, 'reference')} left out"
    notes = [f"computed as by LiveRAG's script: {left}"]
    if not rows:
        return {}, rows, notes
    # several results of a question are merged by rank; the mean is 0 if the TREC file is unreadable
    merged = defaultdict[str, list[tuple[int, str]]](list)
    for entry, _ in pairs:
        merged[str(entry.qid)] += enumerate(map(str, entry.ids))
    own = {str(entry.qid): relevant for entry, relevant in pairs}
    lists = {qid: [chunk for _, chunk in sorted(placed)] for qid, placed in merged.items() if placed}
    mean = 0.0
    if lists and not any(_breaks_the_run(qid, chunks) for qid, chunks in lists.items()):
        mean = statistics.fmean(_own_ideal_ndcg(list(lists.values()), [own[qid] for qid in lists]))
    return _aggregates([row for _, row in rows], mean, statistics.mean), rows, notes


def _breaks_the_run(qid: str, chunks: Sequence[Id]) -> bool:
    """Return True if an id is repeated or has a blank, so that LiveRAG's TREC file is unreadable."""
    names = list(map(str, chunks))
    return len(set(names)) < len(names) or any(re.search(r"\s", name) for name in (qid, *names))


def _values(retrieved: Sequence[Sequence[str]], gold: Sequence[frozenset[Id]]) -> list[dict[str, Number]]:
    """Return the values of each question: recall, precision, F1, counts and nDCG@10, by the names in COLUMNS.

    The ideal ranking of nDCG@10 contains all gold documents. If a denominator is 0, the value is 0.
    """
    pairs = zip(retrieved, gold, strict=True)
    marked = [[float(doc in relevant) for doc in results] for results, relevant in pairs]
    table = RankedLabels.of_lists(marked, [[1.0] * len(relevant) for relevant in gold])
    measures = SetR, SetP, SetF, nDCG @ 10
    recall, precision, f1, ndcg = (values(measure, table).tolist() for measure in measures)
    counts = list(map(len, retrieved)), list(map(len, gold)), [int(sum(row)) for row in marked]
    columns = recall, precision, f1, *counts, ndcg
    return [dict(zip(COLUMNS, values, strict=True)) for values in zip(*columns, strict=True)]


def _own_ideal_ndcg(retrieved: Sequence[Sequence[Id]], gold: Sequence[frozenset[Id]]) -> list[float]:
    """Return each question's nDCG@10 over chunks; its ideal has only relevant chunks that were retrieved."""
    pairs = zip(retrieved, gold, strict=True)
    marked = [[float(document_of(chunk) in relevant) for chunk in results] for results, relevant in pairs]
    result: list[float] = values(nDCG @ 10, RankedLabels.of_lists(marked)).tolist()
    return result


def _aggregates(
    rows: Sequence[Mapping[str, Number]], ndcg: float, mean: Callable[[Sequence[float]], float]
) -> dict[str, Number]:
    recall, precision, f1 = (mean([row[name] or 0.0 for row in rows]) for name in _SHARES)
    with_correct = sum((row["correct_docs_count"] or 0) > 0 for row in rows) / len(rows) * 100
    everything = sum(row["correct_docs_count"] == row["gold_docs_count"] for row in rows) / len(rows) * 100
    return dict(zip(AGGREGATES, (recall, precision, f1, ndcg, with_correct, everything), strict=True))
