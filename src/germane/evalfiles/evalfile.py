"""Reads eval files, in germane's own form and in the dialects of add-ons.

An eval file is YAML that says what a run measures, on which data and with which judge. Errors name the line
and column.
"""

from __future__ import annotations

import fnmatch
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, PlainValidator, ValidationInfo

from germane.addons import absent, all_of, load
from germane.clean import fold
from germane.errors import InputError, Invalid, SourceLocation, describe
from germane.evalfiles.model import Count, Scalar, YamlModel, as_list, folder_of, read_model
from germane.samples.files import Notices, Warn, read_text
from germane.samples.rows import check_columns
from germane.types import FrozenDict, Json, Message, Sample, freeze
from germane.yamltext import Node, parse_yaml, with_environment

_ABOUT: tuple[str, ...] = ("name", "version", "tags", "author", "license", "requires", "category")
_NAMES = re.compile(r"(?:[^\s()]|\([^()]*\))+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One case of an eval file: its sample and its graders.

    The sample's contexts are None until a target answers. `graders` includes those of the whole file.
    `threshold` is the lowest score with which the case passes. `expected_outcome` is the sample's criterion,
    and `reference_answer` the content of the last expected message. File paths are absolute. `input_files`
    does not include the guideline files.
    """

    sample: Sample
    graders: tuple[Any, ...] = ()
    target: str | None = None
    threshold: float | None = None
    location: SourceLocation | None = None
    question: str = ""
    expected_outcome: str = ""
    reference_answer: str = ""
    input_messages: tuple[Message, ...] = ()
    expected_messages: tuple[Message, ...] = ()
    guideline_files: tuple[str, ...] = ()
    input_files: tuple[str, ...] = ()
    conversation_id: str | None = None
    metadata: Mapping[str, Any] = field(default_factory=FrozenDict)


def _below(value: Any, info: ValidationInfo) -> Path:
    if not isinstance(value, str | Path):
        fix = "write a path relative to this file: samples.jsonl"
        raise Invalid(f"is {describe(value)}, not a path", fix)
    return (folder_of(info) / str(value).removeprefix("file://")).resolve()


def _existing(value: Any, info: ValidationInfo) -> Path:
    path = _below(value, info)
    if not path.exists():
        problem = f"is {str(value)!r}, a file that does not exist in {folder_of(info)}"
        raise Invalid(problem, "write a path relative to the eval file")
    return path


@dataclass(frozen=True, slots=True, kw_only=True)
class GraderSpec:
    """One grader as written in an eval file: a mapping, or the name of a measure.

    Without a name in the file (`has_name`), `name` is the grader's type, followed by its `value` if any.
    """

    name: str
    node: Node
    spec: Json
    has_name: bool = False


def spec_of(node: Node) -> GraderSpec:
    """Return the GraderSpec of one entry in a list of graders. Raises InputError for another value."""
    if node.pairs is None:
        if node.text is None or node.is_null():
            raise node.fault(
                f"this grader is {node.kind}, not a mapping or a string", "write type: context_precision@5"
            )
        return GraderSpec(name=node.text, node=node, spec=node.text)
    pairs = node.pairs.items()
    texts = {fold(key): inner.text for key, inner in pairs if inner.text and not inner.is_null()}
    kind = texts.get("type")
    name = texts.get("name") or (texts.get("metric") if kind else None)
    usual = kind or texts.get("measure") or texts.get("metric") or "code_judge"
    usual = f"{usual}-{texts['value']}" if "value" in texts else usual
    return GraderSpec(name=name or usual, has_name=name is not None, node=node, spec=freeze(node.json()))


def grader_nodes(value: Any) -> list[Node]:
    """Return the YAML nodes of the entries in a list of graders, which are strings or mappings."""
    items = [item.node if isinstance(item, Scalar) else item for item in as_list(value)]
    for number, item in enumerate(items):
        if not isinstance(item, Node):
            raise Invalid(f"is {describe(item)}, not a grader", "write type: context_precision@5", number)
    return items


def specs_of(nodes: Iterable[Node]) -> tuple[GraderSpec, ...]:
    """Return the GraderSpecs of a list of graders; a string may name several measures."""
    grader_specs: list[GraderSpec] = []
    for node in nodes:
        names = _NAMES.findall(node.text or "") if node.pairs is None else []
        named = (GraderSpec(name=name, node=replace(node, text=name), spec=name) for name in names)
        grader_specs += named if names else [spec_of(node)]
    return tuple(grader_specs)


WRITTEN = tuple[str | dict[str, Any], ...]
"""The type of a list of graders in the JSON Schema of eval files."""
_Measures = Annotated[
    tuple[GraderSpec, ...],
    PlainValidator(lambda value: specs_of(grader_nodes(value)), json_schema_input_type=WRITTEN),
]


def by_name(graders: Iterable[GraderSpec], faults: list[InputError]) -> tuple[GraderSpec, ...]:
    """Return the graders without repeated ones.

    If the file gives two different graders the same name, an error is appended to `faults`.
    """
    written: dict[str, GraderSpec] = {}
    distinct: dict[tuple[str, Json], GraderSpec] = {}
    for grader in graders:
        if grader.has_name and written.setdefault(grader.name, grader).spec != grader.spec:
            problem = f"graders must have different names; {grader.name!r} occurs twice"
            fault = grader.node.fault(problem, "give each grader its own name")
            if str(fault) not in map(str, faults):
                faults.append(fault)
        distinct.setdefault((grader.name, grader.spec), grader)
    return tuple(distinct.values())


def _gate(value: Any) -> tuple[str, SourceLocation]:
    if not isinstance(value, Scalar):
        raise Invalid(f"is {describe(value)}, not a gate", "write a condition: lower(nDCG@10)>=0.7")
    return str(value), value.node.location


def _columns(value: Any) -> FrozenDict:
    if not isinstance(value, Node) or value.pairs is None:
        raise Invalid(f"is {describe(value)}, not a mapping", "write a mapping: {query: Question}")
    columns = {ours: theirs.text or "" for ours, theirs in value.pairs.items()}
    try:
        check_columns(columns)
    except InputError as error:
        raise error.at(value.location) from None
    return FrozenDict(columns)


Columns = Annotated[FrozenDict, PlainValidator(_columns, json_schema_input_type=dict[str, str])]


def _judges(value: Any) -> str:
    names = as_list(value)
    for position, name in enumerate(names):
        if not isinstance(name, str):
            fix = "write the judge as a string: openai:gpt-4o-mini"
            raise Invalid(f"is {describe(name)}, not the name of a judge", fix, position)
    return " ".join(names)


class EvalFile(YamlModel):
    """One eval file as read, with its cases.

    The measures apply to every sample in the files of `data`. A key that the file does not set has its
    default, in most cases None. Each gate is a string with its location. Several judges are one string,
    separated by spaces.

    Attributes:
        measures: Measures by name (also several in one string), or with options: `{measure: nDCG@10,
            required: 0.7}`.
        description: A description of the file for its readers.
        judge: The judge: `labels`, `gold`, `lexical`, `openai:gpt-4o-mini`, ...; several vote as a panel.
        repeat: How often to ask each judge each question; the answers vote.
        batch: The number of passages of a query per request.
        reading: `fused` asks all questions about a text in one request; `single` asks one question per
            request.
        against: What to judge relevance against; `auto` is the query, and the reference if there is one.
        gates: Conditions that the results must meet (see gates.md): `lower(nDCG@10)>=0.7`.
        by: The tag or field to report slices by, as `--by`.
        data: Files of samples, relative to this file.
        target: The system to query, by its name in the targets file.
        trials: How often to query each case.
        targets_file: The targets file. Default: the nearest targets.yaml in this folder or above.
        contexts_from: How to find the contexts in an answer; `text` splits the answer at blank lines.
        doc_id: A regular expression that finds the document's id in a chunk's id.
        columns: Maps germane's field names to those of the data: `{query: Question}`.
    """

    what = "an eval file"
    aliases: ClassVar = {"measures": ("metrics",), "targets_file": ("targets",)}
    computed: ClassVar[tuple[str, ...]] = ("path", "cases", "targets", "threshold", "compatibility")
    ignored = _ABOUT

    path: Path = Path()
    cases: tuple[Case, ...] = ()
    threshold: float | None = None
    measures: _Measures = ()
    description: str | None = None
    judge: Annotated[str, PlainValidator(_judges, json_schema_input_type=str | list[str])] | None = None
    repeat: Count | None = None
    batch: Count | None = None
    reading: Literal["fused", "single"] | None = None
    against: Literal["auto", "query", "reference", "response", "criterion"] | None = None
    gates: Annotated[
        tuple[Annotated[tuple[str, SourceLocation], PlainValidator(_gate, json_schema_input_type=str)], ...],
        BeforeValidator(as_list),
    ] = ()
    by: str | None = None
    data: Annotated[
        tuple[Annotated[Path, PlainValidator(_existing, json_schema_input_type=str)], ...],
        BeforeValidator(as_list),
    ] = ()
    target: str | None = None
    trials: Count | None = None
    targets_file: Annotated[Path, PlainValidator(_below, json_schema_input_type=str)] | None = None
    compatibility: Literal["agentv"] | None = None
    contexts_from: Literal["auto", "text"] = "auto"
    doc_id: str | None = None
    columns: Columns = FrozenDict()
    targets: tuple[str, ...] = ()


def read_eval_file(
    path: str | Path, *, warn: Warn | None = None, faults: list[InputError] | None = None
) -> EvalFile:
    """Read and check an eval file; a file with a key of an add-on's dialect is read by the add-on.

    Paths in the result are absolute, and `${{ NAME }}` is replaced by the environment variable. `warn` is
    called with a Notice for each unknown key. Raises InputError with file, line and column. If `faults` is
    given, all errors are appended to it instead, and the valid part of the file is returned.
    """
    path = Path(path)
    warn = None if warn is None else Notices(warn)
    strict, faults = faults is None, [] if faults is None else faults

    def parsed(file: Path) -> Node:
        return with_environment(parse_yaml(read_text(file), str(file)), strict=strict)

    root = parsed(path)
    if reader := _reader_of(root):
        file = reader(path, root, parsed, warn, faults)
    else:
        own = read_model(EvalFile, root, faults, folder=path.resolve().parent, warn=warn)
        targets = (own.target,) if own.target else ()
        measures = by_name(own.measures, faults)
        file = own.model_copy(update={"path": path, "measures": measures, "targets": targets})
    if not file.cases and not file.data and not faults:
        what = "names no data files" if type(file) is EvalFile else "has no cases and names no data files"
        place = SourceLocation(str(path), 1, 1)
        raise InputError(f"this eval file {what}", fix="write data: samples.jsonl", place=place)
    if strict and faults:
        raise faults[0]
    return file


def _reader_of(root: Node) -> EvalFileReader | None:
    """Return the reader of the add-on to whose dialect a key of the file belongs, or None.

    Raises InputError if that add-on is not installed.
    """
    keys = {fold(key): key for key, inner in (root.pairs or {}).items() if not inner.is_null()}
    ours = {fold(key) for key in (*EvalFile.spellings(), *EvalFile.ignored)}
    unknown = {key for key, named in keys.items() if not named.startswith(("$", "x-", "_"))} - ours
    for installed in (False, True) if unknown else (False,):
        for dialect in all_of("dialects", installed=installed).values():
            if not keys.keys().isdisjoint(map(fold, dialect.keys)):
                reader: EvalFileReader = load(dialect.read)
                return reader
    for key, named in keys.items():
        if owner := absent("dialects", key):
            problem = f"the key {named!r} needs the add-on {owner}, which is not installed"
            raise InputError(problem, fix="write measures: [...] and data: FILE", place=root.keys[named])
    return None


EvalFileReader = Callable[[Path, Node, Callable[[Path], Node], Warn | None, list[InputError]], EvalFile]
"""A function that reads a dialect of eval files.

Its arguments are the path, the root node, a function that parses further YAML files, the function for notices
(or None), and the list to which errors are appended.
"""


# the content of messages

_GUIDELINES = ("*.instructions.md", "*/instructions/*", "*.prompt.md", "*/prompts/*")


def is_guideline(path: str) -> bool:
    """Return True if a path is that of a guideline (instructions or a prompt) and not of an input file."""
    return any(fnmatch.fnmatch(path.replace("\\", "/"), pattern) for pattern in _GUIDELINES)


def content_text(content: Json) -> str:
    """Return a message's content as one string.

    Parts are separated by blank lines, without guideline files; objects are written as JSON.
    """
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list | tuple):
        return json.dumps(content, ensure_ascii=False)
    parts: list[str] = []
    for part in content:
        if isinstance(part, str):
            parts.append(part)
        elif not isinstance(part, dict) or "type" not in part:
            return json.dumps(content, ensure_ascii=False)
        elif part["type"] == "file":
            parts.append("" if is_guideline(str(part.get("path", ""))) else str(part.get("text", "")))
        else:
            text = part.get("value", part.get("text", ""))
            parts.append(text if isinstance(text, str) else json.dumps(text, ensure_ascii=False))
    return "\n\n".join(filter(None, parts))
