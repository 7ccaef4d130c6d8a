"""Eval files: our own shape, and the dialects that add-ons read, with the line and column of every fault."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, PlainValidator, ValidationInfo

from germane.addons import absent, all_of, load
from germane.clean import fold
from germane.errors import InputError, Invalid, SourceLocation, describe
from germane.evalfiles.case import Case
from germane.samples.files import Notices, Warn, read_text, without_scheme
from germane.samples.rows import check_columns
from germane.types import FrozenDict, Json, freeze
from germane.yamltext import (
    Count,
    Node,
    Scalar,
    YamlModel,
    as_list,
    folder_of,
    parse_yaml,
    read_model,
    with_environment,
)

_NAMES = re.compile(r"(?:[^\s()]|\([^()]*\))+")


def _below(value: Any, info: ValidationInfo) -> Path:
    if not isinstance(value, str | Path):
        raise Invalid(f"is {describe(value)}", "write a path")
    return (folder_of(info) / without_scheme(str(value))).resolve()


def _existing(value: Any, info: ValidationInfo) -> Path:
    path = _below(value, info)
    if not path.exists():
        raise Invalid(f"is wrong: no file {str(value)!r} in {folder_of(info)}", "check the path")
    return path


@dataclass(frozen=True, slots=True, kw_only=True)
class GraderSpec:
    """One grader as written in an eval file: a mapping, or the name of a measure; it is resolved later.

    `named` says whether `name` was written; else it is the type, with what is looked for.
    """

    name: str
    node: Node
    spec: Json
    has_name: bool = False


def spec_of(node: Node) -> GraderSpec:
    """Return the grader of one entry of a list of graders."""
    if node.pairs is None:
        if node.text is None or node.is_null():
            raise node.fault(f"a grader is {node.kind}", "write type: context_precision@5")
        return GraderSpec(name=node.text, node=node, spec=node.text)
    pairs = node.pairs.items()
    texts = {fold(key): inner.text for key, inner in pairs if inner.text and not inner.is_null()}
    kind = texts.get("type")
    name = texts.get("name") or (texts.get("metric") if kind else None)
    usual = kind or texts.get("measure") or texts.get("metric") or "code_judge"
    usual = f"{usual}-{texts['value']}" if "value" in texts else usual
    return GraderSpec(name=name or usual, has_name=name is not None, node=node, spec=freeze(node.json()))


def grader_nodes(value: Any) -> list[Node]:
    """Return the nodes of a list of graders. Raises Invalid if an entry is no grader."""
    items = [item.node if isinstance(item, Scalar) else item for item in as_list(value)]
    for number, item in enumerate(items):
        if not isinstance(item, Node):
            raise Invalid(f"is {describe(item)}", "write type: context_precision@5", number)
    return items


def specs_of(nodes: Iterable[Node]) -> tuple[GraderSpec, ...]:
    """Return the entries of a list of graders; a text names measures, several with spaces between them."""
    grader_specs: list[GraderSpec] = []
    for node in nodes:
        names = _NAMES.findall(node.text or "") if node.pairs is None else []
        grader_specs += [
            GraderSpec(name=name, node=replace(node, text=name), spec=name) for name in names
        ] or [spec_of(node)]
    return tuple(grader_specs)


WRITTEN = tuple[str | dict[str, Any], ...]
"""What a list of graders is in a published schema."""
_Measures = Annotated[
    tuple[GraderSpec, ...],
    PlainValidator(lambda value: specs_of(grader_nodes(value)), json_schema_input_type=WRITTEN),
]


def by_name(graders: Iterable[GraderSpec], faults: list[InputError]) -> tuple[GraderSpec, ...]:
    """Return the graders under unique names: equal ones once; two different ones under one written name are a fault.

    Written names are kept; a name that follows from the type gets a number where it is taken.
    """
    listed = tuple(graders)
    written: dict[str, GraderSpec] = {}
    for grader in listed:
        if grader.has_name and written.setdefault(grader.name, grader).spec != grader.spec:
            problem = f"two graders are named {grader.name!r}"
            fault = InputError(problem, fix="give one of them another name", place=grader.node.location)
            if str(fault) not in map(str, faults):
                faults.append(fault)
    specs: dict[str, GraderSpec] = {}
    for grader in listed:
        name, number = grader.name, 1
        while not grader.has_name and (specs.get(name) or written.get(name, grader)).spec != grader.spec:
            number += 1
            name = f"{grader.name}-{number}"
        specs.setdefault(name, grader if name == grader.name else replace(grader, name=name))
    return tuple(specs.values())


def _gate(value: Any) -> tuple[str, SourceLocation]:
    if not isinstance(value, Scalar):
        raise Invalid(f"is {describe(value)}", "write a condition: lower(nDCG@10)>=0.7")
    return str(value), value.node.location


def _columns(value: Any) -> FrozenDict:
    if not isinstance(value, Node) or value.pairs is None:
        raise Invalid(f"is {describe(value)}", "write a mapping: query: Question")
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
            raise Invalid(f"is {describe(name)}", "write the name of a judge: openai:gpt-4o-mini", position)
    return " ".join(names)


class EvalFile(YamlModel):
    """One eval file. `measures` apply to every sample of `data`.

    `gates` are conditions as they stand (`lower(nDCG@10)>=0.7`) with their places; `columns` maps our field names
    to those of the data; `judge` are names with spaces between them; None everywhere = the file does not say.

    Attributes:
        measures: Measures by name (several in one text too), or with their options: `{measure: nDCG@10, required: 0.7}`.
        description: What the file is about.
        judge: `labels`, `gold`, `lexical`, `openai:gpt-4o-mini`, ...; several are a panel.
        repeat: Ask each judge so many times; the answers vote.
        batch: Passages of a query per request.
        reading: Whether one request asks all that concerns a text (`fused`), or one question (`single`).
        against: Judge relevance against; `auto`: the query, and the reference if there is one.
        gates: What must be reached, see gates.md: `lower(nDCG@10)>=0.7`.
        by: Slices to report, as `--by`.
        data: Files of samples, relative to this file.
        target: The system to ask, by its name in the targets file.
        trials: Query each case so many times.
        targets_file: The targets file; else targets.yaml is searched from this folder upwards.
        contexts_from: Where the contexts in an answer are looked for; `text` splits it at blank lines.
        doc_id: A regular expression for the document id inside a chunk's id.
        columns: Our field names mapped to the data's: `{query: Question}`.
    """

    what = "an eval file"
    aliases: ClassVar = {"measures": ("metrics",), "targets_file": ("targets",)}
    computed: ClassVar[tuple[str, ...]] = ("path", "cases", "targets", "threshold", "compatibility")
    ignored: ClassVar[tuple[str, ...]] = (
        "name",
        "version",
        "tags",
        "author",
        "license",
        "requires",
        "category",
    )

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
    """Read and check an eval file; paths in the result are absolute.

    `${{ NAME }}` in it is taken from the environment. A file with a key of an add-on's dialect is read by that add-on. `warn` gets
    a Notice for each unknown key. Raises InputError with file, line and column, or appends all separate faults to `faults` if given
    and returns the valid part.
    """
    path = Path(path)
    warn = None if warn is None else Notices(warn)
    strict, faults = faults is None, [] if faults is None else faults

    def parsed(file: Path) -> Node:
        return with_environment(parse_yaml(read_text(file), str(file)), strict=strict)

    root = parsed(path)
    file = _reader_of(root)(path, root, parsed, warn, faults)
    if not file.cases and not file.data and not faults:
        what = "names no data" if type(file) is EvalFile else "has no cases and names no data"
        raise InputError(
            f"this file {what}", fix="write data: samples.jsonl", place=SourceLocation(str(path), 1, 1)
        )
    if strict and faults:
        raise faults[0]
    return file


EvalFileReader = Callable[[Path, Node, Callable[[Path], Node], Warn | None, list[InputError]], EvalFile]
"""A function that reads a dialect: the path, its root, a reader of further files, where notices and faults go."""


def _reader_of(root: Node) -> EvalFileReader:
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
            problem = f"{named}: is read by the add-on {owner}, which is not there"
            raise InputError(problem, fix="write measures: [...] and data: FILE", place=root.keys[named])
    return _read_own


def _read_own(
    path: Path, root: Node, _: Callable[[Path], Node], warn: Warn | None, faults: list[InputError]
) -> EvalFile:
    file = read_model(EvalFile, root, faults, folder=path.resolve().parent, warn=warn)
    update = {
        "path": path,
        "measures": by_name(file.measures, faults),
        "targets": tuple(filter(None, [file.target])),
    }
    return file.model_copy(update=update)
