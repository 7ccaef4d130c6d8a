"""The keys (id, system, trial) of the samples of a table, as compact columns."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain, repeat
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

SampleKey: TypeAlias = tuple[str, str, int]
"""Identifies a sample within an evaluation: (id, system, trial)."""

_Numbers: TypeAlias = "Sequence[int] | array[int] | NDArray[np.integer[Any]]"


class SampleKeys:
    """Distinct sample keys, numbered from 0 in order of first appearance.

    Keys are found by 64-bit hashes, which are computed when a key is first looked up; `_collided` has the later keys that share
    one. Samples beyond the end of `_system` and `_trial` have 0 there.
    """

    def __init__(self) -> None:
        self._ids, self._ends = bytearray(), array("q")
        self._system, self._trial = array("i"), array("q")
        self._systems: dict[str, int] = {}
        self._hashes: dict[int, int] | None = None
        self._collided: dict[SampleKey, int] = {}
        self._newest: SampleKey | None = None

    def number(self, key: SampleKey) -> int:
        """Return the number of a key; a new key is added."""
        if key == self._newest:
            return len(self) - 1
        if (number := self.find(key)) is not None:
            return number
        self._numbered(key, len(self))
        self._newest = key
        self._ids += key[0].encode(errors="replace")
        self._ends.append(len(self._ids))
        if (system := self._systems.setdefault(key[1], len(self._systems))) or key[2]:
            self._add_codes([system], [key[2]])
        return len(self) - 1

    def find(self, key: SampleKey) -> int | None:
        """Return the number of a key, or None."""
        if self._hashes is None:
            self._hashes, self._collided = {}, {}
            for number, known in enumerate(self):
                self._numbered(known, number)
        found = self._hashes.get(hash(key))
        if found is None or self[found] in {key, (key[0].encode(errors="replace").decode(), *key[1:])}:
            return found
        return self._collided.get(key)

    def _numbered(self, key: SampleKey, number: int) -> None:
        """Register the number of a new key."""
        assert self._hashes is not None
        if self._hashes.setdefault(hash(key), number) != number:
            self._collided[key] = number

    def extend(self, keys: Sequence[SampleKey]) -> None:
        """Add keys that are all new."""
        ids = [key[0].encode(errors="replace") for key in keys]
        systems = [self._systems.setdefault(key[1], len(self._systems)) for key in keys]
        self._extend(b"".join(ids), np.cumsum(list(map(len, ids))), systems, [key[2] for key in keys])

    def join(self, other: SampleKeys) -> None:
        """Add the keys of another table, all of them new."""
        systems = np.array(
            [self._systems.setdefault(system, len(self._systems)) for system in other._systems],
            dtype=np.int64,
        )
        self._extend(other._ids, np.array(other._ends), systems[other.systems()[1]], other._trial)

    def _extend(
        self, ids: bytes | bytearray, ends: NDArray[np.int64], systems: _Numbers, trials: _Numbers
    ) -> None:
        self._hashes = self._newest = None
        self._ends.frombytes((ends.astype(np.int64) + len(self._ids)).tobytes())
        self._ids += ids
        self._add_codes(systems, trials)

    def _add_codes(self, systems: _Numbers, trials: _Numbers) -> None:
        """Append the system numbers and the trials of the newest samples."""
        before = len(self) - len(systems)
        for column, codes in ((self._system, systems), (self._trial, trials)):
            if np.any(codes):
                column.extend(repeat(0, before - len(column)))
                column.frombytes(np.asarray(codes, dtype=np.dtype(column.typecode)).tobytes())

    def ids(self) -> Iterator[str]:
        """Iterate over the sample ids by number."""
        start = 0
        for end in self._ends:
            yield self._ids[start:end].decode()
            start = end

    def systems(self) -> tuple[list[str], NDArray[np.int32]]:
        """Return the distinct systems, and the index of each key's system."""
        codes = np.zeros(len(self), dtype=np.int32)
        codes[: len(self._system)] = self._system
        return list(self._systems), codes

    @property
    def trials(self) -> bool:
        """True if any key has a trial other than 0."""
        return len(self._trial) > 0

    def __len__(self) -> int:
        return len(self._ends)

    def __iter__(self) -> Iterator[SampleKey]:
        systems = list(self._systems)
        columns = (chain(column, repeat(0)) for column in (self._system, self._trial))
        for name, system, trial in zip(self.ids(), *columns, strict=False):
            yield name, systems[system], trial

    def __getitem__(self, number: int) -> SampleKey:
        return self.taken([number])[0]

    def taken(self, numbers: Iterable[int]) -> list[SampleKey]:
        """Return the keys with these numbers."""
        systems, ids, ends = list(self._systems), self._ids, self._ends
        return [
            (
                ids[ends[number - 1] if number else 0 : ends[number]].decode(),
                systems[self._system[number] if number < len(self._system) else 0],
                self._trial[number] if number < len(self._trial) else 0,
            )
            for number in numbers
        ]
