"""A run's folder while it works: what earlier sessions left in it, what was paid for, and how it is continued."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from germane.errors import GermaneError, Interrupted, JudgeError, LedgerError
from germane.judging.spending import Spent
from germane.ledger.files import files_of
from germane.options import Options
from germane.past import Past
from germane.reports.manifest import spent_in_words, write_manifest
from germane.reports.store import forget_killed, has_rows
from germane.types import Json
from germane.utc import now

__all__ = ["Session", "new_folder"]


class Session:
    """One session of a run, in its report folder.

    Args:
        options: What the run is told.
        folder: The report folder.
        stored: The manifest of the sessions before; {} where this is the first.
        retry_errors: Whether what failed before is asked again.
    """

    def __init__(
        self, options: Options, folder: Path, stored: dict[str, Json], *, retry_errors: bool = False
    ) -> None:
        self.past = Past(options, folder, stored)
        self.options, self.folder, self.resumed = options, folder, self.past.resumed
        self.created: str = stored.get("created") or now()
        self.existed = folder.exists()
        self.replaces: bool = stored.get("replaces", False) if stored else has_rows(folder)
        """Whether the rows that stand in the folder are another evaluation's, until these are complete."""
        if not stored and options.no_cache:
            self._drop_own_ledger()
        ledger = self.past.opened()
        assert ledger is not None  # there is a folder
        self.ledger = ledger
        if not stored:
            forget_killed(folder)
        self.known = self.past.judgements(errors=not retry_errors)
        folder.mkdir(parents=True, exist_ok=True)
        self.receipts = self.past.receipts()

    def _drop_own_ledger(self) -> None:
        assert self.past.own_ledger is not None
        for file in files_of(self.past.own_ledger):
            file.unlink(missing_ok=True)

    def manifest(self, made: dict[str, Json]) -> dict[str, Json]:
        """What was made, with what is needed to continue."""
        ledger = None if self.options.no_cache else self.ledger.place
        options = asdict(replace(self.options, folder=str(self.folder), ledger=ledger))
        del options["headers"]
        return {
            "schema_version": 1,
            **made,
            "created": self.created,
            "cwd": str(Path.cwd()),
            "options": options,
        }

    def write(self, status: str, made: dict[str, Json]) -> None:
        """Write the manifest of a report that is not complete."""
        write_manifest(self.folder, {**self.manifest(made), "replaces": self.replaces}, status)

    def total(self, spent: Spent) -> Spent:
        """What all sessions have spent, and what nobody has answered up to now.

        Only the last session says what need not be asked: it goes through everything.
        """
        return replace(self.receipts.earlier + spent, errors=len(self.receipts.failed))

    def command(self, *flags: str) -> str:
        """The command that continues this run."""
        url = ("--base-url", self.options.base_url) if self.options.base_url else ()
        headers = [word for name, _ in self.options.headers for word in ("--header", f"{name}=...")]
        return shlex.join(["germane", "run", "--resume", str(self.folder), *flags, *url, *headers])

    def explained(self, failure: BaseException, spent: Spent, *flags: str) -> GermaneError:
        """The same error, with what was spent and the command that continues; `flags` are to be given with it."""
        again = f"continue with: {self.command(*flags)}"
        if spent.calls or spent.requests:
            again += f"\nspent so far: {spent_in_words(spent.as_json())}"
        if isinstance(failure, Interrupted):
            return type(failure)(f"{failure}; {again}")
        if isinstance(failure, OSError):
            failure = LedgerError(f"the report folder {self.folder} cannot be written: {failure}")
        kind = JudgeError if isinstance(failure, JudgeError) else LedgerError
        return kind(f"{failure}\nwhat was answered is kept; {again}")

    def close(self, *, complete: bool = False) -> None:
        """Release the files; a ledger of its own is gone with the last session."""
        self.ledger.close()
        self.receipts.close()
        if complete and self.options.no_cache:
            self._drop_own_ledger()


def new_folder(options: Options, paths: Sequence[Path]) -> Path:
    """The report folder of a new run: the one that is named, else one that is named after its first path and the time."""
    if options.folder:
        return Path(options.folder)
    stamp = datetime.datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    name = paths[0].stem if paths else "run"
    base = Path("germane-reports")
    folder, number = base / f"{name}-{stamp}", 2
    while folder.exists():
        folder, number = base / f"{name}-{stamp}-{number}", number + 1
    return folder
