"""From documents retrieved and gold documents to numbers: the set measures and nDCG@10 of one table, by the kernel."""

from __future__ import annotations

from collections.abc import Sequence

from germane.integrations.liverag.documents import Id, document_of
from germane.integrations.liverag.records import Number
from germane.measures import kernel
from germane.measures.kernel import RankedLabels

__all__ = ["COLUMNS", "DEPTH", "own_ideal_ndcg", "rows_of"]

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
        kernel.recall(table, rel=1, k=None).tolist(),
        kernel.context_relevancy(table, rel=1, k=None).tolist(),
        kernel.set_f(table, rel=1).tolist(),
        [len(found) for found in retrieved],
        [len(known) for known in gold],
        [int(sum(row)) for row in marked],
        kernel.ndcg(table, k=DEPTH).tolist(),
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
    values: list[float] = kernel.ndcg(RankedLabels.of_lists(marked), k=DEPTH).tolist()
    return values
