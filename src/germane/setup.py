"""Finding the parts of an evaluation: which judge, which ledger. Flags > eval file > environment > config."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from germane.config import judge_from_environment, read_config
from germane.errors import InputError
from germane.judges.judge import Judge
from germane.judges.panel import seated
from germane.questions.voting import check_vote
from germane.ledger.store import find_ledger
from germane.ledger.store import place_from
from germane.routing import NAME_A_JUDGE
from germane.types import Json

__all__ = ["JudgeOptions", "at", "judge_words", "ledger_place", "pick_judge", "settled"]

ASKED = ("repeat", "vote", "batch", "reading")
"""How judges are asked: what an eval file and the config may say too."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeOptions:
    """How a judge is asked, as plain JSON values. None = the judge's own default.

    Headers may hold keys: they are written down nowhere. `repeat` is how often each judge is asked, `price` in
    US dollars for a million tokens in and out.
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
    repeat: int = 1
    vote: str = "majority"

    def keywords(self, judges: int = 1) -> dict[str, Json]:
        """The arguments of the model judge that these are. Several judges that get the same keep to the limits together."""
        from germane.judging.patience import Patience
        from germane.judging.prices import Price
        from germane.judging.rates import Limits

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
            "limits": Limits(rpm=self.rpm, tpm=self.tpm, in_flight=self.jobs if judges > 1 else None),
            "patience": waits,
            "price": self.price and Price(input=self.price[0], output=self.price[1]),
        }
        given = {name: value for name, value in said.items() if value not in (None, {})}
        return {"reading": self.reading, "batch": self.batch, **given}


Asking = TypeVar("Asking", bound=JudgeOptions)


def settled(options: Asking, in_file: Mapping[str, Json]) -> Asking:
    """These options; of ASKED what no flag says is as the eval file says, else the config."""
    config, default = read_config(Path.cwd()), JudgeOptions()
    given = {name: in_file.get(name, config.get(name)) for name in ASKED}
    unsaid = {
        name: value
        for name, value in given.items()
        if value is not None and getattr(options, name) == getattr(default, name)
    }
    return replace(options, **unsaid)


def _check(options: JudgeOptions) -> None:
    """InputError where no judge can be asked like that, whether or not this one would have to be."""
    check_vote(options.vote)
    if options.reading not in {"fused", "single"}:
        raise InputError(f"there is no reading {options.reading!r}", fix="write fused or single")
    for name in ("repeat", "batch"):
        if getattr(options, name) < 1:
            raise InputError(f"{name} is {getattr(options, name)}", fix="write 1 or more")


def _check_shared(judges: list[Judge], options: JudgeOptions) -> None:
    if len(judges) > 1 and (options.base_url or options.headers):
        from germane.judging.judges.llm import check_shared

        check_shared(judges, options.base_url, options.headers)


def judge_words(flag: str | None, in_file: str | None = None) -> tuple[str, bool]:
    """The judge that is named first: by flag, in the file, by GERMANE_JUDGE, in the config; "" where none is.

    And whether it is trusted with a key. What a file names is not, unless the environment says the very same.
    """
    environment = judge_from_environment()
    named = (
        (flag, True),
        (in_file, in_file == environment),
        (environment, True),
        (_config_judge(), False),
    )
    return next(((name, trusted) for name, trusted in named if name), ("", False))


def _config_judge() -> str:
    named = read_config(Path.cwd()).get("judge")
    return " ".join(map(str, named)) if isinstance(named, list | tuple) else named or ""


def at(names: str, url: str) -> str:
    """The same judges, their models at that URL."""
    return " ".join(f"{name.partition('@')[0]}@{url}" if ":" in name else name for name in names.split())


def pick_judge(
    flag: str | None,
    in_file: str | None = None,
    *,
    options: JudgeOptions | None = None,
    proxy: str | None = None,
    needed: bool = True,
) -> Judge | None:
    """The judge that is named first (see `judge_words`), else a runner's proxy.

    Several names with white space between them are a panel. None where none is named and none is needed; InputError
    where one is. A judge that is not trusted with a key gets none from the environment for its URL. `options` None =
    as the config says.
    """
    from germane.judges import judge_named  # the model judge is not needed to find none

    asked = settled(JudgeOptions(), {}) if options is None else options
    _check(asked)
    words, trusted = judge_words(flag, in_file)
    if words:
        names = words.split()
        keywords = asked.keywords(len(names))
        judges = [judge_named(name, trusted=trusted, **keywords) for name in names]
        _check_shared(judges, asked)
        return seated(judges, asked.repeat, asked.vote)
    if proxy:
        from germane.judges.proxy import ProxyJudge

        return ProxyJudge(proxy, os.environ.get("AGENTV_TARGET_PROXY_TOKEN", ""))
    if needed:
        raise InputError("these measures need a judge", fix=NAME_A_JUDGE)
    return None


def ledger_place(flag: str | None = None) -> str:
    """Where the ledger is: by flag, GERMANE_LEDGER, config, else beside the nearest project file."""
    config = read_config(Path.cwd())
    named = flag or os.environ.get("GERMANE_LEDGER")
    if named:
        return named
    if config.get("ledger") and config.folder is not None:
        return place_from(config.folder, str(config.get("ledger")))
    return str(find_ledger(Path.cwd()))
