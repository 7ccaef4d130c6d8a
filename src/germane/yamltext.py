"""Strict YAML as a tree of nodes with the line and column of every key and value.

Built from parser events: the usual loaders lose the places, keep the last of two equal keys, read `no` as False and expand
aliases without a limit. Values follow the core schema of YAML 1.2: only `true` and `false` are booleans, only decimal, `0o`
and `0x` are whole numbers. A scalar keeps its text for fields that want text.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, TypeVar

import yaml
from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    GetJsonSchemaHandler,
    PlainValidator,
    StrictBool,
    ValidationError,
    ValidationInfo,
    model_validator,
)
from pydantic_core import ErrorDetails

from germane.clean import fold
from germane.errors import InputError, Invalid, SourceLocation, collect_or_raise, describe
from germane.samples.files import Notice, check_trusted, location_in, nearest
from germane.types import MAX_DEPTH, FrozenDict, Json, Step, freeze

__all__ = [
    "Count", "Flag", "JsonMapping", "Keys", "Node", "Number", "Positive", "Scalar", "Share", "Texts", "WholeNumber", "YamlModel", "as_list",
    "fill_slots", "folder_of", "for_model", "names_of", "node_of", "parse_yaml", "plain", "plain_value", "read_model",
    "with_variables", "wrong_in",
]  # fmt: skip

_EXPANSION = 100_000
_CORE = "tag:yaml.org,2002:"
_TAGS = {None, "", "!", *(_CORE + kind for kind in ("str", "int", "float", "bool", "null", "map", "seq"))}
_NULLS = {"", "~", "null", "Null", "NULL"}
_WORDS: dict[str, bool | None] = {
    **dict.fromkeys(_NULLS),
    **{word: word.lower() == "true" for word in ("true", "True", "TRUE", "false", "False", "FALSE")},
}
_INTEGERS = {10: re.compile(r"[-+]?[0-9]+"), 8: re.compile(r"0o[0-7]+"), 16: re.compile(r"0x[0-9a-fA-F]+")}
_FLOAT = re.compile(
    r"[-+]?((\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?|\.(inf|Inf|INF|nan|NaN|NAN)|nan|inf)"
)
_CONTROL = re.compile("[^\x09\x0a\x0d\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_FIXES = {
    "mapping values are not allowed": "put quotes around a text that contains ': '",
    "could not find expected ':'": "write key: value, indented alike",
    "did not find expected key": "indent the keys of one mapping alike, and close every quote",
    "did not find expected '-' indicator": "indent the items of one list alike",
    "found character that cannot start any token": "put quotes around a text that starts with @, ` or %",
    "found unexpected end of stream": "close every quote and bracket",
}


@dataclass(slots=True)
class Node:
    """A YAML value: a scalar with its text, a list, or a mapping with the place of each key."""

    location: SourceLocation
    text: str | None = None
    plain: bool = False
    items: list[Node] | None = None
    pairs: dict[str, Node] | None = None
    keys: dict[str, SourceLocation] = field(default_factory=dict)
    size: int = 1
    spelt: dict[str, str] = field(default_factory=dict)
    """Maps the fields of the model that read this mapping to the keys that they were read from."""

    @property
    def kind(self) -> str:
        """The type of the value, or a short text itself, for messages."""
        if self.text is None:
            return "a mapping" if self.items is None else "a list" if self.items else "an empty list"
        return (
            "nothing" if self.is_null() else f"the text {self.text!r}"[:60] if self.text else "an empty text"
        )

    def is_null(self) -> bool:
        """Return True if it is empty, `~` or `null`."""
        return self.plain and self.text in _NULLS

    def fault(self, problem: str, fix: str) -> InputError:
        """Return an error at this value."""
        return InputError(problem, fix=fix, place=self.location)

    def json(self) -> Json:
        """Return the value as JSON. Raises InputError for a number that is not finite."""
        if self.pairs is not None:
            return {key: inner.json() for key, inner in self.pairs.items()}
        if self.items is not None:
            return [inner.json() for inner in self.items]
        text = self.text or ""
        if not self.plain or text in _WORDS:
            return _WORDS[text] if self.plain else text
        for base, pattern in _INTEGERS.items():
            if pattern.fullmatch(text) and len(text) < 4000:
                return int(text, base)
        if not _FLOAT.fullmatch(text):
            return text
        try:
            if math.isfinite(number := float(text)):
                return number
        except ValueError:  # .inf and .nan, as YAML writes them
            pass
        raise self.fault(f"{text[:40]} is not a finite number", "leave it out or put it in quotes")

    def at(self, path: Sequence[Step]) -> SourceLocation:
        """Return the place of the value at a path, or of the last value on the way that exists."""
        step = path[0] if path else None
        if isinstance(step, int) and self.items and step < len(self.items):
            return self.items[step].at(path[1:])
        if isinstance(step, str) and self.pairs and step in self.pairs:
            return self.pairs[step].at(path[1:]) if path[1:] else self.keys[step]
        return self.location

    def follow(self, path: Sequence[Step]) -> tuple[tuple[Step, ...], Node]:
        """Return the existing part of a path of field names as the file's own steps, and the node there."""
        node, steps = self, list[Step]()
        for step in path:
            inner: Node | None = None
            if isinstance(step, int) and node.items and step < len(node.items):
                inner = node.items[step]
            elif isinstance(step, str) and node.pairs is not None:
                step = node.spelt.get(step, step)  # noqa: PLW2901 - the key as it is written in the file
                inner = node.pairs.get(step)
            if inner is not None:
                node = inner
                steps.append(step)
        return tuple(steps), node

    def changed(self, change: Callable[[Node], Node]) -> Node:
        """Return a copy in which every scalar is changed."""
        if self.pairs is not None:
            return replace(self, pairs={key: inner.changed(change) for key, inner in self.pairs.items()})
        if self.items is not None:
            return replace(self, items=[inner.changed(change) for inner in self.items])
        return change(self)


