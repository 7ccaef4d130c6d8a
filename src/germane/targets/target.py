"""The system under test: a name, its settings in the targets file, and a way to answer one query."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from msgspec.structs import replace

from germane.encoding import replace_surrogates
from germane.errors import InputError, SourceLocation, TargetError, excerpt
from germane.evalfiles.case import Case
from germane.evalfiles.messages import content_text
from germane.samples.fields import IDS, PASSAGE_LISTS, failure_of, passages_in
from germane.samples.frames import document, fields_of, is_table, records
from germane.samples.rows import RowReader
from germane.types import FrozenDict, Json, Sample
from germane.yamltext import WholeNumber, YamlModel

LARGEST = 16_000_000
"""Maximum bytes of an answer that a live target sends or writes, unpacked."""


class Models(YamlModel):
    """The models in a system, as its targets file names them; the audit warns where they are of the judge's family."""

    what = "models"
    aliases: ClassVar = {"rewriter": ("query_rewriter",)}

    generator: str | None = None
    reranker: str | None = None
    rewriter: str | None = None


class Target(YamlModel):
    """A system that answers queries: one loaded entry of a targets file.

    `workers` is how many queries it takes at once. `live` says whether asking it asks a system, which may cost
    something: not where its answers are on record. `imports` says whether opening it runs code of the user's.
    """

    what = "a target"
    ignored = ("provider", "description", "judge_target", "grader_target", "verbose", "healthcheck")
    unread: ClassVar = {"model": "write models: {generator: NAME}"}
    live: ClassVar[bool] = True
    imports: ClassVar[bool] = False

    name: str
    workers: WholeNumber = 4
    models: Models = Models()

    def open(self, location: SourceLocation, folder: Path, evals: Path) -> None:
        """Check and load what it needs, before anything is asked; InputError with the location of its entry.

        `folder` is that of the targets file, which its paths are relative to; `evals` is the eval file's.
        """

    @property
    def in_calling_thread(self) -> bool:
        """True if it must be asked in the thread that called germane."""
        return False

    async def answer(self, asked: Case | Sample) -> Sample:
        """Return the sample with the system's answer and its duration; TargetError if it failed.

        Contexts that are only in the text or in tool calls are found afterwards, by `find_contexts`.
        """
        case = (
            asked
            if isinstance(asked, Case)
            else Case(sample=asked, question=asked.query, metadata=asked.metadata)
        )
        started = time.monotonic()
        answer = await self.ask(case)
        duration = {"ms": round((time.monotonic() - started) * 1000, 3)} if self.live else {}
        return complete(case.sample, answer, duration)

    async def ask(self, case: Case) -> Any:
        """Return the system's answer: a text, a list of contexts, a mapping with either, or a Sample."""
        raise NotImplementedError

    @property
    def notes(self) -> dict[str, int]:
        """Notes on the answers so far, each with the number of samples concerned."""
        return {}

    async def close(self) -> None:
        """Release connections and threads."""


_ROWS = RowReader()
_AGENTV = {"text": "response", "output_messages": "messages", "outputMessages": "messages"}
"""AgentV's names for parts of an answer; its newer generation calls the messages `output`."""
_ANSWERED = {"contexts", "calls", "response", "messages", IDS}
_SHAPES = 'return a text, a list of contexts, or {"response": "...", "contexts": [...]}'


def complete(sample: Sample, answer: Any, duration: Mapping[str, Json]) -> Sample:
    """Return the sample with an answer's response, messages, contexts, calls and stages; its gold stays.

    Contexts of the answer replace those of the sample and its stages; without any, the sample's stay.
    """
    answered = answer if isinstance(answer, Sample) else _read(answer)
    listed = answered.contexts is not None or answered.calls is not None
    spoken = (content_text(m.content) for m in reversed(answered.messages) if m.role == "assistant")
    return replace(
        sample,
        response=next(filter(None, spoken), None) if answered.response is None else answered.response,
        messages=answered.messages,
        contexts=answered.contexts if listed else sample.contexts,
        calls=answered.calls if listed else sample.calls,
        stages=answered.stages if listed or answered.stages else sample.stages,
        error=answered.error,
        metadata=FrozenDict({**sample.metadata, **answered.metadata, **duration}),
    )


