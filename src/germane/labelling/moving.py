"""Gold after a corpus has changed: which ids and quotes still stand, and gold carried to the new documents.

A quote is carried to the documents that hold it. Without quotes the text of the old passage is: a document that holds all
of it is as relevant; one that holds a part, or lies within it, may be. What may be is named (`unsure`), and measures over gold
are bounds wherever it could change them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from germane.labelling.corpus import Corpus, FoundPlace
from germane.labelling.people import WHOLE, LabelsRow
from germane.measures.evidence import tokens
from germane.reports.schema import Line, line_of
from germane.types import NOTHING, Context, Json, Sample


class PlaceRow(Line):
    """Where a quote stands: the document, offsets in characters, and the share of the quote that it holds."""

    document: str
    start: int
    end: int
    share: float


class QuoteRow(Line):
    """A quote of a sample's evidence; `whole`: some document holds all of it."""

    sample: str
    quote: str
    whole: bool
    places: list[PlaceRow]


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
"""Share of a quote that no document holds whole."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckedQuote:
    """A quote of a sample's evidence, and where it stands; `whole`: some document holds all of it."""

    sample: str
    quote: str
    places: tuple[FoundPlace, ...]

    @property
    def whole(self) -> bool:
        """Whether some document holds all of it."""
        return bool(self.places) and self.places[0].share == 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelsCheck:
    """What became of gold in a corpus: of all `ids` those that are `missing` exist no longer, the text of `changed` is another one.

    `unknown` ids are in the corpus, and no sample has the text that they had.
    """

    corpus: Mapping[str, Json]
    ids: int
    missing: list[str]
    changed: list[str]
    unknown: int
    quotes: tuple[CheckedQuote, ...]

    def as_json(self, labels: Mapping[str, int] | UnsetType = UNSET) -> dict[str, Json]:
        """The document of `germane labels check --json`."""
        quotes = [
            line_of(QuoteRow, quote, places=[line_of(PlaceRow, at) for at in quote.places])
            for quote in self.quotes
        ]
        return line_of(
            LabelsCheckDocument,
            self,
            schema_version=1,
            quotes=quotes,
            labels=labels,
        )


def gold_ids(sample: Sample) -> list[str]:
    """The ids of a sample's gold: graded documents, and the members of groups."""
    return list(
        dict.fromkeys([*(sample.qrels or ()), *(name for group in sample.gold or () for name in group)])
    )


def _known_texts(samples: Iterable[Sample]) -> dict[str, str]:
    """The text that each document had where it was retrieved."""
    known: dict[str, str] = {}
    for sample in samples:
        for passage in sample.places():
            context: Context = passage.context
            if context.id is not None and context.text.strip():
                known.setdefault(context.id, context.text)
    return known


def _same(name: str, other: str) -> bool:
    return name == other or [token.word for token in tokens(name)] == [token.word for token in tokens(other)]


def check_labels(samples: Sequence[Sample], corpus: Corpus) -> LabelsCheck:
    """Which gold ids a corpus has, whose text changed, and where the quotes of the evidence stand."""
    ids = list(dict.fromkeys(gold_id for sample in samples for gold_id in gold_ids(sample)))
    before, now = _known_texts(samples), corpus.texts_of(set(ids))
    quotes = [
        (sample.id, evidence.quote)
        for sample in samples
        for evidence in sample.evidence or ()
        if evidence.quote
    ]
    result = corpus.find(quote for _, quote in quotes)
    return LabelsCheck(
        corpus=corpus.identity,
        ids=len(ids),
        missing=[id_ for id_ in ids if id_ not in now],
        changed=[id_ for id_ in ids if id_ in now and id_ in before and not _same(before[id_], now[id_])],
        unknown=sum(id_ in now and id_ not in before for id_ in ids),
        quotes=tuple(
            CheckedQuote(sample=name, quote=quote, places=tuple(result[quote])) for name, quote in quotes
        ),
    )


@dataclass(slots=True)
class Moved:
    """How gold was carried: counts of graded documents and quotes by what became of them, and what could not be carried."""

    kept: int = 0
    carried: int = 0
    unsure: int = 0
    lost: list[tuple[str, str]] = field(default_factory=list)

    def as_json(self, labels: Mapping[str, int] | UnsetType = UNSET) -> dict[str, Json]:
        """The document of `germane labels move --json`."""
        lost = [{"sample": sample, "what": what} for sample, what in self.lost]
        return line_of(
            LabelsMoveDocument,
            self,
            schema_version=1,
            lost=lost,
            labels=labels,
        )


def move_labels(samples: Sequence[Sample], corpus: Corpus) -> tuple[list[Sample], Moved]:
    """The samples with their gold carried to the documents of a corpus, without what was retrieved from the old one.

    `qrels` are what is certain, `unsure` the documents that may be relevant, with the grade that they would have; `*1`, `*2`, ... stand
    for gold of which nothing was found. Groups (`gold`) name every document that a member was carried to.
    """
    before = _known_texts(samples)
    ids = {gold_id for sample in samples for gold_id in gold_ids(sample)}
    now, moved = corpus.texts_of(ids), Moved()
    kept = {id_ for id_ in ids if id_ in now and (id_ not in before or _same(before[id_], now[id_]))}
    pieces = [evidence.quote for sample in samples for evidence in sample.evidence or () if evidence.quote]
    result = corpus.find([*pieces, *(before[id_] for id_ in ids - kept if id_ in before)])
    carried = []
    for sample in samples:
        value = _Carried(sample, kept, before, result)
        carried.append(value.sample(moved))
    return carried, moved