def node_of(value: Json, location: SourceLocation) -> Node:
    """Return a JSON value as a node, all at one place."""
    if isinstance(value, Mapping):
        pairs = {str(key): node_of(inner, location) for key, inner in value.items()}
        return Node(location, pairs=pairs, keys=dict.fromkeys(pairs, location))
    if isinstance(value, list | tuple):
        return Node(location, items=[node_of(inner, location) for inner in value])
    if isinstance(value, str):
        return Node(location, text=value)
    return Node(location, text=json.dumps(value), plain=True)


_VARIABLE = re.compile(r"\$\{\{\s*([A-Za-z_][A-Za-z0-9_]*)\s*\}\}")
_SLOT = re.compile(r"\{\{\s*([A-Za-z_][A-Za-z0-9_.]*)\s*\}\}")


def with_environment(node: Node, environ: Mapping[str, str] | None = None, *, strict: bool = True) -> Node:
    """Replace every `${{ NAME }}` by the environment variable, or by its value in `environ`.

    Raises InputError for an unset variable (without `strict` it stays) and for a file that is not trusted.
    """
    variables = os.environ if environ is None else environ

    def filled(scalar: Node) -> Node:
        def value(match: re.Match[str]) -> str:
            name = match[1]
            if environ is None:
                check_trusted(f"the environment variable {name} would be read", scalar.location)
            if strict and name not in variables:
                raise scalar.fault(f"the environment variable {name} is not set", f"export {name}=...")
            return variables.get(name, match[0])

        text = scalar.text or ""
        return replace(scalar, text=_VARIABLE.sub(value, text)) if "${{" in text else scalar

    return node.changed(filled)


def unset_variables(node: Node, environ: Mapping[str, str]) -> list[str]:
    """Return a description of each variable in `${{ NAME }}` that the environment lacks."""
    names: dict[str, None] = {}

    def look(scalar: Node) -> Node:
        names.update(dict.fromkeys(_VARIABLE.findall(scalar.text or "")))
        return scalar

    node.changed(look)
    return [f"the environment variable {name} (it is not set)" for name in names if name not in environ]


