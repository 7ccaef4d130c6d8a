"""How much a word tells: from a short list of common words, never from the texts of an evaluation.

A rarity counted in the evaluation's own texts would make a verdict depend on what else is judged.
"""

from __future__ import annotations

import re
import tomllib
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple, TypeAlias

from germane.questions.text import stem, words

__all__ = ["Term", "Terms", "is_common", "is_function_word", "terms"]

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