class _Carried:
    """The gold of one sample, carried."""

    def __init__(
        self,
        sample: Sample,
        kept: set[str],
        before: Mapping[str, str],
        found: Mapping[str, Sequence[FoundPlace]],
    ) -> None:
        self._sample, self._kept, self._before, self._found = sample, kept, before, found
        self.sure: dict[str, int] = {}
        self.unsure: dict[str, int] = {}

    def sample(self, moved: Moved) -> Sample:
        """The sample with what became of its gold; counted in `moved`."""
        sample, qrels = self._sample, dict(self._sample.qrels or {})
        quoted = [value for value in sample.evidence or () if value.quote]
        by_quote = {value.doc for value in quoted if value.doc is not None}
        everything = any(
            value.doc is None for value in quoted
        )  # quotes that name no document stand for all gold
        best = max((grade for grade in qrels.values() if grade > 0), default=1)
        names: dict[str, list[str]] = {}
        for evidence in quoted if sample.qrels is not None or sample.gold is None else ():
            grade = qrels.get(evidence.doc, best) if evidence.doc is not None else best
            self._take(moved, evidence.quote or "", self._of_quote(evidence.quote or ""), max(grade, 1))
        for document in gold_ids(sample):
            grade = qrels.get(document, 1)
            if grade > 0 and (document in by_quote or everything) and document in qrels:
                continue
            if document in self._kept:
                moved.kept += 1
                names[document] = [document]
                if document in qrels:
                    self.sure[document] = max(grade, self.sure.get(document, grade))
            elif grade > 0:
                sure, unsure = self._of_text(document)
                names[document] = [*sure, *unsure]
                if document in qrels:
                    self._take(moved, document, (sure, unsure), grade)
        for document in self.sure:
            self.unsure.pop(document, None)
        groups = sample.gold and tuple(
            tuple(dict.fromkeys(new for name in group for new in names.get(name) or [name]))
            for group in sample.gold
        )
        return replace(
            sample,
            contexts=None,
            calls=None,
            stages=(),
            qrels=None if sample.qrels is None else self.sure,
            unsure=self.unsure or None,
            gold=groups,
            response=None,
            messages=(),
            metadata=sample.metadata or NOTHING,
        )

    def _take(self, moved: Moved, what: str, found: tuple[list[str], list[str]], grade: int) -> None:
        sure, unsure = found
        for document in sure:
            self.sure[document] = max(grade, self.sure.get(document, grade))
        for document in unsure:
            self.unsure[document] = max(grade, self.unsure.get(document, grade))
        if sure:
            moved.carried += 1
        elif unsure:
            moved.unsure += 1
        else:
            moved.lost.append((self._sample.id, what))
            lost = sum(name.startswith("*") for name in self.unsure)
            self.unsure[f"*{lost + 1}"] = grade

    def _of_quote(self, quote: str) -> tuple[list[str], list[str]]:
        """The documents that hold a quote, and those that may: where none holds it whole, those that hold most of it do."""
        found_places = self._found[quote]
        whole = [at for at in found_places if at.share == 1.0]
        if (
            whole
        ):  # words that only match without their signs are another place, where one matches to the letter
            return [at.document for at in whole if at.exact or not whole[0].exact], []
        return _split(found_places, MOST)

    def _of_text(self, document: str) -> tuple[list[str], list[str]]:
        """The documents that hold an old passage, and those that hold a part of it."""
        text = self._before.get(document)
        if text is None:
            return [], []
        found_places = self._found[text]
        exact = [at.document for at in found_places if at.exact]
        if exact:  # the same words with other signs may be another passage
            return exact, [at.document for at in found_places if not at.exact]
        return _split(found_places, WHOLE)


def _split(places: Iterable[FoundPlace], least: float) -> tuple[list[str], list[str]]:
    sure = [at.document for at in places if at.share >= least]
    return sure, [at.document for at in places if at.share < least]


def unknown_gold(samples: Iterable[Sample], corpus: Corpus | None) -> tuple[list[str], int]:
    """The relevant gold ids that occur in no list, and not in the corpus; and how many relevant gold ids there are.

    Without a corpus none is named unless all of them occur in no list, and lists have ids at all.
    """
    gold: dict[str, None] = {}
    listed: set[str] = set()
    for sample in samples:
        gold |= dict.fromkeys(
            gold_id for gold_id in gold_ids(sample) if (sample.qrels or {}).get(gold_id, 1) > 0
        )
        listed.update(passage.context.id for passage in sample.places() if passage.context.id is not None)
    absent = [name for name in gold if name not in listed]
    if corpus is not None and absent:
        there = corpus.texts_of(set(absent))
        return [name for name in absent if name not in there], len(gold)
    return (absent if listed and len(absent) == len(gold) else []), len(gold)


def quotes_in(check: LabelsCheck) -> Iterator[tuple[str, int]]:
    """How many quotes stand whole, in part, and nowhere."""
    whole = sum(quote.whole for quote in check.quotes)
    part = sum(bool(quote.places) and not quote.whole for quote in check.quotes)
    yield from (("whole", whole), ("in part", part), ("nowhere", len(check.quotes) - whole - part))
