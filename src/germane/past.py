"""What earlier sessions left of an evaluation: read here, written by none of this."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from germane.judges.panel import whole
from germane.judging.spending import Receipts
from germane.ledger.store import Ledger, is_there, open_ledger
from germane.options import Options
from germane.reports.store import earlier
from germane.setup import ledger_place
from germane.types import Json, Judgement

__all__ = ["Past"]


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
        found = earlier(self.folder, finished=self._finished)
        return {judgement.key: judgement for judgement in found if errors or whole(judgement)}

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
        place = self.ledger
        if place is None or (reading and not is_there(place)):
            return None
        return open_ledger(place, reading=reading)
