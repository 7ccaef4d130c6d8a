"""Cut a corpus into passages, rank them by BM25, and draw the passages to write questions from."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain, pairwise
from pathlib import Path
from zlib import crc32

import numpy as np

from germane.clean import counted
from germane.errors import InputError
from germane.labelling.corpus import Corpus
from germane.questions.text import folded
from germane.types import Json

_PAIRED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"
"""The characters of scripts without spaces between words: Thai, Lao, Burmese, Khmer, kana and Han."""
_TERM = re.compile(rf"[{_PAIRED}]+|(?:(?![{_PAIRED}])[^\W_])+")
_UNSPACED = re.compile(f"[{_PAIRED}]")
_K1, _B = 1.2, 0.75


def terms(text: str) -> list[str]:
    """Return the terms of a text: its words of letters and digits, case folded."""
    found: list[str] = []
    for run in _TERM.findall(folded(text)):
        paired = len(run) > 2 and _UNSPACED.match(run)
        found += [run[at : at + 2] for at in range(len(run) - 1)] if paired else [run]
    return found


def is_unspaced(text: str) -> bool:
    """Return True if most letters of a text belong to scripts without spaces between words."""
    return 2 * len(_UNSPACED.findall(text)) > sum(map(str.isalpha, text))


class BM25:
    """An index that scores texts for a query by BM25; the texts are identified by their positions."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._of_term: dict[str, int] = {}
        rows, columns, counts, lengths = list[int](), list[int](), list[int](), list[int]()
        for row, text in enumerate(texts):
            bag = Counter(terms(text))
            lengths.append(bag.total())
            for term, count in bag.items():
                columns.append(self._of_term.setdefault(term, len(self._of_term)))
                rows.append(row)
                counts.append(count)
        self.size: int = len(lengths)
        column, n = np.array(columns, np.int64), max(1, len(lengths))
        order = np.argsort(column, kind="stable")
        frequency = np.bincount(column, minlength=len(self._of_term))
        self._starts = np.concatenate([[0], np.cumsum(frequency)])
        idf = np.log1p((n - frequency + 0.5) / (frequency + 0.5))
        length = np.array(lengths, float)
        damped = _K1 * (1 - _B + _B * length / max(1.0, length.mean() if self.size else 1.0))
        self._rows = np.array(rows, np.int64)[order]
        occurrences = np.array(counts, float)[order]
        self._weights = idf[column[order]] * occurrences * (_K1 + 1) / (occurrences + damped[self._rows])

    def __contains__(self, term: str) -> bool:
        return term in self._of_term

    def scores(self, query: str) -> np.ndarray:
        """Return the BM25 score of every text for a query, by position."""
        result = np.zeros(self.size)
        for term in dict.fromkeys(terms(query)):
            if (number := self._of_term.get(term)) is not None:
                span = slice(self._starts[number], self._starts[number + 1])
                result[self._rows[span]] += self._weights[span]
        return result

    def search(self, query: str, k: int) -> list[int]:
        """Return the positions of the `k` best texts (0: all) with a term of the query, best first."""
        scores = self.scores(query)
        among = np.flatnonzero(scores > 0)
        return [int(at) for at in among[np.argsort(-scores[among], kind="stable")][: k or None]]


MIX = {"direct": 45, "paraphrased": 40, "near-miss": 15}
STYLES = {"question": 60, "keywords": 25, "long": 15}
TRIES = 4
"""The most attempts for each question that is wanted."""


@dataclass(frozen=True, slots=True)
class Turn:
    """A planned attempt: a passage, and the kind and style of question to write from it."""

    passage: Passage
    kind: str
    style: str

    @property
    def id(self) -> str:
        """The id of the question: a digest of passage, kind and style, which is stable if the set grows."""
        return f"d-{_digest(f'{self.passage.digest} {self.kind} {self.style}')[:8]}"


