"""Finding the parts of an evaluation: which judge, which ledger. Flags > eval file > environment > config."""

from __future__ import annotations

import os
from pathlib import Path

from germane.config import judge_from_environment, read_config
from germane.errors import InputError
from germane.evaluation import NAME_A_JUDGE
from germane.judging.judge import Judge
from germane.judging.ledger import SQLiteLedger, find_ledger
from germane.types import Json

__all__ = ["open_ledger", "pick_judge"]


def pick_judge(
    flag: str | None,
    in_file: str | None = None,
    *,
    base_url: str | None = None,
    proxy: str | None = None,
    needed: bool = True,
    **options: Json,
) -> Judge | None:
    """The judge that is named first: by flag, in the file, by GERMANE_JUDGE, in the config; else a runner's proxy.

    None where none is named and none is needed; InputError where one is. A judge that a file names is not
    trusted with a key: its URL gets none from the environment.
    """
    from germane.judges import judge_named  # the model judge is not needed to find none

    named = (
        (flag, True),
        (in_file, False),
        (judge_from_environment(), True),
        (read_config(Path.cwd()).get("judge"), False),
    )
    for name, trusted in named:
        if name:
            return judge_named(name, trusted=trusted, base_url=base_url, **options)
    if proxy:
        from germane.judging.judges.proxy import ProxyJudge

        return ProxyJudge(proxy, os.environ.get("AGENTV_TARGET_PROXY_TOKEN", ""))
    if needed:
        raise InputError("these measures need a judge", fix=NAME_A_JUDGE)
    return None


def open_ledger(flag: Path | None = None) -> SQLiteLedger:
    """The ledger: by flag, GERMANE_LEDGER, config, else beside the nearest project file."""
    config = read_config(Path.cwd())
    named = flag or os.environ.get("GERMANE_LEDGER")
    if named:
        return SQLiteLedger(Path(named))
    if config.get("ledger") and config.folder is not None:
        return SQLiteLedger(config.folder / str(config.get("ledger")))
    return SQLiteLedger(find_ledger(Path.cwd()))
