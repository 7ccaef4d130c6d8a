"""What the lexical rule knows of words: how much one tells, and which look like names, dates or numbers.

A word's weight is fixed by lists of common words: a rarity counted in the evaluation's own texts would make a verdict
depend on what else is judged.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from germane.questions.text import stem, words

VERY_COMMON, COMMON, TELLING = 0.4, 0.7, 1.0
"""The weights of English's commonest 200 content words, of the next 800, and of every other word."""


class Term(NamedTuple):
    """A content word: as it was written, what it is compared by, how much it tells."""

    word: str
    stem: str
    weight: float


Terms: TypeAlias = tuple[Term, ...]

_ACRONYM = re.compile(r"\b[A-Z]{2,}\b")


@lru_cache(maxsize=1)
def _weights() -> MappingProxyType[str, float]:
    lists = tomllib.loads((Path(__file__).parent / "common_words.toml").read_text("utf-8"))
    weights = dict.fromkeys(lists["common"]["first"].split(), VERY_COMMON)
    weights |= dict.fromkeys(lists["common"]["second"].split(), COMMON)
    for language in lists["function"].values():
        weights |= dict.fromkeys(language.split(), 0.0)
    return MappingProxyType(weights)


@lru_cache(maxsize=4096)
def terms(text: str) -> Terms:
    """The content words of a text, each stem once; where it has none, all its words.

    A function word in capitals is a name ("WHO", "IT", "US") unless all of the text is in capitals.
    """
    names = set() if text.isupper() else {word.lower() for word in _ACRONYM.findall(text)}
    found = {word: TELLING if word in names else _weigh(word) for word in words(text)}
    telling = {word: weight for word, weight in found.items() if weight} or dict.fromkeys(found, TELLING)
    heaviest: dict[str, Term] = {}
    for word, weight in telling.items():
        term = Term(word, stem(word), weight)
        if term.stem not in heaviest or heaviest[term.stem].weight < weight:
            heaviest[term.stem] = term
    return tuple(heaviest.values())


def is_function_word(word: str) -> bool:
    """Whether a word only holds a sentence together: "the", "und", "de"."""
    return _weights().get(word.lower()) == 0.0


def is_common(word: str) -> bool:
    """Whether a word is among those that tell little."""
    return word.lower() in _weights()


def _weigh(word: str) -> float:
    if not word.isascii() and all("\u3040" <= c <= "\u309f" for c in word):
        return VERY_COMMON  # Hiragana alone is mostly Japanese grammar
    return _weights().get(word, TELLING)


_MONTH = (
    r"(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sep(?:t(?:ember)?)?|Oct(?:ober)?|"
    r"Nov(?:ember)?|Dec(?:ember)?|Januar|Februar|M\u00e4rz|Mai|Juni|Juli|Oktober|Dezember)"
)
_DATE = (
    rf"\d{{1,2}}\.?\s+{_MONTH}\.?(?:\s+\d{{3,4}})?|{_MONTH}\s+\d{{4}}|"
    rf"{_MONTH}\.?\s+\d{{1,2}}(?:,?\s+\d{{4}})?|"
    r"\d{1,4}[-/.]\d{1,2}[-/.]\d{1,4}|\d+\u5e74(?:\d+\u6708)?(?:\d+\u65e5)?|\d+\u6708\d+\u65e5"
)
_NUMBER = r"\d+(?:[.,]\d+)*\s?(?:%|\u00b0[CF]?|[\u20ac$\u00a3])?"
_QUOTED = r"[\u300a\u300c\u300e]([^\u300b\u300d\u300f]{1,40})[\u300b\u300d\u300f]"
_KATAKANA = r"[\u30a1-\u30ff]{2,}(?:\u30fb[\u30a1-\u30ff]{2,})*"
_CAPITAL = r"[A-Z\u00c0-\u00d6\u00d8-\u00de\u0391-\u03a9\u0410-\u042f][^\W_]*(?:[-'\u2019&][^\W_]+)*"
_LINK = r"(?:of|the|de|da|do|la|le|van|von|der|und|and|al)"
_NAME = rf"{_CAPITAL}(?:(?:(?<=[^\w][A-Z])\.)?\s+(?:{_LINK}\s+){{0,2}}{_CAPITAL}|\s+\d+(?![\w.,])){{0,7}}"
_ENTITY = re.compile(
    rf"(?P<date>{_DATE})|(?P<name>{_NAME})|(?P<number>{_NUMBER})|{_QUOTED}|(?P<katakana>{_KATAKANA})"
)

_STARTS = re.compile(r"(?:[.!?:;\n\u2022*-]\s*)[\"'(\[\u201c\u2018\u00ab\s]*\Z")


def names(text: str) -> list[str]:
    """What looks like a name, a date or a number, each spelling once, in order.

    A name is a run of words with capitals, in Chinese and Japanese what stands in title marks or in Katakana. A function
    word is none; a single word that begins a sentence is one unless it is common, or stands in small letters elsewhere.
    """
    found = list(_found(text))
    inside = {name for name, first in found if not first}
    small = {word for word in re.findall(r"[^\W_]+", text) if word.islower()}
    kept = (
        name
        for name, first in found
        if not first or name in inside or not (is_common(name) or name.lower() in small)
    )
    return list(dict.fromkeys(kept))


def _found(text: str) -> Iterator[tuple[str, bool]]:
    """Each candidate, and whether it is a single word that begins a sentence."""
    at = 0
    while match := _ENTITY.search(text, at):
        at = match.end()
        name = match["name"]
        first = name.split()[0] if name else ""
        if first and is_function_word(first):
            at = match.start() + len(first)  # "On July 4": what follows is looked at for itself
            continue
        before = text[max(0, match.start() - 8) : match.start()]
        found = " ".join(next(filter(None, match.groups()), match[0]).strip(" .,").split())
        single = name is not None and " " not in found
        if found:
            yield found, single and (match.start() == 0 or _STARTS.search(before) is not None)
