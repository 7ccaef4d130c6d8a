"""Read a corpus as a stream, check gold and labels against it, and move them to its documents.

A corpus is a file with a row per document (JSONL, JSON, CSV, TSV, Parquet), which contains an id and a text.
It can also be a folder: a BEIR folder (`corpus.jsonl`), a folder of such files, or a folder with one text
file per document, whose path is the document's id.

Gold that is quoted moves to the documents that contain the quote. Without quotes, the corpus is searched for
the text of the old passage. A document that contains all of the passage gets the same grade. A document that
contains a part of the passage, or is a part of it, may be relevant (`unsure`), and measures over gold then
have bounds. A person's label is about a passage: a document that contains all of a relevant passage is as
relevant, and a document that is a part of an irrelevant passage is irrelevant. The label of any other
document becomes "unsure".
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeAlias, get_args

from msgspec import UNSET, UnsetType, structs

from germane.clean import fold
from germane.encoding import Line, internal
from germane.errors import InputError, SourceLocation
from germane.labelling.unmatched import gold_ids
from germane.measures.gold import EDGE, tokens
from germane.places.lists import labelled_contexts, turns
from germane.samples.fields import id_in
from germane.samples.files import Notices, dataset_files, read_text
from germane.samples.reading import READERS, suffix_of
from germane.tables.labels import UNSURE, Label, newest_labels, relevance_item
from germane.types import Json, Sample

__all__ = ["Corpus"]

_TEXTS = tuple(map(fold, ("text", "content", "page_content", "contents", "passage", "chunk", "body")))
_PLAIN = (".txt", ".md", ".rst", ".html", ".htm")
_FIX = 'write a row per document: {"id": "d7", "text": "..."}'


class TextMatch(Line, rename=internal("exact", "all")):
    """An occurrence of a text, or of a part of it, in a document.

    `start` and `end` are offsets in characters. `share` is the proportion of the text's words that occur
    there. `exact` is true if the text occurs to the letter, apart from white space. `all` is true if the
    document contains no other words.
    """

    document: str
    start: int
    end: int
    share: float
    exact: bool = False
    all: bool = False


class Corpus:
    """The documents of a corpus, read from a file or a folder.

    Raises:
        InputError: The path does not exist. Reading documents raises it for a row without an id or a text.
    """

    def __init__(self, path: Path) -> None:
        self.path, self._location = path, SourceLocation(str(path))
        if not path.exists():
            problem = "there is no file or folder with this name"
            raise InputError(problem, fix="check the path of the corpus", place=self._location)

    def documents(self) -> Iterator[tuple[str, str]]:
        """Yield the id and the text of each document, in the order of the files and their rows."""
        files = [self.path]
        if self.path.is_dir():
            inside = [file for file in sorted(self.path.rglob("*")) if file.is_file() and file.name[0] != "."]
            rows = dataset_files(self.path, "corpus") or [f for f in inside if suffix_of(f) in READERS]
            files = rows or [file for file in inside if file.suffix.lower() in _PLAIN]
            if not files:
                fix = f"put corpus.jsonl there, or {', '.join((*READERS, *_PLAIN))} files"
                raise InputError("this folder has no file with documents", fix=fix, place=self._location)
        elif suffix_of(self.path) not in READERS:
            problem = "a corpus cannot be read from a file with this extension"
            fix = f"name a {', '.join(READERS)} file, or a folder"
            raise InputError(problem, fix=fix, place=self._location)
        for file in files:
            if suffix_of(file) not in READERS:
                yield file.relative_to(self.path).as_posix(), read_text(file)
                continue
            reader, _ = READERS[suffix_of(file)]
            for _, row, where in reader(file, Notices()):
                if not isinstance(row, dict):
                    problem = "this row of the corpus is not a JSON object"
                    raise InputError(problem, fix=_FIX, place=where(()))
                if (document := id_in(row)) is None:
                    raise InputError("this document of the corpus has no id", fix=_FIX, place=where(()))
                texts = {fold(key): value for key, value in reversed(row.items())}
                name = next((name for name in _TEXTS if name in texts), None)
                if name is None:
                    problem = f"the document {document} of the corpus has no text"
                    raise InputError(problem, fix=_FIX, place=where(()))
                yield document, "" if texts[name] is None else str(texts[name])

    @cached_property
    def identity(self) -> dict[str, Json]:
        """The entry of the corpus in reports: its name, its number of documents, and its digest.

        The digest is the sum of the documents' SHA-256 modulo 2^128. Raises InputError if two documents have
        the same id.
        """
        total, seen = 0, set[str]()
        for document, text in self.documents():
            named = f"{len(document)}:{document}{text}".encode()
            total += int.from_bytes(hashlib.sha256(named).digest()[:16], "big")
            if document in seen:
                problem = f"document ids must be unique; {document} occurs twice in this corpus"
                raise InputError(problem, fix="give each document its own id", place=self._location)
            seen.add(document)
        return {"digest": f"{total % 2**128:032x}", "documents": len(seen), "name": self.path.name}

    def texts_of(self, ids: Collection[str]) -> dict[str, str]:
        """Return the texts of the documents with these ids, by id; ids outside the corpus are left out."""
        return {document: text for document, text in self.documents() if document in ids}

    def find(self, pieces: Iterable[str]) -> dict[str, list[TextMatch]]:
        """Return, for each of the texts in `pieces`, its whole or partial occurrences, largest share first.

        Words are compared, ignoring case and white space. A document contains a part of a text if the
        document ends with the beginning of the text, begins with the end of the text, or is a piece of the
        text. The part must be at least three words long.
        """
        words_of = {piece: [token.word for token in tokens(piece)] for piece in dict.fromkeys(pieces)}
        grams: dict[tuple[str, ...], list[str]] = {}
        for piece, words in words_of.items():
            size = min(EDGE, len(words))
            for at in range(len(words) - size + 1 if words else 0):
                grams.setdefault(tuple(words[at : at + size]), []).append(piece)
        sizes = sorted({len(gram) for gram in grams})
        result: dict[str, list[TextMatch]] = {piece: [] for piece in words_of}
        for document, text in self.documents() if grams else ():
            listed = tokens(text)
            words = [token.word for token in listed]
            near: dict[str, None] = {}
            for size in sizes:
                for at in range(len(words) - size + 1):
                    if hit := grams.get(tuple(words[at : at + size])):
                        near |= dict.fromkeys(hit)
            for piece in near:
                if span := _common_span(words_of[piece], words):
                    first, last = listed[span[0]].start, listed[span[1] - 1].end
                    share = (span[1] - span[0]) / len(words_of[piece])
                    exact = share == 1.0 and " ".join(piece.split()) in " ".join(text.split())
                    match = TextMatch(document, first, last, share, exact, all=span == (0, len(words)))
                    result[piece].append(match)
        for matches in result.values():
            matches.sort(key=lambda match: (-match.share, not match.exact))
        return result


def _common_span(piece: Sequence[str], words: Sequence[str]) -> tuple[int, int] | None:
    """Return the range of `words` that equals the text `piece` or its longest part; None without one."""
    size, count = len(piece), len(words)
    for at in range(count - size + 1):
        if words[at] == piece[0] and words[at : at + size] == piece:
            return at, at + size
    for at in range(size - count + 1):
        if piece[at] == words[0] and piece[at : at + count] == words:
            return (0, count) if count >= EDGE else None
    for length in range(min(size, count) - 1, EDGE - 1, -1):
        if words[count - length :] == piece[:length]:
            return count - length, count
        if words[:length] == piece[size - length :]:
            return 0, length
    return None


class QuoteRow(Line):
    """A quote from a sample's evidence with the positions (`places`) where the corpus contains it.

    `whole` is true if a document contains the whole quote.
    """

    sample: str
    quote: str
    whole: bool
    places: list[TextMatch]


LabelOutcome: TypeAlias = Literal["same", "carried", "unsure", "lost", "others"]
"""The outcome of moving a label.

