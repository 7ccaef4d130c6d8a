"""Declaring a measure, ours or a user's own, and finding it by its name, its file or its package.

`@measure` is for a program or a plain function of the sample, `@ranked_measure` for a formula on one ranking's labels.
Measures that are not ours come from a file (`my_measures.py:first_hit`) or from an installed package (entry-point group
`germane.measures`). A file is run only where its path is written by the person at the keyboard: on the command line, in an
eval file, in a call. A stored report names measures by their own names and can make nothing run.
"""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
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


class _Common(TypedDict, total=False):
    formula: str
    reference: str
    nothing: str
    labels: Source
    cutoff: Cutoff
    range: tuple[float, float]
    better: Literal["higher", "lower"]
    aliases: tuple[str, ...]
    presets: Mapping[str, Mapping[str, Value]]


class MeasureOptions(_Common, total=False):
    """The fields of its Definition that a measure of samples may set."""

    needs: tuple[str, ...]
    calls: str
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

    What is decorated takes the sample, then (by keyword) its parameters, `k` where it has a cut-off, and `settings`
    where it wants the evaluation's. It is a generator of questions, or a plain function where it asks nobody; it
    returns a number or an Outcome. Without a name its own is taken, without `params` its keyword defaults are the
    parameters. A sample that lacks one of `needs` is skipped before it starts. Options are fields of `Definition`;
    `shared` are those that several measures have in common.
    """
    return _decorator(_of_samples, name, {**(shared or {}), **options})


def _decorator(
    usual: Callable[[Body, Mapping[str, Any]], dict[str, Any]], name: str | Body, options: Mapping[str, Any]
) -> Measure | Declare:
    """Return a decorator that declares a function as a measure, or that measure; the function's docstring fills what the options leave out."""

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
    """A function's own keyword parameters as parameters of the measure."""
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
def ranked_measure(name: str = "", **options: Unpack[_Common]) -> Declare: ...
def ranked_measure(name: str | Body = "", **options: Any) -> Measure | Declare:
    """Declare a formula on one ranking: a plain function of its labels, best rank first, that returns a number.

    What it is given depends on the names of its arguments: `relevant` (a list of True and False), `grades` (what each
    place is worth; None = unjudged), `ideal` (the grades of all that is judged, best first), `k` (None = all). The
    lists are cut at k already. Further arguments with a default become parameters. Labels, threshold (`rel=`),
    several calls, missing verdicts and explanations are what they are for every ranked measure. Options: the fields of
    `Definition`.
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
    """Measures from texts with one or more names each, split at white space outside parentheses; duplicates fold.

    `my_measures.py:first_hit` runs that file and takes the measure from it; a relative path starts from `folder`, by
    default the working directory. MeasureError where parentheses are not closed, not opened, or nested.
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
    """The measure that a text names: as `Measure.parse`, or by its file, as in `my_measures.py:first_hit(least=2)@5`.

    `folder` is what a relative path starts from where a file names the measure, by default the working directory.
    InputError where the file is not there, fails to run, or has no measure of that name, or what names it is not trusted.
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
    """The module in a file, which is run once."""
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
    """The error with the line of the user's file where it was raised (for a syntax error: where Python says)."""
    import traceback

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
    """Load the measure of that name that an add-on brings, if there is one; without a name, all of them."""
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
