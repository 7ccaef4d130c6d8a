"""Declare measures, and find them by name, file or package.

`@measure` declares a program or a plain function of the sample, `@ranked_measure` a formula on one ranking's labels.
Users' measures come from a file (`my_measures.py:first_hit`) or from an add-on. A file is run only if a command, an eval file
or a call names its path; a stored report cannot make it run.
"""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, TypedDict, Unpack, overload

import numpy as np

from germane.addons import all_of, load
from germane.errors import GermaneError, InputError, MeasureError, SourceLocation
from germane.measures.measure import FINDERS, Cutoff, Definition, Measure, Param, Value, define
from germane.measures.ranked import LABELS, OVER, REL
from germane.places.table import Floats, RankedLabels, Source
from germane.samples.files import check_trusted, nearest
from germane.types import FrozenDict

if TYPE_CHECKING:
    from types import ModuleType


Body: TypeAlias = Callable[..., Any]
Declare: TypeAlias = Callable[[Body], Measure]

_TYPES = (bool, int, float, str)


class MeasureOptions(TypedDict, total=False):
    """The fields of its Definition that the declaration of a measure may set."""

    needs: tuple[str, ...]
    formula: str
    reference: str
    nothing: str
    calls: str
    labels: Source
    cutoff: Cutoff
    range: tuple[float, float]
    better: Literal["higher", "lower"]
    aliases: tuple[str, ...]
    presets: Mapping[str, Mapping[str, Value]]
    params: Mapping[str, Param]
    answerable: bool
    when: Mapping[str, Value]


@overload
def measure(name: Body, /) -> Measure: ...
@overload
def measure(
    name: str = "", /, *, shared: MeasureOptions | None = None, **options: Unpack[MeasureOptions]
) -> Declare: ...
def measure(
    name: str | Body = "", /, *, shared: MeasureOptions | None = None, **options: Any
) -> Measure | Declare:
    """Declare a measure; the decorated name becomes its Measure value.

    The decorated function takes the sample, then by keyword its parameters, `k` if it has a cut-off, and `settings` if it wants
    the evaluation's. It is a generator of questions, or a plain function if it asks no judge; it returns a number or an
    Outcome. Its name is the measure's by default, and its keyword defaults are the parameters unless `params` declares them. A
    sample that lacks one of `needs` is skipped before it starts. Options are fields of `Definition`; `shared` are options that
    several measures have in common.
    """
    return _decorator(_of_samples, name, {**(shared or {}), **options})


def _decorator(
    usual: Callable[[Body, Mapping[str, Any]], dict[str, Any]], name: str | Body, options: Mapping[str, Any]
) -> Measure | Declare:
    """Return a decorator that declares a function as a measure, or that measure; the docstring gives formula and meaning."""

    def declare(body: Body) -> Measure:
        doc = inspect.getdoc(body) or ""
        filled = {
            "needs": ("contexts",),
            "formula": doc.partition("\n")[0],
            "doc": doc,
            **usual(body, options),
        }
        own = body.__name__ if callable(name) else name or body.__name__
        new = define(Definition(name=own, **{**filled, **options}), interactive=body.__module__ == "__main__")
        return Measure(own, FrozenDict(new.when))

    return declare(name) if callable(name) else declare


def _of_samples(body: Body, options: Mapping[str, Any]) -> dict[str, Any]:
    asks = inspect.isgeneratorfunction(body)
    takes = list(inspect.signature(body).parameters)
    return {
        "family": "judged",
        "compute": body,
        "params": {} if "params" in options else _params_of(body, {"settings", "k", *takes[:1]}),
        "calls": "?" if asks else "0",
        "labels": "judge" if asks else "gold",
        "cutoff": "optional" if "k" in takes else "none",
        "settings": "settings" in takes,
    }


def _params_of(body: Body, ours: set[str]) -> dict[str, Param]:
    """Return a function's keyword parameters, but those that it is given, as parameters of the measure."""
    params = {}
    for name, parameter in inspect.signature(body).parameters.items():
        if name in ours:
            continue
        if type(parameter.default) not in _TYPES:
            names = f"what it is given is called {', '.join(sorted(ours))}; " if "relevant" in ours else ""
            raise MeasureError(
                f"{body.__name__}: the parameter {name} needs a default that is a number, a text, True or False",
                fix=f"{names}write {name}=1 for a parameter, or declare it with params=",
            )
        params[name] = Param(type(parameter.default), parameter.default, f"see {body.__name__}")
    return params


@overload
def ranked_measure(name: Body, /) -> Measure: ...
@overload
def ranked_measure(name: str = "", **options: Unpack[MeasureOptions]) -> Declare: ...
def ranked_measure(name: str | Body = "", **options: Any) -> Measure | Declare:
    """Declare a formula on one ranking: a plain function of its labels, best rank first, that returns a number.

    Its arguments are chosen by name: `relevant` (a list of True and False), `grades` (what each place is worth; None =
    unjudged), `ideal` (the grades of all that is judged, best first) and `k` (None = all); the lists are cut at k. Further
    arguments with a default become parameters. Labels, threshold (`rel=`), several calls, missing verdicts and explanations work
    as for every ranked measure. Options are fields of `Definition`.
    """
    return _decorator(_of_labels, name, options)


_GIVEN = {"relevant", "grades", "ideal", "k"}