same: a document equals the label's passage; carried: the label moved to another document; unsure: documents
contain only a part of the passage; lost: no document contains any of it; others: the label is not about a
single passage, or its passage is not in the samples.
"""


class LabelsCheckDocument(Line):
    """The document that `germane labels check --json` prints: the gold that a corpus still contains.

    `corpus` holds the digest, the number of documents and the name of the corpus. `ids` is the number of gold
    ids. `missing` lists the gold ids that are not in the corpus. `changed` lists the gold ids whose text in
    the corpus differs from the retrieved context's. `unknown` counts the gold ids in the corpus whose old
    text is unknown, because no sample retrieved it.
    """

    schema_version: Literal[1]
    corpus: dict[str, str | int]
    ids: int
    missing: list[str]
    changed: list[str]
    unknown: int
    quotes: list[QuoteRow]


class LabelsMoveDocument(Line):
    """The document that `germane labels move --json` prints: the outcomes of gold, quotes and labels.

    `kept` counts the gold documents that are unchanged. `carried` counts the gold documents and quotes that
    moved to other documents, and `unsure` those of which the corpus contains only a part. `lost` lists the
    quotes and document ids that were not found. `labels` counts people's labels by outcome.
    """

    schema_version: Literal[1]
    kept: int
    carried: int
    unsure: int
    lost: list[dict[Literal["sample", "what"], str]]
    labels: dict[LabelOutcome, int] | UnsetType = UNSET


WHOLE = 0.95
"""A document is as relevant as an old passage if it contains at least this proportion of the passage."""
MOST = 0.5
"""The least proportion of a quote that a document must contain if no document contains the whole quote."""
_Split: TypeAlias = tuple[list[str], list[str]]
"""The documents that certainly contain a piece of gold, and those that may."""
_Grades: TypeAlias = tuple[dict[str, int], dict[str, int]]


def _known_texts(samples: Iterable[Sample]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for sample in samples:
        for context in sample.retrieved():
            if context.id is not None and context.text.strip():
                texts.setdefault(context.id, context.text)
    return texts


def _same(text: str, other: str) -> bool:
    return text == other or [token.word for token in tokens(text)] == [token.word for token in tokens(other)]


def check_labels(samples: Sequence[Sample], corpus: Corpus) -> LabelsCheckDocument:
    """Return which gold ids are not in the corpus, which have changed texts, and where the quotes occur."""
    ids = list(dict.fromkeys(gold_id for sample in samples for gold_id in gold_ids(sample)))
    before, now = _known_texts(samples), corpus.texts_of(set(ids))
    quotes = [(sample.id, at.quote) for sample in samples for at in sample.evidence or () if at.quote]
    matches = corpus.find(quote for _, quote in quotes)
    rows = [
        QuoteRow(name, quote, any(at.share == 1.0 for at in matches[quote]), matches[quote])
        for name, quote in quotes
    ]
    missing = [id_ for id_ in ids if id_ not in now]
    changed = [id_ for id_ in ids if id_ in now and id_ in before and not _same(before[id_], now[id_])]
    unknown = sum(id_ in now and id_ not in before for id_ in ids)
    return LabelsCheckDocument(1, corpus.identity, len(ids), missing, changed, unknown, rows)


def move_labels(samples: Sequence[Sample], corpus: Corpus) -> tuple[list[Sample], LabelsMoveDocument]:
    """Return the samples with their gold moved to the documents of a corpus, and the counts of the outcomes.

    The returned samples have no contexts and responses. Their `qrels` hold the documents that are certainly
    relevant. Their `unsure` holds the documents that may be relevant, with the grade that they would have;
    the ids `*1`, `*2`, ... stand for gold that was not found. In groups (`gold`), each member is replaced by
    the documents to which it moved.
    """
    before = _known_texts(samples)
    ids = {gold_id for sample in samples for gold_id in gold_ids(sample)}
    now = corpus.texts_of(ids)
    kept = {id_ for id_ in ids if id_ in now and (id_ not in before or _same(before[id_], now[id_]))}
    quotes = [at.quote for sample in samples for at in sample.evidence or () if at.quote]
    texts = {id_: before[id_] for id_ in ids - kept if id_ in before}
    matches = corpus.find([*quotes, *texts.values()])
    of_quote = {quote: _holders(matches[quote], is_quote=True) for quote in quotes}
    of_document = {id_: _holders(matches[text], is_quote=False) for id_, text in texts.items()}
    moved = LabelsMoveDocument(1, kept=0, carried=0, unsure=0, lost=[])
    return [_moved(sample, kept, of_quote, of_document, moved) for sample in samples], moved


def _moved(
    sample: Sample,
    kept: set[str],
    of_quote: Mapping[str, _Split],
    of_document: Mapping[str, _Split],
    moved: LabelsMoveDocument,
) -> Sample:
    """Return the sample with its gold moved to the corpus's documents, and count the outcomes in `moved`."""
    sure, unsure = dict[str, int](), dict[str, int]()
    qrels = dict(sample.qrels or {})
    quoted = [(evidence.doc, evidence.quote) for evidence in sample.evidence or () if evidence.quote]
    best = max((grade for grade in qrels.values() if grade > 0), default=1)
    for document, quote in quoted if sample.qrels is not None or sample.gold is None else ():
        grade = max(qrels.get(document, best) if document else best, 1)
        _assign_grade(of_quote[quote], grade, (sure, unsure), moved, (sample.id, quote))
    by_quote = {document for document, _ in quoted}  # a quote without a document counts for all gold
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
                _assign_grade(holders, grade, (sure, unsure), moved, (sample.id, document))
    unsure = {document: grade for document, grade in unsure.items() if document not in sure}
    groups = sample.gold and tuple(
        tuple(dict.fromkeys(new for name in group for new in names.get(name) or [name]))
        for group in sample.gold
    )
    known = None if sample.qrels is None else sure
    of_old = {"contexts": None, "calls": None, "stages": (), "response": None, "messages": ()}
    return structs.replace(sample, qrels=known, unsure=unsure or None, gold=groups, **of_old)


