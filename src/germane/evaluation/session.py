"""Resuming a run in its report folder: the answers of earlier sessions, and the command that resumes."""

from __future__ import annotations

import datetime
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from germane.clean import mask_urls
from germane.encoding import decode, encode
from germane.errors import InputError
from germane.evaluation.choice import ledger_address, open_earlier
from germane.evaluation.spec import Spec
from germane.folder.reader import check_digest
from germane.folder.writer import FolderWriter
from germane.judges.judge import Judge
from germane.types import Json

if TYPE_CHECKING:
    from germane.ledger.store import Ledger

__all__ = ["command_to_resume", "ledger_of", "new_folder"]


def check_same_judge(
    stored: Mapping[str, Json],
    judge: Judge | None,
    *,
    fix: str = "give the judge as before, or --reask to ask every question again",
    anywhere: bool = False,
) -> None:
    """Raise InputError if a resumed evaluation had another judge; with `anywhere`, its URL may differ."""
    before = mask_urls((stored.get("judge") or {}).get("identity"))
    asked = None if judge is None else decode(encode(mask_urls(judge.identity)))
    if anywhere:
        before, asked = map(_without_url, (before, asked))
    if not before or not asked or before == asked:
        return
    changed = sorted(name for name in {**before, **asked} if before.get(name) != asked.get(name))
    text = ", ".join(f"{name} is {asked.get(name)} and was {before.get(name)}" for name in changed)
    raise InputError(f"the judge is not the one that this evaluation began with: {text}", fix=fix)


def _without_url(identity: Json) -> Json:
    """Return a judge's identity without the base URLs in it (of a panel, in its members')."""
    if isinstance(identity, Mapping):
        return {name: _without_url(value) for name, value in identity.items() if name != "base_url"}
    return [*map(_without_url, identity)] if isinstance(identity, list | tuple) else identity


def new_folder(spec: Spec, paths: tuple[Path, ...]) -> Path:
    """Return the report folder of a new run: the one named, else one named by the first path and the time."""
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
    """Return the address of a run's ledger; None for a run with --no-cache and no folder.

    With --no-cache the ledger is a file in the report folder until the report is complete. A resumed run uses
    its earlier ledger unless another one is given.
    """
    from germane.ledger.address import is_there

    if spec.no_cache:
        return None if folder is None else str(folder / "ledger.sqlite")
    named, source = spec.first("ledger", "given", "report")
    if named and (source == "given" or is_there(named)):
        return str(named)
    return ledger_address()


def answers_in(folder: FolderWriter, stored: Mapping[str, Json]) -> Ledger | None:
    """Return the answers that earlier sessions left in the report folder as a ledger; None without any.

    `stored` is their manifest. Raises InputError if a complete report's judgements were modified.
    """
    if stored.get("status") == "complete":
        digests, file = stored.get("files", {}), folder.path / "judgements.jsonl"
        if file.name in digests:
            check_digest(file, digests)
    return open_earlier(folder.earlier(finished=not stored.get("replaces", False)))


def command_to_resume(folder: Path, spec: Spec, *flags: str) -> str:
    """Return the command that resumes the run in a folder, including flags that the report does not store."""
    url = ("--base-url", mask_urls(spec.base_url)) if spec.base_url else ()
    headers = [word for name, _ in spec.headers for word in ("--header", f"{name}=...")]
    return shlex.join(["germane", "run", "--resume", str(folder), *flags, *url, *headers])
