"""The checks of a candidate that cost nothing. Each drops it with a reason; none is asked twice and none has a threshold that moves."""

from __future__ import annotations

import re
import tomllib
import unicodedata
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from germane.addons.draft.bm25 import is_unspaced, terms
from germane.addons.draft.questions import Candidate
from germane.questions.text import folded, stem, words

FEWEST, MOST, COPIED, AVOIDED, ALIKE = 3, 40, 8, 8, 0.8
"""Words of a question at least and at most, words in a row that are a copy, words to avoid, Jaccard of a repeat."""


class Language(NamedTuple):
    """A language: its script, words that give it away and phrases that point at a text which is not shown."""

    name: str
    script: str
    words: frozenset[str]
    pointing: re.Pattern[str]


@cache
def _languages() -> Sequence[Language]:
    table = tomllib.loads(Path(__file__).with_name("languages.toml").read_text("utf-8"))
    result = []
    for name, row in table.items():
        spaced = row["script"] not in {"Han", "Kana", "Hangul", "Thai"}
        edge = r"(?<!\w)", r"(?!\w)"
        phrases = "|".join(re.escape(folded(phrase)) for phrase in row["pointing"])
        pattern = f"{edge[0]}(?:{phrases}){edge[1]}" if spaced else phrases
        result.append(Language(name, row["script"], frozenset(row["words"].split()), re.compile(pattern)))
    return result


_SCRIPTS = (
    ("HIRAGANA", "Kana"), ("KATAKANA", "Kana"), ("CJK", "Han"), ("HANGUL", "Hangul"), ("THAI", "Thai"), ("LATIN", "Latin"),
    ("CYRILLIC", "Cyrillic"), ("GREEK", "Greek"), ("ARABIC", "Arabic"), ("DEVANAGARI", "Devanagari"), ("HEBREW", "Hebrew"),
)  # fmt: skip


@cache
def _script_of(letter: str) -> str:
    name = unicodedata.name(letter, "")
    first: str = name.partition(" ")[0]
    return next((script for begin, script in _SCRIPTS if name.startswith(begin)), first)


def scripts_in(text: str) -> Counter[str]:
    """The number of letters of each script; Han beside kana counts as kana."""
    counts = Counter(_script_of(letter) for letter in text if letter.isalpha())
    if counts["Kana"]:
        counts["Kana"] += counts.pop("Han", 0)
    return counts


def language_of(text: str) -> tuple[str, Counter[str]]:
    """The script of most letters of a text, and for each language of it the number of its words that stand in the text."""
    counts = scripts_in(text)
    script = counts.most_common(1)[0][0] if counts else ""
    listed = re.findall(r"[^\W\d_]+", folded(text))
    hits = Counter(
        {
            language.name: sum(word in language.words for word in listed)
            for language in _languages()
            if language.script == script
        }
    )
    return script, hits


_CHINESE_ALONE = frozenset("吗嗎么麼哪怎们們这這呢谁誰您")
"""Letters of Chinese questions that Japanese does not use in words of kanji alone."""


def other_language(question: str, passage: str, wanted: str) -> bool:
    """True if a question is not in the named language, else not in that of the passage, as far as that can be told."""
    script, hits = language_of(question)
    named = next((language for language in _languages() if language.name == wanted.strip().lower()), None)
    if named is None:
        if wanted.strip():  # not in the table: it cannot be told
            return False
        expected, theirs = language_of(passage)
        if (script, expected) == ("Han", "Kana"):  # search words of Japanese are often kanji alone
            return bool(set(question) & _CHINESE_ALONE)
        if script != expected and not (
            script == "Latin" and scripts_in(passage)["Latin"] and not sum(hits.values())
        ):
            return script in {"Han", "Kana"} or expected not in scripts_in(question) or sum(hits.values()) > 1
        names = {name for name, count in theirs.items() if count and count >= 0.7 * max(theirs.values())}
    else:
        if script != named.script and not (named.script == "Kana" and script == "Han"):
            return bool(script)
        names = {named.name}
    best = max(hits.values(), default=0)
    foreign = not question.isascii() and passage.isascii()  # accents and signs that the passage does not have
    return bool(names) and best >= 2 - foreign and all(hits[name] < 0.5 * best for name in names)


