"""The keys (id, system, trial) of the samples of a table, numbered in order of first appearance."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

SampleKey: TypeAlias = tuple[str, str, int]
"""Identifies a sample within an evaluation: (id, system, trial)."""


class SampleKeys:
    """The distinct sample keys of a table, numbered from 0; the index is built at the first look-up."""

    def __init__(self) -> None:
        self._keys: list[SampleKey] = []
        self._numbers: dict[SampleKey, int] | None = None

    def number(self, key: SampleKey) -> int:
        """Return the number of a key, after adding the key if it is new."""
        if (number := self.find(key)) is not None:
            return number
        assert self._numbers is not None
        self._numbers[key] = len(self._keys)
        self._keys.append(key)
        return len(self._keys) - 1

    def find(self, key: SampleKey) -> int | None:
        """Return the number of a key; None if the table does not have it."""
        if self._numbers is None:
            self._numbers = {known: number for number, known in enumerate(self._keys)}
        return self._numbers.get(key)

    def extend(self, keys: Iterable[SampleKey]) -> None:
        """Add keys that the table does not have yet; the caller guarantees that they are new."""
        self._keys.extend(keys)
        self._numbers = None

    def ids(self) -> Iterator[str]:
        """Yield the sample id of each key, in order of their numbers."""
        return (name for name, _, _ in self._keys)

    def systems(self) -> tuple[list[str], NDArray[np.int32]]:
        """Return the distinct systems, and the index of each key's system."""
        codes: dict[str, int] = {}
        of_keys = [codes.setdefault(system, len(codes)) for _, system, _ in self._keys]
        return list(codes), np.array(of_keys, dtype=np.int32)

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[SampleKey]:
        return iter(self._keys)

    def __getitem__(self, number: int) -> SampleKey:
        return self._keys[number]
