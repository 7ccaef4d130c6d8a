"""Add-ons: their declarations as plain data, and the lookup of names that the core does not know.

germane's own are the packages in this folder, each with its declaration, `ADDON`, in its `__init__`; the core imports none of
them. Other packages register theirs as an entry point of the group `germane.addons`. A declaration maps names to
`module:object`, which is imported when the name is used. Installed packages are looked through only for a name that neither the
core nor its own add-ons know, and for help, since that takes longer than a small command; from then on they count.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from germane.errors import InputError

__all__ = ["GROUP", "Addon", "Dialect", "GraderType", "Reader", "Source", "load", "own"]

GROUP = "germane.addons"
"""The group of entry points with which an installed package registers its add-on."""
_NONE: Mapping[str, Any] = MappingProxyType({})


class Reader(NamedTuple):
    """A function that reads rows of another form as samples or scores, and the keys by which such rows are known.

    Attributes:
        read: A function, `module:object`: from the rows of a file, each with its number and a function that locates a path in it,
            and a function for notices, to rows of samples in the same form.
        first: The keys that a first row must have, one entry per form of row: `a|b` is one of two keys, `a.b` a key within an
            object, `a[]` one whose value is a list.
    """

    read: str
    first: Sequence[Sequence[str]]


class Dialect(NamedTuple):
    """A form of eval files other than germane's own.

    Attributes:
        read: A function, `module:object`, a `germane.evalfiles.EvalFileReader`.
        keys: The keys, in any spelling, each of which marks a file of this form.
    """

    read: str
    keys: Sequence[str]


class GraderType(NamedTuple):
    """A type of grader that is no measure.

    Attributes:
        make: A class, `module:object`, a `germane.graders.CaseGrader`; "" = it is known and refused.
        formula: What its score means; of a refused one, what to write instead.
        aliases: Other names of the type.
        fixed: Fields of the class that the type sets.
    """

    make: str
    formula: str
    aliases: Sequence[str] = ()
    fixed: Mapping[str, Any] = _NONE


class Source(NamedTuple):
    """A way in which `germane run` gets answers before it asks its judge live.

    Attributes:
        make: A class, `module:object`, that is called with the run's `Spec`. Its `check` raises InputError for a judge that cannot
            be asked so, and its coroutine function `answer` puts answers into the run's ledger.
        options: The options of a run that ask for it; a resumed run is handed to it whatever they are.
    """

    make: str
    options: Sequence[str]


class Addon(NamedTuple):
    """What an add-on brings: names, each with `module:object` or a record of it.

    Attributes:
        about: What it is for, in one sentence.
        dialects: Forms of eval files.
        engines: Functions of a Spec and Callbacks that run an evaluation and return its report and baseline, by `--engine` name.
        flags: Flags of its commands and of the core's, as `germane.flags.Flag` declares them.
        graders: Types of grader that are no measure, by the type that an eval file names.
        judges: Functions that return a judge, by the name before the colon of `--judge`; called with what follows it, or "".
        labellers: Functions that `germane label` calls, with a folder and its flags, for a folder that holds a file of this name.
        measures: Measures, what `@measure` returns, by their names.
        parts: What `--part` makes of its text, under "part": a class whose `parse` returns a part. It has `of` (the number of
            parts), `has` (whether cases with a query belong to it), `of_limits` (a Spec with its share of the limits), and `entry`
            (its entry in the manifest).
        questions: Classes of question, by the kind under which answers are stored.
        readers: Readers of rows in other forms, by the name of the form.
        results: Readers of rows with another program's scores, which return `germane.results.MeasuredRow`.
        sources: Ways to get answers before the judge is asked live.
        stores: Functions of a URL and `read_only` that return a ledger, a `germane.ledger.store.Ledger`, by scheme. One
            whose URLs may hold a password has a `password_apart` that returns a URL without it, before the URL is stored.
        targets: Subclasses of `germane.targets.Target`, by the `provider` of a targets file.
        urls: What is done with files at URLs: `check_store`, `fetched`, `is_there`, `put` and `scratch`.
        verbs: Commands: a function whose parameters are the flags, and the sentence in `germane --help`.
        writers: Functions from a report to pieces of text, by the ending of the file's name.
    """

    about: str
    dialects: Mapping[str, Dialect] = _NONE
    engines: Mapping[str, str] = _NONE
    flags: Sequence[Any] = ()
    graders: Mapping[str, GraderType] = _NONE
    judges: Mapping[str, str] = _NONE
    labellers: Mapping[str, str] = _NONE
    measures: Mapping[str, str] = _NONE
    parts: Mapping[str, str] = _NONE
    questions: Mapping[str, str] = _NONE
    readers: Mapping[str, Reader] = _NONE
    results: Mapping[str, Reader] = _NONE
    sources: Mapping[str, Source] = _NONE
    stores: Mapping[str, str] = _NONE
    targets: Mapping[str, str] = _NONE
    urls: Mapping[str, str] = _NONE
    verbs: Mapping[str, tuple[str, str]] = _NONE
    writers: Mapping[str, str] = _NONE


@cache
def own() -> Mapping[str, Addon]:
    """Return germane's own add-ons that are present, by name."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg)
    return {name: import_module(f"{__name__}.{name}").ADDON for name in names}


