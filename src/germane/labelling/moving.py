"""Gold after a corpus has changed: which ids and quotes still stand, and gold carried to the new documents.

A quote is carried to the documents that hold it. Without quotes the text of the old passage is: a document that holds all
of it is as relevant; one that holds a part, or lies within it, may be. What may be is named (`unsure`), and measures over gold
are bounds wherever it could change them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from germane.encoding import Line
from germane.labelling.corpus import Corpus, TextMatch
from germane.labelling.people import WHOLE, LabelsRow
from germane.labelling.unmatched import absent_note, near_misses, near_note
from germane.measures.evidence import tokens
from germane.types import Context, Sample

if TYPE_CHECKING:
    from germane.reports.data import ReportData
    from germane.tables.scores import SampleKey

_MOST_SAMPLES = 1_000
"""Samples in which gold ids are compared with the retrieved ids in the search for other spellings."""


class QuotePlaceRow(Line):
    """A place of a quote: the document, offsets in characters, and the share of the quote that it holds."""

    document: str
    start: int
    end: int
    share: float


class QuoteRow(Line):
    """A quote of a sample's evidence; `whole`: some document holds all of it."""

    sample: str
    quote: str
    whole: bool
    places: list[QuotePlaceRow]


class CorpusRow(Line):
    """The identity of a corpus: a digest of ids and texts, how many documents, the name of the file or folder."""

    digest: str
    documents: int
    name: str


class LabelsCheckDocument(Line):
    """The document of `germane labels check --json`.

    Of the `ids` gold ids `missing` are not in the corpus, `changed` have another text there than where they were retrieved,
    and of `unknown` no context says which text they had.
    """

    schema_version: Literal[1]
    corpus: CorpusRow
    ids: int
    missing: list[str]
    changed: list[str]
    unknown: int
    quotes: list[QuoteRow]
    labels: LabelsRow | UnsetType = UNSET


class LostRow(Line):
    """Gold that could not be carried: a quote, or the id of a document."""

    sample: str
    what: str


class LabelsMoveDocument(Line):
    """The document of `germane labels move --json`: how many graded documents and quotes became what."""

    schema_version: Literal[1]
    kept: int
    carried: int
    unsure: int
    lost: list[LostRow]
    labels: LabelsRow | UnsetType = UNSET


MOST = 0.5
"""Share of a quote that a document must hold to have it, where no document holds it whole."""
_Split: TypeAlias = tuple[list[str], list[str]]
"""Documents that certainly hold a piece of gold, and those that may."""


def gold_ids(sample: Sample) -> list[str]:
    """The ids of a sample's gold: graded documents, and the members of groups."""
    members = (name for group in sample.gold or () for name in group)
    return list(dict.fromkeys([*(sample.qrels or ()), *members]))


def _known_texts(samples: Iterable[Sample]) -> dict[str, str]:
    """The text that each document had where it was retrieved."""
    texts: dict[str, str] = {}
    for sample in samples:
        for _, _, _, context in sample.ranked_passages():
            if context.id is not None and context.text.strip():
                texts.setdefault(context.id, context.text)
    return texts


def _same(text: str, other: str) -> bool:
    return text == other or [token.word for token in tokens(text)] == [token.word for token in tokens(other)]


def check_labels(samples: Sequence[Sample], corpus: Corpus) -> LabelsCheckDocument:
    """Find the gold ids that a corpus has, those whose text changed, and the places of the evidence's quotes."""
    ids = list(dict.fromkeys(gold_id for sample in samples for gold_id in gold_ids(sample)))
    before, now = _known_texts(samples), corpus.texts_of(set(ids))
    quotes = [(sample.id, quote) for sample in samples for _, quote in _quotes(sample)]
    matches = corpus.find(quote for _, quote in quotes)
    rows = []
    for name, quote in quotes:
        spans = [QuotePlaceRow(at.document, at.start, at.end, at.share) for at in matches[quote]]
        rows.append(QuoteRow(name, quote, bool(spans) and spans[0].share == 1.0, spans))
    return LabelsCheckDocument(
        schema_version=1,
        corpus=CorpusRow(**corpus.identity),
        ids=len(ids),
        missing=[id_ for id_ in ids if id_ not in now],
        changed=[id_ for id_ in ids if id_ in now and id_ in before and not _same(before[id_], now[id_])],
        unknown=sum(id_ in now and id_ not in before for id_ in ids),
        quotes=rows,
    )


