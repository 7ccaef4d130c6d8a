"""The draw of passages, kinds and styles, and their order. It depends on the texts and the seed alone."""

from __future__ import annotations

import copy
import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from germane.addons.draft.passages import Passage
from germane.errors import InputError

MIX = {"direct": 45, "paraphrased": 40, "near-miss": 15}
STYLES = {"question": 60, "keywords": 25, "long": 15}
TRIES = 4
"""Attempts for each question wanted."""


@dataclass(frozen=True, slots=True)
class Turn:
    """One attempt: a passage, and the kind and style of its question."""

    passage: Passage
    kind: str
    style: str

    @property
    def id(self) -> str:
        """The id of the question: a digest of passage, kind and style, so that it stays when the set grows."""
        return f"d-{_digest(f'{self.passage.digest} {self.kind} {self.style}')[:8]}"


def parse_shares(text: str, flag: str, names: Mapping[str, int]) -> dict[str, int]:
    """Parse shares such as `direct=45 near-miss=15`; omitted names get 0."""
    pairs = [word.partition("=")[::2] for word in text.replace(",", " ").split()]
    result = {name: int(share) for name, share in pairs if name in names and share.isdecimal()}
    if len(result) < len(pairs) or not any(result.values()):
        unknown = next((f"unknown name {name!r}" for name, _ in pairs if name not in names), "")
        fix = f"write {flag} '{' '.join(f'{name}={share}' for name, share in names.items())}'"
        raise InputError(f"{flag}: {unknown or f'{text!r} is not a list of shares'}", fix=fix)
    return {name: result.get(name, 0) for name in names}


def slots(shares: Mapping[str, int], n: int) -> Iterator[str]:
    """Yield the kinds of n questions in proportion to their shares; the first of 200 are those of 100 (Webster's method)."""
    given = dict.fromkeys(shares, 0)
    for _ in range(n):
        kind = max(shares, key=lambda name: shares[name] / (2 * given[name] + 1))
        given[kind] += 1
        yield kind


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _pick(shares: Mapping[str, int], digest: str) -> str:
    """Return one of the names, drawn by a digest."""
    at = int(digest[:12], 16) / 16**12 * sum(shares.values())
    for name, share in shares.items():
        if at < share:
            return name
        at -= share
    return max(shares, key=lambda name: shares[name])


def draw(
    passages: Iterable[Passage], seed: int, mix: Mapping[str, int], styles: Mapping[str, int]
) -> dict[str, list[Turn]]:
    """Return the turns of each kind in order: by a digest of seed and text, each document once before any is repeated.

    A document that is added inserts its turns and moves no other.
    """
    by_document = defaultdict[str, list[tuple[str, int, Passage]]](list)
    for passage in passages:
        key = _digest(f"{seed}  {passage.digest}")
        by_document[passage.doc].append((key, passage.start, passage))
    ordered = sorted(
        (place, key, doc, passage)
        for doc, some in by_document.items()
        for place, (key, _, passage) in enumerate(sorted(some, key=lambda row: row[:2]))
    )
    result: dict[str, list[Turn]] = {kind: [] for kind in mix}
    for *_, passage in ordered:
        kind = _pick(mix, _digest(f"{seed} kind {passage.digest}"))
        result[kind].append(Turn(passage, kind, _pick(styles, _digest(f"{seed} style {passage.digest}"))))
    return result


class TurnOrder:
    """The order of attempts: slot by slot, with at most four attempts of a kind for each of its slots so far."""

    def __init__(self, turns: Mapping[str, list[Turn]], shares: Mapping[str, int], n: int) -> None:
        self._turns, self._slots, self._at = turns, list(slots(shares, n)), 0
        self._wanted, self.tried, self.kept = Counter[str](), Counter[str](), Counter[str]()

    def __copy__(self) -> TurnOrder:
        """Return a copy that can run ahead."""
        other = TurnOrder(self._turns, {}, 0)
        state = {name: copy.copy(value) for name, value in vars(self).items() if isinstance(value, Counter)}
        vars(other).update(vars(self) | state)
        return other

    def next(self) -> Turn | None:
        """Return the next attempt, or None at the end. Call `settle` afterwards."""
        while True:
            kind = self._slots[self._at - 1] if self._at else ""
            most = min(TRIES * self._wanted[kind], len(self._turns.get(kind, ())))
            if self.kept[kind] < self._wanted[kind] and self.tried[kind] < most:
                self.tried[kind] += 1
                return self._turns[kind][self.tried[kind] - 1]
            if self._at == len(self._slots):
                return None
            self._wanted[self._slots[self._at]] += 1
            self._at += 1

    def counts(self) -> dict[str, dict[str, int]]:
        """Return how many questions of each kind are wanted and kept, and after how many attempts."""
        wanted = Counter(self._slots)
        return {
            kind: {"wanted": wanted[kind], "kept": self.kept[kind], "attempts": self.tried[kind]}
            for kind in dict.fromkeys(self._slots)
        }

    def settle(self, turn: Turn, *, kept: bool) -> None:
        """Record whether an attempt's question was kept."""
        self.kept[turn.kind] += kept