def with_variables(node: Node, values: Mapping[str, Json]) -> Node:
    """Replace every `{{name}}` or `{{name.key}}` that `values` hold; others stay.

    A text that is only one of them becomes its value.
    """

    def changed(scalar: Node) -> Node:
        text = scalar.text or ""
        whole = _SLOT.fullmatch(text.strip())
        if whole and (value := _value_of(whole, values)) is not None:
            return node_of(value, scalar.location)
        return replace(scalar, text=fill_slots(text, values))

    return node.changed(changed)


def fill_slots(text: str, values: Mapping[str, Json], quote: Callable[[str], str] = str) -> str:
    """Replace every `{{name}}` that `values` hold in one pass, so that values are never expanded."""

    def replaced(slot: re.Match[str]) -> str:
        value = _value_of(slot, values)
        return slot[0] if value is None else quote(as_text(value))

    return _SLOT.sub(replaced, text)


def _value_of(slot: re.Match[str], values: Json) -> Json:
    for step in slot[1].split("."):
        values = values.get(step) if isinstance(values, Mapping) else None
    return values


def as_text(value: Json) -> str:
    """Return a text unchanged, and any other value as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def parse_yaml(text: str, file: str) -> Node:
    """Parse a YAML text that holds one document. Raises InputError."""
    if control := _CONTROL.search(text):
        location = location_in(file, text, control.start())
        problem = f"the character U+{ord(control[0]):04X} is not allowed in YAML"
        raise InputError(problem, fix="remove it", place=location)
    builder = _Builder(file)
    try:
        node = builder.document(yaml.parse(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader)))
    except yaml.MarkedYAMLError as error:
        raise _syntax(error, text, file) from None
    if node is None or node.is_null():
        fix = "write what to evaluate; see `germane init`"
        raise InputError("the file is empty", fix=fix, place=SourceLocation(file, 1, 1))
    return node


def _syntax(error: yaml.MarkedYAMLError, text: str, file: str) -> InputError:
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line, mark.column) if mark else (0, 0)
    lines = text.splitlines()
    written = lines[line] if line < len(lines) else ""
    problem = (error.problem or "unreadable").strip()
    fixes = (fix for start, fix in _FIXES.items() if problem.startswith(start))
    fix = next(fixes, "check the indentation and quotes")
    if "\t" in written[: len(written) - len(written.lstrip())] or written[column : column + 1] == "\t":
        fix = "indent with spaces: YAML allows no tabs there"
    return InputError(
        f"this is not YAML: {problem}", fix=fix, place=SourceLocation(file, line + 1, column + 1)
    )


class _Builder:
    """Builds nodes from events, with limits on depth and on the size of expanded aliases."""

    def __init__(self, file: str) -> None:
        self._file = file
        self._anchors: dict[str, Node] = {}
        self._unfolded = 0

    def document(self, events: Iterator[Any]) -> Node | None:
        """Return the root of the only document, or None."""
        root: Node | None = None
        for event in events:
            if isinstance(event, yaml.DocumentStartEvent) and root is not None:
                fix = "split it into one file a document"
                raise InputError("a second YAML document starts here", fix=fix, place=self._location(event))
            if isinstance(event, yaml.NodeEvent):
                root = self._node(event, events, 1)
        return root

    def _location(self, event: Any) -> SourceLocation:
        return SourceLocation(self._file, event.start_mark.line + 1, event.start_mark.column + 1)

    def _node(self, event: Any, events: Iterator[Any], depth: int) -> Node:
        """Return the node that begins with this event, at this depth. Raises InputError."""
        location = self._location(event)
        if isinstance(event, yaml.AliasEvent):
            return self._alias(str(event.anchor), location)
        if depth > MAX_DEPTH:
            raise InputError(
                f"nested more than {MAX_DEPTH} levels deep", fix="write it flatter", place=location
            )
        if event.tag not in _TAGS:
            tag = event.tag.replace(_CORE, "!!")
            raise InputError(
                f"the tag {tag} is not read", fix="write the value without a tag", place=location
            )
        if isinstance(event, yaml.ScalarEvent):
            if "\0" in event.value:  # escaped; no path, command or query can hold it
                raise InputError("the character U+0000 is not allowed", fix="remove it", place=location)
            plain = event.style in {None, ""} and event.tag not in {"!", f"{_CORE}str"}
            node = Node(location, text=event.value, plain=plain)
        elif isinstance(event, yaml.SequenceStartEvent):
            items: list[Node] = []
            while not isinstance(inner := next(events), yaml.SequenceEndEvent):
                items.append(self._node(inner, events, depth + 1))
            node = Node(location, items=items, size=1 + sum(item.size for item in items))
        else:
            node = self._mapping(events, depth, location)
        if event.anchor:
            self._anchors[event.anchor] = node
        return node

    def _alias(self, anchor: str, location: SourceLocation) -> Node:
        if anchor not in self._anchors:
            problem = f"*{anchor} refers to nothing above it"
            raise InputError(problem, fix=f"write &{anchor} before the value meant", place=location)
        node = self._anchors[anchor]
        self._unfolded += node.size
        if self._unfolded > _EXPANSION:
            raise InputError("the aliases unfold to too much", fix="write the values out", place=location)
        return node

    def _mapping(self, events: Iterator[Any], depth: int, location: SourceLocation) -> Node:
        pairs: dict[str, Node] = {}
        keys: dict[str, SourceLocation] = {}
        while not isinstance(event := next(events), yaml.MappingEndEvent):
            key = self._node(event, events, depth + 1)
            value = self._node(next(events), events, depth + 1)
            if key.text is None:
                raise key.fault(f"a key is {key.kind}", "write a text as the key")
            if key.text == "<<" and key.plain:
                raise key.fault("merge keys (<<) are not read", "write the keys out")
            if key.text in keys:
                problem = f"the key {key.text!r} is there twice, first on line {keys[key.text].line}"
                raise key.fault(problem, "keep one of the two")
            pairs[key.text], keys[key.text] = value, key.location
        return Node(location, pairs=pairs, keys=keys, size=1 + sum(value.size for value in pairs.values()))


class Scalar(str):
    """A scalar's text as pydantic sees it, with its node."""

    __slots__ = ("node",)
    node: Node