def move_labels(samples: Sequence[Sample], corpus: Corpus) -> tuple[list[Sample], LabelsMoveDocument]:
    """The samples with their gold carried to the documents of a corpus, without what was retrieved from the old one.

    `qrels` are what is certain, `unsure` the documents that may be relevant, with the grade that they would have; `*1`, `*2`, ... stand
    for gold that was not found. Groups (`gold`) name every document that a member was carried to.
    """
    before = _known_texts(samples)
    ids = {gold_id for sample in samples for gold_id in gold_ids(sample)}
    now = corpus.texts_of(ids)
    kept = {id_ for id_ in ids if id_ in now and (id_ not in before or _same(before[id_], now[id_]))}
    quotes = [quote for sample in samples for _, quote in _quotes(sample)]
    texts = {id_: before[id_] for id_ in ids - kept if id_ in before}
    matches = corpus.find([*quotes, *texts.values()])
    of_quote = {quote: _holders_of_quote(matches[quote]) for quote in quotes}
    of_document = {id_: _holders_of_text(matches[text]) for id_, text in texts.items()}
    moved = LabelsMoveDocument(schema_version=1, kept=0, carried=0, unsure=0, lost=[])
    return [_moved(sample, kept, of_quote, of_document, moved) for sample in samples], moved


def _moved(
    sample: Sample,
    kept: set[str],
    of_quote: Mapping[str, _Split],
    of_document: Mapping[str, _Split],
    moved: LabelsMoveDocument,
) -> Sample:
    """The sample with what became of its gold, which is counted in `moved`."""
    sure: dict[str, int] = {}
    unsure: dict[str, int] = {}
    qrels, quoted = dict(sample.qrels or {}), _quotes(sample)
    best = max((grade for grade in qrels.values() if grade > 0), default=1)
    for document, quote in quoted if sample.qrels is not None or sample.gold is None else ():
        grade = max(qrels.get(document, best) if document else best, 1)
        _assign_grade(of_quote[quote], grade, (sure, unsure), LostRow(sample.id, quote), moved)
    by_quote = {document for document, _ in quoted}  # a quote without a document stands for all gold
    names: dict[str, list[str]] = {}
    for document in gold_ids(sample):
        grade = qrels.get(document, 1)
        if grade > 0 and document in qrels and by_quote & {document, None}:
            continue
        if document in kept:
            moved.kept += 1
            names[document] = [document]
            sure |= {document: max(grade, sure.get(document, grade))} if document in qrels else {}
        elif grade > 0:
            holders = of_document.get(document, ([], []))
            names[document] = [*holders[0], *holders[1]]
            if document in qrels:
                _assign_grade(holders, grade, (sure, unsure), LostRow(sample.id, document), moved)
    unsure = {document: grade for document, grade in unsure.items() if document not in sure}
    groups = sample.gold and tuple(
        tuple(dict.fromkeys(new for name in group for new in names.get(name) or [name]))
        for group in sample.gold
    )
    return replace(
        sample,
        contexts=None,
        calls=None,
        stages=(),
        qrels=None if sample.qrels is None else sure,
        unsure=unsure or None,
        gold=groups,
        response=None,
        messages=(),
    )


def _assign_grade(
    holders: _Split,
    grade: int,
    gold: tuple[dict[str, int], dict[str, int]],
    lost: LostRow,
    moved: LabelsMoveDocument,
) -> None:
    """Give this grade to the documents that hold a piece of gold, and count what became of the piece."""
    for grades, documents in zip(gold, holders, strict=True):
        grades |= {document: max(grade, grades.get(document, grade)) for document in documents}
    if holders[0]:
        moved.carried += 1
    elif holders[1]:
        moved.unsure += 1
    else:
        moved.lost.append(lost)
        number = 1 + sum(name.startswith("*") for name in gold[1])
        gold[1][f"*{number}"] = grade


def _quotes(sample: Sample) -> list[tuple[str | None, str]]:
    """The quotes of a sample's evidence, each with its document, None where it names none."""
    return [(evidence.doc, evidence.quote) for evidence in sample.evidence or () if evidence.quote]


