"""Eval files: our own shape and both generations of the AgentV shape, with the line and column of every fault."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, PlainValidator, ValidationInfo

from germane.errors import InputError, Place
from germane.samples.contexts import only_contexts
from germane.samples.files import Notice, Notices, Warn, fold, nearest, read_text
from germane.samples.messages import content_text, input_files, messages_at
from germane.samples.models import SPELLINGS
from germane.samples.rows import RowReader, check_columns
from germane.samples.validation import Wrong, say
from germane.samples.yamltext import (
    Flag,
    JsonMapping,
    Node,
    Plain,
    Positive,
    Scalar,
    Texts,
    Weight,
    WholeNumber,
    YamlModel,
    as_list,
    parse_yaml,
    plain_value,
    read_model,
)
from germane.types import FrozenDict, Json, Message, Sample, freeze

__all__ = ["Case", "EvalFile", "GraderSpec", "read_eval_file"]

_NAMES = re.compile(r"(?:[^\s()]|\([^()]*\))+")
REQUIRED = 0.8
"""The value of `required: true`: the score from which a case passes."""


def _required(value: Json) -> float | None:
    if value is None or isinstance(value, bool):
        return REQUIRED if value else None
    if not isinstance(value, int | float) or not 0 <= value <= 1:
        raise Wrong("is not between 0 and 1", "write true (0.8) or a number from 0 to 1")
    return float(value)


def _script(value: Any) -> Any:
    if isinstance(value, list | tuple):
        if not value:
            raise Wrong("is an empty list", "write [program, argument]")
        return tuple(map(_command_text, value))
    return _command_text(value)


def _command_text(value: Any) -> str:
    if not isinstance(value, str):
        raise Wrong(f"is {say(value)}", "write a command, or a list of texts")
    return str(value)


def _below(value: Any, info: ValidationInfo) -> Path:
    """A path relative to the eval file's folder."""
    if not isinstance(value, str | Path):
        raise Wrong(f"is {say(value)}", "write a path")
    return (_folder(info) / str(value)).resolve()


def _folder(info: ValidationInfo) -> Path:
    folder: Path = (info.context or {}).get("folder", Path())
    return folder


def _existing(value: Any, info: ValidationInfo) -> Path:
    path = _below(value, info)
    if not path.is_file():
        raise Wrong(f"is wrong: there is no file {str(value)!r} in {_folder(info)}", "check the path")
    return path


class GraderSpec(YamlModel):
    """One grader as an eval file describes it; what its `type` means is resolved upstream.

    `type` is a measure's name (`context_precision@5`) or a kind of grader (`code_judge`). `required` is the
    score that a case must reach (`true` in the file is 0.8; None = not required). `script` is a shell command
    or an argument list, run in `cwd`; `env` names variables passed on to it; `max_calls` (not None) gives it a
    judge with that many calls. `params` parametrise a measure; every key without a meaning here is in `config`.
    """

    what = "a grader"
    aliases: ClassVar = {
        "script": ("command",),
        "timeout": ("timeout_seconds",),
        "params": ("parameters",),
        "measure": ("metric",),
        "strict": ("strict_mode",),
    }
    computed = ("place",)

    name: str = ""
    type: str = ""
    measure: str = ""
    weight: Weight = 1.0
    required: Annotated[float | None, PlainValidator(_required), BeforeValidator(plain_value)] = None
    script: Annotated[str | tuple[str, ...], PlainValidator(_script)] | None = None
    cwd: Annotated[Path, PlainValidator(_below)] | None = None
    timeout: Positive = 120.0
    env: Texts = ()
    max_calls: WholeNumber | None = None
    strict: Flag = False
    expected_relevant_count: WholeNumber | None = None
    params: JsonMapping = Field(default_factory=FrozenDict)
    config: JsonMapping = Field(default_factory=FrozenDict)
    place: Place | None = None

    @classmethod
    def complete(
        cls, values: dict[str, Any], others: dict[str, Node], node: Node, info: ValidationInfo
    ) -> None:
        """Every unknown key is the grader's own configuration; `target: {max_calls: 5}` is a judge for a script."""
        target = others.pop("target", None)
        config = dict(plain_value(values.get("config")) or {}) | {
            k: other.json() for k, other in others.items()
        }
        if target is not None and target.pairs is not None:
            named = {fold(key): inner.json() for key, inner in target.pairs.items()}
            values["max_calls"] = named.get("maxcalls", 50)
        elif target is not None and not target.is_null():
            config["target"] = target.json()
        measure, name = values.pop("measure", ""), values.get("name", "")
        script = "code_judge" if "script" in values else ""
        values["type"] = values.get("type") or measure or script or name
        values["name"] = name or measure or values["type"]
        if not values["type"]:
            raise InputError(
                "this grader has no type", fix="write type: context_precision@5", place=node.place
            )
        values.setdefault("cwd", _folder(info))
        values |= {"config": config, "place": node.place}


