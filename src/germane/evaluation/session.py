"""One session of a run in its report folder: what earlier sessions left, what was paid, and how the run is continued."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from germane.clean import mask_urls
from germane.encoding import decode, encode, now
from germane.errors import GermaneError, InputError, Interrupted, JudgeError, LedgerError
from germane.evaluation.choice import ledger_address, open_ledger, remove_ledger
from germane.evaluation.spec import Spec
from germane.folder.judgements import EarlierJudgements, check_judgements
from germane.folder.lines import TableFile
from germane.folder.reader import check_digest
from germane.folder.writer import FolderWriter
from germane.judges.judge import Judge
from germane.judges.panel import whole
from germane.judging.spending import Spent, UsageLog
from germane.reports.manifest import spent_in_words
from germane.targets.answers import TargetAnswers
from germane.types import Json

__all__ = ["command_to_resume", "ledger_of", "new_folder"]


def check_same_judge(
    stored: Mapping[str, Json],
    judge: Judge | None,
    *,
    fix: str = "give the judge as before, or --reask",
    anywhere: bool = False,
) -> None:
    """InputError where the evaluation that is continued was judged by another judge: everything would be asked again.

    `anywhere`: the same model at another URL is the same judge.
    """
    before = mask_urls((stored.get("judge") or {}).get("identity"))
    asked = None if judge is None else decode(encode(mask_urls(judge.identity)))
    if anywhere:
        before, asked = map(_without_url, (before, asked))
    if not before or not asked or before == asked:
        return
    changed = sorted(name for name in {**before, **asked} if before.get(name) != asked.get(name))
    text = ", ".join(f"{name} is {asked.get(name)} and was {before.get(name)}" for name in changed)
    raise InputError(
        f"another judge than this evaluation began with: {text}; every verdict would be asked again",
        fix=fix,
    )


def _without_url(identity: Json) -> Json:
    """A judge's identity, and those of its members, without the URL."""
    if isinstance(identity, Mapping):
        return {name: _without_url(value) for name, value in identity.items() if name != "base_url"}
    return [*map(_without_url, identity)] if isinstance(identity, list | tuple) else identity


def new_folder(spec: Spec, paths: tuple[Path, ...]) -> Path:
    """The report folder of a new run: the one that is named, else one named after its first path and the time."""
    if spec.folder:
        return Path(spec.folder)
    stamp = datetime.datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    first = "stdin" if paths and str(paths[0]) == "-" else paths[0].resolve().stem if paths else "run"
    base = Path("germane-reports") / f"{first}-{stamp}"
    folder, number = base, 2
    while folder.exists():
        folder, number = base.with_name(f"{base.name}-{number}"), number + 1
    return folder


def ledger_of(spec: Spec, folder: Path | None) -> str | None:
    """The place of a run's ledger; None where it wants none and has no folder.

    A run with --no-cache keeps them in its folder until its report is complete. A resumed run goes on with its own
    ledger unless another one is given.
    """
    from germane.ledger.address import is_there

    if spec.no_cache:
        return None if folder is None else str(folder / "ledger.sqlite")
    named, source = spec.first("ledger", "given", "report")
    if named and (source == "given" or is_there(named)):
        return str(named)
    return ledger_address()


def answers_so_far(folder: FolderWriter | None, stored: Mapping[str, Json]) -> EarlierJudgements:
    """The judgements that earlier sessions of an evaluation left in its folder; what failed is asked again.

    InputError where the judgements of a finished report were changed since, or hold what no judge answers.
    """
    if folder is None or not stored:
        return EarlierJudgements()
    if stored.get("status") == "complete":
        digests, file = stored.get("files", {}), folder.path / "judgements.jsonl"
        if file.name in digests:
            check_digest(file, digests)
            check_judgements(TableFile(file))
    return folder.earlier(finished=not stored.get("replaces", False), keep=whole)


def command_to_resume(folder: Path, spec: Spec, *flags: str) -> str:
    """The command that resumes the run in a folder; what is written down nowhere must be given again."""
    url = ("--base-url", mask_urls(spec.base_url)) if spec.base_url else ()
    headers = [word for name, _ in spec.headers for word in ("--header", f"{name}=...")]
    return shlex.join(["germane", "run", "--resume", str(folder), *flags, *url, *headers])