def _holders_of_quote(matches: Sequence[TextMatch]) -> _Split:
    """The documents that hold a quote, and those that may: where none holds it whole, those that hold most of it do."""
    whole = [at for at in matches if at.share == 1.0]
    if whole:  # words that only match without their signs are another place, where one matches to the letter
        return [at.document for at in whole if at.exact or not whole[0].exact], []
    return _split(matches, MOST)


def _holders_of_text(matches: Sequence[TextMatch]) -> _Split:
    """The documents that hold an old passage, and those that hold a part of it."""
    exact = [at.document for at in matches if at.exact]
    if exact:  # the same words with other signs may be another passage
        return exact, [at.document for at in matches if not at.exact]
    return _split(matches, WHOLE)


def _split(matches: Sequence[TextMatch], least: float) -> _Split:
    sure = [at.document for at in matches if at.share >= least]
    return sure, [at.document for at in matches if at.share < least]


def gold_notes(report: ReportData, corpus: Corpus | None) -> Iterator[tuple[int, str]]:
    """The notes about gold ids that occur nowhere, as those of another corpus, or that were retrieved in another spelling.

    Each comes with its count, which is to be written in front of it.
    """
    of_gold = [line for line in report.summaries if line.basis.source == "gold"]
    if corpus is not None or any(line.mean == 0 for line in of_gold):
        samples = list(report.samples())
        absent, total = unknown_gold(samples, corpus)
        if absent:
            passages = [passage.context for sample in samples for passage in sample.ranked_passages()]
            listed = dict.fromkeys(context.id for context in passages if context.id is not None)
            values = chain.from_iterable(map(other_values, passages))
            where = "no list" if corpus is None else "no list and not in the corpus"
            yield len(absent), absent_note(absent, total, listed, where=where, elsewhere=values)
            return
    if pairs := near_misses(
        map(_missed, report.tables.samples_of(_missing_gold(report, {line.measure for line in of_gold})))
    ):
        yield near_note(pairs)


def other_values(context: Context) -> Iterator[tuple[str, str]]:
    """The text of a passage and the values of its metadata, each with a description."""
    yield "the texts of contexts", context.text
    for name, value in context.metadata.items():
        if isinstance(value, str | int):
            yield (
                f"in the field {name!r} of contexts (name it id)",
                str(value),
            )


def _missing_gold(report: ReportData, names: set[str]) -> set[SampleKey]:
    """The samples that some of these measures over gold gives 0."""
    table = report.tables.scores
    numbers = [number for number, (name, _) in enumerate(table.measures) if name in names]
    rows = np.flatnonzero((table.value == 0) & np.isin(table.measure, numbers))
    return {table.keys[sample] for sample in np.unique(table.sample[rows])[:_MOST_SAMPLES].tolist()}


def _missed(sample: Sample) -> tuple[list[str], list[str]]:
    """The relevant gold ids that a sample's lists do not have, and the ids there that are none of its gold."""
    listed = {passage.context.id: None for passage in sample.ranked_passages()}
    gold = gold_ids(sample)
    missed = [name for name in _relevant(sample) if name not in listed]
    return missed, [name for name in listed if name is not None and name not in gold]


def _relevant(sample: Sample) -> list[str]:
    return [name for name in gold_ids(sample) if (sample.qrels or {}).get(name, 1) > 0]


def unknown_gold(samples: Iterable[Sample], corpus: Corpus | None) -> tuple[list[str], int]:
    """The relevant gold ids that occur in no list, and not in the corpus; and how many relevant gold ids there are.

    Without a corpus none is named unless all of them occur in no list, and lists have ids at all.
    """
    gold: dict[str, None] = {}
    listed: set[str] = set()
    for sample in samples:
        gold |= dict.fromkeys(_relevant(sample))
        listed.update(
            passage.context.id for passage in sample.ranked_passages() if passage.context.id is not None
        )
    absent = [name for name in gold if name not in listed]
    if corpus is not None and absent:
        texts = corpus.texts_of(set(absent))
        return [name for name in absent if name not in texts], len(gold)
    return (absent if listed and len(absent) == len(gold) else []), len(gold)
