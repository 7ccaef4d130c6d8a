"""The options of an evaluation: from flags, from the manifest that it continues, from eval files and from the project's config.

Settings of a project stand in germane.toml, or under `[tool.germane]` in pyproject.toml.
Flags > eval file > environment > config > default.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

import msgspec

from germane.clean import mask_urls
from germane.errors import InputError, SourceLocation
from germane.flags import SETTINGS
from germane.samples.files import nearest, repository_root, untrusted, without_scheme
from germane.types import FrozenDict, Json

__all__ = [
    "JudgeOptions",
]

if TYPE_CHECKING:
    from germane.judging.pool import Pool
    from germane.reports.data import ReportData

IN_FILES = tuple(name for name, flag in SETTINGS.items() if flag.in_file)
"""Options that an eval file may set."""
_CONFIGURED = SETTINGS.keys() - {"judge", "measures", "ledger"}
"""Options that the config may set; whose judge, measures and ledger hold is decided in `choice` and `plan`."""


_URLS = {
    "judge",
    "base_url",
    "paths",
    "labels",
    "corpus",
    "targets_file",
    "baseline",
    "replay",
    "outputs",
    "store",
}
"""Options that may hold URLs, and in them keys."""


@dataclass(frozen=True, slots=True)
class Config:
    """The settings in a project's file, lists of texts as tuples; `folder` is where it stands (paths are relative to that)."""

    values: FrozenDict
    folder: Path | None = None


def read_config(start: Path | None = None) -> Config:
    """The nearest germane.toml, or pyproject.toml with `[tool.germane]`, from `start` (the working directory) upwards."""
    start = start or Path.cwd()
    for folder in (start, *start.parents):
        for name in ("germane.toml", "pyproject.toml"):
            if (file := folder / name).is_file() and (table := _table(file)) is not None:
                return Config(_checked(table, file), folder)
    return Config(FrozenDict())


