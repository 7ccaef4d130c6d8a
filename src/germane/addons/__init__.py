"""Declarations of add-ons as plain data, and the lookup of names that the core does not know.

germane's own add-ons are the packages in this folder. Each declares itself by an object `ADDON` in its
`__init__`, and the core imports none of them. Other packages register an add-on as an entry point of the
group `germane.addons`. A declaration maps names to `module:object`, which is imported when the name is used.
Since a search of the installed packages is slow, it happens only for help, and for names that neither the
core nor germane's own add-ons know. Its result is stored for later look-ups.
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
"""The group of entry points in which an installed package registers its add-on."""
_NONE: Mapping[str, Any] = MappingProxyType({})


class Reader(NamedTuple):
    """A reader of files in another tool's format, and the keys by which the format is recognised.

    Attributes:
        read: The function, as `module:object`. Its first argument are the rows of a file; each comes with its
            number and a function that locates a path in it. The second argument is a function to call with
            notices. The function returns rows of samples in the same form.
        first: Lists of keys. A file is in this format if its first row contains all keys of one list. `a|b`
            means one of two keys, `a.b` a key within an object, `a[]` a key whose value is a list.
    """

    read: str
    first: Sequence[Sequence[str]]


class Dialect(NamedTuple):
    """A format of eval files other than germane's own.

    Attributes:
        read: The function that reads such a file, as `module:object`; it is an
            `germane.evalfiles.EvalFileReader`.
        keys: A file is in this format if it contains any of these keys, in any spelling.
    """

    read: str
    keys: Sequence[str]


class GraderType(NamedTuple):
    """A type of grader, other than a measure, that an add-on declares.

    Attributes:
        make: The class, as `module:object`; it is a `germane.graders.CaseGrader`. "" means that eval files
            with this type are refused.
        formula: The formula of its score in words; for a refused type, what to write instead.
        aliases: Other names of the type.
        fixed: Values of fields of the class, which the type sets.
    """

    make: str
    formula: str
    aliases: Sequence[str] = ()
    fixed: Mapping[str, Any] = _NONE


class Source(NamedTuple):
    """A way for `germane run` to get answers before it calls its judge, such as a provider's batches.

    Attributes:
        make: The class, as `module:object`; it is called with the run's `Spec`. Its method `check` raises
            InputError if the judge cannot be asked in this way; in a `dry` run it may change the prices. Its
            coroutine method `answer` stores answers in the run's ledger.
        options: The options of a run that select this source. A resumed run uses the source without them too.
    """

    make: str
    options: Sequence[str]


class Addon(NamedTuple):
    """The declaration of an add-on.

    There is one field for each kind of extension. It maps the names of the extensions to `module:object` or
    to a record that contains it.

    Attributes:
        about: The purpose of the add-on, in one sentence.
        dialects: Formats of eval files, by name.
        engines: Functions that run an evaluation, by the name in `--engine`. Their arguments are a Spec and
            Callbacks, and they return the report and its baseline.
        flags: Flags of the add-on's commands and of the core's commands, as `germane.flags.Flag`.
        graders: Types of grader other than measures, by the name in eval files.
        judges: Functions that return a judge, by the name before the colon in `--judge`. They are called with
            the text after the colon, or "".
        labellers: Functions that `germane label` calls with a folder and its flags, by the name of a file
            that such folders contain.
        measures: Measures (as returned by `@measure`), by their names.
        parts: The class for the value of `--part`, under the name "part". Its `parse` returns a part, with
            `of` (the number of parts), `has` (returns True if a query belongs to the part), `of_limits`
            (returns a Spec with this part's limits), and `entry` (the part's entry in the manifest).
        questions: Classes of question, by the kind under which answers are stored.
        readers: Readers of samples in other tools' formats, by the name of the format.
        results: Readers of files with another program's scores, by the name of the format. They yield
            `germane.results.MeasuredRow`. A JSON object is read as one row. A ZIP archive is read as one row
            that maps the name of each file in it to the path of the archive.
        sources: Ways to get answers before the judge is asked live, by name.
        stores: Functions that return a ledger, a `germane.ledger.store.Ledger`, by the scheme of its URL.
            Their arguments are the URL and `read_only`. If URLs may contain a password, the function has an
            attribute `password_apart`: a function that returns the URL without the password, in which form it
            is stored.
        targets: Subclasses of `germane.targets.Target`, by the `provider` in a targets file.
        urls: Functions for files at URLs: `check_store`, `fetched`, `is_there`, `put` and `scratch`.
        verbs: Commands, by name. Each is a pair of a function, whose parameters are the flags, and the
            sentence about it in `germane --help`.
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
    """Return those of germane's own add-ons that are installed, by name."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg)
    return {name: import_module(f"{__name__}.{name}").ADDON for name in names}


@cache
def _installed() -> Sequence[Addon]:
    """Return the add-ons of other installed packages."""
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
    """Return germane's own add-ons and, with `installed`, those of other installed packages.

    If these packages were searched before, their add-ons are returned without `installed` too.
    """
    return (*own().values(), *(_installed() if installed or _installed.cache_info().currsize else ()))


def all_of(kind: str, *, installed: bool = False) -> dict[str, Any]:
    """Return the extensions that add-ons declare in the field `kind` of `Addon`, by name.

    With `installed`, the add-ons of other installed packages are searched too.
    """
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
    "compat": {
        "results": "results, plan, header.json, journal/start.json, testresults, testcases, testrundata, promptidx, metricsdata",
        "verbs": "liverag",
    },
    "draft": {"flags": "--drop-bad", "verbs": "draft"},
    "traces": {
        "readers": "resourcespans, context.traceid, traceid, context.spanid, spanid",
        "writers": ".phoenix.jsonl, .langfuse.jsonl",
    },
}
"""Folded names that germane's own add-ons declare, for the error if an add-on is not installed.

