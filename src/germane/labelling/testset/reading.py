"""Read a test set: its queries, the ranks of their gold documents in each system, and the available texts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Literal

import numpy as np
from msgspec.structs import replace

from germane.encoding import short_name
from germane.errors import InputError
from germane.labelling.corpus import Corpus
from germane.questions.text import words
from germane.samples.fields import SPELLINGS
from germane.samples.files import Notices, dataset_files, read_text
from germane.samples.reading import READERS, read_samples, suffix_of
from germane.samples.runs.formats import GOLD, RUN, first_lines, format_of
from germane.samples.runs.hits import read_run
from germane.samples.runs.source import read_qrels
from germane.types import Sample

DRAWN = 20_000
"""The most passages with which questions are compared; of more passages, this many are drawn at random."""
_CLASS_FIELDS = ("type", "class", "category", "kind", "question_type", "query_type", "hops", "tag")


@dataclass(slots=True)
class TestQuery:
    """One query of a test set, merged from the samples of all systems and trials.

    `situation` is the conversation before the query. `gold` holds the ids of its relevant documents. `groups`
    is the number of its groups of gold documents, each of which is needed for an answer. `quotes` are the
    quoted passages of its evidence. `classes` are its tags and the metadata values that name a class, e.g. "2
    hops". `ranks` holds the ranks of its gold documents, by system.
    """

    id: str
    text: str = ""
    situation: str = ""
    cluster: str | None = None
    gold: dict[str, None] = field(default_factory=dict)
    groups: int = 0
    quotes: dict[str, None] = field(default_factory=dict)
    answerable: bool | None = None
    classes: dict[str, None] = field(default_factory=dict)
    ranks: dict[str, dict[str, int]] = field(default_factory=dict)


class TestSet:
    """A test set read from files: its queries, and the texts of a corpus, or of the samples without a corpus.

    `systems` names the systems whose results the files contain. `texts` holds the texts of gold documents, by
    id. `rest` holds passages, gold or not; if there are more than DRAWN, it is a random sample of DRAWN.
    `absent` holds the gold ids that are not in the corpus; None without a corpus. `document` is the id of the
    first document of the corpus, as an example.
    """

    __test__ = False  # pytest shall not collect this class

    def __init__(self, paths: Sequence[Path], qrels: Path | None = None, corpus: Path | None = None) -> None:
        self._queries: dict[tuple[str, str], TestQuery] = {}
        self.systems: dict[str, None] = {}
        self.texts, self.rest, self._seen = dict[str, str](), list[str](), set[bytes]()
        self._random, self._count = np.random.default_rng(0), 0
        self.absent: dict[str, None] | None = None
        self.document = ""
        files = [path for path in paths if trec_kind(path) != "gold"]
        grades: dict[str, Mapping[str, int]] = {}
        for path in filter(None, [qrels, *(path for path in paths if path not in files)]):
            grades |= read_qrels(path)
        inside = (path for path in files if path.is_dir() and dataset_files(path, "corpus"))
        self._corpus = corpus or next(inside, None)
        self._read(files, grades)
        if self._corpus is not None:
            gold = {name for query in self.queries for name in query.gold}
            self.absent = dict.fromkeys(sorted(gold))
            for name, text in Corpus(self._corpus).documents():
                self.document = self.document or name
                self._draw(text)
                if name in gold:
                    self.texts[name] = text
                    self.absent.pop(name, None)

    @property
    def queries(self) -> list[TestQuery]:
        """The queries in the order in which they were read."""
        return list(self._queries.values())

    def _read(self, files: Sequence[Path], grades: Mapping[str, Mapping[str, int]]) -> None:
        runs: list[Path] = []
        for path in files:
            if trec_kind(path) == "run":
                runs.append(path)
                continue
            samples: Iterable[Sample]
            if topics := _topics(path):
                samples = (Sample(id=name, query=text) for name, text in topics)
            else:
                samples = read_samples(path, columns=_columns_of(path))
            for sample in samples:  # without any gold it is left out if `grades` are given
                system = sample.system or (path.stem if len(files) > 1 else "")
                if not grades or sample.qrels or sample.gold or sample.evidence:
                    self._add(sample, system)
                elif sample.id in grades:
                    self._add(replace(sample, qrels=dict(grades[sample.id])), system)
        known = {query.id: query for query in self.queries}
        if not known or runs:
            for name, gold in grades.items():
                if name not in known:
                    known[name] = self._queries[name, ""] = TestQuery(name)
                known[name].gold |= _relevant(gold)
        for path in runs:
            self.systems[path.name] = None
            for name, docs in read_run(path).items():
                if name in known:
                    _rank(known[name], path.name, docs)

    def _add(self, sample: Sample, system: str) -> None:
        name = sample.id, " ".join(words(sample.query))
        query = self._queries.setdefault(name, TestQuery(sample.id, sample.query))
        query.situation = "\n".join(str(message.content) for message in sample.history)
        query.cluster = query.cluster or sample.cluster
        query.gold |= _relevant(sample.qrels or {})
        query.gold |= dict.fromkeys(chain.from_iterable(sample.gold or ()))
        query.gold |= dict.fromkeys(piece.doc for piece in sample.evidence or () if piece.doc)
        query.quotes |= dict.fromkeys(piece.quote for piece in sample.evidence or () if piece.quote)
        query.groups = max(query.groups, len(sample.gold or ()))
        if sample.answerable is not None:
            query.answerable = sample.answerable
        query.classes |= dict.fromkeys(sample.tags)
        for field_name in _CLASS_FIELDS:
            if isinstance(value := sample.metadata.get(field_name), str | int):
                query.classes[f"{value} hops" if field_name == "hops" else str(value)] = None
        passages = list(sample.retrieved())
        with_texts = [context for context in passages if context.text.strip()]
        for context in with_texts if self._corpus is None else ():
            if context.id and context.id in query.gold:
                self.texts.setdefault(context.id, context.text)
            key = short_name(repr((context.id, context.text)).encode(errors="replace"))
            if key not in self._seen:  # once, even if several systems have it
                self._seen.add(key)
                self._draw(context.text)
        if (sample.contexts is not None or sample.calls is not None) and sample.trial == 0:
            self.systems[system] = None
            _rank(query, system, [context.id for context in passages if context.id])

    def _draw(self, text: str) -> None:
        """Add a passage to `rest`, which stays a random sample of all passages."""
        self._count += 1
        if len(self.rest) < DRAWN:
            self.rest.append(text)
        elif (at := int(self._random.integers(self._count))) < DRAWN:
            self.rest[at] = text


def _relevant(grades: Mapping[str, int]) -> dict[str, None]:
    """Return the documents with a positive grade, as the keys of a dict."""
    return dict.fromkeys(doc for doc, grade in grades.items() if grade > 0)


def trec_kind(path: Path) -> Literal["gold", "run", ""]:
    """Return whether a file holds TREC qrels (`query 0 document grade`) or a TREC run; "" for others."""
    if not path.is_file() or suffix_of(path) in {*READERS, ".yaml", ".yml"} or not first_lines(path):
        return ""
    if format_of(path, None, GOLD) == "trec" and len(first_lines(path)[0][1].split()) == 4:
        return "gold"
    return "run" if format_of(path, None, RUN) == "trec" else ""


def is_set(path: Path, *, has_gold: bool) -> bool:
    """Return True if a path holds a part of a test set (qrels, a run, or queries) rather than samples.

    Queries are a file of BEIR or MS MARCO. `has_gold` is true if gold is given separately; without it, a
    table of texts does not count as queries, because its rows may be documents.
    """
    if path.is_dir():
        return bool(dataset_files(path, "queries")) and (has_gold or (path / "qrels").is_dir())
    # without gold they may be documents
    return bool(trec_kind(path) or (has_gold and (_columns_of(path) or _topics(path))))


def _columns_of(path: Path) -> dict[str, str] | None:
    """Return the columns of the query and its id in a BEIR file of queries; None for any other file."""
    if not path.is_file() or suffix_of(path) not in READERS:
        return None
    reader, _ = READERS[suffix_of(path)]
    with suppress(InputError):
        _, row, _ = next(reader(path, Notices()), (0, None, None))
        asks = isinstance(row, Mapping) and any(SPELLINGS.get(key) == "query" for key in row)
        if isinstance(row, Mapping) and "text" in row and not asks:
            return {"query": "text"} | ({"id": "_id"} if "_id" in row else {})
    return None


def _topics(path: Path) -> list[tuple[str, str]]:
    """Return the (id, text) rows of a table without a header (MS MARCO's queries.tsv); [] for other files."""
    if not path.is_file() or suffix_of(path) not in {".tsv", ".txt"}:
        return []
    rows = [line.split("\t") for line in read_text(path).splitlines() if line.strip()]
    if not all(len(row) == 2 for row in rows) or any(SPELLINGS.get(cell) == "query" for cell in rows[0]):
        return []
    return [(name, text) for name, text in rows]


def _rank(query: TestQuery, system: str, order: Iterable[str]) -> None:
    ranks = query.ranks.setdefault(system, {})
    for rank, name in enumerate(dict.fromkeys(order), 1):
        if name in query.gold:
            ranks[name] = rank
