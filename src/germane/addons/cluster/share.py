"""A part of an evaluation: its cases, its portion of the limits, and its entry in the manifest."""

from __future__ import annotations

import hashlib
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from germane.errors import InputError
from germane.evaluation.spec import Spec
from germane.folder.tables import StoredTables
from germane.reports.gates import Gate
from germane.types import Json

_ROWS = "rows.txt"
_SHARE = re.compile(r"([0-9]{1,6})/([0-9]{1,6})")


@dataclass(frozen=True, slots=True)
class Share:
    """One part of an evaluation: part `number` (from 1) of `of` parts."""

    number: int
    of: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return the part for a string such as `3/16`. Raises InputError for any other string."""
        match = _SHARE.fullmatch(text.strip())
        number, of = (int(match[1]), int(match[2])) if match else (0, 0)
        if not 1 <= number <= of:
            fix = "write --part 3/16: the third of 16, from 1/16 to 16/16"
            raise InputError(f"--part {text!r} is not of the form I/N", fix=fix)
        return cls(number, of)

    def has(self, query: str) -> bool:
        """Return True if cases with this query are in the part.

        The part is chosen by the hash of the query, so that cases with equal queries are in the same part.
        """
        result = hashlib.blake2b(query.encode(errors="replace"), digest_size=8).digest()
        return int.from_bytes(result, "big") % self.of == self.number - 1

    def of_limits(self, spec: Spec) -> Spec:
        """Return a copy of `spec` with this part's portion of the limits, which apply to all parts together.

        Each of N parts gets 1/N of the requests and tokens per minute and of the dollars. Calls and
        concurrent requests are divided into whole numbers, and the first parts get the remainder. Each part
        may send at least one request at a time.
        """

        def whole(limit: int | None) -> int | None:
            return None if limit is None else limit // self.of + (self.number <= limit % self.of)

        limits = {"rpm": spec.rpm, "tpm": spec.tpm, "max_cost": spec.max_cost}
        portions = {name: limit and limit / self.of for name, limit in limits.items()}
        jobs = None if spec.jobs is None else max(1, whole(spec.jobs) or 0)
        return spec.but(**portions, max_calls=whole(spec.max_calls), jobs=jobs)

    @property
    def folder(self) -> str:
        """The name of the part's folder, without a slash."""
        return f"{self.number}-of-{self.of}"

    def __str__(self) -> str:
        return f"{self.number}/{self.of}"

    def entry(
        self,
        tables: StoredTables,
        rows: Iterable[int],
        cases: int,
        inputs: Sequence[Path],
        gates: Iterable[Gate],
    ) -> dict[str, Json]:
        """Return the part's entry in the manifest, which merging needs, and write `rows` to a file.

        `rows` are the positions of the part's cases among all cases, and `cases` is the number of all cases.
        Some means are computed over all parts, so their values are stored, each with its count.
        """
        (tables.path / _ROWS).write_text("".join(f"{row}\n" for row in rows), "ascii")
        values = sorted(tables.beside.items())
        digests = []
        for path in inputs:
            with path.open("rb") as file:
                digests.append(f"{hashlib.file_digest(file, 'sha256').hexdigest()} {path.name}")
        numbers = {"number": self.number, "of": self.of, "cases": cases, "inputs": digests}
        beside = [[system, name, sorted(Counter(each).items())] for (system, name), each in values]
        return {**numbers, "gates": [gate.stored() for gate in gates], "beside": beside}


def read_rows(folder: Path) -> array[int]:
    """Return the positions of a part's samples among all cases.

    Raises InputError if the file of positions is missing or damaged.
    """
    try:
        return array("q", map(int, (folder / _ROWS).read_text("ascii").split()))
    except (OSError, ValueError):
        raise InputError(
            f"{folder / _ROWS} cannot be read as a list of numbers", fix="run this part again"
        ) from None