def _assign_grade(
    holders: _Split, grade: int, gold: _Grades, moved: LabelsMoveDocument, place: tuple[str, str]
) -> None:
    """Give a piece's grade in `gold` to the documents that contain or may contain it; count the outcome."""
    for grades, documents in zip(gold, holders, strict=True):
        grades |= {document: max(grade, grades.get(document, grade)) for document in documents}
    if holders[0]:
        moved.carried += 1
    elif holders[1]:
        moved.unsure += 1
    else:
        number = 1 + sum(name.startswith("*") for name in gold[1])
        gold[1][f"*{number}"] = grade
        moved.lost.append({"sample": place[0], "what": place[1]})


def _holders(matches: Sequence[TextMatch], *, is_quote: bool) -> _Split:
    """Return the documents that count as containing a piece of gold, and those that may.

    A quote must be in a document whole, or if it is whole in none, at least by half; an old passage nearly
    whole. If a document contains the piece to the letter, only such documents count.
    """
    exact = any(at.exact for at in matches)  # matches that differ in punctuation are then other passages
    whole = is_quote and any(at.share == 1.0 for at in matches)
    least = 1.0 if whole else MOST if is_quote else WHOLE
    sure = [at.document for at in matches if (at.exact if exact else at.share >= least)]
    return sure, [] if whole else [at.document for at in matches if at.document not in sure]


