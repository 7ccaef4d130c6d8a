"""Add-ons: what each one brings, as plain data, and where a name is found that the core does not know.

germane's own are the packages in this folder, each of which holds its declaration, `ADDON`, in its `__init__`; the core imports
none of them. Other packages register theirs as an entry point of the group `germane.addons`. A declaration maps names to
`module:object`; a module is imported when its name is used. Installed packages are looked through only for a name that neither
the core nor its own add-ons know, since that takes longer than the start of a small command.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, NamedTuple, TypeAlias

from germane.errors import InputError

__all__ = [
    "GROUP",
    "Addon",
    "Dialect",
    "GraderType",
    "Reader",
    "Source",
    "absent",
    "all_of",
    "find",
    "flags",
    "labeller_of",
    "load",
    "own",
    "reader_of",
    "required",
]

GROUP = "germane.addons"
"""The group of entry points with which an installed package registers its add-on."""
Kind: TypeAlias = Literal[
    "dialects",
    "engines",
    "graders",
    "judges",
    "labellers",
    "measures",
    "parts",
    "questions",
    "readers",
    "results",
    "sources",
    "stores",
    "targets",
    "urls",
    "verbs",
    "writers",
]
_NONE: Mapping[str, Any] = MappingProxyType({})


class Reader(NamedTuple):
    """A reader of rows that are no samples yet.

    Attributes:
        read: The function, `module:object`: it gets the rows of a file, each with its number and how to find a place in it, and a
            function that takes notices, and returns rows of samples in the same form.
        first: The keys that a first row must have: one entry for each form of row, of keys that must all be there. `a|b` is one of
            several keys, `a.b` a key within an object, and `a[]` one whose value is a list.
    """

    read: str
    first: Sequence[Sequence[str]]


class Dialect(NamedTuple):
    """A form of eval files other than germane's own.

    Attributes:
        read: The function, `module:object`, a `germane.evalfiles.EvalFileReader`.
        keys: The keys by any of which a file is known to be one, in any spelling.
    """

    read: str
    keys: Sequence[str]


class GraderType(NamedTuple):
    """A type of grader that is no measure.

    Attributes:
        make: The class, `module:object`, a `germane.graders.CaseGrader`; "" = it is not run.
        formula: What its score means; scores are stored under the type. Where it is not run, what to write instead.
        aliases: Other names of the type.
        fixed: Fields of the class that the type says.
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
        options: The options of a run that ask for it. A run that is resumed is given to it whatever they are.
        price: A function, `module:object`, from a judge to its price this way; None = not known, or not possible.
    """

    make: str
    options: Sequence[str]
    price: str


class Addon(NamedTuple):
    """What an add-on brings: names, each with `module:object` or a record of it.

    Attributes:
        about: What it is for, in one sentence.
        dialects: Forms of eval files.
        graders: Types of grader that are no measure, by the type that an eval file names.
        judges: Functions that return a judge, by the name before the colon of `--judge`; called with what follows it, or "".
        questions: Classes of question, by the kind under which answers are stored.
        measures: Measures, what `@measure` returns, by their names.
        readers: Readers of rows in other forms, by the name of the form.
        results: Readers of rows with another program's scores, which return `germane.results.MeasuredRow`.
        verbs: Commands: a function whose parameters are the flags, and the sentence in `germane --help`.
        flags: Flags of these commands and of the core's, as `germane.flags` declares them.
        labellers: Functions that `germane label` calls, with a folder and its flags, for a folder that holds a file of this name.
        sources: Ways to get answers before the judge is asked live, by name.
        stores: Ledgers at URLs, by scheme: functions of a URL and `read_only` that return a `germane.ledger.LedgerTable`.
        targets: Kinds of target, by the `provider` of a targets file: subclasses of `germane.targets.Target`.
        urls: What is done with files at URLs: `check_store`, `fetched`, `is_there`, `pack`, `put` and `scratch`.
        parts: What `--part` makes of its text, under the name "part": a class with `parse`, a `germane.evaluation.plan.Part`.
        engines: What runs all parts at once, by the name that `--engine` takes: functions of a Spec and Callbacks that return the report
            and the baseline it is compared with.
        writers: Formats of a report, by the ending of the file's name: functions from a report to pieces of text.
    """

    about: str
    dialects: Mapping[str, Dialect] = _NONE
    graders: Mapping[str, GraderType] = _NONE
    judges: Mapping[str, str] = _NONE
    questions: Mapping[str, str] = _NONE
    measures: Mapping[str, str] = _NONE
    readers: Mapping[str, Reader] = _NONE
    results: Mapping[str, Reader] = _NONE
    sources: Mapping[str, Source] = _NONE
    verbs: Mapping[str, tuple[str, str]] = _NONE
    flags: Sequence[Any] = ()
    labellers: Mapping[str, str] = _NONE
    targets: Mapping[str, str] = _NONE
    writers: Mapping[str, str] = _NONE
    stores: Mapping[str, str] = _NONE
    urls: Mapping[str, str] = _NONE
    parts: Mapping[str, str] = _NONE
    engines: Mapping[str, str] = _NONE


@cache
def own() -> Mapping[str, Addon]:
    """Germane's own add-ons that are there, by name."""
    names = sorted(module.name for module in pkgutil.iter_modules(__path__) if module.ispkg)
    return {name: import_module(f"{__name__}.{name}").ADDON for name in names}


