"""Find faulty questions of a test set: questions copied from their gold passage, and repeated questions.

The gold passage of a copied question is easy to find by its words, so the question says little about a
retriever. Two questions are the same if they differ only in case, punctuation, courtesy phrases, or one
misspelt letter.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from itertools import combinations
from typing import TypeAlias
from unicodedata import normalize

from germane.judges.lexical import Terms, coverage, terms
from germane.labelling.testset.reading import TestQuery
from germane.questions.text import stems, words

RUN = 6
"""The least number of consecutive words (a run) that a copied question has in common with its passage."""
PART = 0.65
"""The least proportion of the question's words that this run must contain."""
WHOLE = 5
"""A question of at least this many words is copied if its passage contains all of it."""
SHARE, ENOUGH = 0.8, 9
"""A question with at least ENOUGH content words is copied if its passage contains this SHARE of them."""
ELSEWHERE = 2
"""A question is not copied but a common phrase if more other passages than this contain as much of it."""


@dataclass(frozen=True, slots=True)
class PassageOverlap:
    """The overlap in words of a question with the gold passage most similar to it.

    `run` is the number of words in the longest run of consecutive words that both contain. `length` is the
    number of the question's words, `content` the number of its content words. `share` is the proportion of
    the content words that the passage contains. `run_elsewhere` counts the other passages that contain the
    same run, `share_elsewhere` the other passages that contain at least the same proportion.
    """

    run: int
    length: int
    share: float
    content: int
    run_elsewhere: int
    share_elsewhere: int

    def copied(self, run: int = RUN, part: float = PART, share: float = SHARE, enough: int = ENOUGH) -> bool:
        """Return True if the question counts as copied; RUN, PART, SHARE, ENOUGH explain the thresholds."""
        long = self.run >= run and self.run >= part * self.length
        whole = self.run == self.length >= WHOLE
        return ((long or whole) and self.run_elsewhere <= ELSEWHERE) or (
            self.content >= enough and self.share >= share and self.share_elsewhere <= ELSEWHERE
        )


def overlaps(
    questions: Sequence[str], passages: Sequence[Sequence[str]], rest: Iterable[str]
) -> list[PassageOverlap]:
    """Return each question's overlap with its gold passages, and how many other passages overlap as much.

    `passages` holds the gold passages of each question. `rest` holds the other passages: those of the corpus
    or a random sample of them. It may contain gold passages; a question's own gold passages are not counted.
    """
    asked, passed = [words(text) for text in questions], list(rest)
    uses = Counter(word for text in passed[:_LOOKED_AT] for word in stems(text))
    # words in more passages than this are too common to tell one passage from another
    most = max(_FEW, _COMMON * min(len(passed), _LOOKED_AT))
    content, runs, shares = list[Terms](), list[Words](), list[float]()
    grams: dict[Words, list[int]] = defaultdict(list)  # questions by the first words of their longest run
    holders: dict[str, list[tuple[int, float]]] = defaultdict(list)  # and by content word, with its weight
    for number, (text, listed, gold) in enumerate(zip(questions, asked, passages, strict=True)):
        needed = {stem: term for stem, term in terms(text).items() if uses[stem] <= most} or terms(text)
        run: Words = ()
        for passage in gold:
            matcher = SequenceMatcher(None, listed, words(passage), autojunk=False)
            found = matcher.find_longest_match()
            run = tuple(listed[found.a : found.a + found.size]) if found.size > len(run) else run
        share = max((coverage(needed, stems(passage)) for passage in gold), default=0.0)
        content.append(needed)
        runs.append(run)
        shares.append(share)
        if len(run) >= _GRAM:
            grams[run[:_GRAM]].append(number)
        if len(needed) >= _COUNTED and share >= _HIGH:
            whole = sum(weight for _, weight in needed.values())
            for stem, (_, weight) in needed.items():
                holders[stem].append((number, weight / whole))
    own = [{" ".join(text.split()) for text in texts} for texts in passages]
    same_run, same_share = Counter[int](), Counter[int]()
    for text in passed:
        spaced, listed = " ".join(text.split()), words(text)
        candidates = {
            number
            for at in range(len(listed) - _GRAM + 1)
            for number in grams.get(tuple(listed[at : at + _GRAM]), ())
            if tuple(listed[at : at + len(runs[number])]) == runs[number]
        }
        held = defaultdict[int, float](float)
        for word in holders.keys() & stems(text):
            for number, weight in holders[word]:
                held[number] += weight
        near = (number for number, share in held.items() if share >= shares[number] - _SAME)
        same_run.update(number for number in candidates if spaced not in own[number])
        same_share.update(number for number in near if spaced not in own[number])
    return [
        PassageOverlap(len(run), len(listed), share, len(needed), same_run[number], same_share[number])
        for number, (run, listed, share, needed) in enumerate(zip(runs, asked, shares, content, strict=True))
    ]


_LOOKED_AT, _FEW, _COMMON = 2_000, 10, 0.2
_GRAM, _COUNTED, _HIGH, _SAME = 4, 4, 0.6, 1e-9
"""The least run, number of content words, and share to look for in other passages; the rounding tolerance."""