def _of_labels(body: Body, options: Mapping[str, Any]) -> dict[str, Any]:
    takes = frozenset(inspect.signature(body).parameters)
    labels = options.get("labels", "judge")
    params = {**_params_of(body, _GIVEN), "labels": replace(LABELS, default=labels), "over": OVER}
    return {
        "family": "ranked",
        "compute": partial(_rows, body, takes),
        "params": {**params, "rel": REL} if "relevant" in takes else params,
        "labels": labels,
        "cutoff": "optional",
    }


def _rows(
    body: Body, takes: frozenset[str], table: RankedLabels, params: Mapping[str, Any], k: int | None
) -> Floats:
    """Return the value of a user's formula for each ranking."""
    own = {name: params[name] for name in takes - _GIVEN}
    rel = params.get("rel") or table.rel
    values = []
    for row in range(table.rows):
        labels = table.rows_from(row, row + 1).dense()
        pairs = zip(labels.gain.tolist(), labels.judged.tolist(), strict=True)
        arguments = {
            "relevant": (labels.level >= rel).tolist()[:k],
            "grades": [gain if judged else None for gain, judged in pairs][:k],
            "ideal": labels.ideal.tolist(),
            "k": k,
        }
        values.append(float(body(**{name: arguments[name] for name in takes & _GIVEN}, **own)))
    return np.array(values, dtype=np.float64)


FILE_MARK = ".py:"
"""The mark of a measure in a Python file: `my_measures.py:first_hit`."""
_WORD = re.compile(r"(?:[^\s()]|\([^()]*\))+")


def parse_measures(texts: Iterable[str], folder: Path | None = None) -> tuple[Measure, ...]:
    """Return the distinct measures that texts name, each text one or more names with white space between.

    `my_measures.py:first_hit` runs that file and takes the measure from it; a relative path starts from `folder`, by default the
    working directory. MeasureError if parentheses do not match or are nested.
    """
    result: dict[Measure, None] = {}
    for text in texts:
        if leftover := _WORD.sub("", text).strip():
            raise MeasureError(
                f"{text.strip()!r} is not a measure: {leftover[0]!r} has no partner",
                fix="write NAME(param=value)@10",
            )
        for word in _WORD.findall(text):
            measure = find_measure(word, folder)
            if measure.definition.family == "graded":
                raise MeasureError(
                    f"{word} is a grader, no measure", fix="declare it in an eval file, with its options"
                )
            result[measure] = None
    return tuple(result)


def find_measure(text: str, folder: Path | None = None, *, lenient: bool = False) -> Measure:
    """Return the measure that a text names, by its name or as in `my_measures.py:first_hit(least=2)@5`.

    A relative path starts from `folder` if an eval file there names the measure, else from the working directory. InputError if
    the file is missing, fails to run or has no measure of that name, or the eval file is not trusted.
    """
    if FILE_MARK in text:
        if folder is not None:
            check_trusted(f"a measure runs {text!r}")
        head, _, rest = text.partition(FILE_MARK)
        path = Path(f"{head}.py").expanduser()
        path = path if path.is_absolute() or folder is None else folder / path
        name = rest.partition("(")[0].partition("@")[0].strip()
        text = _measure_in(_module(path), name, path).name + rest.strip()[len(name) :]
    return Measure.parse(text, lenient=lenient)


def _module(path: Path) -> ModuleType:
    """Return the module in a file, which is run once."""
    try:
        real = path.resolve(strict=True)
    except OSError:
        near = nearest(path.name, [p.name for p in path.parent.glob("*.py")], 0.6)
        fix = f"did you mean {path.with_name(near)}?" if near else "give the path of a Python file"
        raise InputError(f"no file {path}", fix=fix) from None
    return _run(real)


@cache
def _run(path: Path) -> ModuleType:
    name = f"_germane_user_{path.stem}_{_run.cache_info().currsize}"
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
        raise _failed(path, fault) from None
    finally:
        sys.path.remove(str(path.parent))
    return module


def _failed(path: Path, fault: BaseException) -> InputError:
    """Return the error with the line of the user's file that raised it."""
    frames = traceback.extract_tb(fault.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path)]
    line = fault.lineno if isinstance(fault, SyntaxError) else lines[-1] if lines else None
    message = fault.msg if isinstance(fault, SyntaxError) else str(fault)
    what = message if isinstance(fault, GermaneError) else f"{type(fault).__name__}: {message}"
    return InputError(what, fix="mend the file", place=SourceLocation(str(path), line or 0))


def _measure_in(module: ModuleType, name: str, path: Path) -> Measure:
    result = getattr(module, name, None) if name else None
    if isinstance(result, Measure):
        return result
    if inspect.isfunction(result) and result.__module__ == module.__name__:
        declared = measure(result)
        setattr(module, name, declared)
        return declared
    have = [key for key, value in vars(module).items() if isinstance(value, Measure)]
    near = nearest(name, have, 0.6)
    fix = f"did you mean {path.name}:{near}?" if near else f"it has {', '.join(have) or 'none'}"
    problem = f"{path} has no measure {name!r}" if name else f"{path}: which measure of it?"
    raise InputError(problem, fix=f"{fix} (declare one with @measure from germane.measures)")


def install_all(name: str | None = None) -> None:
    """Load the measure of that name from an add-on that has one; without a name load all of them."""
    if name == "":
        return
    declared = all_of("measures")
    if name is None or not any(name.casefold() == one.casefold() for one in declared):
        declared = all_of("measures", installed=True)
    for one, target in declared.items():
        if name is not None and one.casefold() != name.casefold():
            continue
        if not isinstance(load(target), Measure):
            what = f"the measure {one} of an add-on ({target}) is not a measure"
            raise InputError(what, fix="point it to what @measure returns")


FINDERS.append(install_all)