def _read(answer: Any) -> Sample:
    """Return the answer (a text, a list of contexts or a mapping) as a sample; TargetError for anything else."""
    try:
        value = native = replace_surrogates(_native(answer))
    except RecursionError:
        raise TargetError("the answer contains itself, or is nested without end") from None
    if isinstance(value, dict):
        failed = failure_of(value)
        value = _with_passages(value) | ({} if failed is None else {"error": failed})
    if not isinstance(value, dict) or _ANSWERED.isdisjoint(map(_ROWS.field_of, value)):
        spoken = (getattr(answer, name, None) for name in ("content", "text"))  # of a message of a chat model
        value = next((text for text in spoken if isinstance(text, str)), value)
    if isinstance(value, str):
        value = {"response": value}
    elif isinstance(value, list):
        value = {"contexts": passages_in(value)}
    if not isinstance(value, dict):
        raise TargetError(f"the answer is {type(answer).__name__}; {_SHAPES}")
    row: dict[str, Json] = {_AGENTV.get(str(key), str(key)): inner for key, inner in value.items()}
    if isinstance(row.get("output"), list):
        row["messages"] = row.pop("output")
    own = {k: v for k, v in row.items() if _ROWS.field_of(k) not in {"query", "id", "system", "trial"}}
    if _ANSWERED.union({"error", "stages"}).isdisjoint(map(_ROWS.field_of, own)):
        raise TargetError(f"no contexts found in the answer: {excerpt(native)}; {_SHAPES}")
    try:
        return _ROWS.read({**own, "query": "-"}, 0, lambda _: SourceLocation("answer"))
    except InputError as error:
        problem = f"the answer cannot be read: {error.problem}; {error.fix or _SHAPES}"
        raise TargetError(f"{problem}; found {excerpt(native)}") from None


def _with_passages(answer: dict[str, Json]) -> dict[str, Json]:
    """Return an answer with `contexts` and `response`, if it has passages and a reply under other keys.

    Of the outputs of several components, as Haystack's pipelines return them by name, the last that have passages or
    replies are read.
    """
    names = set(map(_ROWS.field_of, answer))
    if not names.isdisjoint({"contexts", "calls", IDS}):
        return answer
    outputs = [answer]
    if _ANSWERED.isdisjoint(names):
        outputs += [output for output in answer.values() if isinstance(output, dict)]
    made: dict[str, Json] = {}
    replies = [output.get("replies") or output.get("answers") for output in outputs]
    reply = next((some[0] for some in reversed(replies) if isinstance(some, list) and some), None)
    for output in [reply, *outputs] if isinstance(reply, dict) else outputs:
        if (passages := passages_in(output)) is not None:
            made["contexts"] = passages
    if reply is not None:
        made["response"] = reply.get("data") if isinstance(reply, dict) else reply
    if not made:
        return answer
    others = {
        name: value for name, value in answer.items() if name not in {*PASSAGE_LISTS, "replies", "answers"}
    }
    return {name: value for name, value in others.items() if not isinstance(value, dict)} | made


def _native(value: Any) -> Json:
    """Return a value of Python code as JSON: arrays of numpy as lists, documents of retrievers as contexts.

    An unknown value stays as it is: the reader names it.
    """
    if isinstance(value, Mapping):
        return {str(key): _native(inner) for key, inner in value.items()}
    if is_table(value) or hasattr(value, "tolist"):
        return list(records(value)) if is_table(value) else _native(value.tolist())
    if hasattr(value, "source_nodes"):  # the response of an engine of LlamaIndex
        return {"response": str(value), "contexts": _native(list(value.source_nodes))}
    fields = document(value) or fields_of(value)
    if fields is None and isinstance(value, list | tuple):
        return list(map(_native, value))
    return value if fields is None else _native(fields)