def for_model(node: Node) -> Any:
    """Return a node for pydantic: scalars as texts, lists as lists, mappings as nodes."""
    if node.items is not None:
        return [for_model(item) for item in node.items]
    if node.text is None:
        return node
    scalar = Scalar(node.text)
    scalar.node = node
    return scalar


def wrong_in(error: ValidationError) -> Invalid:
    """Return the first fault that pydantic found, with the name of the field as its path."""
    loc, wrong = all_faults(error)[0]
    return wrong.under(*loc[:1])


def all_faults(error: ValidationError) -> list[tuple[tuple[Step, ...], Invalid]]:
    """Return the faults that pydantic found, each with its path; of nested ones only the innermost."""
    results = list(map(_in_words, error.errors(include_url=False)))
    above = {loc[:depth] for loc, _ in results for depth in range(len(loc))}
    return [(loc, wrong) for loc, wrong in results if loc not in above]


def _in_words(fault: ErrorDetails) -> tuple[tuple[Step, ...], Invalid]:
    """Return the path and text of one of pydantic's faults."""
    loc, kind, context = fault["loc"], fault["type"], fault.get("ctx", {})
    if isinstance(cause := context.get("error"), Invalid):
        return loc, cause
    if kind == "missing":
        return loc, Invalid(f"has no {loc[-1]}", f'write "{loc[-1]}"')
    if kind == "extra_forbidden":
        return loc, Invalid("is not a known field here", "remove it or correct its name")
    fix = re.sub(r"^\w+ should", "it should", fault["msg"])
    return loc, Invalid(f"is {describe(fault['input'])}", fix)


def no_word(value: Json) -> Json:
    """Return the value. Raises Invalid for texts and booleans, which pydantic would convert to numbers."""
    if isinstance(value, str | bytes | bool):
        raise Invalid(f"is {describe(value)}", "write a number")
    return value


Number = Annotated[float, Field(allow_inf_nan=False), BeforeValidator(no_word)]


def plain_value(value: Any) -> Json:
    """Return the JSON value of a model's input: `no` as text, `0.5` as a number."""
    if isinstance(value, Scalar):
        return value.node.json()
    if isinstance(value, list):
        return [plain_value(item) for item in value]
    return value.json() if isinstance(value, Node) else value


