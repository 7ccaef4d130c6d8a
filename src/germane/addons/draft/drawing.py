"""The draw: which passage gets which kind and style of question, and in which order. It depends on the texts and the seed alone."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from germane.addons.draft.passages import Passage
from germane.errors import InputError

MIX = {"direct": 45, "paraphrased": 40, "near-miss": 15}
STYLES = {"question": 60, "keywords": 25, "long": 15}


@dataclass(frozen=True, slots=True)
class Turn:
    """One attempt: a passage, and the kind and the style of the question that is written from it."""

    passage: Passage
    kind: str
    style: str

    @property
    def id(self) -> str:
        """The id of the question: a digest of passage, kind and style, so that it stays when the set grows."""
        words = f"{self.passage.digest} {self.kind} {self.style}"
        return f"d-{hashlib.sha256(words.encode()).hexdigest()[:8]}"


def parse_shares(text: str, flag: str, names: Mapping[str, int]) -> dict[str, int]:
    """Read `direct=45 near-miss=15` as shares; what is not named has none."""
    fix = f"write {flag} '{' '.join(f'{name}={share}' for name, share in names.items())}'"
    result: dict[str, int] = {}
    for word in text.replace(",", " ").split():
        name, _, share = word.partition("=")
        if name not in names:
            raise InputError(f"{flag}: unknown name {name!r}", fix=fix)
        if not share.isdecimal() or name in result:
            raise InputError(f"{flag}: {word!r} is not a share", fix=fix)
        result[name] = int(share)
    if not any(result.values()):
        raise InputError(f"{flag} leaves nothing to draw", fix=fix)
    return {name: result.get(name, 0) for name in names}


def slots(shares: Mapping[str, int], n: int) -> Iterator[str]:
    """The kinds of n questions in proportion to their shares; the first of 200 are those of 100 (Webster's method)."""
    given = dict.fromkeys(shares, 0)
    for _ in range(n):
        kind = max(shares, key=lambda name: shares[name] / (2 * given[name] + 1))
        given[kind] += 1
        yield kind


def _pick(shares: Mapping[str, int], digest: str) -> str:
    """One of the names, by a digest in the place of chance."""
    at = int(digest[:12], 16) / 16**12 * sum(shares.values())
    for name, share in shares.items():
        if at < share:
            return name
        at -= share
    return max(shares, key=lambda name: shares[name])


def draw(
    passages: Iterable[Passage], seed: int, mix: Mapping[str, int], styles: Mapping[str, int]
) -> dict[str, list[Turn]]:
    """The turns of each kind in order: by a digest of seed and text, every document once before any has a second turn.

    A document that is added inserts its turns and moves no other.
    """

    def digest(passage: Passage, of: str) -> str:
        return hashlib.sha256(f"{seed} {of} {passage.digest}".encode()).hexdigest()

    by_document = defaultdict[str, list[tuple[str, Passage]]](list)
    for passage in passages:
        by_document[passage.doc].append((digest(passage, ""), passage))
    ordered = sorted(
        (
            (place, key, passage.doc, passage)
            for some in by_document.values()
            for place, (key, passage) in enumerate(sorted(some, key=lambda pair: (pair[0], pair[1].start)))
        ),
        key=lambda row: row[:3],
    )
    result: dict[str, list[Turn]] = {kind: [] for kind in mix}
    for _, _, _, passage in ordered:
        turn = Turn(passage, _pick(mix, digest(passage, "kind")), _pick(styles, digest(passage, "style")))
        result[turn.kind].append(turn)
    return result


class TurnOrder:
    """The order of attempts: slot after slot, each kind with at most four attempts for each of its slots so far."""

    TRIES = 4

    def __init__(self, turns: Mapping[str, list[Turn]], shares: Mapping[str, int], n: int) -> None:
        self._turns, self._slots = turns, list(slots(shares, n))
        self._wanted, self.tried, self.kept = Counter[str](), Counter[str](), Counter[str]()
        self._at = 0

    def copy(self) -> TurnOrder:
        """A copy that can run ahead."""
        other = TurnOrder(self._turns, {}, 0)
        other._slots, other._at = self._slots, self._at
        other._wanted, other.tried, other.kept = self._wanted.copy(), self.tried.copy(), self.kept.copy()
        return other

    def next(self) -> Turn | None:
        """The next attempt; None at the end. `settle` must follow."""
        while True:
            kind = self._slots[self._at - 1] if self._at else ""
            if (
                kind
                and self.kept[kind] < self._wanted[kind]
                and self.tried[kind] < self.TRIES * self._wanted[kind]
                and self.tried[kind] < len(self._turns[kind])
            ):
                turn = self._turns[kind][self.tried[kind]]
                self.tried[kind] += 1
                return turn
            if self._at == len(self._slots):
                return None
            self._wanted[self._slots[self._at]] += 1
            self._at += 1

    def settle(self, turn: Turn, *, kept: bool) -> None:
        """Count what the attempt came to."""
        self.kept[turn.kind] += kept
