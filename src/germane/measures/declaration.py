"""Declare measures and graders, and find them by name, in a file or in an installed package.

`@measure` declares a generator of questions or a plain function of the sample. Users' measures come from
add-ons, or from a file (`my_measures.py:first_hit`) that is run only if a command, an eval file or a call
names it: a stored report cannot make it run.
"""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, overload

from germane.addons import all_of, find, load
from germane.errors import GermaneError, InputError, MeasureError, SourceLocation, describe
from germane.measures.measure import _REGISTRY, FINDERS, Definition, Measure, Param, define, refuse_commas
from germane.places.table import RankedLabels
from germane.samples.files import check_trusted
from germane.types import FrozenDict

if TYPE_CHECKING:
    from types import ModuleType


Body: TypeAlias = Callable[..., Any]
Declare: TypeAlias = Callable[[Body], Measure]

MeasureOptions: TypeAlias = Mapping[str, Any]
"""Options of `@measure`, by name: fields of `Definition` that several measures share."""


@overload
def measure(name: Body, /) -> Measure: ...
@overload
def measure(name: str = "", /, **options: Any) -> Declare: ...
def measure(name: str | Body = "", /, **options: Any) -> Measure | Declare:
    """Declare a measure; the decorated function's name becomes the Measure.

    The function takes the sample as its first argument. Keyword arguments are the measure's parameters, `k`
    if the measure has a cut-off, and `settings` if it needs the evaluation's settings. The function returns a
    number or an Outcome. If it asks a judge, it is a generator that yields the questions.

    The measure is named after the function unless `name` is given. Its parameters are the function's keyword
    arguments with their defaults, unless `params` declares them. `options` are fields of `Definition`. A
    sample that lacks one of the fields in `needs` is skipped.
    """

    def declare(body: Body) -> Measure:
        doc, asks = inspect.getdoc(body) or "", inspect.isgeneratorfunction(body)
        takes, params = list(inspect.signature(body).parameters), dict[str, Param]()
        if inspect.iscoroutinefunction(body):
            fix = "write def, and ask a judge with `yield from ask(...)`"
            raise MeasureError(f"{body.__name__} is asynchronous, which a measure cannot be", fix=fix)
        needs, ends = options.get("needs", "contexts"), options.get("range", (0.0, 1.0))
        if options.get("better", "higher") not in {"higher", "lower"} or not ends[0] < ends[1]:
            fix = 'write better="higher" or better="lower", and range=(0.0, 1.0), the lower end first'
            raise MeasureError(f"{body.__name__}: better or range is invalid", fix=fix)
        for key, parameter in () if "params" in options else inspect.signature(body).parameters.items():
            if key in {"settings", "k", takes[0]}:
                continue
            if type(parameter.default) not in {bool, int, float, str}:
                raise MeasureError(
                    f"{body.__name__}: the parameter {key} needs a default that is a number, a string, "
                    "True or False",
                    fix=f"write a default such as {key}=1, or declare {key} with @measure(params=...)",
                )
            params[key] = Param(type(parameter.default), parameter.default, f"see {body.__name__}")
        usual = {
            "name": body.__name__ if callable(name) else name or body.__name__,
            "family": "judged",
            "compute": body,
            "formula": doc.partition("\n")[0],
            "doc": doc,
            "params": params,
            "calls": "?" if asks else "0",
            "labels": "judge" if asks else "gold",
            "cutoff": "optional" if "k" in takes else "none",
            "settings": "settings" in takes,
        }
        given = {**usual, **options, "needs": (needs,) if isinstance(needs, str) else tuple(needs)}
        new = define(Definition(**given))
        return Measure(new.name, FrozenDict(new.when))

    return declare(name) if callable(name) else declare


def ranked_measure(name: str, formula: Callable[..., Any], /, **options: Any) -> Measure:
    """Define a ranked measure by its formula and return it; `options` are fields of its Definition.

    The formula takes a table of labels and, by name, any parameters of the measure and `k`. It returns a
    value per ranking, or a pair (numerators, denominators).
    """
    takes = tuple(inspect.signature(formula).parameters)[1:]

    def compute(table: RankedLabels, params: Mapping[str, Any], k: int | None) -> Any:
        if params.get("holes") == "condensed":
            table = table.condensed
        arguments = {name: k if name == "k" else params[name] for name in takes}
        if "rel" in arguments and arguments["rel"] is None:
            arguments["rel"] = table.rel
        return formula(table, **arguments)

    nothing, cutoff = "0 if nothing relevant is retrieved", "optional" if "k" in takes else "none"
    usual = {"nothing": nothing, "cutoff": cutoff}
    new = Definition(name=name, family="ranked", needs=("contexts",), compute=compute, **{**usual, **options})
    return Measure(name, FrozenDict(define(new).when))


