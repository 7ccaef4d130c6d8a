"""ContextRecall as LiveRAG's users call it: corrected, or to the last quirk as the original computes it."""

from __future__ import annotations

import datetime
import re
import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from germane.errors import InputError, Place
from germane.integrations.liverag.pairing import Id, Listed, document_of, listed, matched, paired
from germane.measures import ranked
from germane.measures.kernel import RankedLabels

Number: TypeAlias = float | int | None
"""One value of a row or an aggregate; None = could not be measured."""


@dataclass(frozen=True, slots=True)
class RAGResult:
    """What a system retrieved and answered for one question; only `qid` and `doc_ids` are measured.

    `doc_ids` are the chunks in their order, [] = nothing was retrieved. Without a `qid` the place in the list,
    from 1, stands for it.
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
    place: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class QAPair:
    """A question with its gold documents; only `qid` and `document_ids` are measured."""

    question: str = ""
    answer: str = ""
    context: Sequence[str] = ()
    question_categories: Sequence[Any] = ()
    user_categories: Sequence[Any] = ()
    document_ids: Sequence[Id] = ()
    qid: Id | None = None
    place: Place | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationRow:
    """One question: context_recall, context_precision, context_f1, three counts, ndcg_10.

    The values are None where the question names no gold document: it was skipped.
    """

    qid: Id
    metrics: Mapping[str, Number]
    evaluator_name: str = "ContextRecall"


@dataclass(frozen=True, slots=True, kw_only=True)
class EvaluationResult:
    """All questions: `metrics` are the means and percentages, `sample_count` how many questions are in them.

    `notes` say what was counted, left out or read otherwise than the original does.
    """

    metrics: Mapping[str, Number]
    rows: tuple[EvaluationRow, ...]
    sample_count: int
    notes: tuple[str, ...] = ()
    evaluator_name: str = "ContextRecall"
    system_name: str | None = None
    timestamp: datetime.datetime = field(default_factory=lambda: datetime.datetime.now().astimezone())


DEPTH = 10
COLUMNS = (
    "context_recall",
    "context_precision",
    "context_f1",
    "retrieved_docs_count",
    "gold_docs_count",
    "correct_docs_count",
    "ndcg_10",
)


def rows_of(retrieved: Sequence[Sequence[str]], gold: Sequence[frozenset[Id]]) -> list[dict[str, Number]]:
    """The values of each question, from its distinct retrieved documents, best first, and its gold documents.

    recall |R and G| / |G|, precision |R and G| / |R|, their harmonic mean, and nDCG@10 with its ideal over all
    gold. Where a denominator is 0 the value is 0.
    """
    marked = [[float(doc in known) for doc in found] for found, known in zip(retrieved, gold, strict=True)]
    table = RankedLabels.of_lists(marked, [[1.0] * len(known) for known in gold])
    columns = (
        ranked.values(ranked.SetR, table).tolist(),
        ranked.values(ranked.SetP, table).tolist(),
        ranked.values(ranked.SetF, table).tolist(),
        [len(found) for found in retrieved],
        [len(known) for known in gold],
        [int(sum(row)) for row in marked],
        ranked.values(ranked.nDCG @ DEPTH, table).tolist(),
    )
    return [dict(zip(COLUMNS, values, strict=True)) for values in zip(*columns, strict=True)]


def own_ideal_ndcg(retrieved: Sequence[Sequence[Id]], gold: Sequence[frozenset[Id]]) -> list[float]:
    """nDCG@10 over chunks, repeated documents and all, with its ideal over the relevant chunks that came back.

    The original's: a document that was not found costs nothing.
    """
    marked = [
        [float(document_of(chunk) in known) for chunk in found]
        for found, known in zip(retrieved, gold, strict=True)
    ]
    values: list[float] = ranked.values(ranked.nDCG @ DEPTH, RankedLabels.of_lists(marked)).tolist()
    return values


Parity: TypeAlias = Literal["liverag"]
AGGREGATES = (
    "avg_context_recall",
    "avg_context_precision",
    "avg_context_f1",
    "ndcg_10",
    "pct_records_with_at_least_one_ref",
    "pct_records_with_all_refs",
)
_CORRECTED = (
    "nDCG@10 ranks documents against all gold (the original: chunks, against the gold that was found)"
)


class ContextRecall:
    """Recall, precision, F1 and nDCG@10 of retrieved documents against gold documents.

    Every reference counts; what came back as chunks is read as their documents, each once, and the ideal of nDCG@10
    holds all gold. `parity="liverag"` computes as rmit-ir/G-RAG-LiveRAG does instead: nDCG over chunks with its ideal
    over the relevant that were retrieved and without questions that got nothing, references without result left out,
    no number 0 as a qid, nDCG 0 for everybody where one chunk id is repeated or holds a blank, gold ids as they stand,
    and empty gold counted as found in full.
    """

    def __init__(self, *, parity: Parity | None = None) -> None:
        if parity not in {None, "liverag"}:
            raise InputError(f"parity={parity!r} is not known", fix='write parity="liverag", or leave it out')
        self.parity = parity

    def evaluate(self, results: Iterable[Any], references: Iterable[Any]) -> EvaluationResult:
        """The values of every question and their means.

        `results` are RAGResult-like (`qid`, `doc_ids`), `references` QAPair-like (`qid`, `document_ids`): objects with
        these attributes, or mappings. InputError where ids or qids cannot be used, or a qid is there twice.
        """
        results = list(results)
        strict = self.parity is None
        found = list(listed(results, "doc_ids", strict=strict))
        gold = list(listed(references, "document_ids", strict=strict))
        metrics, rows, notes = _corrected(found, gold) if strict else _as_the_original(found, gold)
        return EvaluationResult(
            metrics=metrics,
            rows=tuple(EvaluationRow(qid=qid, metrics=values) for qid, values in rows),
            sample_count=sum(values["context_recall"] is not None for _, values in rows),
            notes=tuple(notes),
            system_name=_system(results),
        )


_Rows: TypeAlias = list[tuple[Id, dict[str, Number]]]
_Mean: TypeAlias = Callable[[Sequence[float]], float]


def _corrected(
    results: Sequence[Listed], references: Sequence[Listed]
) -> tuple[dict[str, Number], _Rows, list[str]]:
    pairs, notes = paired(results, references)
    values = rows_of([pair.retrieved for pair in pairs], [frozenset(pair.gold) for pair in pairs])
    skipped = dict.fromkeys(COLUMNS)
    rows: _Rows = [(p.qid, row if p.gold else {**skipped}) for p, row in zip(pairs, values, strict=True)]
    counted = [row for _, row in rows if row["context_recall"] is not None]
    if not counted:
        return dict.fromkeys(AGGREGATES), rows, notes
    ndcg = statistics.fmean(row["ndcg_10"] or 0.0 for row in counted)
    return _aggregates(counted, ndcg, statistics.fmean), rows, [*notes, _CORRECTED]


def _as_the_original(
    results: Sequence[Listed], references: Sequence[Listed]
) -> tuple[dict[str, Number], _Rows, list[str]]:
    pairs = matched(results, references)
    gold = [known for _, known in pairs]
    documents = [tuple(dict.fromkeys(map(document_of, entry.ids))) for entry, _ in pairs]
    rows: _Rows = []
    alone = own_ideal_ndcg([entry.ids for entry, _ in pairs], gold)
    for (entry, _), row, value in zip(pairs, rows_of(documents, gold), alone, strict=True):
        broken = _breaks_the_run(str(entry.qid), list(map(str, entry.ids)))
        ndcg = {"ndcg_10": 0.0 if broken else value} if entry.ids else {}
        rows.append((entry.qid or "", {**{name: row[name] for name in COLUMNS[:-1]}, **ndcg}))
    left = f"{len(results) - len(pairs)} results and {_without_result(references, pairs)} references are left out"
    notes = [f"computed as the original does: {left}"]
    if not rows:
        return {}, rows, notes
    return _aggregates([row for _, row in rows], _batch_ndcg(pairs), statistics.mean), rows, notes


def _without_result(references: Sequence[Listed], pairs: Sequence[tuple[Listed, frozenset[Id]]]) -> int:
    found = {entry.qid for entry, _ in pairs}
    return sum(entry.qid not in found for entry in references)


def _aggregates(rows: Sequence[Mapping[str, Number]], ndcg: float, mean: _Mean) -> dict[str, Number]:
    recall, precision, f1 = (mean([row[name] or 0.0 for row in rows]) for name in COLUMNS[:3])
    some = sum((row["correct_docs_count"] or 0) > 0 for row in rows) / len(rows) * 100
    everything = sum(row["correct_docs_count"] == row["gold_docs_count"] for row in rows) / len(rows) * 100
    return dict(zip(AGGREGATES, (recall, precision, f1, ndcg, some, everything), strict=True))


def _batch_ndcg(pairs: Sequence[tuple[Listed, frozenset[Id]]]) -> float:
    """The mean over the questions that got anything; results of one question are merged, rank by rank."""
    merged: dict[str, list[tuple[int, str]]] = {}
    gold: dict[str, frozenset[Id]] = {}
    for entry, known in pairs:
        merged.setdefault(str(entry.qid), []).extend((rank, str(one)) for rank, one in enumerate(entry.ids))
        gold[str(entry.qid)] = known
    lists = {qid: [chunk for _, chunk in sorted(places)] for qid, places in merged.items() if places}
    if not lists or any(_breaks_the_run(qid, chunks) for qid, chunks in lists.items()):
        return 0.0
    return statistics.fmean(own_ideal_ndcg(list(lists.values()), [gold[qid] for qid in lists]))


def _breaks_the_run(qid: str, chunks: Sequence[str]) -> bool:
    """Whether the TREC file that the original writes cannot be read back: an id twice, or a blank in one."""
    return len(set(chunks)) < len(chunks) or any(re.search(r"\s", one) for one in (qid, *chunks))


def _system(results: Sequence[Any]) -> str | None:
    first = results[0] if results else None
    name = first.get("system_name") if isinstance(first, Mapping) else getattr(first, "system_name", None)
    return None if name is None else str(name)