@cache
def _installed() -> Mapping[str, tuple[str, Addon]]:
    """The add-ons of installed packages by name, each with the name of its package."""
    from importlib.metadata import entry_points  # a tenth of the start of a small command

    found: dict[str, tuple[str, Addon]] = {}
    for point in entry_points(group=GROUP):
        package = point.dist.name if point.dist else point.value
        try:
            declared = point.load()
        except Exception as fault:  # noqa: BLE001 - whatever their module does
            problem = (
                f"the add-on {point.name} of {package} cannot be loaded: {type(fault).__name__}: {fault}"
            )
            raise InputError(problem, fix="mend or uninstall that package") from None
        if not isinstance(declared, Addon):
            problem = f"the entry point {point.name} ({point.value}) of {package} is not an Addon"
            raise InputError(problem, fix="point it to what germane.addons.Addon(...) made")
        found[point.name] = package, declared
    return found


def all_of(kind: Kind, *, installed: bool = False) -> dict[str, Any]:
    """The names that germane's own add-ons bring of a kind; with `installed` those of other packages as well, for help."""
    others = [declared for _, declared in _installed().values()] if installed else []
    lists: list[Mapping[str, Any]] = [getattr(declared, kind) for declared in (*others, *own().values())]
    return {name: value for names in lists for name, value in names.items()}


_BROUGHT: Mapping[str, Mapping[str, str]] = {
    "dialects": dict.fromkeys(
        [
            "evalcases",
            "tests",
            "cases",
            "samples",
            "execution",
            "evaluators",
            "assertions",
            "assert",
            "threshold",
            "compatibility",
        ],
        "agentv",
    ),
    "graders": dict.fromkeys(
        [
            "llmjudge",
            "llmgrader",
            "llmrubric",
            "rubric",
            "rubrics",
            "codejudge",
            "codegrader",
            "script",
            "fieldaccuracy",
            "tooltrajectory",
            "latency",
            "cost",
            "tokenusage",
            "composite",
            "assertset",
            "contains",
            "containsany",
            "containsall",
            "icontains",
            "icontainsany",
            "icontainsall",
            "startswith",
            "endswith",
            "equals",
            "regex",
            "isjson",
            "inlineassert",
            "executionmetrics",
            "skilltrigger",
        ],
        "agentv",
    ),
    "verbs": {
        "answers": "batches",
        "draft": "draft",
        "grade": "agentv",
        "ledger batches": "batches",
        "liverag": "compat",
        "merge": "cluster",
        "questions": "batches",
    },
    "flags": {
        "--drop-bad": "draft",
        "--engine": "cluster",
        "--later": "batches",
        "--part": "cluster",
        "--wait": "batches",
    },
    "stores": dict.fromkeys(["postgresql", "postgres"], "cluster"),
    "urls": dict.fromkeys(["check_store", "fetched", "is_there", "pack", "put", "scratch"], "cluster"),
}
"""Names that germane's own add-ons bring, folded, for the error where one is not there; of a dialect its keys, of a verb's flags
those of the core's verbs."""


def absent(kind: str, name: str) -> str:
    """Return the one of germane's own add-ons that brings this (folded) name, where it is not there; else ""."""
    owner = _BROUGHT.get(kind, _NONE).get(name, "")
    return "" if owner in own() else owner


def find(kind: Kind, name: str) -> Any:
    """What an add-on declares under a name that the core does not know; None where none does."""
    declared = all_of(kind)
    return declared[name] if name in declared else all_of(kind, installed=True).get(name)


def required(kind: Kind, name: str, what: str, fix: str) -> Any:
    """The object that an add-on declares under a name; InputError, which calls it `what`, where no add-on does."""
    if (target := find(kind, name)) is not None:
        return load(target)
    owner = absent(kind, name)
    raise InputError(
        f"{what} needs the add-on {owner}, which is not there" if owner else f"{what}: no add-on knows it",
        fix=fix,
    )


def flags(*, installed: bool = False) -> list[Any]:
    """The flags that germane's own add-ons bring; with `installed` those of other packages as well."""
    others = [declared for _, declared in _installed().values()] if installed else []
    return [flag for declared in (*own().values(), *others) for flag in declared.flags]


def load(target: str) -> Any:
    """The object that `module:object` names.

    Raises:
        InputError: It cannot be imported; names the package that declared it.
    """
    module, _, name = target.partition(":")
    try:
        return getattr(import_module(module), name)
    except (ImportError, AttributeError) as fault:
        package = module.partition(".")[0]
        problem = f"the add-on of {package} names {target}, which cannot be loaded: {fault}"
        raise InputError(problem, fix="mend or uninstall that package") from None


def labeller_of(folder: Path) -> Any:
    """The function that labels what this folder holds; None where it is left to the core."""
    names = all_of("labellers")
    return next((load(names[name]) for name in names if (folder / name).is_file()), None)


_SAMPLE = {"query", "question", "contexts", "retrieved_contexts"}
"""Fields of a row that is a sample, whatever else it has."""


def reader_of(row: object, *, kind: Literal["readers", "results"] = "readers", known: bool = True) -> Any:
    """The function that reads the rows of which this is the first; None where rows are samples, or results, as they are.

    With `known` false installed packages are asked, too.
    """
    if not isinstance(row, Mapping) or not _SAMPLE.isdisjoint(row):
        return None
    for reader in all_of(kind, installed=not known).values():
        if any(all(_has(row, keys) for keys in form) for form in reader.first):
            return load(reader.read)
    return None


def _has(row: Mapping[Any, Any], keys: str) -> bool:
    return any(_at(row, key) for key in keys.split("|"))


def _at(row: Mapping[Any, Any], key: str) -> bool:
    """True if a row has a key; an object may be written as text, as it is in a cell."""
    listed, name = key.endswith("[]"), key.removesuffix("[]")
    if name in row:
        return isinstance(row[name], list) or not listed
    above, dot, below = name.partition(".")
    inner = row.get(above) if dot else None
    if isinstance(inner, str):
        return inner.lstrip().startswith("{") and below in inner
    return isinstance(inner, Mapping) and _at(inner, key[len(above) + 1 :])