The names under `flags` are flags of core commands.
"""


def absent(kind: str, *names: str) -> str:
    """Return the name of germane's own add-on that declares one of `names` but is not installed, or ""."""
    wanted = {*names} - {""}
    owners = (owner for owner, brought in _BROUGHT.items() if wanted & {*brought.get(kind, "").split(", ")})
    return next((owner for owner in owners if owner not in own()), "")


def find(kind: str, name: str) -> Any:
    """Return the extension that an add-on declares as `name` in the field `kind` of `Addon`, or None."""
    declared = all_of(kind)
    return declared[name] if name in declared else all_of(kind, installed=True).get(name)


def required(kind: str, name: str, what: str, fix: str) -> Any:
    """Return the object that an add-on declares as `name` in the field `kind`.

    Raises InputError if no installed add-on declares it. `what` is the subject of the error, and `fix` says
    what to do.
    """
    if (target := find(kind, name)) is not None:
        return load(target)
    owner = absent(kind, name)
    why = (
        f" needs the add-on {owner}, which is not installed" if owner else ": no installed add-on defines it"
    )
    raise InputError(f"{what}{why}", fix=fix)


def load(target: str) -> Any:
    """Import and return the object with the name `target`, written as `module:object`.

    Raises InputError, which names the package, if it cannot be imported.
    """
    module, _, name = target.partition(":")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as fault:
        package = module.partition(".")[0]
        problem = f"the add-on of {package} names {target}, which cannot be loaded: {fault}"
        raise InputError(problem, fix="fix or uninstall that package") from None


def labeller_of(folder: Path) -> Any:
    """Return an add-on's function for labelling the items in this folder, or None if there is none."""
    for installed in (False, not (folder / "manifest.json").is_file()):
        for name, target in all_of("labellers", installed=installed).items():
            if (folder / name).is_file():
                return load(target)
    return None


_SAMPLE = {"query", "question", "contexts", "retrieved_contexts"}
"""Fields that only samples have: a row with one of these fields is a sample."""


def reader_of(row: object, *, kind: Literal["readers", "results"] = "readers", known: bool = True) -> Any:
    """Return an add-on's function for reading a file whose first row is `row`, or None if there is none.

    `kind` is the field of `Addon` that declares the function. With `known`, the core can read the file too,
    so other installed packages are not searched.
    """
    if not isinstance(row, Mapping) or not _SAMPLE.isdisjoint(row):
        return None
    for reader in all_of(kind, installed=not known).values():
        for form in reader.first:
            if all(any(_has_key(row, key) for key in keys.split("|")) for keys in form):
                return load(reader.read)
    return None


def _has_key(row: Mapping[Any, Any], key: str) -> bool:
    """Return True if a row contains this key."""
    name = key.removesuffix("[]")
    if name in row:
        return name == key or isinstance(row[name], list)
    above, _, below = name.partition(".")
    inner = row.get(above) if below else None
    if isinstance(inner, str):
        return inner.lstrip().startswith("{") and below in inner
    return isinstance(inner, Mapping) and _has_key(inner, key.partition(".")[2])