def parse_shares(text: str, flag: str, names: Mapping[str, int]) -> dict[str, int]:
    """Return the shares in a string such as `direct=45 near-miss=15`, by name; an omitted name gets 0.

    `names` maps the possible names to their default shares. Raises InputError, which names the `flag`, if the
    string has another form.
    """
    pairs = [word.partition("=")[::2] for word in text.replace(",", " ").split()]
    result = {name: int(share) for name, share in pairs if name in names and share.isdecimal()}
    if len(result) < len(pairs) or not any(result.values()):
        unknown = next((f"unknown name {name!r}" for name, _ in pairs if name not in names), "")
        fix = f"write {flag} '{' '.join(f'{name}={share}' for name, share in names.items())}'"
        raise InputError(f"{flag}: {unknown or f'{text!r} is not a list of shares'}", fix=fix)
    return {name: result.get(name, 0) for name in names}


def slots(shares: Mapping[str, int], n: int) -> Iterator[str]:
    """Yield a kind for each of n questions, in proportion to `shares`, the share of each kind (Webster).

    A larger n only appends kinds.
    """
    given = dict.fromkeys(shares, 0)
    for _ in range(n):
        kind = max(shares, key=lambda name: shares[name] / (2 * given[name] + 1))
        given[kind] += 1
        yield kind


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def _pick(shares: Mapping[str, int], digest: str) -> str:
    """Return one of the names, chosen by the digest with probabilities in proportion to the names' shares."""
    at = int(digest[:12], 16) / 16**12 * sum(shares.values())
    return next(name for name, end in zip(shares, accumulate(shares.values()), strict=True) if at < end)


def draw(
    passages: Iterable[Passage], seed: int, mix: Mapping[str, int], styles: Mapping[str, int]
) -> dict[str, list[Turn]]:
    """Return, for each kind of question, the passages to write such questions from, in a random order.

    Each passage gets one turn, with a random kind and style; `mix` and `styles` map their names to shares. No
    document has a second turn before every document has had its first. The order follows a digest of seed
    and text, so that the turns of a new document are inserted without moving any other turn.
    """
    earlier, rounds = Counter[str](), defaultdict[int, list[Passage]](list)
    for passage in sorted(passages, key=lambda passage: _digest(f"{seed}  {passage.digest}")):
        rounds[earlier[passage.doc]].append(passage)
        earlier[passage.doc] += 1
    result: dict[str, list[Turn]] = {kind: [] for kind in mix}
    for passage in chain.from_iterable(rounds.values()):
        kind = _pick(mix, _digest(f"{seed} kind {passage.digest}"))
        result[kind].append(Turn(passage, kind, _pick(styles, _digest(f"{seed} style {passage.digest}"))))
    return result


@dataclass
class TurnOrder:
    """Decides which passage and kind of question to try next: at most four attempts per wanted question.

    `slots` holds the kind of each wanted question, and `begun` counts those for which attempts were made.
    """

    turns: Mapping[str, list[Turn]]
    slots: Sequence[str]
    begun: int = 0
    tried: Counter[str] = field(default_factory=Counter)
    kept: Counter[str] = field(default_factory=Counter)

    def copy(self) -> TurnOrder:
        """Return a copy of this order, in which attempts can be planned without counting them here."""
        return replace(self, tried=+self.tried, kept=+self.kept)

    def next(self) -> Turn | None:
        """Return the next attempt; None if enough questions are accepted or no passages are left to try."""
        while True:
            kind = self.slots[self.begun - 1] if self.begun else ""
            wanted = self.slots[: self.begun].count(kind)
            most = min(TRIES * wanted, len(self.turns.get(kind, ())))
            if self.kept[kind] < wanted and self.tried[kind] < most:
                self.tried[kind] += 1
                return self.turns[kind][self.tried[kind] - 1]
            if self.begun == len(self.slots):
                return None
            self.begun += 1

    def counts(self) -> dict[str, dict[str, int]]:
        """Return, by kind, the numbers of wanted questions, of accepted questions, and of attempts."""
        return {
            kind: {"wanted": wanted, "kept": self.kept[kind], "attempts": self.tried[kind]}
            for kind, wanted in Counter(self.slots).items()
        }

    def settle(self, turn: Turn, *, kept: bool) -> None:
        """Record whether the question of the attempt `turn` was accepted (`kept`)."""
        self.kept[turn.kind] += kept