def folder_of(info: ValidationInfo | Keys) -> Path:
    """Return the folder that paths in the file are relative to."""
    folder: Path = (info.context or {}).get("folder", Path())
    return folder


def as_list(value: Any) -> Any:
    """Return a single value as a list of one."""
    return list(value) if isinstance(value, list | tuple) else [value]


def _mapping(value: Any) -> FrozenDict:
    if not isinstance(value, Node | dict) or (isinstance(value, Node) and value.pairs is None):
        raise Invalid(f"is {describe(value)}", "write a mapping: key: value")
    frozen: FrozenDict = freeze(plain_value(value))
    return frozen


plain = BeforeValidator(plain_value)
Flag = Annotated[StrictBool, plain]
Positive = Annotated[Number, Field(ge=0.001), plain]
WholeNumber = Annotated[int, Field(strict=True, ge=0, lt=2**63), plain]
Count = Annotated[int, Field(strict=True, ge=1, lt=2**63), plain]
Share = Annotated[Number, Field(ge=0.0, le=1), plain]
Texts = Annotated[tuple[str, ...], BeforeValidator(as_list)]
JsonMapping = Annotated[FrozenDict, PlainValidator(_mapping, json_schema_input_type=dict[str, Any])]


@dataclass(slots=True)
class Keys:
    """The keys of a mapping that is being read: `values` by field name, `others` (unknown keys) as written. `what` names the mapping in errors."""

    what: str
    node: Node
    values: dict[str, Any]
    others: dict[str, Node]
    context: Mapping[str, Any]

    def warn(self, problem: str, fix: str, location: SourceLocation) -> None:
        """Pass a warning on to the context's `warn`, if there is one."""
        if (warn := self.context.get("warn")) is not None:
            warn(Notice(problem, fix, location))

    def refuse(self, key: str, names: Iterable[str], instead: str = "") -> bool:
        """Report a key that is close to a known one as a fault; return True if it is. `instead` extends the fix.

        Raises InputError where the context has no list of faults.
        """
        if (near := nearest(key, names)) is None:
            return False
        fix = f"did you mean {near!r}?{instead}"
        fault = InputError(f"{self.what} has no key {key!r}", fix=fix, place=self.node.keys[key])
        collect_or_raise(fault, self.context.get("faults"))
        return True


