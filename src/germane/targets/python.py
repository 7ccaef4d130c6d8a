"""A target that is a Python function, called in daemon threads of this process."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, Field, PrivateAttr

from germane.errors import InputError, Invalid, SourceLocation, TargetError, describe
from germane.evalfiles import Case
from germane.evalfiles.model import Texts
from germane.judging.caller import callers_thread
from germane.processes import in_thread, submitted
from germane.targets.target import Target

_HINTS = {
    "same thread": "; set workers=1 to call the function in the thread that called germane",
    "event loop": "; use `await aevaluate(...)` to call the function in your own event loop",
}


def _module_and_name(function: str) -> str:
    if not all(function.partition(":")):
        raise Invalid(
            f"is {describe(function)}, not of the form module:name", "write module:name, as in my_rag:answer"
        )
    return function


class PythonTarget(Target):
    """A target that calls a Python function for each query.

    The function gets the query. If its first parameter is named `sample` or `case`, it gets the Sample or the
    Case. It returns a string, a list of contexts, a mapping with response, contexts, calls, stages or
    messages, or a Sample. In place of a function, an object with a method `invoke`, `retrieve`, `query` or
    `run` can be given, such as a retriever, engine or pipeline of LangChain, LlamaIndex or Haystack.
    """

    aliases: ClassVar = {"function": ("entry_point", "callable"), "path": ("cwd", "pythonpath")}
    imports: ClassVar[bool] = True

    function: Annotated[str, Field(examples=["my_rag:answer"]), AfterValidator(_module_and_name)]
    path: Texts = ()
    _called: Callable[..., Any] = PrivateAttr()

    def open(self, location: SourceLocation, folder: Path) -> None:
        """Import the module and look up the function or retriever in it.

        Raises InputError if the module cannot be imported or contains no such function.
        """
        module, _, name = self.function.partition(":")
        folders = [(folder / text).resolve() for text in self.path] or [folder]
        value: Any = _imported(module, folders, location)
        for step in name.split("."):
            value = getattr(value, step, None)
        function = _asked_by(value)
        if function is None:
            problem = f"the module {module} has no function {name!r}"
            fix = f"write function: {module}:NAME, with a function or retriever of the module"
            raise InputError(problem, fix=fix, place=location)
        self._called = function

    @classmethod
    def calling(cls, system: Any, workers: int = 4) -> Self:
        """Return a target that calls the function, retriever, engine or pipeline `system`.

        `workers` is the number of concurrent calls. Raises InputError if the system cannot be called.
        """
        function = None if isinstance(system, str) else _asked_by(system)
        if function is None:
            fix = "give a function that takes the query, or a retriever with invoke, retrieve or run"
            if isinstance(system, Mapping | list | tuple):
                fix = "evaluate each system by itself and compare the reports: germane.compare(first, second)"
            raise InputError(f"the system {system!r} cannot be queried", fix=fix)
        name = getattr(system, "__name__", None) or type(system).__name__
        target = cls(name=name, function="python:object", workers=workers)
        target._called = function
        return target

    async def ask(self, case: Case) -> Any:
        """Call the function for a case and return its answer.

        If the function raises an exception, raises TargetError with the exception's type and message.
        """
        try:
            name = next(iter(inspect.signature(self._called).parameters), "query")
        except (TypeError, ValueError):  # a function of an extension module
            name = "query"
        first: Any = {"case": case, "sample": case.sample}.get(name, case.sample.query)

        def asked() -> Any:
            result = self._called(first)
            return list(result) if isinstance(result, Iterator) else result

        try:
            if inspect.iscoroutinefunction(self._called):
                return await asked()
            run = callers_thread() if self.in_calling_thread else in_thread
            result = await asyncio.wrap_future(submitted(asked, run))
            return await result if inspect.isawaitable(result) else result
        except (TargetError, KeyboardInterrupt, GeneratorExit):
            raise
        except BaseException as error:  # those of extensions in Rust derive from BaseException
            task = asyncio.current_task()
            if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
                raise  # else the function cancelled its own task
            problem = f"{type(error).__name__}: {error}".strip().removesuffix(":")
            hint = next((hint for text, hint in _HINTS.items() if text in problem), "")
            raise TargetError(f"{problem}{hint}") from error

    @property
    def in_calling_thread(self) -> bool:
        """True if the function is synchronous and `workers` is 1; the calling thread then runs it."""
        return self.workers == 1 and not inspect.iscoroutinefunction(self._called)


@contextmanager
def prints_to_stderr() -> Iterator[None]:
    """Redirect stdout of this process and its children to stderr; only germane's output stays on it."""
    sys.stdout.flush()
    kept = None
    with suppress(OSError):  # the process has no stdout or stderr
        kept = os.dup(1)
        os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        if kept is not None:
            os.dup2(kept, 1)
            os.close(kept)


def _asked_by(system: Any) -> Callable[..., Any] | None:
    if inspect.isroutine(system) or inspect.isclass(system):
        return system
    for name in ("invoke", "retrieve", "query"):
        if callable(method := getattr(system, name, None)):
            return method  # type: ignore[no-any-return]
    if callable(run := getattr(system, "run", None)):
        return lambda query: run(**_haystack_input(system, query))
    return system if callable(system) else None


def _haystack_input(system: Any, query: str) -> dict[str, Any]:
    """Return the arguments for `run`: the query for each component with an input of a usual name."""
    names = ("query", "text", "question", "prompt")
    taken = inspect.signature(system.run).parameters
    if not callable(inputs := getattr(system, "inputs", None)):
        return {next((name for name in names if name in taken), "query"): query}
    data = {component: dict.fromkeys({*names} & {*sockets}, query) for component, sockets in inputs().items()}
    given: dict[str, Any] = {"data": {component: options for component, options in data.items() if options}}
    if "include_outputs_from" in taken:  # else the documents of inner components are not in the result
        outputs = system.outputs(include_components_with_connected_outputs=True)
        given["include_outputs_from"] = {name for name, sockets in outputs.items() if "documents" in sockets}
    return given


def _imported(module: str, folders: list[Path], location: SourceLocation) -> ModuleType:
    """Import a module, searched for in these folders first; one of that name from elsewhere is replaced."""
    first = [str(folder) for folder in folders]
    sys.path[:] = [*first, *(path for path in sys.path if path not in first)]
    loaded = getattr(sys.modules.get(module), "__file__", None)
    files = [folder / Path(*module.split(".")).with_suffix(".py") for folder in folders]
    if loaded and Path(loaded).resolve() not in files and any(path.exists() for path in files):
        del sys.modules[module]
    importlib.invalidate_caches()
    try:
        return importlib.import_module(module)
    except Exception as error:
        problem = f"the module {module} cannot be imported: {type(error).__name__}: {error}"
        fix = f"put it in {folders[0]}, or say where it is with path:"
        raise InputError(problem, fix=fix, place=location) from error