FILE_MARK = ".py:"
"""The end of a Python file's name and the colon before a measure's name: `my_measures.py:first_hit`."""
_WORD = re.compile(r"(?:[^\s()]|\([^()]*\))+")


def parse_measures(texts: Iterable[str], folder: Path | None = None) -> tuple[Measure, ...]:
    """Return the distinct measures named in strings of one or more names, as `find_measure` reads them.

    Raises MeasureError if parentheses are unmatched or nested, if a comma stands between names, or if a name
    is that of a grader.
    """
    result: dict[Measure, None] = {}
    for text in texts:
        if FILE_MARK not in text:
            refuse_commas(text)
        if leftover := _WORD.sub("", text).strip():
            problem = f"{text.strip()!r} is not a measure: the parenthesis {leftover[0]!r} is unmatched"
            raise MeasureError(problem, fix="write one pair of parentheses: NAME(param=value)@10")
        for word in _WORD.findall(text):
            measure = find_measure(word, folder)
            if measure.definition.family == "graded":
                fix = "list it under graders in an eval file, with its options"
                raise MeasureError(f"{word} is a grader, not a measure", fix=fix)
            result[measure] = None
    return tuple(result)


def listed_measures(measures: Any) -> Iterator[Any]:
    """Yield each measure and grader in `measures`, which is one of them, a string of names, or several.

    Raises InputError for a value of another type, such as a measure of another library.
    """
    single = isinstance(measures, Measure | str) or hasattr(measures, "grade")
    for value in measures if isinstance(measures, Iterable) and not single else [measures]:
        if isinstance(value, str):
            yield from parse_measures([value])
        elif isinstance(value, Measure):
            yield value.require_cutoff()
        elif hasattr(value, "grade"):
            yield value
        else:
            fix = 'write "nDCG@10" or context_precision @ 5'
            raise InputError(f"the list of measures contains {describe(value)}, not a measure", fix=fix)


def find_measure(text: str, folder: Path | None = None, *, lenient: bool = False) -> Measure:
    """Return the measure with a name such as `nDCG@10` or `my_measures.py:first_hit(least=2)@5`.

    A relative path starts from `folder`, that of the eval file that names it, or the working directory. With
    `lenient`, a required cut-off may be missing. Raises InputError if the measure is unknown, if its Python
    file is missing or fails to run, or if the eval file is not trusted.
    """
    if FILE_MARK not in text:
        return Measure.parse(text, lenient=lenient)
    if folder is not None:
        check_trusted(f"a measure runs {text!r}")
    head, _, rest = text.partition(FILE_MARK)
    path = Path(f"{head}.py").expanduser()
    path = path if path.is_absolute() or folder is None else folder / path
    module, name = _module(path.resolve()), rest.partition("(")[0].partition("@")[0].strip()
    found = getattr(module, name, None) if name else None
    if inspect.isfunction(found) and found.__module__ == module.__name__:  # not decorated
        found = measure(found)
        setattr(module, name, found)
    if not isinstance(found, Measure):
        have = ", ".join(key for key, value in vars(module).items() if isinstance(value, Measure))
        fix = f"{path.name} defines {have or 'no measure'}; declare one with @germane.measures.measure"
        raise InputError(f"{path} has no measure {name!r}", fix=fix)
    return Measure.parse(found.name + rest.strip()[len(name) :], lenient=lenient)


@cache
def _module(path: Path) -> ModuleType:
    """Import a Python file and return its module; later calls return the same module."""
    if not path.is_file():
        raise InputError(f"the file {path} does not exist", fix="write FILE.py:NAME of a measure")
    name = f"_germane_user_{path.stem}_{_module.cache_info().currsize}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[module.__name__] = module  # dataclasses in the file look their module up
    sys.path.insert(0, str(path.parent))  # the file may import its neighbours
    try:
        spec.loader.exec_module(module)
    except BaseException as fault:
        del sys.modules[module.__name__]
        if isinstance(fault, KeyboardInterrupt):
            raise
        frames = traceback.extract_tb(fault.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == str(path)]
        line, message = lines[-1] if lines else None, str(fault)
        if isinstance(fault, SyntaxError):
            line, message = fault.lineno, fault.msg
        what = message if isinstance(fault, GermaneError) else f"{type(fault).__name__}: {message}"
        raise InputError(what, fix="correct that file", place=SourceLocation(str(path), line or 0)) from None
    finally:
        sys.path.remove(str(path.parent))
    return module