class YamlModel(BaseModel):
    """A mapping of a YAML file. Keys may be snake_case, camelCase or kebab-case; null counts as absent.

    Attributes:
        what: Names the mapping in messages.
        aliases: Other names of fields.
        text_field: The field that a text in place of the mapping sets.
        computed: Fields that no key may set.
        nodes: Fields that stay nodes.
        ignored: Known keys without effect.
        unread: Keys of AgentV, with what to write instead.
        refused: Keys (folded) of other tools that would change scores, and are an error.
        any_key: Warn about misspelt keys, instead of refusing them.

    The validation context has `folder` (which paths are relative to), `warn` (called with a Notice for every unknown key) and
    `faults` (a list of misspelt keys; without it they are raised).
    """

    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)
    what: ClassVar[str] = "this"
    aliases: ClassVar[Mapping[str, tuple[str, ...]]] = {}
    text_field: ClassVar[str] = ""
    computed: ClassVar[tuple[str, ...]] = ()
    nodes: ClassVar[tuple[str, ...]] = ()
    ignored: ClassVar[tuple[str, ...]] = ()
    unread: ClassVar[Mapping[str, str]] = {}
    refused: ClassVar[frozenset[str]] = frozenset()
    any_key: ClassVar[bool] = False

    @classmethod
    def complete(cls, keys: Keys) -> None:
        """Set computed values and handle unknown keys: a fault where one is close to a known key, else a warning."""
        for key in keys.others:
            if key.startswith(("$", "x-", "_")):
                continue
            if fold(key) in cls.refused:
                problem = f"{keys.what} has no key {key!r}: germane does not support it"
                fault = InputError(problem, fix="remove it", place=keys.node.keys[key])
                collect_or_raise(fault, keys.context.get("faults"))
                continue
            fix, names = cls.unread.get(fold(key)), (*cls.spellings(), *cls.ignored)
            if fix is None and cls.any_key and (near := nearest(key, names)):
                fix = f"did you mean {near!r}?"
            if fix is not None or not keys.refuse(key, names):
                keys.warn(
                    f"{keys.what} has no key {key!r}: it is ignored", fix or "remove it", keys.node.keys[key]
                )

    @classmethod
    def spellings(cls) -> dict[str, str]:
        """Map every accepted key to its field."""
        fields = [name for name in cls.model_fields if name not in cls.computed]
        return {spelling: name for name in fields for spelling in (name, *cls.aliases.get(name, ()))}

    @classmethod
    def __get_pydantic_json_schema__(cls, core: Any, handler: GetJsonSchemaHandler) -> dict[str, Any]:
        """Return the schema of the mapping, or of a text in its place."""
        schema = handler.resolve_ref_schema(handler(core))
        return {"anyOf": [schema["properties"][cls.text_field], schema]} if cls.text_field else schema

    @model_validator(mode="wrap")
    @classmethod
    def _read(cls, value: Any, handler: Callable[[Any], Self], info: ValidationInfo) -> Self:
        if isinstance(value, str) and cls.text_field:
            value = {cls.text_field: value}
        if isinstance(value, dict):
            names = names_of(cls)
            return handler({names.get(fold(str(key)), key): inner for key, inner in value.items()})
        if isinstance(value, cls):
            return handler(value)
        if not isinstance(value, Node) or value.pairs is None:
            raise Invalid(f"is {describe(value)}", "write a mapping: key: value")
        keys = cls._sorted(value, info.context or {})
        cls.complete(keys)
        return handler(keys.values)

    @classmethod
    def _sorted(cls, node: Node, context: Mapping[str, Any]) -> Keys:
        """Return the values of the fields and the unknown keys. Raises InputError for two keys of one field."""
        names = names_of(cls)
        ignored = {fold(key) for key in cls.ignored}
        values: dict[str, Any] = {}
        others: dict[str, Node] = {}
        seen: dict[str, str] = {}
        for key, inner in (node.pairs or {}).items():
            if (first := seen.setdefault(fold(key), key)) != key:
                problem = f"{first!r} and {key!r} are the same key"
                raise InputError(problem, fix="keep one of them", place=node.keys[key])
            name = names.get(fold(key))
            if name is None:
                if fold(key) not in ignored:
                    others[key] = inner
            elif not inner.is_null():
                if name in values:
                    problem = f"{node.spelt[name]!r} and {key!r} say the same thing"
                    raise InputError(problem, fix="keep one of them", place=node.keys[key])
                values[name], node.spelt[name] = inner if name in cls.nodes else for_model(inner), key
        return Keys(cls.what, node, values, others, context)


@cache
def names_of(model: type[YamlModel]) -> dict[str, str]:
    """Map every accepted key, folded, to its field."""
    return {fold(spelling): name for spelling, name in model.spellings().items()}


M = TypeVar("M", bound=YamlModel)


def read_model(model: type[M], node: Node, faults: list[InputError] | None = None, **context: Any) -> M:
    """Return the model of a mapping. Raises InputError with file, line and column at its first fault.

    All other faults are added to `faults`, if it is given.
    """
    try:
        return model.model_validate(node, context={**context, "faults": faults})
    except ValidationError as error:
        first, *others = (_error(model, node, loc, wrong) for loc, wrong in all_faults(error))
    if faults is not None:
        faults += others
    raise first


def _error(model: type[YamlModel], node: Node, loc: tuple[Step, ...], wrong: Invalid) -> InputError:
    steps, result = node.follow((*loc, *wrong.path))
    wrong.path = steps
    if not steps:
        wrong.problem = f"{model.what} {wrong.problem}"
    if loc and wrong.problem.endswith(f"has no {loc[-1]}"):
        field = model.model_fields.get(str(loc[-1])) if len(loc) == 1 else None
        wrong.fix = f"write {loc[-1]}: {field.examples[0] if field and field.examples else '...'}"
    return wrong.error(result.location)
