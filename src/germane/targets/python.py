"""A system that is a Python function: called in this process, in a thread where it is not async."""

from __future__ import annotations

import asyncio
import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any, ClassVar

from pydantic import AfterValidator, Field, PrivateAttr

from germane.errors import GermaneError, InputError, Place, TargetError
from germane.samples.evalfile import Case
from germane.samples.validation import Wrong, say
from germane.samples.yamltext import Positive, Texts, plain
from germane.targets.target import Target


def _module_and_name(function: str) -> str:
    if not all(function.partition(":")):
        raise Wrong(f"is {say(function)}", "write module:name, as in my_rag:answer")
    return function


class PythonTarget(Target):
    """Calls a function with the query; with the Sample or the Case where its first parameter is called that.

    It returns a text, a list of contexts, a mapping with response, contexts, calls or messages, or a Sample. Instead of a
    function it may be a retriever, an engine or a pipeline of LangChain (`invoke`), LlamaIndex (`retrieve`, `query`) or
    Haystack (`run`), or anything with such a method; the asynchronous ones serve where there are no others.
    """

    aliases: ClassVar = {
        "function": ("entry_point", "callable"),
        "path": ("cwd", "pythonpath"),
        "timeout": ("timeout_seconds",),
    }
    imports: ClassVar[bool] = True

    function: Annotated[str, Field(examples=["my_rag:answer"]), AfterValidator(_module_and_name)]
    path: Texts = ()
    arguments: Annotated[dict[str, Any], plain] = Field(default_factory=dict)
    timeout: Positive | None = None
    _called: Callable[..., Any] = PrivateAttr()

    def open(self, place: Place, folder: Path, evals: Path) -> None:
        """Import the function."""
        del evals
        module, _, name = self.function.partition(":")
        found: Any = _imported(module, [(folder / given).resolve() for given in self.path] or [folder], place)
        for part in name.split("."):
            found = getattr(found, part, None)
        function = _asked_by(found)
        if function is None:
            problem = f"the module {module} has no function {name!r}"
            raise InputError(problem, fix="check the name after the colon", place=place)
        self._called = function

    async def ask(self, case: Case) -> Any:
        """The function's answer; TargetError with type and message of what it raised."""
        try:
            return await asyncio.wait_for(self._call(case), self.timeout)
        except GermaneError:
            raise
        except TimeoutError:
            if self.timeout is None:
                raise TargetError("TimeoutError") from None
            raise TargetError(f"the function took more than {self.timeout:g} s") from None
        except (Exception, SystemExit) as error:
            raise TargetError(f"{type(error).__name__}: {error}".strip().removesuffix(":")) from error

    async def _call(self, case: Case) -> Any:
        given = _first_argument(self._called, case)
        if inspect.iscoroutinefunction(self._called):
            return await self._called(given, **self.arguments)
        result = await asyncio.to_thread(self._called, given, **self.arguments)
        return await result if inspect.isawaitable(result) else result


_METHODS = ("invoke", "ainvoke", "retrieve", "aretrieve", "query", "aquery")


def _asked_by(found: Any) -> Callable[..., Any] | None:
    """The function that a query is put to: itself, or the method of a retriever that answers one."""
    if inspect.isroutine(found) or inspect.isclass(found):
        return found
    for name in _METHODS:
        if callable(method := getattr(found, name, None)):
            return method  # type: ignore[no-any-return]
    if callable(run := getattr(found, "run", None)):
        return lambda query, **more: _haystack_answer(run(**{**_haystack_input(found, query), **more}))
    return found if callable(found) else None


def _haystack_input(found: Any, query: str) -> dict[str, Any]:
    """A component is run with the query; a pipeline with the data of each component that takes a query."""
    if not callable(inputs := getattr(found, "inputs", None)):
        return {"query": query}
    wanted = {"query", "text", "question", "prompt"}
    data = {component: dict.fromkeys(wanted & set(sockets), query) for component, sockets in inputs().items()}
    return {"data": {component: given for component, given in data.items() if given}}


def _haystack_answer(result: Any) -> Any:
    """The documents and the reply of a component, or of the last components of a pipeline that have them."""
    if not isinstance(result, Mapping):
        return result
    parts = [result, *(inner for inner in result.values() if isinstance(inner, Mapping))]
    documents = [part["documents"] for part in parts if isinstance(part.get("documents"), list)]
    replies = [part.get("replies") or part.get("answers") for part in parts]
    said = [reply for reply in replies if isinstance(reply, list) and reply]
    found: dict[str, Any] = {"contexts": documents[-1]} if documents else {}
    if said:  # a text, a chat message or an answer object
        reply = said[-1][0]
        found["response"] = str(getattr(reply, "text", None) or getattr(reply, "data", None) or reply)
    return found or result


def _first_argument(function: Callable[..., Any], case: Case) -> Any:
    """The query, or more where the function asks for it by the name of its first parameter."""
    try:
        first = next(iter(inspect.signature(function).parameters), "query")
    except (TypeError, ValueError):
        first = "query"
    return {"case": case, "sample": case.sample}.get(first, case.sample.query)


def _imported(module: str, folders: list[Path], place: Place) -> ModuleType:
    """The module, from these folders first; one of the same name from elsewhere gives way."""
    first = [str(folder) for folder in folders]
    sys.path[:] = [*first, *(path for path in sys.path if path not in first)]
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
        raise InputError(problem, fix=fix, place=place) from error