def _listed(value: Any, info: ValidationInfo) -> Any:
    """An item of a list of graders: a mapping is read, a text stays for the list to interpret."""
    return value if isinstance(value, Scalar) else GraderSpec.model_validate(value, context=info.context)


def _measures(items: tuple[Any, ...], info: ValidationInfo) -> tuple[GraderSpec, ...]:
    """Texts are names of measures, several in one text too."""
    found: list[GraderSpec] = []
    for item in items:
        names = _NAMES.findall(item) if isinstance(item, Scalar) else []
        found += [GraderSpec(name=n, type=n, cwd=_folder(info), place=item.node.place) for n in names]
        found += [] if isinstance(item, Scalar) else [item]
    return tuple(found)


class RubricItem(YamlModel):
    """One item of a rubric with its defaults; other keys stay with it."""

    what = "a rubric"
    aliases: ClassVar = {"description": ("outcome", "criterion")}

    id: str = ""
    description: str = ""
    weight: Weight = 1.0
    required: Plain = True
    others: JsonMapping = Field(default_factory=FrozenDict)

    @classmethod
    def complete(
        cls, values: dict[str, Any], others: dict[str, Node], node: Node, info: ValidationInfo
    ) -> None:
        """The description is needed; unknown keys are kept."""
        del info
        if not values.get("description"):
            fix = "write description: what must be true"
            raise InputError("this rubric has no description", fix=fix, place=node.place)
        values["others"] = {key: other.json() for key, other in others.items()}


def _rubric(items: Any, info: ValidationInfo) -> GraderSpec:
    """Statements and items of a rubric as one grader, asked of a model."""
    rubrics: list[Json] = []
    for number, item in enumerate(items, 1):
        read = RubricItem(description=item) if isinstance(item, str) else RubricItem.model_validate(item)
        known = {"id": read.id or f"rubric-{number}", "description": read.description, "weight": read.weight}
        rubrics.append({**known, "required": read.required is not False, **read.others})
    place = items[0].node.place if isinstance(items[0], Scalar) else items[0].place
    config = freeze({"rubrics": rubrics})
    return GraderSpec(name="rubrics", type="llm_judge", cwd=_folder(info), config=config, place=place)


def _rubrics(items: Any, info: ValidationInfo) -> tuple[GraderSpec, ...]:
    return (_rubric(as_list(items), info),) if items else ()


def _assertions(items: tuple[Any, ...], info: ValidationInfo) -> tuple[GraderSpec, ...]:
    """In the newer generation's list a text is no measure's name, but something that must be true."""
    stated = [item for item in items if isinstance(item, Scalar)]
    graders = tuple(item for item in items if not isinstance(item, Scalar))
    return (*graders, _rubric(stated, info)) if stated else graders


_Items = tuple[Annotated[Any, PlainValidator(_listed)], ...]
Graders = Annotated[_Items, BeforeValidator(as_list), AfterValidator(_measures)]
Assertions = Annotated[_Items, BeforeValidator(as_list), AfterValidator(_assertions)]