SHORTEST = 5
"""The least length of two words that may be one word with a misspelt letter (see docs/benchmarks.md)."""
_KEPT = 3  # the least number of common words of two questions that differ by an added word or in word order
_NEGATIONS = frozenset({"not", "no", "never", "without", "except", "non"})
_FILLER_WORDS = "a an the please kindly do does did is are was were be been am can could will would s re"
_FILLERS = frozenset(re.findall(r"\w+", _FILLER_WORDS))
_COURTESY = re.compile(
    r"^(?:(?:hi|hello|hey|thanks|please|kindly|and|so)\s+)*"
    r"(?:(?:can|could|would|will) you (?:please |kindly )?(?:tell|explain to|show|give) (?:me|us)\s+"
    r"|i (?:want|need|would like|d like) to know\s+|(?:tell|show) me\s+)?"
)
_NOT = re.compile(r"(?<=[a-z])n['\u2019]t\b|(?<=\bcan)not\b", re.IGNORECASE)
_ACCENTS = dict.fromkeys(range(0x300, 0x370))
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}\b)")

Words: TypeAlias = tuple[str, ...]
Key: TypeAlias = tuple[str, Words]
"""The conversation before a question, and the question's content words."""


def content_words(text: str) -> Words:
    """Return a question's words in order, without articles, auxiliaries, courtesy, accents and plural s."""
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
    queries: Sequence[TestQuery], *, known: Collection[str] = (), shortest: int = SHORTEST
) -> list[list[int]]:
    """Return the positions of queries that repeat each other, one list per group of equal queries.

    Two queries after the same conversation are the same in three cases:

    - Their content words are equal.
    - Their content words differ in one misspelt word of `shortest` letters or more. Then their gold must have
      a document in common or be unknown, and one of the spellings must occur neither in `known` (the words of
      the corpus) nor in another query.
    - One query has an additional word, or the words are in another order, and the gold is the same.

    Time and memory grow with the number of words.
    """
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    keys: list[Key] = []
    for at, query in enumerate(queries):
        if listed := content_words(query.text):
            group = groups[query.situation, "".join(listed)]  # e-mail equals email
            if not group:
                keys.append((query.situation, listed))
            group.append(at)
    documents = [frozenset[str]().union(*(queries[at].gold for at in group)) for group in groups.values()]
    uses = Counter(word for _, content in keys for word in set(content))
    above = list(range(len(keys)))

    def root(at: int) -> int:
        while above[at] != at:
            above[at] = at = above[above[at]]
        return at

    for first, second, word_a, word_b in _near(keys, shortest):
        if not word_a or not word_b:
            same = bool(documents[first]) and documents[first] == documents[second]
        else:
            apart = documents[first] and documents[second] and documents[first].isdisjoint(documents[second])
            same = not apart and any(uses[word] == 1 and word not in known for word in (word_a, word_b))
        if same:
            above[root(first)] = root(second)
    merged: dict[int, list[int]] = defaultdict(list)
    for number, group in enumerate(groups.values()):
        merged[root(number)] += group
    return sorted(sorted(group) for group in merged.values() if len(group) > 1)


def _near(keys: Sequence[Key], shortest: int) -> Iterator[tuple[int, int, str, str]]:
    """Yield (first, second, one, other) for questions that differ in a word ("" = lacking) or word order."""
    position = {key: number for number, key in enumerate(keys)}
    orders: dict[Key, int] = {}
    rests: dict[tuple[str, int, Words], list[tuple[int, str]]] = defaultdict(list)
    for number, (situation, listed) in enumerate(keys):
        first = orders.setdefault((situation, tuple(sorted(listed))), number)
        if first != number and len(listed) >= _KEPT:
            yield number, first, "", ""
        for at, word in enumerate(listed):
            rest = listed[:at] + listed[at + 1 :]
            rests[situation, at, rest].append((number, word))
            shorter = position.get((situation, rest))
            if shorter is not None and len(listed) > _KEPT and word.isalpha() and word not in _NEGATIONS:
                yield number, shorter, word, ""
    for alike in rests.values():
        if len(alike) > 1:
            yield from _misspelt(alike, shortest)


def _misspelt(alike: Sequence[tuple[int, str]], shortest: int) -> Iterator[tuple[int, int, str, str]]:
    """Yield (first, second, one, other) for questions, equal but for one word, that differ in one slip."""
    forms: dict[str, list[tuple[int, str]]] = defaultdict(list)
    for number, word in alike:
        if len(word) >= shortest and word.isalpha():
            for form in {word, *(word[:at] + word[at + 1 :] for at in range(1, len(word)))}:
                forms[form].append((number, word))
    seen = set[tuple[int, int]]()
    for forms_of_word in forms.values():
        for (first, word_a), (second, similar) in combinations(forms_of_word[:_MOST_ALIKE], 2):
            if (first, second) not in seen and word_a != similar and _one_slip(word_a, similar):
                seen.add((first, second))
                yield first, second, word_a, similar


_MOST_ALIKE = 50
"""The most words compared that are equal but for one letter; if there are more, they are codes."""


def _one_slip(short: str, long: str) -> bool:
    """Return True if inserting, deleting, replacing or swapping one letter turns one word into the other."""
    if len(short) > len(long):
        short, long = long, short
    start = next((at for at, (a, b) in enumerate(zip(short, long, strict=False)) if a != b), len(short))
    if len(short) < len(long):
        return short[start:] == long[start + 1 :]
    if short[start + 1 :] == long[start + 1 :]:
        return True
    return (
        short[start : start + 2] == long[start : start + 2][::-1] and short[start + 2 :] == long[start + 2 :]
    )
