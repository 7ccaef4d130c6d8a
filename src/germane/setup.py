"""Finding the parts of an evaluation: which judge, which ledger. Flags > eval file > environment > config."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from germane.config import judge_from_environment, read_config
from germane.errors import InputError
from germane.evaluation import NAME_A_JUDGE
from germane.judging.judge import Judge
from germane.judging.ledger import SQLiteLedger, find_ledger
from germane.types import Json

__all__ = ["JudgeOptions", "ledger_path", "open_ledger", "pick_judge"]


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeOptions:
    """How a judge is asked, as plain JSON values. None = the judge's own default.

    Headers may hold keys: they are written down nowhere. `panel` are the judges who vote beside the first one,
    `repeat` how often each is asked; `price` is in US dollars for a million tokens in and out.
    """

    base_url: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    reading: str = "fused"
    batch: int = 1
    prompts: tuple[tuple[str, str], ...] = ()
    temperature: float | None = None
    parameters: tuple[tuple[str, Json], ...] = ()
    jobs: int | None = None
    rpm: float | None = None
    tpm: float | None = None
    timeout: float | None = None
    price: tuple[float, float] | None = None
    panel: tuple[str, ...] = ()
    repeat: int = 1
    vote: str = "majority"

    def keywords(self) -> dict[str, Json]:
        """The arguments of the model judge that these are."""
        from germane.judging.patience import Patience
        from germane.judging.prices import Price

        waits = self.timeout and Patience(
            read=self.timeout, deadline=max(Patience().deadline, 5 * self.timeout)
        )
        said: dict[str, Json] = {
            "base_url": self.base_url,
            "headers": dict(self.headers),
            "prompts": dict(self.prompts),
            "temperature": self.temperature,
            "parameters": dict(self.parameters),
            "concurrency": self.jobs,
            "rpm": self.rpm,
            "tpm": self.tpm,
            "patience": waits,
            "price": self.price and Price(input=self.price[0], output=self.price[1]),
        }
        given = {name: value for name, value in said.items() if value not in (None, {})}
        return {"reading": self.reading, "batch": self.batch, **given}


def pick_judge(
    flag: str | None,
    in_file: str | None = None,
    *,
    options: JudgeOptions | None = None,
    proxy: str | None = None,
    needed: bool = True,
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
    asked = options or JudgeOptions()
    for name, trusted in named:
        if name:
            judges = [judge_named(one, trusted=trusted, **asked.keywords()) for one in (name, *asked.panel)]
            return _seated(judges, asked)
    if proxy:
        from germane.judging.judges.proxy import ProxyJudge

        return ProxyJudge(proxy, os.environ.get("AGENTV_TARGET_PROXY_TOKEN", ""))
    if needed:
        raise InputError("these measures need a judge", fix=NAME_A_JUDGE)
    return None


def _seated(judges: Sequence[Judge], options: JudgeOptions) -> Judge:
    """The judge, or a panel of several judges and of several samples of each."""
    from germane.judging.judges.panel import PanelJudge, repeated

    members = [member for judge in judges for member in repeated(judge, options.repeat)]
    return PanelJudge(members, options.vote) if len(members) > 1 else members[0]


def ledger_path(flag: Path | None = None) -> Path:
    """Where the ledger is: by flag, GERMANE_LEDGER, config, else beside the nearest project file."""
    config = read_config(Path.cwd())
    named = flag or os.environ.get("GERMANE_LEDGER")
    if named:
        return Path(named)
    if config.get("ledger") and config.folder is not None:
        return config.folder / str(config.get("ledger"))
    return find_ledger(Path.cwd())


def open_ledger(flag: Path | None = None) -> SQLiteLedger:
    """The ledger in its usual place, or where the flag says."""
    return SQLiteLedger(ledger_path(flag))