@cache
def function_words() -> frozenset[str]:
    """The words of all languages that carry no content."""
    return frozenset().union(*(language.words for language in _languages()))


def content_words(text: str) -> list[str]:
    """The stems of the distinct content words of a text, in order."""
    return list(dict.fromkeys(stem(word) for word in words(text) if word not in function_words()))


def words_to_avoid(passage: str) -> tuple[str, ...]:
    """The eight longest content words of a passage, one of each stem: rare words are long, and no other document changes them."""
    by_stem: dict[str, str] = {}
    for word in re.findall(r"[^\W\d_]{4,}", folded(passage)):
        if word not in function_words():
            by_stem.setdefault(stem(word), word)
    return tuple(sorted(by_stem.values(), key=lambda word: (-len(word), word))[:AVOIDED])


# Quotes


def find_quote(quote: str, text: str) -> tuple[int, int] | None:
    """The span of a text that is the quote, white space folded; None where it does not stand there to the letter."""
    pieces = [re.escape(piece) for piece in quote.split()]
    matches = re.finditer(r"\s+".join(pieces), text) if pieces else ()
    return next((match.span() for match in matches if _is_whole(text, *match.span())), None)


def _is_whole(text: str, start: int, end: int) -> bool:
    """True if a span begins and ends between words; scripts without spaces have no such places."""
    edges = (text[max(0, at - 1) : at + 1] for at in (start, end))
    return not any(len(edge) == 2 and edge.isalnum() and not is_unspaced(edge) for edge in edges)


# Personal data

_EMAIL = re.compile(r"[\w.+%-]+@[\w-]+(?:\.[\w-]+)+")
_PHONE = re.compile(
    r"(?<![\w.])(?:\+\d|\(0|0(?![.,]))(?:(?:\) ?|[\s(/.-])?\d){7,13}(?![\w.]?\d)|(?<![\w.])(?:\(\d{3}\) ?|\d{3}[ .-])\d{3}[ .-]\d{4}(?![\w.]?\d)"
)
_IBAN = re.compile(r"\b[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?\b")
_CARD = re.compile(r"(?<!\d)\d(?:[ -]?\d){12,18}(?!\d)")
_LONG = re.compile(r"(?<![\d.])\d{9,}(?![\d.])")


def _luhn(number: str) -> bool:
    digits = [int(char) for char in number if char.isdigit()][::-1]
    return not (sum(digits[::2]) + sum(sum(divmod(2 * digit, 10)) for digit in digits[1::2])) % 10


def personal_data(text: str) -> str:
    """The kind of personal data in a text; "" where there is none that can be told."""
    if _EMAIL.search(text):
        return "an e-mail address"
    if _IBAN.search(text):
        return "an IBAN"
    if any(_luhn(match.group()) for match in _CARD.finditer(text)):
        return "a card number"
    if _PHONE.search(text):
        return "a telephone number"
    return "a long number" if _LONG.search(text) else ""


# A candidate

_NUMBER = re.compile(r"\d+(?:[.,:]\d+)*")
_NAME = re.compile(r"(?<![.!?:…]\s)(?<=\S\s)[A-ZÀ-ÖØ-ÞА-ЯΑ-Ω][\w'’-]+")


def unsupported(candidate: Candidate) -> str:
    """The first number or name of the answer that stands neither in the quotes nor in the question; "" where all do."""
    known = folded(" ".join([*candidate.quotes, candidate.question]))
    numbers, stated = set(_NUMBER.findall(known)), list[str](_NUMBER.findall(candidate.answer))
    if number := next((number for number in stated if number not in numbers), ""):
        return number
    if dict(language_of(candidate.answer)[1].most_common(1)).get("german"):  # whose nouns all have capitals
        return ""
    names: list[str] = _NAME.findall(candidate.answer)
    return next((name for name in names if folded(name) not in known), "")


