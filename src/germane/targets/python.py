"""A system that is a Python function: called in this process, in a thread where it is not async."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

from germane.errors import GermaneError, InputError, TargetError
from germane.samples.cases import Case
from germane.samples.section import Section
from germane.targets.answers import complete
from germane.targets.entry import Entry
from germane.targets.target import Asked, sample_of
from germane.types import Json, Sample

__all__ = ["PythonTarget", "open_python"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PythonTarget:
    """Calls a function with the query; with the Sample or the Case where its first parameter is called that.

    It returns a text, a list of contexts, a mapping with response, contexts, calls or messages, or a Sample.
    """

    name: str
    function: Callable[..., Any]
    arguments: Mapping[str, Json]
    timeout: float | None = None
    workers: int = 4
    live: ClassVar[bool] = True

    async def answer(self, asked: Asked) -> Sample:
        """What the function returned; TargetError with type and message of what it raised."""
        started = time.monotonic()
        try:
            result = await asyncio.wait_for(self._call(asked), self.timeout)
        except GermaneError:
            raise
        except TimeoutError:
            if self.timeout is None:
                raise TargetError("TimeoutError") from None
            raise TargetError(f"the function took more than {self.timeout:g} s") from None
        except (Exception, SystemExit) as error:
            said = f"{type(error).__name__}: {error}".strip().removesuffix(":")
            raise TargetError(said) from error
        return complete(asked, result, ms=(time.monotonic() - started) * 1000)

    async def close(self) -> None:
        """Nothing to let go of."""

    async def _call(self, asked: Asked) -> Any:
        given = _first_argument(self.function, asked)
        if inspect.iscoroutinefunction(self.function):
            return await self.function(given, **self.arguments)
        result = await asyncio.to_thread(self.function, given, **self.arguments)
        return await result if inspect.isawaitable(result) else result


def _first_argument(function: Callable[..., Any], asked: Asked) -> Any:
    """The query, or more where the function asks for it by the name of its first parameter."""
    try:
        first = next(iter(inspect.signature(function).parameters), "query")
    except (TypeError, ValueError):
        first = "query"
    sample = sample_of(asked)
    if first == "case":
        return asked if isinstance(asked, Case) else Case(sample=sample, question=sample.query)
    return sample if first == "sample" else sample.query


def open_python(entry: Entry, section: Section) -> PythonTarget:
    """The function that an entry of a targets file describes, imported."""
    named = section.text("function", "callable")
    module, colon, function = (named or "").partition(":")
    if not colon or not module or not function:
        fix = "write function: module:name, as in my_rag:answer"
        raise InputError(f"the target {entry.name} names no function", fix=fix, place=entry.place)
    folders = [entry.path(given) for given in section.texts("path", "cwd", "pythonpath")] or [entry.folder]
    found: Any = _imported(module, folders, entry)
    for part in function.split("."):
        found = getattr(found, part, None)
    if not callable(found):
        problem = f"the module {module} has no function {function!r}"
        raise InputError(problem, fix="check the name after the colon", place=entry.place)
    return PythonTarget(
        name=entry.name,
        function=found,
        arguments=section.mapping("arguments"),
        timeout=section.number("timeout", "timeout_seconds", low=0.001),
        workers=entry.workers or 4,
    )


def _imported(module: str, folders: list[Path], entry: Entry) -> ModuleType:
    """The module, from these folders first; one of the same name from elsewhere gives way."""
    for folder in reversed(folders):
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
        else:
            sys.path.remove(str(folder))
            sys.path.insert(0, str(folder))
    loaded = getattr(sys.modules.get(module), "__file__", None)
    wanted = [folder / Path(*module.split(".")).with_suffix(".py") for folder in folders]
    if loaded and Path(loaded).resolve() not in wanted and any(path.exists() for path in wanted):
        del sys.modules[module]
    importlib.invalidate_caches()
    try:
        return importlib.import_module(module)
    except Exception as error:
        problem = f"the module {module} cannot be imported: {type(error).__name__}: {error}"
        fix = f"put it in {folders[0]}, or say where it is with path:"
        raise InputError(problem, fix=fix, place=entry.place) from error
