"""Read eval files of AgentV 2 and 4: cases with their own messages, expected answers and graders."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import filterfalse
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from msgspec import structs
from pydantic import Field, PlainValidator

from germane.clean import fold
from germane.errors import InputError, Invalid, SourceLocation
from germane.evalfiles import (
    WRITTEN,
    Case,
    EvalFile,
    GraderSpec,
    by_name,
    content_text,
    grader_nodes,
    is_guideline,
    spec_of,
    specs_of,
)
from germane.evalfiles.model import JsonMapping, Keys, Share, YamlModel, read_model
from germane.samples import SPELLINGS, RowReader, Warn, only_contexts, read_messages
from germane.samples.files import check_readable, repository_root
from germane.types import FrozenDict, Json, Message, freeze
from germane.yamltext import Node, node_of

_UNREAD = dict.fromkeys(
    (
        "workspace", "preprocessors", "suite", "dependson", "ondependencyfailure", "metadata", "workers", "cache", "budgetusd",
        "failonerror", "defaults", "inputfiles", "threshold", "trials",
    ),
    "germane does not read it",
)  # fmt: skip
"""AgentV's keys that have no effect on scores; they are ignored with a warning."""
_CASES = ("evalcases", "tests", "cases")


def _rubric(nodes: Sequence[Node], weight: int = 1) -> GraderSpec:
    """Return a grader of weight `weight` that asks a model to check the rubric items written in `nodes`."""
    location = nodes[0].location
    pairs = node_of({"type": "rubrics", "name": "rubrics", "weight": weight}, location).pairs or {}
    pairs["rubrics"] = Node(location, items=list(nodes))
    node = Node(location, pairs=pairs, keys=dict.fromkeys(pairs, location))
    return GraderSpec(name="rubrics", node=node, spec=freeze(node.json()))


def assertions_in(value: Any) -> tuple[GraderSpec, ...]:
    """Return the graders in a list of AgentV 4 assertions; all plain strings together are one rubric."""
    nodes = grader_nodes(value)
    stated = [node for node in nodes if node.pairs is None]
    kept = (node for node in nodes if node.pairs is not None or node is stated[0])
    return tuple(_rubric(stated, len(stated)) if node.pairs is None else spec_of(node) for node in kept)


Graders = Annotated[
    tuple[GraderSpec, ...],
    PlainValidator(lambda value: specs_of(grader_nodes(value)), json_schema_input_type=WRITTEN),
]
Assertions = Annotated[tuple[GraderSpec, ...], PlainValidator(assertions_in, json_schema_input_type=WRITTEN)]
Rubrics = Annotated[
    tuple[GraderSpec, ...],
    PlainValidator(
        lambda value: (_rubric(nodes),) if (nodes := grader_nodes(value)) else (),
        json_schema_input_type=WRITTEN,
    ),
]


class GraderLists(YamlModel):
    """The graders listed in a file, a case or `execution`, under any of the keys for them.

    Attributes:
        measures: Names of measures (a string may contain several), or graders; they apply to every case and
            all data.
        evaluators: AgentV 2's name for `measures`.
        assertions: AgentV 4's name for `measures`; a string is a statement that must be true of the answer.
    """

    aliases: ClassVar = {"measures": ("metrics",), "assertions": ("assert",)}

    measures: Graders = ()
    evaluators: Graders = ()
    assertions: Assertions = ()

    def graders(self, faults: list[InputError]) -> tuple[GraderSpec, ...]:
        """Return the graders of all three lists."""
        return by_name((*self.measures, *self.evaluators, *self.assertions), faults)


class Execution(GraderLists):
    """The settings under `execution:` in a file or a case.

    Attributes:
        target: The system to ask, by its name in the targets file.
        threshold: The score that each case must reach (a gate).
    """

    what = "execution"
    unread: ClassVar = _UNREAD
    refused: ClassVar = frozenset({"targets", "skipdefaults"})

    target: str | None = None
    threshold: Share | None = None


class AgentVFile(EvalFile, GraderLists):
    """An eval file in AgentV's format; its graders apply to every case and to every sample in `data`.

    Attributes:
        dataset: A name for the cases.
        compatibility: With `agentv`, values are those of AgentV 2.1 where they differ from germane's.
        execution: AgentV's key for `target`, `threshold` and `evaluators`.
    """

    unread = _UNREAD
    refused: ClassVar = frozenset({"vars", "input", "defaulttest"})
    aliases: ClassVar = {**EvalFile.aliases, **GraderLists.aliases}
    computed = ("path", "cases", "targets", "threshold")
    ignored = (*EvalFile.ignored, *_CASES)

    measures: Graders = ()
    dataset: str | None = None
    compatibility: Literal["agentv"] | None = None
    execution: Execution = Field(default_factory=Execution)


