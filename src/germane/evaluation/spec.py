"""The options of an evaluation: its judge, its ledger, and its default measures.

Flags > report > eval file > environment > config > default. The config is the project's germane.toml, or
`[tool.germane]` in its pyproject.toml. The table of flags lists all options. A resumed evaluation uses the
judge and the ledger that it began with.
"""

from __future__ import annotations

import os
import shlex
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

import msgspec

from germane.clean import mask_urls
from germane.encoding import decode, encode
from germane.errors import InputError, SourceLocation, option
from germane.flags import SETTINGS, flags_of, options
from germane.folder.files import read_manifest
from germane.samples.contexts import hint_at_contexts
from germane.samples.files import repository_root, untrusted
from germane.types import FrozenDict, Json, Sample

__all__ = ["Spec", "differing_options", "ledger_address", "ledger_of", "pick_judge", "read_config"]

if TYPE_CHECKING:
    from germane.judges.judge import Judge

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

    def origin(self, name: str) -> SourceLocation | None:
        """Return the config's file if it sets the option's value, else None."""
        return SourceLocation(read_config()[1].name) if self.first(name)[1] == "config" else None

    def get(self, name: str) -> Json:
        """Return the value of an add-on's option; None if it is not given or the add-on is not installed."""
        return self.first(name)[0]

    def __getattr__(self, name: str) -> Any:
        value, source = self.first(name)
        if source:
            return value
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

    def resume_command(self, folder: Path, *flags: str) -> str:
        """Return the command that resumes the run in a folder.

        It contains `flags` and the flags that a report does not store (base URL, headers).
        """
        url = ("--base-url", mask_urls(self.base_url)) if self.base_url else ()
        headers = [word for name, _ in self.headers for word in ("--header", f"{name}=...")]
        return shlex.join(["germane", "run", "--resume", str(folder), *flags, *url, *headers])

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
    """Return the project's config as options, and its file, to whose folder its paths are relative.

    The config is searched for in the working directory, then in its parents. If there is no config, the
    options are empty, and the file is the one that the working directory could have.
    """
    start = Path.cwd()
    for folder in (start, *start.parents):
        for name in ("germane.toml", "pyproject.toml"):
            if not (file := folder / name).is_file():
                continue
            try:
                table = tomllib.loads(file.read_text("utf-8-sig"))
            except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
                problem, place = f"the file is not valid TOML: {error}", SourceLocation(str(file))
                raise InputError(problem, fix="correct the file", place=place) from None
            if name == "pyproject.toml":
                table = table.get("tool", {}).get("germane")
            if table is not None:
                return _checked(table, file), file
    return FrozenDict(), start / "germane.toml"


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
        elif not flag.allows(value):
            problem, fix = f"invalid value {value!r} of the setting {name}", f"write {flag.expected}"
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


def judge_words(spec: Spec) -> tuple[str, bool]:
    """Return the judge's name ("" if no judge is named), and True if it may get a key from the environment.

    A judge named by a flag may get a key. A judge named by a report, a file or the config may not, unless the
    environment names the same judge. A resumed report contains the name with masked URLs, so the unmasked
    name is taken from the file, the environment or the config if they name this judge. Without `--base-url`,
    a base URL from a report or a file becomes part of the name.
    """
    named, source = spec.first("judge")
    words = str(named or "")
    if source == "report":
        sources = (spec.first("judge", name)[0] for name in ("files", "environment", "config"))
        words = next((name for name in sources if name and mask_urls(name) == words), words)
    if source in {"report", "files"} and "base_url" not in spec.given and spec.base_url:
        at_url = (f"{n.partition('@')[0]}@{spec.base_url}" if ":" in n else n for n in words.split())
        words = " ".join(at_url)
    return words, source == "given" or (words == spec.environment.get("judge") and source != "config")


def pick_judge(spec: Spec, needed: Sequence[str] = ()) -> Judge | None:
    """Return the judge that the options in `spec` name; several names separated by spaces make a panel.

    `needed` are the names of the measures that ask a judge. If no judge is named, returns None if `needed` is
    empty, and raises InputError otherwise. A judge named by a file, a report or the config gets no API
    key from the environment for its URL, unless the environment names the same judge.
    """
    words, trusted = judge_words(spec)
    if not words:
        if needed:
            from germane.judges.judge import no_judge

            raise no_judge(needed)
        return None
    from germane.judges import load_judge  # imported only where a judge is named
    from germane.judges.client.providers import Price
    from germane.judges.client.ratelimits import RateLimiter
    from germane.judges.client.retry import RetryPolicy
    from germane.judges.panel import panel_of

    names = words.split()
    values: dict[str, Any] = {flag.judge: getattr(spec, name) for name, flag in OPTIONS.items() if flag.judge}
    values["base_url"] = spec.given.get("base_url")  # a report's URL is in `words`, without a key
    in_flight = spec.jobs if len(names) > 1 else None
    if any(limit is not None for limit in (spec.rpm, spec.tpm, in_flight)):
        values["limiter"] = RateLimiter(rpm=spec.rpm, tpm=spec.tpm, in_flight=in_flight)
    if timeout := spec.timeout:
        values["retry"] = RetryPolicy(read=timeout, deadline=max(RetryPolicy().deadline, 5 * timeout))
    if spec.price:
        values["price"] = Price(input=spec.price[0], output=spec.price[1])
    keywords: dict[str, Any] = {
        name: dict(value) if isinstance(value, tuple) else value
        for name, value in values.items()
        if value not in (None, ())
    }
    judges = [load_judge(name, trusted=trusted, **keywords) for name in names]
    if len(judges) > 1 and ("base_url" in keywords or "headers" in keywords):
        from germane.judges.llm import check_shared

        check_shared(judges, keywords.get("base_url"), keywords.get("headers", {}))
    return panel_of(judges, spec.repeat)


