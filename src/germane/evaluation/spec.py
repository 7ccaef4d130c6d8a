"""The options of an evaluation: from flags, a resumed report, eval files, the environment and the config.

Flags > report > eval file > environment > config > default. The config is the project's germane.toml, or
`[tool.germane]` in its pyproject.toml. The table of flags lists all options.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

import msgspec

from germane.clean import mask_urls
from germane.errors import InputError, SourceLocation
from germane.flags import SETTINGS, flags_of, options
from germane.folder.files import read_manifest
from germane.samples.files import repository_root, untrusted
from germane.types import FrozenDict, Json

__all__ = ["Callbacks", "Spec", "differing_options"]

if TYPE_CHECKING:
    from germane.judging.asker import Asker
    from germane.judging.spending import Spent
    from germane.reports.data import ReportData

OPTIONS = options()
OUTPUTS: dict[str, Json] = {"folder": "", "outputs": (), "store": None}
"""The options that -o of `run` sets, with defaults: the report folder, report files, a URL for the folder."""
IN_FILES = tuple(name for name, flag in OPTIONS.items() if flag.in_file)
"""Options that an eval file may set."""
_SOURCES = ("given", "report", "files", "environment", "config")
_NOTHING: FrozenDict = FrozenDict()


@dataclass(frozen=True, slots=True)
class Spec:
    """The options of an evaluation as attributes, merged from several sources.

    An option has its value in the first of these sources that sets it: `given` (flags, or the arguments of a
    call), `report` (the report to resume), `files` (the eval files), `environment` (only the judge) and
    `config`. If no source sets it, it has its default; without a default it is None, () or False. Sources
    contain only options that were set, so that "not set" differs from "set to the default".
    """

    given: FrozenDict = _NOTHING
    report: FrozenDict = _NOTHING
    files: FrozenDict = _NOTHING
    environment: FrozenDict = _NOTHING
    config: FrozenDict = _NOTHING

    @classmethod
    def of(cls, **options: Json) -> Spec:
        """Return a Spec with these options as `given`; None, (), [] and False count as not given."""
        return cls().but(**options)

    def but(self, **options: Json) -> Spec:
        """Return a copy with these options replaced in `given`; None, (), [] and False remove an option."""
        if unknown := options.keys() - OPTIONS.keys() - OUTPUTS.keys():
            raise TypeError(f"no such option: {', '.join(sorted(unknown))}")
        given = {**self.given, **{name: _plain(value) for name, value in options.items()}}
        return replace(self, given=_of_values(given))

    def in_project(self) -> Spec:
        """Return a copy with the options from the environment and the working directory's config."""
        config = dict(read_config()[0])
        config.pop("ledger", None)  # `ledger_address` reads it, relative to the config's folder
        named = environment("judge")
        found = FrozenDict({"judge": named} if named else {})
        return replace(self, environment=found, config=FrozenDict(config))

    def in_files(self, values: Mapping[str, Json]) -> Spec:
        """Return a copy with these options as `files`; None, () and False count as not set."""
        return replace(self, files=_of_values(values))

    def resumed(self) -> tuple[Spec, dict[str, Json]]:
        """Return a copy with the options of the report to resume, and its manifest; (self, {}) for a new run.

        Raises InputError if `germane run` did not write the report, or its options are invalid.
        """
        if not self.resume:
            return self, {}
        stored = read_manifest(Path(self.resume))
        if "options" not in stored:
            problem = f"the report {self.resume} was not written by `germane run`, so it cannot be resumed"
            call = f"evaluate(..., folder={str(self.resume)!r})"
            raise InputError(problem, fix=f"repeat the call that wrote it: {call} or germane score")
        return self.resuming(stored), stored

    def resuming(self, manifest: Mapping[str, Json]) -> Spec:
        """Return a copy with the options in a report's manifest. Raises InputError if they are invalid."""
        options = manifest.get("options") or {}
        if unknown := _unknown_options(options):
            problem = f"the report has options of an add-on that is not installed: {', '.join(unknown)}"
            raise InputError(problem, fix="install the add-on, then resume the run")
        types = [(name, kind | None, None) for name, kind in _stored_options().items()]
        try:
            stored = msgspec.convert(options, msgspec.defstruct("StoredOptions", types))
        except msgspec.ValidationError as wrong:
            problem = f"the options in the report's manifest are damaged: {wrong}"
            raise InputError(problem, fix="run the evaluation again") from None
        return replace(self, report=_of_values(msgspec.structs.asdict(stored)))

    def first(self, name: str, *sources: str) -> tuple[Json, str]:
        """Return an option's value in the first source that sets it, and the name of that source.

        `sources` are the names of the sources to search. Default: all. Returns (None, "") if no source sets
        the option.
        """
        for source in sources or _SOURCES:
            if name in (values := getattr(self, source)):
                return values[name], source
        return None, ""

    def get(self, name: str) -> Json:
        """Return the value of an add-on's option; None if it is not given or the add-on is not installed."""
        return self.first(name)[0]

    def __getattr__(self, name: str) -> Any:
        for source in _SOURCES:
            if name in (values := getattr(self, source)):
                return values[name]
        if name in OPTIONS:
            return OPTIONS[name].absent
        if name in OUTPUTS:
            return OUTPUTS[name]
        raise AttributeError(f"an evaluation has no option {name!r}")

    def confined(self) -> AbstractContextManager[None]:
        """Return a context that restricts eval files if they are `untrusted`.

        In it, they can run nothing and read nothing outside their repositories. Paths from flags may be
        anywhere; the paths in a resumed report must be inside the repository.
        """
        if not self.untrusted:
            return nullcontext()
        paths = [
            Path(path.removeprefix("file://")).absolute()
            for path in self.given.get("paths", ())
            if path != "-"
        ]
        folders = [path if path.is_dir() else path.parent for path in paths] or [Path.cwd()]
        named = (self.given.get("targets_file"), *(path for _, path in self.given.get("prompts", ())))
        return untrusted([*map(repository_root, folders), *paths, *filter(None, named)])

    def as_json(self) -> dict[str, Json]:
        """Return the options for the manifest, with keys in URLs and headers masked.

        Options that concern a single command are left out. Measures from the config are left out too, because
        they are only defaults for data files.
        """
        names = [name for name, flag in OPTIONS.items() if flag.holds != "command"]
        fields = {name: getattr(self, name) for name in (*names, *OUTPUTS)}
        fields["measures"] = self.first("measures", "given", "report")[0] or ()
        return {name: mask_urls(value) for name, value in fields.items()}


