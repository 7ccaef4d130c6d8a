"""Where else an answer may stand: the first passages of BM25 and of the user's own retriever for a question."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from germane.addons.draft.bm25 import BM25
from germane.addons.draft.checks import find_quote
from germane.addons.draft.passages import Passage, Source
from germane.errors import InputError, TargetError
from germane.samples import read_samples
from germane.samples.runs.trec import read_run
from germane.targets import Target
from germane.types import Context, Json, Sample


class Search:
    """The search for passages that may answer: BM25, and a pool that looks further and never makes gold.

    Args:
        source: The corpus.
        runs: Samples with contexts (the results of a retriever), found by id or by query.
        target: A retriever that is asked live.
    """

    def __init__(self, source: Source, runs: Sequence[Path] = (), target: Target | None = None) -> None:
        self.passages, self._folded = (
            source.passages,
            {doc: " ".join(text.split()) for doc, text in source.documents.items()},
        )
        self.documents = source.documents
        self.index = BM25([passage.text for passage in source.passages])
        self.of_doc = defaultdict[str, list[int]](list)
        for at, passage in enumerate(self.passages):
            self.of_doc[passage.doc].append(at)
        self._runs, self._target, self._asked = (
            dict[str, list[Context]](),
            target,
            asyncio.Semaphore(target.workers if target else 1),
        )
        for file in runs:
            for names, contexts in _results(file):
                for name in names:
                    self._runs.setdefault(name, []).extend(contexts)
        self.name = "BM25 and the pool" if runs or target else "BM25"

    def place_of(self, doc: str, text: str) -> dict[str, Json]:
        """The document and the offsets of a passage; of a text from elsewhere its document alone."""
        places = (self.passages[at] for at in self.of_doc.get(doc, ()))
        spans = (
            {"doc": doc, "start": place.start, "end": place.end} for place in places if place.text == text
        )
        return next(spans, {"doc": doc})

    def holders(self, quotes: Sequence[str]) -> list[str]:
        """The documents that hold every one of these quotes to the letter, white space folded."""
        folded = [" ".join(quote.split()) for quote in quotes]
        return [
            doc
            for doc, text in self._folded.items()
            if all(quote in text and find_quote(quote, text) for quote in folded)
        ]

    def rank(self, query: str, docs: Sequence[str]) -> int | None:
        """The rank, among documents, of the best of these for a query by BM25; None where it shares no term with one."""
        wanted, seen = set(docs), set[str]()
        for at in self.index.search(query, 0):
            if (doc := self.passages[at].doc) in wanted:
                return len(seen) + 1
            seen.add(doc)
        return None

    async def top(self, name: str, query: str, k: int) -> list[tuple[str, str]]:
        """The first k passages of BM25 and those of the pool, each once: document and text."""
        found = [(self.passages[at].doc, self.passages[at].text) for at in self.index.search(query, k)]
        contexts = [
            *self._runs.get(name, self._runs.get(_normal(query), []))[:k],
            *(await self._of_target(name, query))[:k],
        ]
        found += [self._as_passage(context, query) for context in contexts]
        return list(dict.fromkeys(pair for pair in found if pair[1].strip()))

    async def _of_target(self, name: str, query: str) -> Sequence[Context]:
        if self._target is None:
            return ()
        async with self._asked:
            try:
                return (await self._target.answer(Sample(id=name, query=query))).contexts or ()
            except TargetError as error:
                raise InputError(
                    f"the target does not answer {query!r}: {error}", fix="see --target"
                ) from None

    def _as_passage(self, context: Context, query: str) -> tuple[str, str]:
        """A context as document and text; of a whole document the passage that fits best."""
        doc = context.id or ""
        if context.text and doc not in self.of_doc:
            return doc, context.text
        places = self.of_doc.get(doc, [])
        if (
            context.text
            and (
                exact := next((at for at in places if find_quote(context.text, self.passages[at].text)), None)
            )
            is not None
        ):
            return doc, self.passages[exact].text
        if not places:
            return doc, context.text or ""
        scores = self.index.scores(query)
        return doc, self.passages[max(places, key=lambda at: scores[at])].text


def _results(file: Path) -> Iterator[tuple[Sequence[str], Sequence[Context]]]:
    """The results in a TREC run or in samples, each with the names of its query."""
    if file.suffix.lower() in {".trec", ".run", ".txt"}:
        for query, results in read_run(file, fmt="trec").queries.items():
            yield (query,), [Context(id=name) for name in results.best_first()]
        return
    for sample in read_samples(file):
        yield (sample.id, _normal(sample.query)), sample.contexts or ()


def gold_contexts(passage: Passage, others: Sequence[tuple[str, str]], count: int) -> list[tuple[str, str]]:
    """The gold passage and the first others, each text once."""
    rest = [pair for pair in others if pair[1] != passage.text]
    return [(passage.doc, passage.text), *rest[:count]]


def _normal(query: str) -> str:
    return " ".join(query.casefold().split())