def check_same_judge(
    stored: Mapping[str, Json],
    judge: Judge | None,
    *,
    fix: str = "give the same judge as before, or --reask to ask it every question again",
    anywhere: bool = False,
) -> None:
    """Raise InputError if the resumed evaluation had another judge than `judge`.

    `stored` is the manifest of the resumed evaluation, and `fix` is the advice in the error. With `anywhere`,
    the base URLs of the judges may differ. Nothing is compared if either evaluation has no judge.
    """
    before = mask_urls((stored.get("judge") or {}).get("identity"))
    asked = None if judge is None else decode(encode(mask_urls(judge.identity)))
    if anywhere:
        before, asked = map(_without_url, (before, asked))
    if not before or not asked or before == asked:
        return
    changed = sorted(name for name in {**before, **asked} if before.get(name) != asked.get(name))
    text = ", ".join(f"{name} was {before.get(name)} and is now {asked.get(name)}" for name in changed)
    raise InputError(f"an evaluation must be resumed with the same judge: {text}", fix=fix)


def _without_url(identity: Json) -> Json:
    """Return a judge's identity without its base URL and, for a panel, without its members' base URLs."""
    if isinstance(identity, Mapping):
        return {name: _without_url(value) for name, value in identity.items() if name != "base_url"}
    return [*map(_without_url, identity)] if isinstance(identity, list | tuple) else identity


LOOKED_AT = 10_000
"""The number of samples that are read to choose the default measures."""


_OF_GOLD = ("nDCG@10", "R@10", "RR")
_OF_RELEVANCE = ("context_precision", "context_relevancy(unit=context)")
_OF_REFERENCES = ("context_recall",)


def default_measures(
    samples: Iterable[Sample], judge: str, *, asked: bool = False, place: SourceLocation | None = None
) -> tuple[tuple[str, ...], str]:
    """Return the default measures for these samples, and a note that tells the user how they are measured.

    `judge` is the name of the judge in a flag, a file or the config, or "". A judge that only the environment
    names is not used, so that default measures cost nothing. `asked` is True if a target is asked for the
    contexts. Raises InputError, which names `place`, if the samples allow no measure.
    """
    retrieved = gold = references = False
    hint = ""
    for sample in samples:
        contexts = list(sample.retrieved())
        retrieved = retrieved or asked or sample.contexts is not None or sample.calls is not None
        if any(grade > 0 for grade in (sample.qrels or {}).values()):
            gold = gold or asked or not contexts or any(context.id for context in contexts)
        references = references or bool(sample.reference)
        if not (retrieved or hint):
            hint = hint_at_contexts(sample)
    if not retrieved:
        where = option(" on each line, or name the system to query: --target NAME", " in each")
        fix = f'write "contexts": [...]{where}'
        needed = f"the default measures need retrieved contexts, which the data do not have{hint}"
        raise InputError(f"no measure is named, and {needed}", fix=fix, place=place)
    by = "from people's labels" if judge.casefold() == "labels" else f"judged by {judge}"
    sources: dict[tuple[str, ...], str] = {}
    if gold:
        sources[_OF_GOLD] = "from gold labels (qrels)"
    if judge:
        sources[_OF_RELEVANCE] = by
    if references and not set(judge.casefold().split()) <= {"labels", "gold"}:
        sources[_OF_REFERENCES] = f"{by} against the references"
    if not sources:
        fix = f"write {option('--judge ', 'judge=')}MODEL or labels (GERMANE_JUDGE alone is not enough), "
        fix += f"{option('-m ', 'measures=')}nDCG@10, or give gold: "
        fix += '"qrels": {"d7": 1} and "contexts": [{"id": "d7"}]'
        problem = "no measure and no judge is named, and no sample has gold labels and contexts with ids"
        raise InputError(problem, fix=fix, place=place)
    why = "; ".join(f"{', '.join(names)} {source}" for names, source in sources.items())
    return tuple(chain.from_iterable(sources)), f"measured: {why}; choose others with -m"


def ledger_address(flag: str | None = None) -> str:
    """Return the ledger's address: `flag`, else GERMANE_LEDGER, else the config's, else the default one."""
    from germane.ledger.sqlite import address_from, find_ledger, password_apart

    if named := flag or environment("ledger"):
        return password_apart(named)
    config, file = read_config()
    if config.get("ledger"):
        return password_apart(address_from(file.parent, config["ledger"]))
    return str(find_ledger(Path.cwd()))


def ledger_of(spec: Spec, folder: Path | None) -> str | None:
    """Return the address of the ledger of a run that writes its report to `folder`.

    With --no-cache, the ledger is a file in `folder` until the report is complete; if `folder` is None, the
    run has no ledger, and None is returned. A resumed run uses its earlier ledger if that ledger still exists
    and no other ledger is given.
    """
    from germane.ledger.sqlite import is_there

    if spec.no_cache:
        return None if folder is None else str(folder / "ledger.sqlite")
    named, source = spec.first("ledger", "given", "report")
    if named and (source == "given" or is_there(named)):
        return str(named)
    return ledger_address()