def install(name: str | None = None) -> None:
    """Load the installed add-on that defines the measure `name`; None loads all, "" none."""
    for own, target in all_of("measures", installed=True).items() if name != "" else ():
        if (name is None or own.casefold() == name.casefold()) and not isinstance(load(target), Measure):
            what = f"the entry point {own} = {target} of an add-on is not a measure"
            raise InputError(what, fix="name a function that is decorated with @measure")


FINDERS.append(install)


PASS, BORDERLINE = 0.8, 0.6


def verdict_of(score: float, least: float = PASS) -> Literal["pass", "borderline", "fail"]:
    """Return "pass" for a score from `least`, "borderline" from BORDERLINE, else "fail"."""
    reached = round(score, 12)  # the mean of .7, .8 and .9 is not quite .8
    return "pass" if reached >= least else "borderline" if reached >= BORDERLINE else "fail"


STRICT = "strict: "
"""The prefix of the note on a score whose case fails because of `strict: true`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Grader:
    """A measure, or another grader, with its options from an eval file.

    Attributes:
        measure: The measure. With `by`, it only names the type under which the scores are stored.
        name: The name under which the scores are reported. Default: the measure's name.
        weight: The weight in the mean score of a case.
        required: The lowest score that each case must reach; it becomes a gate of the evaluation.
        threshold: The lowest score with which a case passes.
        strict: If true, one irrelevant context fails the case; the score is unchanged.
        expected_relevant_count: If fewer relevant contexts are found, a note is added to the score.
        by: The `germane.graders.CaseGrader` that grades the case; None for a plain measure.
        options: `DECLARED` if the eval file describes a grader; empty if it only names a measure.
    """

    measure: Measure
    name: str = ""
    weight: float = 1.0
    required: float | None = None
    threshold: float | None = None
    strict: bool = False
    expected_relevant_count: int | None = None
    by: Any = None
    options: FrozenDict = field(default_factory=FrozenDict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "name", self.name or str(self.measure))

    @property
    def declares(self) -> bool:
        """True if the eval file describes this grader (not only names a measure): cases then pass or fail."""
        described = self.measure.definition.family == "graded" or self.strict or bool(self.options)
        return described or (self.required, self.threshold) != (None, None)


def graders_of(measures: tuple[Measure, ...]) -> tuple[Grader, ...]:
    """Return one grader per measure, without options."""
    return tuple(Grader(measure=measure) for measure in measures)


def _never(*_: object, **__: object) -> None:
    raise AssertionError("a grader of an eval file is not a measure")


DECLARED = FrozenDict(declared=True)
"""The value of `options` for a grader that an eval file describes."""


def define_grader(name: str, formula: str = "what its check returns", reference: str = "") -> None:
    """Register a grader's name as a measure, so that its scores can be stored and shown.

    Nothing happens if it is registered already. Raises MeasureError if a measure has this name.
    """
    if any(definition.compute is _never for definition in _REGISTRY.get(name, ())):
        return
    aliases = (name.replace("_", "-"),) if "_" in name else ()
    texts: dict[str, Any] = {"formula": formula, "reference": reference, "aliases": aliases}
    doc = "A grader, declared in an eval file."
    define(Definition(name=name, family="graded", compute=_never, needs=(), doc=doc, **texts))


for _name, _kind in all_of("graders").items():
    if _kind.make:
        define_grader(_name, _kind.formula, "AgentV")


def _define_installed(name: str) -> None:
    """Register the grader with this name as a measure, if an installed package declares it."""
    if (kind := find("graders", name) if name else None) is not None and kind.make:
        define_grader(name, kind.formula)
        _REGISTRY[name] = [replace(_REGISTRY[name][0], formula=kind.formula)]  # its class may have come first


FINDERS.append(_define_installed)


def needs_judge(graders: Iterable[Grader]) -> list[str]:
    """Return the names of the graders that ask a judge."""
    return list(dict.fromkeys(grader.name for grader in graders if (grader.by or grader.measure).asks))


def belonging_to(measures: Iterable[Measure]) -> list[Measure]:
    """Return the measures that are reported along with measures of gold labels.

    For each cut-off, this is Judged (the proportion of passages with a label); for RBP, also its residual.
    """
    result: dict[Measure, None] = {}
    for measure in measures:
        settings, k = measure.settings, measure.k
        if measure.definition.family == "ranked" and measure.labels == "gold":
            if settings.get("part") == "score":
                result[measure(part="residual")] = None
            if settings.get("part") == "score" or settings.get("holes") == "zero":
                judged = Measure.parse(f"Judged(over={settings['over']})")
                result[judged if k is None or isinstance(k, float) else judged @ k] = None
    return [*result]