def differing_options(row: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Return the names of options that differ in two parts of an evaluation but must be equal in all parts.

    `row` and `other` are the options of the two parts.
    """
    _unknown_options({**row, **other})
    names = {name for name in {**row, **other} if name in OPTIONS and OPTIONS[name].holds == "evaluation"}
    return sorted(name for name in names if row.get(name) != other.get(name))


def _of_values(values: Mapping[str, Json]) -> FrozenDict:
    """Return the options that have a value other than None, False and ()."""
    return FrozenDict({name: v for name, v in values.items() if v is not None and v is not False and v != ()})


def _plain(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(map(_plain, value))
    return str(value) if isinstance(value, Path) else value


def _unknown_options(stored: Mapping[str, Json]) -> list[str]:
    """Return the names of stored options that have a value but belong to no flag."""
    unknown = [name for name, value in stored.items() if value and name not in _stored_options()]
    if unknown:
        flags_of("run", installed=True)
    return [name for name in unknown if name not in _stored_options()]


def _stored_options() -> dict[str, Any]:
    """Return the options that are stored in a manifest, each with the type of its value."""
    types: dict[str, Any] = {"folder": str, "outputs": tuple[str, ...], "store": str}
    for name, flag in OPTIONS.items():
        if flag.holds == "command":
            continue
        if flag.read is not None:
            types[name] = get_type_hints(getattr(flag.read, "func", flag.read))["return"]
        else:
            kind = str if flag.kind is Path else flag.kind
            types[name] = tuple[kind, ...] if flag.several else kind  # type: ignore[valid-type]
    return types


def read_config() -> tuple[FrozenDict, Path]:
    """Return the project's config as options, and the folder to which its paths are relative.

    The config is searched for in the working directory, then in its parents. If there is no config, the
    options are empty, and the folder is the working directory.
    """
    start = Path.cwd()
    for folder in (start, *start.parents):
        for name in ("germane.toml", "pyproject.toml"):
            if (file := folder / name).is_file() and (table := _table(file)) is not None:
                return _checked(table, file), folder
    return FrozenDict(), start


def _table(file: Path) -> dict[str, Json] | None:
    try:
        document = tomllib.loads(file.read_text("utf-8-sig"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        place = SourceLocation(str(file))
        raise InputError(
            f"the file is not valid TOML: {error}", fix="correct the file", place=place
        ) from None
    return document if file.name == "germane.toml" else document.get("tool", {}).get("germane")


def _checked(table: dict[str, Json], file: Path) -> FrozenDict:
    checked: dict[str, Json] = {}
    for name, value in table.items():
        key = name.replace("-", "_")
        key = "measures" if key == "metrics" else key
        flag = SETTINGS.get(key)
        if flag is None:
            problem, fix = f"unknown setting {name!r}", f"known settings: {', '.join(SETTINGS)}"
        elif not isinstance(value, flag.setting) or isinstance(value, bool):
            types = " or ".join(kind.__name__ for kind in flag.setting)
            problem = f"the setting {name} is {value!r}, not a value of type {types}"
            fix = f"write a value of type {types}"
        elif flag.least is not None and isinstance(value, int | float) and value < flag.least:
            problem, fix = (
                f"the setting {name} is {value}, below {flag.least:g}",
                f"write {flag.least:g} or more",
            )
        elif flag.choices and value not in flag.choices:
            problem, fix = (
                f"unknown value {value!r} of the setting {name}",
                f"write {' or '.join(flag.choices)}",
            )
        else:
            texts = tuple(map(str, value if isinstance(value, list) else [value]))
            read = flag.read(texts, name) if flag.read else texts
            checked[key] = read if list in flag.setting else value
            continue
        raise InputError(problem, fix=fix, place=SourceLocation(str(file)))
    return FrozenDict(checked)


def environment(name: str) -> str | None:
    """Return the environment variable GERMANE_NAME (GERMANE_JUDGE for "judge"); None if empty or not set."""
    return os.environ.get(f"GERMANE_{name.upper()}", "").strip() or None


class Callbacks:
    """The functions that a run calls to report its progress. By default they do nothing."""

    wants_forecast = False
    """True if `on_forecast` is to be called; the forecast takes up to a second of CPU."""

    def on_forecast(self, total: Spent) -> None:
        """Called before the judge's first question with the expected number and cost of the run's calls."""

    def warn(self, text: str) -> None:
        """Called with a warning if the input seems to have a mistake."""

    def note(self, text: str) -> None:
        """Called with a note on the default measures, if no measures were named."""

    def on_stopping(self) -> None:
        """Called when the run was interrupted and waits for requests in flight, until interrupted again."""

    def on_baseline(self, baseline: ReportData) -> None:
        """Called with the report that the run is compared with, before it starts."""

    def on_progress(self, what: str, done: int, total: int) -> None:
        """Called when `done` of `total` steps are complete; `what` is the task ("asking the target")."""

    def on_judgements(self, asker: Asker) -> None:
        """Called with the asker when its counts (answered, asked, cost, errors) have changed."""

    def on_failures(self, command: str) -> None:
        """Called if some questions got no answer, with the command that asks them again."""

    def on_stopped(self, report: ReportData) -> None:
        """Called when the run has stopped early, with a report on the results so far."""
