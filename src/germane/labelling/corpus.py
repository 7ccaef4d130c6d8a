"""Read a corpus as a stream: its documents, its digest, and the documents that contain given texts.

A corpus is a file with a row per document (JSONL, JSON, CSV, TSV, Parquet), which contains an id and a text.
It can also be a folder: a BEIR folder (`corpus.jsonl`), a folder of such files, or a folder with one text
file per document, whose path is the document's id.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cached_property
from pathlib import Path

from germane.clean import fold
from germane.encoding import Line, internal
from germane.errors import InputError, SourceLocation
from germane.measures.gold import EDGE, tokens
from germane.samples.fields import id_in
from germane.samples.files import Notices, dataset_files, read_text
from germane.samples.reading import READERS, suffix_of
from germane.types import Json

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
            raise InputError(problem, fix="check the path of --corpus", place=self._location)

    def documents(self) -> Iterator[tuple[str, str]]:
        """Yield the id and the text of each document, in the order of the files and their rows."""
        for file in self._files():
            if suffix_of(file) in READERS:
                yield from _rows(file)
            else:
                yield file.relative_to(self.path).as_posix(), read_text(file)

    def _files(self) -> list[Path]:
        """Return the files that hold the corpus's documents. Raises InputError if there are none."""
        if not self.path.is_dir():
            if suffix_of(self.path) not in READERS:
                fix = f"name a {', '.join(READERS)} file, or a folder"
                problem = "a corpus cannot be read from a file with this extension"
                raise InputError(problem, fix=fix, place=self._location)
            return [self.path]
        inside = [file for file in sorted(self.path.rglob("*")) if file.is_file() and file.name[0] != "."]
        rows = dataset_files(self.path, "corpus") or [file for file in inside if suffix_of(file) in READERS]
        paths = rows or [file for file in inside if file.suffix.lower() in _PLAIN]
        if not paths:
            fix = f"put corpus.jsonl there, or {', '.join((*READERS, *_PLAIN))} files"
            raise InputError("this folder has no file with documents", fix=fix, place=self._location)
        return paths

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


def _rows(file: Path) -> Iterator[tuple[str, str]]:
    """Yield the id and the text of each row of a file."""
    reader, _ = READERS[suffix_of(file)]
    for _, row, where in reader(file, Notices()):
        if not isinstance(row, dict):
            raise InputError("this row of the corpus is not a JSON object", fix=_FIX, place=where(()))
        if (document := id_in(row)) is None:
            raise InputError("this document of the corpus has no id", fix=_FIX, place=where(()))
        texts = {fold(key): value for key, value in reversed(row.items())}
        name = next((name for name in _TEXTS if name in texts), None)
        if name is None:
            raise InputError(f"the document {document} of the corpus has no text", fix=_FIX, place=where(()))
        yield document, "" if texts[name] is None else str(texts[name])
