"""What earlier sessions left of an evaluation: read here, written by none of this."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from germane.encoding import decode, encode
from germane.errors import LedgerError
from germane.judging.judges.panel import whole
from germane.judging.ledger import Ledger
from germane.judging.moved import MovedFrom
from germane.judging.opening import is_there, open_ledger
from germane.judging.spending import Receipts
from germane.options import Options
from germane.setup import ledger_place
from germane.tables import ReportFolder
from germane.tables.judgements import dump_judgement, load_judgement
from germane.types import Json, Judgement

__all__ = ["Past", "has_unsaved", "leave_unsaved", "unsaved"]


class Past:
    """The sessions before this one.

    Args:
        options: What the run is told.
        folder: The report folder; None where nobody has named one yet.
        stored: The manifest of these sessions; {} where there was none.
    """

    def __init__(self, options: Options, folder: Path | None, stored: Mapping[str, Json]) -> None:
        self.options, self.folder, self.resumed = options, folder, bool(stored)
        self._finished = not stored.get("replaces", False)
        self._first: str | None = (stored.get("options") or {}).get("ledger")

    def judgements(self, *, errors: bool) -> dict[str, Judgement]:
        """The judgements in the folder by key, without `errors` only those that nobody failed at."""
        if not self.resumed or self.folder is None:
            return {}
        found = ReportFolder(self.folder).earlier(finished=self._finished)
        unsaved_rows = _unsaved_rows(self.folder / _UNSAVED)
        return {one.key: one for one in (*found, *unsaved_rows) if errors or whole(one)}

    def receipts(self) -> Receipts:
        """What was paid. Nothing is written before something more is, and where nothing is resumed it begins anew."""
        if self.folder is None:
            return Receipts()
        return Receipts(self.folder / "receipts.jsonl", resumed=self.resumed)

    @property
    def own_ledger(self) -> Path | None:
        """Where an evaluation that wants no ledger keeps its answers until its report is complete."""
        return self.folder / "ledger.sqlite" if self.folder is not None else None

    @property
    def ledger(self) -> str | None:
        """Where answers are kept; None where nobody wants a ledger, nor has a folder.

        That of the sessions before, unless another one is named now or it is gone.
        """
        if self.options.no_cache:
            return None if self.own_ledger is None else str(self.own_ledger)
        named = self.options.ledger
        gone = named and named == self._first and not is_there(named)
        return ledger_place(None if gone else named)

    def opened(self, *, reading: bool = False) -> Ledger | None:
        """The ledger, which knows what that of the sessions before knows. `reading`: as it is, None where there is none."""
        place, first = self.ledger, self._first
        if place is None:
            return None
        ledger = open_ledger(place, reading=reading) if not reading or is_there(place) else None
        if (
            self.options.no_cache
            or not first
            or first == (place if ledger is None else ledger.place)
            or not is_there(first)
        ):
            return ledger
        with suppress(LedgerError):  # it may be what the user flees from
            known = open_ledger(first, reading=True)
            return known if ledger is None else MovedFrom(ledger, known, keep=not reading)
        return ledger


_UNSAVED = "judgements.jsonl.unsaved"


def leave_unsaved(folder: Path, judgements: Sequence[Judgement]) -> int:
    """Append answers that no ledger would take to those that lie in a folder; how many of them are on disk now."""
    kept = 0
    with suppress(OSError), (folder / _UNSAVED).open("ab") as file:
        try:
            for judgement in judgements:
                file.write(b"\n" + encode(dump_judgement(judgement)))  # the line before may be half a one
                file.flush()
                kept += 1
        finally:
            os.fsync(file.fileno())
    return kept


def has_unsaved(folder: Path) -> bool:
    """Whether answers wait in a folder for room in a ledger."""
    return (folder / _UNSAVED).exists()


@contextmanager
def unsaved(folder: Path) -> Iterator[list[Judgement]]:
    """The answers in a folder that no ledger has. They are removed, unless keeping them elsewhere raises."""
    path = folder / _UNSAVED
    yield list(_unsaved_rows(path))
    path.unlink(missing_ok=True)


def _unsaved_rows(path: Path) -> Iterator[Judgement]:
    with suppress(FileNotFoundError), path.open("rb") as lines:
        for line in lines:
            with suppress(ValueError, TypeError, AttributeError):
                yield load_judgement(decode(line))
