"""The base class of systems under test (targets), and the conversion of their answers to samples."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from msgspec.structs import replace

from germane.encoding import replace_surrogates
from germane.errors import InputError, SourceLocation, TargetError, excerpt
from germane.evalfiles import Case, content_text
from germane.evalfiles.model import WholeNumber, YamlModel
from germane.samples.contexts import PASSAGE_LISTS, failure_of, passages_in
from germane.samples.fields import IDS
from germane.samples.frames import document, fields_of, is_table, records
from germane.samples.rows import RowReader
from germane.types import FrozenDict, Json, Sample

LARGEST = 16_000_000
"""The maximum size, in bytes, of a live target's answer after decompression."""


class Models(YamlModel):
    """The models that a system uses; the audit warns if one belongs to the same family as the judge."""

    what = "models"
    aliases: ClassVar = {"rewriter": ("query_rewriter",)}

    generator: str | None = None
    reranker: str | None = None
    rewriter: str | None = None


class Target(YamlModel):
    """A system under test that answers queries, as one entry of a targets file. Base class of all providers.

    `workers` is the maximum number of queries at a time. `live` is True if queries reach a running system,
    and False if the answers are recorded or fixed. `imports` is True if opening the target runs the user's
    code.
    """

    what = "a target"
    ignored = ("provider", "description", "judge_target", "grader_target", "verbose", "healthcheck")
    unread: ClassVar = {"model": "write models: {generator: NAME}"}
    live: ClassVar[bool] = True
    imports: ClassVar[bool] = False

    name: str
    workers: WholeNumber = 4
    models: Models = Models()

    def open(self, location: SourceLocation, folder: Path) -> None:
        """Prepare the target for queries: check its settings and load what it needs.

        `folder` is the folder of the targets file, to which paths are relative. Raises InputError, with the
        `location` of the target's entry, if a setting is wrong.
        """

    @property
    def in_calling_thread(self) -> bool:
        """True if the target must be queried in the thread that called germane."""
        return False

    async def answer(self, asked: Case | Sample) -> Sample:
        """Query the system, and return the sample with the system's answer and the duration of the query.

        Contexts that are only in the text or the tool calls of the answer are extracted later, by
        `find_contexts`. Raises TargetError if the system fails.
        """
        case = asked
        if isinstance(case, Sample):
            case = Case(sample=case, question=case.query, metadata=case.metadata)
        started = time.monotonic()
        answer = await self.ask(case)
        duration = {"ms": round((time.monotonic() - started) * 1000, 3)} if self.live else {}
        try:
            return complete(case.sample, answer, duration)
        except TargetError:
            raise
        except Exception as error:  # a system may return any object
            problem = f"the answer cannot be read: {type(error).__name__}: {error}; {_SHAPES}"
            raise TargetError(problem) from error

    async def ask(self, case: Case) -> Any:
        """Query the system for a case and return its answer.

        An answer is a string, a list of contexts, a mapping with a response or contexts, or a Sample.
        """
        raise NotImplementedError

    @property
    def notes(self) -> dict[str, int]:
        """Notes on the answers so far; each is mapped to the number of samples to which it applies."""
        return {}

    async def close(self) -> None:
        """Release the target's connections and threads."""


_ROWS = RowReader()
_AGENTV = {"text": "response", "output_messages": "messages", "outputMessages": "messages"}
"""Maps AgentV's names for fields of an answer to germane's; newer versions of AgentV call the messages `output`."""
_ANSWERED = {"contexts", "calls", "response", "messages", IDS}
_SHAPES = 'return a string, a list of contexts, or {"response": "...", "contexts": [...]}'


def complete(sample: Sample, answer: Any, duration: Mapping[str, Json]) -> Sample:
    """Return the sample with the response, messages, contexts, calls, stages and error of a system's answer.

    If the answer contains no contexts or calls, the sample's own contexts, calls and stages are retained.
    `duration` is added to the metadata.
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
    try:
        value = native = replace_surrogates(_native(answer))
    except RecursionError:
        raise TargetError(f"the answer contains itself; {_SHAPES}") from None
    if isinstance(value, dict):
        failed = failure_of(value)
        value = _with_passages(value) | ({} if failed is None else {"error": failed})
    if not isinstance(value, dict) or _ANSWERED.isdisjoint(map(_ROWS.field_of, value)):
        spoken = (getattr(answer, name, None) for name in ("content", "text"))  # the text of a chat message
        value = next((text for text in spoken if isinstance(text, str)), value)
    if isinstance(value, str):
        value = {"response": value}
    elif isinstance(value, list):
        value = {"contexts": passages_in(value)}
    if not isinstance(value, dict):
        raise TargetError(f"the answer has the unknown type {type(answer).__name__}; {_SHAPES}")
    row: dict[str, Json] = {_AGENTV.get(str(key), str(key)): inner for key, inner in value.items()}
    if isinstance(row.get("output"), list):
        row["messages"] = row.pop("output")
    own = {k: v for k, v in row.items() if _ROWS.field_of(k) not in {"query", "id", "system", "trial"}}
    if _ANSWERED.union({"error", "stages"}).isdisjoint(map(_ROWS.field_of, own)):
        raise TargetError(f"no contexts found in the answer: {excerpt(native)}; {_SHAPES}")
    try:
        return _ROWS.read({**own, "query": "-"}, 0, lambda _: SourceLocation("answer"))
    except InputError as error:
        problem = f"the answer is invalid: {error.problem}; {error.fix or _SHAPES}"
        raise TargetError(f"{problem}; the answer begins with {excerpt(native)}") from None


def _with_passages(answer: dict[str, Json]) -> dict[str, Json]:
    """Return an answer in which passages under other keys are moved to `contexts`, and a reply to `response`.

    Of the outputs of several components of a Haystack pipeline, the last passages and the last reply are used.
    """
    names = set(map(_ROWS.field_of, answer))
    if not names.isdisjoint({"contexts", "calls", IDS}):
        return answer
    outputs = [answer]
    if _ANSWERED.isdisjoint(names):
        outputs += [output for output in answer.values() if isinstance(output, dict)]
    made: dict[str, Json] = {}
    replies = [output.get("replies") or output.get("answers") for output in outputs]
    reply = next((listed[0] for listed in reversed(replies) if isinstance(listed, list) and listed), None)
    for output in [reply, *outputs] if isinstance(reply, dict) else outputs:
        if (passages := passages_in(output)) is not None:
            made["contexts"] = passages
    if reply is not None:
        made["response"] = reply.get("data") if isinstance(reply, dict) else reply
    if not made:
        return answer
    read = {*PASSAGE_LISTS, "replies", "answers"}
    return {k: v for k, v in answer.items() if k not in read and not isinstance(v, dict)} | made


def _native(value: Any) -> Json:
    """Convert a Python value to JSON; a value of unknown type is returned unchanged, and reported later."""
    if isinstance(value, Mapping):
        return {str(key): _native(inner) for key, inner in value.items()}
    if is_table(value) or hasattr(value, "tolist"):
        return list(records(value)) if is_table(value) else _native(value.tolist())
    if hasattr(value, "source_nodes"):  # the response of an engine of LlamaIndex
        return {"response": str(value), "contexts": _native(list(value.source_nodes))}
    if hasattr(value, "role") and isinstance(getattr(value, "text", None), str):  # a message of a chat
        return value.text
    fields = document(value) or fields_of(value)
    if fields is None and isinstance(value, list | tuple):
        return list(map(_native, value))
    return value if fields is None else _native(fields)