def is_copied(question: str, passage: str) -> bool:
    """True if eight words in a row stand in the passage, of scripts without spaces sixteen pairs of characters."""
    listed, whole = terms(question), f" {' '.join(terms(passage))} "
    size = COPIED * (1 + is_unspaced(question))
    return any(f" {' '.join(listed[at : at + size])} " in whole for at in range(len(listed) - size + 1))


def faults(
    candidate: Candidate,
    passage: str,
    avoid: Sequence[str],
    language: str,
    *,
    answerable: bool,
    allow_personal: bool,
) -> Iterator[tuple[str, str]]:
    """Each fault of a candidate, with what shows it; the first decides."""
    question = candidate.question
    if answerable:
        yield from _faults_of_answer(candidate, passage)
    everything = " \n ".join([question, candidate.answer, *candidate.quotes])
    if not allow_personal and (what := personal_data(everything)):
        yield "personal data", what
    if phrase := _pointing(question):
        yield "points at the text", phrase
    count, factor = len(terms(question)), 1 + is_unspaced(question)
    if not FEWEST <= count <= MOST * factor:
        yield "length", f"{count} words"
    if other_language(question, passage, language):
        yield "another language", question
    if is_copied(question, passage):
        yield "copied", question
    used = {stem(word) for word in words(question)} if avoid else set()
    if hit := next((word for word in avoid if stem(word) in used), ""):
        yield "forbidden word", hit


def _faults_of_answer(candidate: Candidate, passage: str) -> Iterator[tuple[str, str]]:
    """The faults of an answer and its quotes."""
    if not candidate.quotes or not candidate.answer.strip():
        yield "no answer or quote", ""
    for quote in candidate.quotes:
        if find_quote(quote, passage) is None:
            yield "quote not in the passage", quote
    if name := unsupported(candidate):
        yield "answer not in the quotes", name


def _pointing(question: str) -> str:
    """The phrase by which a question points at a text that is not shown; "" where there is none."""
    text, scripts, hits = folded(question), scripts_in(question), language_of(question)[1]
    for known in _languages():
        spoken = known.script != "Latin" or known.name == "english" or hits[known.name]
        if known.script in scripts and spoken and (match := known.pointing.search(text)):
            return match.group()
    return ""


class Earlier:
    """The candidates of earlier attempts, for repeats."""

    def __init__(self) -> None:
        self._bags: list[frozenset[str]] = []
        self._texts, self._quotes = set[str](), set[str]()

    def repeats(self, candidate: Candidate) -> str:
        """What an earlier attempt has already: the question, one much like it, or a quote; "" where none has."""
        text, bag = self._normal(candidate.question), frozenset(terms(candidate.question))
        if text in self._texts:
            return "the same question"
        if any(len(bag & other) >= ALIKE * len(bag | other) for other in self._bags):
            return "a question much like it"
        return (
            "the same quote" if any(self._normal(quote) in self._quotes for quote in candidate.quotes) else ""
        )

    def add(self, candidate: Candidate) -> None:
        """Remember a candidate that passed the other checks."""
        self._texts.add(self._normal(candidate.question))
        self._bags.append(frozenset(terms(candidate.question)))
        self._quotes.update(map(self._normal, candidate.quotes))

    @staticmethod
    def _normal(text: str) -> str:
        return " ".join(terms(text))


def reason_counts(rows: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, int]]:
    """Attempts by step and reason."""
    result: dict[str, Counter[str]] = {}
    for row in rows:
        result.setdefault(row["step"], Counter())[row["reason"]] += 1
    return {step: dict(sorted(counts.items())) for step, counts in result.items()}
