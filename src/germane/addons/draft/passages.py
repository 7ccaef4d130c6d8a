"""Passages of a corpus: long documents cut at headings and paragraphs, and passages unsuitable for questions."""

from __future__ import annotations

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from zlib import crc32

import numpy as np

from germane.addons.draft.bm25 import is_unspaced, terms
from germane.errors import InputError
from germane.labelling.corpus import Corpus

LONGEST, SHORTEST = 400, 25
"""Words of a passage: longer texts are cut, shorter passages get no question."""
_LINES = "=-~^*"
"""The characters that underline headings, outermost first."""
_HEADING = re.compile(
    rf"^(?:(?P<marks>#{{1,6}}) +(?P<atx>\S.*?) *#*|(?P<under>[^\s#].{{0,118}})\n(?P<line>[{re.escape(_LINES)}])(?P=line){{2,}})[ \t]*$",
    re.MULTILINE,
)
_PARAGRAPH = re.compile(r"\n[ \t]*\n+")
_FILLING = re.compile(r"https?://\S+|\[[^\]\n]*\]\([^)\n]*\)|\.{2,}|[\d.…]")
"""What contents pages and lists of links consist of."""
_OFFICE = {".pdf", ".docx", ".doc", ".pptx", ".odt", ".epub"}
_HEADER_SHARE, _SHINGLE, _NEAR, _SKETCH = 0.2, 5, 0.9, 8


@dataclass(frozen=True, slots=True)
class Passage:
    """A passage of a document: `text` is `document[start:end]`; `headings` are the headings above it, outermost first."""

    doc: str
    start: int
    end: int
    text: str
    headings: str = ""

    @property
    def digest(self) -> str:
        """The SHA-256 of the text, which decides the turn of the passage and the kind of its question."""
        return hashlib.sha256(self.text.encode("utf-8", "replace")).hexdigest()


@dataclass(frozen=True, slots=True)
class DraftCorpus:
    """A corpus in memory: the text of each document, all passages, and those that questions may come from."""

    digest: str
    name: str
    documents: dict[str, str]
    passages: list[Passage]
    usable: list[Passage]
    skipped: dict[str, int]


def read_corpus(path: Path) -> DraftCorpus:
    """Read a corpus, cut it into passages, and exclude unsuitable ones, counted by reason.

    Raises:
        InputError: A PDF or office file has no text file of the same name beside it.
    """
    files = [path] if path.is_file() else [file for file in path.rglob("*") if file.is_file()]
    texts = {file.with_suffix("") for file in files if file.suffix.lower() not in _OFFICE}
    for file in sorted(files):
        if file.suffix.lower() in _OFFICE and file.with_suffix("") not in texts:
            fix = f"make text of it first: markitdown {file.name} > {file.stem}.md"
            raise InputError(f"{file.name} is not text", fix=fix)
    corpus = Corpus(path)
    documents = dict(corpus.documents())
    identity = corpus.identity
    passages = [passage for doc, text in documents.items() for passage in cut(doc, text)]
    usable, skipped = _sort_out(passages, documents)
    return DraftCorpus(str(identity["digest"]), str(identity["name"]), documents, passages, usable, skipped)


def cut(doc: str, text: str) -> Iterator[Passage]:
    """Cut a document of more than 400 words at headings, then at paragraphs, then between words."""
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
    """Yield the spans of a section: as many whole paragraphs as fit, and long paragraphs in pieces."""
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
    """Return the passages that questions may come from, and the number of others by reason."""
    lines = Counter(
        line for text in documents.values() for line in {line.strip() for line in text.splitlines()} - {""}
    )
    least = max(2.0, _HEADER_SHARE * len(documents))
    repeated = {line for line, count in lines.items() if count > least}
    usable, skipped = list[Passage](), Counter[str]()
    seen, shingles, by_value = set[str](), list[np.ndarray](), defaultdict[int, list[int]](list)
    for passage in passages:
        own = "\n".join(line for line in passage.text.splitlines() if line.strip() not in repeated)
        words, folded = terms(own), " ".join(passage.text.split())
        if len(words) < SHORTEST:
            skipped["repeated header" if len(terms(passage.text)) >= SHORTEST else "short"] += 1
        elif _is_filling(own):
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
    """Return True if an earlier text shares nine tenths of this one's shingles; else add them to these.

    Two such texts almost always share one of their eight smallest, by which `by_value` names the texts.
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


def _is_filling(text: str) -> bool:
    """Return True if more than half of the characters, white space aside, are digits, dots and links."""
    whole = sum(not char.isspace() for char in text)
    return 2 * sum(len(match.group()) for match in _FILLING.finditer(text)) > whole
