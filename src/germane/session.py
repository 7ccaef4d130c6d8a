"""A run's folder while it works: what earlier sessions left in it, what was paid for, and how it is continued."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from germane.encoding import now
from germane.errors import GermaneError, InputError, Interrupted, JudgeError, LedgerError
from germane.judging.log import files_of
from germane.judging.spending import Spent
from germane.options import Options
from germane.past import Past, has_unsaved, leave_unsaved, unsaved
from germane.reports.manifest import spent_in_words
from germane.reserve import Reserve
from germane.tables import ReportFolder
from germane.types import Json, Judgement

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
        self.replaces: bool = stored.get("replaces", False) if stored else ReportFolder(folder).has_rows()
        """Whether the rows that stand in the folder are another evaluation's, until these are complete."""
        self.aside = self.lost = 0
        """Answers that the ledger did not take in this session, and those of them that the folder did not take either."""
        if not stored and options.no_cache:
            self._refuse_to_lose()
            self._drop_own_ledger()
        ledger = self.past.opened()
        assert ledger is not None  # there is a folder
        self.ledger = ledger
        self._bring_back()
        if not stored:
            ReportFolder(folder).forget_killed()
        self.known = self.past.judgements(errors=not retry_errors)
        folder.mkdir(parents=True, exist_ok=True)
        self.receipts = self.past.receipts()
        self.reserve = Reserve(folder)

    def _refuse_to_lose(self) -> None:
        """Answers that were paid for and wait for room in a ledger belong to a run that has one."""
        if has_unsaved(self.folder):
            raise InputError(
                f"in {self.folder} wait answers of a run that found no room in its ledger",
                fix=f"continue that one (--resume {self.folder}), or name another folder",
            )

    def _bring_back(self) -> None:
        """Into the ledger with what sessions before found no room for there. LedgerError where there still is none."""
        with unsaved(self.folder) as rows:
            try:
                if rows:
                    self.ledger.put(rows)
            except LedgerError as error:
                self.ledger.close()
                raise LedgerError(
                    f"{error}\nnothing was asked; {len(rows):,} answers wait in {self.folder} for room there"
                ) from None

    def set_aside(self, judgements: Sequence[Judgement]) -> None:
        """Answers that were paid for and that the ledger did not take: the folder may lie on another disk."""
        self.reserve.release()
        self.aside += len(judgements)
        self.lost += len(judgements) - leave_unsaved(self.folder, judgements)

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
            **made,
            "created": self.created,
            "cwd": str(Path.cwd()),
            "options": options,
        }

    def write(self, status: str, made: dict[str, Json]) -> None:
        """Write the manifest of a report that is not complete."""
        ReportFolder(self.folder).write_manifest({**self.manifest(made), "replaces": self.replaces}, status)

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
            return type(failure)(f"{failure}; {self._unkept()}{again}")
        if isinstance(failure, OSError):
            failure = LedgerError(f"the report folder {self.folder} cannot be written: {failure}")
        kind = JudgeError if isinstance(failure, JudgeError) else LedgerError
        return kind(f"{failure}\n{self._unkept() or 'what was answered is kept; '}{again}")

    def _unkept(self) -> str:
        """What became of the answers that the ledger did not take."""
        if self.lost:
            return (
                f"{self.lost:,} answers fit neither into the ledger nor into {self.folder} and will be asked again; "
                "all others are kept; "
            )
        if self.aside:
            return f"what was answered is kept, {self.aside:,} answers of it in {self.folder} until it is continued; "
        return ""

    def close(self, *, complete: bool = False) -> None:
        """Release the files; a ledger of its own is gone with the last session."""
        self.ledger.close()
        self.reserve.release()
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
