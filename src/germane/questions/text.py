"""Split text in any script into words, stems and sentences, for the lexical rules."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from itertools import chain, pairwise

__all__ = ["folded", "stem", "words"]

_MARKS = "\u0300-\u036f\u0591-\u05bd\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff\u0e31-\u0e3a\u0e47-\u0e4e"
"""Marks that combine with the letter before: accents, Hebrew and Arabic points, Indic and Thai vowels."""
_WORD = re.compile(rf"\d+(?:[.,]\d+)+|[^\W_](?:[^\W_]|[{_MARKS}])*")
_ASCII_WORD = re.compile(r"[a-z0-9]+(?:(?<=\d)[.,]\d[a-z0-9]*)*")
_UNSPACED = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af"
"""Scripts without spaces between words, and Korean, whose words have endings. Both are cut into pairs."""
_RUNS = re.compile(f"([^{_UNSPACED}]+)|([{_UNSPACED}]+)")
_DROPPED = dict.fromkeys([*range(0x300, 0x370), *range(0x64B, 0x660), 0x670, 0x640])
"""Accents, Arabic points and the Arabic stretch mark, which are removed before words are compared."""
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_ARABIC_ARTICLE = re.compile("^[\u0648\u0628\u0641\u0643]?\u0627\u0644(?=...)")
_ENDINGS = (
    (("ies", "y"), ("es", ""), ("s", "")),
    (("ing", ""), ("ed", ""), ("est", ""), ("er", ""), ("ly", "")),
)
_SHORTEST, _CUT = 4, 6

_ABBREVIATIONS = (
    "mr mrs ms dr prof sr jr st vs e.g i.e cf ca approx resp fig figs eq no nos vol pp ed eds al inc ltd co corp dept est gen col"
    " sen rep gov u.s u.k z.b d.h u.a bzw usw nr abb vgl str jan feb mar apr jun jul aug sep sept oct nov dec"
)
_NO_END = frozenset(_ABBREVIATIONS.split())
_BREAK = re.compile(
    r"(?<=[.!?…])[\"'”’»)\]]*\s+|(?<=[\u3002\uff01\uff1f\u061f\u0964\u06d4])[\u300d\u300f”]*\s*|;\s+|\n\s*"
)
_BULLET = re.compile(r"^\s*(?:[-*•–]|\(?\d{1,2}[.)])\s+")
_LOOK_BACK = 40


def folded(text: str) -> str:
    """Return a text in the form in which words are compared: NFKC, case-folded, without soft hyphens."""
    if text.isascii():
        return text.lower()
    lower = unicodedata.normalize("NFKC", text.replace("\u00ad", "")).casefold()
    return unicodedata.normalize("NFKC", lower.replace("i\u0307", "i"))


def folded_with_offsets(text: str) -> tuple[str, Sequence[int], Sequence[int]]:
    """Return the folded text and, for each of its characters, the start and the end in `text`."""
    whole, lower = folded(text), text.casefold()
    if whole == lower and len(lower) == len(text) and unicodedata.is_normalized("NFKC", text):
        return whole, range(len(text)), range(1, len(text) + 1)
    starts, ends, pieces = list[int](), list[int](), list[str]()
    begins = [at for at, char in enumerate(text) if at == 0 or not _joins(char)]
    for start, end in pairwise([*begins, len(text)]):
        piece = _folded_piece(text[start:end])
        pieces.append(piece)
        starts += [start] * len(piece)
        ends += [end] * len(piece)
    return "".join(pieces), starts, ends


_folded_piece = lru_cache(maxsize=1 << 14)(folded)


@lru_cache(maxsize=1 << 14)
def _joins(char: str) -> bool:
    """Return True if a character combines with the one before it, as marks and Hangul vowels do."""
    first = unicodedata.normalize("NFKD", char)[0]
    return first == "\u00ad" or unicodedata.category(first)[0] == "M" or "\u1160" <= first <= "\u11ff"


def words(text: str) -> list[str]:
    """Return the words of a text in order, in lower case.

    For scripts without spaces, return character pairs.
    """
    if text.isascii():
        return _ASCII_WORD.findall(text.lower())
    results: list[str] = []
    for word in _WORD.findall(folded(text)):
        if word.isascii():
            results.append(word)
            continue
        for spaced, run in _RUNS.findall(word):  # the parts of a word of mixed scripts
            results += [spaced] if spaced else [run[i : i + 2] for i in range(max(1, len(run) - 1))]
    return results


def stem(word: str) -> str:
    """Return the stem of a word, for comparison: without accents and English endings, cut to six letters.

    The cut removes endings in other languages too. Numbers are not cut.
    """
    if not word.isalpha() and any(c.isdigit() for c in word):
        return _THOUSANDS.sub("", word)
    if not word.isascii():
        bare = unicodedata.normalize("NFD", word).translate(_DROPPED)
        word = _ARABIC_ARTICLE.sub("", unicodedata.normalize("NFC", bare))
    for endings in _ENDINGS:
        for ending, instead in endings:
            if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST - 1 and not word.endswith("ss"):
                word = word[: -len(ending)] + instead
                break
    if len(word) > _SHORTEST - 1 and word[-1] == word[-2]:
        word = word[:-1]  # so that running (runn) has the same stem as run
    return word.removesuffix("e")[:_CUT] if len(word) > _SHORTEST else word


@lru_cache(maxsize=1 << 14)
def _stems_of(piece: str) -> tuple[str, ...]:
    """Return the stems of a piece of text between two spaces, cached, because most pieces recur."""
    return tuple(map(stem, words(piece)))


@lru_cache(maxsize=4096)
def stems(text: str) -> frozenset[str]:
    """Return the set of stems of the words in a text."""
    return frozenset(chain.from_iterable(map(_stems_of, set(text.lower().split()))))


def sentences(text: str) -> list[str]:
    """Divide a text into sentences. Line breaks and semicolons end a sentence too; bullets are removed.

    A full stop does not end a sentence after an abbreviation or an initial, inside a number, or before a
    lower-case word.
    """
    results: list[str] = []
    start = 0
    for gap in _BREAK.finditer(text):
        if _ends(text, start, gap):
            results.append(text[start : gap.end()])
            start = gap.end()
    return [clean for line in (*results, text[start:]) if (clean := _BULLET.sub("", line).strip(" \t\r\n;"))]


def _ends(text: str, start: int, gap: re.Match[str]) -> bool:
    """Return True if the sentence that begins at `start` ends at `gap`, a match of `_BREAK`."""
    before, after = text[max(start, gap.start() - _LOOK_BACK) : gap.start()], text[gap.end() : gap.end() + 1]
    if "\n" in gap.group() or not before.endswith("."):
        return bool(before.strip())
    last = before.split()[-1].lstrip("([\"'“\u2018")[:-1]
    is_list_number = before.strip(" (")[:-1].isdigit()
    short = last.lower() in _NO_END or (len(last) == 1 and last.isalpha()) or is_list_number
    return not (short or after.islower())
