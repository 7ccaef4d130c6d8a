"""Questions that a test set asks more than once: equal but for case, punctuation and courtesy, or for one slip of the pen."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterator, Sequence
from itertools import combinations
from typing import TypeAlias
from unicodedata import normalize

from germane.questions.text import words

SHORTEST = 5
"""Letters from which on two words that differ in one letter may be one word misspelt (see docs/benchmarks.md)."""
_KEPT = 3
"""Words that two questions must share where one of them has a word more, or has them in another order."""
_NEGATIONS = frozenset({"not", "no", "never", "without", "except", "non"})
_FILLERS = frozenset(
    re.findall(
        r"\w+", "a an the please kindly do does did is are was were be been am can could will would s re"
    )
)
_COURTESY = re.compile(
    r"^(?:(?:hi|hello|hey|thanks|please|kindly|and|so)\s+)*"
    r"(?:(?:can|could|would|will) you (?:please |kindly )?(?:tell|explain to|show|give) (?:me|us)\s+"
    r"|i (?:want|need|would like|d like) to know\s+|(?:tell|show) me\s+)?"
)
_NOT = re.compile(r"(?<=[a-z])n['\u2019]t\b|(?<=\bcan)not\b", re.IGNORECASE)
_ACCENTS = dict.fromkeys(range(0x300, 0x370))
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}\b)")

Words: TypeAlias = tuple[str, ...]
Key: TypeAlias = tuple[Hashable, Words]
"""What was said before a question, and its content words."""


def content_words(text: str) -> Words:
    """Return the content words of a question in order, without articles, auxiliaries, courtesy, accents and plural s."""
    bare = normalize("NFC", normalize("NFD", text).translate(_ACCENTS)) if not text.isascii() else text
    spaced = " ".join(words(_THOUSANDS.sub("", _NOT.sub(" not", bare))))
    spaced = re.sub(r"\b(?:ca|wo) (?=not\b)", "", spaced)
    listed = spaced[_COURTESY.match(spaced).end() :].split()  # type: ignore[union-attr]
    kept = [word for word in listed[:-1] if word not in _FILLERS]
    kept += [word for word in listed[-1:] if word not in _FILLERS or len(word) == 1]  # as in vitamin A
    kept = kept or listed
    plain = [word[:-1] if len(word) > 3 and word[-1] == "s" and word[-2] != "s" else word for word in kept]
    while len(plain) > 1 and plain[-1] in {"please", "thank", "you"}:
        plain.pop()
    return tuple(plain)


def repeated(
    texts: Sequence[str],
    situations: Sequence[Hashable],
    gold: Sequence[Collection[str]],
    *,
    known: Collection[str] = (),
    shortest: int = SHORTEST,
) -> list[list[int]]:
    """Return the positions of the questions that are one question, group by group; time and memory grow with the words.

    Two are one where their content words are equal; where these differ in one misspelt word, unless their gold differs or both
    spellings occur elsewhere; and where one has a word more, or the words in another order, and the gold is the same.

    Args:
        texts: The questions.
        situations: What was said before each one: questions of different situations are never one.
        gold: The relevant documents of each one, as far as they are known.
        known: Words of the corpus, which are not misspelt.
        shortest: Letters from which on a word may be misspelt.
    """
    groups: dict[tuple[Hashable, str], list[int]] = defaultdict(list)
    keys: list[Key] = []
    for at, (text, situation) in enumerate(zip(texts, situations, strict=True)):
        if listed := content_words(text):
            group = groups[situation, "".join(listed)]  # e-mail is email
            if not group:
                keys.append((situation, listed))
            group.append(at)
    documents = [frozenset[str]().union(*(gold[at] for at in group)) for group in groups.values()]
    uses = Counter(word for _, content in keys for word in set(content))
    above = list(range(len(keys)))

    def root(at: int) -> int:
        while above[at] != at:
            above[at] = at = above[above[at]]
        return at

    for first, second, one, other in _near(keys, shortest):
        if not one or not other:
            same = bool(documents[first]) and documents[first] == documents[second]
        else:
            apart = documents[first] and documents[second] and documents[first].isdisjoint(documents[second])
            same = not apart and any(uses[word] == 1 and word not in known for word in (one, other))
        if same:
            above[root(first)] = root(second)
    merged: dict[int, list[int]] = defaultdict(list)
    for number, group in enumerate(groups.values()):
        merged[root(number)] += group
    return sorted(sorted(group) for group in merged.values() if len(group) > 1)


def _near(keys: Sequence[Key], shortest: int) -> Iterator[tuple[int, int, str, str]]:
    """Yield pairs of questions that differ in one word or in word order, with the two words, "" where only one has it."""
    position = {key: number for number, key in enumerate(keys)}
    orders: dict[Key, int] = {}
    rests: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for number, (situation, listed) in enumerate(keys):
        first = orders.setdefault((situation, tuple(sorted(listed))), number)
        if first != number and len(listed) >= _KEPT:
            yield number, first, "", ""
        for at in range(len(listed)):
            rests[hash((situation, at, listed[:at], listed[at + 1 :]))].append((number, at))
            shorter = position.get((situation, listed[:at] + listed[at + 1 :]))
            word = listed[at]
            if shorter is not None and len(listed) > _KEPT and word.isalpha() and word not in _NEGATIONS:
                yield number, shorter, word, ""
    for alike in rests.values():
        if len(alike) > 1:
            of_rest: dict[Key, list[tuple[int, str]]] = defaultdict(
                list
            )  # where hashes meet, the words decide
            for number, at in alike:
                situation, listed = keys[number]
                of_rest[(situation, at), listed[:at] + listed[at + 1 :]].append((number, listed[at]))
            for some in of_rest.values():
                yield from _misspelt(some, shortest)


def _misspelt(alike: Sequence[tuple[int, str]], shortest: int) -> Iterator[tuple[int, int, str, str]]:
    """Yield pairs of words in one place that differ by one slip: a letter more, less, other or swapped."""
    forms: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for number, word in alike:
        if len(word) >= shortest and word.isalpha():
            for form in {word, *(word[:at] + word[at + 1 :] for at in range(1, len(word)))}:
                forms[form].append((number, word))
    seen = set[tuple[int, int]]()
    for some in forms.values():
        for (first, one), (second, other) in combinations(some[:_MOST_ALIKE], 2):
            if (first, second) not in seen and one != other and _one_slip(one, other):
                seen.add((first, second))
                yield first, second, one, other


_MOST_ALIKE = 50
"""Words compared that become the same by leaving out one letter: more are a list of codes, not misspellings."""


def _one_slip(one: str, other: str) -> bool:
    """Return True if one letter more, less or other, or two neighbours swapped, make one word the other."""
    if len(one) > len(other):
        one, other = other, one
    start = 0
    while start < len(one) and one[start] == other[start]:
        start += 1
    if len(one) < len(other):
        return one[start:] == other[start + 1 :]
    if one[start + 1 :] == other[start + 1 :]:
        return True
    return one[start : start + 2] == other[start : start + 2][::-1] and one[start + 2 :] == other[start + 2 :]
