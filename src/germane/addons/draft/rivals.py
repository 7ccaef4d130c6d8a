"""Search for passages that may also answer a question, with BM25 and the user's own retriever."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from germane.addons.draft.bm25 import BM25
from germane.addons.draft.checks import find_quote
from germane.addons.draft.passages import DraftCorpus
from germane.errors import InputError, TargetError
from germane.samples import read_samples
from germane.samples.runs.hits import read_run
from germane.targets import Target
from germane.types import Context, Json, Sample


class Search:
    """A search for passages that may also answer a question: by BM25, and in the results of other systems.

    The other systems are the pool; their results never become gold. `runs` are files of stored results
    (samples or TREC runs), in which a question is found by its id or its text. `target` is a system that is
    queried for each question.
    """

    def __init__(self, source: DraftCorpus, runs: Sequence[Path] = (), target: Target | None = None) -> None:
        self.passages, self.documents = source.passages, source.documents
        self._folded = {doc: " ".join(text.split()) for doc, text in source.documents.items()}
        self.index = BM25([passage.text for passage in source.passages])
        self.of_doc = defaultdict[str, list[int]](list)
        for at, passage in enumerate(self.passages):
            self.of_doc[passage.doc].append(at)
        self._target, self._asking = target, asyncio.Semaphore(target.workers if target else 1)
        self._runs = defaultdict[str, list[Context]](list)
        for names, contexts in (pair for file in runs for pair in _results(file)):
            for name in names:
                self._runs[name] += contexts
        self.name = "BM25 and the pool" if runs or target else "BM25"

    def place_of(self, doc: str, text: str) -> dict[str, Json]:
        """Return the document and offsets of a passage; only the document if it contains no such passage."""
        for place in (self.passages[at] for at in self.of_doc.get(doc, ())):
            if place.text == text:
                return {"doc": doc, "start": place.start, "end": place.end}
        return {"doc": doc}

    def holders(self, quotes: Sequence[str]) -> list[str]:
        """Return the documents that contain every one of these quotes verbatim, except for white space."""
        folded = [" ".join(quote.split()) for quote in quotes]
        texts = self._folded.items()
        return [doc for doc, text in texts if all(q in text and find_quote(q, text) for q in folded)]

    def rank(self, query: str, docs: Sequence[str]) -> int | None:
        """Return the best BM25 rank of these documents among all documents."""
        found = dict.fromkeys(self.passages[at].doc for at in self.index.search(query, 0))
        return next((rank for rank, doc in enumerate(found, 1) if doc in docs), None)

    async def top(self, name: str, query: str, k: int) -> list[tuple[str, str]]:
        """Return the top `k` passages of BM25, of stored results (`runs`) and of the target, each once."""
        found = [(self.passages[at].doc, self.passages[at].text) for at in self.index.search(query, k)]
        pooled = self._runs[name] if name in self._runs else self._runs.get(_normal(query), [])
        live = await self._of_target(name, query)
        found += [self._as_passage(context, query) for context in [*pooled[:k], *live[:k]]]
        return list(dict.fromkeys(pair for pair in found if pair[1].strip()))

    async def _of_target(self, name: str, query: str) -> Sequence[Context]:
        """Return the contexts that the target retrieves for a query, or () without a target."""
        if self._target is None:
            return ()
        async with self._asking:
            try:
                return (await self._target.answer(Sample(id=name, query=query))).contexts or ()
            except TargetError as error:
                problem = f"the target does not answer {query!r}: {error}"
                raise InputError(problem, fix="see --target") from None

    def _as_passage(self, context: Context, query: str) -> tuple[str, str]:
        """Return a context as (document id, text)."""
        doc, text = context.id or "", context.text or ""
        if text or doc not in self.of_doc:
            return doc, text
        scores = self.index.scores(query)
        return doc, self.passages[max(self.of_doc[doc], key=lambda at: scores[at])].text


def _results(file: Path) -> Iterator[tuple[Sequence[str], Sequence[Context]]]:
    """Yield (names of the query, its contexts) for each query of a TREC run or each sample of a file."""
    if file.suffix.lower() in {".trec", ".run", ".txt"}:
        for query, docs in read_run(file, fmt="trec").items():
            yield (query,), [Context(id=name) for name in docs]
        return
    for sample in read_samples(file):
        yield (sample.id, _normal(sample.query)), sample.contexts or ()


def _normal(query: str) -> str:
    return " ".join(query.casefold().split())
