"""The keys (id, system, trial) of the samples of a table, as compact columns."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

SampleKey: TypeAlias = tuple[str, str, int]
"""Identifies a sample within an evaluation: (id, system, trial)."""


class SampleKeys:
    """Distinct sample keys, numbered from 0 in order of first appearance; the numbers by key are made at the first look-up."""

    def __init__(self) -> None:
        self._ids, self._ends = bytearray(), array("q")
        self._system, self._trial = array("i"), array("q")
        self._systems: dict[str, int] = {}
        self._numbers: dict[SampleKey, int] | None = None
        self._newest: SampleKey | None = None

    def number(self, key: SampleKey) -> int:
        """Return the number of a key; a new key is added."""
        if key == self._newest:
            return len(self) - 1
        if (number := self.find(key)) is not None:
            return number
        self._newest = key
        self._trial.append(key[2])
        self._ids += key[0].encode(errors="replace")
        self._ends.append(len(self._ids))
        self._system.append(self._systems.setdefault(key[1], len(self._systems)))
        assert self._numbers is not None
        self._numbers[_as_stored(key)] = len(self) - 1
        return len(self) - 1

    def find(self, key: SampleKey) -> int | None:
        """Return the number of a key, or None."""
        if self._numbers is None:
            self._numbers = {known: number for number, known in enumerate(self)}
        return self._numbers.get(_as_stored(key))

    def extend(self, keys: Sequence[SampleKey]) -> None:
        """Add keys, all of them new."""
        ids = [key[0].encode(errors="replace") for key in keys]
        systems = [self._systems.setdefault(key[1], len(self._systems)) for key in keys]
        self._append(b"".join(ids), np.cumsum(list(map(len, ids))), systems, [key[2] for key in keys])

    def join(self, other: SampleKeys) -> None:
        """Add the keys of another table, all of them new."""
        numbers = [self._systems.setdefault(system, len(self._systems)) for system in other._systems]
        systems = np.array(numbers, np.int32)[np.asarray(other._system)]
        self._append(other._ids, np.array(other._ends), systems, np.asarray(other._trial))

    def _append(
        self, ids: bytes | bytearray, ends: NDArray[np.integer[Any]], systems: ArrayLike, trials: ArrayLike
    ) -> None:
        self._numbers = self._newest = None
        self._ends.frombytes((ends.astype(np.int64) + len(self._ids)).tobytes())
        self._ids += ids
        self._system.frombytes(np.asarray(systems, np.int32).tobytes())
        self._trial.frombytes(np.asarray(trials, np.int64).tobytes())

    def ids(self) -> Iterator[str]:
        """Iterate over the sample ids by number."""
        start = 0
        for end in self._ends:
            yield self._ids[start:end].decode()
            start = end

    def systems(self) -> tuple[list[str], NDArray[np.int32]]:
        """Return the distinct systems, and the index of each key's system."""
        return list(self._systems), np.array(self._system, dtype=np.int32)

    @property
    def trials(self) -> bool:
        """True if any key has a trial other than 0."""
        return bool(np.asarray(self._trial).any())

    def __len__(self) -> int:
        return len(self._ends)

    def __iter__(self) -> Iterator[SampleKey]:
        systems = list(self._systems)
        for name, system, trial in zip(self.ids(), self._system, self._trial, strict=True):
            yield name, systems[system], trial

    def __getitem__(self, number: int) -> SampleKey:
        return self.taken([number])[0]

    def taken(self, numbers: Iterable[int]) -> list[SampleKey]:
        """Return the keys with these numbers."""
        systems, ids, ends = list(self._systems), self._ids, self._ends
        return [
            (
                ids[ends[number - 1] if number else 0 : ends[number]].decode(),
                systems[self._system[number]],
                self._trial[number],
            )
            for number in numbers
        ]


def _as_stored(key: SampleKey) -> SampleKey:
    """Return a key whose id is spelled as in a file: half a surrogate is a question mark there."""
    return key if key[0].isascii() else (key[0].encode(errors="replace").decode(), key[1], key[2])