LONGEST, SHORTEST = 400, 25
"""The most words of a passage (longer texts are cut), and the fewest for a question to be written from it."""
_LINES = "=-~^*"
"""The characters that underline headings, outermost first."""
_HEADING = re.compile(
    rf"^(?:(?P<marks>#{{1,6}}) +(?P<atx>\S.*?) *#*|(?P<under>[^\s#].{{0,118}})\n(?P<line>[{re.escape(_LINES)}])(?P=line){{2,}})[ \t]*$",
    re.MULTILINE,
)
_PARAGRAPH = re.compile(r"\n[ \t]*\n+")
_FILLING = re.compile(r"https?://\S+|\[[^\]\n]*\]\([^)\n]*\)|\.{2,}|[\d.…]")
"""Matches links, dots and digits; they are more than half of a table of contents or a list of links."""
_OFFICE = {".pdf", ".docx", ".doc", ".pptx", ".odt", ".epub"}
_HEADER_SHARE, _SHINGLE, _NEAR, _SKETCH = 0.2, 5, 0.9, 8


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage of a document: its `text` is the document's text from `start` to `end`.

    `doc` is the id of the document. `headings` are the headings above the passage, outermost first.
    """

    doc: str
    start: int
    end: int
    text: str
    headings: str = ""

    @property
    def digest(self) -> str:
        """The SHA-256 of the text, which determines the turn of the passage and the kind of its question."""
        return _digest(self.text)


@dataclass(frozen=True, slots=True)
class DraftCorpus:
    """A corpus in memory. Questions are written from `usable` passages; others are counted by reason."""

    digest: str
    name: str
    documents: dict[str, str]
    passages: list[Passage]
    usable: list[Passage]
    skipped: dict[str, int]

    def as_json(self) -> dict[str, Json]:
        """Return the entry of the corpus in draft.json."""
        counts = {"documents": len(self.documents), "passages": len(self.passages), "skipped": self.skipped}
        return {"digest": self.digest, "name": self.name, **counts}


def read_corpus(path: Path, n: int) -> DraftCorpus:
    """Read a corpus, cut it into passages, and count unsuitable passages by reason.

    Raises InputError for an office file (such as PDF) without a text file of the same name, for a document
    that is HTML, and if fewer than n / 3 passages are suitable.
    """
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    texts = {file.with_suffix("") for file in files if file.suffix.lower() not in _OFFICE}
    for file in sorted(files):
        if file.suffix.lower() in _OFFICE and file.with_suffix("") not in texts:
            fix = f"make text of it first: markitdown {file.name} > {file.stem}.md"
            raise InputError(f"{file.name} is not text", fix=fix)
    corpus = Corpus(path)
    documents = dict(corpus.documents())
    for doc, text in documents.items():
        if doc.lower().endswith((".html", ".htm")) and "</" in text:
            text_file = f"{doc.rpartition('.')[0]}.md"
            fix = f"make text of it first, and move it away: markitdown {doc} > {text_file}"
            raise InputError(f"{doc} is HTML, whose tags would be read as text", fix=fix)
    name, digest = (str(corpus.identity[key]) for key in ("name", "digest"))
    passages = [passage for doc, text in documents.items() for passage in cut(doc, text)]
    usable, counts = _sort_out(passages, documents)
    if 3 * len(usable) < n:
        skipped = ", ".join(f"{count} {reason}" for reason, count in counts.items())
        can = f"{counted(len(usable), 'passage')} of {path} are usable (left out: {skipped or 0})"
        raise InputError(f"{can}, too few for -n {n}", fix="give more documents or a smaller -n")
    return DraftCorpus(digest, name, documents, passages, usable, counts)


def cut(doc: str, text: str) -> Iterator[Passage]:
    """Yield the passages of a document; up to 400 words are one passage.

    A longer document is cut at headings, then at paragraphs, then between words. `doc` is its id.
    """
    if len(_words(text)) <= LONGEST:
        yield Passage(doc, 0, len(text), text)
        return
    starts, above = [(0, "")], dict[int, str]()
    for match in _HEADING.finditer(text):
        level = len(match["marks"]) if match["marks"] else 1 + _LINES.index(match["line"])
        above = {at: name for at, name in above.items() if at < level}
        above[level] = (match["atx"] or match["under"]).strip()
        starts.append((match.start(), " > ".join(above.values())))
    for (start, headings), (end, _) in pairwise([*starts, (len(text), "")]):
        for first, last in _pieces(text, start, end):
            if text[first:last].strip():
                yield Passage(doc, first, last, text[first:last], headings)


def _pieces(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    """Yield the spans of the passages of a section, which extends from `start` to `end` of the text."""
    breaks = [start, *(match.end() for match in _PARAGRAPH.finditer(text, start, end)), end]
    begun, count = start, 0
    for first, last in pairwise(breaks):
        words = _words(text[first:last])
        if count > SHORTEST and count + len(words) > LONGEST:
            yield begun, first
            begun, count = first, 0
        while len(words) > LONGEST:
            yield begun, first + words[LONGEST]
            begun, words = first + words[LONGEST], words[LONGEST:]
        count += len(words)
    if begun < end:
        yield begun, end


def _words(text: str) -> list[int]:
    """Return the offsets of the words in a text; two characters count as a word in scripts without spaces."""
    return [match.start() for match in re.finditer(r"\S{1,2}" if is_unspaced(text) else r"\S+", text)]


def _sort_out(passages: Sequence[Passage], documents: dict[str, str]) -> tuple[list[Passage], dict[str, int]]:
    """Return the passages from which questions may be written, and the number of the others by reason."""
    lines = Counter[str]()
    for text in {*documents.values()}:
        lines.update({line.strip() for line in text.splitlines()} - {""})
    least = max(2.0, _HEADER_SHARE * len(documents))
    repeated = {line for line, count in lines.items() if count > least}
    usable, skipped = list[Passage](), Counter[str]()
    seen, shingles, by_value = set[str](), list[np.ndarray](), defaultdict[int, list[int]](list)
    for passage in passages:
        own = "\n".join(line for line in passage.text.splitlines() if line.strip() not in repeated)
        words, folded = terms(own), " ".join(passage.text.split())
        if len(words) < SHORTEST:
            skipped["repeated header" if len(terms(passage.text)) >= SHORTEST else "short"] += 1
        elif 2 * sum(map(len, _FILLING.findall(own))) > len("".join(own.split())):
            skipped["contents, links or numbers"] += 1
        elif folded in seen:
            skipped["duplicate"] += 1
        elif _is_near(words, shingles, by_value):
            skipped["near duplicate"] += 1
        else:
            seen.add(folded)
            usable.append(passage)
    return usable, dict(sorted(skipped.items()))


def _is_near(words: Sequence[str], shingles: list[np.ndarray], by_value: dict[int, list[int]]) -> bool:
    """Return True if the shingles of a text have a Jaccard similarity of 0.9 with an earlier text's.

    Such texts almost always share one of their eight smallest shingles; `by_value` finds texts by these.
    """
    joined = (" ".join(words[at : at + _SHINGLE]) for at in range(len(words) - _SHINGLE + 1))
    own = np.unique(np.fromiter((crc32(text.encode()) for text in joined), np.uint32))
    sketch = own[:_SKETCH].tolist()
    for other in {number for value in sketch for number in by_value[value]}:
        shared = len(np.intersect1d(own, shingles[other], assume_unique=True))
        if shared >= _NEAR * (len(own) + len(shingles[other]) - shared):
            return True
    for value in sketch:
        by_value[value].append(len(shingles))
    shingles.append(own)
    return False
