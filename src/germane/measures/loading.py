"""Measures that are not ours: of a file (`my_measures.py:first_hit`) and of installed packages (`germane.measures`).

A file is run only where its path is written by the person at the keyboard: on the command line, in an eval file, in a
call. A stored report names measures by their own names and can make nothing run.
"""

from __future__ import annotations

import difflib
import importlib.util
import inspect
import sys
import traceback
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from types import ModuleType

from germane.errors import GermaneError, InputError, Place
from germane.measures.defining import measure
from germane.measures.measure import Measure

__all__ = ["GROUP", "install_all", "installed", "named"]

GROUP = "germane.measures"
"""The entry-point group: `first_hit = "my_package.measures:first_hit"`."""

_MARK = ".py:"
_loaded: dict[Path, ModuleType] = {}


def named(text: str, folder: Path | None = None, *, lenient: bool = False) -> Measure:
    """The measure that a text names: as `Measure.parse`, or by its file, as in `my_measures.py:first_hit(least=2)@5`.

    `folder` is what a relative path starts from, by default the working directory. InputError where the file is not
    there, fails to run, or has no measure of that name.
    """
    return Measure.parse(_from_file(text, folder) if _MARK in text else text, lenient=lenient)


def _from_file(text: str, folder: Path | None) -> str:
    """Load the file, and put the measure's own name in its place."""
    head, _, rest = text.partition(_MARK)
    path = Path(f"{head}.py").expanduser()
    path = path if path.is_absolute() or folder is None else folder / path
    name = rest.partition("(")[0].partition("@")[0].strip()
    found = _measure(_module(path), name, path)
    return found.name + rest.strip()[len(name) :]


def _module(path: Path) -> ModuleType:
    """The module in a file, run once however often it is named."""
    try:
        real = path.resolve(strict=True)
    except OSError:
        near = difflib.get_close_matches(path.name, [p.name for p in path.parent.glob("*.py")], n=1)
        fix = f"did you mean {path.with_name(near[0])}?" if near else "give the path of a Python file"
        raise InputError(f"there is no file {path}", fix=fix) from None
    if real not in _loaded:
        _loaded[real] = _run(real)
    return _loaded[real]


def _run(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"_germane_user_{path.stem}_{len(_loaded)}", path)
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
        raise _failed(path, fault) from fault
    finally:
        sys.path.remove(str(path.parent))
    return module


def _failed(path: Path, fault: BaseException) -> InputError:
    """What went wrong and on which line of the user's file (for a syntax error: where Python says)."""
    lines = [
        frame.lineno for frame in traceback.extract_tb(fault.__traceback__) if frame.filename == str(path)
    ]
    line = fault.lineno if isinstance(fault, SyntaxError) else lines[-1] if lines else None
    said = fault.msg if isinstance(fault, SyntaxError) else str(fault)
    what = said if isinstance(fault, GermaneError) else f"{type(fault).__name__}: {said}"
    return InputError(what, fix="mend the file", place=Place(str(path), line or 0))


def _measure(module: ModuleType, name: str, path: Path) -> Measure:
    found = getattr(module, name, None) if name else None
    if isinstance(found, Measure):
        return found
    if inspect.isfunction(found) and found.__module__ == module.__name__:
        declared = measure(found)
        setattr(module, name, declared)
        return declared
    have = [key for key, value in vars(module).items() if isinstance(value, Measure)]
    near = difflib.get_close_matches(name, have, n=1)
    fix = f"did you mean {path.name}:{near[0]}?" if near else f"it has {', '.join(have) or 'none'}"
    problem = f"{path} has no measure {name!r}" if name else f"{path}: which measure of it?"
    raise InputError(problem, fix=f"{fix} (declare one with @measure from germane.measures)")


def installed(name: str) -> bool:
    """Load the measure of that name that an installed package brings; whether there is one."""
    points = [point for point in entry_points(group=GROUP) if point.name.casefold() == name.casefold()]
    for point in points:
        _load(point)
    return bool(points)


def install_all() -> None:
    """Load every measure that installed packages bring."""
    for point in entry_points(group=GROUP):
        _load(point)


def _load(point: EntryPoint) -> None:
    try:
        found = point.load()
    except Exception as fault:
        what = f"the measure {point.name} of {point.value} cannot be loaded: {type(fault).__name__}: {fault}"
        raise InputError(what, fix="mend or uninstall that package") from fault
    if not isinstance(found, Measure):
        raise InputError(
            f"the entry point {point.name} ({point.value}) is no measure",
            fix="point it to what @measure returns",
        )