class Session:
    """One session of a run.

    Args:
        spec: What the run does.
        folder: The report folder.
        stored: The manifest of the sessions before; {} where this is the first.
        asks: Whether anybody is asked whose answers are kept: gold labels need no ledger, unless one is named.
        whole: The report that the folder is a part of, where that is what is continued.

    Raises:
        InputError: Another evaluation's report stands in the folder, or another process writes to it.
        LedgerError: The ledger cannot be used.
    """

    def __init__(
        self,
        spec: Spec,
        folder: Path,
        stored: dict[str, Json],
        *,
        asks: bool = True,
        whole: Path | None = None,
    ) -> None:
        self.spec, self.path, self.resumed = spec, folder, bool(stored)
        self._whole = whole
        self.created: str = stored.get("created") or now()
        self.folder = FolderWriter(folder)
        self.existed = folder.exists()
        location = ledger_of(spec, folder) if asks or spec.first("ledger", "given", "report")[1] else None
        if location is not None:
            from germane.ledger.address import is_there

            is_there(location)  # a place where no ledger can be is refused before anything is made
        self.folder.lock()
        try:
            if not (stored or spec.force):
                self.folder.refuse_other()
            self.replaces: bool = stored.get("replaces", False) if stored else self.folder.has_rows()
            if not stored:
                self.folder.forget_killed()
            self.earlier = answers_so_far(self.folder, stored)
            if spec.no_cache and not stored:
                remove_ledger(folder / "ledger.sqlite")
            self.ledger = open_ledger(location, spec.replay)
        except BaseException:
            self.folder.close()
            raise
        self.usage_log = UsageLog(folder / "receipts.jsonl", resumed=self.resumed)

    def manifest(self, made: Mapping[str, Json]) -> dict[str, Json]:
        """A manifest with what is needed to continue the run."""
        ledger = self.spec.first("ledger", "given", "report")[0] if self.ledger is None else self.ledger.place
        if self.spec.no_cache or self.spec.replay:
            ledger = None
        options = {**self.spec.as_json(), "folder": str(self.path), "ledger": ledger}
        return {**made, "created": self.created, "cwd": str(Path.cwd()), "options": options}

    def write(self, status: str, made: Mapping[str, Json]) -> None:
        """Write the manifest of a report that is not complete."""
        self.folder.write_manifest({**self.manifest(made), "replaces": self.replaces}, status)

    @property
    def total(self) -> Spent:
        """The spending of all sessions, and the questions without an answer up to now.

        Only the last session tells what need not be asked: it goes through everything.
        """
        return replace(self.usage_log.earlier + self.usage_log.spent, errors=len(self.usage_log.failed))

    def command(self, *flags: str) -> str:
        """The command that continues this run."""
        return command_to_resume(self._whole or self.path, self.spec, *flags)

    def explained(self, failure: BaseException, *flags: str) -> GermaneError:
        """The same error, with what was spent and the command that continues, `flags` given with it."""
        if self._whole is not None and isinstance(failure, GermaneError):
            return failure  # how the whole is continued is said by whoever runs its parts
        again, spent = f"continue with: {self.command(*flags)}", self.total
        if spent.calls or spent.requests:
            if self.usage_log.earlier.calls or self.usage_log.earlier.requests:
                again += f"\nspent in this session: {spent_in_words(self.usage_log.spent.as_json())}"
                again += f"\nspent in all sessions: {spent_in_words(spent.as_json())}"
            else:
                again += f"\nspent so far: {spent_in_words(spent.as_json())}"
        if isinstance(failure, Interrupted):
            return type(failure)(f"{failure}; {again}")
        if isinstance(failure, OSError):
            failure = LedgerError(f"the report folder {self.path} cannot be written: {failure}")
        kind = JudgeError if isinstance(failure, JudgeError) else LedgerError
        return kind(f"{failure}\nwhat was answered is kept; {again}")

    def close(self, *, complete: bool = False) -> None:
        """Release the files; a ledger of the run's own is removed with the last session."""
        if self.ledger is not None:
            self.ledger.close()
        self.usage_log.close()
        self.folder.close()
        if complete:
            TargetAnswers.forget(self.path)
        if complete and self.spec.no_cache:
            remove_ledger(self.path / "ledger.sqlite")