class GraderLists(YamlModel):
    """The graders that a mapping lists, under any of the names for it."""

    aliases: ClassVar = {"measures": ("metrics",), "assertions": ("assert",)}

    measures: Graders = ()
    evaluators: Graders = ()
    assertions: Assertions = ()

    def graders(self) -> tuple[GraderSpec, ...]:
        """All of them, with names that differ."""
        return by_name((*self.measures, *self.evaluators, *self.assertions))


class Execution(GraderLists):
    """What `execution:` of a file or a case sets."""

    what = "execution"

    target: str | None = None
    skip_defaults: Flag = False


def by_name(graders: Iterable[GraderSpec]) -> tuple[GraderSpec, ...]:
    """The graders with names that differ: equal ones are one, two that differ are an error."""
    found: dict[str, GraderSpec] = {}
    for grader in graders:
        first = found.setdefault(grader.name, grader)
        if first.model_copy(update={"place": grader.place}) != grader:
            problem = f"two graders are named {grader.name!r}"
            raise InputError(problem, fix="give one of them another name", place=grader.place)
    return tuple(found.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case: the sample (its contexts None until a target answered), and all the graders that apply to it.

    `graders` is complete: those of the file are in it where they apply. `expected_outcome` is the sample's
    criterion, `reference_answer` the last expected message's content, as AgentV's scripts get it. File paths are
    absolute; guideline files are not input files.
    """

    sample: Sample
    graders: tuple[GraderSpec, ...] = ()
    target: str | None = None
    place: Place | None = None
    question: str = ""
    expected_outcome: str = ""
    reference_answer: str = ""
    input_messages: tuple[Message, ...] = ()
    expected_messages: tuple[Message, ...] = ()
    guideline_files: tuple[str, ...] = ()
    input_files: tuple[str, ...] = ()
    conversation_id: str | None = None
    metadata: FrozenDict = field(default_factory=FrozenDict)


def _gate(value: Any) -> tuple[str, Place]:
    if not isinstance(value, Scalar):
        raise Wrong(f"is {say(value)}", "write a condition: mean(nDCG@10)>=0.7")
    return str(value), value.node.place


def _columns(value: Any) -> FrozenDict:
    if not isinstance(value, Node) or value.pairs is None:
        raise Wrong(f"is {say(value)}", "write a mapping: query: Question")
    columns = {ours: theirs.text or "" for ours, theirs in value.pairs.items()}
    try:
        check_columns(columns)
    except InputError as error:
        raise error.at(value.place) from None
    return FrozenDict(columns)


def _judges(value: Any) -> str:
    names = as_list(value)
    for place, name in enumerate(names):
        if not isinstance(name, str):
            raise Wrong(f"is {say(name)}", "write the name of a judge: openai:gpt-4o-mini", place)
    return " ".join(names)


_CASES = ("evalcases", "tests", "cases", "samples")


class EvalFile(GraderLists):
    """One eval file. `measures` are the graders that apply to every case and to every sample of `data`.

    `gates` are conditions as they stand (`mean(nDCG@10)>=0.7`) with their places; `columns` maps our field names
    to those of the data; `judge` are names with spaces between them; None everywhere = the file does not say.
    """

    what = "an eval file"
    aliases: ClassVar = {**GraderLists.aliases, "targets_file": ("targets",)}
    computed = ("path", "cases")
    ignored = ("name", "version", "tags", "metadata", "author", "license", "requires", "category", *_CASES)

    path: Path = Path()
    cases: tuple[Case, ...] = ()
    description: str | None = None
    dataset: str | None = None
    judge: Annotated[str, PlainValidator(_judges)] | None = None
    repeat: Annotated[WholeNumber, Field(ge=1)] | None = None
    vote: Literal["majority", "mean"] | None = None
    batch: Annotated[WholeNumber, Field(ge=1)] | None = None
    reading: Literal["fused", "single"] | None = None
    against: Literal["auto", "query", "reference", "response"] | None = None
    gates: Annotated[
        tuple[Annotated[tuple[str, Place], PlainValidator(_gate)], ...], BeforeValidator(as_list)
    ] = ()
    data: Annotated[tuple[Annotated[Path, PlainValidator(_existing)], ...], BeforeValidator(as_list)] = ()
    target: str | None = None
    targets_file: Annotated[Path, PlainValidator(_below)] | None = None
    compatibility: Literal["agentv"] | None = None
    contexts_from: Literal["auto", "text"] = "auto"
    doc_id: str | None = None
    columns: Annotated[FrozenDict, PlainValidator(_columns)] = FrozenDict()
    execution: Execution = Execution()


_STAYS = (
    "a score that could not be measured stays missing and is no 0, a case's verdict decides nothing unless a grader "
    "is required, kinds of grader that germane does not run are left out"
)


def read_eval_file(path: str | Path, *, warn: Warn | None = None) -> EvalFile:
    """The content of an eval file, checked; paths in it are absolute afterwards.

    `warn` gets a Notice for each key that is not known. Raises InputError with file, line and column.
    """
    path = Path(path)
    folder = path.resolve().parent
    warn = None if warn is None else Notices(warn)
    root = parse_yaml(read_text(path), str(path))
    inline, listed, replaced = _where_cases_are(root)
    file = read_model(EvalFile, root, folder=folder, warn=warn)
    _warn_of_compatibility(root, warn)
    graders = by_name((*file.graders(), *file.execution.graders()))
    file = file.model_copy(
        update={
            "path": path,
            "measures": graders,
            "target": file.target or file.execution.target,
            "data": (*(_existing_at(node, folder) for node in listed), *file.data),
        }
    )
    cases = tuple(_case(node, number, file, warn, replaced=replaced) for number, node in enumerate(inline, 1))
    _check_ids(cases)
    if not cases and not file.data:
        fix = "write data: samples.jsonl, or cases under evalcases:"
        raise InputError("this file has no cases and names no data", fix=fix, place=Place(str(path), 1))
    return file.model_copy(update={"cases": cases})


def _where_cases_are(root: Node) -> tuple[list[Node], list[Node], bool]:
    """The cases in the file, the nodes that name files with more, and whether a case's graders replace the file's."""
    found = {
        fold(key): inner
        for key, inner in (root.pairs or {}).items()
        if fold(key) in _CASES and not inner.is_null()
    }
    if len(found) > 1:
        second = list(found.values())[1]
        raise InputError("the file has two lists of cases", fix="keep one of them", place=second.place)
    name, node = next(iter(found.items()), ("", None))
    if node is None:
        return [], [], False
    if node.text is not None:
        return [], [node], False
    if node.items is None:
        raise InputError(f"the cases are {node.kind}", fix="write a list: - id: ...", place=node.place)
    return node.items, [], name == "evalcases"


def _existing_at(node: Node, folder: Path) -> Path:
    path = (folder / (node.text or "")).resolve()
    if not path.is_file():
        raise InputError(
            f"there is no file {node.text!r} in {folder}", fix="check the path", place=node.place
        )
    return path


def _warn_of_compatibility(root: Node, warn: Warn | None) -> None:
    """Both shapes are read without it: whoever writes it is told what it does not change."""
    for key, place in root.keys.items():
        if fold(key) == "compatibility" and warn is not None:
            warn(Notice(f"compatibility: agentv changes nothing: {_STAYS}", "remove it", place))


class CaseEntry(GraderLists):
    """One case as it is written: the graders of its own, its messages, and every other key as a node."""

    what = "a case"
    aliases: ClassVar = {
        **GraderLists.aliases,
        "question": ("query",),
        "input_messages": ("input",),
        "expected_messages": ("expected_output",),
        "criterion": ("expected_outcome", "outcome", "criteria"),
    }
    computed = ("others",)

    id: str | None = None
    question: str | None = None
    input_messages: Any = None
    expected_messages: Any = None
    criterion: str | None = None
    reference_answer: str | None = None
    conversation_id: str | None = None
    target: str | None = None
    rubrics: Annotated[tuple[GraderSpec, ...], PlainValidator(_rubrics)] = ()
    metadata: JsonMapping = FrozenDict()
    execution: Execution | None = None
    others: dict[str, Node] = Field(default_factory=dict)

    @classmethod
    def complete(
        cls, values: dict[str, Any], others: dict[str, Node], node: Node, info: ValidationInfo
    ) -> None:
        """Unknown keys are fields of a sample, else metadata with a warning; messages stay nodes."""
        assert node.pairs is not None
        for name in ("input_messages", "expected_messages"):
            if name in values:
                values[name] = node.pairs[node.spelt[name]]
        values["others"] = others
        warn = (info.context or {}).get("warn")
        for key in others:
            if key not in SPELLINGS and key != "note" and warn is not None:
                near = nearest(key, [*SPELLINGS, *cls.spellings()])
                fix = f"did you mean {near!r}?" if near else "put it under metadata:"
                warn(Notice(f"a case has no key {key!r}: it is kept as metadata", fix, node.keys[key]))


def _case(node: Node, number: int, file: EvalFile, warn: Warn | None, *, replaced: bool) -> Case:
    """One case; `number` is its id where it has none."""
    folder = file.path.resolve().parent
    entry = read_model(CaseEntry, node, folder=folder, warn=warn)
    asked = messages_at(entry.input_messages, "user", folder)
    expected = messages_at(entry.expected_messages, "assistant", folder)
    query, history = _asked(entry.question, asked)
    last = next((message.content for message in reversed(expected) if message.content is not None), None)
    fields = {key: inner.json() for key, inner in entry.others.items() if key in SPELLINGS}
    more = {key: inner.json() for key, inner in entry.others.items() if key not in SPELLINGS}
    row: dict[str, Json] = {
        "id": entry.id or str(number),
        "query": query or None,
        "criterion": entry.criterion,
        **fields,
        "metadata": {**entry.metadata, **more},
    }
    if not any(SPELLINGS[key] == "reference" and row[key] is not None for key in fields):
        row["reference"] = (
            entry.reference_answer or ("" if only_contexts(last) else content_text(last)) or None
        )
    sample = RowReader(warn=warn).read(row, number, node.at)
    if history and not sample.history:
        sample = replace(sample, history=history)
    guidelines, files = input_files(asked)
    return Case(
        sample=sample,
        graders=_graders(entry, file, replaced=replaced),
        target=entry.target or (entry.execution.target if entry.execution else None) or file.target,
        place=node.place,
        question=query,
        expected_outcome=entry.criterion or "",
        reference_answer=entry.reference_answer or content_text(last),
        input_messages=asked or (Message(role="user", content=query),),
        expected_messages=expected,
        guideline_files=guidelines,
        input_files=files,
        conversation_id=entry.conversation_id,
        metadata=sample.metadata,
    )


def _graders(entry: CaseEntry, file: EvalFile, *, replaced: bool) -> tuple[GraderSpec, ...]:
    """The graders of a case: its own, with the file's; no mapping of its own voids the file's."""
    execution = entry.execution or Execution()
    own = by_name((*entry.graders(), *execution.graders()))
    if not (execution.skip_defaults or (own and replaced)):
        names = {grader.name for grader in own}
        own = (*(grader for grader in file.measures if grader.name not in names), *own)
    return by_name((*own, *entry.rubrics))


def _asked(question: str | None, messages: tuple[Message, ...]) -> tuple[str, tuple[Message, ...]]:
    """The query of a case, and the turns before it."""
    users = [index for index, message in enumerate(messages) if message.role == "user"]
    last = users[-1] if users else 0
    history = tuple(message for message in messages[:last] if message.role != "system")
    return question or (content_text(messages[last].content) if users else ""), history


def _check_ids(cases: tuple[Case, ...]) -> None:
    seen: dict[tuple[str, str, int], Case] = {}
    for case in cases:
        first = seen.setdefault((case.sample.id, case.sample.system, case.sample.trial), case)
        if first is not case:
            line = first.place.line if first.place else 0
            problem = f"the case {case.sample.id!r} is there already, on line {line}"
            raise InputError(problem, fix="give each case its own id", place=case.place)