def read_file(
    path: Path, root: Node, _: Callable[[Path], Node], warn: Warn | None, faults: list[InputError]
) -> EvalFile:
    """Return the eval file at `path`, with its cases; `root` is the root of its YAML."""
    keys = [key for key, inner in (root.pairs or {}).items() if fold(key) in _CASES and not inner.is_null()]
    if len(keys) > 1:
        raise root.fault("an eval file has one list of cases, but this has two", "remove one of the lists")
    listed = (root.pairs or {})[keys[0]] if keys else Node(root.location, items=[])
    if listed.items is None:
        raise listed.fault(f"the cases must be a list, not {listed.kind}", "write a list: - id: ...")
    file = read_model(AgentVFile, root, faults, folder=path.resolve().parent, warn=warn)
    graders = by_name((*file.graders(faults), *file.execution.graders(faults)), faults)
    target = file.target or file.execution.target
    targets = {"target": target, "targets": tuple(filter(None, [target]))}
    update = {"path": path, "measures": graders, "threshold": file.execution.threshold, **targets}
    file = file.model_copy(update=update)
    replaced = [fold(key) for key in keys] == ["evalcases"]
    cases: dict[tuple[str, str, int], Case] = {}
    for number, node in enumerate(listed.items, 1):
        try:
            case = _case(node, number, file, warn, faults, replaced=replaced)
            if (first := cases.setdefault(case.sample.key, case)) is not case:
                line = first.location.line if first.location else 0
                problem = f"case ids must be unique; {case.sample.id!r} also occurs on line {line}"
                faults.append(InputError(problem, fix="give each case its own id", place=node.location))
        except InputError as fault:
            faults.append(fault)
    return file.model_copy(update={"cases": tuple(cases.values())})


class CaseEntry(GraderLists):
    """One case as it is written in the file: its graders, its messages, and any other keys.

    Attributes:
        id: The id of the case. Default: its number.
        question: The query. Default: the last message of a user.
        input_messages: Messages to the system: `{role, content}`, or a string.
        expected_messages: The expected answer; the content of the last message is the reference.
        criterion: What a good answer must do.
        reference_answer: The reference. Default: the last expected message.
        conversation_id: The id of the conversation to which the case belongs.
        target: The system to ask for this case.
        rubrics: Statements that must be true of the answer; one grader asks a model to check them all.
        metadata: Any other data, for slices and targets.
        execution: `target`, `evaluators` and `threshold` of this case.
    """

    what = "a case"
    unread = _UNREAD
    refused: ClassVar = frozenset({"vars", "turns"})
    aliases: ClassVar = {
        **GraderLists.aliases,
        "question": ("query",),
        "input_messages": ("input",),
        "expected_messages": ("expected_output",),
        "criterion": ("expected_outcome", "outcome", "criteria"),
    }
    computed = ("others",)
    nodes = ("input_messages", "expected_messages")

    id: str | None = None
    question: str | None = None
    input_messages: Any = None
    expected_messages: Any = None
    criterion: str | None = None
    reference_answer: str | None = None
    conversation_id: str | None = None
    target: str | None = None
    rubrics: Rubrics = ()
    metadata: JsonMapping = FrozenDict()
    execution: Execution = Field(default_factory=Execution)
    others: dict[str, Node] = Field(default_factory=dict)

    @classmethod
    def complete(cls, keys: Keys) -> None:
        """Store unknown keys as fields of a sample or as metadata."""
        keys.values["others"] = keys.others
        for key in keys.others:
            location = keys.node.keys[key]
            if fold(key) in cls.refused:
                problem = f"a case has the key {key!r}, which germane does not support"
                raise InputError(problem, fix="write its values into each case", place=location)
            known = key in SPELLINGS or key == "note"
            if not known and (fold(key) in _UNREAD or not keys.refuse(key, (*SPELLINGS, *cls.spellings()))):
                problem = f"a case has the unknown key {key!r}: it is kept as metadata"
                keys.warn(problem, "put it under metadata:", location)


