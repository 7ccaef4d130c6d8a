"""AgentV's eval files, of both generations: cases with messages, expectations and graders of their own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from msgspec import structs
from pydantic import BeforeValidator, Field

from germane.addons.agentv.graderlists import GraderLists, Graders, Rubrics
from germane.addons.agentv.messages import input_files, messages_at
from germane.clean import fold
from germane.errors import InputError, Invalid, SourceLocation
from germane.evalfiles import (
    Case,
    EvalFile,
    GraderSpec,
    Trials,
    by_name,
    content_text,
    spec_of,
)
from germane.samples import SPELLINGS, RowReader, Warn, only_contexts
from germane.samples.contexts import DocumentIds, document_ids
from germane.samples.files import (
    check_readable,
    read_json_lines,
    without_scheme,
)
from germane.types import FrozenDict, Json, Message
from germane.yamltext import (
    Flag,
    JsonMapping,
    Keys,
    Node,
    Share,
    Texts,
    as_list,
    names_of,
    node_of,
    read_model,
    with_variables,
)

_UNREAD = {
    "workspace": "nothing is set up: let the target's command make its workspace",
    "preprocessors": "convert the files in the target, or in a code_judge: graders read text",
    "suite": "write tags: [NAME]",
    "dependson": "cases run on their own: remove it, or make them one case",
    "ondependencyfailure": "cases run on their own: remove it",
    "defaulttest": "write defaults: {...}",
    "threshold": "write execution: {threshold: 0.8}: the least score of each case",
    "workers": "germane run --jobs N",
    "cache": "remove it: answers of judges are kept in the ledger, --no-cache asks again",
    "budgetusd": "germane run --max-cost DOLLARS",
    "failonerror": "germane run --max-unmeasured 0",
}
"""Keys of AgentV that have no meaning here, and what to write instead."""
_TURNS = "a conversation of several turns is not run"


class Execution(GraderLists):
    """The settings of `execution:` of a file or a case.

    Attributes:
        target: The system to ask, by its name in the targets file.
        targets: Several systems to ask: they are compared.
        trials: Query each case so many times; `{count: 3}` too.
        threshold: Gate on the score of each case.
        skip_defaults: Of a case: the file's graders do not apply to it.
    """

    what = "execution"
    unread: ClassVar = {key: fix for key, fix in _UNREAD.items() if key != "threshold"}

    target: str | None = None
    targets: Annotated[tuple[str, ...], BeforeValidator(as_list)] = ()
    trials: Trials | None = None
    threshold: Share | None = None
    skip_defaults: Flag = False


def _defaults(value: Any) -> Any:
    if isinstance(value, Node) and value.pairs is None:
        raise Invalid("is not a mapping", "write defaults: {tags: [tax]}")
    return value


_ASKED = ("question", "query", "inputmessages", "input")
_CASES = ("evalcases", "tests", "cases", "samples")


class AgentVFile(EvalFile, GraderLists):
    """One eval file of AgentV's: `measures` are the graders that apply to every case and to every sample of `data`.

    Attributes:
        dataset: A name for the cases.
        compatibility: `agentv` gives the values of AgentV 2.1 where they differ.
        execution: AgentV's place for `target`, `trials`, `threshold` and `evaluators`.
        defaults: Defaults for keys of cases.
        vars: Values of `{{name}}` in the texts of cases; a case's own `vars` go first.
        metadata: Metadata of every case.
        input: Messages before those of every case.
        input_files: Files that every case comes with.
    """

    unread = _UNREAD
    aliases: ClassVar = {**EvalFile.aliases, **GraderLists.aliases}
    computed = ("path", "cases", "targets", "threshold")
    nodes = ("defaults", "input")  # until the case is read that gets them
    ignored = (*EvalFile.ignored, *_CASES)

    measures: Graders = ()
    dataset: str | None = None
    compatibility: Literal["agentv"] | None = None
    execution: Execution = Field(default_factory=Execution)
    defaults: Annotated[Any, BeforeValidator(_defaults)] = None
    vars: JsonMapping = FrozenDict()
    metadata: JsonMapping = FrozenDict()
    input: Any = None
    input_files: Texts = ()


def read_file(
    path: Path, root: Node, parsed: Callable[[Path], Node], warn: Warn | None, faults: list[InputError]
) -> EvalFile:
    """Return the content of an eval file with cases; what is wrong is added to the faults."""
    folder = path.resolve().parent
    root, inline, replaced = _cases_apart(root, folder, parsed)
    file = read_model(AgentVFile, root, faults, folder=folder, warn=warn)
    graders = by_name((*file.graders(faults), *file.execution.graders(faults)), faults)
    target = file.target or file.execution.target
    file = file.model_copy(
        update={
            "path": path,
            "measures": graders,
            "target": target,
            "targets": file.execution.targets or tuple(filter(None, [target])),
            "trials": file.trials or file.execution.trials,
            "threshold": file.execution.threshold,
        }
    )
    result: list[tuple[Node, Case]] = []
    for number, node in enumerate(inline, 1):
        try:
            result.append((node, _case(node, number, file, warn, faults, replaced=replaced)))
        except InputError as fault:
            faults.append(fault)
    ids = DocumentIds(SourceLocation(str(path)), warn, document_ids(file.doc_id) if file.doc_id else None)
    samples = [sample for node, case in result for sample in ids.add(case.sample, node.json)]
    samples += ids.rest()
    cases = tuple(replace(case, sample=sample) for (_, case), sample in zip(result, samples, strict=True))
    _check_ids(cases, faults)
    return file.model_copy(update={"cases": cases})


def _cases_apart(root: Node, folder: Path, parsed: Callable[[Path], Node]) -> tuple[Node, list[Node], bool]:
    """Return the file, its cases, and whether their graders replace the file's; a file of samples is returned with `data`.

    Cases stand in the file, or in files that it names.
    """
    pairs = {key: inner for key, inner in (root.pairs or {}).items() if not inner.is_null()}
    keys = [key for key in pairs if fold(key) in _CASES]
    if len(keys) > 1:
        raise pairs[keys[1]].fault("the file has two lists of cases", "keep one of them")
    if not keys:
        return root, [], False
    node, replaced = pairs[keys[0]], fold(keys[0]) == "evalcases"
    if node.text is not None:
        cases = _cases_in(node, folder, parsed) if fold(keys[0]) != "samples" else None
        if cases is not None:
            return root, cases, replaced
        if "data" in pairs:
            raise node.fault("the file names samples twice", "name all of them under data: [...]")
        places = {**root.keys, "data": root.keys[keys[0]]}
        return replace(root, pairs={**pairs, "data": node}, keys=places), [], False
    if node.items is None:
        raise node.fault(f"the cases are {node.kind}", "write a list: - id: ...")
    inline: list[Node] = []
    for item in node.items:
        named = (item.text or "").startswith("file://")
        cases = _cases_in(item, folder, parsed) if named else [item]
        if cases is None:
            raise item.fault(f"{item.text} holds no cases", "write data: FILE for samples")
        inline += cases
    return root, inline, replaced


def _cases_in(node: Node, folder: Path, parsed: Callable[[Path], Node]) -> list[Node] | None:
    """Return the cases in the files that a text names, in YAML or JSON Lines; None where these are files of samples.

    It names a file, several (`cases/*.yaml`), or a folder with a case.yaml in each of its folders.
    """
    name = without_scheme(node.text or "")
    paths = sorted(folder.glob(name)) if any(sign in name for sign in "*?[") else [folder / name]
    cases: list[Node] = []
    for path in (file for found in paths for file in (sorted(found.glob("*/case.y*ml")) or [found])):
        if not path.exists():
            raise node.fault(f"no file {name!r} in {folder}", "check the path")
        if path.suffix in {".jsonl", ".ndjson"} and path.is_file():
            cases += [node_of(value, place) for place, value in read_json_lines(path)]
            continue
        if path.suffix not in {".yaml", ".yml"} or not path.is_file():
            return None
        root = parsed(path)
        one_case = path.stem == "case" and root.pairs is not None
        inside = [root] if one_case else root.items or (root.pairs or {}).get("tests", root).items
        if inside is None:
            raise root.fault("this file holds no list of cases", "write - id: ...")
        cases += inside
    if not cases:
        raise node.fault(f"{name} holds no cases", "check the path")
    return cases


class CaseEntry(GraderLists):
    """One case as it is written: the graders of its own, its messages, and every other key as a node.

    Attributes:
        id: Its name; else its number.
        question: The query; else the last message of a user.
        input_messages: Messages to the system: `{role, content}`, or a text.
        expected_messages: Expected answer; the last one's content is the reference.
        criterion: What a good answer does.
        reference_answer: The reference, where no message gives it.
        conversation_id: Cases of one conversation share it.
        target: The system to ask for this case.
        rubrics: Statements that must be true of the answer; one grader, asked of a model.
        metadata: Anything; slices and targets may read it.
        vars: Values of `{{name}}` in the texts of this case, other than graders'.
        input_files: Files that the case comes with, relative to the eval file.
        execution: `target`, `evaluators`, `threshold` and `skip_defaults` of this case.
    """

    what = "a case"
    unread = _UNREAD
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
    vars: JsonMapping = FrozenDict()
    input_files: Texts = ()
    execution: Execution | None = None
    others: dict[str, Node] = Field(default_factory=dict)

    @classmethod
    def complete(cls, keys: Keys) -> None:
        """Read keys that are no field as fields of a sample; one close to any of these is a fault, another is metadata."""
        keys.values["others"] = keys.others
        for key in keys.others:
            location = keys.node.keys[key]
            if fold(key) == "turns":
                fix = "write a case for each turn, with the messages before it under input:"
                raise InputError(_TURNS, fix=fix, place=location)
            if key not in SPELLINGS and key != "note":
                instead = cls.unread.get(fold(key))
                if instead is not None or not keys.refuse(key, (*SPELLINGS, *cls.spellings())):
                    problem = f"a case has no key {key!r}: it is kept as metadata"
                    keys.warn(problem, instead or "put it under metadata:", location)


def _case(
    node: Node, number: int, file: AgentVFile, warn: Warn | None, faults: list[InputError], *, replaced: bool
) -> Case:
    """Return one case; without an id it gets `number`. Faults are appended where reading can go on."""
    folder, before = file.path.resolve().parent, len(faults)
    node = _completed(node, file)
    entry = read_model(CaseEntry, node, faults, folder=folder, warn=warn)
    execution = entry.execution or Execution()
    shared = not execution.skip_defaults
    asked = messages_at(entry.input_messages, "user", folder)
    if shared:
        asked = (*messages_at(file.input, "user", folder), *asked)
    expected = messages_at(entry.expected_messages, "assistant", folder)
    last = next((message.content for message in reversed(expected) if message.content is not None), None)
    users = [at for at, message in enumerate(asked) if message.role == "user"]
    query = entry.question or (content_text(asked[users[-1]].content) if users else "")
    others = {key: inner.json() for key, inner in entry.others.items()}
    fields = {key: value for key, value in others.items() if key in SPELLINGS}
    more = {key: value for key, value in others.items() if key not in SPELLINGS}
    metadata = {**file.metadata, **entry.metadata, **more}
    row: dict[str, Json] = {
        "id": entry.id or str(number),
        "query": query or None,
        "criterion": entry.criterion,
    }
    row |= {**fields, "metadata": metadata}
    if not any(SPELLINGS[key] == "reference" and row[key] is not None for key in fields):
        row["reference"] = (
            entry.reference_answer or ("" if only_contexts(last) else content_text(last)) or None
        )
    if not query and all(SPELLINGS[key] != "query" for key in fields):
        if len(faults) == before or not any(fold(key) in _ASKED for key in node.pairs or {}):
            faults.append(node.fault("a case has no query", 'write query: "the question that was asked"'))
        row["query"] = "-"
    reader = RowReader(warn=warn)
    try:
        sample = reader.read(row, number, node.at)
    except InputError:
        faults += reader.faults_of(row, number, node.at)
        sample = reader.read({"id": row["id"], "query": "-"}, number, node.at)
    history = tuple(message for message in asked[: users[-1] if users else 0] if message.role != "system")
    if history and not sample.history:
        sample = structs.replace(sample, history=history)
    guidelines, files = input_files(asked)
    named = (*(file.input_files if shared else ()), *entry.input_files)
    for name in named:  # the target gets them
        check_readable(folder / name, node.location)
    return Case(
        sample=sample,
        graders=_graders(entry, file, node.location, faults, replaced=replaced),
        target=entry.target or execution.target,
        threshold=file.threshold if execution.threshold is None else execution.threshold,
        location=node.location,
        question=query,
        expected_outcome=entry.criterion or "",
        reference_answer=entry.reference_answer or content_text(last),
        input_messages=asked or (Message(role="user", content=query),),
        expected_messages=expected,
        guideline_files=guidelines,
        input_files=tuple(dict.fromkeys((*files, *(str((folder / name).resolve()) for name in named)))),
        conversation_id=entry.conversation_id,
        metadata=sample.metadata,
    )


_OF_GRADERS = frozenset(map(fold, ("vars", "defaults", "execution", "rubrics", *GraderLists.spellings())))


def _completed(node: Node, file: AgentVFile) -> Node:
    """Return the case with the file's defaults, and with values in place of its variables.

    The texts of graders stay as they are: their variables stand for the answer.
    """
    if node.pairs is None:
        return node
    names = names_of(CaseEntry)
    own = {names.get(fold(key), key) for key in node.pairs}
    usual = (file.defaults.pairs or {}) if isinstance(file.defaults, Node) else {}
    nodes = {key: inner for key, inner in usual.items() if names.get(fold(key), key) not in own}
    pairs = {**nodes, **node.pairs}
    own_values = pairs["vars"].json() if "vars" in pairs else None
    values = {**file.vars, **(own_values if isinstance(own_values, dict) else {})}
    for key, pair in pairs.items() if values else ():
        if fold(key) not in _OF_GRADERS:
            pairs[key] = with_variables(pair, values)
    return replace(node, pairs=pairs, keys={**{key: file.defaults.keys[key] for key in nodes}, **node.keys})


def _graders(
    entry: CaseEntry, file: AgentVFile, location: SourceLocation, faults: list[InputError], *, replaced: bool
) -> tuple[GraderSpec, ...]:
    """Return the graders of a case: its own and the file's; under `evalcases` its own alone, where it has any (`replaced`).

    A case without any that says what a good answer does is graded by a model.
    """
    execution = entry.execution or Execution()
    own = by_name((*entry.graders(faults), *execution.graders(faults)), faults)
    if not (execution.skip_defaults or (own and replaced)):
        names = {grader.name for grader in own}
        own = (*(grader for grader in file.measures if grader.name not in names), *own)
    specs = by_name((*own, *entry.rubrics), faults)
    if not specs and entry.criterion:  # AgentV asks a model whether the answer does what the case says
        return (spec_of(node_of({"type": "llm_judge"}, location)),)
    return specs


def _check_ids(cases: tuple[Case, ...], faults: list[InputError]) -> None:
    seen: dict[tuple[str, str, int], Case] = {}
    for case in cases:
        first = seen.setdefault((case.sample.id, case.sample.system, case.sample.trial), case)
        if first is not case:
            line = first.location.line if first.location else 0
            problem = f"the case {case.sample.id!r} is there already, on line {line}"
            faults.append(InputError(problem, fix="give each case its own id", place=case.location))