@cache
def _installed() -> Sequence[Addon]:
    """Return the add-ons of installed packages; InputError names the package whose add-on cannot be loaded."""
    from importlib.metadata import entry_points  # a tenth of the start of a small command

    addons = []
    for point in entry_points(group=GROUP):
        package, fix = point.dist.name if point.dist else point.value, "mend or uninstall that package"
        try:
            declared = point.load()
            if not isinstance(declared, Addon):
                raise TypeError(f"{point.value} is not an Addon")  # noqa: TRY301 - as any error of the module
        except Exception as fault:  # noqa: BLE001 - any error of a package's module
            why = f"cannot be loaded: {type(fault).__name__}: {fault}"
            raise InputError(f"the add-on {point.name} of {package} {why}", fix=fix) from None
        addons.append(declared)
    return addons


def _addons(*, installed: bool) -> Sequence[Addon]:
    """Return germane's add-ons, then those of installed packages, if asked for or looked through before."""
    return (*own().values(), *(_installed() if installed or _installed.cache_info().currsize else ()))


def all_of(kind: str, *, installed: bool = False) -> dict[str, Any]:
    """Return the names that add-ons declare in one field; `installed` also searches installed packages."""
    names: dict[str, Any] = {}
    for addon in _addons(installed=installed):
        names = names | {**getattr(addon, kind), **names}
    return names


def flags(*, installed: bool = False) -> list[Any]:
    """Return the add-ons' flags; `installed` also searches installed packages."""
    return [flag for addon in _addons(installed=installed) for flag in addon.flags]


_BROUGHT: Mapping[str, Mapping[str, str]] = {
    "agentv": {
        "dialects": "evalcases, tests, cases, execution, evaluators, assertions, assert, threshold, compatibility",
        "graders": "llmjudge, llmgrader, rubric, rubrics, codejudge, codegrader, script, fieldaccuracy, tooltrajectory, latency, "
        "cost, tokenusage, composite, assertset, contains, icontains, startswith, endswith, equals, regex, isjson",
        "verbs": "grade",
        "writers": "index.jsonl",
    },
    "batches": {"flags": "--later", "verbs": "answers, questions"},
    "cluster": {
        "flags": "--engine, --part",
        "stores": "postgres, postgresql",
        "urls": "check_store, fetched, is_there, put, scratch",
        "verbs": "merge",
    },
    "compat": {"verbs": "liverag"},
    "draft": {"flags": "--drop-bad", "verbs": "draft"},
    "traces": {
        "readers": "resourcespans, context.traceid, traceid, context.spanid, spanid",
        "writers": ".phoenix.jsonl, .langfuse.jsonl",
    },
}
"""Names (folded) that germane's own add-ons bring, for the error if one is not installed; of `flags`, those of core commands."""


def absent(kind: str, name: str) -> str:
    """Return the name of germane's own add-on that provides this (folded) name but is absent, or ""."""
    owners = (owner for owner, names in _BROUGHT.items() if name in names.get(kind, "").split(", "))
    return next((owner for owner in owners if name and owner not in own()), "")


def find(kind: str, name: str) -> Any:
    """Return what an add-on declares under a name that the core does not know; None if none does."""
    declared = all_of(kind)
    return declared[name] if name in declared else all_of(kind, installed=True).get(name)


def required(kind: str, name: str, what: str, fix: str) -> Any:
    """Return the object that an add-on declares under a name; InputError, about `what`, if none does."""
    if (target := find(kind, name)) is not None:
        return load(target)
    owner = absent(kind, name)
    why = f" needs the add-on {owner}, which is not installed" if owner else ": no add-on knows it"
    raise InputError(f"{what}{why}", fix=fix)


def load(target: str) -> Any:
    """Return the object that `module:object` names; InputError names the package if it cannot be imported."""
    module, _, name = target.partition(":")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as fault:
        package = module.partition(".")[0]
        problem = f"the add-on of {package} names {target}, which cannot be loaded: {fault}"
        raise InputError(problem, fix="mend or uninstall that package") from None


def labeller_of(folder: Path) -> Any:
    """Return the function that labels what this folder holds; None if it is a report, which the core labels."""
    for installed in (False, not (folder / "manifest.json").is_file()):
        for name, target in all_of("labellers", installed=installed).items():
            if (folder / name).is_file():
                return load(target)
    return None


_SAMPLE = {"query", "question", "contexts", "retrieved_contexts"}
"""Fields of which any one makes a row a sample."""


def reader_of(row: object, *, kind: Literal["readers", "results"] = "readers", known: bool = True) -> Any:
    """Return the function that reads the rows of which this is the first; None if they are read as they are.

    `known`: the core can read them otherwise, so that installed packages need not be looked through.
    """
    if not isinstance(row, Mapping) or not _SAMPLE.isdisjoint(row):
        return None
    for reader in all_of(kind, installed=not known).values():
        if any(all(_has(row, keys) for keys in form) for form in reader.first):
            return load(reader.read)
    return None


def _has(row: Mapping[Any, Any], keys: str) -> bool:
    return any(_has_key(row, key) for key in keys.split("|"))


def _has_key(row: Mapping[Any, Any], key: str) -> bool:
    """Return True if a row has this key; an object may be written as text, as in a cell."""
    name = key.removesuffix("[]")
    if name in row:
        return name == key or isinstance(row[name], list)
    above, _, below = name.partition(".")
    inner = row.get(above) if below else None
    if isinstance(inner, str):
        return inner.lstrip().startswith("{") and below in inner
    return isinstance(inner, Mapping) and _has_key(inner, key.partition(".")[2])
