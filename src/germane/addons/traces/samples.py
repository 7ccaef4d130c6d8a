"""Convert traces to samples: the question, the final results, and the results of each retrieval step.

A search is an outermost retriever span, with the spans inside it and the reranker that got its documents.
Searches whose documents went to the same reranker count as one search. A trace with one search becomes a
sample with `contexts`. A trace with several searches (an agent's) becomes a sample with `calls`. If a search
returned several lists, each list becomes one of the `stages`, named after its span.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain, zip_longest
from typing import Any

from germane.addons.traces.spans import (
    RERANKER,
    RETRIEVER,
    Rows,
    Span,
    is_document_row,
    samples_of_documents,
    spans_in,
)
from germane.errors import InputError, Invalid
from germane.samples import Notice, Warn
from germane.types import Json


def rows_of_traces(rows: Rows, warn: Warn | None = None) -> Rows:
    """Yield a sample for each trace with a search and a query, in the order of the traces' first spans.

    All spans are read first. Rows that are documents of spans become a sample per span.
    """
    if (first := next(rows, None)) is None:
        return
    rows, place = chain([first], rows), first[2](())
    if is_document_row(first[1]):
        yield from samples_of_documents(rows)
        return
    traces: dict[str, tuple[list[Span], Callable[..., Any]]] = {}
    for _, row, where in rows:
        try:
            for span in spans_in(row):
                traces.setdefault(span.trace, ([], where))[0].append(span)
        except Invalid as wrong:
            raise wrong.error(where(wrong.path)) from None
    counts = dict.fromkeys(("no retrieval", "no query", "no documents"), 0)
    made = 0
    for name, (spans, where) in traces.items():
        sample = _sample(name, spans)
        if sample is None or sample.get("query") is None:
            counts["no retrieval" if sample is None else "no query"] += 1
            continue
        counts["no documents"] += sample.keys().isdisjoint({"contexts", "calls", "error"})
        made += 1
        yield made, sample, lambda _, where=where: where(())
    if not made:
        problem = f"none of the {len(traces):,} traces has a retrieval span with a query"
        raise InputError(problem, fix=_RECORD, place=place)
    for what, count in counts.items():
        if count and warn is not None:
            warn(Notice(f"{count:,} of {len(traces):,} traces have {what}", _RECORD, place))


_RECORD = "record retrieval spans with query and documents (Langfuse: export input and output, fields=core,basic,io)"


def _sample(name: str, spans: Sequence[Span]) -> dict[str, Json] | None:
    """Return the sample of the trace `name` as a row; None if the trace contains no search."""
    own = {span.id: span for span in spans if span.id}
    searches = _searches(spans, own)
    if not searches:
        return None
    tops = [span for span in spans if not span.parent and not _retrieves(span)]
    around = [span for search in searches for span in reversed(list(_ancestors(search[0], own)))]
    # a server's span around the agent's span contains no question, or is not in the export
    asking = (span for span in (*tops, *around) if span.query and not _retrieves(span))
    root = next(asking, next(iter(tops), None))
    finals, errors = list(map(_final, searches)), list[str | None]()
    # the outermost span of a search has the user's words
    asked = [next((span.query for span in reversed(search) if span.query), None) for search in searches]
    for search in searches:
        error = None
        for span in search:  # a search that was repeated with success has not failed
            error = span.error or (None if span.documents else error)
        errors.append(error)
    question = next((text for text in (root and root.query, *asked) if text), None)
    metadata: dict[str, Json] = {"spans": [final.id for final in finals]}
    row: dict[str, Json] = {
        "id": name,
        "query": question,
        "response": root and root.response,
        "cluster": next((span.session for span in spans if span.session), None),
        "metadata": metadata,
        "stages": _stages(searches),
    }
    calls = zip(finals, asked, errors, strict=True)
    if len(searches) == 1 and asked[0] in {None, question}:
        row["contexts"], row["error"] = finals[0].documents, errors[0]
    elif known := [call for call in calls if call[0].documents is not None or call[2]]:
        row["calls"] = [
            {
                "query": query or question,
                "contexts": final.documents,
                "error": error,
                "ms": round(1000 * (final.end - final.start), 3) if final.end > final.start else None,
                "source": final.name,
            }
            for final, query, error in known
        ]
        metadata["spans"] = [final.id for final, _, _ in known]
    return {key: value for key, value in row.items() if value is not None and (value or key == "contexts")}


def _final(search: Sequence[Span]) -> Span:
    """Return the last span of a search that contains documents (the search's results), else its last span."""
    return next((span for span in reversed(search) if span.documents is not None), search[-1])


def _searches(spans: Sequence[Span], own: dict[str, Span]) -> list[list[Span]]:
    """Return, for each search of a trace in order, the list of its spans, the first to end first."""
    units: dict[int, tuple[Span, list[Span]]] = {}
    for span in sorted(filter(_retrieves, spans), key=lambda span: span.start):
        outer = [span, *filter(_retrieves, _ancestors(span, own))][-1]
        units.setdefault(id(outer), (outer, []))[1].append(span)
    searches: list[list[Span]] = []
    for outer, unit in units.values():
        unit.sort(key=lambda span: (span.end, -len(list(_ancestors(span, own)))))
        joined: list[list[Span]] = []
        if outer.kind == RERANKER and searches:
            inputs = set(_ids(outer.inputs))
            given = [search for search in searches if not inputs.isdisjoint(_ids(_final(search).documents))]
            joined = given or searches[-1:]
            searches = [search for search in searches if not any(search is other for other in joined)]
        searches.append([*chain.from_iterable(joined), *unit])
    return searches


def _retrieves(span: Span) -> bool:
    return span.kind in {RETRIEVER, RERANKER}


def _ancestors(span: Span, own: dict[str, Span]) -> Iterator[Span]:
    """Yield the spans that contain a span, innermost first; `own` are the trace's spans by id."""
    seen = {span.id}
    while span.parent not in seen and span.parent in own:
        span = own[span.parent]
        seen.add(span.id)
        yield span


def _ids(documents: Iterable[dict[str, Json]] | None) -> list[str]:
    """Return the ids of a list of documents in order, without duplicates; [] for None."""
    return list(dict.fromkeys(document["id"] for document in documents or ()))


def _stages(searches: Sequence[Sequence[Span]]) -> list[dict[str, Json]]:
    """Return the `stages` of a sample: for each name of spans, the name and the ids that they retrieved."""
    lists: dict[str, list[list[str]]] = {}
    for search in searches:
        names = Counter[str]()
        for span in search:
            if span.documents is not None:
                names[span.name] += 1
                name = span.name if names[span.name] == 1 else f"{span.name} {names[span.name]}"
                lists.setdefault(name, []).append(_ids(span.documents))
    if len(lists) < 2:
        return []
    by_rank = {name: chain.from_iterable(zip_longest(*several)) for name, several in lists.items()}
    return [{"name": name, "ids": list(dict.fromkeys(filter(None, ids)))} for name, ids in by_rank.items()]