def _table(file: Path) -> dict[str, Json] | None:
    try:
        document = tomllib.loads(file.read_text("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(
            f"not valid TOML: {error}", fix="mend the file", place=SourceLocation(str(file))
        ) from None
    return document if file.name == "germane.toml" else document.get("tool", {}).get("germane")


def _checked(table: dict[str, Json], file: Path) -> FrozenDict:
    checked: dict[str, Json] = {}
    for name, value in table.items():
        key = name.replace("-", "_")
        key = "measures" if key == "metrics" else key
        location = SourceLocation(str(file))
        if key not in SETTINGS:
            near = nearest(key, SETTINGS, 0.6)
            fix = f"did you mean {near}?" if near else f"known settings: {', '.join(SETTINGS)}"
            raise InputError(f"unknown setting {name!r}", fix=fix, place=location)
        if not isinstance(value, SETTINGS[key].setting) or isinstance(value, bool):
            types = " or ".join(kind.__name__ for kind in SETTINGS[key].setting)
            raise InputError(f"{name} must be {types}, not {value!r}", fix="mend the value", place=location)
        listed = value if isinstance(value, list) else [value]
        checked[key] = tuple(map(str, listed)) if list in SETTINGS[key].setting else value
    return FrozenDict(checked)


def environment(name: str) -> str | None:
    """A setting of the environment, `judge` as GERMANE_JUDGE; None where it is empty."""
    return os.environ.get(f"GERMANE_{name.upper()}", "").strip() or None


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeOptions:
    """Options of a judge as plain JSON values. None = the judge's own default.

    Headers may hold keys: they are stored nowhere. `repeat` is how often each judge is asked, `price` in US dollars
    per million tokens in and out, `timeout` in seconds, `rpm` and `tpm` requests and tokens per minute. `given` names
    the options that were given at their defaults: these too go before a file and a manifest.
    """

    base_url: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    reading: str = "fused"
    batch: int = 1
    prompts: tuple[tuple[str, str], ...] = ()
    temperature: float | None = None
    reasoning: str | None = None
    parameters: tuple[tuple[str, Json], ...] = ()
    jobs: int | None = None
    rpm: float | None = None
    tpm: float | None = None
    timeout: float | None = None
    price: tuple[float, float] | None = None
    repeat: int = 1
    given: tuple[str, ...] = ()

    def non_defaults(self) -> dict[str, Json]:
        """The options that are given, or not at their defaults."""
        default = type(self)()
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {
            name: value
            for name, value in values.items()
            if name in self.given or value != getattr(default, name)
        }

    def with_defaults(self, *sources: Mapping[str, Json]) -> Self:
        """The options; one that is not given takes its value from the first source that has it, else from the config."""
        options, names = self.non_defaults(), {field.name for field in fields(self)}
        result: dict[str, Json] = {}
        for source in (read_config().values, *reversed(sources)):
            result |= {
                name: value for name, value in source.items() if value is not None and name in _CONFIGURED
            }
        return replace(
            self, **{name: value for name, value in result.items() if name in names - options.keys()}
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Options(JudgeOptions):
    """All options of `germane run`. Stored in the manifest, headers excepted, so that `--resume` needs no more."""

    paths: tuple[str, ...] = ()
    measures: tuple[str, ...] = ()
    judge: str | None = None
    labels: str | None = None
    corpus: str | None = None
    against: str | None = None
    scale: str | None = None
    rubric: str | None = None
    targets: tuple[str, ...] = ()
    targets_file: str | None = None
    trials: int | None = None
    untrusted: bool = False
    columns: tuple[tuple[str, str], ...] = ()
    doc_id: str | None = None
    wanted: str | None = None
    limit: int | None = None
    sample: int | None = None
    seed: int = 0
    until: tuple[str, ...] = ()
    gates: tuple[str, ...] = ()
    max_unmeasured: float = 0.05
    allow_stand_in: bool = False
    ledger: str | None = None
    replay: str | None = None
    no_cache: bool = False
    max_cost: float | None = None
    max_calls: int | None = None
    folder: str = ""
    force: bool = False
    outputs: tuple[str, ...] = ()
    baseline: str | None = None
    fail_on_regression: bool = False
    by: str | None = None
    part: str | None = None
    engine: str | None = None
    store: str | None = None
    later: bool = False
    wait: bool = False

    def merged_with(self, stored: Mapping[str, Json]) -> Options:
        """The options where they are given, else those in a manifest, whose files are relative to its `cwd`."""
        try:
            earlier = msgspec.convert(stored.get("options") or {}, Options)
        except msgspec.ValidationError as wrong:
            problem = f"the manifest is damaged: {wrong} of its options"
            raise InputError(problem, fix="run the evaluation again") from None
        if (cwd := Path(stored.get("cwd") or "")) != Path.cwd() and cwd.is_dir():
            earlier = _placed(earlier, cwd)
        return replace(earlier, **self.non_defaults())

    def confined(self, stored: Mapping[str, Json] | None = None) -> AbstractContextManager[None]:
        """Within it, where no file is trusted, what they name is not run, and nothing outside of their repositories is read.

        What these options name themselves may stand anywhere; paths of a manifest that is continued are in the repository.
        """
        merged = self.merged_with(stored or {})
        if not merged.untrusted:
            return nullcontext()
        paths = [Path(without_scheme(path)).absolute() for path in self.paths if path != "-"]
        folders = [path if path.is_dir() else path.parent for path in paths] or [Path.cwd()]
        named = (self.targets_file, *(path for _, path in self.prompts))
        return untrusted([*map(repository_root, folders), *paths, *filter(None, named)])

    def as_json(self) -> dict[str, Json]:
        """The options for the manifest: all but the keys in URLs and headers, and what holds for one session."""
        fields = {name: mask_urls(value) if name in _URLS else value for name, value in asdict(self).items()}
        for name in ("headers", "force", "later", "wait", "given"):
            del fields[name]
        return fields


def _placed(stored: Options, cwd: Path) -> Options:
    """Stored options with paths as they are found from here; where nothing stands there any more, as they were written."""

    def relocated(path: str) -> str:
        return str(cwd / path) if (cwd / path).exists() else path

    named = {name: getattr(stored, name) for name in ("targets_file", "baseline", "replay", "corpus")}
    placed: dict[str, Json] = {name: relocated(path) for name, path in named.items() if path}
    placed["paths"] = tuple(map(relocated, stored.paths))
    placed["outputs"] = tuple(str(cwd / path) for path in stored.outputs)
    return replace(stored, **placed)


@dataclass(frozen=True, slots=True)
class Expected:
    """The expected total of a run: questions put to the judge, their price in US dollars (None = not known).

    `exact`: nothing in it is an estimate.
    """

    calls: int
    cost_usd: float | None
    exact: bool


class Callbacks:
    """Callbacks of a run. The defaults ignore everything."""

    wants_forecast = False
    """True if `on_forecast` is to be called; the forecast takes up to a second of CPU."""

    def on_forecast(self, total: Expected) -> None:
        """The expected total of the run, before its first question is put to the judge."""

    def warn(self, text: str) -> None:
        """Something in the input looks like a mistake."""

    def note(self, text: str) -> None:
        """Something was chosen that nobody named: the measures of data that are evaluated by none."""

    def on_stopping(self) -> None:
        """The run was interrupted, and what is in flight is finished and kept; a second time gives that up."""

    def on_baseline(self, baseline: ReportData) -> None:
        """The baseline of the run, read before it starts."""

    def on_progress(self, what: str, done: int, total: int) -> None:
        """`done` of `total` is done of what is under way: cases that ask their target, parts that workers run."""

    def on_judgements(self, pool: Pool) -> None:
        """The pool's counts (answered, asked, cost, errors) have changed."""

    def on_failures(self, command: str) -> None:
        """Some questions have no answer; the command asks them again."""

    def on_stopped(self, report: ReportData) -> None:
        """The run has stopped before its end; the report holds what is known."""