def _case(
    node: Node, number: int, file: AgentVFile, warn: Warn | None, faults: list[InputError], *, replaced: bool
) -> Case:
    """Return the case written in `node`; its default id is `number`."""
    folder = file.path.resolve().parent
    entry = read_model(CaseEntry, node, faults, folder=folder, warn=warn)
    asked = _messages_at(entry.input_messages, "user", folder)
    expected = _messages_at(entry.expected_messages, "assistant", folder)
    last = next((message.content for message in reversed(expected) if message.content is not None), None)
    users = [at for at, message in enumerate(asked) if message.role == "user"]
    query = entry.question or (content_text(asked[users[-1]].content) if users else "")
    row: dict[str, Json] = {"id": entry.id or str(number), "query": query or None}
    row["criterion"], metadata = entry.criterion, dict(entry.metadata)
    for key, inner in entry.others.items():
        (row if key in SPELLINGS else metadata)[key] = inner.json()
    row["metadata"] = metadata
    if not any(SPELLINGS.get(key) == "reference" and value is not None for key, value in row.items()):
        row["reference"] = (
            entry.reference_answer or ("" if only_contexts(last) else content_text(last)) or None
        )
    sample = RowReader(warn=warn).read(row, number, node.at)
    history = tuple(message for message in asked[: users[-1] if users else 0] if message.role != "system")
    if history and not sample.history:
        sample = structs.replace(sample, history=history)
    contents = (message.content for message in asked if isinstance(message.content, tuple))
    pieces = (piece for content in contents for piece in content if isinstance(piece, dict))
    files = [piece["path"] for piece in pieces if "path" in piece and piece.get("type") == "file"]
    own = entry.execution.threshold
    return Case(
        sample=sample,
        graders=_graders(entry, file, node.location, faults, replaced=replaced),
        target=entry.target or entry.execution.target,
        threshold=file.threshold if own is None else own,
        location=node.location,
        question=query,
        expected_outcome=entry.criterion or "",
        reference_answer=entry.reference_answer or content_text(last),
        input_messages=asked or (Message(role="user", content=query),),
        expected_messages=expected,
        guideline_files=tuple(filter(is_guideline, files)),
        input_files=tuple(filterfalse(is_guideline, files)),
        conversation_id=entry.conversation_id,
        metadata=sample.metadata,
    )


def _graders(
    entry: CaseEntry, file: AgentVFile, location: SourceLocation, faults: list[InputError], *, replaced: bool
) -> tuple[GraderSpec, ...]:
    """Return the graders of a case: those of the file and its own."""
    own = by_name((*entry.graders(faults), *entry.execution.graders(faults)), faults)
    if not (own and replaced):
        names = {grader.name for grader in own}
        own = (*(grader for grader in file.measures if grader.name not in names), *own)
    specs = by_name((*own, *entry.rubrics), faults)
    if not specs and entry.criterion:  # AgentV asks a model whether the answer does what the case says
        return (spec_of(node_of({"type": "llm_judge"}, location)),)
    return specs


def _messages_at(node: Node | None, role: str, folder: Path) -> tuple[Message, ...]:
    """Return the messages written in a node: a list of messages, or the content of one message of `role`."""
    if node is None:
        return ()
    value = node.json()
    if not isinstance(value, list) or not all(isinstance(item, dict) and "role" in item for item in value):
        if isinstance(value, list) and any(isinstance(item, dict) and "content" in item for item in value):
            raise node.fault("a message must have a role", "write - role: user, then content")
        value = [{"role": role, "content": node.text if node.text is not None else value}]
    for message in value:
        if isinstance(message.get("content"), list):
            message["content"] = [_content_part(piece, folder, node) for piece in message["content"]]
    try:
        return read_messages(value)
    except Invalid as wrong:
        raise wrong.error(node.at(wrong.path)) from None


def _content_part(piece: Json, folder: Path, node: Node) -> Json:
    """Return one part of a message's content; the file's absolute path and text are added to a file part."""
    if not isinstance(piece, dict) or piece.get("type") != "file":
        return piece
    named = piece.get("value", piece.get("path"))
    if not isinstance(named, str) or not named:
        raise node.fault("a part of type file must name its file", "write value: path/to/file")
    root = repository_root(folder)
    absolute = root / named.lstrip("/"), Path(named)
    positions = absolute if named.startswith("/") else (folder / named, root / named)
    path = next((path.resolve() for path in positions if path.is_file()), None)
    if path is None:
        raise node.fault(f"there is no file {named!r}", f"put it below {folder} or the repository's root")
    check_readable(path, node.location)
    try:
        return {**piece, "path": str(path), "text": path.read_text(encoding="utf-8")}
    except UnicodeDecodeError:
        return {**piece, "path": str(path)}
