"""The system under test: a name, its settings in the targets file, and a way to answer one query."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

from germane.errors import InputError, Place, TargetError
from germane.samples.evalfile import Case
from germane.samples.files import whole
from germane.samples.frames import document
from germane.samples.messages import content_text
from germane.samples.rows import RowReader
from germane.samples.yamltext import WholeNumber, YamlModel
from germane.types import Call, Context, FrozenDict, Json, Message, Sample

Asked: TypeAlias = Case | Sample
"""The question to a target: a case of an eval file, or a sample that has no answer yet."""


class Models(YamlModel):
    """The models inside a system, as its targets file names them: what its answers can be grouped by."""

    what = "models"
    aliases: ClassVar = {"rewriter": ("query_rewriter",)}

    generator: str | None = None
    reranker: str | None = None
    rewriter: str | None = None


class Target(YamlModel):
    """A system that answers queries: one entry of a targets file, read and ready.

    `workers` is how many queries it takes at once. `live` says whether asking it asks a system, which may cost
    something: not where its answers are on record.
    """

    what = "a target"
    ignored = ("provider", "description", "judge_target", "grader_target", "verbose", "healthcheck")
    live: ClassVar[bool] = True

    name: str
    workers: WholeNumber = 4
    models: Models = Models()

    def open(self, place: Place, folder: Path, evals: Path) -> None:
        """Check and load what it needs, before anything is asked; InputError with the place of its entry.

        `folder` is that of the targets file, which its paths are relative to; `evals` is the eval file's.
        """

    async def answer(self, asked: Asked) -> Sample:
        """The sample, completed with the system's answer; TargetError where it failed.

        Contexts that are only in the text or in tool calls are found afterwards, by `find_contexts`.
        """
        raise NotImplementedError

    async def close(self) -> None:
        """Release whatever it holds."""


def sample_of(asked: Asked) -> Sample:
    """The sample in the question to a target."""
    return asked.sample if isinstance(asked, Case) else asked


_ROWS = RowReader()
_AGENTV = {"text": "response", "output_messages": "messages", "outputMessages": "messages"}
"""Names of AgentV's for parts of an answer; its newer generation calls the messages `output`."""
_SHAPES = 'return a text, a list of contexts, or {"response": "...", "contexts": [...]}'
_PLAIN = bool | int | float | str | Context | Call | Message


def complete(asked: Asked, answer: Any, *, ms: float | None = None) -> Sample:
    """The asked sample with an answer: a text, a list of contexts, a mapping or a Sample; TargetError on others."""
    if isinstance(answer, Sample):
        return merged(asked, answer, ms=ms)
    try:
        value = whole(_native(answer))
    except RecursionError:
        raise TargetError("the answer contains itself, or is nested without end") from None
    if isinstance(value, str):
        value = {"response": value}
    elif isinstance(value, list):
        value = {"contexts": value}
    if not isinstance(value, dict):
        raise TargetError(f"the answer is {type(answer).__name__}; {_SHAPES}")
    row: dict[str, Json] = {_AGENTV.get(str(key), str(key)): inner for key, inner in value.items()}
    if isinstance(row.get("output"), list):
        row["messages"] = row.pop("output")
    own = {k: v for k, v in row.items() if _ROWS.field_of(k) not in {"query", "id", "system", "trial"}}
    try:
        answered = _ROWS.read({**own, "query": "-"}, 0, lambda _: Place("answer"))
    except InputError as error:
        raise TargetError(f"the answer cannot be read: {error.problem}; {error.fix or _SHAPES}") from None
    return merged(asked, answered, ms=ms)


def merged(asked: Asked, answered: Sample, *, ms: float | None = None) -> Sample:
    """The asked sample with the response, messages, contexts and calls of another; gold stays its own.

    Contexts that are handed over now replace those of the asked sample, which stay where there are none.
    """
    sample = sample_of(asked)
    listed = answered.contexts is not None or answered.calls is not None
    spoken = (content_text(m.content) for m in reversed(answered.messages) if m.role == "assistant")
    took = {} if ms is None else {"ms": round(ms, 3)}
    return replace(
        sample,
        response=next(filter(None, spoken), None) if answered.response is None else answered.response,
        messages=answered.messages,
        contexts=answered.contexts if listed else sample.contexts,
        calls=answered.calls if listed else sample.calls,
        error=answered.error,
        metadata=FrozenDict({**sample.metadata, **answered.metadata, **took}),
    )


def _native(value: Any) -> Json:
    """A value of Python code as JSON: numbers and arrays of numpy as numbers, documents of retrievers as contexts."""
    if isinstance(value, Mapping):
        return {str(key): _native(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_native(inner) for inner in value]
    if hasattr(value, "tolist"):
        return value.tolist()
    if hasattr(value, "source_nodes"):  # the response of an engine of LlamaIndex
        return {"response": str(value), "contexts": _native(list(value.source_nodes))}
    if (passage := document(value)) is not None:
        return passage
    return value if value is None or isinstance(value, _PLAIN) else str(value)
