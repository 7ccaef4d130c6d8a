"""Add-ons: their declarations as plain data, and the lookup of names that the core does not know.

germane's own add-ons are the packages in this folder, each with its declaration, `ADDON`, in its `__init__`;
the core imports none of them. Other packages register an add-on as an entry point of the group
`germane.addons`. A declaration maps names to `module:object`, which is imported when the name is used. Since
searching installed packages is slow, it is done only for help and for names that neither the core nor
germane's own add-ons know; add-ons that were found stay available.
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
    """A reader of files in another tool's format, and the keys by which the format is recognised.

    Attributes:
        read: The function, `module:object`. It takes the rows of a file, each with its number and a function
            that locates a path in it, and a function to call with notices; it returns rows of samples in the
            same form.
        first: Lists of keys; a file is in this format if its first row has all keys of one list. `a|b` is one
            of two keys, `a.b` a key within an object, `a[]` a key whose value is a list.
    """

    read: str
    first: Sequence[Sequence[str]]


class Dialect(NamedTuple):
    """A format of eval files other than germane's own.

    Attributes:
        read: The function that reads such a file, `module:object`, a `germane.evalfiles.EvalFileReader`.
        keys: A file that has any of these keys, in any spelling, is in this format.
    """

    read: str
    keys: Sequence[str]


class GraderType(NamedTuple):
    """A type of grader, other than a measure, that an add-on declares.

    Attributes:
        make: A class, `module:object`, a `germane.graders.CaseGrader`; "" = eval files with this type are
            refused.
        formula: The meaning of its score; for a refused type, what to write instead.
        aliases: Other names of the type.
        fixed: Values that the type gives to fields of the class.
    """

    make: str
    formula: str
    aliases: Sequence[str] = ()
    fixed: Mapping[str, Any] = _NONE


class Source(NamedTuple):
    """A way for `germane run` to get answers before it calls its judge, such as a provider's batches.

    Attributes:
        make: A class, `module:object`, that is called with the run's `Spec`. Its `check` raises InputError
            for a judge that cannot be asked this way; its coroutine function `answer` puts answers into the
            run's ledger.
        options: The options of a run that select this source; a resumed run uses it even without them.
    """

    make: str
    options: Sequence[str]


class Addon(NamedTuple):
    """The declaration of an add-on: for each kind of extension, names mapped to a `module:object` or record.

    Attributes:
        about: What it is for, in one sentence.
        dialects: Formats of eval files.
        engines: Functions that run an evaluation, by the name in `--engine`: from a Spec and Callbacks to the
            report and its baseline.
        flags: Flags of its commands and of the core's, as `germane.flags.Flag` declares them.
        graders: Types of grader other than measures, by the name in eval files.
        judges: Functions that return a judge, by the name before the colon of `--judge`; called with what follows it, or "".
        labellers: Functions that `germane label` calls with a folder and its flags, by the name of a file in
            such folders.
        measures: Measures (as returned by `@measure`), by their names.
        parts: The class for the value of `--part`, under "part". Its `parse` returns a part, with `of` (the
            number of parts), `has` (whether a query belongs to the part), `of_limits` (a Spec with the part's
            share of the limits), and `entry` (the part's entry in the manifest).
        questions: Classes of question, by the kind under which answers are stored.
        readers: Readers of samples in other tools' formats, by the name of the format.
        results: Readers of rows with another program's scores, which return `germane.results.MeasuredRow`.
            A JSON object is one row; a ZIP archive one that maps the name of each of its files to its path.
        sources: Ways to get answers before the judge is asked live.
        stores: Functions of a URL and `read_only` that return a ledger, a `germane.ledger.store.Ledger`, by scheme. One
            whose URLs may hold a password has a `password_apart` that returns a URL without it, before the URL is stored.
        targets: Subclasses of `germane.targets.Target`, by the `provider` of a targets file.
        urls: Functions for files at URLs: `check_store`, `fetched`, `is_there`, `put` and `scratch`.
        verbs: Commands, each with a function whose parameters are the flags, and its sentence in `germane
            --help`.
        writers: Functions that yield a report as pieces of text, by the suffix of the output file.
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
        package, fix = point.dist.name if point.dist else point.value, "fix or uninstall that package"
        try:
            declared = point.load()
            if not isinstance(declared, Addon):
                raise TypeError(f"{point.value} is no Addon")  # noqa: TRY301 - as any error of the module
        except Exception as fault:  # noqa: BLE001 - any error of a package's module
            why = f"cannot be loaded: {type(fault).__name__}: {fault}"
            raise InputError(f"the add-on {point.name} of {package} {why}", fix=fix) from None
        addons.append(declared)
    return addons


def declared(*, installed: bool) -> Sequence[Addon]:
    """Return germane's own add-ons, and those of installed packages if `installed` or searched before."""
    return (*own().values(), *(_installed() if installed or _installed.cache_info().currsize else ()))


def all_of(kind: str, *, installed: bool = False) -> dict[str, Any]:
    """Return what add-ons declare in the field `kind`, by name; `installed` includes installed packages."""
    names: dict[str, Any] = {}
    for addon in declared(installed=installed):
        names = names | {**getattr(addon, kind), **names}
    return names


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
    """Return which of germane's own add-ons declares `name` but is not installed, or ""."""
    owners = (owner for owner, names in _BROUGHT.items() if name in names.get(kind, "").split(", "))
    return next((owner for owner in owners if name and owner not in own()), "")


def find(kind: str, name: str) -> Any:
    """Return what an add-on declares as `name` in the field `kind` of `Addon`, or None if none does."""
    declared = all_of(kind)
    return declared[name] if name in declared else all_of(kind, installed=True).get(name)


def required(kind: str, name: str, what: str, fix: str) -> Any:
    """Return the object that an add-on declares as `name`; if none does, raise InputError about `what`."""
    if (target := find(kind, name)) is not None:
        return load(target)
    owner = absent(kind, name)
    why = (
        f" needs the add-on {owner}, which is not installed" if owner else ": no installed add-on defines it"
    )
    raise InputError(f"{what}{why}", fix=fix)


def load(target: str) -> Any:
    """Return the object that `module:object` names; InputError names the package if it cannot be imported."""
    module, _, name = target.partition(":")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as fault:
        package = module.partition(".")[0]
        problem = f"the add-on of {package} names {target}, which cannot be loaded: {fault}"
        raise InputError(problem, fix="fix or uninstall that package") from None


def labeller_of(folder: Path) -> Any:
    """Return the add-on's function that labels the items in this folder, or None if no add-on has one."""
    for installed in (False, not (folder / "manifest.json").is_file()):
        for name, target in all_of("labellers", installed=installed).items():
            if (folder / name).is_file():
                return load(target)
    return None


_SAMPLE = {"query", "question", "contexts", "retrieved_contexts"}
"""Fields of which any one makes a row a sample."""


def reader_of(row: object, *, kind: Literal["readers", "results"] = "readers", known: bool = True) -> Any:
    """Return the add-on's function that reads rows like this first one, or None if no add-on recognises them.

    `known`: the core can read them too, so installed packages are not searched.
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
    """Return True if a row has this key, which may be a path (`a.b`) into an object or into JSON text."""
    name = key.removesuffix("[]")
    if name in row:
        return name == key or isinstance(row[name], list)
    above, _, below = name.partition(".")
    inner = row.get(above) if below else None
    if isinstance(inner, str):
        return inner.lstrip().startswith("{") and below in inner
    return isinstance(inner, Mapping) and _has_key(inner, key.partition(".")[2])