def carry_labels(
    labels: Iterable[Label], samples: Sequence[Sample], corpus: Corpus
) -> tuple[list[Label], dict[LabelOutcome, int]]:
    """Return people's labels moved to the documents of a corpus, and the number of old labels by outcome.

    `samples` hold the labelled contexts; labels of other items are counted as "others".
    """
    passages: dict[str, tuple[Sample, str]] = {}
    for sample in samples:
        for item, context in labelled_contexts(sample):
            passages.setdefault(item, (sample, context.passage))
    newest = newest_labels(labels)
    labelled = [label for label in newest if label.item in passages and label.kind == "relevance"]
    counts = dict.fromkeys(get_args(LabelOutcome), 0) | {"others": len(newest) - len(labelled)}
    answered = [(label, *passages[label.item]) for label in labelled if label.answer is not None]
    matches_of = corpus.find(passage for _, _, passage in answered)
    texts = corpus.texts_of({at.document for matches in matches_of.values() for at in matches})
    made: dict[tuple[str, str | None], Label] = {}
    for label, sample, passage in answered:
        matches = matches_of[passage]
        outcome: LabelOutcome = "unsure" if matches else "lost"
        if any(at.share == 1.0 and at.all for at in matches):
            outcome = "same"  # a document is the old passage
        elif any(_holds(label, at) for at in matches):
            outcome = "carried"
        counts[outcome] += 1
        for at in matches:
            item = relevance_item(sample.query, texts[at.document], turns(sample))
            fields = {"queue": "import", "design": None, "call": None, "rank": None}
            if not _holds(label, at):
                fields |= {"answer": None, "reason": UNSURE}
            carried = structs.replace(label, item=item, sample=sample.id, **fields)
            before = made.setdefault((item, carried.who), carried)
            if carried.answer is not None and (before.answer is None or before.answer < carried.answer):
                made[item, carried.who] = carried
    return list(made.values()), counts


def _holds(label: Label, at: TextMatch) -> bool:
    """Return True if the label of an old passage is also right for the document of the match `at`."""
    whole = at.share >= WHOLE
    return (whole and at.all) or (whole if label.answer else at.all)
