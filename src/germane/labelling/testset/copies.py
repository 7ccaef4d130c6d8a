"""Questions copied from their gold passage: found by their words wherever the passage is, they tell little of a retriever."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from germane.judges.lexical import Terms, coverage, terms
from germane.questions.text import stems, words

RUN = 6
"""Words in a row that a copied question shares with its passage."""
PART = 0.65
"""The least part of the question that this run is."""
WHOLE = 5
"""Words of a question from which on it is copied where all of it stands in its passage."""
SHARE, ENOUGH = 0.8, 9
"""The share of a question's content words that its passage holds, of so many words at least, where they are not in a row."""
ELSEWHERE = 2
"""The most other passages that hold the same run, or as large a share: what more hold is a phrase of the subject."""


@dataclass(frozen=True, slots=True)
class PassageOverlap:
    """What a question shares with the gold passage that it is most like.

    `run` is the longest run of words in both, `share` that of the question's `content` words which the passage holds. `run_elsewhere`
    and `share_elsewhere` are the numbers of other passages with the same run, and with as large a share.
    """

    run: int
    length: int
    share: float
    content: int
    run_elsewhere: int
    share_elsewhere: int

    def copied(self, run: int = RUN, part: float = PART, share: float = SHARE, enough: int = ENOUGH) -> bool:
        """Return True if the question is taken from the passage: a long run of words, or nearly all of many words."""
        long = self.run >= run and self.run >= part * self.length
        whole = self.run == self.length >= WHOLE
        return ((long or whole) and self.run_elsewhere <= ELSEWHERE) or (
            self.content >= enough and self.share >= share and self.share_elsewhere <= ELSEWHERE
        )


def overlaps(
    questions: Sequence[str], passages: Sequence[Sequence[str]], rest: Iterable[str]
) -> list[PassageOverlap]:
    """Return the overlap of each question with its gold passages, and how many passages of the rest share as much.

    Args:
        questions: The questions.
        passages: The texts of each question's gold passages.
        rest: Other passages of the corpus, or some drawn from it; gold of other questions may be among them.
    """
    asked = [words(text) for text in questions]
    passed = list(rest)
    common = _common(passed)
    content = [
        tuple(term for term in terms(text) if term.stem not in common) or terms(text) for text in questions
    ]
    runs = [
        max((_longest_run(listed, words(text)) for text in texts), key=len, default=())
        for listed, texts in zip(asked, passages, strict=True)
    ]
    shares = [
        max((coverage(needed, stems(text)) for text in texts), default=0.0)
        for needed, texts in zip(content, passages, strict=True)
    ]
    grams, holders = _indexes(runs, shares, content)
    own = [frozenset(map(_spaced, texts)) for texts in passages]
    same_run, same_share = Counter[int](), Counter[int]()
    for text in passed:
        spaced = _spaced(text)
        listed = words(text)
        here = {
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
        same_run.update(number for number in here if spaced not in own[number])
        same_share.update(number for number in near if spaced not in own[number])
    return [
        PassageOverlap(len(run), len(listed), share, len(needed), same_run[number], same_share[number])
        for number, (run, listed, share, needed) in enumerate(zip(runs, asked, shares, content, strict=True))
    ]


def _common(passages: Sequence[str]) -> frozenset[str]:
    """Return the words that so many passages hold that they tell none apart, in any language."""
    uses = Counter(word for text in passages[:_LOOKED_AT] for word in stems(text))
    most = max(_FEW, _COMMON * min(len(passages), _LOOKED_AT))
    return frozenset(word for word, count in uses.items() if count > most)


def _indexes(
    runs: Sequence[tuple[str, ...]], shares: Sequence[float], content: Sequence[Terms]
) -> tuple[Mapping[tuple[str, ...], list[int]], Mapping[str, list[tuple[int, float]]]]:
    """Return the questions by the beginning of their run, and by each content word, with its part of the question."""
    grams: dict[tuple[str, ...], list[int]] = defaultdict(list)
    holders: dict[str, list[tuple[int, float]]] = defaultdict(list)
    for number, (run, share, needed) in enumerate(zip(runs, shares, content, strict=True)):
        if len(run) >= _GRAM:
            grams[run[:_GRAM]].append(number)
        if len(needed) >= _COUNTED and share >= _HIGH:
            whole = sum(term.weight for term in needed)
            for term in needed:
                holders[term.stem].append((number, term.weight / whole))
    return grams, holders


_LOOKED_AT, _FEW, _COMMON = 2_000, 10, 0.2
_GRAM, _COUNTED, _HIGH, _SAME = 4, 4, 0.6, 1e-9
"""Runs, content words and shares below these are not looked for elsewhere: no threshold is as low."""


def _spaced(text: str) -> str:
    return " ".join(text.split())


def _longest_run(first: Sequence[str], second: Sequence[str]) -> tuple[str, ...]:
    """Return the longest run of words that both lists hold."""
    places: Mapping[str, list[int]] = defaultdict(list)
    for at, word in enumerate(second):
        places[word].append(at)
    before: dict[int, int] = {}
    length, end = 0, 0
    for at, word in enumerate(first, 1):
        now = {place: before.get(place - 1, 0) + 1 for place in places.get(word, ())}
        for run in now.values():
            if run > length:
                length, end = run, at
        before = now
    return tuple(first[end - length : end])
